//! A monitor that is wrong by a unit, a clock or a glitch: what it says does not make the
//! path's flows slower, is said once and counted.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use wad_e2e_attribute::e2e;
use wad_testbed::{
    answers::{Answer, Answers},
    emulated::wan::{ADDRESSES_V4, Wan},
    mutex::locked,
    netns::Netns,
    prometheus::Prometheus,
    sending::{Sample, while_sending},
    settings, signal,
    stand::{Stand, until},
    tcp::{Connection, at},
    wad::{Home, program},
};

use crate::measured::{LIMIT, sndbuf};

/// The path: the kernel's own buffers are enough for two thirds of it.
const MBIT: u64 = 300;
const RTT_MS: u64 = 120;

/// How wrong the exporter is.
struct Wrong {
    factor: f64,
    /// Scrapes until it is right again; None for never.
    scrapes: Option<u32>,
}

type Shared = Arc<Mutex<Wrong>>;

/// Returns an exporter of the path's bandwidth, in bytes, and RTT, both wrong by a factor.
fn exporter(wrong: &Shared) -> Result<Answers> {
    let wrong = Arc::clone(wrong);
    Ok(Answers::start(move |_| {
        let mut wrong = locked(&wrong);
        let factor = match &mut wrong.scrapes {
            Some(0) => 1.0,
            Some(scrapes) => {
                *scrapes -= 1;
                wrong.factor
            }
            None => wrong.factor,
        };
        let rate = (MBIT * 1_000_000 / 8) as f64 * factor;
        let rtt = RTT_MS as f64 / 1e3 * factor;
        Answer::text(format!(
            "wan_bandwidth_bytes_per_second{{path=\"wan\"}} {rate}\n\
             wan_rtt_seconds{{path=\"wan\"}} {rtt}\n"
        ))
    })?)
}

/// Returns how many Mbit/s of payload a flow gets acknowledged in this time.
fn rate(a: &Netns, flow: &Connection, seconds: u64) -> Result<f64> {
    let before = Sample::of(a, &flow.near)?;
    signal::sleep(Duration::from_secs(seconds))?;
    let after = Sample::of(a, &flow.near)?;
    let bytes = after.flow.bytes_acked - before.flow.bytes_acked;
    Ok(bytes as f64 * 8.0 / 1e6 / (after.at - before.at).as_secs_f64())
}

/// Returns the argument of SO_SNDBUF up to which the path's flows may grow.
fn most_sndbuf_bytes(home: &Home) -> Result<u64> {
    let output = home.command("paths").arg("--json").output()?;
    let paths: Value = serde_json::from_slice(&output.stdout)?;
    let bytes = paths["paths"][0]["policy"]["sndbuf_bytes"].as_u64();
    bytes.with_context(|| format!("no buffer: {paths}"))
}

#[e2e(never = "prometheus and promtool are larger than all else in a machine", few, slow)]
fn no_wrong_number_makes_a_transfer_slower() -> Result<()> {
    let stand = Stand::set_up("wrong-numbers")?;
    let wrong = Arc::new(Mutex::new(Wrong { factor: 1.0, scrapes: None }));
    let exporter = exporter(&wrong)?;
    let files = tempfile::tempdir()?;
    let prometheus = Prometheus::start(files.path(), exporter.address())?;
    let policy = format!(
        "[limits]\nchange_interval = '1s'\n\n[[source]]\nname = 'real'\nkind = 'prometheus'\n\
         url = 'http://127.0.0.1:{}'\ninterval = '1s'\ntimeout = '2s'\nstale_after = '5s'\n\
         bandwidth = 'wan_bandwidth_bytes_per_second'\nbandwidth_unit = 'B/s'\n\
         rtt = 'wan_rtt_seconds'\n\n[[path]]\nname = 'wan'\nremote = '10.77.0.0/16'\n\
         mode = 'measured'\nbandwidth = '{MBIT}Mbit'\nrtt = '{RTT_MS}ms'\n\
         sndbuf = 'auto'\nrcvbuf = 'auto'\n",
        prometheus.port()
    );
    let home = Home::create(&program()?, &policy)?;
    let agent = home.start(stand.cgroup())?;
    let measured = || -> Result<f64> { Ok(home.metrics()?.value("wad_paths_measured", &[])?) };
    until("the path is measured", LIMIT, measured, |paths| *paths == 1.0)?;
    let refused = |reason: &str| -> Result<f64> {
        let labels = ["source=\"real\"".to_owned(), format!("reason=\"{reason}\"")];
        let name = "wad_source_refused_values_total";
        Ok(home.metrics()?.value(name, &[&labels[0], &labels[1]])?)
    };
    let path = format!("rtt = '{RTT_MS}ms'\nforward = {{ rate = '{MBIT}Mbit', queue.bdp = 1 }}");
    let wan = Wan::start(&toml::from_str(&path)?)?;
    settings::apply(&wan)?;
    let to = at(ADDRESSES_V4[1], 7000);
    let flows = [Connection::open(wan.a(), wan.b(), to)?];
    while_sending(&flows, || -> Result<()> {
        let flow = &flows[0];
        let fills = |rate: &f64| *rate > 0.85 * MBIT as f64;
        until("it fills the path", LIMIT, || rate(wan.a(), flow, 1), fills)?;
        let had = rate(wan.a(), flow, 4)?;
        println!("{had:.0} Mbit/s with the truth");
        // A glitch of a single scrape, within the band.
        let glitches = [0.3, 3.0].map(|factor| (factor, Some(1)));
        let decades = (1..=6).flat_map(|exponent| [-exponent, exponent]);
        let lasting = decades.map(|exponent| (10_f64.powi(exponent), None));
        for (factor, scrapes) in glitches.into_iter().chain(lasting) {
            *locked(&wrong) = Wrong { factor, scrapes };
            // Scraped and asked for twice.
            signal::sleep(Duration::from_secs(2))?;
            let has = rate(wan.a(), flow, 3)?;
            let flow = flow.near_flow(wan.a())?;
            let most = 2 * most_sndbuf_bytes(&home)?;
            println!(
                "{has:.0} Mbit/s with {factor:e} times it; sndbuf {} of {most}",
                flow.sndbuf_bytes
            );
            ensure!(has >= 0.9 * had, "{has} of {had} Mbit/s with {factor:e}: {}", home.log());
            if scrapes.is_none() {
                ensure!(most == sndbuf(MBIT, RTT_MS), "{factor:e}: {most}; {}", home.log());
            }
        }
        Ok(())
    })?;
    ensure!(refused("band")? >= 20.0 && refused("jump")? >= 1.0, "{}", home.metrics()?.text());
    // Of the bandwidth and of the RTT: not with each poll.
    let said = home.log().matches("too far from the file's own value").count();
    ensure!(said == 2, "said {said} times: {}", home.log());
    let paths = home.command("paths").output()?;
    let paths = String::from_utf8_lossy(&paths.stdout).into_owned();
    ensure!(paths.contains("by source real does not count"), "{paths}");
    agent.stop()?;
    Ok(())
}
