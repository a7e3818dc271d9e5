//! `wad suggest` sees what limits connections that no path is for: what it prints takes the
//! limit away; and where nothing would, it says so.

use std::{
    io::{Read as _, Write as _},
    process::{Output, Stdio},
    slice,
    time::Duration,
};

use anyhow::{Result, ensure};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    emulated::wan::{ADDRESSES_V4, ADDRESSES_V6},
    sending::while_sending,
    signal,
    stand::Stand,
    tcp::{Connection, at},
    wad::{Home, program},
};

use crate::narrow;

const PORT: u16 = 7000;

const MOST_SNDBUF: u64 = 1 << 20;
const MOST_RCVBUF: u64 = 3 << 19;

fn suggest(home: &Home, arguments: &[&str]) -> Result<Output> {
    let output = home.command("suggest").args(arguments).output()?;
    println!("{}", String::from_utf8_lossy(&output.stdout));
    Ok(output)
}

fn suggested(home: &Home, arguments: &[&str]) -> Result<String> {
    let output = suggest(home, arguments)?;
    ensure!(output.status.success(), "{output:?}");
    Ok(String::from_utf8(output.stdout)?)
}

#[e2e(long, few, slow)]
fn what_is_suggested_takes_the_limit_away() -> Result<()> {
    let stand = Stand::set_up("suggest")?;
    let wan = narrow::wan(MOST_SNDBUF, MOST_RCVBUF)?;
    let home = Home::create(&program()?, "")?;
    let _agent = home.start(stand.cgroup())?;
    // An end in the kernel that nobody uses is no connection.
    let none = suggest(&home, &["--for", "2s"])?;
    ensure!(none.status.code() == Some(1), "{none:?}");
    for address in [ADDRESSES_V4[1], ADDRESSES_V6[1]] {
        home.reload("")?;
        let open = || Connection::open(wan.a(), wan.b(), at(address, PORT));
        let connection = open()?;
        let text = while_sending(slice::from_ref(&connection), || {
            signal::sleep(Duration::from_secs(2))?;
            suggested(&home, &["--for", "4s", "--remote", address])
        })?;
        let limits = ["the send buffer", "the peer's receive window"];
        ensure!(limits.iter().any(|limit| text.contains(limit)), "{text}");
        ensure!(text.matches("[[path]]").count() == 1, "{text}");
        ensure!(text.contains(&format!("remote = \"{address}\"\n")), "{text}");
        drop(connection);

        home.reload(&text)?;
        let connection = open()?;
        let flow = while_sending(slice::from_ref(&connection), || {
            signal::sleep(Duration::from_secs(4))?;
            connection.near_flow(wan.a())
        })?;
        ensure!(flow.sndbuf_bytes > MOST_SNDBUF, "{flow:?}; {text}");
    }
    Ok(())
}

#[e2e(long, beside)]
fn what_nothing_helps_is_said_to_be_so() -> Result<()> {
    let stand = Stand::set_up("suggest-nothing")?;
    let wan = narrow::wan(MOST_SNDBUF, MOST_RCVBUF)?;
    let home = Home::create(&program()?, "")?;
    let _agent = home.start(stand.cgroup())?;
    let connection = Connection::open(wan.a(), wan.b(), at(ADDRESSES_V4[1], PORT))?;
    let mut near = &connection.near;
    let mut command = home.command("suggest");
    command.args(["--for", "3s", "--remote", ADDRESSES_V4[1]]).stdout(Stdio::piped());
    let mut watching = command.spawn()?;
    let mut far = &connection.far;
    while watching.try_wait()?.is_none() {
        near.write_all(&[0; 10_000])?;
        far.read_exact(&mut [0; 10_000])?;
    }
    let output = watching.wait_with_output()?;
    let text = String::from_utf8(output.stdout)?;
    ensure!(text.contains("Nothing here would help any of them"), "{text}");
    ensure!(text.contains("limited by the sending application"), "{text}");
    ensure!(!text.contains("[[path]]"), "{text}");
    Ok(())
}
