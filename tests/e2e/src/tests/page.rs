//! The page for browsers, asked as browsers do, and as those do who should get nothing of it. What
//! it looks like in one is seen by `cargo xtask bench page --look`.

use std::{
    fs::{self, Permissions},
    io::{Read as _, Write as _},
    net::TcpStream,
    os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    free, html,
    process::run,
    stand::{Stand, until},
    tcp::{Connection, at},
    veth::{ADDRESSES_V4, Wire},
    wad::{Home, program},
};

/// A path's name, and a process', that would do something if they were not escaped.
const HOSTILE: &str = "<b>&\"'</script>";
const COMMAND: &str = "<i>&\"'</td>";
const PORT: u16 = 7000;
const FLOWS: usize = 10;
/// Clients that say nothing, at a time.
const SILENT: usize = 200;
const SOON: Duration = Duration::from_secs(2);

/// Returns the status line with the headers, and the body.
fn curl(arguments: &[&str]) -> Result<(String, String)> {
    let mut all = vec!["-s", "-i", "--max-time", "10"];
    all.extend(arguments);
    let answer = run("curl", &all)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no answer")?;
    Ok((head.to_lowercase(), body.to_owned()))
}

#[e2e(long, beside)]
fn a_page_shows_what_there_is_to_this_host_alone() -> Result<()> {
    let stand = Stand::set_up("page")?;
    let wire = Wire::start()?;
    let address = free::address()?;
    let policy = format!(
        "[page]\nlisten = '{address}'\nhosts = 'dtn.example.org'\n\
         [[path]]\nname = {}\nremote = '10.81.0.2'\nremote_port = {PORT}\nsndbuf = '1MiB'\n",
        toml::Value::String(HOSTILE.to_owned())
    );
    let home = Home::create(&program()?, &policy)?;
    let agent = home.start(stand.cgroup())?;
    let url = |path: &str| format!("http://{address}{path}");

    // Without a flow, and with some.
    let (head, none) = curl(&[&url("/flows")])?;
    ensure!(head.starts_with("http/1.1 200"), "{head}");
    ensure!(
        html::text(&none).map_err(anyhow::Error::msg)?.contains("No connection is on a path now")
    );
    fs::write("/proc/self/comm", COMMAND)?;
    let open = |_| Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], PORT));
    let connections: Vec<Connection> = (0..FLOWS).map(open).collect::<Result<_, _>>()?;
    connections[0].exchange(1 << 20)?;
    let (_, flows) = curl(&[&url("/flows")])?;
    ensure!(flows.matches("/flow?cookie=").count() == FLOWS, "{flows}");
    let (_, cookie) = flows.split_once("/flow?cookie=").context("no flow")?;
    let flow = format!("/flow?cookie={}", cookie.split('"').next().unwrap_or_default());
    // The agent hears of them within a tenth of a second.
    let look = || Ok::<_, anyhow::Error>(curl(&[&url("/events")])?.1);
    until("their events are there", SOON, look, |page| page.contains("&lt;b&gt;"))?;
    for path in
        ["/", "/path?name=%3Cb%3E%26%22%27%3C%2Fscript%3E", "/flows", &flow, "/events", "/host"]
    {
        let (head, page) = curl(&[&url(path)])?;
        ensure!(head.starts_with("http/1.1 200"), "{path}: {head}");
        ensure!(
            head.contains("content-security-policy: default-src 'none'; script-src 'self'"),
            "{head}"
        );
        ensure!(
            head.contains("cache-control: no-store") && head.contains("x-frame-options: deny"),
            "{head}"
        );
        let text =
            html::text(&page).map_err(anyhow::Error::msg).with_context(|| path.to_owned())?;
        ensure!(!page.contains("<b>&") && !page.contains("<i>&"), "{path}: {page}");
        if path != "/host" {
            ensure!(text.contains("&lt;b&gt;&amp;&quot;'&lt;/script&gt;"), "{path}: {text}");
        }
        if path == flow {
            ensure!(text.contains(&format!("wad trace --instance {}", home.instance())), "{text}");
        }
        if path.starts_with("/flow") {
            // As `ps` shows it: 15 bytes, of which quotes are told apart.
            ensure!(text.contains("&lt;i&gt;&amp;"), "{path}: {text}");
        }
    }
    let (head, _) = curl(&["--head", &url("/flows")])?;
    ensure!(head.starts_with("http/1.1 200"), "{head}");
    let asset = none.split('"').find(|it| it.starts_with("/assets/")).context("no style")?;
    let (head, _) = curl(&[&url(asset)])?;
    ensure!(head.contains("cache-control: public, max-age=31536000, immutable"), "{head}");

    // Those who should get nothing.
    for (arguments, status) in [
        (&["-H", "Host: evil.example"][..], 421),
        (&["-H", "Host: localhost.evil.example"], 421),
        (&["-H", "Host: dtn.example.org"], 200),
        (&["-H", "Host:"], 421),
        (&["-H", "Origin: http://evil.example"], 403),
        (&["-H", "Origin: null"], 403),
        (&["-H", "Sec-Fetch-Site: cross-site"], 403),
        (&["-H", "Sec-Fetch-Site: same-origin"], 200),
        (&["-X", "POST"], 405),
        (&["-X", "DELETE"], 405),
        (&["-X", "OPTIONS"], 405),
    ] {
        let url = url("/");
        let arguments: Vec<&str> = arguments.iter().copied().chain([&*url]).collect();
        let (head, body) = curl(&arguments)?;
        ensure!(head.starts_with(&format!("http/1.1 {status}")), "{arguments:?}: {head}");
        ensure!(status == 200 || !body.contains("&lt;b&gt;"), "{arguments:?}: {body}");
    }
    let refused = |reason: &str| -> Result<f64> {
        Ok(home.metrics()?.value("wad_page_refused_total", &[&format!("reason=\"{reason}\"")])?)
    };
    ensure!(refused("host")? == 3.0 && refused("origin")? == 3.0 && refused("method")? == 3.0);

    // Those who keep it waiting.
    let mut silent = Vec::new();
    for n in 0..SILENT {
        let mut client = TcpStream::connect(address)?;
        // It may have been cut off already.
        let _ = client.write_all(if n % 2 == 0 { b"" } else { b"GET / HTTP/1.1\r\nHost: lo" });
        silent.push(client);
    }
    let begun = Instant::now();
    let (head, _) = curl(&[&url("/")])?;
    ensure!(
        head.starts_with("http/1.1 200") && begun.elapsed() < SOON,
        "{:?}: {head}",
        begun.elapsed()
    );
    ensure!(refused("slow")? >= (SILENT / 2) as f64, "{}", refused("slow")?);
    drop(silent);
    let mut huge = TcpStream::connect(address)?;
    let _ = huge.write_all(format!("GET / HTTP/1.1\r\nX: {}\r\n", "x".repeat(1 << 20)).as_bytes());
    let mut answer = Vec::new();
    let _ = huge.read_to_end(&mut answer);
    ensure!(!answer.starts_with(b"HTTP/1.1 200"));
    agent.stop()?;
    Ok(())
}

