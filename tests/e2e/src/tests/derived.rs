//! Derived events are what a file makes of the instruments, seen from outside: with the
//! flows, in the metrics, in the log, and as events.

use std::{fs, thread, time::Duration};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use wad_e2e_attribute::e2e;
use wad_testbed::{
    stand::{Stand, until},
    tcp::{Connection, at},
    veth::{ADDRESSES_V4, Wire},
    wad::{Home, program},
};

const SOON: Duration = Duration::from_secs(10);

const PATHS: &str = "[[path]]\nname = 'wire'\nremote = '10.81.0.2'\nsndbuf = '1MiB'\n\
                     [[path]]\nname = 'back'\nremote = '10.81.0.1'\nmode = 'observe'\n";

/// These derived events come with a metric, without one, with a field of the kernel,
/// and with a threshold.
const DERIVED: &str = "[log]\nformat = 'json'\n\
                       [[derived]]\nname = 'AveBW'\nvalue = '8 * HCDataOctetsOut / ElapsedSecs'\n\
                       unit = 'bit/s'\n\
                       [[derived]]\nname = 'Half'\nvalue = 'HCDataOctetsOut / 2'\nmetric = true\n\
                       [[derived]]\nname = 'Same'\nvalue = 'HCDataOctetsOut - tcp_sock.bytes_sent'\n\
                       [[derived]]\nname = 'Paused'\nvalue = 'rate(HCDataOctetsOut)'\nunit = 'B/s'\n\
                       below = 1\nfor = '1s'\npaths = 'wire'\n";

fn flows(home: &Home) -> Result<Vec<Value>> {
    let output = home.command("flows").arg("--json").output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let reading: Value = serde_json::from_slice(&output.stdout)?;
    Ok(reading["flows"].as_array().context("no list of flows")?.clone())
}

fn of_path(flows: &[Value], path: &str) -> Result<Value> {
    let flow = flows.iter().find(|flow| flow["path"] == path);
    Ok(flow.with_context(|| format!("no flow of {path} in {flows:?}"))?["instruments"].clone())
}

fn number(instruments: &Value, name: &str) -> Result<f64> {
    instruments[name].as_f64().with_context(|| format!("no {name} in {instruments}"))
}

#[e2e(long, beside)]
fn they_stand_beside_the_instruments_and_in_the_metrics() -> Result<()> {
    let stand = Stand::set_up("derived")?;
    let wire = Wire::start()?;
    let home = Home::create(&program()?, &format!("{DERIVED}{PATHS}"))?;
    let _agent = home.start(stand.cgroup())?;
    let connection = Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], 7000))?;
    connection.exchange(1_000_000)?;

    let flow = of_path(&flows(&home)?, "wire")?;
    let sent = number(&flow, "HCDataOctetsOut")?;
    ensure!(sent >= 1_000_000.0, "{flow}");
    let bits_per_second = 8.0 * sent / number(&flow, "ElapsedSecs")?;
    ensure!((number(&flow, "AveBW")? / bits_per_second - 1.0).abs() < 1e-9, "{flow}");
    ensure!(number(&flow, "Half")? == sent / 2.0, "{flow}");
    ensure!(number(&flow, "Same")? == 0.0, "{flow}");
    let table = home.command("flows").args(["--field", "Half"]).output()?;
    let text = String::from_utf8_lossy(&table.stdout);
    ensure!(text.contains("Half") && text.contains(&(sent / 2.0).to_string()), "{text}");
    let metrics = home.metrics()?;
    let mean = metrics.value("wad_path_derived", &["path=\"wire\"", "name=\"Half\""])?;
    ensure!(mean == sent / 2.0, "{mean}, not half of {sent}");
    ensure!(metrics.value("wad_path_derived", &["path=\"wire\"", "name=\"AveBW\""]).is_err());

    // Another file, and one that is wrong.
    let other = "[log]\nformat = 'json'\n[[derived]]\nname = 'Twice'\n\
                 value = '2 * HCDataOctetsOut'\nmetric = true\n";
    home.reload(&format!("{other}{PATHS}"))?;
    let flow = of_path(&flows(&home)?, "wire")?;
    ensure!(number(&flow, "Twice")? == 2.0 * number(&flow, "HCDataOctetsOut")?, "{flow}");
    ensure!(flow["Half"].is_null(), "{flow}");
    home.write_policy(&format!("{}{PATHS}", other.replace("2 *", "ElapsedSecs +")))?;
    let refused = home.command("reload").output()?;
    ensure!(!refused.status.success());
    let said = String::from_utf8_lossy(&refused.stderr);
    ensure!(said.contains("s here, octets there"), "{said}");
    number(&of_path(&flows(&home)?, "wire")?, "Twice")?;
    Ok(())
}

