//! Exports of metrics by OTLP: what becomes of them where the service is away, busy or
//! elsewhere, and that nothing else waits for it.

use std::{
    net::{SocketAddr, TcpListener},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    free,
    otlp::{self, Asked, Receiver, TAKES},
    samples::series,
    stand::{Stand, until},
    tcp::{Connection, at},
    veth::{ADDRESSES_V4, Wire},
    wad::{Home, program},
};

use crate::said::json;

const SOON: Duration = Duration::from_secs(20);
const PORT: u16 = 7000;
const SNDBUF_BYTES: u64 = 100_000;

/// A path, and where metrics go.
fn policy(to: Option<(SocketAddr, &str)>) -> String {
    let address = ADDRESSES_V4[1];
    let path = format!("[[path]]\nname = 'bob'\nremote = '{address}'\nsndbuf = {SNDBUF_BYTES}\n");
    let otlp = to.map(|(address, interval)| {
        format!("[otlp]\nurl = 'http://{address}'\ninterval = '{interval}'\ntimeout = '1s'\n")
    });
    path + &otlp.unwrap_or_default()
}

/// Returns what `wad status` says of exports.
fn status(home: &Home) -> Result<Value> {
    Ok(json(&mut home.command("status"))?["otlp"].clone())
}

/// Returns the exports that the page counts by a result.
fn counted(home: &Home, result: &str) -> Result<f64> {
    let label = [("result".to_owned(), result.to_owned())].into();
    let samples = home.metrics()?.samples();
    samples.get(&series("wad_otlp_exports_total", label)).copied().context("no such count")
}

fn is_tuned(connection: &Connection, wire: &Wire) -> Result<()> {
    let flow = connection.near_flow(wire.a())?;
    // The kernel counts twice what is asked for (socket(7)).
    ensure!(flow.sndbuf_bytes == 2 * SNDBUF_BYTES, "{flow:?}");
    Ok(())
}

fn await_asked(receiver: &Receiver, count: usize) -> Result<Vec<Asked>> {
    let look = || Ok::<_, anyhow::Error>(receiver.asked().len());
    until("the receiver is asked", SOON, look, |asked| *asked >= count)?;
    Ok(receiver.asked())
}

#[e2e(long, beside)]
fn a_service_that_is_away_or_busy_holds_nothing_up() -> Result<()> {
    let stand = Stand::set_up("otlp-away")?;
    let wire = Wire::start()?;
    let address = free::address()?;
    let home = Home::create(&program()?, &policy(Some((address, "1s"))))?;
    let agent = home.start(stand.cgroup())?;
    let connect = || Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], PORT));

    // Nobody listens.
    let look = || status(&home);
    let told = until("a failure is told", SOON, look, |told| told["failed"].as_u64() > Some(1))?;
    ensure!(told["failing"].as_str().is_some_and(|why| why.contains("cannot connect")), "{told}");
    ensure!(told["sent"] == 0 && told["age_seconds"].is_null(), "{told}");
    is_tuned(&connect()?, &wire)?;

    // Somebody does, and is busy: what was not taken comes again, the same, when it says.
    let receiver = Receiver::open(address)?;
    receiver.answer("503 Service Unavailable\r\nretry-after: 1");
    home.reload(&policy(Some((address, "1h"))))?;
    let asked = receiver.asked().len();
    let begun = Instant::now();
    let asked = await_asked(&receiver, asked + 3)?;
    ensure!(begun.elapsed() > Duration::from_secs(1), "{:?}", begun.elapsed());
    let [.., before, last] = &asked[..] else { unreachable!("there are three") };
    ensure!(before.request == last.request, "another request");
    is_tuned(&connect()?, &wire)?;
    let [failed, sent] = [counted(&home, "failed")?, counted(&home, "sent")?];
    receiver.answer(TAKES);
    let count = || counted(&home, "sent");
    until("an export is taken", SOON, count, |count| *count > sent)?;
    ensure!(counted(&home, "failed")? == failed, "{failed}");
    let told = status(&home)?;
    ensure!(told["failing"].is_null() && told["age_seconds"].as_u64() < Some(20), "{told}");
    let log = home.log();
    ensure!(log.matches("takes no metrics: ").count() >= 1, "{log}");
    ensure!(log.matches("takes metrics again").count() >= 1, "{log}");

    // What it refuses for good does not come again before the next is due.
    receiver.answer("400 Bad Request");
    let asked = receiver.asked().len();
    home.reload(&policy(Some((address, "59min"))))?;
    let count = || counted(&home, "failed");
    until("it is given up", SOON, count, |count| *count > failed)?;
    thread::sleep(Duration::from_secs(1));
    ensure!(receiver.asked().len() == asked + 1, "{}", receiver.asked().len());

    // Somebody takes connections, and says nothing: the end does not wait for long.
    drop(receiver);
    let _mute = TcpListener::bind(address)?;
    home.reload(&policy(Some((address, "58min"))))?;
    is_tuned(&connect()?, &wire)?;
    let begun = Instant::now();
    agent.stop()?;
    ensure!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    Ok(())
}

