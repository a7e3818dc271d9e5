//! Refusals are what the kernel refused of flows, in words: which setting, by the name
//! that its key has in a configuration, and why.

use std::fmt::{self, Display};

use nix::errno::Errno;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wad_common::refused::{CUT, Refusal, Refused, SocketSetting};

/// A setting that a flow was refused.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct RefusedSetting {
    /// The setting's name as in a configuration.
    pub setting: String,
    /// The error as in errno(3). None where the kernel gave less without an error: a
    /// buffer that it cut to net.core.wmem_max or net.core.rmem_max.
    pub errno: Option<String>,
}

/// Flows of a path that were refused a setting for one reason.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct RefusedFlows {
    #[serde(flatten)]
    pub refused: RefusedSetting,
    pub flows: u64,
}

impl RefusedSetting {
    /// `reason` is not 0.
    fn new(setting: u16, reason: u16) -> Self {
        let known = SocketSetting::ALL.into_iter().find(|known| *known as u16 == setting);
        Self {
            setting: known.map_or("unknown", SocketSetting::key).to_owned(),
            errno: errno(reason),
        }
    }

    /// Returns what is behind it in words, where that is known.
    pub fn why(&self) -> Option<&'static str> {
        match (self.setting.as_str(), self.errno.as_deref()) {
            ("dscp", Some("EAFNOSUPPORT")) => {
                Some("they are IPv4 on IPv6 sockets, which BPF programs may not mark")
            }
            ("pacing", Some("ERANGE")) => {
                Some("their applications' own rates could not be given back, being above 34.3Gbit")
            }
            _ => None,
        }
    }
}

impl RefusedFlows {
    pub fn new(refusal: Refusal, flows: u64) -> Self {
        Self { refused: RefusedSetting::new(refusal.setting, refusal.reason), flows }
    }
}

/// Returns what a flow was refused, in the order of the settings.
pub fn of(refused: &Refused) -> Vec<RefusedSetting> {
    let reasons = (0..).zip(refused.reasons).filter(|(_, reason)| *reason != 0);
    reasons.map(|(setting, reason)| RefusedSetting::new(setting, reason)).collect()
}

/// Returns the same in one text; None where nothing was refused.
pub fn text(refused: &[RefusedSetting]) -> Option<String> {
    let texts: Vec<_> = refused.iter().map(ToString::to_string).collect();
    (!texts.is_empty()).then(|| texts.join(", "))
}

fn errno(reason: u16) -> Option<String> {
    /// The number is one of the kernel's own (include/linux/errno.h).
    const ENOTSUPP: u16 = 524;
    match reason {
        CUT => None,
        ENOTSUPP => Some("ENOTSUPP".to_owned()),
        number => Some(match Errno::from_raw(number.into()) {
            Errno::UnknownErrno => number.to_string(),
            known => format!("{known:?}"),
        }),
    }
}

impl Display for RefusedSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { setting, errno } = self;
        match errno {
            Some(errno) => write!(f, "{setting} ({errno})"),
            None => write!(f, "{setting} (cut)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_refused_setting_is_named_with_its_errno() {
        let mut refused = Refused::default();
        assert_eq!((of(&refused), text(&of(&refused))), (vec![], None));
        refused.note(SocketSetting::Congestion, Err(-libc::ENOENT));
        refused.note(SocketSetting::Dscp, Err(-libc::EAFNOSUPPORT));
        refused.note_cut(SocketSetting::Sndbuf);
        let named = of(&refused);
        let expected = json!([
            { "setting": "dscp", "errno": "EAFNOSUPPORT" },
            { "setting": "sndbuf", "errno": null },
            { "setting": "congestion", "errno": "ENOENT" },
        ]);
        assert_eq!(serde_json::to_value(&named).unwrap(), expected);
        assert_eq!(text(&named).unwrap(), "dscp (EAFNOSUPPORT), sndbuf (cut), congestion (ENOENT)");
    }

    #[test]
    fn of_some_it_is_known_what_is_behind_them() {
        let why = |setting: SocketSetting, errno: i32| {
            RefusedSetting::new(setting as u16, errno as u16).why()
        };
        assert!(why(SocketSetting::Dscp, libc::EAFNOSUPPORT).unwrap().contains("IPv6 sockets"));
        assert!(why(SocketSetting::Pacing, libc::ERANGE).unwrap().contains("34.3Gbit"));
        assert_eq!(why(SocketSetting::Dscp, libc::EINVAL), None);
        assert_eq!(why(SocketSetting::Sndbuf, libc::EAFNOSUPPORT), None);
    }

    #[test]
    fn what_has_no_name_is_a_number() {
        let said = |setting, reason| RefusedSetting::new(setting, reason).to_string();
        assert_eq!(said(1, 524), "sndbuf (ENOTSUPP)");
        assert_eq!(said(1, 4000), "sndbuf (4000)");
        assert_eq!(said(99, 1), "unknown (EPERM)");
    }

    #[test]
    fn flows_are_counted_beside_it() {
        let flows = RefusedFlows::new(Refusal { policy: 3, setting: 6, reason: 2 }, 5);
        let json = serde_json::to_value(&flows).unwrap();
        assert_eq!(json, json!({ "setting": "congestion", "errno": "ENOENT", "flows": 5 }));
        assert_eq!(serde_json::from_value::<RefusedFlows>(json).unwrap(), flows);
    }
}
