//! Paths for lists of prefixes follow these as they change, and are left as they are by what
//! is no list: seen by the send buffer that ss shows, as each path here has its own size,
//! which the kernel doubles.

use std::{
    fmt::Write as _,
    fs,
    net::SocketAddr,
    path::PathBuf,
    process::Command,
    sync::{Arc, Mutex},
    time::Duration,
};

use anyhow::{Result, ensure};
use serde_json::Value;
use wad_e2e_attribute::e2e;
use wad_testbed::{
    answers::{Answer, Answers},
    mutex::locked,
    process::run_command,
    stand::{Stand, until},
    tcp::{Connection, at},
    veth::{ADDRESSES_V4, ADDRESSES_V6, Wire},
    wad::{Home, program},
};

use crate::sizes;

const LIMIT: Duration = Duration::from_secs(30);

/// Send buffers of the paths.
const OF_LIST: u64 = 301_001;
const OF_PORT: u64 = 302_002;
const OF_REST: u64 = 303_003;
const SIZES: [u64; 3] = [OF_LIST, OF_PORT, OF_REST];

fn path(name: &str, keys: &str, sndbuf_bytes: u64) -> String {
    format!("[[path]]\nname = '{name}'\n{keys}\nsndbuf = '{sndbuf_bytes}'\n\n")
}

struct Bench<'a> {
    wire: &'a Wire,
    home: &'a Home,
}

