//! Says what the sets in files hold now, and what that means for the paths: it may change
//! any time, and is no error.

use wad_agent::sets::read_now;
use wad_policy::config::{Config, Prefixes, SetPlace, fill, fit, unreachable};

/// Returns a sentence for each set, and for each path that matches nothing by them.
pub fn read(config: &Config) -> Vec<String> {
    let mut held = Prefixes::new();
    let mut said = Vec::new();
    for set in &config.lists() {
        let name = set.name.escape_debug();
        let file = match &set.place {
            SetPlace::Url(url) => {
                said.push(format!("set {name}: `wad run` fetches it from {}", url.url));
                continue;
            }
            SetPlace::Host => {
                said.push(format!("name {name}: `wad run` looks its addresses up"));
                continue;
            }
            SetPlace::File(file) => file,
        };
        match read_now(set, file) {
            Ok(prefixes) => {
                let es = if prefixes.len() == 1 { "" } else { "es" };
                said.push(format!("set {name}: {} prefix{es} now", prefixes.len()));
                held.insert(set.name.clone(), prefixes.into());
            }
            Err(why) => said.push(format!(
                "set {name}: {why}: `wad run` goes on with the last good list, if it has had any"
            )),
        }
    }
    if held.is_empty() {
        return said;
    }
    let mut paths = config.paths.clone();
    fill(&mut paths, &held);
    if let Err(unfit) = fit(&paths, &config.host) {
        said.push(format!("what sets hold now does not fit, and one is left out: {unfit}"));
    }
    let never = unreachable(&paths).into_iter().map(|path| &paths[path].name);
    said.extend(never.map(|path| {
        format!("path {path}: by what sets hold now, other paths take all its connections")
    }));
    said
}
