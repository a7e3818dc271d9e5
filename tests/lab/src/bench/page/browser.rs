//! A Chromium that is driven by WebDriver (W3C) and, where that says nothing, by its own protocol.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use tempfile::TempDir;
use wad_testbed::process::{Place, Process};

const START_LIMIT: Duration = Duration::from_secs(20);
const ANSWER_LIMIT: Duration = Duration::from_secs(120);

/// A browser, which ends when it is dropped.
pub struct Browser {
    at: SocketAddr,
    session: String,
    _driver: Process,
    _profile: TempDir,
}

impl Browser {
    /// Starts one that finds `evil.example` on this host, and no other name.
    pub fn start() -> Result<Self> {
        let at = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let mut driver = Command::new("chromedriver");
        driver.arg(format!("--port={}", at.port())).stdout(Stdio::null()).stderr(Stdio::null());
        let driver = Place::default()
            .spawn(driver)
            .context("no chromedriver: `apt install chromium chromium-driver`")?;
        let begun = Instant::now();
        while TcpStream::connect(at).is_err() {
            ensure!(begun.elapsed() < START_LIMIT, "chromedriver does not answer");
            thread::sleep(Duration::from_millis(50));
        }
        let profile = tempfile::tempdir()?;
        let options = json!({ "capabilities": { "alwaysMatch": {
            "goog:loggingPrefs": { "performance": "ALL", "browser": "ALL" },
            "goog:chromeOptions": { "args": [
                "--headless=new",
                // Its sandbox takes a user of its own, and here is root.
                "--no-sandbox",
                "--disable-dev-shm-usage",
                "--disable-gpu",
                "--hide-scrollbars",
                "--disable-background-networking",
                "--disable-component-update",
                format!("--user-data-dir={}", profile.path().display()),
                "--host-resolver-rules=MAP evil.example 127.0.0.1, MAP * ~NOTFOUND, \
                 EXCLUDE 127.0.0.1, EXCLUDE localhost",
            ] },
        } } });
        let mut browser = Self { at, session: String::new(), _driver: driver, _profile: profile };
        let begun = browser.post("/session", &options)?;
        begun["sessionId"].as_str().context("no session")?.clone_into(&mut browser.session);
        Ok(browser)
    }

    /// Opens an address, and waits until it is there.
    pub fn open(&self, url: &str) -> Result<()> {
        self.ask("/url", &json!({ "url": url })).map(drop)
    }

    /// Runs a script in the page; it calls its last argument when it is done.
    pub fn run(&self, script: &str) -> Result<Value> {
        self.ask("/execute/async", &json!({ "script": script, "args": [] }))
    }

    /// Gives an order of Chromium's own protocol.
    pub fn order(&self, command: &str, parameters: &Value) -> Result<Value> {
        self.ask("/goog/cdp/execute", &json!({ "cmd": command, "params": parameters }))
    }

    /// Takes a picture of the whole page.
    pub fn picture(&self) -> Result<Vec<u8>> {
        let how = json!({ "format": "png", "captureBeyondViewport": true });
        let taken = self.order("Page.captureScreenshot", &how)?;
        Ok(BASE64_STANDARD.decode(taken["data"].as_str().context("no picture")?)?)
    }

    /// Returns what there is new in a log: `performance`, or `browser`.
    pub fn log(&self, kind: &str) -> Result<Vec<Value>> {
        let entries = self.ask("/se/log", &json!({ "type": kind }))?;
        Ok(entries.as_array().cloned().unwrap_or_default())
    }

    fn ask(&self, path: &str, parameters: &Value) -> Result<Value> {
        self.post(&format!("/session/{}{path}", self.session), parameters)
    }

    fn post(&self, path: &str, parameters: &Value) -> Result<Value> {
        self.send("POST", path, &parameters.to_string())
    }

    fn send(&self, method: &str, path: &str, body: &str) -> Result<Value> {
        let mut stream = TcpStream::connect(self.at)?;
        stream.set_read_timeout(Some(ANSWER_LIMIT))?;
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            self.at,
            body.len()
        )?;
        let mut answer = BufReader::new(stream);
        let (mut line, mut length) = (String::new(), 0);
        loop {
            line.clear();
            answer.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(':') else {
                if line.trim_end().is_empty() {
                    break;
                }
                continue;
            };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse()?;
            }
        }
        let mut body = vec![0; length];
        answer.read_exact(&mut body)?;
        let mut answer: Value = serde_json::from_slice(&body)?;
        let value = answer["value"].take();
        if let Some(error) = value["error"].as_str() {
            bail!("{path}: {error}: {}", value["message"]);
        }
        Ok(value)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The driver ends in any case, and its browsers with it.
        let _ = self.send("DELETE", &format!("/session/{}", self.session), "{}");
    }
}
