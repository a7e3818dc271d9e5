//! Reads how a server is reached: the same keys of `[[source]]`, `[[set]]`, `[[sink]]` and
//! `[otlp]`.

use std::collections::HashSet;

use toml::de::DeValue;
use wad_toolbox::{
    access::{Access, Credentials, Header, HeaderName, HeaderText, HeaderValue, Identity},
    url::Url,
};

use super::{
    fault::{Fault, Problems, Span, quoted},
    keys::{Key, LeftOut::Means, Takes::Text, key},
    table::{self, Located, Table},
};

pub const TOKEN_FILE: Key = key("token_file").takes(
    Text("an absolute path"),
    Means("no token"),
    "a bearer token, read for each request; with `https` or on this host only",
);
pub const USERNAME: Key = key("username").takes(
    Text("a name"),
    Means("no basic authentication"),
    "who asks, by basic authentication",
);
pub const PASSWORD_FILE: Key = key("password_file").takes(
    Text("an absolute path"),
    Means("refused beside `username`"),
    "the password, read for each request; with `https` or on this host only",
);
pub const HEADERS: Key = key("headers").takes(
    Text("a table, as `{ X-Scope-OrgID = \"1\", X-Key = { file = \"/etc/wad/key\" } }`"),
    Means("none"),
    "further headers of each request; a secret stands in a file, read for each request",
);
pub const CA_FILE: Key = key("ca_file").takes(
    Text("an absolute path"),
    Means("the host's"),
    "PEM certificates, trusted instead of the host's: of an authority, or the server's own, \
     if it is none (`CA:FALSE`)",
);
pub const CLIENT_CERTIFICATE: Key = key("client_certificate").takes(
    Text("an absolute path"),
    Means("none"),
    "a PEM file: the certificate that a server asks clients for, and those between it and \
     its authority",
);
pub const CLIENT_KEY: Key = key("client_key").takes(
    Text("an absolute path"),
    Means("refused beside `client_certificate`"),
    "a PEM file: the key of that certificate",
);
pub const PROXY: Key = key("proxy").takes(
    Text("`http://`"),
    Means("none, whatever the environment says"),
    "the proxy that requests go through; `https` by a tunnel of its own (`CONNECT`)",
);

/// Names of the keys.
pub const NAMES: [&str; 8] = [
    "token_file",
    "username",
    "password_file",
    "headers",
    "ca_file",
    "client_certificate",
    "client_key",
    "proxy",
];

/// Most further headers.
const MAX_HEADERS: usize = 32;
/// Most bytes of a header's value that stands in the file.
const MAX_VALUE_BYTES: usize = 4096;

/// Headers that are the client's own to set.
const OWN_HEADERS: [&str; 15] = [
    "accept",
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "if-none-match",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
];

/// Reads how the server of a URL is reached.
pub fn read(table: &Table<'_>, url: Option<&Located<Url>>, problems: &mut Problems) -> Access {
    let headers = read_headers(table, problems);
    let access = Access {
        credentials: read_credentials(table, &headers, problems),
        headers,
        ca_file: table.read_file("ca_file", problems),
        identity: read_identity(table, ["client_certificate", "client_key"], problems),
        proxy: read_proxy(table, problems),
    };
    if let Some(url) = url {
        check(table, url, &access, problems);
    }
    access
}

fn read_credentials(
    table: &Table<'_>,
    headers: &[Header],
    problems: &mut Problems,
) -> Option<Credentials> {
    let token = table.read_file("token_file", problems);
    let username = table.read("username", problems, |value| parse_username(table::text(value)?));
    let password = table.read_file("password_file", problems);
    let named = headers.iter().any(|header| header.name.as_str() == "authorization");
    let ways = [
        table.place("token_file"),
        table.place("username").or(table.place("password_file")),
        table.place("headers").filter(|_| named),
    ];
    if let [first, second, ..] = ways.into_iter().flatten().collect::<Vec<_>>()[..] {
        let fault = Fault::new("two ways to say who asks", "this is one");
        let help = "keep one of `token_file`, `username`, and an Authorization in `headers`";
        problems.push(fault.help(help).at(second).also(first, "here is another"));
    }
    both(table, ["username", "password_file"], problems);
    let basic = username.zip(password);
    let basic = basic.map(|(name, file)| Credentials::Basic { username: name.value, file });
    token.map(|file| Credentials::Token { file }).or(basic)
}

/// Reads the files of a certificate and its key, which go together.
pub fn read_identity(
    table: &Table<'_>,
    keys: [&str; 2],
    problems: &mut Problems,
) -> Option<Identity> {
    let certificate = table.read_file(keys[0], problems);
    let key = table.read_file(keys[1], problems);
    both(table, keys, problems);
    let (certificate, key) = certificate.zip(key)?;
    Some(Identity { certificate, key })
}

