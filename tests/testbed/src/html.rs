//! A page of HTML is held to its form: what is opened is closed, in the right order, and no name of
//! an element is there twice.

use std::collections::HashSet;

/// Elements that have no end (HTML, 13.1.2).
const VOID: [&str; 7] = ["br", "hr", "img", "input", "link", "meta", "source"];

/// Returns what is wrong with a page, or its text without elements.
///
/// # Errors
/// Names the first thing that is wrong, with what stands before it.
pub fn text(page: &str) -> Result<String, String> {
    let mut rest = page.strip_prefix("<!DOCTYPE html>").ok_or("it is no page")?;
    let (mut open, mut text, mut names) = (Vec::new(), String::new(), HashSet::new());
    while let Some(at) = rest.find('<') {
        text.push_str(&rest[..at]);
        let wrong = |what: &str| {
            let skipped = text.chars().count().saturating_sub(60);
            format!("{what} behind {:?}", text.chars().skip(skipped).collect::<String>())
        };
        let end = end_of_tag(&rest[at..]).ok_or_else(|| wrong("a tag without an end"))?;
        let tag = &rest[at + 1..at + end];
        rest = &rest[at + end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            if open.pop() != Some(name) {
                return Err(wrong(&format!("</{name}> ends what is not open")));
            }
            text.push(' ');
            continue;
        }
        let name = tag.split_whitespace().next().unwrap_or_default();
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if !is_name {
            return Err(wrong(&format!("<{tag}> is no element")));
        }
        let id = tag.split_once(" id=\"").and_then(|(_, id)| id.split_once('"'));
        if id.is_some_and(|(id, _)| !names.insert(id)) {
            return Err(wrong(&format!("<{tag}> has a name that is taken")));
        }
        // In pictures, elements may end where they begin.
        if !VOID.contains(&name) && !tag.ends_with('/') {
            open.push(name);
        }
    }
    match open.last() {
        Some(name) => Err(format!("<{name}> is not closed")),
        None => Ok(text),
    }
}

/// Returns where a tag ends: not within the value of an attribute.
fn end_of_tag(text: &str) -> Option<usize> {
    let mut is_quoted = false;
    text.char_indices().find_map(|(at, character)| match character {
        '"' => {
            is_quoted = !is_quoted;
            None
        }
        '>' if !is_quoted => Some(at),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_opened_is_closed() {
        let page = |body: &str| text(&format!("<!DOCTYPE html><html><body>{body}</body></html>"));
        assert_eq!(
            page("<p id=\"a\">b<br>c &lt;</p><svg><line x1=\"1\"/></svg>").unwrap().trim(),
            "bc &lt;"
        );
        assert!(page("<a title=\"a > b\">c</a>").is_ok());
        for wrong in ["<p>", "</p>", "<b><i></b></i>", "a < b", "<p id=\"a\"></p><p id=\"a\"></p>"]
        {
            assert!(page(wrong).is_err(), "{wrong}");
        }
        assert!(text("<html></html>").is_err());
    }
}
