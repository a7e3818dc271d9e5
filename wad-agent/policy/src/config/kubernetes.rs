//! Reads `[kubernetes]`: where the pods of this node are learned from. All of it is known by
//! itself in a pod of the chart, and on a node whose kubelet has its files in the usual place.

use std::path::PathBuf;

use wad_toolbox::url::Url;

use super::{
    fault::{Fault, Problems, quoted},
    keys::{
        Key,
        LeftOut::{Means, Value},
        Takes::Text,
        key,
    },
    table::{self, Table},
};

pub const TABLE: &str = "kubernetes";

pub const KEYS: &[Key] = &[
    key("kubelet_socket").takes(
        Text("an absolute path"),
        Value("\"/var/lib/kubelet/pods-api/pods-api.sock\""),
        "the socket by which the kubelet tells of pods, from Kubernetes 1.37 on; labels that \
         change alone are seen within 15 s",
    ),
    key("api_server").takes(
        Text("`https://`"),
        Means("the one that Kubernetes tells its pods of"),
        "the API server, which goes before the kubelet: it tells of changed labels at once",
    ),
    key("node").takes(
        Text("a name"),
        Means("the variable `NODE_NAME`"),
        "the name of this node, whose pods the API server is asked for",
    ),
    key("token_file").takes(
        Text("an absolute path"),
        Value("\"/var/run/secrets/kubernetes.io/serviceaccount/token\""),
        "a bearer token for the API server, read for each request",
    ),
    key("ca_file").takes(
        Text("an absolute path"),
        Value("\"/var/run/secrets/kubernetes.io/serviceaccount/ca.crt\""),
        "PEM certificates, by which the API server is trusted",
    ),
];

/// Says where the pods of this node are learned from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubernetesSettings {
    pub kubelet_socket: PathBuf,
    /// The API server; None for the one that Kubernetes tells its pods of.
    pub api_server: Option<Url>,
    /// The name of this node; None for what the environment says.
    pub node: Option<String>,
    pub token_file: PathBuf,
    pub ca_file: PathBuf,
}

impl Default for KubernetesSettings {
    fn default() -> Self {
        Self {
            kubelet_socket: PathBuf::from("/var/lib/kubelet/pods-api/pods-api.sock"),
            api_server: None,
            node: None,
            token_file: PathBuf::from("/var/run/secrets/kubernetes.io/serviceaccount/token"),
            ca_file: PathBuf::from("/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"),
        }
    }
}

pub fn read(table: &Table<'_>, problems: &mut Problems) -> KubernetesSettings {
    let usual = KubernetesSettings::default();
    let api_server = table.read("api_server", problems, |value| server(table::text(value)?));
    let node = table.read("node", problems, |value| node(table::text(value)?));
    let mut file = |key, usual| table.read_file(key, problems).unwrap_or(usual);
    KubernetesSettings {
        kubelet_socket: file("kubelet_socket", usual.kubelet_socket),
        api_server: api_server.map(|url| url.value),
        node: node.map(|node| node.value),
        token_file: file("token_file", usual.token_file),
        ca_file: file("ca_file", usual.ca_file),
    }
}

fn server(text: &str) -> Result<Url, Fault> {
    let url = Url::parse(text)?;
    if !url.is_https {
        return Err(Fault::new("the token would be sent in the clear", "must begin with https://")
            .help("API servers speak TLS alone: write it as \"https://10.0.0.1:6443\""));
    }
    if url.path.contains('?') {
        let fault = Fault::new("a query in the URL of an API server", "not behind this path");
        return Err(fault.help("leave it out"));
    }
    Ok(url)
}

/// Reads the name of a node: a DNS subdomain, by Kubernetes' rules.
fn node(name: &str) -> Result<String, Fault> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
    if (1..=253).contains(&name.len()) && name.chars().all(fits) {
        return Ok(name.to_owned());
    }
    let title = format!("{} is no name of a node", quoted(name));
    Err(Fault::new(title, "1 to 253 small letters, digits, - and . only")
        .help("`kubectl get nodes` has their names"))
}