#[e2e(long, beside)]
fn exports_go_where_the_file_says_and_once_more_at_the_end() -> Result<()> {
    let stand = Stand::set_up("otlp-where")?;
    let wire = Wire::start()?;
    let home = Home::create(&program()?, &policy(None))?;
    home.keep_on_exit(true);
    home.write_policy(&policy(None))?;
    let agent = home.start(stand.cgroup())?;
    let [first, second] = [Receiver::open(free::address()?)?, Receiver::open(free::address()?)?];
    ensure!(status(&home)?.is_null());
    ensure!(!home.metrics()?.text().contains("wad_otlp"));

    // On, as a dry run has said.
    let next = policy(Some((first.address(), "1s")));
    let other = tempfile::tempdir()?;
    let file = other.path().join("next.toml");
    home.write_to(file.clone(), &next)?;
    let told = json(home.command("reload").arg("--dry-run").arg("--config").arg(file))?;
    ensure!(told["result"] == "would_apply" && told["settings"] == json!(["otlp"]), "{told}");
    ensure!(first.asked().is_empty());
    home.reload(&next)?;
    await_asked(&first, 2)?;

    // Elsewhere.
    home.reload(&policy(Some((second.address(), "1s"))))?;
    await_asked(&second, 2)?;
    let asked = first.asked().len();
    await_asked(&second, 4)?;
    ensure!(first.asked().len() == asked);
    ensure!(status(&home)?["url"] == format!("http://{}/v1/metrics", second.address()));

    // Nowhere.
    home.reload(&policy(None))?;
    ensure!(status(&home)?.is_null());
    // One may be on its way.
    thread::sleep(Duration::from_millis(500));
    let asked = second.asked().len();
    thread::sleep(Duration::from_secs(2));
    ensure!(second.asked().len() == asked);

    // What came after the last export is in that of the end.
    home.reload(&policy(Some((second.address(), "1h"))))?;
    // The second is due by chance, within the hour.
    await_asked(&second, asked + 1)?;
    let connection = Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], PORT))?;
    is_tuned(&connection, &wire)?;
    agent.stop()?;
    let opened = series("wad_flows_opened_total", [("path".to_owned(), "bob".to_owned())].into());
    let at_the_end = second.asked().last().context("nothing")?.request.clone();
    ensure!(otlp::samples(&at_the_end).get(&opened) == Some(&1.0), "{at_the_end:?}");

    // Counts of the kernel go on, and say so; those of the agent begin anew.
    let asked = second.asked().len();
    let agent = home.start(stand.cgroup())?;
    let after = await_asked(&second, asked + 1)?[asked].request.clone();
    ensure!(otlp::samples(&after).get(&opened) == Some(&1.0), "{after:?}");
    let start = |request, name| otlp::start_of(request, name).context(name);
    let of_kernel = "wad_flows_opened_total";
    ensure!(start(&at_the_end, of_kernel)? == start(&after, of_kernel)?);
    let of_agent = "process_cpu_seconds_total";
    ensure!(start(&at_the_end, of_agent)? < start(&after, of_agent)?);
    drop(connection);
    home.keep_on_exit(false);
    home.reload(&policy(None))?;
    agent.stop()?;
    Ok(())
}
