//! Every command has help, a manual page, completions, one form of JSON, and exit codes: a
//! command that is not in the table, or lacks one of them, fails here. Those that ask a
//! running agent answer it in the end-to-end tests, where their JSON is held against the
//! same schemas.

use std::{
    collections::HashSet,
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};

use serde_json::Value;
use wad_commands::reference::{
    commands::leaves,
    schemas,
    share::{self, Shared},
};

struct Row {
    command: &'static str,
    /// Arguments, with which it ends so. FOLDER stands for a folder with the files below.
    ends: &'static [(&'static str, End)],
    /// Arguments with `--json` that it takes without an agent, and the schema's name.
    json: &'static [(&'static str, &'static str)],
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Code(i32),
    /// No agent runs; others than root may not even look for one where one has run.
    NoAgent,
}

use End::{Code, NoAgent};

/// Nobody runs this instance.
const INSTANCE: &str = "never-run";

const GOOD: &str = "[[path]]\nname = 'p'\nremote = '192.0.2.0/24'\nsndbuf = '1MiB'\n\
                    [[path]]\nname = 'q'\nremote = '192.0.2.0/24'\nlocal = '198.51.100.1'\n\
                    user = 7\n\
                    [[path]]\nname = 'r'\nremote = '198.51.100.0/24'\nmark = 0x10\n\
                    interface = 'eth1'\n";
const PROBE: &str = "[[probe.task]]\nname = 't'\nhost = '192.0.2.1'\ntool = 'rtt'\nevery = '1h'\n";
const BAD: &str = "[[path]]\nname = 'p'\nno_such = 1\nremote = '192.0.2.0/33'\n";

/// The certificate of a peer, whose key is nowhere.
const CERTIFICATE: &str = "\
-----BEGIN CERTIFICATE-----\n\
MIIBnzCCAUSgAwIBAgIURVs4xbjiDZyRk+W5ETYG5ZZ/YxkwCgYIKoZIzj0EAwIw\n\
DDEKMAgGA1UEAwwBYTAgFw0yNjExMjYxMzMxNDRaGA8yMTI2MTEwMjEzMzE0NFow\n\
DDEKMAgGA1UEAwwBYTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABCk0MGMwD17w\n\
YwekNJ253ZQ3bdTJALNgQ9S3vwWUdXIBmD2P/MijtOnwfQfjEtZDlcnwisOidk3z\n\
vLtXnQFOSJajgYEwfzAdBgNVHQ4EFgQUQVYgScHF5Svo6d/KvZqVtHlfNQgwHwYD\n\
VR0jBBgwFoAUQVYgScHF5Svo6d/KvZqVtHlfNQgwLwYDVR0RBCgwJoYkd2FkOi8v\n\
YS5leGFtcGxlLz9wcmVmaXg9MTkyLjAuMi4wLzI0MAwGA1UdEwEB/wQCMAAwCgYI\n\
KoZIzj0EAwIDSQAwRgIhAMyJopC7rrGU00BomiRqFBGbuCoViUDMioiYEOBPQm6C\n\
AiEAqExnUdCQiNGkKaQrUdmtHMEOtpc9Fsib6ZW/GwPdKMg=\n\
-----END CERTIFICATE-----\n\
";

/// Chooses among all flows by all that there is of an owner.
const OWNERS: &str = "--all --user 7 --pid 7 --process x --cgroup a.slice --unit a.service \
                      --container 8b --pod 1f --namespace n";

