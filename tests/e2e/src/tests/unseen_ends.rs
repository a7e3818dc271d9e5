//! A program of somebody else's takes the callback that tells of a flow's end: the counts
//! of the path are right again within a minute, whoever comes and goes meanwhile.

use std::{
    net::TcpStream,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    bpf,
    foreign::Foreign,
    metrics::Metrics,
    signal,
    stand::{Stand, until},
    tcp::{self, Connection, at},
    veth::{ADDRESSES_V4, Wire},
    wad::{Home, program},
};

const PORT: u16 = 7000;
const MINUTE: Duration = Duration::from_secs(60);
const SOON: Duration = Duration::from_secs(10);
/// Flows whose ends go unseen, and flows that stay.
const LOST: usize = 30;
const STAYING: usize = 10;

/// The policy has room for so many flows, and divides the buffers among them.
fn policy() -> String {
    format!(
        "[[path]]\nname = 'p'\nremote = '{}'\nremote_port = {PORT}\nsndbuf = '8MiB'\n\
         divide = true\nmax_flows = {}\n",
        ADDRESSES_V4[1],
        LOST + STAYING
    )
}

fn open(wire: &Wire, count: usize) -> Result<Vec<Connection>> {
    let to = at(ADDRESSES_V4[1], PORT);
    (0..count).map(|_| Ok(Connection::open(wire.a(), wire.b(), to)?)).collect()
}

fn tuned_and_closed(metrics: &Metrics) -> Result<(f64, f64)> {
    let of = |name| metrics.of_path(name, "p");
    Ok((of("wad_flows_tuned")?, of("wad_flows_closed_total")?))
}

#[e2e(long, beside, slow)]
fn flows_whose_end_is_hidden_are_counted_no_more_within_a_minute() -> Result<()> {
    let stand = Stand::set_up("unseen")?;
    let wire = Wire::start()?;
    let home = Home::create(&program()?, &policy())?;
    let _agent = home.start(stand.cgroup())?;
    let mut staying = open(&wire, STAYING - 1)?;
    let foreign = Foreign::clear_callbacks(stand.cgroup(), c"clears")?;
    let lost = open(&wire, LOST)?;
    // The other end resets it: the application holds a socket whose connection is over.
    let mut held: Vec<TcpStream> = Vec::new();
    for (n, Connection { near, far }) in lost.into_iter().enumerate() {
        if n.is_multiple_of(2) {
            tcp::reset(far)?;
            held.push(near);
        }
    }
    let look = || Ok::<_, anyhow::Error>(home.metrics()?);
    let all = (LOST + STAYING - 1) as f64;
    signal::sleep(Duration::from_secs(1))?;
    let seen = tuned_and_closed(&look()?)?;
    if bpf::loaded()?.iter().any(|program| program.name == "wad_ended") {
        // Before Linux 6.12 the agent has another program that sees each end.
        ensure!(seen == ((STAYING - 1) as f64, LOST as f64), "{seen:?}");
        return Ok(());
    }
    ensure!(seen == (all, 0.0), "an end was seen: nothing is tested");
    // This one's callback is taken, too, and it goes on.
    staying.extend(open(&wire, 1)?);
    drop(foreign);

    let right = (STAYING as f64, LOST as f64);
    let read = || tuned_and_closed(&look()?);
    until("they are counted no more", MINUTE, read, |seen| *seen == right)?;
    let metrics = look()?;
    ensure!(metrics.of_path("wad_flows_tuned_drift_total", "p")? == LOST as f64);
    ensure!(metrics.of_path("wad_flows_closed_unseen_total", "p")? == LOST as f64);
    ensure!(metrics.of_path("wad_flows_opened_total", "p")? == (LOST + STAYING) as f64);

    // Their parts of the buffers are others', and so is their room.
    let sndbuf = || Ok::<_, anyhow::Error>(staying[0].near_flow(wire.a())?.sndbuf_bytes);
    let part = 2 * ((8 << 20) / STAYING as u64);
    until("each has its part", SOON, sndbuf, |bytes| *bytes == part)?;
    let more = open(&wire, LOST)?;
    let metrics = look()?;
    ensure!(metrics.of_path("wad_flows_tuned", "p")? == (LOST + STAYING) as f64);
    ensure!(metrics.value("wad_flows_untuned_total", &["reason=\"max_flows\""])? == 0.0);
    drop((held, more));
    until("all others are seen to end", SOON, read, |(tuned, _)| *tuned == STAYING as f64)?;
    Ok(())
}

/// The flows are looked at twice meanwhile: a difference that both find is put right.
const CHURN: Duration = Duration::from_secs(53);

#[e2e(long, few, slow)]
fn flows_that_come_and_go_while_they_are_counted_are_counted_right() -> Result<()> {
    let stand = Stand::set_up("churn")?;
    let wire = Wire::start()?;
    let home = Home::create(&program()?, &policy().replace("max_flows", "# max_flows"))?;
    let _agent = home.start(stand.cgroup())?;
    let staying = open(&wire, STAYING)?;
    let to = at(ADDRESSES_V4[1], PORT);
    let listener = tcp::listen(wire.b(), to)?;
    let came = wire.a().run(|| -> Result<usize> {
        let (begun, mut came) = (Instant::now(), 0);
        while begun.elapsed() < CHURN {
            signal::check()?;
            let Connection { near, far } =
                Connection::accepted(&listener, TcpStream::connect(to)?)?;
            // One end as often as the other.
            let (first, second) = if came % 2 == 0 { (near, far) } else { (far, near) };
            tcp::reset(first)?;
            drop(second);
            came += 1;
        }
        Ok(came)
    })??;
    println!("{came} flows came and went");
    let look = || tuned_and_closed(&home.metrics()?);
    let right = (STAYING as f64, came as f64);
    until("all are seen to end", SOON, look, |seen| *seen == right)?;
    let metrics = home.metrics()?;
    ensure!(metrics.of_path("wad_flows_tuned_drift_total", "p")? == 0.0);
    ensure!(metrics.of_path("wad_flows_closed_unseen_total", "p")? == 0.0);
    drop(staying);
    until("so are these", SOON, look, |(tuned, _)| *tuned == 0.0)?;
    Ok(())
}
