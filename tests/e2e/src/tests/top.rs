//! `wad top` on terminals of two sizes, with no flow, one, and thousands; and the
//! terminal given back, whatever ends it.

use std::{
    fs,
    io::Write as _,
    net::Shutdown,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use nix::{
    sys::{
        resource::{Resource, getrlimit, setrlimit},
        signal::{Signal, kill},
    },
    unistd::Pid,
};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    stand::{Stand, until},
    tcp::{Connection, at, connect, listen},
    tmux::Terminal,
    veth::{ADDRESSES_V4, Wire},
    wad::{Home, program},
};

const POLICY: &str = "
[[path]]
name = 'near'
remote = '10.81.0.0/16'
mode = 'observe'
";
const SIZES: [(u16, u16); 2] = [(80, 24), (200, 50)];
const MANY: usize = 5000;
const PATIENCE: Duration = Duration::from_secs(30);

/// `wad top` on a terminal.
struct Top {
    terminal: Terminal,
    pid_file: PathBuf,
    settings_before: String,
}

impl Top {
    fn start(home: &Home, (columns, lines): (u16, u16)) -> Result<Self> {
        let terminal = Terminal::open(columns, lines)?;
        let pid_file = home.folder().join("top.pid");
        let settings_before = settings(&terminal, home.folder())?;
        let command = home.command("top");
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
        let words = words.join(" ");
        terminal.run(&format!("sh -c 'echo $$ > {}; exec {words}'", pid_file.display()))?;
        Ok(Self { terminal, pid_file, settings_before })
    }

    /// Waits until the picture has all of these.
    fn shows(&self, texts: &[&str]) -> Result<String> {
        let has_all = |picture: &String| texts.iter().all(|text| picture.contains(text));
        until("the picture", PATIENCE, || Ok(self.terminal.picture()?), has_all)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let pid: i32 = fs::read_to_string(&self.pid_file)?.trim().parse()?;
        Ok(kill(Pid::from_raw(pid), signal)?)
    }

    /// Checks that the shell has the terminal again, as it was.
    fn is_given_back(&self, home: &Home) -> Result<()> {
        let taken = || Ok::<_, anyhow::Error>(self.terminal.is_taken()?);
        until("the terminal is given back", PATIENCE, taken, |taken| !taken)?;
        let settings = settings(&self.terminal, home.folder())?;
        ensure!(settings == self.settings_before, "{settings} is not {}", self.settings_before);
        Ok(())
    }
}

/// Returns the settings of the terminal's line discipline, as its shell sees them.
fn settings(terminal: &Terminal, folder: &Path) -> Result<String> {
    let file = folder.join("stty");
    let _ = fs::remove_file(&file);
    terminal.run(&format!("stty -g > {0}.new; mv {0}.new {0}", file.display()))?;
    let read = || Ok::<_, anyhow::Error>(fs::read_to_string(&file).unwrap_or_default());
    until("stty has answered", PATIENCE, read, |text| !text.is_empty())
}

