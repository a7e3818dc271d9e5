//! A client asks by one connection again and again, with a pause after each answer.

use std::num::NonZeroU32;

use serde::Deserialize;
use wad_testbed::emulated::units::Span;

/// Tells how often a client asks.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requests {
    pub count: NonZeroU32,
    /// The time from one request to the next; an answer that takes longer delays it.
    pub every: Span,
}

impl Requests {
    /// Returns why nobody can ask so, if so.
    #[must_use]
    pub fn fault(&self, are_of_curl: bool) -> Option<&'static str> {
        if !are_of_curl {
            return Some("requests are curl's");
        }
        let is_often = self.count.get() > 1 && self.every.0.as_millis() > 0;
        (!is_often).then_some("requests are at least two, with a time between them")
    }
}

#[cfg(test)]
mod tests {
    use crate::scenario::Scenario;

    #[test]
    fn requests_are_several_and_of_curl() {
        let fault = |client: &str, requests: &str| {
            let text = format!(
                "description = ''\nbytes = 9\n{client}requests = {requests}\n\
                 variant = [{{ name = 'a' }}]\n\
                 path = {{ rtt = '1ms', forward = {{ rate = '1Mbit', queue.bdp = 1 }} }}\n"
            );
            let parsed = Scenario::parse("x", std::path::Path::new("x.toml"), &text);
            parsed.err().map(|error| error.to_string()).unwrap_or_default()
        };
        let curl = "client = 'curl'\n";
        assert_eq!(fault(curl, "{ count = 2, every = '5s' }"), "");
        assert!(fault("", "{ count = 2, every = '5s' }").contains("curl's"));
        assert!(fault(curl, "{ count = 1, every = '5s' }").contains("at least two"));
        assert!(fault(curl, "{ count = 2, every = '0s' }").contains("at least two"));
    }
}
