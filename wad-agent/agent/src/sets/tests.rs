use std::{fs, time::Duration};

use tokio::time::timeout;
use wad_policy::config::{Config, testing::host};

use super::*;
use crate::sources::testing::server::{Reply, Server};

const LIMIT: Duration = Duration::from_secs(10);

fn config(text: &str) -> Config {
    Config::parse("wad.toml", text, &host()).unwrap_or_else(|error| panic!("{error}"))
}

/// A path for all sets of a configuration, and one for few ports of them.
fn with_paths(sets: &str, names: &str) -> Config {
    let path = |name, rest| {
        format!("[[path]]\nname = '{name}'\nremote_set = {names}\nsndbuf = '1MiB'\n{rest}\n")
    };
    config(&[sets, &path("all", ""), &path("ports", "remote_port = [1, 3, 5]")].concat())
}

fn cache() -> (tempfile::TempDir, Cache) {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::new(folder.path(), "a");
    (folder, cache)
}

fn filled(sets: &mut Sets, config: &Config) -> Vec<String> {
    let mut paths = config.paths.clone();
    sets.fill(&mut paths, &config.host);
    paths[0].remote.iter().map(ToString::to_string).collect()
}

fn no_flows() -> InUse {
    Arc::new(|_| Some(std::collections::HashSet::new()))
}

/// Says so of a list of texts.
fn news(place: usize, list: &[&str]) -> News {
    let list = list.iter().map(|net| net.parse().unwrap()).collect();
    News { place, list: Ok(list) }
}

fn failing(sets: &Sets) -> Vec<bool> {
    locked(&sets.told()).iter().map(|set| set.failing.is_some()).collect()
}

#[tokio::test]
async fn a_list_that_does_not_count_leaves_the_one_before() {
    let (folder, cache) = cache();
    let file = folder.path().join("list");
    fs::write(&file, "10.0.0.0/8\n").unwrap();
    let config = with_paths(&format!("[[set]]\nname = 's'\nfile = '{}'\n", file.display()), "'s'");
    let mut sets = Sets::new(&config.sets, cache.clone(), None);
    sets.start(&no_flows());
    assert_eq!(filled(&mut sets, &config), ["10.0.0.0/8"]);
    let of_file = (config.paths.as_slice(), &config.host);

    let wrong = || Err(config.sets[0].read_list(b"# none\n").unwrap_err().into());
    assert!(sets.hear(News { place: 0, list: wrong() }, of_file).is_none());
    assert_eq!(
        (filled(&mut sets, &config), failing(&sets)),
        (vec!["10.0.0.0/8".into()], [true].into())
    );
    // The same again is no change.
    assert!(sets.hear(news(0, &["10.0.0.0/8"]), of_file).is_none());
    assert_eq!(failing(&sets), [false]);

    let before = sets.hear(news(0, &["10.0.0.0/8", "11.0.0.0/8"]), of_file).unwrap();
    assert_eq!(sets.name(&before), "s");
    assert_eq!(filled(&mut sets, &config).len(), 2);
    let reason = "no room".to_owned();
    sets.put_back(before, &SetError::NotInForce { reason });
    assert_eq!((filled(&mut sets, &config).len(), failing(&sets)), (1, vec![true]));

    let before = sets.hear(news(0, &["12.0.0.0/8"]), of_file).unwrap();
    sets.is_in_force(&before);
    assert_eq!(
        (filled(&mut sets, &config), failing(&sets)),
        (vec!["12.0.0.0/8".into()], [false].into())
    );

    // Another agent finds the file gone, and what was kept of it.
    fs::remove_file(&file).unwrap();
    let restarted = || {
        let mut sets = Sets::new(&config.sets, cache.clone(), None);
        filled(&mut sets, &config)
    };
    let is_kept = async {
        while restarted() != ["12.0.0.0/8"] {
            tokio::time::sleep(Duration::from_millis(5)).await
        }
    };
    timeout(LIMIT, is_kept).await.expect("it is written down");
    let held = without_agent(&config.sets, folder.path(), "a");
    assert_eq!(held["s"].len(), 1);
    // A file that is back counts, whatever was kept.
    fs::write(&file, "10.0.0.0/8\n11.0.0.0/8").unwrap();
    assert_eq!(restarted().len(), 2);
    assert_eq!(without_agent(&config.sets, folder.path(), "a")["s"].len(), 2);
}

