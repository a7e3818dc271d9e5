//! A server that wants to know who asks is told so, through a proxy, and nobody else is.

use std::{fs, process::Command, time::Duration};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use wad_e2e_attribute::e2e;
use wad_testbed::{
    answers::{Answer, Answers},
    process::run_command,
    proxy::Proxy,
    stand::{Stand, until},
    tls::{Authority, Guard, TlsServer, Validity},
    wad::{Home, program},
};

const LIMIT: Duration = Duration::from_secs(30);

const GUARD: Guard = Guard {
    username: "Aladdin",
    password: "open-sesame",
    header: ("x_scope_orgid", "tenant-4711"),
};

/// Secrets, as they stand in files and as they are sent.
const SECRETS: [&str; 3] = ["open-sesame", "QWxhZGRpbjpvcGVuLXNlc2FtZQ==", "tenant-4711"];

#[e2e(long, beside)]
fn a_server_behind_a_proxy_is_told_who_asks_and_nobody_else_is() -> Result<()> {
    let stand = Stand::set_up("access")?;
    let answers = Answers::start(|_| {
        Answer::json(
            r#"{"paths": [{"path": "p", "bandwidth_bits_per_second": 1e8, "rtt_seconds": 0.05}]}"#,
        )
    })?;
    let authority = Authority::create()?;
    let server =
        TlsServer::start_guarded(&authority, Validity::Now, answers.address(), Some(GUARD))?;
    let proxy = Proxy::start()?;
    let files = tempfile::tempdir()?;
    let file = |name: &str, text: &str| -> Result<String> {
        let file = files.path().join(name);
        fs::write(&file, text)?;
        Ok(file.display().to_string())
    };
    let basic =
        format!("username = 'Aladdin'\npassword_file = '{}'\n", file("password", "open-sesame\n")?);
    let wrong =
        format!("username = 'Aladdin'\npassword_file = '{}'\n", file("wrong", "open-barley\n")?);
    let [certificate, key] = authority.identity().map(|file| file.display().to_string());
    let identity = format!("client_certificate = '{certificate}'\nclient_key = '{key}'\n");
    let other_key = file("key", &fs::read_to_string(authority.certificate())?)?;
    let no_key = format!("client_certificate = '{certificate}'\nclient_key = '{other_key}'\n");
    let tenant = format!(
        "headers = {{ X-Scope-OrgID = {{ file = '{}' }} }}\n",
        file("tenant", "tenant-4711\n")?
    );
    let cases = [
        ("good", [&basic, &identity, &tenant], None),
        ("anonymous", [&basic, &String::new(), &tenant], Some(("status", "400"))),
        ("wrong-password", [&wrong, &identity, &tenant], Some(("status", "`username`"))),
        ("no-tenant", [&basic, &identity, &String::new()], Some(("status", "403"))),
        ("no-key", [&basic, &no_key, &tenant], Some(("file", "private key"))),
    ];
    let mut policy = String::new();
    for (name, keys, _) in &cases {
        let keys = keys.map(String::as_str).concat();
        policy += &format!(
            "[[source]]\nname = '{name}'\nkind = 'http'\nurl = '{}'\ninterval = '1s'\n\
             ca_file = '{}'\nproxy = '{}'\n{keys}\n",
            server.url(),
            authority.certificate().display(),
            proxy.url()
        );
    }
    policy += "[[path]]\nname = 'p'\nremote = '10.81.0.2'\nmode = 'measured'\nsndbuf = 'auto'\n";
    let home = Home::create(&program()?, &policy)?;
    let agent = home.start(stand.cgroup())?;
    let ask = |arguments: &[&str]| -> Result<String> {
        let output = home.command(arguments[0]).args(&arguments[1..]).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    };
    let sources = || -> Result<Vec<Value>> {
        let paths: Value = serde_json::from_str(&ask(&["paths", "--json"])?)?;
        Ok(paths["sources"].as_array().context("no sources")?.clone())
    };
    let is_known = |sources: &Vec<Value>| {
        cases.iter().zip(sources).all(|((_, _, error), source)| match error {
            Some((_, text)) => source["error"].as_str().is_some_and(|error| error.contains(text)),
            None => source["error"].is_null() && !source["age_seconds"].is_null(),
        })
    };
    let sources = until("each source has its answer", LIMIT, sources, is_known)?;
    for ((name, _, error), source) in cases.iter().zip(&sources) {
        let Some((kind, _)) = error else { continue };
        let labels = [format!("source=\"{name}\""), format!("kind=\"{kind}\"")];
        let labels = labels.each_ref().map(String::as_str);
        ensure!(home.metrics()?.value("wad_source_errors_total", &labels)? >= 1.0, "{source}");
    }

    // The proxy has made tunnels, and knows no more than whereto.
    let target = server.url().replace("https://", "");
    for head in proxy.heads() {
        ensure!(head.starts_with(&format!("CONNECT {target} HTTP/1.1")), "{head}");
        ensure!(!head.to_lowercase().contains("authorization"), "{head}");
        ensure!(!head.to_lowercase().contains("orgid"), "{head}");
    }
    // None of it is shown to anybody.
    home.write_policy(&policy.replace("interval = '1s'", "interval = '2s'"))?;
    let mut check = Command::new(program()?);
    check.args(["check", "--config"]).arg(home.config());
    let mut shown = vec![home.log(), run_command(&mut check)?];
    for arguments in [
        &["explain", "10.81.0.2"][..],
        &["paths"],
        &["paths", "--json"],
        &["status", "--json"],
        &["reload", "--dry-run"],
        &["reload", "--dry-run", "--json"],
        &["reload"],
    ] {
        shown.push(ask(arguments)?);
    }
    for text in shown {
        for secret in SECRETS {
            ensure!(!text.contains(secret), "{secret} in {text}");
        }
    }
    agent.stop()?;
    Ok(())
}