#[e2e(long, beside)]
fn a_threshold_makes_one_event_of_a_flow_that_is_beyond_it() -> Result<()> {
    let stand = Stand::set_up("threshold")?;
    let wire = Wire::start()?;
    let home = Home::create(&program()?, &format!("{DERIVED}{PATHS}"))?;
    let told = home.folder().join("told.jsonl");
    let sink = "[[sink]]\nname = 'file'\nkind = 'file'\nevents = ['derived']\n";
    home.write_policy(&format!("{DERIVED}{sink}path = '{}'\n{PATHS}", told.display()))?;
    let _agent = home.start(stand.cgroup())?;
    let connection = Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], 7000))?;
    connection.exchange(1_000_000)?;
    let from = connection.near.local_addr()?.to_string();

    let events = || -> Result<Vec<Value>> {
        let log = home.log();
        let lines = log.lines().map(serde_json::from_str::<Value>);
        let lines = lines.collect::<Result<Vec<_>, _>>().context(log.clone())?;
        Ok(lines.into_iter().filter(|line| line["message"] == "derived event").collect())
    };
    let seen = until("the pause is an event", SOON, events, |seen| !seen.is_empty())?;
    let event = &seen[0];
    ensure!(event["name"] == "Paused" && event["path"] == "wire", "{event}");
    ensure!(event["local"] == from.as_str() && event["remote"] == "10.81.0.2:7000", "{event}");
    ensure!(event["value"] == 0.0 && event["unit"] == "B/s", "{event}");
    ensure!(event["seconds"].as_f64().is_some_and(|seconds| seconds >= 1.0), "{event}");
    // Told once, and not of the other end's flow, which is of another path.
    thread::sleep(Duration::from_secs(3));
    ensure!(events()?.len() == 1, "{:?}", events()?);

    // Until it has sent again.
    connection.exchange(1_000_000)?;
    until("the next pause is one, too", SOON, events, |seen| seen.len() == 2)?;
    let lines = || -> Result<String> { Ok(fs::read_to_string(&told).unwrap_or_default()) };
    let text = until("both are told", SOON, lines, |text| text.lines().count() == 2)?;
    let event: Value = serde_json::from_str(text.lines().next().unwrap_or_default())?;
    ensure!(event["event"] == "derived" && event["path"] == "wire", "{event}");
    ensure!(event["dst_host"] == "10.81.0.2" && event["dst_port"] == 7000, "{event}");
    let values = &event["values"];
    ensure!(values["name"] == "Paused" && values["below"] == 1.0, "{event}");
    ensure!(values["value"] == 0.0 && values["unit"] == "B/s", "{event}");
    Ok(())
}

#[e2e(long, beside)]
fn a_field_that_the_kernel_lacks_costs_no_more_than_its_events() -> Result<()> {
    let stand = Stand::set_up("no_field")?;
    let wire = Wire::start()?;
    let derived = "[[derived]]\nname = 'None'\nvalue = 'tcp_sock.no_such_member'\nmetric = true\n\
                   [[derived]]\nname = 'Half'\nvalue = 'HCDataOctetsOut / 2'\nmetric = true\n";
    let home = Home::create(&program()?, &format!("{derived}{PATHS}"))?;
    let _agent = home.start(stand.cgroup())?;
    ensure!(home.log().contains("no_such_member"), "{}", home.log());
    let connection = Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], 7000))?;
    connection.exchange(1_000_000)?;
    let flow = of_path(&flows(&home)?, "wire")?;
    ensure!(flow["None"].is_null(), "{flow}");
    ensure!(number(&flow, "Half")? == number(&flow, "HCDataOctetsOut")? / 2.0, "{flow}");
    let metrics = home.metrics()?;
    ensure!(metrics.value("wad_path_derived", &["path=\"wire\"", "name=\"Half\""])? > 0.0);
    ensure!(metrics.value("wad_path_derived", &["path=\"wire\"", "name=\"None\""]).is_err());
    Ok(())
}
