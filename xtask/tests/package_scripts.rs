//! The scripts that packages run after their files are gone, in a folder that stands for the
//! root of the host.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

/// The scripts, and what each is given when nothing of the package is to stay.
const SCRIPTS: [(&str, &str); 2] = [("deb/postrm", "purge"), ("rpm/postrm", "0")];

/// Runs a script whose folders are all below `root`, and which asks no service manager.
fn run(script: &str, argument: &str, root: &Path) -> Output {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/packages").join(script);
    let text = fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let text = text.replace("/etc/", "$ROOT/etc/").replace("/run/", "$ROOT/run/");
    let text = text.replace("/var/", "$ROOT/var/");
    let text = text.replace("deb-systemd-helper", ":");
    let mut command = Command::new("sh");
    command.args(["-c", &text, "sh", argument]).env("ROOT", root);
    command.output().expect("sh runs")
}

fn host() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for folder in ["etc/wad", "run/wad", "var/lib/wad", "var/log/wad"] {
        fs::create_dir_all(root.path().join(folder)).unwrap();
    }
    fs::write(root.path().join("var/lib/wad/journal-default.jsonl"), "").unwrap();
    root
}

#[test]
fn nothing_stays_where_nothing_is_to_be_undone() {
    for (script, argument) in SCRIPTS {
        let root = host();
        let output = run(script, argument, root.path());
        assert!(output.status.success() && output.stderr.is_empty(), "{script}: {output:?}");
        for gone in ["run/wad", "var/lib/wad", "var/log/wad"] {
            assert!(!root.path().join(gone).exists(), "{script}: {gone}");
        }
    }
}

/// An agent of the chart has them, or `wad cleanup` has failed.
#[test]
fn the_state_of_an_agent_that_is_not_undone_stays() {
    for (script, argument) in SCRIPTS {
        let root = host();
        fs::write(root.path().join("run/wad/other.state_dir"), "/var/lib/wad").unwrap();
        let output = run(script, argument, root.path());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.lines().count() == 1, "{script}: {output:?}");
        assert!(said.contains("/var/lib/wad stay"), "{script}: {said}");
        for kept in ["run/wad/other.state_dir", "var/lib/wad/journal-default.jsonl"] {
            assert!(root.path().join(kept).exists(), "{script}: {kept}");
        }
        assert!(!root.path().join("var/log/wad").exists(), "{script}");
    }
}
