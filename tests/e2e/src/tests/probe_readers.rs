//! Results of probes as software reads them that is not ours: the exporter by promtool and
//! Prometheus, the archive by `sqlite3`.

use std::{path::Path, process::Command, time::Duration};

use anyhow::{Result, ensure};
use serde_json::Value;
use wad_e2e_attribute::e2e;
use wad_testbed::{
    free, metrics,
    process::run_command,
    prometheus::{self, Prometheus},
    stand::{Stand, until},
};

use crate::alone::{Alone, runs};

const PROMETHEUS_LIMIT: Duration = Duration::from_secs(30);

/// The service measures this host's loopback, at these two ports of its own.
fn start(listen: u16, answer: u16) -> Result<Alone> {
    let tasks = [("echo", "rtt"), ("transfer", "bandwidth")].map(|(name, tool)| {
        let echo = if tool == "rtt" { "echo = 'udp'\ncount = 3\ninterval = '10ms'\n" } else { "" };
        format!(
            "[[probe.task]]\nname = '{name}'\nhost = '127.0.0.1'\ntool = '{tool}'\n{echo}\
             port = {answer}\nevery = '1h'\n"
        )
    });
    let own = format!(
        "listen = '127.0.0.1:{listen}'\nanswer = '127.0.0.1:{answer}'\nanswer_to = '127.0.0.1'\n"
    );
    Alone::start(None, &(own + &tasks.concat()))
}

#[e2e(never = "prometheus and promtool are larger than all else in a machine", beside)]
fn prometheus_scrapes_what_probes_found_out() -> Result<()> {
    let _stand = Stand::set_up("probe-prometheus")?;
    let listen = free::port()?;
    let service = start(listen, free::port()?)?;
    let found = service.measure(&["echo", "transfer"])?;
    let page = metrics::get(listen, "/metrics")?;
    ensure!(page.contains("wad_probe_up{task=\"transfer\""), "{page}");
    prometheus::check_metrics(&page)?;

    let folder = tempfile::tempdir()?;
    let prometheus = Prometheus::start(folder.path(), ([127, 0, 0, 1], listen).into())?;
    let query = "/api/v1/query?query=wad_probe_rtt_min_seconds%7Btask%3D%22echo%22%7D";
    let look = || -> Result<Value> {
        // It answers nothing at first, then an empty result.
        let answer = metrics::get(prometheus.port(), query).unwrap_or_default();
        Ok(serde_json::from_str(&answer).unwrap_or_default())
    };
    let value = |answer: &Value| -> Option<f64> {
        answer["data"]["result"][0]["value"][1].as_str()?.parse().ok()
    };
    let answer =
        until("Prometheus has it", PROMETHEUS_LIMIT, look, |answer| value(answer).is_some())?;
    ensure!(value(&answer) == found[0]["rtt"]["min_seconds"].as_f64(), "{answer} {found:?}");
    Ok(())
}

fn sqlite3(file: &Path, question: &str) -> Result<String> {
    let mut sqlite3 = Command::new("sqlite3");
    sqlite3.args(["-separator", "|"]).arg(file).arg(question);
    Ok(run_command(&mut sqlite3)?.trim().to_owned())
}

#[e2e(long, beside)]
fn sqlite3_reads_the_archive_while_it_is_written_and_after_a_kill() -> Result<()> {
    let _stand = Stand::set_up("probe-sqlite")?;
    let mut service = start(free::port()?, free::port()?)?;
    service.measure(&["echo"])?;
    let measured = service.measure(&["echo", "transfer"])?;
    let archive = service.archive();
    let is_whole = || -> Result<()> {
        let said = sqlite3(&archive, "PRAGMA integrity_check")?;
        ensure!(said == "ok", "{said}");
        Ok(())
    };
    is_whole()?;
    let history = service.history("127.0.0.1")?;
    ensure!(history["buckets"][0]["measured"] == 3, "{history}");
    let log = runs(&service.ask("log", &[])?)?;
    let tell = || {
        let columns = "task, ending, coalesce(rtt_min_seconds, ''), coalesce(confidence, '')";
        sqlite3(&archive, &format!("SELECT {columns} FROM result ORDER BY period, task"))
    };
    let told = tell()?;
    ensure!(told.lines().count() >= 3 && told.lines().count() >= log.len(), "{told} {log:?}");
    let transfer = told.lines().find(|line| line.starts_with("transfer|measured|"));
    let confidence = measured[1]["bandwidth"]["confidence"].as_str().unwrap_or("none");
    ensure!(transfer.is_some_and(|line| line.ends_with(confidence)), "{told} {measured:?}");

    service.kill()?;
    is_whole()?;
    ensure!(tell()? == told, "a row is lost or changed");
    Ok(())
}
