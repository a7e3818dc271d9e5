//! Reads who may ask for the metrics, and by what certificate they are sent: as Prometheus'
//! own programs have it in `web.config`.

use toml::de::DeValue;
use wad_toolbox::access::Identity;

use super::{
    access::read_identity,
    fault::{Fault, Problems, quoted},
    keys::{Key, LeftOut::Means, Takes::Text, key},
    table::{self, Table},
};

pub const CERTIFICATE: Key = key("certificate").takes(
    Text("an absolute path"),
    Means("plain HTTP"),
    "a PEM file: the server's certificate, and those between it and its authority; read again as \
     connections come",
);
pub const CERTIFICATE_KEY: Key = key("certificate_key").takes(
    Text("an absolute path"),
    Means("refused beside `certificate`"),
    "a PEM file: the key of that certificate",
);
pub const USERS: Key = key("users").takes(
    Text("a table of names and bcrypt hashes, as `{ prometheus = \"$2y$10$...\" }`"),
    Means("anyone"),
    "who may ask, by basic authentication; with `certificate`, or on a loopback address only",
);

/// Most users.
const MAX_USERS: usize = 32;
/// Highest cost of a hash, by its logarithm: each step doubles the time that a look takes, a
/// twentieth of a second or so at 10.
const MAX_COST: u32 = 15;

/// Says who may ask, and what they are shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guard {
    pub identity: Option<Identity>,
    /// Users that may ask; empty for anyone.
    pub users: Vec<User>,
}

/// A user, and the bcrypt hash of the password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub hash: String,
}

/// Reads the keys of `[metrics]`.
pub fn read(table: &Table<'_>, is_loopback: bool, problems: &mut Problems) -> Guard {
    let identity = read_identity(table, ["certificate", "certificate_key"], problems);
    let users = table.read_map("users", problems, parse_user);
    if let Some(at) = table.place("users") {
        let has_certificate = table.has("certificate");
        let fault = if users.len() > MAX_USERS {
            let fault =
                Fault::new(format!("{} users", users.len()), format!("at most {MAX_USERS}"));
            Some(fault)
        } else if users.is_empty() {
            let fault = Fault::new("nobody may ask", "no user is here");
            Some(fault.help("add one, or leave `users` out for anyone"))
        } else if !has_certificate && !is_loopback {
            let fault = Fault::new("passwords would come in the clear", "from other hosts");
            Some(fault.help("add `certificate` and `certificate_key`"))
        } else {
            None
        };
        fault.into_iter().for_each(|fault| problems.push(fault.at(at)));
    }
    Guard { identity, users }
}

fn parse_user(name: &str, value: &DeValue<'_>) -> Result<User, Fault> {
    if name.is_empty() || name.contains(|c: char| c == ':' || c.is_control()) {
        let title = format!("{} is no name for basic authentication", quoted(name));
        return Err(Fault::new(title, "without a colon"));
    }
    let hash = table::text(value)?;
    if !is_bcrypt(hash) {
        let label = format!("must be $2y$COST$..., with a cost of 4 to {MAX_COST}");
        return Err(Fault::new("this is no bcrypt hash", label)
            .help(format!("`htpasswd -nBC 10 {name}` makes one")));
    }
    Ok(User { name: name.to_owned(), hash: hash.to_owned() })
}

/// The form of a hash: version, cost, and 22 digits of salt and 31 of the hash.
fn is_bcrypt(hash: &str) -> bool {
    let digit = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'/';
    let mut parts = hash.split('$');
    let mut next = || parts.next().unwrap_or_default();
    let (before, version, cost, digits) = (next(), next(), next(), next());
    before.is_empty()
        && matches!(version, "2a" | "2b" | "2y")
        && cost.len() == 2
        && cost.parse().is_ok_and(|cost: u32| (4..=MAX_COST).contains(&cost))
        && digits.len() == 53
        && digits.bytes().all(digit)
        && parts.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_told_by_their_form() {
        let good = "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW";
        assert!(is_bcrypt(good) && is_bcrypt(&good.replace("2a", "2y")));
        for bad in [
            "",
            "secret",
            &good[1..],
            &good[..59],
            &good.replace("$05$", "$5$"),
            &good.replace("$05$", "$16$"),
            &good.replace("$05$", "$03$"),
            &good.replace("$2a$", "$1$"),
            &good.replace("E5", "E!"),
            &format!("{good}$"),
        ] {
            assert!(!is_bcrypt(bad), "{bad}");
        }
    }
}
