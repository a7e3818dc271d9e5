//! This kernel accepts every law of wad's, and each carries a transfer over a path
//! with losses, a mark and late packets. And of its own it loads what is asked for.

use std::{fs, process::Command, thread};

use anyhow::{Context as _, Result, ensure};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    emulated::wan::{ADDRESSES_V4, Wan},
    policy::path_to,
    settings::{self, Ecn},
    stand::Stand,
    sysctl,
    tcp::{self, Connection, at},
    wad::{Home, program},
};

pub(super) const LAWS: [(&str, &str); 8] = [
    ("wad_cubic", "congestion = \"wad_cubic\"; ignore_local_stalls = true"),
    ("wad_aimd", "congestion = \"wad_aimd\"; ignore_local_stalls = true; idle = \"keep\""),
    ("wad_highspeed", "congestion = \"wad_highspeed\"; max_ssthresh = 100"),
    ("wad_scalable", "congestion = \"wad_scalable\"; initial_ssthresh = 300"),
    ("wad_binomial", "congestion = \"wad_binomial\"; binomial = \"iiad\"; idle = \"keep\""),
    ("wad_leaky", "loss = \"leaky\"; max_cwnd = 400"),
    ("wad_delay", "congestion = \"wad_delay\"; standing_queue = 20"),
    ("wad_dedicated", "dedicated = \"20Mbit\"; rtt = \"20ms\""),
];
const FIRST_PORT: u16 = 7001;
const BYTES: usize = 2_000_000;

/// The path is lossy and marking, and slow enough for an emulated processor.
const PATH: &str = "rtt = '20ms'\nforward = { rate = '50Mbit', queue = { bdp = 0.5 }, \
                    loss = 3e-3, mark_at = ['300ms'], \
                    reorder = { probability = 0.002, by = '10ms' } }\n";

#[e2e(every_change, beside)]
fn each_law_carries_a_transfer() -> Result<()> {
    let stand = Stand::set_up("laws")?;
    let wan = Wan::start(&toml::from_str(PATH)?)?;
    settings::apply(&wan)?;
    settings::ask_for_ecn(&wan, Ecn::Classic)?;
    let laws = || (FIRST_PORT..).zip(LAWS);
    let policy: String = laws().map(|(port, (_, keys))| path_to(port, keys)).collect();
    let home = Home::create(&program()?, &policy)?;
    let agent = home.start(stand.cgroup())?;
    for (port, (law, _)) in laws() {
        let connection = Connection::open(wan.a(), wan.b(), at(ADDRESSES_V4[1], port))?;
        let Connection { near, far } = &connection;
        thread::scope(|scope| {
            let sending = scope.spawn(|| tcp::send(near, BYTES, 1));
            tcp::receive(far, BYTES, 1)?;
            sending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
        .with_context(|| format!("a transfer under {law}"))?;
        let flow = connection.near_flow(wan.a())?;
        println!("{law}: {flow:?}");
        // Of an instance's algorithm the name has a suffix, and room for it.
        ensure!(flow.congestion.starts_with(&law[..law.len().min(12)]), "{flow:?}");
        ensure!(flow.retransmits > 0, "no loss was seen under {law}");
    }
    agent.stop()?;
    Ok(())
}

/// The algorithm is a module of Debian's kernels, under which this is run, too. Where
/// there is none, the agent says so, and does not start.
const OF_THE_KERNEL: &str = "highspeed";

fn is_loaded() -> Result<bool> {
    let all = sysctl::get("net.ipv4.tcp_available_congestion_control")?;
    Ok(all.split_whitespace().any(|name| name == OF_THE_KERNEL))
}

fn is_module() -> Result<bool> {
    let release = sysctl::get("kernel.osrelease")?;
    let modules = fs::read_to_string(format!("/lib/modules/{release}/modules.dep"));
    Ok(modules.is_ok_and(|modules| modules.contains(&format!("/tcp_{OF_THE_KERNEL}.ko"))))
}

#[e2e(every_change, alone)]
fn an_algorithm_of_the_kernels_is_loaded_if_need_be() -> Result<()> {
    let stand = Stand::set_up("module")?;
    let was_loaded = is_loaded()?;
    let is_to_be_had = was_loaded || is_module()?;
    let keys = format!("congestion = \"{OF_THE_KERNEL}\"");
    let policy = path_to(FIRST_PORT, &keys);
    let home = Home::create(&program()?, &policy)?;
    let agent = match home.start(stand.cgroup()) {
        Ok(agent) => agent,
        Err(error) => {
            let said = error.to_string();
            // The kernel is asked where its modules are not listed.
            let is_named = said.contains(&format!("no congestion control `{OF_THE_KERNEL}`"))
                || said.contains(&format!("nor loads the congestion control {OF_THE_KERNEL}"));
            ensure!(is_named && !is_to_be_had, "{said}");
            return Ok(());
        }
    };
    let wan = Wan::start(&toml::from_str(PATH)?)?;
    settings::apply(&wan)?;
    let connection = Connection::open(wan.a(), wan.b(), at(ADDRESSES_V4[1], FIRST_PORT))?;
    let flow = connection.near_flow(wan.a())?;
    println!("{flow:?}, loaded before: {was_loaded}");
    ensure!(is_loaded()? && flow.congestion == OF_THE_KERNEL, "{flow:?}");
    drop(connection);
    agent.stop()?;
    if !was_loaded {
        // Fails while a connection that closes has it: then it stays.
        Command::new("modprobe").args(["-r", &format!("tcp_{OF_THE_KERNEL}")]).status()?;
    }
    Ok(())
}