#[e2e(long, beside)]
fn a_reload_begins_the_page_moves_it_to_a_socket_and_ends_it() -> Result<()> {
    let stand = Stand::set_up("page-reload")?;
    let home = Home::create(&program()?, "")?;
    let agent = home.start(stand.cgroup())?;
    let address = free::address()?;
    let url = format!("http://{address}/");
    let socket = home.folder().join("page.sock");
    let is_open = || Command::new("curl").args(["-s", &url]).output().map(|it| it.status.success());
    ensure!(!is_open()?);

    let policy = format!("[page]\nlisten = '{address}'\n");
    home.write_policy(&policy)?;
    let output = home.command("reload").args(["--dry-run", "--json"]).output()?;
    let told = String::from_utf8_lossy(&output.stdout);
    // The file may have been taken already, as it changed.
    ensure!(told.contains("\"page\"") || is_open()?, "{told}");
    home.reload(&policy)?;
    ensure!(is_open()?);
    let status = run_status(&home)?;
    ensure!(status.contains(&format!("page     {url}")), "{status}");

    fs::write(&socket, "a file of somebody's")?;
    let moved = format!("[page]\nlisten = '{}'\n", socket.display());
    ensure!(home.reload(&moved).is_err() && is_open()?, "it stays where it was");
    fs::remove_file(&socket)?;
    // Nor does it go where others could put a socket of their own in its place.
    let shared = home.folder().join("shared");
    fs::create_dir(&shared)?;
    fs::set_permissions(&shared, Permissions::from_mode(0o777))?;
    home.write_policy(&format!("[page]\nlisten = '{}/page.sock'\n", shared.display()))?;
    let output = home.command("reload").output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(said.contains("others may write to") && is_open()?, "{said}");
    ensure!(fs::read_dir(&shared)?.next().is_none(), "nothing is made there");
    home.reload(&moved)?;
    ensure!(!is_open()?);
    let found = fs::symlink_metadata(&socket)?;
    ensure!(found.file_type().is_socket() && found.mode() & 0o777 == 0o600, "{found:?}");
    let file = socket.to_str().context("a path of text")?;
    let (head, page) = curl(&["--unix-socket", file, "http://localhost/host"])?;
    ensure!(head.starts_with("http/1.1 200"), "{head}");
    html::text(&page).map_err(anyhow::Error::msg)?;
    let (head, _) = curl(&["--unix-socket", file, "http://evil.example/host"])?;
    ensure!(head.starts_with("http/1.1 421"), "{head}");

    home.reload("")?;
    ensure!(!socket.exists());
    home.reload(&moved)?;
    ensure!(socket.exists());
    agent.stop()?;
    ensure!(!socket.exists());
    Ok(())
}

fn run_status(home: &Home) -> Result<String> {
    Ok(String::from_utf8(home.command("status").output()?.stdout)?)
}