#[e2e(long, beside)]
fn flows_and_paths_are_shown_at_both_sizes() -> Result<()> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard.min(4 * MANY as u64), hard)?;
    let stand = Stand::set_up("top")?;
    let wire = Wire::start()?;
    let home = Home::create(&program()?, POLICY)?;
    let _agent = home.start(stand.cgroup())?;
    for size in SIZES {
        let top = Top::start(&home, size)?;
        top.shows(&["0 flows, 0 paths", "no flow of any path", "? keys"])?;
        top.terminal.press("q")?;
        top.is_given_back(&home)?;
    }

    // One of the two ends sends 100 kB in each tenth of a second: 8 Mbit/s.
    let to = at(ADDRESSES_V4[1], 7000);
    let connection = Connection::open(wire.a(), wire.b(), to)?;
    let Connection { near, far } = &connection;
    let seen = thread::scope(|scope| {
        scope.spawn(move || {
            let mut to = near;
            while to.write_all(&[0; 100_000]).is_ok() {
                thread::sleep(Duration::from_millis(100));
            }
        });
        scope.spawn(move || std::io::copy(&mut { far }, &mut std::io::sink()));
        let look = || -> Result<()> {
            for size in SIZES {
                let top = Top::start(&home, size)?;
                let picture = top.shows(&["2 flows, 1 path", " Mbit/s", "sender app"])?;
                let line = picture.lines().find(|line| line.contains(":7000"));
                let line = line.context("no such flow")?;
                let rate: f64 = line.split(' ').next().context("no rate")?.parse()?;
                ensure!((4.0..9.0).contains(&rate), "{line}");
                ensure!(picture.contains("10.81.0.2:7000"), "{picture}");
                top.terminal.press("p")?;
                top.shows(&["MOST LIMITED BY", "near", "sender app"])?;
                top.terminal.press("?")?;
                top.shows(&["Ctrl-Z        suspend"])?;
                top.terminal.press("x")?;
                top.terminal.press("q")?;
                top.is_given_back(&home)?;
            }
            Ok(())
        };
        let seen = look();
        for end in [near, far] {
            let _ = end.shutdown(Shutdown::Both);
        }
        seen
    });
    seen?;
    drop(connection);

    let listener = listen(wire.b(), at(ADDRESSES_V4[1], 7001))?;
    let connections = (0..MANY / 2)
        .map(|_| {
            let near = connect(wire.a(), at(ADDRESSES_V4[1], 7001))?;
            Ok(Connection::accepted(&listener, near)?)
        })
        .collect::<Result<Vec<_>>>()?;
    for size in SIZES {
        let top = Top::start(&home, size)?;
        let picture = top.shows(&["5000 flows, 1 path", "idle"])?;
        let rows = picture.lines().filter(|line| line.contains("10.81.0.")).count();
        ensure!(rows == usize::from(size.1) - 3, "{rows} rows: {picture}");
        let wanted = connections[0].near.local_addr()?.to_string();
        top.terminal.type_in(&format!("/{wanted}"))?;
        top.terminal.press("Enter")?;
        top.shows(&[&format!("only rows with \"{wanted}\"")])?;
        top.terminal.press("Escape")?;
        top.terminal.press("End")?;
        top.terminal.press("NPage")?;
        top.shows(&["5000 flows"])?;
        top.terminal.press("C-c")?;
        top.is_given_back(&home)?;
    }
    Ok(())
}

#[e2e(long, beside)]
fn the_terminal_is_given_back_whatever_ends_it() -> Result<()> {
    let stand = Stand::set_up("top")?;
    let home = Home::create(&program()?, POLICY)?;
    let agent = home.start(stand.cgroup())?;
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let top = Top::start(&home, SIZES[0])?;
        top.shows(&["0 flows"])?;
        top.signal(signal)?;
        top.is_given_back(&home)?;
    }

    let top = Top::start(&home, SIZES[0])?;
    top.shows(&["0 flows"])?;
    // By the key, which is none of the terminal's in raw mode, and by the signal.
    top.terminal.press("C-z")?;
    top.is_given_back(&home)?;
    top.terminal.run("fg")?;
    top.shows(&["0 flows"])?;
    top.signal(Signal::SIGTSTP)?;
    top.is_given_back(&home)?;
    top.terminal.run("fg")?;
    top.shows(&["0 flows"])?;

    // The agent goes, and comes back.
    agent.stop()?;
    top.shows(&["no agent runs"])?;
    let _agent = home.start(stand.cgroup())?;
    until(
        "the trouble is over",
        PATIENCE,
        || Ok::<_, anyhow::Error>(top.terminal.picture()?),
        |picture| !picture.contains("no agent runs"),
    )?;
    top.terminal.press("q")?;
    top.is_given_back(&home)
}

#[e2e(long, beside)]
fn without_a_terminal_it_says_what_to_use() -> Result<()> {
    let home = Home::create(&program()?, POLICY)?;
    let output = home.command("top").output()?;
    ensure!(!output.status.success());
    ensure!(String::from_utf8(output.stderr)?.contains("`wad flows`"));
    Ok(())
}
