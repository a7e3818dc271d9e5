//! Pods of Kubernetes, as far as flows are told apart by them.

use std::collections::BTreeMap;

/// A pod of this node, as Kubernetes has it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Pod {
    pub namespace: String,
    pub name: String,
    pub labels: BTreeMap<String, String>,
    /// The names of its containers by their ids, 64 hexadecimal digits, without `containerd://`.
    pub containers: BTreeMap<String, String>,
}

/// The pods of a node by their uids, in lower case with dashes.
pub type Pods = BTreeMap<String, Pod>;