const TABLE: &[Row] = &[
    Row {
        command: "run",
        ends: &[
            ("--config FOLDER/none.toml", Code(78)),
            ("--config FOLDER/bad.toml", Code(78)),
            ("--learn --config FOLDER/none.toml", Code(78)),
            ("--learn --config FOLDER/good.toml --cgroup FOLDER --instance UPPER", Code(64)),
            ("--config FOLDER/bad.toml --take-over", Code(78)),
        ],
        json: &[],
    },
    Row {
        command: "check",
        ends: &[
            ("--config FOLDER/good.toml", Code(0)),
            ("--config FOLDER/good.toml --json", Code(0)),
            ("--config FOLDER/bad.toml", Code(78)),
            ("--config FOLDER/bad.toml --json", Code(78)),
            ("--config FOLDER/none.toml", Code(78)),
            // What it says of a kernel takes root.
            ("--host --config FOLDER/good.toml", Code(64)),
        ],
        json: &[("--config FOLDER/good.toml", "check"), ("--config FOLDER/bad.toml", "check")],
    },
    Row {
        command: "plan",
        ends: &[
            ("--rate 10Gbit --rtt 100ms", Code(0)),
            ("--rate 10bps --rtt 100ms", Code(64)),
            ("--rate 10Gbit --rtt 100ms --loss 2", Code(64)),
            ("--rate 10Gbit --rtt 100ms --mtu 9", Code(64)),
            ("--rate 10Gbit --rtt 100ms --streams 0", Code(64)),
            ("--rate 1000Tbit --rtt 100s", Code(64)),
        ],
        json: &[
            ("--rate 10Gbit --rtt 100ms", "plan"),
            ("--rate 10Gbit --rtt 100ms --loss 1e-6 --mtu 9000 --streams 3", "plan"),
        ],
    },
    Row {
        command: "simulate",
        ends: &[
            (
                "--law cubic,wad_aimd --rate 100Mbit/s --rtt 20ms --svg FOLDER/simulated.svg",
                Code(0),
            ),
            ("--path p --config FOLDER/good.toml --rate 100Mbit --rtt 20ms --mtu 9000", Code(0)),
            ("--path p --config FOLDER/good.toml", Code(1)),
            ("--path none --config FOLDER/good.toml", Code(1)),
            ("--path p --config FOLDER/bad.toml", Code(78)),
            ("--law cubic --rate 100Mbit --rtt 20ms --svg FOLDER/none/picture.svg", Code(1)),
            ("--law bbr --rate 100Mbit --rtt 20ms", Code(64)),
            ("--law cubic --rtt 20ms", Code(64)),
            ("--rate 100Mbit --rtt 20ms", Code(64)),
            ("--law cubic --rate 100Mbit --rtt 20ms --queue 0.5", Code(64)),
            ("--law cubic --rate 100Mbit --rtt 20ms --for 2h", Code(64)),
        ],
        json: &[(
            "--law cubic,wad_leaky --rate 100Mbit --rtt 20ms --queue 0.5BDP --loss 1e-4 \
                 --lose 100,200 --flows 3 --for 5s --window 1MiB --seed 7",
            "simulate",
        )],
    },
    Row {
        command: "import",
        ends: &[("FOLDER/good.wad", Code(0)), ("FOLDER/none.wad", Code(1)), ("", Code(64))],
        json: &[],
    },
    Row {
        command: "status",
        ends: &[
            ("", NoAgent),
            ("--json", NoAgent),
            ("--ready", NoAgent),
            ("--ready --json", Code(64)),
        ],
        json: &[],
    },
    Row {
        command: "explain",
        ends: &[
            ("192.0.2.1 --config FOLDER/good.toml", Code(0)),
            ("192.0.2.1 --config FOLDER/bad.toml", Code(78)),
            ("192.0.2.1 --offline --config FOLDER/none.toml", Code(78)),
            ("192.0.2.1 --user no-such-user-here --offline", Code(64)),
            ("192.0.2.1 --mark 0x10/0xff --offline", Code(64)),
            ("192.0.2.1 --interface a/b --offline", Code(64)),
            ("192.0.2.1 --pod none --offline", Code(64)),
            ("dtn.example.org --offline", Code(64)),
        ],
        json: &[
            ("192.0.2.1 --config FOLDER/good.toml", "explain"),
            ("203.0.113.1:443 --offline --config FOLDER/good.toml", "explain"),
            (
                "192.0.2.1 --config FOLDER/good.toml --local 198.51.100.1 --user 7 \
                 --cgroup /a.slice --mark 0x10 --interface eth1",
                "explain",
            ),
        ],
    },
    Row {
        command: "reload",
        ends: &[
            ("", NoAgent),
            ("--json", NoAgent),
            ("--dry-run", NoAgent),
            ("--dry-run --config FOLDER/good.toml --json", NoAgent),
            ("--dry-run --config FOLDER/none.toml", Code(78)),
            ("--config FOLDER/good.toml", Code(64)),
        ],
        json: &[],
    },
    Row { command: "disable", ends: &[("p", NoAgent), ("--json", NoAgent)], json: &[] },
    Row { command: "enable", ends: &[("p", NoAgent), ("--json", NoAgent)], json: &[] },
    Row {
        command: "paths",
        ends: &[
            ("", NoAgent),
            ("--json", NoAgent),
            ("--history p --since 30d", NoAgent),
            ("--history p --json", NoAgent),
            ("--history p --socket FOLDER/none.sock", Code(69)),
            ("--socket FOLDER/none.sock", Code(64)),
            ("--since 30d", Code(64)),
            ("--history p --since 1s", Code(64)),
        ],
        json: &[],
    },
    Row {
        command: "flows",
        ends: &[
            ("--instruments", Code(0)),
            ("--instruments --watch", Code(64)),
            ("--path p --remote 192.0.2.0/24 --cookie 0x1 --field snd_wl1 --sort MSS", NoAgent),
            (OWNERS, NoAgent),
            ("--user no-such-user-here", Code(64)),
            ("--watch 0", Code(64)),
            ("--json", NoAgent),
        ],
        json: &[("--instruments", "flows --instruments")],
    },
    Row {
        command: "trace",
        ends: &[
            ("--path p --remote 192.0.2.0/24 --cookie 1 --field snd_wl1 --zstd", NoAgent),
            ("--instruments MSS --interval 1s --duration 1s --format csv", NoAgent),
            (OWNERS, NoAgent),
            ("--out FOLDER/t --max-bytes 1MiB --keep 3", NoAgent),
            ("--out FOLDER/t --max-bytes 1KiB", Code(64)),
            ("--keep 3", Code(64)),
            ("--interval 1ms", Code(64)),
        ],
        json: &[],
    },
    Row {
        command: "plot",
        ends: &[
            ("FOLDER/none.trace --out FOLDER/picture.svg", Code(1)),
            ("FOLDER/good.toml", Code(1)),
            ("--history p --since 30d --out FOLDER/picture.svg", NoAgent),
            ("--history p --socket FOLDER/none.sock", Code(69)),
            ("FOLDER/good.toml --history p", Code(64)),
            ("", Code(64)),
        ],
        json: &[],
    },
    Row {
        command: "probe plan",
        ends: &[
            ("--config FOLDER/good.toml", Code(0)),
            ("--config FOLDER/bad.toml", Code(78)),
            ("--config FOLDER/probe.toml --runs 20000", Code(64)),
        ],
        json: &[
            ("--config FOLDER/good.toml", "probe plan"),
            ("--config FOLDER/probe.toml --runs 3", "probe plan"),
        ],
    },
    Row {
        command: "probe now",
        ends: &[("p --json", NoAgent), ("p q --socket FOLDER/none.sock", Code(69)), ("", Code(64))],
        json: &[],
    },
    Row {
        command: "probe log",
        ends: &[
            ("--json", NoAgent),
            ("--task t --path p --host h --since 1h --missed --limit 3", NoAgent),
            ("--socket FOLDER/none.sock", Code(69)),
            ("--since 0s", Code(64)),
            ("--limit 0", Code(64)),
        ],
        json: &[],
    },
    Row {
        command: "probe run",
        ends: &[
            ("--config FOLDER/none.toml", Code(78)),
            ("--config FOLDER/bad.toml", Code(78)),
            ("--config FOLDER/good.toml", Code(1)),
        ],
        json: &[],
    },
    Row {
        command: "peer init",
        ends: &[
            ("a.example --prefix 192.0.2.0/24 --folder FOLDER/peer --days 30", Code(0)),
            // It is there already.
            ("b.example --prefix 192.0.2.0/24 --folder FOLDER/peer", Code(1)),
            ("a.example --folder FOLDER/other", Code(64)),
            ("A --prefix 192.0.2.0/24", Code(64)),
            ("a.example --prefix 192.0.2.1/24", Code(64)),
            ("a.example --prefix 192.0.2.0/24 --days 0", Code(64)),
        ],
        json: &[],
    },
    Row {
        command: "peer issue",
        ends: &[
            ("b.example --prefix 2001:db8::/48 --folder FOLDER/peer --days 30", Code(0)),
            ("b.example --prefix 2001:db8::/48 --folder FOLDER/peer", Code(1)),
            ("b.example --prefix 2001:db8::/48 --folder FOLDER/peer --again", Code(0)),
            ("b.example --prefix 2001:db8::/48 --folder FOLDER/none", Code(1)),
        ],
        json: &[],
    },
    Row {
        command: "peer rotate",
        ends: &[
            ("--folder FOLDER/peer --days 30", Code(0)),
            ("--folder FOLDER/peer --keep-key", Code(0)),
            ("--folder FOLDER/none", Code(1)),
        ],
        json: &[],
    },
    Row {
        command: "peer show",
        ends: &[
            ("--folder FOLDER/peer", Code(0)),
            ("FOLDER/peer/issued/b.example/host.crt", Code(0)),
            ("FOLDER/good.toml", Code(1)),
            ("--folder FOLDER/none", Code(1)),
        ],
        json: &[("FOLDER/host.crt", "peer show")],
    },
    Row { command: "peer status", ends: &[("", NoAgent), ("--json", NoAgent)], json: &[] },
    Row {
        command: "diagnose",
        ends: &[
            ("192.0.2.1:443 --seconds 1", NoAgent),
            ("--life --json", NoAgent),
            (OWNERS, NoAgent),
            ("--life --seconds 1", Code(64)),
        ],
        json: &[],
    },
    Row {
        command: "suggest",
        ends: &[
            ("--for 1h --json", NoAgent),
            ("--remote 192.0.2.0/24", NoAgent),
            ("--user 7 --pid 7 --process x --cgroup a.slice --unit a.service", NoAgent),
            ("--container 8b --pod 1f --namespace n", NoAgent),
            ("--for 1s", Code(64)),
        ],
        json: &[],
    },
    Row {
        command: "experiment plan",
        ends: &[
            ("p --config FOLDER/good.toml", Code(0)),
            ("p --block 77s --config FOLDER/good.toml", Code(64)),
            ("p --alpha 2 --config FOLDER/good.toml", Code(64)),
            ("p --until 2000-01-01T00:00:00Z --config FOLDER/good.toml", Code(64)),
            ("p --neighbour q --config FOLDER/good.toml", Code(1)),
            ("none --config FOLDER/good.toml", Code(1)),
            ("p --config FOLDER/bad.toml", Code(78)),
            ("p --ends never --config FOLDER/good.toml", Code(64)),
        ],
        json: &[
            ("p --flow-life 2s --config FOLDER/good.toml", "experiment plan"),
            (
                "p --block 2min --burn-in 20s --flow-life 10s --duration 30d --ends time \
                 --until 2100-01-01T00:00:00Z --alpha 0.01 --seed 7 --config FOLDER/good.toml",
                "experiment plan",
            ),
        ],
    },
    Row {
        command: "experiment start",
        ends: &[
            ("p", NoAgent),
            ("p --block 1min --burn-in 2s --flow-life 1s --duration 2h --json", NoAgent),
            ("p --until 2100-01-01T00:00:00Z --ends time --alpha 0.1 --seed 7", NoAgent),
            ("p --neighbour q --neighbour r", NoAgent),
            ("p --seed -1", Code(64)),
            ("", Code(64)),
        ],
        json: &[],
    },
    Row {
        command: "experiment stop",
        ends: &[("p", NoAgent), ("p --json", NoAgent), ("", Code(64))],
        json: &[],
    },
    Row { command: "experiment status", ends: &[("", NoAgent), ("p --json", NoAgent)], json: &[] },
    Row { command: "guard show", ends: &[("", NoAgent), ("p --json", NoAgent)], json: &[] },
    Row {
        command: "guard release",
        ends: &[("p", NoAgent), ("p --json", NoAgent), ("", Code(64))],
        json: &[],
    },
    Row {
        command: "report",
        ends: &[
            ("", NoAgent),
            ("--json", NoAgent),
            ("--path p --since 7d --html", NoAgent),
            ("--html --json", Code(64)),
            ("--since 7", Code(64)),
        ],
        json: &[],
    },
    Row {
        command: "top",
        ends: &[
            ("--interval 0", Code(64)),
            ("--interval never", Code(64)),
            // It is on no terminal here.
            (OWNERS, Code(1)),
            ("--path p --remote 192.0.2.0/24 --cookie 1", Code(1)),
        ],
        json: &[],
    },
    Row {
        command: "cleanup",
        ends: &[("--routes --json", Code(64)), ("--config", Code(64))],
        json: &[],
    },
];

