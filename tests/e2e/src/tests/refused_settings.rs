//! Some settings are not set by the kernel: each is named, with its errno, in the
//! events of the flow, by `wad flows`, `wad status` and `wad explain`, and the others
//! hold.

use std::{fs, path::Path, time::Duration};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    old_kernel,
    settings::WMEM_MAX,
    stand::{Stand, until},
    sysctl::Changed,
    tcp::{Connection, at},
    veth::{ADDRESSES_V4, Wire},
    wad::{Home, program},
};

const SOON: Duration = Duration::from_secs(20);
const PORT: u16 = 7000;

/// These are the names without which the agent registers no law: whoever asks for one
/// is told that there is none.
const LAWS: [&str; 2] = ["__bpf_prog_enter_recur", "__bpf_prog_enter_struct_ops"];

fn policy(sink: &Path, keys: &str) -> String {
    format!(
        "[[sink]]\nname = 'file'\nkind = 'file'\npath = '{}'\n\
         [[path]]\nname = 'p'\nremote = '{}'\nrcvbuf = '300KiB'\n{keys}\n",
        sink.display(),
        ADDRESSES_V4[1]
    )
}

/// Returns the values of the latest event of that name of a connection.
fn event(file: &Path, connection: &Connection, name: &str, why: Option<&str>) -> Result<Value> {
    let port = connection.near.local_addr()?.port();
    let look = || -> Result<_> {
        let text = fs::read_to_string(file).unwrap_or_default();
        let mut events = Vec::new();
        for line in text.lines().filter(|line| line.starts_with("{\"schema\":")) {
            events.push(serde_json::from_str::<Value>(line)?);
        }
        let is_it = |event: &Value| {
            event["src_port"] == port
                && event["event"] == name
                && why.is_none_or(|why| event["values"]["why"] == why)
        };
        Ok(events.into_iter().rfind(is_it).map(|event| event["values"].clone()))
    };
    let event = until("the event is told", SOON, look, Option::is_some);
    event.with_context(|| format!("{name} of {port}"))?.context("it is there")
}

/// Returns what a command says, as JSON and for people.
fn said(home: &Home, command: &[&str]) -> Result<(Value, String)> {
    let [subcommand, arguments @ ..] = command else { return Ok((Value::Null, String::new())) };
    let say = |json: &[&str]| -> Result<String> {
        let output = home.command(subcommand).args(arguments).args(json).output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{subcommand}: {errors}");
        Ok(String::from_utf8(output.stdout)?)
    };
    let json = serde_json::from_str(&say(&["--json"])?)?;
    Ok((json, say(&[])?))
}

fn ensure_says(text: &str, words: &str) -> Result<()> {
    ensure!(text.contains(words), "\"{words}\" is not in: {text}");
    Ok(())
}

#[e2e(long, beside)]
fn each_is_named_with_its_errno_and_the_others_hold() -> Result<()> {
    let stand = Stand::set_up("refused")?;
    let wire = Wire::start()?;
    let folder = tempfile::tempdir()?;
    let sink = folder.path().join("events.jsonl");
    let keys = "sndbuf = '3MiB'\ncongestion = 'wad_aimd'\ndscp = 34";
    let home = Home::create(&program()?, &policy(&sink, keys))?;
    let mounts = old_kernel::without(&LAWS, home.folder())?;
    let _agent = home.start_in(&mounts, stand.cgroup())?;
    let open = || Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], PORT));

    // There is no such algorithm.
    let connection = open()?;
    let no_law = json!({ "setting": "congestion", "errno": "ENOENT" });
    let tuned = event(&sink, &connection, "tuned", None)?;
    ensure!(tuned["refused"] == json!([no_law]) && tuned["outcome"] == "tuned", "{tuned}");
    let limited = event(&sink, &connection, "limited", None)?;
    ensure!(limited["why"] == "refused" && limited["refused"] == json!([no_law]), "{limited}");
    let flow = connection.near_flow(wire.a())?;
    ensure!((flow.sndbuf_bytes, flow.rcvbuf_bytes) == (6 << 20, 600 << 10), "{flow:?}");
    ensure!(flow.congestion == "cubic", "{flow:?}");

    // Somebody lowers the ceiling behind the agent's back.
    let lowered = Changed::to(WMEM_MAX.0, WMEM_MAX.1)?;
    let second = open()?;
    drop(lowered);
    let cut = json!({ "setting": "sndbuf", "errno": null });
    let tuned = event(&sink, &second, "tuned", None)?;
    ensure!(tuned["refused"] == json!([cut, no_law]), "{tuned}");

    let (flows, table) = said(&home, &["flows"])?;
    let flows = flows["flows"].as_array().context("flows")?;
    let of = |connection: &Connection| -> Result<Value> {
        let local = connection.near.local_addr()?.to_string();
        let flow = flows.iter().find(|flow| flow["local"] == local.as_str());
        Ok(flow.context("the flow is shown")?["refused"].clone())
    };
    ensure!(of(&connection)? == json!([no_law]) && of(&second)? == json!([cut, no_law]));
    ensure_says(&table, "tuned but sndbuf (cut), congestion (ENOENT)")?;

    let flows_of = |refused: &Value, flows: u32| {
        let mut of = refused.clone();
        of["flows"] = flows.into();
        of
    };
    let counts = json!([flows_of(&cut, 1), flows_of(&no_law, 2)]);
    let (status, text) = said(&home, &["status"])?;
    ensure!(status["paths"][0]["refused"] == counts, "{status}");
    ensure!(status["paths"][0]["flows_untuned"]["refused"] == 2, "{status}");
    ensure_says(&text, "\nrefused  sndbuf (cut) to 1 flows of path p\n")?;
    ensure_says(&text, "\nrefused  congestion (ENOENT) to 2 flows of path p\n")?;
    let (answer, text) = said(&home, &["explain", ADDRESSES_V4[1]])?;
    ensure!(answer["path"]["refused"] == counts, "{answer}");
    ensure_says(&text, "\n- the kernel has refused congestion (ENOENT) to 2 of its flows\n")?;

    // What is not asked any more is refused no more; what was is still counted.
    home.reload(&policy(&sink, "sndbuf = '2MiB'"))?;
    for connection in [&connection, &second] {
        let retuned = event(&sink, connection, "retuned", Some("policy"))?;
        ensure!(retuned.get("refused").is_none(), "{retuned}");
    }
    let (status, _) = said(&home, &["status"])?;
    ensure!(status["paths"][0]["refused"] == counts, "{status}");
    Ok(())
}
