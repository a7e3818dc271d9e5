//! Sources' answers for tests.

pub mod server;

use std::time::SystemTime;

use wad_policy::config::{Config, Metric, testing::host};

use super::{Answer, Reading, Sample, Store, Targets};

/// "a" is 10.0.0.0/8, "b" is 2001:db8::/32.
pub fn two_paths() -> Targets {
    let text = "[[source]]\nname = 's'\nkind = 'http'\nurl = 'http://a'\n\
                [[path]]\nname = 'a'\nremote = '10.0.0.0/8'\nmode = 'measured'\n\
                sndbuf = 'auto'\n\
                [[path]]\nname = 'b'\nremote = '2001:db8::/32'\nmode = 'measured'\n\
                sndbuf = 'auto'\n";
    targets(text)
}

/// "0" is 10.0.0.0/16, "1" is 10.1.0.0/16, and so on.
pub fn paths(count: usize) -> Targets {
    let source = "[[source]]\nname = 's'\nkind = 'http'\nurl = 'http://a'\n".to_owned();
    let paths = (0..count).map(|path| {
        format!(
            "[[path]]\nname = '{path}'\nremote = '10.{path}.0.0/16'\nmode = 'measured'\n\
             sndbuf = 'auto'\n"
        )
    });
    targets(&(source + &paths.collect::<String>()))
}

/// The paths of a file.
fn targets(text: &str) -> Targets {
    let config = Config::parse("wad.toml", text, &host());
    Targets::new(&config.unwrap_or_else(|error| panic!("{error}")).paths)
}

/// A value of the first measured path.
#[derive(Clone, Copy)]
pub struct Given {
    pub metric: Metric,
    pub value: f64,
    pub age_seconds: f64,
}

/// A source gives it.
pub fn record(store: &mut Store, source: usize, given: Given, now: SystemTime) {
    let seconds = now.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64();
    let Given { metric, value, age_seconds } = given;
    let sample = Sample { value, measured_at_seconds: seconds - age_seconds, is_least: false };
    let readings = vec![Reading { target: 0, metric, sample }];
    store.record(source, Ok(Answer { readings, errors: Vec::new() }), now);
}
