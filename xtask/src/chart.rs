//! The Helm chart as one file, which helm takes as it takes the folder. The same commit
//! gives the same bytes.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

use crate::{
    exec,
    source::{Source, VERSION},
    tree::{Tree, gzip},
};

/// Where the chart is in the repository.
pub const FOLDER: &str = "config/kubernetes/chart";

/// Packs it, and returns where the file is.
pub fn pack(source: &Source) -> Result<PathBuf> {
    let mut tree = Tree::default();
    tree.copy_all("wad", &exec::root().join(FOLDER))?;
    let path = exec::target().join("dist").join(file());
    fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).context("target/dist")?;
    let packed = gzip(&tree.tar(source.seconds())?)?;
    fs::write(&path, packed).with_context(|| path.display().to_string())?;
    Ok(path)
}

/// Returns the file's name, as `helm package` has it.
fn file() -> String {
    format!("wad-{VERSION}.tgz")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_book_installs_this_version() {
        let page = exec::root().join("docs/src/kubernetes.md");
        let page = fs::read_to_string(page).unwrap();
        for name in [file(), format!("oci-archive:wad-{VERSION}.oci.tar")] {
            assert!(page.contains(&format!(" {name} ")), "{name}");
        }
    }
}
