//! `wad diagnose` names what limits real flows, from either end, and the policy that
//! it prints takes the limit away.

use std::{
    io::{self, Read as _, Write as _},
    net::Shutdown,
    slice, thread,
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use wad_e2e_attribute::e2e;
use wad_testbed::{
    emulated::wan::{ADDRESSES_V4, DEVICE, Wan},
    kernel,
    policy::{path_of, path_to},
    sending::while_sending,
    settings, signal,
    stand::Stand,
    tcp::{Connection, at},
    wad::{Home, program},
};

/// 100 kB are on their way when it is full, and as many wait.
const PATH: &str = "rtt = '40ms'\nforward = { rate = '20Mbit', queue = { bdp = 1.0 } }\n";
const NEAR_SMALL: u16 = 7000;
const FAR_SMALL: u16 = 7001;
const LARGE: u16 = 7002;

fn path(text: &str) -> Result<Wan> {
    let wan = Wan::start(&toml::from_str(text)?)?;
    settings::apply(&wan)?;
    Ok(wan)
}

/// Returns the diagnosis of one flow, of the flows to an end.
fn diagnose(home: &Home, arguments: &[&str]) -> Result<Value> {
    let output = home.command("diagnose").args(arguments).arg("--json").output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut told: Value = serde_json::from_slice(&output.stdout)?;
    println!("{told}");
    let mut all: Vec<Value> = serde_json::from_value(told["flows"].take())?;
    let one = all.pop().context("no flow")?;
    ensure!(all.is_empty(), "more than one: {all:?}");
    Ok(one)
}

fn ensure_limit(diagnosis: &Value, limit: &str) -> Result<()> {
    ensure!(diagnosis["limit"] == limit, "not {limit}: {diagnosis}");
    Ok(())
}

/// Diagnoses while the connecting end of a new connection to a port sends all it can,
/// and the other reads.
fn diagnose_bulk(home: &Home, wan: &Wan, port: u16) -> Result<Value> {
    let to = at(ADDRESSES_V4[1], port);
    let connection = Connection::open(wan.a(), wan.b(), to)?;
    while_sending(slice::from_ref(&connection), || {
        // Past slow start.
        signal::sleep(Duration::from_secs(1))?;
        let diagnosis = diagnose(home, &[&to.to_string()])?;
        let cookie = diagnosis["cookie"].to_string();
        let output = home.command("diagnose").args([&cookie, "--seconds", "1"]).output()?;
        let page = String::from_utf8(output.stdout)?;
        println!("{page}");
        ensure!(page.contains("limited by") && page.contains(&cookie), "{page}");
        Ok(diagnosis)
    })
}

fn advice(diagnosis: &Value, place: &str) -> Result<String> {
    ensure!(diagnosis["advice"]["place"] == place, "{diagnosis}");
    let lines = diagnosis["advice"]["lines"].as_array().context("no lines")?;
    ensure!(!lines.is_empty(), "{diagnosis}");
    let lines: Option<Vec<&str>> = lines.iter().map(Value::as_str).collect();
    Ok(lines.context("not text")?.join("; "))
}

fn policy(near: &str, far: &str) -> String {
    path_to(NEAR_SMALL, near)
        + &path_of(NEAR_SMALL, "")
        + &path_to(FAR_SMALL, "")
        + &path_of(FAR_SMALL, far)
        + &path_to(LARGE, "")
        + &path_of(LARGE, "")
}

/// Says which of the two buffers a policy is about; the other is as ever.
fn other_large(line: &str) -> String {
    match line.starts_with("sndbuf") {
        true => format!("{line}; rcvbuf = \"8MiB\""),
        false => format!("{line}; sndbuf = \"8MiB\""),
    }
}

/// Advice is to be followed so often at most. Before Linux 6.6 only half of a receive
/// buffer is window (`tcp_win_from_space()`): the first does not reach the queue there.
fn rounds() -> Result<usize> {
    Ok(if kernel::running()? < (6, 6) { 2 } else { 1 })
}

#[e2e(long, few)]
fn small_buffers_are_named_and_the_advice_makes_them_large_enough() -> Result<()> {
    let stand = Stand::set_up("diagnose")?;
    let wan = path(PATH)?;
    let small = policy(&other_large("sndbuf = \"24KiB\""), &other_large("rcvbuf = \"32KiB\""));
    let home = Home::create(&program()?, &small)?;
    let agent = home.start(stand.cgroup())?;

    let near = diagnose_bulk(&home, &wan, NEAR_SMALL)?;
    ensure_limit(&near, "send_buffer")?;
    ensure!(near["path"] == format!("to-{NEAR_SMALL}"), "{near}");
    let far = diagnose_bulk(&home, &wan, FAR_SMALL)?;
    ensure_limit(&far, "peer_window")?;
    let befores = [near, far];
    let mut afters = befores.clone();
    let is_cured = |after: &Value| {
        // Of the queue that it fills now, it may have just overrun it.
        after["limit"] == "path_rate" || after["limit"] == "loss"
    };
    let places = ["here", "other_end"];
    let mut lines = [String::new(), String::new()];
    for _ in 0..rounds()? {
        for ((line, after), place) in lines.iter_mut().zip(&afters).zip(places) {
            if !is_cured(after) {
                *line = other_large(&advice(after, place)?);
            }
        }
        home.reload(&policy(&lines[0], &lines[1]))?;
        for (after, port) in afters.iter_mut().zip([NEAR_SMALL, FAR_SMALL]) {
            *after = diagnose_bulk(&home, &wan, port)?;
        }
        if afters.iter().all(is_cured) {
            break;
        }
    }
    for (before, after) in befores.iter().zip(&afters) {
        ensure!(is_cured(after), "{after}");
        let rates = [before, after].map(|seen| seen["bits_per_second"].as_f64());
        ensure!(rates[1] > rates[0].map(|rate| 1.3 * rate), "not faster: {before} {after}");
    }
    agent.stop()?;
    Ok(())
}

#[e2e(long, few)]
fn applications_are_named_from_either_end() -> Result<()> {
    let stand = Stand::set_up("diagnose")?;
    let wan = path(PATH)?;
    let home = Home::create(&program()?, &policy("", ""))?;
    let _agent = home.start(stand.cgroup())?;
    let to = at(ADDRESSES_V4[1], LARGE);

    // 10 kB in each 50 ms: 1.6 Mbit/s.
    let connection = Connection::open(wan.a(), wan.b(), to)?;
    let Connection { near, far } = &connection;
    let seen = thread::scope(|scope| {
        scope.spawn(move || {
            let mut to = near;
            while to.write_all(&[0; 10_000]).is_ok() {
                thread::sleep(Duration::from_millis(50));
            }
        });
        scope.spawn(move || {
            let mut from = far;
            io::copy(&mut from, &mut io::sink())
        });
        let seen = signal::sleep(Duration::from_millis(500))
            .map_err(Into::into)
            .and_then(|()| diagnose(&home, &[&to.to_string()]));
        for end in [near, far] {
            let _ = end.shutdown(Shutdown::Both);
        }
        seen
    })?;
    ensure_limit(&seen, "sending_application")?;
    ensure!(seen["advice"]["lines"] == Value::Array(Vec::new()), "{seen}");
    drop(connection);

    // Nobody reads what it sends, but for the beginning.
    let connection = Connection::open(wan.a(), wan.b(), to)?;
    let Connection { near, far } = &connection;
    let (of_near, of_far) = thread::scope(|scope| {
        scope.spawn(move || {
            let mut to = near;
            while to.write_all(&[0; 256 * 1024]).is_ok() {}
        });
        let look = || -> Result<_> {
            let mut from = far;
            from.read_exact(&mut vec![0; 200_000])?;
            // Its buffer is full by then.
            let local = near.local_addr()?.to_string();
            for _ in 0..20 {
                signal::sleep(Duration::from_secs(1))?;
                let of_far = diagnose(&home, &[&local, "--seconds", "1"])?;
                if of_far["bits_per_second"].as_f64() == Some(0.0) {
                    return Ok((diagnose(&home, &[&to.to_string()])?, of_far));
                }
            }
            bail!("data still arrive")
        };
        let seen = look();
        for end in [near, far] {
            let _ = end.shutdown(Shutdown::Both);
        }
        seen
    })?;
    for (seen, direction) in [(of_near, "sending"), (of_far, "receiving")] {
        ensure_limit(&seen, "receiving_application")?;
        ensure!(seen["direction"] == direction, "{seen}");
    }
    Ok(())
}

#[e2e(long, few)]
fn the_path_is_named_by_its_rate_its_losses_and_its_packets() -> Result<()> {
    let stand = Stand::set_up("diagnose")?;
    let home = Home::create(&program()?, &policy("", ""))?;
    let _agent = home.start(stand.cgroup())?;

    let wan = path(PATH)?;
    let full = diagnose_bulk(&home, &wan, LARGE)?;
    ensure_limit(&full, "path_rate")?;
    let rate = full["bits_per_second"].as_f64().context("no rate")?;
    // What was acknowledged late, before, counts as well.
    ensure!((0.8..1.1).contains(&(rate / 20e6)), "{rate} bit/s");
    ensure!(full["mtu"].is_null(), "{full}");
    // A route knows more than its interface.
    let shorter = ["route", "replace", "10.77.0.0/30", "dev", DEVICE, "mtu", "1300"];
    wan.a().ip(&shorter)?;
    let shorter = diagnose_bulk(&home, &wan, LARGE)?;
    let said = shorter["mtu"].as_str().context("nothing said of the MTU")?;
    ensure!(said.contains("1300 bytes") && said.contains("wan0 of 1500"), "{said}");
    drop(wan);

    let lossy = "rtt = '40ms'\nseed = 7\n\
                 forward = { rate = '200Mbit', queue = { bdp = 1.0 }, loss = 0.005 }\n";
    let wan = path(lossy)?;
    // What is left of the flows before goes to the same addresses.
    let lossy = diagnose_bulk(&home, &wan, FAR_SMALL)?;
    ensure_limit(&lossy, "loss")?;
    ensure!(advice(&lossy, "here")?.contains("leaky"), "{lossy}");
    Ok(())
}

#[e2e(long, few)]
fn what_cannot_be_diagnosed_is_said() -> Result<()> {
    let stand = Stand::set_up("diagnose")?;
    let home = Home::create(&program()?, &policy("", ""))?;
    let refused = |arguments: &[&str]| -> Result<String> {
        let output = home.command("diagnose").args(arguments).output()?;
        ensure!(!output.status.success());
        Ok(String::from_utf8(output.stderr)?)
    };
    ensure!(refused(&[])?.contains("no agent runs"));
    let _agent = home.start(stand.cgroup())?;
    ensure!(refused(&["--seconds", "0.5"])?.contains("no flow of any path"));
    ensure!(refused(&["10.77.0.9", "--life"])?.contains("no flow to 10.77.0.9"));
    ensure!(refused(&["bob"])?.contains("neither a cookie"));
    Ok(())
}
