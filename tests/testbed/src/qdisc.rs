//! The queueing discipline of a device, seen and set by `tc`.

use serde::Deserialize;

use crate::{
    netns::Netns,
    process::{ProcessError, run},
};

/// A discipline at the root of a device.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Qdisc {
    pub kind: String,
    /// Packets that it refused since it is there; one may be of many segments.
    #[serde(default)]
    pub drops: u64,
}

/// Gives the device the queueing discipline that is a distribution's default,
/// if this kernel has it.
pub fn set_fq_codel(netns: &Netns, device: &str) {
    // Whether it worked is seen, and said, where the discipline is read.
    let _ = run("tc", &["-n", netns.name(), "qdisc", "replace", "dev", device, "root", "fq_codel"]);
}

/// Returns the device's discipline, and what it has refused.
///
/// # Errors
/// When `tc` cannot tell.
pub fn of(netns: &Netns, device: &str) -> Result<Qdisc, ProcessError> {
    let command = ["-j", "-s", "-n", netns.name(), "qdisc", "show", "dev", device, "root"];
    let none = || Qdisc { kind: "none".to_owned(), drops: 0 };
    Ok(parse(&run("tc", &command)?).unwrap_or_else(none))
}

/// Returns the discipline as settings show it.
///
/// # Errors
/// When `tc` cannot tell.
pub fn shown(netns: &Netns, device: &str) -> Result<String, ProcessError> {
    let plain = run("tc", &["-n", netns.name(), "qdisc", "show", "dev", device, "root"])?;
    let words = plain.split_whitespace().skip(1);
    let words: Vec<&str> = words.filter(|word| !word.ends_with(':')).collect();
    Ok(match words.first() {
        Some(&kind) if !matches!(kind, "noqueue" | "pfifo_fast") => words.join(" "),
        kind => format!("{} (this kernel has no fq_codel)", kind.unwrap_or(&"none")),
    })
}

fn parse(json: &str) -> Option<Qdisc> {
    let all: Vec<Qdisc> = serde_json::from_str(json).ok()?;
    all.into_iter().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_tc_counts() {
        let json = r#"[{"kind":"tbf","handle":"8001:","root":true,"options":{},
            "bytes":5,"packets":1,"drops":17,"overlimits":9,"requeues":0}]"#;
        assert_eq!(parse(json), Some(Qdisc { kind: "tbf".to_owned(), drops: 17 }));
        assert_eq!(parse("[]"), None);
    }
}