#[tokio::test]
async fn what_is_known_holds_on_at_a_reload() {
    let (folder, cache) = cache();
    let file = folder.path().join("list");
    fs::write(&file, "10.0.0.0/8\n").unwrap();
    let url = "[[set]]\nname = 'u'\nurl = 'http://127.0.0.1:1'\n";
    let both = format!("{url}[[set]]\nname = 'f'\nfile = '{}'\n", file.display());
    let before = with_paths(&both, "['u', 'f']");
    let mut sets = Sets::new(&before.sets, cache.clone(), None);
    let of_file = (before.paths.as_slice(), &before.host);
    let change = sets.hear(news(0, &["11.0.0.0/8"]), of_file).unwrap();
    sets.is_in_force(&change);
    fs::write(&file, "12.0.0.0/8\n").unwrap();

    let after = Sets::new(&before.sets, cache.clone(), Some(&sets));
    assert_eq!(after.prefixes()["u"][0].to_string(), "11.0.0.0/8");
    assert_eq!(after.prefixes()["f"][0].to_string(), "12.0.0.0/8");
    // A set of another place is another, whatever its name.
    let elsewhere = with_paths(&url.replace("127.0.0.1", "127.0.0.2"), "'u'");
    let after = Sets::new(&elsewhere.sets, cache, Some(&sets));
    assert!(after.prefixes().is_empty());
}

#[tokio::test]
async fn a_list_that_does_not_fit_with_the_others_is_left_out() {
    let (folder, cache) = cache();
    let mut text = String::new();
    // Four rules by each, on prefixes within one another: sixteen are the most.
    for n in 0..5 {
        let file = folder.path().join(n.to_string());
        fs::write(&file, format!("10.0.0.0/{}\n", 8 + n)).unwrap();
        text += &format!("[[set]]\nname = '{n}'\nfile = '{}'\n", file.display());
    }
    let config = with_paths(&text, "['0', '1', '2', '3', '4']");
    let mut sets = Sets::new(&config.sets, cache, None);
    assert_eq!(filled(&mut sets, &config).len(), 4);
    sets.start(&no_flows());
    assert_eq!(failing(&sets), [false, false, false, false, true]);
    let of_file = (config.paths.as_slice(), &config.host);
    assert!(sets.hear(news(4, &["10.0.0.0/16"]), of_file).is_none());
    let told = locked(&sets.told())[4].failing.clone().unwrap();
    assert!(told.starts_with("20 rules of paths apply to one address"), "{told}");
    let beside = sets.hear(news(4, &["11.0.0.0/16"]), of_file).unwrap();
    sets.is_in_force(&beside);
    assert_eq!((filled(&mut sets, &config).len(), failing(&sets)), (5, vec![false; 5]));
}

#[tokio::test]
async fn a_url_is_asked_and_a_file_looked_at() {
    let server = Server::start(|head| {
        if head.starts_with("GET /ranges.json ") {
            let body = r#"{"prefixes": [{"ip_prefix": "10.0.0.0/8"}]}"#;
            Reply::Whole("200 OK", "application/json", body.to_owned())
        } else {
            Reply::Whole("404 Not Found", "text/html", "<h1>gone</h1>".to_owned())
        }
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("list");
    let url = server.address;
    let config = config(&format!(
        "[[set]]\nname = 'good'\nurl = 'http://{url}/ranges.json'\nselect = 'prefixes.ip_prefix'\n\
         [[set]]\nname = 'gone'\nurl = 'http://{url}/list'\n\
         [[set]]\nname = 'file'\nfile = '{}'\nevery = '1s'\n",
        file.display()
    ));
    let mut sets = Sets::new(&config.sets, Cache::new(folder.path(), "a"), None);
    sets.start(&no_flows());
    fs::write(&file, "11.0.0.0/8\n").unwrap();
    let mut seen = BTreeMap::new();
    while seen.len() < 3 {
        let News { place, list } = timeout(LIMIT, sets.next()).await.expect("news");
        let list = list.map(|list| list.iter().map(ToString::to_string).collect());
        seen.insert(place, list.map_err(|error| told(&error)));
    }
    assert_eq!(seen[&0], Ok(vec!["10.0.0.0/8".to_owned()]));
    assert!(seen[&1].as_ref().is_err_and(|why| why.contains("404")), "{seen:?}");
    assert_eq!(seen[&2], Ok(vec!["11.0.0.0/8".to_owned()]));
}
