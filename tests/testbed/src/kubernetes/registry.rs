//! A registry of images on the node: it has the name that the book gives one.

use std::{fs, path::Path, time::Duration};

use super::{Cluster, ClusterError};
use crate::{
    process::{Place, Process, run_command},
    stand::until,
};

/// The name by which the node finds it, and nobody else does.
const NAME: &str = "registry.example";

const LIMIT: Duration = Duration::from_secs(30);

/// The registry; it ends when dropped.
pub struct Registry {
    _process: Process,
}

impl Registry {
    /// Starts it without an image, and waits until it answers.
    ///
    /// # Errors
    /// Where it does not come up.
    pub fn start(cluster: &Cluster) -> Result<Self, ClusterError> {
        let file = cluster.folder.join("registry.yaml");
        fs::write(&file, configuration(&cluster.folder.join("images")))
            .map_err(|source| ClusterError::Folder { path: file.clone(), source })?;
        let mut command = cluster.server("docker-registry");
        command.arg("serve").arg(&file);
        let process = Place::default().spawn(command)?;
        let answers = || {
            let url = format!("http://{NAME}/v2/");
            let asked = run_command(cluster.command("curl").args(["--silent", "--fail", &url]));
            Ok::<_, ClusterError>(asked.is_ok())
        };
        until("the registry answers", LIMIT, answers, |answers| *answers)?;
        Ok(Self { _process: process })
    }
}

fn configuration(images: &Path) -> String {
    format!(
        "version: 0.1\nlog: {{ level: warn }}\nhttp: {{ addr: '127.0.0.1:80' }}\nstorage: {{ \
         filesystem: {{ rootdirectory: '{}' }} }}\n",
        images.display()
    )
}
