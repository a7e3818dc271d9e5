//! Looks at all pages in a browser.

use std::{collections::BTreeSet, fs, net::SocketAddr, path::Path};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::{PAGES, browser::Browser};

const WIDTHS: [u32; 2] = [360, 1280];
const COLOURS: [&str; 2] = ["light", "dark"];

/// Opens the pages of so many flows, and leaves pictures in a folder.
pub fn look(at: SocketAddr, flows: usize, folder: &Path, axe: Option<&Path>) -> Result<()> {
    fs::create_dir_all(folder)?;
    let axe =
        axe.map(|file| fs::read_to_string(file).context("cannot read axe-core")).transpose()?;
    let browser = Browser::start()?;
    browser.order("Network.enable", &json!({}))?;
    let mut pages: Vec<(String, String)> =
        PAGES.iter().map(|(name, path)| ((*name).to_owned(), (*path).to_owned())).collect();
    if flows > 0 {
        browser.open(&format!("http://{at}/flows"))?;
        let first = "arguments[0](document.querySelector('tbody a').getAttribute('href'))";
        let flow = browser.run(first)?.as_str().context("no flow is there")?.to_owned();
        pages.push(("flow".to_owned(), flow));
    }
    let mut wrong = Vec::new();
    for colour in COLOURS {
        let scheme = json!({ "name": "prefers-color-scheme", "value": colour });
        browser.order("Emulation.setEmulatedMedia", &json!({ "features": [scheme] }))?;
        for width in WIDTHS {
            let size =
                json!({ "width": width, "height": 800, "deviceScaleFactor": 1, "mobile": false });
            browser.order("Emulation.setDeviceMetricsOverride", &size)?;
            for (name, path) in &pages {
                browser.open(&format!("http://{at}{path}"))?;
                let file = folder.join(format!("{flows}-{name}-{width}-{colour}.png"));
                fs::write(&file, browser.picture()?)?;
                let place = format!("{path}, {width} px, {colour}, {flows} flows");
                let wide = browser.run(
                    "arguments[0](document.documentElement.scrollWidth - window.innerWidth)",
                )?;
                if wide.as_i64().is_none_or(|beyond| beyond > 0) {
                    wrong.push(format!("{place}: {wide} px are beyond the edge"));
                }
                if let Some(axe) = &axe {
                    wrong.extend(judge(&browser, axe)?.iter().map(|it| format!("{place}: {it}")));
                }
            }
        }
    }
    wrong.extend(script_less(&browser, at)?);
    // As of what the page's policy forbids.
    let complaints = browser.log("browser")?;
    wrong.extend(complaints.iter().map(|it| format!("the browser complains: {}", it["message"])));
    wrong.extend(others(&browser, at)?);
    ensure!(wrong.is_empty(), "{} things are wrong:\n{}", wrong.len(), wrong.join("\n"));
    Ok(())
}

/// Returns what axe-core has against the page that is open.
fn judge(browser: &Browser, axe: &str) -> Result<Vec<String>> {
    let script = format!(
        "const done = arguments[arguments.length - 1]; {axe};\n\
         axe.run().then((it) => done([it.violations, it.passes.length]),\
         (error) => done([[{{ id: String(error), nodes: [] }}], 0]))"
    );
    let judged = browser.run(&script)?;
    ensure!(judged[1].as_u64() > Some(10), "axe-core has judged nothing: {judged}");
    let said = |it: &Value| {
        let nodes = it["nodes"].as_array().map_or(0, Vec::len);
        format!("axe-core: {} at {nodes} places, as {}", it["id"], it["nodes"][0]["html"])
    };
    Ok(judged[0].as_array().context("axe-core says nothing")?.iter().map(said).collect())
}

/// Looks at pages with scripts off: they are whole, and links and forms lead on.
fn script_less(browser: &Browser, at: SocketAddr) -> Result<Vec<String>> {
    let off = |value: bool| {
        browser.order("Emulation.setScriptExecutionDisabled", &json!({ "value": value })).map(drop)
    };
    let mut wrong = Vec::new();
    off(true)?;
    for (_, path) in PAGES {
        browser.open(&format!("http://{at}{path}"))?;
        let text = browser.order("DOM.getDocument", &json!({ "depth": -1 }))?.to_string();
        if !text.contains("\"live\"") || !text.contains("As of ") {
            wrong.push(format!("{path} is not whole without scripts"));
        }
    }
    off(false)?;
    Ok(wrong)
}

/// Sees that nothing was asked of other hosts, and that other sites get nothing of the page.
fn others(browser: &Browser, at: SocketAddr) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    let asked = requests(browser)?;
    let own = format!("http://{at}/");
    wrong.extend(
        asked.iter().filter(|url| !url.starts_with(&own)).map(|url| format!("{url} was asked")),
    );
    ensure!(asked.iter().any(|url| url.contains("/assets/")), "requests are not seen: {asked:?}");
    // A name that somebody has pointed to this host.
    browser.open(&format!("http://evil.example:{}/", at.port()))?;
    let text = "arguments[0](document.body.innerText)";
    let seen = browser.run(text)?.to_string();
    if !seen.contains("is asked for by localhost") {
        wrong.push(format!("evil.example is shown: {seen}"));
    }
    // Its own page asks for this one.
    let fetch = format!(
        "const done = arguments[0]; fetch('{own}').then((it) => it.text()).then(\
         (text) => done('read ' + text.length), (error) => done(String(error)))"
    );
    let seen = browser.run(&fetch)?.to_string();
    if !seen.contains("TypeError") {
        wrong.push(format!("another origin has {seen}"));
    }
    Ok(wrong)
}

/// Returns the addresses that pages have asked for since the last call.
fn requests(browser: &Browser) -> Result<BTreeSet<String>> {
    let entries = browser.log("performance")?;
    let url = |entry: &Value| -> Option<String> {
        let message: Value = serde_json::from_str(entry["message"].as_str()?).ok()?;
        let message = &message["message"];
        let is_request = message["method"] == "Network.requestWillBeSent";
        is_request.then(|| message["params"]["request"]["url"].as_str().map(str::to_owned))?
    };
    Ok(entries.iter().filter_map(url).filter(|url| url.starts_with("http")).collect())
}