impl Bench<'_> {
    /// Returns the paths' sizes that both ends of a new connection have.
    fn ends(&self, to: SocketAddr) -> Result<[Option<u64>; 2]> {
        let connection = Connection::open(self.wire.a(), self.wire.b(), to)?;
        sizes::of_ends(&SIZES, self.wire, &connection)
    }

    /// Waits until new connections over both families are of these paths.
    fn until_near(&self, what: &'static str, near: Option<u64>) -> Result<()> {
        for address in [ADDRESSES_V4[1], ADDRESSES_V6[1]] {
            let look = || Ok::<_, anyhow::Error>(self.ends(at(address, 7000))?[0]);
            until(what, LIMIT, look, |now| *now == near)?;
        }
        Ok(())
    }

    fn until_said(&self, text: &str) -> Result<()> {
        let said = || Ok::<_, anyhow::Error>(self.home.log().contains(text));
        until("the log says so", LIMIT, said, |said| *said).map(|_| ())
    }

    fn status(&self) -> Result<Value> {
        let output = self.home.command("status").arg("--json").output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    fn explain(&self, arguments: &[&str]) -> Result<Value> {
        let mut command = self.home.command("explain");
        if arguments.contains(&"--offline") {
            command.arg("--config").arg(self.home.config());
        }
        let output = command.args(arguments).arg("--json").output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    fn check(&self) -> Result<String> {
        let config = self.home.config();
        Ok(run_command(Command::new(program()?).args(["check", "--config"]).arg(config))?)
    }
}

#[e2e(long, beside)]
fn a_path_follows_the_list_in_a_file() -> Result<()> {
    let stand = Stand::set_up("sets")?;
    let wire = Wire::start()?;
    let files = tempfile::tempdir()?;
    let file = files.path().join("sites.txt");
    // Written whole, as whoever makes a list does.
    let write = |text: &str| -> Result<()> {
        let new = files.path().join("new");
        fs::write(&new, text)?;
        Ok(fs::rename(&new, &file)?)
    };
    write("# sites\n10.81.0.2\nfd81::2/128\n")?;
    let policy = [
        format!("[[set]]\nname = 'sites'\nfile = '{}'\nevery = '1s'\n\n", file.display()),
        path("list", "remote_set = 'sites'", OF_LIST),
        path("port", "remote_set = 'sites'\nremote_port = 7001", OF_PORT),
        path("rest", "remote = ['10.81.0.0/16', 'fd81::/16']\nlocal_port = 7002", OF_REST),
    ]
    .concat();
    let home = Home::create(&program()?, &policy)?;
    let bench = Bench { wire: &wire, home: &home };
    let checked = bench.check()?;
    ensure!(checked.contains("set sites: 2 prefixes now"), "{checked}");
    let mut agent = home.start(stand.cgroup())?;

    for address in [ADDRESSES_V4[1], ADDRESSES_V6[1]] {
        // Of both ends: the accepted one's peer is not on the list.
        for (port, ends) in [
            (7000, [Some(OF_LIST), None]),
            (7001, [Some(OF_PORT), None]),
            (7002, [Some(OF_LIST), Some(OF_REST)]),
        ] {
            let now = bench.ends(at(address, port))?;
            ensure!(now == ends, "{address}:{port}: {now:?}, not {ends:?}");
        }
        let to = at(address, 7000).to_string();
        for offline in [&[to.as_str()][..], &[to.as_str(), "--offline"]] {
            let answer = bench.explain(offline)?;
            ensure!(answer["path"]["name"] == "list", "{answer}");
            let why = answer["path"]["why"].to_string();
            ensure!(why.contains("\"the path is for remote set sites\""), "{answer}");
        }
    }
    let running = Connection::open(wire.a(), wire.b(), at(ADDRESSES_V6[1], 7000))?;
    let of_running = || sizes::of_ends(&SIZES, &wire, &running);

    // The accepted ends are on it now, and the connection that runs follows.
    write("10.81.0.0/24\nfd81::/64\n")?;
    let both = [Some(OF_LIST), Some(OF_LIST)];
    until("the one that runs is on the list", LIMIT, of_running, |ends| *ends == both)?;
    for address in [ADDRESSES_V4[1], ADDRESSES_V6[1]] {
        ensure!(bench.ends(at(address, 7000))? == both, "{address}");
    }

    // None of these is a list: the last good one holds, and it is said.
    for (text, why) in [
        (Some("10.81.0.0/24\noops\n"), "line 2: `oops` is no address or prefix"),
        (Some(""), "it is empty"),
        (Some("0.0.0.0/0\n"), "line 1: 0.0.0.0/0 is too wide for a set"),
        (None, "cannot read"),
    ] {
        match text {
            Some(text) => write(text)?,
            None => fs::remove_file(&file)?,
        }
        bench.until_said(why)?;
        ensure!(bench.ends(at(ADDRESSES_V4[1], 7000))? == both, "{why}");
        let set = &bench.status()?["sets"][0];
        ensure!(set["prefixes"] == 2 && set["failing"].as_str().is_some(), "{set}");
        let metrics = home.metrics()?;
        let labels = ["set=\"sites\""];
        ensure!(metrics.value("wad_set_failing", &labels)? == 1.0, "{}", metrics.text());
        ensure!(metrics.value("wad_set_prefixes", &labels)? == 2.0, "{}", metrics.text());
    }
    // A reload finds no file either, and a restart neither.
    home.reload(&policy)?;
    ensure!(bench.ends(at(ADDRESSES_V6[1], 7000))? == both);
    agent.stop()?;
    agent = home.start(stand.cgroup())?;
    ensure!(bench.ends(at(ADDRESSES_V6[1], 7000))? == both);

    write("10.81.0.2\nfd81::2\n")?;
    bench.until_said("its list is as it should be again")?;
    let near_alone = [Some(OF_LIST), None];
    let look = || bench.ends(at(ADDRESSES_V6[1], 7000));
    until("the list is shorter", LIMIT, look, |ends| *ends == near_alone)?;
    ensure!(bench.status()?["sets"][0]["failing"].is_null());
    agent.stop()?;
    Ok(())
}

/// Returns a document as Amazon's, and one as Google's, with the networks of the wire in one
/// region.
fn documents(region: &str) -> [String; 2] {
    let aws = format!(
        r#"{{"syncToken": "1763633043", "createDate": "2025-11-20-10-04-03", "prefixes": [
        {{"ip_prefix": "192.0.2.0/24", "region": "us-east-1", "service": "AMAZON",
          "network_border_group": "us-east-1"}},
        {{"ip_prefix": "10.81.0.0/24", "region": "{region}", "service": "AMAZON",
          "network_border_group": "{region}"}},
        {{"ip_prefix": "10.81.0.2/32", "region": "{region}", "service": "S3",
          "network_border_group": "{region}"}}],
        "ipv6_prefixes": [{{"ipv6_prefix": "2001:db8::/40", "region": "eu-west-1",
          "service": "AMAZON", "network_border_group": "eu-west-1"}}]}}"#
    );
    let gcp = format!(
        r#"{{"syncToken": "1763627649705", "creationTime": "2025-11-20T08:34:09.70705",
        "prefixes": [{{"ipv4Prefix": "192.0.2.0/24", "service": "Google Cloud",
          "scope": "eu-west-1"}},
        {{"ipv6Prefix": "fd81::/64", "service": "Google Cloud", "scope": "{region}"}},
        {{"ipv6Prefix": "2001:db8:1::/48", "service": "Google Cloud", "scope": "eu-west-1"}}]}}"#
    );
    [aws, gcp]
}

