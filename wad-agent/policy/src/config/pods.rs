//! Reads the pods that a path is for: of a namespace, with labels, or both.

use std::{collections::BTreeMap, fmt};

use toml::de::DeValue;

use super::{
    fault::{Fault, Problems, quoted},
    keys::{Key, key},
    table::{self, Table},
};
use crate::pod::Pod;

pub const PODS: &str = "pods";
const NAMESPACE: &str = "namespace";
const LABELS: &str = "labels";
const KEYS: &[Key] = &[key(NAMESPACE), key(LABELS)];

/// Kubernetes' bound on names of namespaces and of labels, and on labels' values.
const NAME_BYTES: usize = 63;
/// Kubernetes' bound on what stands before the slash of a label's name.
const DOMAIN_BYTES: usize = 253;

/// The pods that have all that is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodSelector {
    /// None for any namespace.
    pub namespace: Option<String>,
    /// The values that labels have, by their names.
    pub labels: BTreeMap<String, String>,
}

impl PodSelector {
    /// Whether a pod is meant.
    #[must_use]
    pub fn has(&self, pod: &Pod) -> bool {
        self.namespace.as_ref().is_none_or(|namespace| *namespace == pod.namespace)
            && self.labels.iter().all(|(name, value)| pod.labels.get(name) == Some(value))
    }
}

impl fmt::Display for PodSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PODS)?;
        self.namespace.iter().try_for_each(|namespace| write!(f, " of {namespace}"))?;
        let labels: Vec<_> =
            self.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        if labels.is_empty() { Ok(()) } else { write!(f, " with {}", labels.join(",")) }
    }
}

/// Returns which pods; None for any, or where something is wrong.
pub fn read(table: &Table<'_>, problems: &mut Problems) -> Option<PodSelector> {
    let before = problems.count();
    let pods = table.table(PODS, KEYS, problems)?;
    let namespace = pods.read(NAMESPACE, problems, namespace).map(|it| it.value);
    let labels: BTreeMap<_, _> = pods.read_map(LABELS, problems, label).into_iter().collect();
    if namespace.is_none() && labels.is_empty() && problems.count() == before {
        let fault = Fault::new("`pods` chooses none", "neither a namespace nor a label");
        let help = "write pods = { namespace = \"transfer\", labels = { app = \"dtn\" } }, or \
                    leave one of the two out; for all pods, cgroup = \"kubepods*\" has those within";
        problems.push(fault.help(help).at(pods.at));
    }
    (problems.count() == before).then_some(PodSelector { namespace, labels })
}

fn namespace(value: &DeValue<'_>) -> Result<String, Fault> {
    let name = table::text(value)?;
    if is_domain_label(name) {
        return Ok(name.to_owned());
    }
    let fault =
        Fault::new(format!("{} is no namespace", quoted(name)), "no name that one can have");
    Err(fault.help(format!(
        "write its whole name as `kubectl get namespaces` shows it: 1 to {NAME_BYTES} small letters, \
         digits and -, without *"
    )))
}

fn label(name: &str, value: &DeValue<'_>) -> Result<(String, String), Fault> {
    if let DeValue::Table(_) = value {
        let fault = table::wrong_type(value, "a string");
        return Err(fault.help(
            "put a name with dots or a slash into quotes: \"app.kubernetes.io/name\" = \"dtn\"",
        ));
    }
    let text = table::text(value)?;
    let (domain, own) = match name.split_once('/') {
        Some((domain, own)) => (Some(domain), own),
        None => (None, name),
    };
    if !is_label_text(own) || domain.is_some_and(|domain| !is_domain(domain)) {
        let fault = Fault::new("no name of a label", "for this value");
        return Err(
            fault.help("write it as `kubectl get pods --show-labels` shows it before the =")
        );
    }
    if !text.is_empty() && !is_label_text(text) {
        let title = format!("{} is no value of a label", quoted(text));
        let fault = Fault::new(title, "none that one can have");
        return Err(fault.help(format!(
            "a value is compared as it is: at most {NAME_BYTES} letters, digits, -, _ and ., \
             without *"
        )));
    }
    Ok((name.to_owned(), text.to_owned()))
}

