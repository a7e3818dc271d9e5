//! Reads whose sockets a path is for.

use toml::de::DeValue;
use wad_common::policy::ANY_USER;

use super::{
    Host, PathPolicy,
    fault::{Fault, Problems, quoted},
    pods::PODS,
    table::{self, Table},
};

const KEY: &str = "user";

/// The numbers that a user can have, in words.
pub const RANGE: &str = "0 to 4294967294";

/// Returns the number of the user; None for any, or where something is wrong.
pub fn read(table: &Table<'_>, host: &Host, problems: &mut Problems) -> Option<u32> {
    let user = table.read(KEY, problems, |value| match value {
        // In range, hence whole.
        DeValue::Integer(_) => {
            let most = u64::from(ANY_USER - 1);
            table::integer(value, 0..=most, "").map(|user| user as u32)
        }
        DeValue::String(name) => host.users.get(&**name).copied().ok_or_else(|| no_such(name)),
        _ => Err(table::wrong_type(value, "the name of a user, or its number")),
    });
    user.map(|user| user.value)
}

fn no_such(name: &str) -> Fault {
    let title = format!("no user {} on this host", quoted(name));
    let is_number = !name.is_empty() && name.bytes().all(|b| b.is_ascii_digit());
    Fault::new(title, "not in /etc/passwd").help(if is_number {
        "write a number without quotes"
    } else {
        "of a user from elsewhere, such as LDAP, give the number: `id -u NAME` says it"
    })
}

/// Rules of routes choose addresses and ports.
pub fn check(table: &Table<'_>, path: &PathPolicy, problems: &mut Problems) {
    let keys = [KEY, "cgroup", "unit", PODS, "mark", "interface"];
    let Some((by, owner)) = keys.iter().find_map(|by| Some((by, table.place(by)?))) else { return };
    for (key, is_asked) in
        [("reorder", true), ("delayed_ack", path.no_delayed_acks), ("ecn", path.origin.ecn)]
    {
        let Some(at) = table.place(key).filter(|_| is_asked) else { continue };
        let title = format!("`{key}` does not go with `{by}`");
        let fault = Fault::new(title, "a metric of routes, which are the same for all");
        let help = "leave one of the two out, or tell the connections apart by their ports";
        problems.push(fault.help(help).at(at).also(owner, "by this"));
    }
}