#[e2e(long, beside)]
fn a_path_follows_the_lists_of_providers_and_keeps_the_last_good_ones() -> Result<()> {
    let stand = Stand::set_up("set-urls")?;
    let wire = Wire::start()?;
    let served: Arc<Mutex<Option<[String; 2]>>> =
        Arc::new(Mutex::new(Some(documents("eu-west-1"))));
    let of_server = Arc::clone(&served);
    let server = Answers::start(move |path| match (&*locked(&of_server), path) {
        (Some([aws, _]), "/ip-ranges.json") => Answer::json(aws.as_str()),
        (Some([_, gcp]), "/cloud.json") => Answer::json(gcp.as_str()),
        _ => Answer::Whole("503 Service Unavailable", "text/html", "<h1>later</h1>".into()),
    })?;
    let url = server.address();
    let policy = [
        format!(
            "[[set]]\nname = 'aws'\nurl = 'http://{url}/ip-ranges.json'\nevery = '1s'\n\
             select = ['prefixes[region=eu-west-1].ip_prefix', \
                       'ipv6_prefixes[region=eu-west-1].ipv6_prefix']\n\
             [[set]]\nname = 'gcp'\nurl = 'http://{url}/cloud.json'\nevery = '1s'\n\
             select = ['prefixes[scope=eu-*].ipv4Prefix', 'prefixes[scope=eu-*].ipv6Prefix']\n\n"
        ),
        path("cloud", "remote_set = ['aws', 'gcp']", OF_LIST),
        path("rest", "remote = ['10.0.0.0/8', 'fd81::/16']", OF_REST),
    ]
    .concat();
    let home = Home::create(&program()?, &policy)?;
    let bench = Bench { wire: &wire, home: &home };
    let agent = home.start(stand.cgroup())?;
    bench.until_near("the lists are fetched", Some(OF_LIST))?;
    // Both ends are on them.
    for address in [ADDRESSES_V4[1], ADDRESSES_V6[1]] {
        let ends = bench.ends(at(address, 7000))?;
        ensure!(ends == [Some(OF_LIST); 2], "{address}: {ends:?}");
    }
    let sets = bench.status()?["sets"].clone();
    ensure!(sets[0]["prefixes"] == 2 && sets[1]["prefixes"] == 3, "{sets}");

    // Elsewhere, and nothing left here: that is no list. Then the server is ill.
    *locked(&served) = Some(documents("eu-west-1").map(|it| it.replace("prefix", "other")));
    bench.until_said("prefixes[region=eu-west-1].ip_prefix chooses nothing")?;
    *locked(&served) = None;
    bench.until_said("503")?;
    bench.until_near("the last good lists hold", Some(OF_LIST))?;

    // They are known to the next agent, whom nobody answers, and to `explain`.
    agent.stop()?;
    drop(server);
    let agent = home.start(stand.cgroup())?;
    for address in [ADDRESSES_V4[1], ADDRESSES_V6[1]] {
        let ends = bench.ends(at(address, 7000))?;
        ensure!(ends == [Some(OF_LIST); 2], "{address}: {ends:?}");
        let answer = bench.explain(&[address, "--offline"])?;
        ensure!(answer["path"]["name"] == "cloud", "{answer}");
    }
    bench.until_said("cannot connect")?;
    agent.stop()?;
    Ok(())
}

