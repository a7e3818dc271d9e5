//! Real flows under `wad_delay` over the emulated path: they fill it, keep the
//! queue that they are to keep, and lose nothing. Times in milliseconds.

use std::{
    io::Write as _,
    net::{Shutdown, TcpStream},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    emulated::{
        path::Path,
        wan::{ADDRESSES_V4, Wan},
    },
    settings, signal,
    ss::Flow,
    stand::Stand,
    tcp::{self, Connection, at},
    wad::{Home, program},
};

/// The policy has a path that says what to keep queued, and one that leaves it to the
/// law, by port.
const POLICY: &str = r#"
[[path]]
name = "sixty"
remote = "10.77.0.2"
remote_port = 7001
sndbuf = "16MiB"
rcvbuf = "16MiB"
congestion = "wad_delay"
standing_queue = 60
allow = "aggressive"

[[path]]
name = "own"
remote = "10.77.0.2"
remote_port = 7002
sndbuf = "16MiB"
rcvbuf = "16MiB"
congestion = "wad_delay"
"#;

/// The path holds 1000 segments, and has room for half of that in the queue.
const PATH: &str = "rtt = '60ms'\nforward = { rate = '200Mbit', queue = { bdp = 0.5 } }\n";
const RTT_MS: f64 = 60.0;
/// The time that a segment of 1500 bytes takes at the bottleneck.
const SEGMENT_MS: f64 = 0.06;
/// Slow start, and what it overshot, is over.
const SETTLED: Duration = Duration::from_secs(4);
const SPAN: Duration = Duration::from_secs(9);

/// Watches a flow that sends all it can, as ss shows it once it is settled.
fn settled(wan: &Wan, stream: &TcpStream) -> Result<Vec<(Instant, Flow)>> {
    let begun = Instant::now();
    let mut flows = Vec::new();
    while begun.elapsed() < SPAN {
        signal::sleep(Duration::from_millis(20))?;
        if begun.elapsed() > SETTLED {
            flows.push((Instant::now(), tcp::flow(wan.a(), stream)?));
        }
    }
    Ok(flows)
}

/// Fills the path with the least and the most to be seen in its queue, in
/// segments, most of the time.
fn fills_the_path(port: u16, queue: [f64; 2]) -> Result<()> {
    let path: Path = toml::from_str(PATH)?;
    let wan = Wan::start(&path)?;
    settings::apply(&wan)?;
    let connection = Connection::open(wan.a(), wan.b(), at(ADDRESSES_V4[1], port))?;
    let Connection { near, far } = &connection;
    let flows = thread::scope(|scope| -> Result<_> {
        scope.spawn(|| {
            let block = vec![0; 256 * 1024];
            let mut to = near;
            while to.write_all(&block).is_ok() {}
        });
        scope.spawn(|| {
            let mut from = far;
            std::io::copy(&mut from, &mut std::io::sink())
        });
        let flows = settled(&wan, near);
        // Ends both threads.
        near.shutdown(Shutdown::Both)?;
        far.shutdown(Shutdown::Both)?;
        flows
    })?;
    let [forward, _] = wan.counters()?;

    let ((begin, first), (end, last)) = (&flows[0], &flows[flows.len() - 1]);
    let mut rtts: Vec<f64> = flows.iter().map(|(_, flow)| flow.rtt_ms).collect();
    rtts.sort_by(f64::total_cmp);
    let median_ms = rtts[rtts.len() / 2];
    let queued = (median_ms - RTT_MS) / SEGMENT_MS;
    let seconds = (*end - *begin).as_secs_f64();
    let share = (last.bytes_acked - first.bytes_acked) as f64 * 8.0
        / seconds
        / path.carries_bits_per_second();
    println!(
        "{share:.3} of the path's rate; RTT {:.2} to {:.2} ms, half of the time below \
         {median_ms:.2}: {queued:.0} segments queued; window {}; {forward:?}",
        rtts[0],
        rtts[rtts.len() - 1],
        last.cwnd_segments,
    );
    ensure!(last.congestion.starts_with("wad_delay"), "{last:?}");
    ensure!(forward.own_drops() == 0, "{forward:?}");
    ensure!(forward.queue_drops == 0 && last.retransmits == 0, "{forward:?}");
    ensure!(share > 0.9, "{share} of what the path carries");
    ensure!((queue[0]..queue[1]).contains(&queued), "{queued} segments in the queue");
    Ok(())
}

#[e2e(long, few)]
fn fills_the_path_with_a_small_queue() -> Result<()> {
    let stand = Stand::set_up("delay")?;
    let home = Home::create(&program()?, POLICY)?;
    let _agent = home.start(stand.cgroup())?;
    // What moderation adds, 0.1 ms, is two segments; a busy machine adds more.
    fills_the_path(7001, [40.0, 90.0])?;
    fills_the_path(7002, [10.0, 65.0])
}