/// Runs a command for the instance that nobody runs, if it is of one.
fn wad(command: &str, words: &str, folder: &Path) -> Output {
    let folder = folder.display().to_string();
    let mut wad = Command::new(env!("CARGO_BIN_EXE_wad"));
    wad.args(command.split(' '));
    wad.args(words.split_whitespace().map(|word| word.replace("FOLDER", &folder)));
    let has_instance = flags(command).contains("--instance");
    if has_instance
        && !words.contains("--instance")
        && words != "--config"
        && !words.contains("--instruments")
    {
        wad.args(["--instance", INSTANCE]);
    }
    wad.stdin(Stdio::null()).output().unwrap()
}

fn files() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("good.toml"), GOOD).unwrap();
    fs::write(folder.path().join("bad.toml"), BAD).unwrap();
    fs::write(folder.path().join("probe.toml"), PROBE).unwrap();
    fs::write(folder.path().join("host.crt"), CERTIFICATE).unwrap();
    fs::write(folder.path().join("good.wad"), "[bob]\ndst_addr: 192.0.2.1\n").unwrap();
    folder
}

/// Returns the options of a command, `--json` and so on.
fn flags(command: &str) -> HashSet<String> {
    let wad = share::command();
    let leaves = leaves(&wad);
    let (_, command) = leaves.iter().find(|(name, _)| name == command).unwrap();
    command.get_arguments().filter_map(|it| Some(format!("--{}", it.get_long()?))).collect()
}

