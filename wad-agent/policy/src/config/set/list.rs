//! Reads what a set holds: a text with a prefix on each line, or the texts of a JSON
//! document that expressions choose.

use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::value::RawValue;

use super::select::{self, Select};
use crate::config::{
    consent::is_bounded,
    fault::{Fault, quoted},
    prefix::{self, Mapped},
};

/// Most prefixes of a set.
pub const MAX_PREFIXES: usize = 1 << 17;

/// Says why a list holds no prefixes that can be used: it counts whole or not at all.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    #[error("it is no text")]
    NotText,
    #[error("line {line}: {fault}")]
    Line { line: usize, fault: String },
    #[error("it is no JSON")]
    Malformed { source: serde_json::Error },
    #[error("{select} chooses nothing")]
    Nothing { select: String },
    #[error("{select} chooses {value}: {fault}")]
    Chosen { select: String, value: String, fault: String },
    #[error("it is empty")]
    Empty,
    #[error("it has more than {MAX_PREFIXES} prefixes")]
    TooMany,
}

/// Reads a text: a prefix on each line, and comments behind #.
pub fn lines(bytes: &[u8]) -> Result<Vec<IpNet>, ListError> {
    let text = str::from_utf8(bytes).map_err(|_| ListError::NotText)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut prefixes = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let entry = line.split_once('#').map_or(line, |(entry, _)| entry).trim();
        if entry.is_empty() {
            continue;
        }
        let wrong = |fault: Fault| ListError::Line { line: at + 1, fault: in_short(&fault) };
        push(&mut prefixes, entry_of(entry).map_err(wrong)?)?;
    }
    outermost(prefixes)
}

/// Reads prefixes that were read before, and written down.
pub fn texts<'t>(texts: impl IntoIterator<Item = &'t str>) -> Result<Vec<IpNet>, ListError> {
    let mut prefixes = Vec::new();
    for (at, text) in texts.into_iter().enumerate() {
        let wrong = |fault: Fault| ListError::Line { line: at + 1, fault: in_short(&fault) };
        push(&mut prefixes, entry_of(text).map_err(wrong)?)?;
    }
    outermost(prefixes)
}

/// Makes a list of addresses.
pub fn addresses(addresses: impl IntoIterator<Item = IpAddr>) -> Result<Vec<IpNet>, ListError> {
    outermost(addresses.into_iter().map(IpNet::from).collect())
}

/// For libFuzzer, see `tests/fuzz`: a text, and a document behind a line with an expression.
#[cfg(feature = "fuzz")]
pub fn fuzz(bytes: &[u8]) {
    let hold = |list: Result<Vec<IpNet>, ListError>| {
        let Ok(list) = list else { return };
        assert!(!list.is_empty() && list.iter().all(|&net| is_bounded(net)));
        let is_apart = |pair: &[IpNet]| {
            let [a, b] = [pair[0], pair[1]].map(Mapped::from);
            a < b && !a.contains(b)
        };
        assert!(list.windows(2).all(is_apart), "{list:?}");
        let written: Vec<_> = list.iter().map(ToString::to_string).collect();
        let again = texts(written.iter().map(String::as_str));
        assert_eq!(again.expect("it was read before"), list);
    };
    hold(lines(bytes));
    let Some(end) = bytes.iter().position(|&byte| byte == b'\n') else { return };
    let Ok(text) = str::from_utf8(&bytes[..end]) else { return };
    let Ok(select) = Select::parse(text) else { return };
    assert_eq!(select.to_string(), text);
    hold(chosen(&bytes[end..], &[select]));
}

/// Reads what expressions choose of a JSON document. Each has to choose something.
pub fn chosen(bytes: &[u8], selects: &[Select]) -> Result<Vec<IpNet>, ListError> {
    let malformed = |source| ListError::Malformed { source };
    let document: &RawValue = serde_json::from_slice(bytes).map_err(malformed)?;
    let mut prefixes = Vec::new();
    for select in selects {
        let before = prefixes.len();
        // The first one that is wrong is told of.
        let mut outcome = Ok(());
        let take = |value: &RawValue| {
            if outcome.is_ok() {
                outcome = take(value, select).and_then(|net| push(&mut prefixes, net));
            }
        };
        select.choose(document, take).map_err(malformed)?;
        outcome?;
        if prefixes.len() == before {
            return Err(ListError::Nothing { select: select.to_string() });
        }
    }
    outermost(prefixes)
}

