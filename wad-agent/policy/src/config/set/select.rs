//! An expression that chooses values of a JSON document, such as
//! `prefixes[region=eu-west-1].ip_prefix`: names of members, one within the other. Where a
//! value is a list, each of its items is meant, or those that the conditions in brackets
//! hold for.
//!
//! The document is read in place: what is chosen takes no memory, and neither does the
//! rest, however deep it is.

use std::{borrow::Cow, fmt, str::Chars};

use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::value::RawValue;

use crate::config::{
    cgroup::glob,
    fault::{Fault, quoted},
};

type Result<T, E = serde_json::Error> = std::result::Result<T, E>;

/// Most names and conditions of an expression: each is a pass over the document.
const MOST_PARTS: usize = 16;

/// An expression. Its text is how it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Select {
    text: String,
    steps: Vec<Step>,
}

/// A step goes from a value to a member of it, and on to those of its items that fit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Step {
    /// None for the value itself: of the document, which may be a list.
    member: Option<String>,
    conditions: Vec<Condition>,
}

/// A condition holds for an object whose member fits a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Condition {
    /// The names of members, one within the other.
    members: Vec<String>,
    pattern: String,
}

impl fmt::Display for Select {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Select {
    pub fn parse(text: &str) -> Result<Self, Fault> {
        let wrong = |label: &str| {
            Fault::new(format!("{} chooses nothing of a document", quoted(text)), label).help(
                "write names of members with dots between them, and conditions in brackets, as \
                 \"prefixes[region=eu-west-1].ip_prefix\"; * is any part of a value, [] each item",
            )
        };
        let mut steps = Vec::new();
        let mut rest = text.chars();
        loop {
            let (step, more) = step(&mut rest, steps.is_empty()).map_err(wrong)?;
            steps.push(step);
            if !more {
                break;
            }
        }
        let conditions = steps.iter().flat_map(|step| &step.conditions);
        let parts = conditions.fold(steps.len(), |parts, it| parts + it.members.len());
        if parts > MOST_PARTS {
            return Err(wrong(&format!("more than {MOST_PARTS} names")));
        }
        Ok(Self { text: text.to_owned(), steps })
    }

    /// Hands over what it chooses.
    pub fn choose<'j>(
        &self,
        document: &'j RawValue,
        mut take: impl FnMut(&'j RawValue),
    ) -> Result<()> {
        walk(document, &self.steps, &mut take)
    }
}

/// Reads a step, and whether there is another. Only the first may be without a name.
fn step(rest: &mut Chars<'_>, is_first: bool) -> Result<(Step, bool), &'static str> {
    let mut step = Step::default();
    let name = until(rest, |c| matches!(c, '.' | '[' | ']' | '='));
    match name {
        "" if !(is_first && rest.as_str().starts_with('[')) => return Err("a name is missing"),
        "" => {}
        name => step.member = Some(name.to_owned()),
    }
    loop {
        match rest.next() {
            None => return Ok((step, false)),
            Some('.') => return Ok((step, true)),
            Some('[') => {
                let condition = until(rest, |c| c == ']');
                rest.next().ok_or("a bracket is not closed")?;
                if !condition.is_empty() {
                    step.conditions.push(parse_condition(condition)?);
                }
            }
            Some(_) => return Err("a dot or a bracket is expected behind a name or a bracket"),
        }
    }
}

fn parse_condition(text: &str) -> Result<Condition, &'static str> {
    let (members, pattern) = text.split_once('=').ok_or("a condition is NAME=VALUE")?;
    let members: Vec<_> = members.split('.').map(str::to_owned).collect();
    if members.iter().any(String::is_empty) || pattern.is_empty() {
        return Err("a condition is NAME=VALUE");
    }
    if pattern.starts_with(['"', '\'']) {
        return Err("the value of a condition stands without quotes");
    }
    Ok(Condition { members, pattern: pattern.to_owned() })
}

/// Takes the characters before the first that ends them.
fn until<'t>(rest: &mut Chars<'t>, ends: impl Fn(char) -> bool) -> &'t str {
    let text = rest.as_str();
    let (taken, left) = text.split_at(text.find(ends).unwrap_or(text.len()));
    *rest = left.chars();
    taken
}

fn walk<'j>(value: &'j RawValue, steps: &[Step], take: &mut dyn FnMut(&'j RawValue)) -> Result<()> {
    let Some((step, rest)) = steps.split_first() else {
        take(value);
        return Ok(());
    };
    let value = match &step.member {
        None => Some(value),
        Some(name) => member(value, name)?,
    };
    let Some(value) = value else { return Ok(()) };
    each(value, &mut |item| {
        if fits(item, &step.conditions)? { walk(item, rest, take) } else { Ok(()) }
    })
}