#[test]
fn every_command_is_in_the_table() {
    let wad = share::command();
    let leaves = leaves(&wad);
    let commands: Vec<_> = leaves.iter().map(|(name, _)| &**name).collect();
    let table: Vec<_> = TABLE.iter().map(|row| row.command).collect();
    assert_eq!(commands, table);
    // And each of their options is used there.
    for row in TABLE {
        let lines = row.ends.iter().map(|(words, _)| *words);
        let lines: Vec<_> = lines.chain(row.json.iter().map(|(words, _)| *words)).collect();
        for flag in flags(row.command) {
            let is_used = lines.iter().any(|line| line.split(' ').any(|word| word == flag));
            // These two are in all lines.
            let is_everywhere = flag == "--instance" || (flag == "--json" && !row.json.is_empty());
            assert!(is_used || is_everywhere, "{} {flag}", row.command);
        }
    }
}

#[test]
fn every_command_has_help_of_all_its_options() {
    let folder = files();
    for Row { command, .. } in TABLE {
        let Output { status, stdout, stderr } = wad(command, "--help", folder.path());
        let help = String::from_utf8(stdout).unwrap();
        assert!(status.success() && stderr.is_empty(), "{command}");
        for flag in flags(command) {
            assert!(help.contains(&flag), "{command} {flag}: {help}");
        }
        let unknown = wad(command, "--no-such-option", folder.path());
        assert_eq!(unknown.status.code(), Some(64), "{command}");
    }
}

