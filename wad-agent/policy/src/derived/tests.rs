//! Expressions: what they are worth, what is wrong with them, and that nothing
//! makes one panic.

use jiff::Timestamp;
use proptest::prelude::*;

use super::{
    testing::{extend, flow},
    *,
};

fn definition(text: &str) -> Result<Definition, Mistake> {
    Definition::parse("X", text, &Derived::default())
}

fn value(text: &str) -> Option<f64> {
    let mut flow = flow(&[
        ("ElapsedSecs", 4.0),
        ("HCDataOctetsOut", 1e9),
        ("SmoothedRTT", 70_000.0),
        ("SndLimTimeRwin", 250.0),
        ("snd_cwnd", 10.0),
        ("inet_conn.icsk_rto", 201.0),
    ]);
    extend(&Derived(vec![definition(text).unwrap()]), &mut flow, None);
    flow.instruments.get("X")
}

/// Title and label, and the part of the text that they are about.
fn mistake(text: &str) -> String {
    let Mistake { at, title, label, .. } = definition(text).unwrap_err();
    format!("{} | {title}: {label}", &text[at])
}

#[test]
fn the_papers_event_is_worked_out() {
    assert_eq!(value("8 * HCDataOctetsOut / ElapsedSecs"), Some(2e9));
    let definition = definition("8 * HCDataOctetsOut / ElapsedSecs").unwrap();
    assert_eq!(definition.measure.to_string(), "octets/s");
}

#[test]
fn the_papers_own_expression_is_understood() {
    let text = "(DataBytesOut * 8) / (CurrTime - StartTime)";
    assert_eq!(value(text), value("8 * HCDataOctetsOut / ElapsedSecs"));
    let as_written = definition(text).unwrap();
    assert_eq!(as_written.measure.to_string(), "octets/s");
    assert_eq!(Derived(vec![as_written]).instruments(), ["ElapsedSecs", "HCDataOctetsOut"]);
    assert_eq!(
        mistake("DataBytesOut - StartTime"),
        "- | different things have no sum, and neither is the greater: octets here, s there"
    );
    // A file that has given one of these names to a number of its own means that.
    let own = Derived(vec![Definition::parse("StartTime", "7", &Derived::default()).unwrap()]);
    let other = Definition::parse("X", "StartTime + 1", &own).unwrap();
    let mut flow = flow(&[]);
    extend(&Derived([own.0, vec![other]].concat()), &mut flow, None);
    assert_eq!(flow.instruments.get("X"), Some(8.0));
}

#[test]
fn operators_bind_as_in_school() {
    assert_eq!(value("1 + 2 * 3 - 4 / 2"), Some(5.0));
    assert_eq!(value("100 - 10 - 1"), Some(89.0));
    assert_eq!(value("64 / 4 / 2"), Some(8.0));
    assert_eq!(value("-2 * -(3 + 1)"), Some(8.0));
    assert_eq!(value("2 - -3"), Some(5.0));
    assert_eq!(value("min(3, 2, 4) + max(1, 1.5e1)"), Some(17.0));
    assert_eq!(value(" ( ( .5 ) ) "), Some(0.5));
}

#[test]
fn times_are_seconds_and_fields_are_as_they_are() {
    assert_eq!(value("SndLimTimeRwin / ElapsedSecs"), Some(0.0625));
    assert_eq!(value("SmoothedRTT"), Some(0.07));
    assert_eq!(value("tcp_sock.snd_cwnd * tcp_sock.inet_conn.icsk_rto"), Some(2010.0));
    let derived = Derived(vec![definition("tcp_sock.snd_cwnd + tcp_sock.snd_cwnd").unwrap()]);
    assert_eq!(derived.fields(), ["snd_cwnd"]);
}

#[test]
fn what_they_are_made_of_is_known() {
    let sent = Definition::parse("Sent", "HCDataOctetsOut", &Derived::default()).unwrap();
    let derived = Derived(vec![sent]);
    assert_eq!(derived.instruments(), ["HCDataOctetsOut"]);
    let rate = Definition::parse("Rate", "rate(Sent) * tcp_sock.snd_cwnd", &derived).unwrap();
    let derived = Derived([derived.0, vec![rate]].concat());
    assert_eq!(derived.instruments(), ["ElapsedSecs", "HCDataOctetsOut"]);
}

