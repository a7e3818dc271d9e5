//! What `wad check` prints, whole pages.

use super::*;
use crate::config::golden::{compare, root};

fn page(text: &str, sysctl_bytes: Option<u64>) -> String {
    let host =
        Host { congestion_controls: vec!["reno".to_owned()], loadable: vec!["bbr".to_owned()] };
    let config = Config::parse("wad.toml", text, &host).expect("valid");
    let ceilings = Ceiling::all(&config, |_| sysctl_bytes);
    Page { file: Path::new("wad.toml"), config: &config, host: &host, ceilings }.to_string()
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

Rate over that of a standard flow (RFC 5681), at the same losses and RTT:
PATH  LAW       1e-3  1e-4  1e-5  1e-6  1e-7  FILLING THE PATH
bob   wad_aimd  3.37  3.37  3.37  3.37  3.37  -

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
fn whom_a_ceiling_of_tuned_buffers_touches_is_said() {
    let text = "[[path]]\nname = 'a'\nremote = '10.0.0.1'\nbandwidth = '622Mbit'\nrtt = '70ms'\n\
                buffers = 'autotune'\n";
    let page = page(text, Some(6_291_456));
    for sysctl in ["tcp_wmem", "tcp_rmem"] {
        let said = format!(
            "the last of net.ipv4.{sysctl} is 6291456; `wad run` raises it to 13606250 while it \
             runs, for all flows of its network namespace that the kernel tunes\n"
        );
        assert!(page.contains(&said), "{page}");
    }
    assert!(page.contains("path a: buffers autotuned by the kernel"), "{page}");
}

#[test]
fn no_path_is_no_table() {
    assert_eq!(page("", None), "wad.toml: 0 paths, no error\n");
}

#[test]
fn every_law_and_setting_shows_in_a_hundred_columns() {
    let file = root().join("tests/config/valid/laws.toml");
    let text = page(&fs::read_to_string(&file).expect("readable"), Some(212_992));
    compare(&text, &file.with_extension("stdout"));
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
}