fn fits(item: &RawValue, conditions: &[Condition]) -> Result<bool> {
    for Condition { members, pattern } in conditions {
        let mut value = Some(item);
        for name in members {
            value = value.map_or(Ok(None), |value| member(value, name))?;
        }
        let text = value.map_or(Ok(None), scalar)?;
        if !text.is_some_and(|text| glob(pattern, &text)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the text of a value that is neither a list nor an object.
fn scalar(value: &RawValue) -> Result<Option<Cow<'_, str>>> {
    match value.get().as_bytes() {
        [b'"', ..] => text(value),
        [b'{' | b'[', ..] => Ok(None),
        _ => Ok(Some(value.get().into())),
    }
}

/// Returns the value as a text, if it is one.
pub fn text(value: &RawValue) -> Result<Option<Cow<'_, str>>> {
    if !value.get().starts_with('"') {
        return Ok(None);
    }
    serde_json::from_str(value.get()).map(|text: String| Some(text.into()))
}

/// Returns the member of an object; None where there is none.
fn member<'j>(value: &'j RawValue, name: &str) -> Result<Option<&'j RawValue>> {
    struct Member<'n>(&'n str);

    impl<'j> Visitor<'j> for Member<'_> {
        type Value = Option<&'j RawValue>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'j>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut found = None;
            while let Some(is_it) = map.next_key_seed(Is(self.0))? {
                if is_it {
                    found = Some(map.next_value()?);
                } else {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            Ok(found)
        }
    }

    if !value.get().starts_with('{') {
        return Ok(None);
    }
    serde_json::Deserializer::from_str(value.get()).deserialize_map(Member(name))
}

/// Says whether a key is this one.
struct Is<'n>(&'n str);

impl<'j> DeserializeSeed<'j> for Is<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'j>>(self, key: D) -> Result<bool, D::Error> {
        key.deserialize_str(self)
    }
}

impl Visitor<'_> for Is<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<bool, E> {
        Ok(key == self.0)
    }
}

/// Hands over each item of a list, or what is no list.
fn each<'j>(value: &'j RawValue, take: &mut dyn FnMut(&'j RawValue) -> Result<()>) -> Result<()> {
    struct Each<'j, 't>(&'t mut dyn FnMut(&'j RawValue) -> Result<()>);

    impl<'j> Visitor<'j> for Each<'j, '_> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list")
        }

        fn visit_seq<A: SeqAccess<'j>>(self, mut items: A) -> Result<(), A::Error> {
            while let Some(item) = items.next_element()? {
                (self.0)(item).map_err(A::Error::custom)?;
            }
            Ok(())
        }
    }

    if !value.get().starts_with('[') {
        return take(value);
    }
    serde_json::Deserializer::from_str(value.get()).deserialize_seq(Each(take))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(document: &str, select: &str) -> Vec<String> {
        let select = Select::parse(select).unwrap_or_else(|fault| panic!("{fault}"));
        let document: &RawValue = serde_json::from_str(document).expect("JSON");
        let mut chosen = Vec::new();
        let take = |value: &RawValue| chosen.push(value.get().to_owned());
        select.choose(document, take).expect("it is JSON to the end");
        chosen
    }

    #[test]
    fn members_and_conditions_choose() {
        let document = r#"{"n": 5, "list": [
            {"zone": "eu-1", "at": {"id": 7}, "is": ["a", "b"], "z": "\u0061\"b"},
            {"is": "c", "at": {"id": 8}, "zone": "eu-2"},
            {"zone": "us-1", "is": ["d"], "at": null},
            17, null, ["e"]]}"#;
        for (select, expected) in [
            ("n", vec!["5"]),
            ("[].n", vec!["5"]),
            ("none", vec![]),
            ("n.x", vec![]),
            ("list.zone", vec!["\"eu-1\"", "\"eu-2\"", "\"us-1\""]),
            ("list[].zone", vec!["\"eu-1\"", "\"eu-2\"", "\"us-1\""]),
            ("list[zone=eu-*].is", vec!["\"a\"", "\"b\"", "\"c\""]),
            ("list[zone=eu-?][at.id=8].is", vec!["\"c\""]),
            ("list[at.id=7].z", vec![r#""\u0061\"b""#]),
            ("list[z=a\"b].at.id", vec!["7"]),
            ("list[at=null].is", vec!["\"d\""]),
            ("list[is=c].zone", vec!["\"eu-2\""]),
            // A list in a list is none of its items.
            ("list", vec!["", "", "", "17", "null", "[\"e\"]"]),
        ] {
            let found = chosen(document, select);
            let shown = found.iter().map(|it| if it.starts_with('{') { "" } else { it });
            assert_eq!(shown.collect::<Vec<_>>(), expected, "{select}");
        }
        assert_eq!(chosen(r#"["a", "b"]"#, "[]"), ["\"a\"", "\"b\""]);
        assert_eq!(chosen(r#"[{"x": 1}, {"x": 2, "y": true}]"#, "[y=true].x"), ["2"]);
    }

    #[test]
    fn depth_takes_no_stack() {
        let deep = "[".repeat(1_000_000);
        let (open, close) =
            (format!(r#"{{"a": {deep}"#), format!(r#"{}, "b": 1}}"#, "]".repeat(1_000_000)));
        assert_eq!(chosen(&(open + &close), "b"), ["1"]);
    }

    #[test]
    fn what_is_no_expression_is_refused() {
        let many = ["a"; 17].join(".");
        let conditions = "a".to_owned() + &"[a.b=c]".repeat(8);
        for text in [
            "",
            ".",
            "a.",
            ".a",
            "a..b",
            "a.[b=c]",
            "a[b]",
            "a[b=]",
            "a[=c]",
            "a[b..c=d]",
            "a[b=c",
            "a]",
            "a=b",
            "a[b=c]d",
            "a[b='c']",
            "a[b=\"c\"]",
            &many,
            &conditions,
        ] {
            assert!(Select::parse(text).is_err(), "{text}");
        }
        for text in ["a", "a[]", "[]", "a[b=c=d]", "a-b.c d[e=f.g]"] {
            assert_eq!(Select::parse(text).expect("one").to_string(), text);
        }
    }
}
