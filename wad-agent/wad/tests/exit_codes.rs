//! Scripts tell by a command's exit code what kind of trouble there is.

use std::{
    fs::{self, Permissions},
    os::unix::{
        fs::{MetadataExt as _, PermissionsExt as _},
        process::CommandExt as _,
    },
    path::Path,
    process::{Command, Output, Stdio},
};

const INSTANCE: [&str; 2] = ["--instance", "never-run"];
/// The user `nobody`, as most systems have it.
const NOBODY: u32 = 65_534;

fn end(mut command: Command) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = command.stdin(Stdio::null()).output().unwrap();
    (status.code(), String::from_utf8(stderr).unwrap())
}

fn wad(words: &str) -> Command {
    let mut wad = Command::new(env!("CARGO_BIN_EXE_wad"));
    wad.args(words.split(' ').filter(|word| !word.is_empty()));
    wad
}

#[test]
fn a_wrong_command_line_is_64() {
    for (words, reason) in [
        ("", "Usage: wad"),
        ("no-such-command", "no-such-command"),
        ("status --no-such-flag", "--no-such-flag"),
        ("top --interval never", "0.1 to 3600"),
        ("plan --rate 10Gbit", "--rtt"),
        ("simulate --law bbr --rate 10Gbit --rtt 100ms", "simulated are reno, cubic"),
        // What would do nothing.
        ("flows --instruments --sort MSS", "'--instruments' cannot be used"),
        ("cleanup --routes --json", "'--routes' cannot be used"),
        ("trace --keep 3", "--out"),
        ("trace --max-bytes 1MiB", "--out"),
        ("trace --out - --zstd --config wad.toml", "`wad status` names"),
        ("diagnose --life --seconds 1", "--life"),
    ] {
        let (code, said) = end(wad(words));
        assert!(code == Some(64) && said.contains(reason), "{words}: {code:?} {said}");
    }
    for command in [
        "status", "reload", "disable", "enable", "paths", "flows", "trace", "diagnose", "suggest",
        "top",
    ] {
        let (code, said) = end(wad(&format!("{command} --config /nonexistent.toml")));
        assert!(
            code == Some(64) && said.contains("`wad status` names"),
            "{command}: {code:?} {said}"
        );
    }
    for words in
        ["--help", "--version", "help reload", "flows --instruments", "flows --instruments --json"]
    {
        assert_eq!(end(wad(words)), (Some(0), String::new()), "{words}");
    }
}

#[test]
fn a_missing_or_wrong_configuration_is_78() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &[u8]| {
        let file = folder.path().join(name);
        fs::write(&file, text).unwrap();
        file
    };
    let good = file("good.toml", b"[[path]]\nname = 'p'\nremote = '192.0.2.1'\n");
    let wrong = [
        (file("syntax.toml", b"[[path]\n"), "1 error"),
        (file("key.toml", b"no_such_key = 1\n"), "no_such_key"),
        (file("bytes.toml", b"name = '\xff'\n"), "not UTF-8"),
        (folder.path().join("missing.toml"), "cannot read the configuration"),
    ];
    for words in [
        "check",
        "run --instance never-run",
        "explain 192.0.2.1 --offline",
        "simulate --path p",
        "experiment plan p",
        "probe plan",
    ] {
        let on = |file: &Path| {
            let mut wad = wad(words);
            wad.arg("--config").arg(file);
            end(wad)
        };
        for (file, reason) in &wrong {
            let (code, said) = on(file);
            assert!(code == Some(78) && said.contains(reason), "{words}: {code:?} {said}");
        }
        // The others would run, or need more than the path has.
        if ["check", "explain"].iter().any(|command| words.starts_with(command)) {
            assert_eq!(on(&good), (Some(0), String::new()), "{words}");
        }
    }
}

#[test]
fn no_agent_is_69() {
    for words in
        ["status", "reload", "disable", "enable", "paths", "flows", "trace", "diagnose", "suggest"]
    {
        let mut wad = wad(words);
        wad.args(INSTANCE);
        let (code, said) = end(wad);
        // Others than root can't even look for an agent where one has run.
        let expected = if said.contains("only root may") { 77 } else { 69 };
        assert!(code == Some(expected) && said.contains("agent"), "{words}: {code:?} {said}");
    }
}

/// Root becomes `nobody`; others lack the capabilities as they are.
#[test]
fn missing_privileges_are_77() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let config = folder.path().join("wad.toml");
    fs::write(&config, "[[path]]\nname = 'p'\nremote = '192.0.2.1'\n").unwrap();
    let program = folder.path().join("wad");
    // By a process of its own: what another test starts meanwhile would have the file open
    // for writing until it is executed, and nobody could run it (ETXTBSY).
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_wad")).arg(&program).status();
    assert!(copied.unwrap().success());
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    for (command, reason) in [("run", "CAP_BPF"), ("cleanup", "it takes root")] {
        let mut wad = Command::new(&program);
        wad.arg(command).args(INSTANCE).arg("--config").arg(&config);
        if is_root {
            wad.uid(NOBODY).gid(NOBODY);
        }
        let (code, said) = end(wad);
        assert!(code == Some(77) && said.contains(reason), "{command}: {code:?} {said}");
    }
}

#[test]
fn what_has_no_code_of_its_own_is_1() {
    let (code, said) = end(wad("plot /nonexistent.trace"));
    assert!(code == Some(1) && said.contains("/nonexistent.trace"), "{code:?} {said}");
}
