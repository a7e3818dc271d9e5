//! Says where pods are learned from.

use std::path::PathBuf;

use wad_toolbox::url::Url;

/// The settings of `[kubernetes]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubernetesSettings {
    /// The socket of the kubelet's API of pods.
    pub kubelet_socket: PathBuf,
    /// The API server; None for the one that Kubernetes tells its pods of.
    pub api_server: Option<Url>,
}

impl Default for KubernetesSettings {
    fn default() -> Self {
        let kubelet_socket = "/var/lib/kubelet/pods-api/pods-api.sock".into();
        Self { kubelet_socket, api_server: None }
    }
}
