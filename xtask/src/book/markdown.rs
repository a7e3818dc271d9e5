//! These parts of a page of Markdown are looked at: fenced blocks, links, code in the
//! text, and the anchors of headings.

use std::collections::{BTreeSet, HashMap};

/// A fenced block.
#[derive(Debug, PartialEq, Eq)]
pub struct Block {
    /// The words behind the fence, which commas part.
    pub words: Vec<String>,
    pub text: String,
    /// The line of the fence, from 1 on.
    pub line: usize,
}

/// Something in the text, and its line, from 1 on.
#[derive(Debug, PartialEq, Eq)]
pub struct Found {
    pub text: String,
    pub line: usize,
}

/// A stretch of a line.
struct Span {
    is_code: bool,
    found: Found,
}

/// A page in its two parts.
#[derive(Debug, Default)]
pub struct Parts {
    pub blocks: Vec<Block>,
    /// The lines outside of blocks; those inside are empty.
    lines: Vec<String>,
}

impl Parts {
    pub fn of(page: &str) -> Self {
        let mut parts = Self::default();
        let mut open: Option<(&str, Block)> = None;
        for (index, line) in page.lines().enumerate() {
            let trimmed = line.trim_start();
            let fence_length = trimmed.len() - trimmed.trim_start_matches('`').len();
            let (fence, rest) = trimmed.split_at(fence_length);
            let mut outside = "";
            match &mut open {
                Some((opened, _)) if fence == *opened && rest.trim().is_empty() => {
                    parts.blocks.extend(open.take().map(|(_, block)| block));
                }
                Some((_, block)) => {
                    block.text.push_str(line);
                    block.text.push('\n');
                }
                None if fence_length >= 3 => {
                    let words = rest.trim().split(',').map(str::to_owned).collect();
                    open = Some((fence, Block { words, text: String::new(), line: index + 1 }));
                }
                None => outside = line,
            }
            parts.lines.push(outside.to_owned());
        }
        parts.blocks.extend(open.map(|(_, block)| block));
        parts
    }

    /// The targets of links and pictures.
    pub fn links(&self) -> Vec<Found> {
        let mut found = Vec::new();
        for text in self.spans().into_iter().filter(|span| !span.is_code).map(|span| span.found) {
            for rest in text.text.split("](").skip(1) {
                let target = rest.split([')', ' ']).next().unwrap_or_default();
                found.push(Found { text: target.to_owned(), line: text.line });
            }
        }
        found
    }

    /// Code in the text.
    pub fn code(&self) -> Vec<Found> {
        let spans = self.spans().into_iter();
        spans.filter(|span| span.is_code).map(|span| span.found).collect()
    }

    /// The text in its parts, cut at the ends of lines and at those of code, which may begin
    /// on one line and end on the next.
    fn spans(&self) -> Vec<Span> {
        let mut spans = Vec::new();
        let mut is_code = false;
        for (index, line) in self.lines.iter().enumerate() {
            // What is not closed ends with the paragraph.
            is_code &= !line.trim().is_empty();
            for (place, text) in line.split('`').enumerate() {
                is_code ^= place > 0;
                let found = Found { text: text.to_owned(), line: index + 1 };
                spans.push(Span { is_code, found });
            }
        }
        spans
    }

    /// The anchors of headings, as GitHub and mdBook make them.
    pub fn anchors(&self) -> BTreeSet<String> {
        let mut seen: HashMap<String, usize> = HashMap::new();
        let mut anchors = BTreeSet::new();
        for line in self.lines.iter().filter(|line| line.starts_with('#')) {
            let slug = slug(line.trim_start_matches('#').trim());
            let count = seen.entry(slug.clone()).or_default();
            anchors.insert(if *count == 0 { slug } else { format!("{slug}-{count}") });
            *count += 1;
        }
        anchors
    }
}

fn slug(heading: &str) -> String {
    let kept = heading.chars().filter_map(|c| match c {
        c if c.is_alphanumeric() || c == '_' || c == '-' => Some(c.to_ascii_lowercase()),
        c if c.is_whitespace() => Some('-'),
        _ => None,
    });
    kept.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
# The `one` thing

See [two](two.md#b), `[not](this.md)` and ![three](three.svg \"title\").

```toml,path
[not](that.md)
# no heading
```

## Twice
## Twice
";

    fn found(text: &str, line: usize) -> Found {
        Found { text: text.to_owned(), line }
    }

    #[test]
    fn blocks_are_taken_out() {
        let parts = Parts::of(PAGE);
        let words = ["toml", "path"].map(str::to_owned).to_vec();
        let text = "[not](that.md)\n# no heading\n".to_owned();
        assert_eq!(parts.blocks, [Block { words, text, line: 5 }]);
    }

    #[test]
    fn links_are_found_outside_of_code() {
        assert_eq!(Parts::of(PAGE).links(), [found("two.md#b", 3), found("three.svg", 3)]);
    }

    #[test]
    fn code_is_found_in_the_text() {
        assert_eq!(Parts::of(PAGE).code(), [found("one", 1), found("[not](this.md)", 3)]);
    }

    #[test]
    fn code_goes_on_behind_the_end_of_a_line() {
        let parts = Parts::of("`a\nb` [c](d.md) `e\n\n[f](g.md)\n");
        assert_eq!(parts.links(), [found("d.md", 2), found("g.md", 4)]);
    }

    #[test]
    fn headings_are_anchors() {
        let anchors: Vec<_> = Parts::of(PAGE).anchors().into_iter().collect();
        assert_eq!(anchors, ["the-one-thing", "twice", "twice-1"]);
    }

    #[test]
    fn a_fence_in_a_longer_one_is_text() {
        let parts = Parts::of("````md\n```toml\n```\n````\n");
        assert_eq!(parts.blocks.len(), 1);
        assert_eq!(parts.blocks[0].text, "```toml\n```\n");
    }
}