#[test]
fn what_has_no_value_has_none() {
    for text in ["1 / 0", "0 / 0", "1e300 * 1e300", "1e308 + 1e308", "MinRTT", "max(1, MinRTT)"] {
        assert_eq!(value(text), None, "{text}");
    }
    // There was no reading before.
    assert_eq!(value("rate(HCDataOctetsOut)"), None);
}

#[test]
fn a_rate_is_the_change_between_two_readings() {
    let derived = Derived(vec![
        Definition::parse("Bits", "8 * HCDataOctetsOut", &Derived::default()).unwrap(),
    ]);
    let rate = Definition::parse("Rate", "rate(Bits) / 2", &derived).unwrap();
    assert_eq!(rate.measure.to_string(), "octets/s");
    let derived = Derived([derived.0, vec![rate]].concat());
    let at = |seconds, octets, previous: Option<&Flow>| {
        let mut flow = flow(&[("ElapsedSecs", seconds), ("HCDataOctetsOut", octets)]);
        extend(&derived, &mut flow, previous);
        flow
    };
    let first = at(1.0, 1000.0, None);
    assert_eq!(first.instruments.get("Rate"), None);
    let second = at(3.0, 2000.0, Some(&first));
    assert_eq!(second.instruments.get("Rate"), Some(2000.0));
    // Read twice at one time.
    assert_eq!(at(3.0, 2000.0, Some(&second)).instruments.get("Rate"), None);
}

#[test]
fn mistakes_are_shown_where_they_are() {
    for (text, expected) in [
        ("", " | this cannot be worked out: a number, a name or a parenthesis is expected here"),
        (
            "1 +",
            "+ | this cannot be worked out: a number, a name or a parenthesis is expected here",
        ),
        ("1 2", "2 | this cannot be worked out: an operator or the end is expected here"),
        ("(1", "( | a parenthesis too few: opened here"),
        ("1)", ") | this cannot be worked out: an operator or the end is expected here"),
        (
            "min(1 2)",
            "2 | this cannot be worked out: an operator or a parenthesis is expected here",
        ),
        ("min(1)", "min | nothing to compare with: it takes two or more"),
        ("sqrt(1)", "sqrt | a function that is not known: there are min, max, rate"),
        ("1e999", "1e999 | this is no number: as 8, 1.5 or 1e9"),
        ("1.2.3", "1.2.3 | this is no number: as 8, 1.5 or 1e9"),
        ("8e", "8e | this is no number: as 8, 1.5 or 1e9"),
        (
            "1 ^ 2",
            "^ | a character that has no meaning here: it takes names, numbers, + - * / ( ) and ,",
        ),
        (
            "1 + \u{e9}",
            "\u{e9} | a character that has no meaning here: it takes names, numbers, + - * / ( ) and ,",
        ),
        ("rate(rate(1))", "rate | a rate within a rate: two readings have one change"),
        ("1 + tcp_sock.", "tcp_sock. | a name that is not known: a member's name is missing"),
        ("1 + X", "X | a name that is not known: it would be made of itself"),
        (
            "HCDataOctetsOut + ElapsedSecs",
            "+ | different things have no sum, and neither is the greater: octets here, s there",
        ),
        (
            "max(SegsOut / ElapsedSecs, SegsRetrans)",
            "max | different things have no sum, and neither is the greater: segments/s here, \
             segments there",
        ),
    ] {
        assert_eq!(mistake(text), expected, "{text}");
    }
}

#[test]
fn the_nearest_name_is_offered() {
    let help = |text| definition(text).unwrap_err().help;
    assert_eq!(help("SmothedRTT").unwrap(), "did you mean `SmoothedRTT`?");
    assert_eq!(help("curcwnd").unwrap(), "did you mean `CurCwnd`?");
    assert!(help("Wombat").unwrap().starts_with("`wad flows --instruments` lists"));
}

#[test]
fn like_things_have_a_sum_whatever_they_are_kept_in() {
    let measure = |text| definition(text).unwrap().measure.to_string();
    assert_eq!(measure("SmoothedRTT + SndLimTimeRwin + ElapsedSecs + 1"), "s");
    assert_eq!(measure("SegsOut * CurMSS + HCDataOctetsOut"), "octets");
    assert_eq!(measure("SegsRetrans / max(SegsOut, 1)"), "1");
    assert_eq!(measure("CurCwnd / SmoothedRTT - PacingRate"), "octets/s");
    assert_eq!(measure("CurCwnd / CurMSS"), "segments");
}

