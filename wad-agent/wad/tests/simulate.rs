//! `wad simulate` is near what the lab has measured with real connections: the scenarios' own
//! paths and policies, and the figures of `tests/lab/landed.toml`.

use std::{fs, path::Path, process::Command};

use serde_json::Value as Json;
use toml::{Table, Value};

/// A simulated rate is no farther from the measured one.
const NEAR: f64 = 0.05;
/// These are held against each other: variants by scenarios, and by which part what is sent again
/// may differ.
const HELD: [(&str, &[&str], f64); 4] = [
    ("aimd-oc12", &["reno", "wad_aimd", "virtual-mss", "cubic"], 0.0),
    // Thousands are lost, some of them twice.
    ("datatag", &["tuned", "cubic", "cubic-paced", "reno"], 0.02),
    // Not `standard-paced`: its rapid start ends at RTTs that bursts of the host have made longer, and
    // no host takes time in the simulation.
    ("limited-slow-start", &["limited-100-paced", "limited-200-paced"], 0.1),
    // A burst of hundreds is cut off where a queue is full that is no longer.
    ("limited-slow-start", &["standard", "reno"], 0.25),
];

fn read(file: &str) -> Table {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/lab").join(file);
    let text = fs::read_to_string(&file).unwrap_or_else(|why| panic!("{}: {why}", file.display()));
    text.parse().unwrap()
}

/// Returns the policy of a variant as a configuration: the scenario's keys and its own, with the
/// path's rate and RTT where something follows from them, as the lab writes it.
fn configuration(scenario: &Table, variant: &Table) -> String {
    let mut keys = scenario["policy"].as_table().unwrap().clone();
    keys.extend(variant["policy"].as_table().unwrap().clone());
    let follows =
        |(key, value): (&String, &Value)| key != "pacing" && value.as_str() == Some("auto");
    if keys.iter().any(follows) {
        let path = scenario["path"].as_table().unwrap();
        keys.insert("bandwidth".to_owned(), path["forward"]["rate"].clone());
        keys.insert("rtt".to_owned(), path["rtt"].clone());
    }
    let keys: String = keys.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
    format!("[[path]]\nname = \"lab\"\nremote = \"10.77.0.0/16\"\n{keys}")
}

fn simulate(scenario: &Table, variant: &Table) -> Json {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wad.toml");
    fs::write(&file, configuration(scenario, variant)).unwrap();
    let (path, forward) = (&scenario["path"], &scenario["path"]["forward"]);
    let queue = match &forward["queue"] {
        queue if queue.get("bdp").is_some() => format!("{}BDP", queue["bdp"]),
        queue => (queue["packets"].as_integer().unwrap() * 1500).to_string(),
    };
    let mut wad = Command::new(env!("CARGO_BIN_EXE_wad"));
    wad.args(["simulate", "--json", "--path", "lab", "--queue", &queue, "--config"]).arg(&file);
    wad.args(["--rate", forward["rate"].as_str().unwrap(), "--rtt", path["rtt"].as_str().unwrap()]);
    wad.args(["--for", &format!("{}s", scenario["seconds"])]);
    for number in forward.get("drop_data_packets").and_then(Value::as_array).into_iter().flatten() {
        wad.args(["--lose", &number.to_string()]);
    }
    let output = wad.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns the one of an array of tables that has this under that key.
fn find<'a>(array: &'a Value, key: &str, wanted: &str) -> &'a Table {
    let mut tables = array.as_array().unwrap().iter().filter_map(Value::as_table);
    let found = tables.find(|table| table[key].as_str() == Some(wanted));
    found.unwrap_or_else(|| panic!("there is no {key} \"{wanted}\""))
}

/// Returns the median of the figures of runs.
fn median(figures: &Value) -> f64 {
    let number = |value: &Value| value.as_float().or(value.as_integer().map(|whole| whole as f64));
    let mut figures: Vec<f64> = figures.as_array().unwrap().iter().filter_map(number).collect();
    figures.sort_by(f64::total_cmp);
    f64::midpoint(figures[(figures.len() - 1) / 2], figures[figures.len() / 2])
}

#[test]
fn it_is_near_what_the_lab_measured() {
    let landed = read("landed.toml");
    for (name, variants, resent_near) in HELD {
        let scenario = read(&format!("scenarios/{name}.toml"));
        let experiment = find(&landed["experiment"], "scenario", name);
        for variant in variants {
            let figures = find(&experiment["variant"], "name", variant);
            let told = simulate(&scenario, find(&scenario["variant"], "name", variant));
            let law = &told["laws"][0];
            let simulated = law["bits_per_second"].as_f64().unwrap();
            let measured = median(&figures["goodput"]);
            let off = simulated / measured - 1.0;
            let [simulated, measured] = [simulated, measured].map(|bits| bits / 1e6);
            let host = experiment["host"].as_str().unwrap();
            let what = format!(
                "{name} {variant}: {simulated:.0} Mbit/s simulated, {measured:.0} measured under {host}"
            );
            println!("{what}: {:+.1}%", off * 100.0);
            assert!(off.abs() < NEAR, "{what}");
            let resent = law["retransmitted_segments"].as_f64().unwrap();
            let measured = median(&figures["retransmits"]);
            let is_near = (resent - measured).abs() <= resent_near * measured;
            assert!(is_near, "{what}: {resent} sent again, not {measured}");
        }
    }
}
