//! The links of the book are checked as it was built: each must lead to a file of it,
//! and to an anchor that is there. Links to other sites are not followed.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Component, Path, PathBuf},
};

use anyhow::{Context as _, Result};

/// These pages have links that are those of others, or start at the root of a site.
const NOT_LOOKED_AT: [&str; 3] = ["print.html", "404.html", "toc.html"];

/// Says which links of the pages below a folder lead nowhere.
pub fn check(folder: &Path) -> Result<Vec<String>> {
    let mut files = BTreeSet::new();
    list(folder, folder, &mut files)?;
    let mut pages = BTreeMap::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|end| end == "html")) {
        let text = fs::read_to_string(folder.join(file));
        pages.insert(file.clone(), text.with_context(|| file.display().to_string())?);
    }
    let mut problems = BTreeSet::new();
    for (file, text) in &pages {
        if NOT_LOOKED_AT.iter().any(|name| file == Path::new(name)) {
            continue;
        }
        for target in values(text, "href").chain(values(text, "src")) {
            if is_elsewhere(target) {
                continue;
            }
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let to = resolve(file, path);
            let wrong = if !files.contains(&to) {
                "there is no such page"
            } else if !anchor.is_empty() && !has_anchor(pages.get(&to), anchor) {
                "there is no such anchor"
            } else {
                continue;
            };
            problems.insert(format!("{}: the link {target}: {wrong}", file.display()));
        }
    }
    Ok(problems.into_iter().collect())
}

/// Returns the values of an attribute.
fn values<'t>(text: &'t str, attribute: &str) -> impl Iterator<Item = &'t str> {
    let begin = format!(" {attribute}=\"");
    let mut rest = text;
    std::iter::from_fn(move || {
        let at = rest.find(&begin)? + begin.len();
        let (value, after) = rest[at..].split_once('"')?;
        rest = after;
        Some(value)
    })
}

fn is_elsewhere(target: &str) -> bool {
    ["http:", "https:", "mailto:", "javascript:", "data:"]
        .iter()
        .any(|scheme| target.starts_with(scheme))
}

fn has_anchor(page: Option<&String>, anchor: &str) -> bool {
    page.is_some_and(|text| values(text, "id").any(|id| id == anchor))
}

/// Returns the file that a link of a page leads to.
fn resolve(page: &Path, link: &str) -> PathBuf {
    if link.is_empty() {
        return page.to_owned();
    }
    let folder = page.parent().unwrap_or(Path::new(""));
    let mut resolved = PathBuf::new();
    for component in folder.join(link).components() {
        match component {
            Component::ParentDir if resolved.pop() => {}
            other => resolved.push(other),
        }
    }
    resolved
}

fn list(root: &Path, folder: &Path, files: &mut BTreeSet<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            list(root, &path, files)?;
        } else {
            files.extend(path.strip_prefix(root).map(Path::to_owned));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_link_is_a_problem() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        fs::create_dir(folder.path().join("sub")).unwrap();
        write("a.html", "<a href=\"sub/b.html#two\"> <a href=\"#one\"> <h1 id=\"one\">");
        write("sub/b.html", "<h1 id=\"two\"> <img src=\"../c.svg\"> <a href=\"https://x.org/y\">");
        write("c.svg", "");
        assert_eq!(check(folder.path()).unwrap(), [""; 0]);

        write("sub/b.html", "<a href=\"d.html\"> <a href=\"../a.html#three\"> <img src=\"c.svg\">");
        assert_eq!(
            check(folder.path()).unwrap(),
            [
                "a.html: the link sub/b.html#two: there is no such anchor",
                "sub/b.html: the link ../a.html#three: there is no such anchor",
                "sub/b.html: the link c.svg: there is no such page",
                "sub/b.html: the link d.html: there is no such page",
            ]
        );
    }

    #[test]
    fn a_link_out_of_the_book_leads_nowhere() {
        assert_eq!(resolve(Path::new("sub/b.html"), "../a.html"), Path::new("a.html"));
        assert_eq!(resolve(Path::new("a.html"), "../README.md"), Path::new("../README.md"));
    }
}
