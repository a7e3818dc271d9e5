//! `cargo xtask book`: builds the book of `docs/`, and refuses what has drifted: a link that
//! leads nowhere, a page that is no more what the tables give, an example that `wad check`
//! does not judge as the page says.

mod examples;
mod generated;
mod html;
mod markdown;
mod repository;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{self, Command, Stdio},
};

use anyhow::{Context as _, Result, bail};

use crate::{
    exec, reference,
    setup::{self, For},
    tools,
};

/// A text of the repository, or of the book.
struct Page {
    /// Its file, from the root of the repository.
    file: PathBuf,
    text: String,
}

pub fn run(write: bool) -> Result<()> {
    setup::run(For::Building)?;
    let mdbook = tools::MDBOOK.ensure()?;
    let root = exec::root();

    reference::build()?;
    let mut problems = generated(root, write)?;
    let pages = pages(root)?;
    let wad = exec::target().join("debug/wad");
    problems.extend(examples::check(root, &pages, |text| wad_check(&wad, text))?);
    problems.extend(repository::check(root, &pages));
    problems.extend(repository::unlisted(&pages));

    // mdbook leaves the pages of chapters that are gone.
    let built = root.join("target/book");
    remove(&built)?;
    exec::prepare(Command::new(mdbook).arg("build").arg(root.join("docs")))?;
    problems.extend(html::check(&built)?);

    for problem in &problems {
        eprintln!("{problem}");
    }
    if !problems.is_empty() {
        bail!("{} things are wrong with the documents", problems.len());
    }
    println!("{}", built.join("index.html").display());
    Ok(())
}

/// Makes the pages that come from tables, and holds those of the repository against them,
/// or renews these.
fn generated(root: &Path, write: bool) -> Result<Vec<String>> {
    let fresh = exec::target().join("book-reference");
    remove(&fresh)?;
    reference::write("pages", &fresh)?;
    let committed = root.join("docs/src/reference");
    if write {
        generated::renew(&fresh, &committed)?;
    }
    generated::compare(&fresh, &committed)
}

/// The pages of the book, and what stands at the root of the repository.
fn pages(root: &Path) -> Result<Vec<Page>> {
    let mut pages = Vec::new();
    for folder in ["", "docs/src", "docs/src/reference"] {
        let mut files = Vec::new();
        for entry in fs::read_dir(root.join(folder)).with_context(|| folder.to_owned())? {
            files.push(Path::new(folder).join(entry?.file_name()));
        }
        files.sort();
        for file in files.into_iter().filter(|file| file.extension().is_some_and(|end| end == "md"))
        {
            let text = fs::read_to_string(root.join(&file));
            let text = text.with_context(|| file.display().to_string())?;
            pages.push(Page { file, text });
        }
    }
    Ok(pages)
}

/// The exit code of `wad check` for a file that is wrong (EX_CONFIG of sysexits.h).
const CONFIG: i32 = 78;

/// Asks the real `wad check` about a file; what it says if it refuses.
fn wad_check(wad: &Path, text: &str) -> Result<Result<(), String>> {
    let file = env::temp_dir().join(format!("wad-book-{}.toml", process::id()));
    fs::write(&file, text).with_context(|| file.display().to_string())?;
    let output = Command::new(wad)
        .args(["check", "--config"])
        .arg(&file)
        .stdin(Stdio::null())
        .output()
        .with_context(|| wad.display().to_string())?;
    fs::remove_file(&file).with_context(|| file.display().to_string())?;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    match output.status.code() {
        Some(0) => Ok(Ok(())),
        Some(CONFIG) => Ok(Err(told)),
        _ => bail!("`wad check` ended with {}: {told}", output.status),
    }
}

fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| folder.display().to_string())
        }
        _ => Ok(()),
    }
}
