//! Images of one layer for containers of tests, as `docker save` writes them.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::json;

use super::ClusterError;
use crate::process::run_command;

/// An image is of these files, and starts with these words.
pub struct Image<'a> {
    /// Its name, with a tag.
    pub name: &'a str,
    /// Files of the host, and where they are in the image.
    pub files: &'a [(&'a Path, &'a str)],
    pub words: &'a [&'a str],
}

impl Image<'_> {
    /// Writes it into a folder, and returns where.
    ///
    /// # Errors
    /// When a file cannot be read or written.
    pub fn write(&self, folder: &Path) -> Result<PathBuf, ClusterError> {
        let place = folder.join("images").join(self.name.replace(['/', ':'], "-"));
        let failed = |source: io::Error| ClusterError::Folder { path: place.clone(), source };
        let (root, layer) = (place.join("root"), place.join("layer.tar"));
        for (file, to) in self.files {
            let to = root.join(to.trim_start_matches('/'));
            fs::create_dir_all(to.parent().unwrap_or(&root)).map_err(failed)?;
            fs::copy(file, to).map_err(failed)?;
        }
        tar(&layer, &root, &["."])?;
        let summed = run_command(Command::new("sha256sum").arg(&layer))?;
        let sum = summed.split(' ').next().unwrap_or_default();
        let config = json!({
            "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
            "os": "linux",
            "config": { "Entrypoint": self.words, "Env": ["PATH=/usr/bin"] },
            "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{sum}")] },
        });
        let manifest = json!([
            { "Config": "config.json", "RepoTags": [self.name], "Layers": ["layer.tar"] }
        ]);
        for (name, value) in [("config.json", config), ("manifest.json", manifest)] {
            fs::write(place.join(name), value.to_string()).map_err(failed)?;
        }
        let archive = place.join("image.tar");
        tar(&archive, &place, &["manifest.json", "config.json", "layer.tar"])?;
        Ok(archive)
    }
}

fn tar(archive: &Path, folder: &Path, names: &[&str]) -> Result<(), ClusterError> {
    let mut tar = Command::new("tar");
    tar.arg("--create").arg("--file").arg(archive);
    tar.args(["--owner=0", "--group=0", "--directory"]).arg(folder).args(names);
    run_command(&mut tar)?;
    Ok(())
}