/// Whether it may be a label's own name, or its value (apimachinery's `IsQualifiedName()` and
/// `IsValidLabelValue()`).
fn is_label_text(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let has_ends =
        |first: &u8, last: &u8| first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric();
    let bytes = text.as_bytes();
    text.len() <= NAME_BYTES
        && bytes.first().zip(bytes.last()).is_some_and(|(first, last)| has_ends(first, last))
        && bytes.iter().all(|byte| is_inner(*byte))
}

/// Whether it may be the name of a namespace (`IsDNS1123Label()`).
fn is_domain_label(text: &str) -> bool {
    is_label_text(text)
        && !text.bytes().any(|byte| byte.is_ascii_uppercase() || b"_.".contains(&byte))
}

/// Whether it may stand before the slash of a label's name (`IsDNS1123Subdomain()`).
fn is_domain(text: &str) -> bool {
    text.len() <= DOMAIN_BYTES && text.split('.').all(is_domain_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn pod(namespace: &str, labels: &[(&str, &str)]) -> Pod {
        let (namespace, name) = (namespace.to_owned(), "dtn-0".to_owned());
        Pod { namespace, name, labels: texts(labels), containers: BTreeMap::new() }
    }

    fn selector(namespace: Option<&str>, labels: &[(&str, &str)]) -> PodSelector {
        PodSelector { namespace: namespace.map(str::to_owned), labels: texts(labels) }
    }

    #[test]
    fn a_pod_has_to_have_all_that_is_asked_for() {
        let dtn = pod("transfer", &[("app", "dtn"), ("tier", "")]);
        for (namespace, labels, has) in [
            (Some("transfer"), &[][..], true),
            (Some("transfer"), &[("app", "dtn")], true),
            (None, &[("app", "dtn"), ("tier", "")], true),
            (None, &[("app", "dtn"), ("zone", "")], false),
            (Some("transfer"), &[("app", "dtn2")], false),
            (Some("transfe"), &[("app", "dtn")], false),
            (Some("Transfer"), &[], false),
        ] {
            assert_eq!(selector(namespace, labels).has(&dtn), has, "{namespace:?} {labels:?}");
        }
        assert!(!selector(None, &[("app", "dtn")]).has(&pod("transfer", &[])));
    }

    #[test]
    fn it_is_shown_in_a_line() {
        for (namespace, labels, shown) in [
            (Some("transfer"), &[][..], "pods of transfer"),
            (None, &[("b", ""), ("a.b/c", "x")], "pods with a.b/c=x,b="),
            (Some("transfer"), &[("app", "dtn")], "pods of transfer with app=dtn"),
        ] {
            assert_eq!(selector(namespace, labels).to_string(), shown);
        }
    }

    #[test]
    fn names_are_those_that_kubernetes_takes() {
        let long = "a".repeat(NAME_BYTES);
        for (text, is_label, is_namespace) in [
            ("transfer", true, true),
            (long.as_str(), true, true),
            (&format!("{long}a"), false, false),
            ("a", true, true),
            ("", false, false),
            ("a.b_c-D", true, false),
            ("-a", false, false),
            ("a-", false, false),
            ("A", true, false),
            ("a*", false, false),
            ("\u{e4}", false, false),
        ] {
            assert_eq!(is_label_text(text), is_label, "{text}");
            assert_eq!(is_domain_label(text), is_namespace, "{text}");
        }
        assert!(is_domain("app.kubernetes.io") && !is_domain("app..io") && !is_domain(""));
        assert!(
            is_domain(&[long.as_str(); 3].join(".")) && !is_domain(&[long.as_str(); 4].join("."))
        );
    }
}
