//! Metrics go over TLS to those who say who they are, as with Prometheus' `web.config`.

use std::{fs, path::Path, process::Command, time::Duration};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    process::run,
    stand::{Stand, until},
    tls::Authority,
    wad::{Home, program},
};

/// The files of the certificate are looked at within this time.
const LIMIT: Duration = Duration::from_secs(20);
/// A test vector of bcrypt's authors: the password is "U*U".
const HASH: &str = "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW";

/// Returns the status that curl is answered with; 0 where there is no answer.
fn status(authority: &Path, url: &str, arguments: &[&str]) -> Result<u16> {
    let mut curl = Command::new("curl");
    curl.args(["-s", "-o", "/dev/null", "-w", "%{http_code}", "--cacert"]).arg(authority);
    let output = curl.args(arguments).arg(url).output()?;
    Ok(String::from_utf8(output.stdout)?.parse()?)
}

#[e2e(long, beside)]
fn metrics_go_encrypted_to_those_who_say_who_they_are() -> Result<()> {
    let stand = Stand::set_up("metrics-guard")?;
    let authority = Authority::create()?;
    let ca = authority.certificate();
    let home = Home::create(&program()?, "")?;
    let [certificate, key] = authority.identity().map(|file| {
        let copy = home.folder().join(file.file_name().unwrap_or_default());
        fs::copy(&file, &copy).map(|_| copy)
    });
    let (certificate, key) = (certificate?, key?);
    let agent = home.start(stand.cgroup())?;
    let port = home.metrics_port();
    let url = |scheme: &str| format!("{scheme}://127.0.0.1:{port}/metrics");
    let (plain, tls) = (url("http"), url("https"));
    ensure!(status(&ca, &plain, &[])? == 200 && status(&ca, &tls, &[])? == 0);

    // These lines stand below `[metrics]`.
    let guarded = format!(
        "certificate = '{}'\ncertificate_key = '{}'\nusers = {{ prometheus = '{HASH}' }}\n",
        certificate.display(),
        key.display()
    );
    home.write_policy(&guarded)?;
    let told = |command: &mut Command| -> Result<Value> {
        let output = command.arg("--json").output()?;
        ensure!(!String::from_utf8_lossy(&output.stdout).contains(HASH));
        Ok(serde_json::from_slice(&output.stdout)?)
    };
    let preview = told(home.command("reload").arg("--dry-run"))?;
    let done = told(&mut home.command("reload"))?;
    for told in [preview, done] {
        // The file may have been taken already, as it changed.
        let settings = &told["settings"];
        ensure!(
            *settings == json!(["metrics.certificate", "metrics.users"]) || *settings == json!([]),
            "{told}"
        );
    }
    let who = |pair| status(&ca, &tls, &["-u", pair]);
    ensure!(who("prometheus:U*U")? == 200 && who("prometheus:U*V")? == 401);
    ensure!(who("other:U*U")? == 401 && status(&ca, &tls, &[])? == 401);
    ensure!(status(&ca, &plain, &["-u", "prometheus:U*U"])? == 0, "over plain HTTP");
    let page = run("curl", &["-ks", "-u", "prometheus:U*U", &tls])?;
    ensure!(page.contains("wad_attached"), "{page}");
    // The host's own certificates do not vouch for it.
    ensure!(status(Path::new("/etc/ssl/certs/ca-certificates.crt"), &tls, &[])? == 0);

    // A file that is no good leaves the last good one; a reload with it changes nothing.
    fs::write(&key, "no key\n")?;
    let ask_and_look = || -> Result<String> {
        ensure!(who("prometheus:U*U")? == 200);
        Ok(home.log())
    };
    let is_said = |log: &String| log.contains("the last good one is used still");
    until("the agent says which one is used", LIMIT, ask_and_look, is_said)?;
    let refused = told(&mut home.command("reload"))?;
    ensure!(refused["result"] == "failed", "{refused}");
    ensure!(refused["reason"].to_string().contains("no private key"), "{refused}");
    ensure!(who("prometheus:U*U")? == 200 && !home.log().contains(HASH));

    home.reload("")?;
    ensure!(status(&ca, &plain, &[])? == 200 && status(&ca, &tls, &[])? == 0);
    agent.stop()?;
    Ok(())
}