#[e2e(long, beside)]
fn what_changes_behind_a_url_is_followed() -> Result<()> {
    let stand = Stand::set_up("set-region")?;
    let wire = Wire::start()?;
    let served = Arc::new(Mutex::new(documents("eu-west-1")));
    let of_server = Arc::clone(&served);
    let server = Answers::start(move |_| Answer::json(locked(&of_server)[0].as_str()))?;
    let set = |name: &str, region: &str| {
        format!(
            "[[set]]\nname = '{name}'\nurl = 'http://{}/'\nevery = '1s'\n\
             select = 'prefixes[region={region}].ip_prefix'\n\n",
            server.address()
        )
    };
    let policy = [
        set("west", "eu-west-1"),
        set("all", "*"),
        path("west", "remote_set = 'west'", OF_LIST),
        path("all", "remote_set = 'all'\nremote_port = 7000", OF_REST),
    ]
    .concat();
    let home = Home::create(&program()?, &policy)?;
    let bench = Bench { wire: &wire, home: &home };
    let agent = home.start(stand.cgroup())?;
    let near = || Ok::<_, anyhow::Error>(bench.ends(at(ADDRESSES_V4[1], 7000))?[0]);
    // On one prefix that with the fewest ports wins.
    until("all are fetched", LIMIT, near, |now| *now == Some(OF_REST))?;
    let mut west = documents("eu-west-2")[0].clone();
    west = west.replace(
        "192.0.2.0/24\", \"region\": \"us-east-1",
        "198.51.100.0/24\", \"region\": \"eu-west-1",
    );
    west = west.replace("10.81.0.0/24", "10.81.0.0/22").replace("10.81.0.2/32", "10.81.0.0/30");
    *locked(&served) = [west, String::new()];
    let paths = || bench.explain(&["10.81.0.2:7000"]).map(|it| it["path"]["prefix"].to_string());
    until("the region is elsewhere", LIMIT, paths, |prefix| prefix == "\"10.81.0.0/22\"")?;
    let answer = bench.explain(&["198.51.100.1:7000"])?;
    ensure!(answer["path"]["name"] == "all", "{answer}");
    agent.stop()?;
    Ok(())
}

#[e2e(long, beside)]
fn a_hundred_thousand_prefixes_are_one_look_up_and_change_under_a_connection() -> Result<()> {
    const COUNT: u32 = 100_000;
    let stand = Stand::set_up("set-large")?;
    let wire = Wire::start()?;
    let files = tempfile::tempdir()?;
    let file: PathBuf = files.path().join("list");
    let mut list = String::new();
    for n in 0..COUNT {
        writeln!(list, "100.{}.{}.{}", 64 + (n >> 16), n >> 8 & 255, n & 255)?;
    }
    fs::write(&file, format!("{list}10.81.0.2\nfd81::2\n"))?;
    let policy = [
        format!("[[set]]\nname = 'large'\nfile = '{}'\nevery = '1s'\n\n", file.display()),
        path("large", "remote_set = 'large'", OF_LIST),
    ]
    .concat();
    let home = Home::create(&program()?, &policy)?;
    let bench = Bench { wire: &wire, home: &home };
    let agent = home.start(stand.cgroup())?;
    bench.until_near("both are on the list", Some(OF_LIST))?;
    ensure!(bench.status()?["sets"][0]["prefixes"] == COUNT + 2);
    let running = Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], 7000))?;
    let sets = || Ok::<_, anyhow::Error>(bench.status()?["generation"].as_u64());
    let before = sets()?;
    fs::write(&file, format!("{list}10.81.0.2\nfd81::2\n192.0.2.1\n"))?;
    until("one more is on the list", LIMIT, sets, |now| *now > before)?;
    running.exchange(1_000_000)?;
    ensure!(sizes::of_ends(&SIZES, &wire, &running)?[0] == Some(OF_LIST));
    agent.stop()?;
    Ok(())
}