#[test]
fn every_command_has_a_manual_page_of_all_its_options() {
    let files = share::files();
    let text = |place: &str| {
        let file = files.iter().find(|file| file.place == place);
        String::from_utf8(file.unwrap_or_else(|| panic!("no {place}")).text.clone()).unwrap()
    };
    let whole = text("man/man1/wad.1");
    assert!(whole.contains("EXIT STATUS") && whole.contains("EX_CONFIG"), "{whole}");
    for Row { command, .. } in TABLE {
        let (first, name) = (command.split(' ').next().unwrap(), command.replace(' ', "-"));
        let page = text(&format!("man/man1/wad-{name}.1"));
        assert!(whole.contains(&format!("wad\\-{first}(1)")), "{command}: {whole}");
        let name = name.replace('-', "\\-");
        assert!(page.contains(&format!("NAME\nwad\\-{name} ")), "{command}: {page}");
        for flag in flags(command) {
            let flag = flag.replace('-', "\\-");
            assert!(page.contains(&flag), "{command} {flag}: {page}");
        }
    }
}

/// bash is asked itself; the others' files are looked through.
#[test]
fn every_command_and_option_is_completed() {
    let folder = tempfile::tempdir().unwrap();
    let mut texts = Vec::new();
    for Shared { place, text } in share::files() {
        let file = folder.path().join(place.replace('/', "_"));
        fs::write(file, &text).unwrap();
        if place.contains("zsh") || place.contains("fish") {
            texts.push(String::from_utf8(text).unwrap());
        }
    }
    let file = folder.path().join("bash-completion_completions_wad");
    let complete = |words: &[&str]| {
        let script = format!(
            ". {}; COMP_WORDS=({words}); COMP_CWORD={last}; _wad wad \"{word}\" \"{before}\"; \
             printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            file.display(),
            words = words.join(" "),
            last = words.len() - 1,
            word = words[words.len() - 1],
            before = words[words.len() - 2],
        );
        let output = Command::new("bash").args(["-c", &script]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let lines = String::from_utf8(output.stdout).unwrap();
        lines.lines().map(str::to_owned).collect::<HashSet<_>>()
    };
    let commands = complete(&["wad", ""]);
    for Row { command, .. } in TABLE {
        let words: Vec<_> = command.split(' ').collect();
        assert!(commands.contains(words[0]), "{command}: {commands:?}");
        let completed = complete(&[&["wad"], &words[..], &["--"]].concat());
        let missing: Vec<_> =
            flags(command).into_iter().filter(|it| !completed.contains(it)).collect();
        assert_eq!(missing, [""; 0], "{command}: {completed:?}");
        for text in &texts {
            assert!(words.iter().all(|word| text.contains(word)), "{command}");
            for flag in flags(command) {
                assert!(text.contains(flag.trim_start_matches('-')), "{command} {flag}");
            }
        }
    }
}

#[test]
fn every_command_ends_with_the_code_that_is_documented() {
    let folder = files();
    for Row { command, ends, .. } in TABLE {
        for (words, end) in *ends {
            let output = wad(command, words, folder.path());
            let said = String::from_utf8_lossy(&output.stderr);
            let expected = match end {
                Code(code) => *code,
                NoAgent if said.contains("only root may") => 77,
                NoAgent => 69,
            };
            assert_eq!(output.status.code(), Some(expected), "{command} {words}: {said}");
            // What went well says nothing there; what did not, says what.
            assert_eq!(said.is_empty(), expected == 0, "{command} {words}: {said}");
        }
    }
}

#[test]
fn what_is_printed_as_json_has_the_form_of_its_schema() {
    let folder = files();
    for Row { command, json, .. } in TABLE {
        for (words, schema) in *json {
            let output = wad(command, &format!("{words} --json"), folder.path());
            let text = String::from_utf8(output.stdout).unwrap();
            assert!(text.starts_with("{\n  \"schema\": 1,\n"), "{command} {words}: {text}");
            let told: Value = serde_json::from_str(&text).unwrap();
            let errors: Vec<_> = validator(schema)
                .iter_errors(&told)
                .map(|error| format!("{}: {error}", error.instance_path()))
                .collect();
            assert_eq!(errors, [""; 0], "{command} {words}: {told:#}");
        }
    }
}

/// Returns the validator of a schema that takes no field which it does not know.
fn validator(command: &str) -> jsonschema::Validator {
    let schemas = schemas::all();
    let schema = schemas.iter().find(|schema| schema.command == command).unwrap();
    let mut schema = schema.schema.as_value().clone();
    close(&mut schema);
    let definitions = schema.get_mut("$defs").and_then(Value::as_object_mut);
    definitions.into_iter().flat_map(|it| it.values_mut()).for_each(close);
    jsonschema::validator_for(&schema).unwrap()
}

/// Makes an error of what is in no part of the schema of an object.
fn close(schema: &mut Value) {
    if schema.get("properties").is_some() {
        schema["unevaluatedProperties"] = false.into();
    }
}

#[test]
fn all_errors_of_a_file_come_with_their_places() {
    let folder = files();
    let output = wad("check", "--config FOLDER/bad.toml --json", folder.path());
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&told["error_count"], &told["effect"]), (&2.into(), &Value::Null));
    let places: Vec<_> = told["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| {
            assert!(error["file"].as_str().is_some_and(|file| file.ends_with("/bad.toml")));
            (error["line"].as_u64().unwrap(), error["column"].as_u64().unwrap())
        })
        .collect();
    assert_eq!(places, [(3, 1), (4, 10)], "{told:#}");
}

