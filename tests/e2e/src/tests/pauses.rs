//! A window outlasts a pause of the application's, where its path says to keep it. Windows
//! count segments.

use std::{thread, time::Duration};

use anyhow::{Context as _, Result, ensure};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    capture::Capture,
    emulated::wan::{self, ADDRESSES_V4, Wan},
    policy::path_to,
    settings, signal,
    stand::Stand,
    tcp::{self, Connection, at},
    wad::{Home, program},
};

const PORT: u16 = 7000;
const RTT: Duration = Duration::from_millis(40);
const PATH: &str = "rtt = '40ms'\nforward = { rate = '1Gbit', queue = { bdp = 1.0 } }\n";
const WINDOW: u32 = 100;
/// The kernel halves the window for each timeout of 240 ms or so.
const PAUSE: Duration = Duration::from_secs(3);
/// The window is the kernel's after that.
const RESTART_WINDOW: u32 = 10;

fn transfer(connection: &Connection, bytes: usize) -> Result<()> {
    let Connection { near, far } = connection;
    thread::scope(|scope| -> Result<()> {
        let sending = scope.spawn(|| tcp::send(near, bytes, 1));
        tcp::receive(far, bytes, 1)?;
        Ok(sending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?)
    })
}

/// As the book has it: the first flight is the kernel's, the next one the path's.
#[e2e(long, few)]
fn a_window_that_is_kept_is_back_with_the_first_ack() -> Result<()> {
    let stand = Stand::set_up("pause")?;
    let wan = Wan::start(&toml::from_str(PATH)?)?;
    settings::apply(&wan)?;
    let keys = format!(
        "congestion = \"wad_aimd\"; pacing = \"off\"; idle = \"keep\"; max_cwnd = {WINDOW}"
    );
    let home = Home::create(&program()?, &path_to(PORT, &keys))?;
    let _agent = home.start(stand.cgroup())?;
    let connection = Connection::open(wan.a(), wan.b(), at(ADDRESSES_V4[1], PORT))?;
    transfer(&connection, 2_000_000)?;
    let before = connection.near_flow(wan.a())?;
    ensure!(before.cwnd_segments == WINDOW, "{before:?}");
    signal::sleep(PAUSE)?;

    let filter = format!("tcp dst port {PORT} and greater 200");
    let capture = Capture::start(wan.a(), wan::DEVICE, &filter)?;
    transfer(&connection, 1_000_000)?;
    let packets = capture.stop()?;
    let first = packets.first().context("nothing was sent")?.time_seconds;
    let within = |from: f64, to: f64| -> u32 {
        let rtt = RTT.as_secs_f64();
        let of_flight = packets
            .iter()
            .filter(|packet| (from * rtt..to * rtt).contains(&(packet.time_seconds - first)));
        of_flight.map(|packet| packet.payload_bytes).sum::<u32>() / before.mss_bytes
    };
    let (first, second) = (within(0.0, 0.7), within(0.7, 1.7));
    println!("{first} segments after the pause, then {second}");
    ensure!(first <= RESTART_WINDOW, "{first} segments in the first flight");
    ensure!(second >= WINDOW * 8 / 10, "{second} segments in the second flight");
    Ok(())
}