/// Reports one of two keys that stands alone.
fn both(table: &Table<'_>, keys: [&str; 2], problems: &mut Problems) {
    for [here, other] in [keys, [keys[1], keys[0]]] {
        if let Some(at) = table.place(here).filter(|_| !table.has(other)) {
            let fault = Fault::new(format!("`{here}` needs `{other}`"), "not without the other");
            problems.push(fault.help(format!("add `{other}`, or leave both out")).at(at));
        }
    }
}

fn read_proxy(table: &Table<'_>, problems: &mut Problems) -> Option<Url> {
    let proxy = table.read("proxy", problems, |value| {
        let url = Url::parse(table::text(value)?)?;
        if url.is_https || !url.path.is_empty() {
            let label = "must be http://HOST:PORT, without a path";
            return Err(Fault::new("this is no proxy that can be used", label)
                .help("to an https server there is a tunnel, which the proxy cannot read"));
        }
        Ok(url)
    });
    proxy.map(|proxy| proxy.value)
}

fn read_headers(table: &Table<'_>, problems: &mut Problems) -> Vec<Header> {
    let headers: Vec<Header> = table.read_map("headers", problems, parse_header);
    let at = table.place("headers");
    let mut seen = HashSet::new();
    let twice = headers.iter().find(|header| !seen.insert(&header.name));
    let fault = match twice {
        Some(twice) => {
            Some(Fault::new(format!("the header {} is there twice", twice.name), "in this table"))
        }
        None if headers.len() > MAX_HEADERS => {
            let title = format!("{} headers", headers.len());
            Some(Fault::new(title, format!("at most {MAX_HEADERS}")))
        }
        None => None,
    };
    if let (Some(fault), Some(at)) = (fault, at) {
        problems.push(fault.at(at));
    }
    headers
}

fn parse_header(name: &str, value: &DeValue<'_>) -> Result<Header, Fault> {
    let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| {
        let title = format!("{} is no name of a header", quoted(name));
        Fault::new(title, "letters, digits and - only")
    })?;
    let own = OWN_HEADERS.contains(&header.as_str()) || header.as_str().starts_with("proxy-");
    if own {
        return Err(Fault::new(format!("the header {name} cannot be set"), "wad sets it itself")
            .help("leave it out"));
    }
    let Some(table) = value.as_table() else {
        return Ok(Header { name: header, value: HeaderText::Given(parse_value(value)?) });
    };
    let file = table.get("file").filter(|_| table.len() == 1);
    let file = file.ok_or_else(|| {
        let label = "takes a text, or { file = \"/PATH\" }";
        Fault::new(format!("the header {name} has no value"), label)
    })?;
    let file = table::absolute(table::text(file.get_ref())?)?;
    Ok(Header { name: header, value: HeaderText::File(file) })
}

fn parse_value(value: &DeValue<'_>) -> Result<String, Fault> {
    let text = table::text(value)?;
    // It is not shown: it may be a secret.
    if text.len() > MAX_VALUE_BYTES || HeaderValue::from_str(text).is_err() {
        let label = format!("at most {MAX_VALUE_BYTES} bytes, without line breaks");
        return Err(Fault::new("this is no value of a header", label));
    }
    Ok(text.to_owned())
}

/// Reads a name: a colon would end it (RFC 7617 section 2).
fn parse_username(name: &str) -> Result<String, Fault> {
    if (1..=255).contains(&name.len()) && !name.contains(|c: char| c == ':' || c.is_control()) {
        return Ok(name.to_owned());
    }
    let title = format!("{} is no name for basic authentication", quoted(name));
    Err(Fault::new(title, "1 to 255 bytes, without a colon"))
}

/// Checks what only shows with the URL.
fn check(table: &Table<'_>, url: &Located<Url>, access: &Access, problems: &mut Problems) {
    let secrets = [
        ("token_file", "the token"),
        ("password_file", "the password"),
        ("headers", "a secret header"),
    ];
    let is_of_secret = |header: &Header| {
        matches!(header.value, HeaderText::File(_)) || header.name.as_str() == "authorization"
    };
    let is_secret = |key: &str| key != "headers" || access.headers.iter().any(is_of_secret);
    let clear = !access.is_private(&url.value);
    for (key, what) in secrets.into_iter().filter(|(key, _)| clear && is_secret(key)) {
        let Some(at) = table.place(key) else { continue };
        let fault = Fault::new(format!("{what} would be sent in the clear"), "to another host");
        problems.push(fault.help("use an https:// URL").at(at).also(url.at, "not encrypted"));
    }
    let unused = |key: &str, at: Span| {
        let fault = Fault::new(format!("`{key}` has no effect"), "there are no certificates");
        fault.help("use an https:// URL, or leave it out").at(at)
    };
    for key in ["ca_file", "client_certificate"] {
        if let Some(at) = table.place(key).filter(|_| !url.value.is_https) {
            problems.push(unused(key, at));
        }
    }
}
