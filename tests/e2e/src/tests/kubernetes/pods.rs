//! A path for pods by their namespace and label: a pod that has the label, and one that gets it
//! and loses it while its connections run. What they got is read beside the agent: of those that
//! run by `ss` in the pod's network namespace, of new ones by what the application saw.

use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use wad_testbed::{
    kubernetes::ADDRESS,
    process::{Process, run_command},
    stand::until,
};

use super::{FIRST_BYTES, Node, SOON};
use crate::{
    PEER,
    application::{Seen, kind},
};

pub const PORT: u16 = 7001;
const NAMESPACE: &str = "transfer";
const LAW: &str = "wad_aimd";

/// Returns the lines of a path for the pods of the namespace that have the label.
pub fn path() -> String {
    format!(
        "  [[path]]\n  name = 'dtn'\n  remote = '{ADDRESS}'\n  remote_port = {PORT}\n  \
         pods = {{ namespace = '{NAMESPACE}', labels = {{ app = 'dtn' }} }}\n  \
         sndbuf = {FIRST_BYTES}\n  congestion = '{LAW}'\n"
    )
}

/// Two pods with connections to the node; one has the label from the start.
pub struct Pods<'a> {
    node: &'a Node<'a>,
    _echo: Process,
    labelled: Pod<'a>,
    plain: Pod<'a>,
}

impl<'a> Pods<'a> {
    /// Starts them, and sees that the one is tuned and the other is not, and that an agent has
    /// their names.
    pub fn start(node: &'a Node<'a>, agent: &str) -> Result<Self> {
        let echo = node.echo(PORT)?;
        node.cluster.kubectl(&["create", "namespace", NAMESPACE])?;
        let namespace = format!("--namespace={NAMESPACE}");
        node.cluster.kubectl(&["wait", &namespace, "--for=create", "serviceaccount/default"])?;
        let labelled = Pod::start(node, "labelled", "{ app: dtn }")?;
        let plain = Pod::start(node, "plain", "{ app: web }")?;
        labelled.await_law("a pod with the label is tuned", true)?;
        plain.await_connections()?;
        let seen = plain.seen()?;
        ensure!(!seen.connections.keys().any(|kind| kind.starts_with(LAW)), "{seen:?}");
        ensure!(!plain.is_under_law()?, "a connection of a pod without the label is tuned");
        println!("a pod is tuned by its label, and one without it is not");
        labelled.is_named(agent)?;
        println!("connections have the names of namespace, pod and container");
        Ok(Self { node, _echo: echo, labelled, plain })
    }

    /// One of them gets the label and loses it again: both are in force within this time, which
    /// depends on who tells an agent of pods. The agent enters network namespaces.
    pub fn are_followed(&self, agent: &str, teller: &str, within: Duration) -> Result<()> {
        let Self { node, labelled, plain, .. } = self;
        let exec = ["exec", "--namespace=wad", agent, "--", "wad", "status", "--json"];
        let tells = || -> Result<bool> {
            let status: Value = serde_json::from_str(&node.cluster.kubectl(&exec)?)?;
            Ok(status["pods"]["origin"] == teller)
        };
        until("it is known who tells", SOON, tells, |tells| *tells)?;
        let adopted = node.metric("wad_pods_flows_adopted_total")?;
        for (label, is_set) in [("app=dtn", true), ("app-", false)] {
            plain.label(label)?;
            let (new, running) = plain.in_force(is_set)?;
            println!(
                "a label that is {} is in force after {} ms for new connections and {} ms for one \
                 that runs, as told by {teller}",
                if is_set { "set" } else { "taken away" },
                new.as_millis(),
                running.as_millis()
            );
            ensure!(new < within && running < within, "later than {within:?}");
        }
        let counted = || node.metric("wad_pods_flows_adopted_total");
        until("connections that ran are counted", SOON, counted, |now| *now > adopted)?;
        let of_namespace =
            || node.metric(&format!("wad_pods_flows{{pod_namespace=\"{NAMESPACE}\"}}"));
        until("connections are counted by namespace", SOON, of_namespace, |now| *now >= 1.0)?;
        ensure!(labelled.is_under_law()?, "the other pod is not tuned any more");
        labelled.is_well()?;
        plain.is_well()
    }

    pub fn end(self) -> Result<()> {
        self.node.cluster.kubectl(&["delete", "namespace", NAMESPACE])?;
        Ok(())
    }
}

/// A pod with connections to the node.
struct Pod<'a> {
    node: &'a Node<'a>,
    name: &'static str,
    uid: String,
}

