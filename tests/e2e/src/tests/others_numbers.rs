//! Two measured paths of one host. Of one the monitor says what cannot be, and another thing
//! each time: the other has its changes, its buffers and its memory as if it were alone.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    answers::{Answer, Answers},
    emulated::wan::ADDRESSES_V4,
    stand::{Stand, until},
    sysctl::Changed,
    tcp::{Connection, at},
    wad::{Home, program},
};

use super::{
    buffers::{
        self, KERNEL_BYTES, MOST_BYTES, PATH, SOON, await_little_held, fill, held_bytes, patient,
        sizes,
    },
    passive,
};

const RIGHT: u16 = 7000;
const WRONG: u16 = 7002;

/// Tells of the path whose number is right so many Mbit/s, and of the other nearly all that
/// there can be, a third more or less each time.
fn monitor(mbit: &Arc<AtomicU32>) -> Result<Answers> {
    let mbit = Arc::clone(mbit);
    let asked = AtomicU32::new(0);
    Ok(Answers::start(move |_| {
        let wrong =
            if asked.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) { 9e11 } else { 6e11 };
        let right = mbit.load(Ordering::Relaxed);
        let both = |port, rate: &str, rtt| {
            ["to", "of"].map(|way| {
                format!(
                    r#"{{"path": "{way}-{port}", "bandwidth_bits_per_second": {rate},
                         "rtt_seconds": {rtt}}}"#
                )
            })
        };
        let right = both(RIGHT, &format!("{right}e6"), 0.1);
        let paths = [both(WRONG, &format!("{wrong:e}"), 10.0), right].concat().join(",");
        Answer::json(format!(r#"{{"paths": [{paths}]}}"#))
    })?)
}

fn path(port: u16) -> String {
    format!(
        "[[path]]\nname = 'to-{port}'\nremote = '{}'\nremote_port = {port}\n\
         mode = 'measured'\nsndbuf = 'auto'\ncongestion = 'cubic'\n\
         [[path]]\nname = 'of-{port}'\nremote = '{}'\nlocal_port = {port}\n\
         mode = 'measured'\nrcvbuf = 'auto'\n\n",
        ADDRESSES_V4[1], ADDRESSES_V4[0]
    )
}

#[e2e(long, alone)]
fn a_wrong_number_of_one_path_takes_nothing_from_another() -> Result<()> {
    const RECEIVERS: usize = 64;
    let stand = Stand::set_up("others-numbers")?;
    let most = format!("4096 16384 {KERNEL_BYTES}");
    let kernel = ["net.ipv4.tcp_wmem", "net.ipv4.tcp_rmem"].map(|name| Changed::to(name, &most));
    let [wmem, rmem] = kernel;
    let _restored = (wmem?, rmem?);
    let mbit = Arc::new(AtomicU32::new(PATH.0 / 2));
    let answers = monitor(&mbit)?;
    let policy = |limit: &str| {
        format!(
            "[limits]\nchange_interval = '1s'\n{limit}\n[[source]]\nname = 'own'\nkind = 'http'\n\
             url = 'http://{}'\ninterval = '1s'\n\n{}{}",
            answers.address(),
            path(WRONG),
            path(RIGHT)
        )
    };
    let home = Home::create(&program()?, &policy(""))?;
    let _agent = home.start(stand.cgroup())?;
    let wan = buffers::wan(PATH)?;
    await_little_held()?;

    // The other path's policy is another one each time; this one follows all the same.
    let most_sndbuf = || -> Result<u64> { Ok(passive::buffers(&home, 2)?.0) };
    until("it is measured", SOON, most_sndbuf, |bytes| *bytes == MOST_BYTES / 2)?;
    mbit.store(PATH.0, Ordering::Relaxed);
    let begun = Instant::now();
    until("it has followed", SOON, most_sndbuf, |bytes| *bytes == MOST_BYTES)?;
    println!("followed after {:?}", begun.elapsed());
    ensure!(begun.elapsed() < Duration::from_secs(10), "{}", home.log());

    let open = |port| patient(Connection::open(wan.a(), wan.b(), at(ADDRESSES_V4[1], port))?);
    let unread = (0..RECEIVERS).map(|_| open(WRONG)).collect::<Result<Vec<_>>>()?;
    fill(&unread)?;
    // They hold nine tenths of what may be held.
    let limit_bytes = held_bytes()? / 9 * 10;
    home.reload(&policy(&format!("max_memory = {limit_bytes}\n")))?;
    let is_said = |log: &String| log.contains("max_memory allows");
    until("the bound is said to be met", SOON, || anyhow::Ok(home.log()), is_said)?;
    let connection = open(RIGHT)?;
    let span = Duration::from_secs(8);
    let bytes = buffers::while_sending(&connection, Duration::ZERO, span, || {
        let look = || sizes(&wan, &connection);
        let grown = |seen: &(u64, u64)| *seen == (MOST_BYTES, MOST_BYTES);
        until("both have grown", span / 8 * 7, look, grown)?;
        Ok(())
    })?;
    let got = bytes as f64 * 8.0 / 1e6 / span.as_secs_f64();
    println!("{got:.0} Mbit/s beside {limit_bytes} bytes");
    ensure!(got > 50.0, "{got} Mbit/s; {}", home.log());
    Ok(())
}