#[test]
fn depth_and_length_are_bounded() {
    let nested = |depth: usize| format!("{}1{}", "(".repeat(depth), ")".repeat(depth));
    assert_eq!(value(&nested(49)), Some(1.0));
    assert!(mistake(&nested(50)).ends_with("at most 50 deep"));
    assert!(definition(&"-".repeat(900)).unwrap_err().label.ends_with("at most 50 deep"));
    let long = definition(&nested(10_000)).unwrap_err();
    assert_eq!(
        (long.title.as_str(), long.label.as_str()),
        ("20001 bytes long", "at most 1000 bytes")
    );
    // A chain is not deep.
    assert_eq!(value(&format!("1{}", "+1".repeat(499))), Some(500.0));
}

/// Expressions that come close are made of these.
const SCRAPS: &[&str] = &[
    "HCDataOctetsOut",
    "ElapsedSecs",
    "SmoothedRTT",
    "MinRTT",
    "X",
    "tcp_sock.snd_cwnd",
    "tcp_sock",
    "min(",
    "max(",
    "rate(",
    "(",
    ")",
    ",",
    "+",
    "-",
    "*",
    "/",
    "1",
    "0",
    "1e308",
    "1e-308",
    ".",
    "e",
    " ",
    "\u{e9}",
    "\0",
];

/// Whatever it is, it is refused, or has a value that is a number, or none.
fn is_harmless(text: &str) {
    match definition(text) {
        Err(mistake) => assert!(text.get(mistake.at.clone()).is_some(), "{text:?}: {mistake:?}"),
        Ok(definition) => {
            let derived = Derived(vec![definition]);
            for octets in [0.0, 1e9, f64::MAX, f64::MIN_POSITIVE] {
                let values = [("ElapsedSecs", 1.0), ("HCDataOctetsOut", octets), ("snd_cwnd", 0.0)];
                let before = flow(&values);
                let mut now = flow(&[("ElapsedSecs", 2.0), ("HCDataOctetsOut", octets / 2.0)]);
                extend(&derived, &mut now, Some(&before));
                assert!(now.instruments.get("X").is_none_or(f64::is_finite), "{text:?}");
            }
        }
    }
}

proptest! {
    #[test]
    fn arbitrary_text_is_no_panic(text in any::<String>()) {
        is_harmless(&text);
    }

    #[test]
    fn arbitrary_scraps_are_no_panic(
        scraps in prop::collection::vec(prop::sample::select(SCRAPS), 0..60)
    ) {
        is_harmless(&scraps.concat());
    }
}

/// Mutations of what is right, the same in every run.
#[test]
fn mutated_expressions_are_no_panic() {
    let right =
        "max(8 * rate(HCDataOctetsOut) / 1e6, min(-SegsRetrans / SegsOut, 3)) + tcp_sock.a.b";
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: usize| {
        // xorshift64 (Marsaglia 2003).
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % below as u64) as usize
    };
    for _ in 0..5000 {
        let mut text: Vec<u8> = right.into();
        for _ in 0..1 + next(6) {
            let at = next(text.len());
            match next(4) {
                0 => text[at] = b' ' + next(95) as u8,
                1 => text.insert(at, b"()+-*/,.eE0 "[next(12)]),
                2 => drop(text.remove(at)),
                _ => {
                    let (from, length) = (next(text.len()), next(12));
                    let end = text.len().min(from + length);
                    let copy = text[from..end].to_vec();
                    text.splice(at..at, copy);
                }
            }
        }
        is_harmless(std::str::from_utf8(&text).unwrap());
    }
}

#[test]
fn a_reading_has_them_in_the_order_of_the_file() {
    let first = Definition::parse("B", "2 * SegsOut", &Derived::default()).unwrap();
    let above = Derived(vec![first]);
    let second = Definition::parse("A", "B + SegsOut", &above).unwrap();
    let derived = Derived([above.0, vec![second]].concat());
    let mut flow = flow(&[("SegsOut", 5.0)]);
    extend(&derived, &mut flow, None);
    let reading = wad_instruments::Reading { time: Timestamp::UNIX_EPOCH, flows: vec![flow] };
    let names: Vec<_> = reading.flows[0].instruments.iter().collect();
    assert_eq!(names, [("SegsOut", Some(5.0)), ("B", Some(10.0)), ("A", Some(15.0))]);
}
