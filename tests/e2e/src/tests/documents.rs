//! Commands that ask a running agent print JSON of the form that the book has, whatever the
//! agent answers. The others are held against it by the tests of the program.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use wad_e2e_attribute::e2e;
use wad_testbed::{
    sending::while_sending,
    stand::Stand,
    tcp::{Connection, at},
    veth::{ADDRESSES_V4, Wire},
    wad::{Home, program},
};

/// The page of schemas, which `cargo xtask book` holds against the types that are printed.
const PAGE: &str = include_str!("../../../../docs/src/reference/schemas.md");

const PORT: u16 = 7000;

/// Something of all that there is to be told: paths by the file and by measurements, one
/// that is observed, sources, sinks, a trace, a change of the host, derived numbers.
const POLICY: &str = "[host]\nnetdev_max_backlog = 30000\n\n\
                      [[source]]\nname = 'flows'\nkind = 'passive'\n\n\
                      [[sink]]\nname = 'lines'\nkind = 'stdout'\n\n\
                      [[trace]]\nname = 'nothing'\nfile = '/run/wad/no-trace'\npaths = 'seen'\n\n\
                      [[derived]]\nname = 'Sent'\nvalue = 'HCDataOctetsOut'\n\n\
                      [[path]]\nname = 'v4'\nremote = '10.81.0.0/16'\nsndbuf = '1MiB'\n\
                      congestion = 'wad_aimd'\ninitial_window = 10\n\n\
                      [[path]]\nname = 'measured'\nremote = '10.82.0.0/16'\nmode = 'measured'\n\
                      sndbuf = 'auto'\n\n\
                      [[path]]\nname = 'seen'\nremote = 'fd81::/32'\nmode = 'observe'\n";

/// Commands in their order, the schema of each, and how it ends.
const ROWS: &[(&[&str], &str, i32)] = &[
    (&["status"], "status", 0),
    (&["paths"], "paths", 0),
    (&["flows"], "flows", 0),
    (&["flows", "--field", "snd_wl1", "--sort", "snd_wl1", "--path", "v4"], "flows", 0),
    (&["explain", "10.81.0.2:7000"], "explain", 0),
    (&["explain", "10.83.0.2"], "explain", 0),
    (&["diagnose", "10.81.0.2"], "diagnose", 0),
    (&["diagnose", "--life"], "diagnose", 0),
    (&["suggest", "--for", "2s"], "suggest", 0),
    (&["experiment start", "v4", "--block", "2s", "--flow-life", "50ms"], "experiment start", 0),
    (&["experiment start", "seen"], "experiment start", 3),
    (&["experiment status"], "experiment status", 0),
    (&["report"], "report", 0),
    (&["status"], "status", 0),
    (&["experiment stop", "v4"], "experiment stop", 0),
    (&["guard show"], "guard show", 0),
    (&["guard release", "v4"], "guard release", 3),
    (&["disable", "v4"], "disable", 0),
    (&["disable", "no-such-path"], "disable", 3),
    (&["explain", "10.81.0.2"], "explain", 0),
    (&["enable"], "enable", 0),
    (&["reload", "--dry-run"], "reload --dry-run", 0),
    (&["reload"], "reload", 0),
    (&["status"], "status", 0),
];

/// Returns the validator of a command's schema, from the page.
fn validator(command: &str) -> Result<jsonschema::Validator> {
    let heading = format!("\n## wad {command} --json\n\n```json\n");
    let (_, rest) = PAGE.split_once(&heading).with_context(|| format!("no {heading:?}"))?;
    let (schema, _) = rest.split_once("\n```").context("no end of the block")?;
    let mut schema: Value = serde_json::from_str(schema)?;
    close(&mut schema);
    let definitions = schema.get_mut("$defs").and_then(Value::as_object_mut);
    definitions.into_iter().flat_map(|it| it.values_mut()).for_each(close);
    Ok(jsonschema::validator_for(&schema)?)
}

/// Makes an error of a field that is not in the schema of its object.
fn close(schema: &mut Value) {
    if schema.get("properties").is_some() {
        schema["unevaluatedProperties"] = false.into();
    }
}

/// Runs a command, and holds what it prints against a schema.
fn holds(home: &Home, words: &[&str], schema: &str, code: i32) -> Result<()> {
    let (command, rest) = words.split_first().context("no command")?;
    let mut command = home.command(command);
    command.args(rest);
    command_holds(command, words, schema, code)
}

/// Runs a command, of these words, and holds what it prints against a schema.
fn command_holds(mut command: Command, words: &[&str], schema: &str, code: i32) -> Result<()> {
    let output = command.arg("--json").output()?;
    let (told, said) = (String::from_utf8(output.stdout)?, String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.code() == Some(code), "{words:?}: {}: {said}", output.status);
    ensure!(told.starts_with("{\n  \"schema\": 1,\n"), "{words:?}: {told}");
    let told: Value = serde_json::from_str(&told)?;
    let errors: Vec<_> = validator(schema)?
        .iter_errors(&told)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    ensure!(errors.is_empty(), "{words:?}: {errors:?} in {told:#}");
    Ok(())
}

#[e2e(long, beside)]
fn what_the_agent_answers_has_the_form_of_its_schema() -> Result<()> {
    let stand = Stand::set_up("documents")?;
    let wire = Wire::start()?;
    let home = Home::create(&program()?, POLICY)?;
    let agent = home.start(stand.cgroup())?;
    let connection = Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], PORT))?;
    while_sending(&[connection], || {
        ROWS.iter().try_for_each(|(words, schema, code)| holds(&home, words, schema, *code))
    })?;
    home.write_policy("no_such_key = 1\n")?;
    holds(&home, &["reload", "--dry-run"], "reload --dry-run", 3)?;
    holds(&home, &["reload"], "reload", 3)?;
    // It asks no agent, but the kernel.
    let mut check = Command::new(program()?);
    check.args(["check", "--host"]);
    command_holds(check, &["check", "--host"], "check --host", 0)?;
    drop(agent);
    home.write_policy(POLICY)?;
    holds(&home, &["cleanup"], "cleanup", 0)
}