impl<'a> Pod<'a> {
    fn start(node: &'a Node<'a>, name: &'static str, labels: &str) -> Result<Self> {
        let manifest = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{ name: {name}, namespace: {NAMESPACE}, labels: \
             {labels} }}\nspec:\n  restartPolicy: Never\n  terminationGracePeriodSeconds: 0\n  \
             containers:\n  - {{ name: application, image: 'localhost/application:1', \
             imagePullPolicy: Never, command: [/usr/bin/{PEER}, application, '{ADDRESS}:{PORT}'] \
             }}\n"
        );
        let file = node.folder.join(format!("{name}.yaml"));
        fs::write(&file, manifest)?;
        node.cluster.kubectl(&["apply", "--filename", &file.display().to_string()])?;
        let (namespace, pod) = (format!("--namespace={NAMESPACE}"), format!("pod/{name}"));
        node.cluster.kubectl(&["wait", &namespace, "--for=condition=Ready", &pod])?;
        let uid = "--output=jsonpath={.metadata.uid}";
        let uid = node.cluster.kubectl(&["get", &pod, &namespace, uid])?;
        Ok(Self { node, name, uid })
    }

    /// Sets a label, or takes it away.
    fn label(&self, label: &str) -> Result<()> {
        let namespace = format!("--namespace={NAMESPACE}");
        let arguments = ["label", "pod", self.name, &namespace, "--overwrite", label];
        self.node.cluster.kubectl(&arguments)?;
        Ok(())
    }

    /// Reads what the application told last, from the file that the container's log is.
    fn seen(&self) -> Result<Seen> {
        let pod = format!("{NAMESPACE}_{}_{}", self.name, self.uid);
        let log: PathBuf = ["logs-of-pods", &pod, "application", "0.log"].iter().collect();
        let text = fs::read_to_string(self.node.folder.join(log)).unwrap_or_default();
        // A line that is being written is not whole yet.
        let told = text.lines().rev().find_map(|line| {
            let (_, told) = line.split_once(" stdout F ")?;
            serde_json::from_str(told).ok()
        });
        Ok(told.unwrap_or_default())
    }

    /// Whether the connection that goes on is under the law, by `ss` beside its process.
    fn is_under_law(&self) -> Result<bool> {
        let port = self.seen()?.transfer_port;
        let script = format!(
            "pid=$(cat /sys/fs/cgroup/unified/kubepods/*/pod{}/*/cgroup.procs | head -n 1)\n\
             nsenter --net=/proc/$pid/ns/net ss --no-header --tcp --info sport = :{port}",
            self.uid
        );
        let shown = run_command(self.node.cluster.command("sh").args(["-euc", &script]))?;
        ensure!(shown.contains("cwnd:"), "no connection with port {port}: {shown}");
        Ok(shown.split_whitespace().any(|word| word == LAW))
    }

    fn await_law(&self, what: &'static str, is_under: bool) -> Result<()> {
        self.await_connections()?;
        until(what, SOON, || self.is_under_law(), |now| *now == is_under)?;
        let tuned = kind(LAW, FIRST_BYTES);
        let has_tuned = |seen: &Seen| seen.connections.contains_key(&tuned);
        until(what, SOON, || self.seen(), |seen| has_tuned(seen) == is_under)?;
        Ok(())
    }

    fn await_connections(&self) -> Result<()> {
        let count = |seen: &Seen| seen.connections.values().sum::<u64>();
        until("there are connections", SOON, || self.seen(), |seen| count(seen) >= 100)?;
        Ok(())
    }

    /// Returns how long it takes from now on until new connections, and the one that runs, are
    /// under the law, or are not any more.
    fn in_force(&self, is_under: bool) -> Result<(Duration, Duration)> {
        let begun = Instant::now();
        let (mut new, mut running) = (None, None);
        let mut before = self.seen()?;
        while begun.elapsed() < SOON {
            if running.is_none() && self.is_under_law()? == is_under {
                running = Some(begun.elapsed());
            }
            let now = self.seen()?;
            let grown = |under: bool| {
                now.connections.iter().any(|(kind, count)| {
                    kind.starts_with(LAW) == under
                        && before.connections.get(kind).is_none_or(|before| before < count)
                })
            };
            // All that have come since the line before are so.
            if new.is_none() && grown(is_under) && !grown(!is_under) {
                new = Some(begun.elapsed());
            }
            before = now;
            if let (Some(new), Some(running)) = (new, running) {
                return Ok((new, running));
            }
        }
        bail!("{}: new ones after {new:?}, the running one after {running:?}", self.name)
    }

    /// The agent names its connections, by its names or not.
    fn is_named(&self, agent: &str) -> Result<()> {
        let exec = ["exec", "--namespace=wad", agent, "--", "wad", "flows"];
        let pod = format!("--pod={NAMESPACE}/{}", self.name);
        let told = self.node.cluster.kubectl(&[&exec[..], &["--json", &pod]].concat())?;
        let reading: Value = serde_json::from_str(&told)?;
        let flows = reading["flows"].as_array().context("a list of flows")?;
        ensure!(!flows.is_empty(), "no connection of {pod}: {told}");
        for flow in flows {
            let owner = &flow["owner"];
            ensure!(
                owner["namespace"] == NAMESPACE
                    && owner["pod_name"] == self.name
                    && owner["container_name"] == "application"
                    && owner["pod"] == *self.uid
                    && flow["path"] == "dtn",
                "{flow}"
            );
        }
        let namespace = format!("--namespace={NAMESPACE}");
        let table = self.node.cluster.kubectl(&[&exec[..], &[&namespace]].concat())?;
        let name = format!("{NAMESPACE}/{}/application", self.name);
        ensure!(table.contains(&name), "{name} is not in:\n{table}");
        let status = ["exec", "--namespace=wad", agent, "--", "wad", "status", "--json"];
        let status: Value = serde_json::from_str(&self.node.cluster.kubectl(&status)?)?;
        ensure!(status["pods"]["origin"].is_string(), "{}", status["pods"]);
        Ok(())
    }

    /// Its transfer goes on, and each byte came back as it was sent.
    fn is_well(&self) -> Result<()> {
        let before = self.seen()?.blocks;
        until("the transfer goes on", SOON, || self.seen(), |seen| seen.blocks > before)?;
        Ok(())
    }
}
