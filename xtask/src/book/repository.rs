//! The links of pages are checked as they are read in the repository, and so are the
//! files of it that they name.

use std::{
    collections::BTreeSet,
    path::{Component, Path, PathBuf},
};

use super::{Page, markdown::Parts};

/// Says which links lead to no file or heading, and which names in code are of files that
/// are not there.
pub fn check(root: &Path, pages: &[Page]) -> Vec<String> {
    let mut problems = Vec::new();
    for page in pages {
        let parts = Parts::of(&page.text);
        let folder = page.file.parent().unwrap_or(Path::new(""));
        for link in parts.links() {
            if link.text.contains("://") || link.text.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = link.text.split_once('#').unwrap_or((&link.text, ""));
            let to = if path.is_empty() { page.file.clone() } else { plain(&folder.join(path)) };
            let anchors = |to: &Page| Parts::of(&to.text).anchors();
            let wrong = if !root.join(&to).exists() {
                "there is no such file"
            } else if !anchor.is_empty()
                && !pages.iter().any(|page| page.file == to && anchors(page).contains(anchor))
            {
                "there is no such heading"
            } else {
                continue;
            };
            let (file, line) = (page.file.display(), link.line);
            problems.push(format!("{file}:{line}: the link {}: {wrong}", link.text));
        }
        for code in parts.code() {
            if names_a_file(root, &code.text) && !root.join(&code.text).exists() {
                let (file, line) = (page.file.display(), code.line);
                problems.push(format!("{file}:{line}: `{}`: there is no such file", code.text));
            }
        }
    }
    problems
}

/// Says which pages of the book its contents do not name: mdBook leaves them out.
pub fn unlisted(pages: &[Page]) -> Vec<String> {
    let contents = Path::new("docs/src/SUMMARY.md");
    let listed: BTreeSet<_> = pages
        .iter()
        .filter(|page| page.file == contents)
        .flat_map(|page| Parts::of(&page.text).links())
        .map(|link| Path::new("docs/src").join(link.text))
        .collect();
    let of_book = pages.iter().filter(|page| page.file.starts_with("docs/src"));
    of_book
        .filter(|page| page.file != contents && !listed.contains(&page.file))
        .map(|page| format!("{}: SUMMARY.md does not name it", page.file.display()))
        .collect()
}

/// Tells whether code is the path of something in a folder of the repository.
fn names_a_file(root: &Path, code: &str) -> bool {
    let Some((first, rest)) = code.split_once('/') else { return false };
    // What a build or a run leaves is not there yet; a pattern names several.
    let is_kept = !first.is_empty() && !["target", ".", ".."].contains(&first);
    is_kept
        && root.join(first).is_dir()
        && rest.chars().all(|c| c.is_ascii_alphanumeric() || "._-/".contains(c))
}

/// The path without the `..` in it.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir if plain.pop() => {}
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn problems(readme: &str) -> Vec<String> {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("docs/src")).unwrap();
        fs::write(root.path().join("README.md"), readme).unwrap();
        let page = "# A heading\n\n[back](../../README.md)\n";
        fs::write(root.path().join("docs/src/page.md"), page).unwrap();
        let pages = [("README.md", readme), ("docs/src/page.md", page)];
        let pages = pages.map(|(file, text)| Page { file: file.into(), text: text.to_owned() });
        check(root.path(), &pages)
    }

    #[test]
    fn a_wrong_link_is_a_problem() {
        let readme = "# Top\n[a](docs/src/page.md#a-heading) [b](#top) [c](https://x.org/#no)\n";
        assert_eq!(problems(readme), [""; 0]);
        assert_eq!(
            problems("[a](docs/page.md)\n[b](docs/src/page.md#no)\n\n[c](#no)\n"),
            [
                "README.md:1: the link docs/page.md: there is no such file",
                "README.md:2: the link docs/src/page.md#no: there is no such heading",
                "README.md:4: the link #no: there is no such heading",
            ]
        );
    }

    #[test]
    fn a_file_that_is_named_is_there() {
        let readme = "`docs/src/page.md` `docs/src` `target/x` `docs/src/*.md` `a/b` `/etc/wad`\n";
        assert_eq!(problems(readme), [""; 0]);
        let told = problems("`docs/src/none.md`\n");
        assert_eq!(told, ["README.md:1: `docs/src/none.md`: there is no such file"]);
    }

    #[test]
    fn a_page_that_the_contents_lack_is_a_problem() {
        let pages = ["docs/src/SUMMARY.md", "docs/src/a.md", "docs/src/b/c.md", "README.md"];
        let pages = pages.map(|file| Page { file: file.into(), text: "[a](a.md)\n".to_owned() });
        assert_eq!(unlisted(&pages), ["docs/src/b/c.md: SUMMARY.md does not name it"]);
    }
}
