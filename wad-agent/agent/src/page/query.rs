//! A query follows the `?` of a page's address, as forms of browsers write it, and as links do.

use std::fmt::{self, Display};

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// Characters of a value that count: pages repeat it in their links.
const MOST_CHARS: usize = 512;

/// Keys and values, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Reads it. Nothing is wrong about it: what is not known is left alone.
    pub fn parse(text: &str) -> Self {
        let decoded = |text: &str| {
            let text = text.replace('+', " ");
            percent_decode_str(&text).decode_utf8_lossy().chars().take(MOST_CHARS).collect()
        };
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        Self(pairs.map(|(key, value)| (decoded(key), decoded(value))).collect())
    }

    /// Returns the value of a key, if it has one.
    pub fn get(&self, key: &str) -> Option<&str> {
        let (_, value) = self.0.iter().find(|(own, _)| own == key)?;
        Some(value.trim()).filter(|value| !value.is_empty())
    }

    /// Returns a number that a key has.
    pub fn number(&self, key: &str) -> Option<usize> {
        self.get(key)?.parse().ok()
    }
}

/// The address of a page, with what it is asked.
pub struct Link {
    page: &'static str,
    pairs: Vec<(&'static str, String)>,
}

impl Link {
    pub const fn to(page: &'static str) -> Self {
        Self { page, pairs: Vec::new() }
    }

    /// Adds a value, if there is one.
    pub fn with(mut self, key: &'static str, value: Option<impl Into<String>>) -> Self {
        self.pairs.extend(value.map(|value| (key, value.into())));
        self
    }
}

impl Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.page)?;
        for (place, (key, value)) in self.pairs.iter().enumerate() {
            let value = utf8_percent_encode(value, NON_ALPHANUMERIC);
            write!(f, "{}{key}={value}", if place == 0 { '?' } else { '&' })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn forms_and_links_are_read() {
        let query = Query::parse("q=a+b%26c&path=learned-203.0.113.0%2F24&all&page=2&q=d&none=+");
        assert_eq!(
            (query.get("q"), query.get("path")),
            (Some("a b&c"), Some("learned-203.0.113.0/24"))
        );
        assert_eq!(
            (query.number("page"), query.get("all"), query.get("none")),
            (Some(2), None, None)
        );
        assert_eq!(Query::parse("page=-1").number("page"), None);
        let long = Query::parse(&format!("q={}", "%C3%BC".repeat(9 * MOST_CHARS)));
        assert_eq!(long.get("q"), Some(&*"\u{fc}".repeat(MOST_CHARS)));
    }

    proptest! {
        #[test]
        fn a_link_leads_to_what_it_says(value in "\\S|\\S\\PC{0,400}\\S") {
            let link = Link::to("/path").with("name", Some(&value)).with("page", None::<String>);
            let link = link.to_string();
            prop_assert!(link.is_ascii() && !link.contains(['"', '<', '>', '\'']), "{link}");
            let query = Query::parse(link.strip_prefix("/path?").unwrap());
            prop_assert_eq!(query.get("name"), Some(&*value));
        }
    }
}
