//! The container's capabilities: with each removed in turn, what goes without it is what is
//! said, and nothing else.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use wad_testbed::stand::until;

use super::{Application, Node, SECOND_BYTES, SOON, kind};

const ADDED: &str = "/spec/template/spec/containers/0/securityContext/capabilities/add";
/// Without this one an agent does its work, but for what it does in network namespaces of pods.
const OPTIONAL: &str = "SYS_ADMIN";

/// Needs an agent that has all of them, whose pod this is. Returns the pod of the last.
pub fn are_needed(node: &Node<'_>, pod: String, application: &Application<'_>) -> Result<String> {
    let path = "{.spec.template.spec.containers[0].securityContext.capabilities.add[*]}";
    let output = format!("--output=jsonpath={path}");
    let get = ["get", "daemonset", "wad", "--namespace=wad", &output];
    let all = node.cluster.kubectl(&get)?;
    let all: Vec<&str> = all.split_whitespace().collect();
    ensure!(all.contains(&OPTIONAL) && all.len() > 1, "{all:?}");
    let mut pod = pod;
    let usually = lacking(node, &pod)?;
    for without in &all {
        let others: Vec<_> = all.iter().filter(|other| *other != without).collect();
        let patch = json!([{ "op": "replace", "path": ADDED, "value": others }]).to_string();
        let patch = format!("--patch={patch}");
        let patch = ["patch", "daemonset", "wad", "--namespace=wad", "--type=json", &patch];
        node.cluster.kubectl(&patch)?;
        if *without == OPTIONAL {
            pod = node.takes_the_place(&pod, application)?;
            let lacking = lacking(node, &pod)?;
            let more: Vec<_> = lacking.iter().filter(|what| !usually.contains(what)).collect();
            let is_named = more.len() == 1 && more[0].contains(&format!("CAP_{without}"));
            ensure!(is_named && lacking.len() == usually.len() + 1, "{lacking:?}");
        } else {
            refuses(node, &pod, without)?;
        }
        application.await_more(&kind("wad_aimd", SECOND_BYTES), 100)?;
        application.is_tuned()?;
        node.cluster.kubectl(&["rollout", "undo", "daemonset/wad", "--namespace=wad"])?;
        if *without == OPTIONAL {
            pod = node.takes_the_place(&pod, application)?;
            ensure!(lacking(node, &pod)? == usually);
        } else {
            let left = || node.pods();
            until("the one that had it is left", SOON, left, |pods| *pods == [pod.clone()])?;
        }
        println!("without {without}: what goes is what is said, and no connection is untuned");
    }
    Ok(pod)
}

/// Says what an agent goes without.
fn lacking(node: &Node<'_>, pod: &str) -> Result<Vec<String>> {
    let status = ["exec", "--namespace=wad", pod, "--", "wad", "status", "--json"];
    let status: Value = serde_json::from_str(&node.cluster.kubectl(&status)?)?;
    Ok(serde_json::from_value(status["lacking"].clone())?)
}

/// An agent beside this one does not start, and says what it lacks.
fn refuses(node: &Node<'_>, pod: &str, without: &str) -> Result<()> {
    let name = format!("CAP_{without}");
    let said = || -> Result<String> {
        let Some(next) = node.pods()?.into_iter().find(|other| other != pod) else {
            return Ok(String::new());
        };
        // There are no logs before it has begun.
        Ok(node.cluster.kubectl(&["logs", "--namespace=wad", &next]).unwrap_or_default())
    };
    let said = until("it says what it lacks", SOON, said, |said| said.contains(&name))?;
    ensure!(said.matches("CAP_").count() == 1, "{said}");
    let ready = ["exec", "--namespace=wad", pod, "--", "wad", "status", "--ready"];
    node.cluster.kubectl(&ready)?;
    Ok(())
}
