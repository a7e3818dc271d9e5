//! `wad check`: reads a configuration as `wad run` would, and says what comes
//! of it. Buffers are the arguments of SO_SNDBUF and SO_RCVBUF, in bytes.

use std::{
    fmt::{self, Display},
    fs,
    io::{self, Write},
    path::Path,
};

use anyhow::Context;

use crate::ceilings::{Ceilings, RMEM_MAX, WMEM_MAX};
use crate::config::{
    Config, Congestion, Host, PathPolicy, WAD_AIMD, covers_ipv4, decrease, increase_segments, share,
};

/// Paths and notes shown; the rest is a number.
const SHOWN: usize = 50;

/// Checks a file and prints its paths.
pub fn run(file: &Path) -> anyhow::Result<()> {
    let config = Config::load(file, &Host::read()?)?;
    let page = Page { file, config: &config, ceilings: Ceiling::all(&config, read_sysctl) };
    // Whoever reads only the head of it, as `head` does, has seen enough.
    match write!(io::stdout().lock(), "{page}") {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to standard output"),
    }
}

/// The current value; None where this network namespace does not show it.
fn read_sysctl(name: &str) -> Option<u64> {
    let file = Path::new("/proc/sys").join(name.replace('.', "/"));
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// A sysctl that bounds the buffers of all paths.
struct Ceiling {
    sysctl: &'static str,
    needed_bytes: u64,
    now_bytes: Option<u64>,
}

impl Ceiling {
    /// Those that the configuration needs.
    fn all(config: &Config, read: impl Fn(&str) -> Option<u64>) -> Vec<Self> {
        let Ceilings { rcvbuf_bytes, sndbuf_bytes } = Ceilings::of(&config.paths);
        [(WMEM_MAX, sndbuf_bytes), (RMEM_MAX, rcvbuf_bytes)]
            .into_iter()
            .filter(|(_, needed_bytes)| *needed_bytes > 0)
            .map(|(sysctl, needed_bytes)| Self { sysctl, needed_bytes, now_bytes: read(sysctl) })
            .collect()
    }
}

impl Display for Ceiling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sysctl, needed_bytes, now_bytes } = self;
        match now_bytes {
            None => write!(f, "{sysctl} must be {needed_bytes} or more; it can't be read here"),
            Some(now) if now >= needed_bytes => write!(f, "{sysctl} is {now}, which is enough"),
            Some(now) => {
                write!(f, "{sysctl} is {now}; `wad run` raises it to {needed_bytes} while it runs")
            }
        }
    }
}

/// All that is printed.
struct Page<'a> {
    file: &'a Path,
    config: &'a Config,
    ceilings: Vec<Ceiling>,
}

impl Display for Page<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paths = &self.config.paths;
        if !paths.is_empty() {
            let rows: Vec<_> = paths.iter().take(SHOWN).map(row).collect();
            write_table(f, &rows)?;
            write_more(f, paths.len())?;
            writeln!(f)?;
        }
        for ceiling in &self.ceilings {
            writeln!(f, "{ceiling}")?;
        }
        let notes: Vec<_> = paths.iter().filter_map(note).collect();
        for note in notes.iter().take(SHOWN) {
            writeln!(f, "{note}")?;
        }
        write_more(f, notes.len())?;
        let s = if paths.len() == 1 { "" } else { "s" };
        writeln!(f, "{}: {} path{s}, no error", self.file.display(), paths.len())
    }
}

const COLUMNS: [&str; 8] =
    ["PATH", "REMOTE", "SNDBUF", "RCVBUF", "IW", "CONGESTION", "AIMD(b, a)", "SHARE"];

fn row(path: &PathPolicy) -> [String; COLUMNS.len()] {
    let number = |number: Option<u32>| number.map_or_else(|| "-".to_owned(), |n| n.to_string());
    let remote = match path.remote.as_slice() {
        [] => "-".to_owned(),
        [one] => one.to_string(),
        [first, rest @ ..] => format!("{first} +{}", rest.len()),
    };
    let (congestion, aimd, share) = match &path.congestion {
        None => ("-", "-".to_owned(), "-".to_owned()),
        Some(Congestion::Kernel(name)) => (name.as_str(), "-".to_owned(), "-".to_owned()),
        Some(Congestion::WadAimd) => {
            let (increase, decrease) = (increase_segments(path.aimd), decrease(path.aimd));
            let aimd = format!("{}, {}", rounded(decrease), rounded(increase));
            (WAD_AIMD, aimd, format!("{:.2}", share(path.aimd)))
        }
    };
    [
        path.name.clone(),
        remote,
        number(path.sndbuf_bytes),
        number(path.rcvbuf_bytes),
        number(path.initial_window_segments),
        congestion.to_owned(),
        aimd,
        share,
    ]
}

/// Four digits behind the point, no trailing zeros: what fixed point keeps.
fn rounded(number: f64) -> f64 {
    (number * 1e4).round() / 1e4
}

fn note(path: &PathPolicy) -> Option<String> {
    let wide = path.remote.iter().find(|net| net.addr().is_ipv6() && covers_ipv4(**net))?;
    Some(format!(
        "path {}: {wide} also covers IPv4, whose addresses are looked up as IPv6",
        path.name
    ))
}

fn write_more(f: &mut fmt::Formatter<'_>, count: usize) -> fmt::Result {
    match count.saturating_sub(SHOWN) {
        0 => Ok(()),
        more => writeln!(f, "and {more} more"),
    }
}

fn write_table(f: &mut fmt::Formatter<'_>, rows: &[[String; COLUMNS.len()]]) -> fmt::Result {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([COLUMNS[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..COLUMNS.len()).map(width).collect();
    let head = COLUMNS.map(str::to_owned);
    for row in [&head].into_iter().chain(rows) {
        let cells = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}"));
        writeln!(f, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str, sysctl_bytes: Option<u64>) -> String {
        let host = Host { congestion_controls: vec!["reno".to_owned()] };
        let config = Config::parse("wad.toml", text, &host).expect("valid");
        let ceilings = Ceiling::all(&config, |_| sysctl_bytes);
        Page { file: Path::new("wad.toml"), config: &config, ceilings }.to_string()
    }

    const TWO: &str = r#"
        [[path]]
        name = "bob"
        remote = ["10.5.128.74", "2001:db8:5::/48"]
        sndbuf = "4MiB"
        initial_window = 24
        wadai = 6
        wadmd = 0.3
        allow = "aggressive"
        [[path]]
        name = "rest"
        remote = "::/0"
        congestion = "reno"
    "#;

    #[test]
    fn a_page_shows_paths_ceilings_and_notes() {
        let expected = "\
PATH  REMOTE             SNDBUF   RCVBUF  IW  CONGESTION  AIMD(b, a)  SHARE
bob   10.5.128.74/32 +1  4194304  -       24  wad_aimd    0.3, 6      3.37
rest  ::/0               -        -       -   reno        -           -

net.core.wmem_max is 212992; `wad run` raises it to 4194304 while it runs
path rest: ::/0 also covers IPv4, whose addresses are looked up as IPv6
wad.toml: 2 paths, no error
";
        assert_eq!(page(TWO, Some(212_992)), expected);
    }

    #[test]
    fn a_ceiling_that_is_high_enough_or_unknown_is_said_so() {
        assert!(page(TWO, Some(4 << 20)).contains("is 4194304, which is enough"));
        assert!(page(TWO, None).contains("must be 4194304 or more"));
    }

    #[test]
    fn no_path_is_no_table() {
        assert_eq!(page("", None), "wad.toml: 0 paths, no error\n");
    }
}