/// An option that would change nothing were none.
#[test]
fn options_change_what_is_shown() {
    let folder = files();
    let shown = |command, words: &str| wad(command, words, folder.path()).stdout;
    let config = "--config FOLDER/good.toml";
    for (command, without, with) in [
        ("check", config.to_owned(), "--json"),
        ("plan", "--rate 1Gbit --rtt 100ms".to_owned(), "--loss 1e-4"),
        ("plan", "--rate 1Gbit --rtt 100ms".to_owned(), "--mtu 9000"),
        ("plan", "--rate 1Gbit --rtt 100ms".to_owned(), "--streams 3"),
        ("plan", "--rate 1Gbit --rtt 100ms".to_owned(), "--json"),
        ("explain", format!("192.0.2.1 {config}"), "--local 198.51.100.2"),
        ("explain", format!("192.0.2.1 {config}"), "--user 8"),
        ("explain", format!("198.51.100.1 {config}"), "--mark 0x10"),
        ("explain", format!("198.51.100.1 {config} --mark 0x10"), "--interface eth1"),
        ("explain", format!("192.0.2.1 {config} --user 7"), "--local 198.51.100.1"),
        ("explain", format!("192.0.2.1 {config}"), "--json"),
        ("flows", "--instruments".to_owned(), "--json"),
    ] {
        let before = shown(command, &without);
        assert!(!before.is_empty(), "{command} {without}");
        assert_ne!(before, shown(command, &format!("{without} {with}")), "{command} {with}");
    }
}
