//! Answers of sources; see `tests/fuzz`.

use std::{
    sync::LazyLock,
    time::{Duration, SystemTime},
};

use wad_http::{self as http, Client, Terms};
use wad_policy::config::{Config, Source, fuzz::HOST};
use wad_toolbox::{access::Access, url::Url};

use super::{Answer, SourceError, Store, Targets, error::is_possible};

static CONFIG: LazyLock<(Config, Targets)> = LazyLock::new(|| {
    let text = "[[source]]\nname = 's'\nkind = 'http'\nurl = 'http://a'\n\
                [[path]]\nname = 'a'\nremote = '10.0.0.0/8'\nmode = 'measured'\n\
                sndbuf = 'auto'\n\
                [[path]]\nname = 'b'\nremote = '2001:db8::/32'\nmode = 'measured'\n\
                sndbuf = 'auto'\n";
    let config = Config::parse("wad.toml", text, &HOST).expect("valid");
    let targets = Targets::new(&config.paths);
    (config, targets)
});

/// A source, and two measured paths: "a" is 10.0.0.0/8, "b" is 2001:db8::/32.
pub fn configured() -> (&'static [Source], &'static Targets) {
    (&CONFIG.0.sources, &CONFIG.1)
}

static URL: LazyLock<Url> =
    LazyLock::new(|| Url { is_https: false, host: "a".to_owned(), port: 80, path: String::new() });

/// Returns a client that asks nobody.
pub fn client(max_response_bytes: usize) -> Client<'static> {
    let timeout = Duration::from_secs(1);
    static ACCESS: LazyLock<Access> = LazyLock::new(Access::default);
    let terms = Terms { access: &ACCESS, timeout, max_response_bytes };
    Client::new(terms, &URL).expect("there is no file to read")
}

/// Reads what a server sends.
pub fn http(bytes: &[u8]) {
    hold(http::fuzz(bytes).map(|_| Answer::default()).map_err(SourceError::from));
}

/// Asserts what holds of any answer, and takes it in.
pub fn hold(answer: Result<Answer, SourceError>) {
    let (sources, targets) = configured();
    for reading in answer.iter().flat_map(|answer| &answer.readings) {
        assert!(is_possible(reading.metric, reading.sample.value), "{reading:?}");
        assert!(reading.sample.measured_at_seconds.is_finite(), "{reading:?}");
    }
    let errors = match &answer {
        Ok(answer) => answer.errors.iter().collect(),
        Err(error) => vec![error],
    };
    for error in errors {
        let told = error.told();
        assert!(!told.contains(char::is_control), "{told:?}");
    }
    let mut store = Store::new(sources, targets);
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000);
    let _news = store.record(0, answer, now);
    for target in 0..targets.names().len() {
        let _ = store.findings(target, now);
    }
}