fn take(value: &RawValue, select: &Select) -> Result<IpNet, ListError> {
    let wrong = |fault: String| ListError::Chosen {
        select: select.to_string(),
        value: quoted(value.get()),
        fault,
    };
    let text = select::text(value).map_err(|source| ListError::Malformed { source })?;
    let text = text.ok_or_else(|| wrong("it is no text".to_owned()))?;
    entry_of(&text).map_err(|fault| wrong(in_short(&fault)))
}

fn push(prefixes: &mut Vec<IpNet>, net: IpNet) -> Result<(), ListError> {
    if prefixes.len() == MAX_PREFIXES {
        return Err(ListError::TooMany);
    }
    prefixes.push(net);
    Ok(())
}

/// Says what is wrong in somebody else's list, without advice.
fn in_short(fault: &Fault) -> String {
    format!("{}, {}", fault.title, fault.label)
}

/// A list with a default route in it, by a slip, would be for all connections.
fn entry_of(text: &str) -> Result<IpNet, Fault> {
    let net = prefix::parse(text)?;
    if is_bounded(net) {
        return Ok(net);
    }
    Err(Fault::new(format!("{net} is too wide for a set"), "at least /8 of IPv4 or /16 of IPv6"))
}

/// Leaves out prefixes within others of the list, and sorts them: each address has one
/// rule, however many services a provider lists it for.
fn outermost(mut prefixes: Vec<IpNet>) -> Result<Vec<IpNet>, ListError> {
    prefixes.sort_unstable_by_key(|&net| Mapped::from(net));
    prefixes.dedup_by(|net, before| Mapped::from(*before).contains(Mapped::from(*net)));
    if prefixes.is_empty() { Err(ListError::Empty) } else { Ok(prefixes) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(prefixes: Result<Vec<IpNet>, ListError>) -> Vec<String> {
        let prefixes = prefixes.unwrap_or_else(|error| panic!("{error}"));
        prefixes.iter().map(ToString::to_string).collect()
    }

    fn selects(selects: &[&str]) -> Vec<Select> {
        selects.iter().map(|text| Select::parse(text).expect("an expression")).collect()
    }

    #[test]
    fn a_text_has_a_prefix_on_each_line() {
        let text =
            "\u{feff}# all\r\n10.5.0.0/16\n\n  2001:db8::/32 # ours\n10.4.0.1#x\n10.5.7.0/24";
        assert_eq!(shown(lines(text.as_bytes())), ["10.4.0.1/32", "10.5.0.0/16", "2001:db8::/32"]);
    }

    #[test]
    fn the_lists_of_providers_are_read() {
        let aws = br#"{"syncToken": "1", "createDate": "2025-11-20-10-03-08", "prefixes": [
            {"ip_prefix": "3.4.12.4/32", "region": "eu-west-1", "service": "AMAZON",
             "network_border_group": "eu-west-1"},
            {"ip_prefix": "52.94.0.0/22", "region": "eu-west-1", "service": "AMAZON"},
            {"ip_prefix": "52.94.1.0/24", "region": "eu-west-1", "service": "DYNAMODB"},
            {"ip_prefix": "52.95.0.0/20", "region": "us-east-1", "service": "AMAZON"}],
            "ipv6_prefixes": [{"ipv6_prefix": "2a05:d07a:a000::/40", "region": "eu-west-1"}]}"#;
        let both = selects(&[
            "prefixes[region=eu-west-1].ip_prefix",
            "ipv6_prefixes[region=eu-west-1].ipv6_prefix",
        ]);
        let expected = ["3.4.12.4/32", "52.94.0.0/22", "2a05:d07a:a000::/40"];
        assert_eq!(shown(chosen(aws, &both)), expected);
        let gcp = br#"{"syncToken": "1", "creationTime": "2025-11-20T08:34:09.70705", "prefixes": [
            {"ipv4Prefix": "34.1.208.0/20", "service": "Google Cloud", "scope": "africa-south1"},
            {"ipv4Prefix": "34.76.0.0/14", "service": "Google Cloud", "scope": "europe-west1"},
            {"ipv6Prefix": "2600:1900:4010::/44", "service": "Google Cloud",
             "scope": "europe-west1"}]}"#;
        let both = selects(&[
            "prefixes[scope=europe-west1].ipv4Prefix",
            "prefixes[scope=europe-west1].ipv6Prefix",
        ]);
        assert_eq!(shown(chosen(gcp, &both)), ["34.76.0.0/14", "2600:1900:4010::/44"]);
        let azure = br#"{"changeNumber": 377, "cloud": "Public", "values": [
            {"name": "ActionGroup", "id": "ActionGroup", "properties": {"region": "",
             "addressPrefixes": ["4.145.74.52/30"]}},
            {"name": "Storage.WestEurope", "id": "Storage.WestEurope", "properties": {
             "changeNumber": 24, "region": "westeurope", "platform": "Azure", "systemService":
             "AzureStorage", "addressPrefixes": ["13.69.40.0/25", "2603:1020:206::/48"],
             "networkFeatures": ["API"]}}]}"#;
        for select in [
            "values[name=Storage.WestEurope].properties.addressPrefixes",
            "values.properties[region=westeurope][systemService=AzureStorage].addressPrefixes",
        ] {
            let prefixes = chosen(azure, &selects(&[select]));
            assert_eq!(shown(prefixes), ["13.69.40.0/25", "2603:1020:206::/48"]);
        }
    }

    #[test]
    fn a_list_counts_whole_or_not_at_all() {
        let by_lines = |text: &str| lines(text.as_bytes()).expect_err(text).to_string();
        assert_eq!(by_lines("# none\n"), "it is empty");
        assert!(by_lines("10.0.0.1\n10.0.0.1/8\n").starts_with("line 2: 10.0.0.1/8 has bits"));
        assert!(by_lines("<!DOCTYPE html>").starts_with("line 1: `<!DOCTYPE html>` is no"));
        for wide in ["0.0.0.0/0", "10.0.0.0/7", "::/0", "::ffff:0:0/96", "2000::/3", "::/80"] {
            assert!(by_lines(wide).contains("too wide for a set"), "{wide}");
        }
        assert_eq!(lines(b"\xff").expect_err("no text").to_string(), "it is no text");
        let many: String = (0..=MAX_PREFIXES)
            .map(|n| format!("10.{}.{}.{}\n", n >> 16, n >> 8 & 255, n & 255))
            .collect();
        assert!(by_lines(&many).contains("more than 131072"));
        let by_select =
            |text: &str| chosen(text.as_bytes(), &selects(&["a.b"])).expect_err(text).to_string();
        assert_eq!(by_select("{}"), "a.b chooses nothing");
        assert_eq!(by_select(r#"{"a": {"b": []}}"#), "a.b chooses nothing");
        assert_eq!(by_select("not json"), "it is no JSON");
        assert_eq!(by_select(r#"{"a": {"b": 5}}"#), "a.b chooses `5`: it is no text");
        assert!(by_select(r#"{"a": [{"b": "10.0.0.1"}, {"b": "x\n"}]}"#).contains("is no address"));
        // Each expression has to choose something: else a half of them goes unseen.
        let half = chosen(br#"{"a": "10.0.0.1"}"#, &selects(&["a", "b"]));
        assert_eq!(half.expect_err("b").to_string(), "b chooses nothing");
    }

    fn prefixes() -> impl Strategy<Value = Vec<IpNet>> {
        let v4 = (0..64_u32, 24..=32_u8).prop_map(|(low, bits)| {
            let address = std::net::Ipv4Addr::from_bits(10 << 24 | low);
            IpNet::new(address.into(), bits).expect("a length").trunc()
        });
        prop::collection::vec(v4, 1..12)
    }

    proptest! {
        /// The same addresses are in it, each once.
        #[test]
        fn prefixes_within_others_are_left_out(list in prefixes()) {
            let kept = outermost(list.clone()).expect("not empty");
            for low in 0..300_u32 {
                let address = IpNet::from(IpAddr::from(std::net::Ipv4Addr::from_bits(10 << 24 | low)));
                let count = kept.iter().filter(|net| net.contains(&address)).count();
                prop_assert_eq!(count, usize::from(list.iter().any(|net| net.contains(&address))));
            }
        }

        #[test]
        fn whatever_is_read_is_bounded(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = lines(&bytes);
            let _ = chosen(&bytes, &selects(&["a[b=*].c", "[].d"]));
        }
    }
}
