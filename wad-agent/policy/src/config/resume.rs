//! A new flow of a path may know its capacity: Careful Resume, RFC 9959.

use ipnet::IpNet;
use wad_common::{
    control::{KEEP_WHEN_IDLE, RESUME_WHEN_IDLE},
    policy::RESUMES_KNOWN,
};

use super::{
    PathPolicy,
    consent::is_bounded,
    fault::{Fault, Problems},
    field::{Checked, Field, Kind},
    resume_from::Resume,
    setting::{Setting, Value},
    table::{Located, Table},
};

/// The next flow has a use for what one has found out for so long.
const LIFETIME_S: u32 = 3_600;

const SETTING: Setting = Setting::new("resume", |in_force| {
    let policy = in_force.policy;
    let knows = policy.flags & RESUMES_KNOWN != 0;
    let word = if knows { "known" } else { "saved" };
    (policy.resume_lifetime_s != 0).then(|| Value::Text(word.to_owned()))
});

pub const FIELD: Field = Field {
    key: "resume",
    kind: Kind::Word { words: &["off", "saved", "known"], unless: "is nothing to begin with" },
    default: "\"off\"",
    doc: "Where a new flow begins, once its first window has come back whole: at half of what the \
          flow before it found the path to carry, within the last hour (RFC 9959); \"known\" is \
          half of `bandwidth` times `rtt`, or of what is measured, where no flow has found out \
          yet. So does a flow after a pause, unless `idle` is \"keep\".",
    read: |field, table, problems, path| {
        path.resume = match field.word(table, problems).map(|word| word.value) {
            Some("saved") => Resume::Saved,
            Some("known") => Resume::Known,
            _ => Resume::Off,
        };
    },
    put: |path, policy| {
        if path.resume == Resume::Off {
            return;
        }
        policy.resume_lifetime_s = LIFETIME_S;
        if policy.control.flags & KEEP_WHEN_IDLE == 0 {
            policy.control.flags |= RESUME_WHEN_IDLE;
        }
        let rtt_us = path.origin.capacity.rtt_seconds.unwrap_or(0.0) * 1e6;
        if path.resume == Resume::Known {
            policy.flags |= RESUMES_KNOWN;
            policy.path_rtt_us = rtt_us as u32;
        }
    },
    check: Some(Checked::words(|path| match path.resume {
        Resume::Off => None,
        Resume::Saved => Some("resume saved".to_owned()),
        Resume::Known => Some("resume known".to_owned()),
    })),
    explain: Some(SETTING),
    why: |in_force| {
        let why = "after a pause a flow begins as a new one does, by what is known of its path";
        (in_force.policy.control.flags & RESUME_WHEN_IDLE != 0).then_some(why)
    },
    ..Field::NONE
};

/// Names the networks that share no path: what one flow found out is nothing to the next there.
pub fn check(
    table: &Table<'_>,
    policy: &PathPolicy,
    remote: &[Located<IpNet>],
    problems: &mut Problems,
) {
    let Some(at) = table.place("resume").filter(|_| policy.resume != Resume::Off) else { return };
    if remote.iter().any(|net| !is_bounded(net.value)) {
        let fault = Fault::new(
            "`resume` on a network that is too wide",
            "what one flow finds out there is nothing to another",
        );
        let help = "name the networks that share a path: /8 or longer, for IPv6 /16 or longer";
        problems.push(fault.help(help).at(at));
    }
}
