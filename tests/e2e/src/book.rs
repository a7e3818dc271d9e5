//! The lines that the book tells its readers to enter, for tests that enter them.

use anyhow::{Context as _, Result};

pub const FIRST_POLICY: &str = include_str!("../../../docs/src/first-policy.md");
pub const INSTALL: &str = include_str!("../../../docs/src/install.md");
pub const KUBERNETES: &str = include_str!("../../../docs/src/kubernetes.md");

/// The sections of what a newcomer enters.
pub const ON_A_HOST: &str = "On a host, in three lines";
pub const ON_A_CLUSTER: &str = "In two lines";

/// Returns the first block in a language of a section of a page.
pub fn block(page: &'static str, heading: &str, language: &str) -> Result<&'static str> {
    let below = |text: &'static str, mark: &str| Some(text.split_once(mark)?.1);
    let found = below(page, &format!("# {heading}\n"))
        .and_then(|text| text.split("\n## ").next())
        .and_then(|section| below(section, &format!("\n```{language}\n")))
        .and_then(|text| text.split_once("```"));
    let (block, _) = found.with_context(|| format!("no {language} in {heading}"))?;
    Ok(block)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readme_has_the_same_lines() {
        let readme = include_str!("../../../README.md");
        for (page, heading, lines) in [(INSTALL, ON_A_HOST, 3), (KUBERNETES, ON_A_CLUSTER, 2)] {
            let block = block(page, heading, "sh").unwrap();
            assert_eq!(block.lines().count(), lines, "{block}");
            assert!(readme.contains(block), "{block}");
        }
    }

    #[test]
    fn a_block_is_of_its_section() {
        let page = "# A\n\n```sh\none\n```\n\n## B\n\n```toml\ntwo\n```\n\n```sh\nthree\n```\n";
        assert_eq!(block(page, "A", "sh").unwrap(), "one\n");
        assert_eq!(block(page, "B", "sh").unwrap(), "three\n");
        assert!(block(page, "C", "sh").is_err() && block(page, "A", "toml").is_err());
    }
}
