//! A pod of what others say of it, within bounds. Kubernetes holds names and labels to
//! lengths of its own; what is longer is none of them.

use std::collections::BTreeMap;

use wad_policy::pod::Pod;

/// Bytes of a namespace, and of a container's name: a DNS label.
const LABEL_BYTES: usize = 63;
/// Bytes of a pod's name: a DNS subdomain. A prefix of a label's key is one as well.
const SUBDOMAIN_BYTES: usize = 253;
/// Bytes of a label's key: prefix, slash and name.
const KEY_BYTES: usize = SUBDOMAIN_BYTES + 1 + LABEL_BYTES;
/// Labels, and containers, of a pod: those beyond are not known.
const MOST: usize = 256;
/// Digits of a static pod's uid: FNV-1a of 128 bits (`pkg/kubelet/config/common.go` of
/// Kubernetes 1.37). Another one is none, as whoever makes pods can give them annotations: so
/// none can pass for an ordinary pod, whose uid has dashes.
const STATIC_DIGITS: usize = 32;
/// Digits of a container's id, with containerd, CRI-O and Docker.
const ID_DIGITS: usize = 64;

/// Holds what is read of a pod, by whatever encoding.
#[derive(Default)]
pub struct Told {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// The API server's annotation `kubernetes.io/config.mirror`, if it is there: the pod
    /// stands for a static one, which the kubelet has of itself by this uid.
    pub mirrored: Option<String>,
    pub labels: BTreeMap<String, String>,
    /// Names and ids of containers, as `containerd://0123`.
    pub containers: Vec<(String, String)>,
}

impl Told {
    /// Returns the pod by its uid; None where it is no pod.
    pub fn pod(self) -> Option<(String, Pod)> {
        let uid = self.uid()?;
        if !is_name(&self.namespace, LABEL_BYTES) || !is_name(&self.name, SUBDOMAIN_BYTES) {
            return None;
        }
        let is_label = |(key, value): &(String, String)| {
            is_name(key, KEY_BYTES) && (value.is_empty() || is_name(value, LABEL_BYTES))
        };
        let labels = self.labels.into_iter().filter(is_label).take(MOST).collect();
        let containers = self.containers.into_iter().filter_map(|(name, id)| {
            let id = id.rsplit_once("://")?.1.to_ascii_lowercase();
            let fits = is_hexadecimal(&id, ID_DIGITS) && is_name(&name, LABEL_BYTES);
            fits.then_some((id, name))
        });
        let containers = containers.take(MOST).collect();
        Some((uid, Pod { namespace: self.namespace, name: self.name, labels, containers }))
    }

    /// Returns the uid that its cgroup has.
    pub fn uid(&self) -> Option<String> {
        let mirrored = self.mirrored.as_ref().filter(|uid| is_hexadecimal(uid, STATIC_DIGITS));
        let uid = mirrored.unwrap_or(&self.uid);
        is_name(uid, LABEL_BYTES).then(|| uid.to_ascii_lowercase())
    }
}

/// Whether it is of the characters that names, keys and values of labels are made of.
fn is_name(text: &str, most_bytes: usize) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'/');
    (1..=most_bytes).contains(&text.len()) && text.bytes().all(fits)
}

fn is_hexadecimal(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Asserts what holds of any pod, for libFuzzer.
#[cfg(feature = "fuzz")]
pub fn hold(uid: &str, pod: &Pod) {
    assert!(is_name(uid, LABEL_BYTES) && !uid.contains(char::is_uppercase));
    assert!(is_name(&pod.namespace, LABEL_BYTES) && is_name(&pod.name, SUBDOMAIN_BYTES));
    assert!(pod.labels.len() <= MOST && pod.containers.len() <= MOST);
    assert!(pod.labels.keys().all(|key| is_name(key, KEY_BYTES)));
    assert!(pod.containers.keys().all(|id| is_hexadecimal(id, ID_DIGITS)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told() -> Told {
        Told {
            namespace: "transfer".to_owned(),
            name: "dtn-0".to_owned(),
            uid: "0B1C2D3E-0000-4000-8000-000000000001".to_owned(),
            ..Told::default()
        }
    }

    #[test]
    fn a_pod_has_the_uid_of_its_cgroup() {
        let uid = |told: Told| told.pod().unwrap().0;
        assert_eq!(uid(told()), "0b1c2d3e-0000-4000-8000-000000000001");
        let mirrored = Some("8d6821cdab9b2b5a1ff4d2ba53e5f2a4".to_owned());
        assert_eq!(uid(Told { mirrored, ..told() }), "8d6821cdab9b2b5a1ff4d2ba53e5f2a4");
        // Nobody passes for another pod by it.
        let mirrored = Some("0b1c2d3e-0000-4000-8000-000000000002".to_owned());
        assert_eq!(uid(Told { mirrored, ..told() }), uid(told()));
    }

    #[test]
    fn containers_are_known_by_ids_without_their_runtime() {
        let id = "0123456789abcdef".repeat(4);
        let named = |name: &str, id: &str| (name.to_owned(), id.to_owned());
        let containers = vec![
            named("a", &format!("containerd://{id}")),
            named("b", &format!("cri-o://{}", id.replace('0', "F"))),
            // Not there yet, no id, and none that can be.
            named("c", ""),
            named("d", &id),
            named("e", &format!("containerd://{id}0")),
            named("f", &format!("containerd://{}", id.replace('0', "x"))),
        ];
        let (_, pod) = Told { containers, ..told() }.pod().unwrap();
        let expected = [(id.clone(), "a".to_owned()), (id.replace('0', "f"), "b".to_owned())];
        assert_eq!(pod.containers, expected.into());
    }

    #[test]
    fn what_is_none_or_too_much_is_left_out() {
        let long = "a".repeat(1000);
        for told in [
            Told { name: String::new(), ..told() },
            Told { name: long.clone(), ..told() },
            Told { namespace: "a\nb".to_owned(), ..told() },
            Told { uid: String::new(), ..told() },
            Told { uid: "../..\u{e9}".to_owned(), ..told() },
        ] {
            assert_eq!(told.pod(), None);
        }
        let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let labels = [
            label("app.kubernetes.io/name", "dtn"),
            label("empty", ""),
            label("", "x"),
            label("long", &long),
            label(&long, "x"),
            label("odd", "a b"),
        ];
        let (_, pod) = Told { labels: labels.into(), ..told() }.pod().unwrap();
        assert_eq!(pod.labels, [label("app.kubernetes.io/name", "dtn"), label("empty", "")].into());
        let many = (0..1000).map(|n| label(&n.to_string(), "x")).collect();
        assert_eq!(Told { labels: many, ..told() }.pod().unwrap().1.labels.len(), MOST);
    }
}
