//! Reads one `[[set]]`: a list of prefixes that is kept elsewhere, as a file or behind a
//! URL. Paths name it by `remote_set`.

mod list;
mod select;

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    ops::RangeInclusive,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use ipnet::IpNet;
use wad_toolbox::{access::Access, url::Url};

#[cfg(feature = "fuzz")]
pub use self::list::fuzz;
pub use self::{
    list::{ListError, addresses as list_of_addresses, texts as list_of_texts},
    select::Select,
};
use super::{
    Config, PathPolicy, access,
    fault::{Fault, Problems, Span, quoted},
    keys::{
        Key,
        LeftOut::{Means, Refused, Value},
        Takes::{Size, Text, Time},
        key,
    },
    overlap::Site,
    path::parse_name,
    quantity,
    source::{check_use, read_time},
    table::{self, Table},
    unread::Unread,
};

pub const TABLE: &str = "set";

/// Most sets: each has metrics of its own.
pub const MAX_SETS: usize = 32;

/// Most hosts that paths name: each is asked for again and again.
const MAX_HOSTS: usize = 64;

pub const KEYS: &[Key] = &[
    key("name").takes(Text("1 to 63 bytes"), Refused, "the name that `remote_set` has for it"),
    key("file").takes(
        Text("an absolute path"),
        Means("`url` is needed"),
        "a file that has it; read again when it has changed",
    ),
    key("url").takes(
        Text("`http://` or `https://`"),
        Means("`file` is needed"),
        "where it is fetched",
    ),
    key("select").takes(
        Text("an expression, or a list of them"),
        Means("the list is a text, with a prefix on each line"),
        "what of a JSON document is meant, see [lists](../matching.md#lists-of-prefixes)",
    ),
    key("every").takes(
        Time(INTERVALS),
        Means("`\"10s\"` for a file, `\"1h\"` for a URL"),
        "between two looks, less up to a tenth; a URL that fails is asked again sooner",
    ),
    access::TOKEN_FILE,
    access::USERNAME,
    access::PASSWORD_FILE,
    access::HEADERS,
    access::CA_FILE,
    access::CLIENT_CERTIFICATE,
    access::CLIENT_KEY,
    access::PROXY,
    key("timeout").takes(
        Time(TIMEOUTS),
        Value("\"30s\""),
        "of a URL: for a request, to its last byte",
    ),
    key("max_response").takes(
        Size(RESPONSE_BYTES),
        Value("\"16MiB\""),
        "of a URL: most bytes of an answer",
    ),
];

const INTERVALS: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(86_400);
const TIMEOUTS: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(300);
const RESPONSE_BYTES: RangeInclusive<u64> = 1 << 10..=64 << 20;

const FILE_EVERY: Duration = Duration::from_secs(10);
/// Unless the name server says for how long addresses hold.
const HOST_EVERY: Duration = Duration::from_secs(60);
const URL_EVERY: Duration = Duration::from_secs(3600);
const TIMEOUT: Duration = Duration::from_secs(30);
const MAX_RESPONSE_BYTES: usize = 16 << 20;

/// Keys of what is fetched.
const URL_KEYS: [&str; 2] = ["timeout", "max_response"];

/// A list of prefixes that is kept elsewhere.
#[derive(Clone, Debug, PartialEq)]
pub struct Set {
    /// 1 to 63 bytes, printable, unique.
    pub name: String,
    pub place: SetPlace,
    /// The expressions by which prefixes of a JSON document are chosen; none for a text.
    pub select: Vec<Select>,
    /// Time between two looks.
    pub every: Duration,
}

/// Says where a set is kept.
#[derive(Clone, Debug, PartialEq)]
pub enum SetPlace {
    File(PathBuf),
    Url(Box<SetUrl>),
    /// The addresses of the host that has the set's name. No `[[set]]` says so.
    Host,
}

/// Says how a set is fetched.
#[derive(Clone, Debug, PartialEq)]
pub struct SetUrl {
    pub url: Url,
    pub access: Access,
    /// Time for one request, from the name look-up to the last byte.
    pub timeout: Duration,
    pub max_response_bytes: usize,
}

/// The prefixes that sets hold, by their names.
pub type Prefixes = HashMap<String, Arc<[IpNet]>>;

impl Set {
    /// Reads a list: its prefixes, sorted, none within another.
    pub fn read_list(&self, bytes: &[u8]) -> Result<Vec<IpNet>, ListError> {
        if self.select.is_empty() { list::lines(bytes) } else { list::chosen(bytes, &self.select) }
    }

    /// Returns what its prefixes come from, in words: another text is another list.
    pub fn origin(&self) -> String {
        let place = match &self.place {
            SetPlace::File(file) => file.display().to_string(),
            SetPlace::Url(url) => url.url.to_string(),
            SetPlace::Host => "DNS".to_owned(),
        };
        let select = self.select.iter().map(|select| format!(" {select}"));
        place + &select.collect::<String>()
    }
}

impl Config {
    /// Returns the sets of the file, and those of the hosts that paths name.
    pub fn lists(&self) -> Vec<Set> {
        let names = self.paths.iter().flat_map(|path| &path.origin.remote_names);
        let hosts = names.collect::<BTreeSet<_>>().into_iter().map(|name| Set {
            name: name.clone(),
            place: SetPlace::Host,
            select: Vec::new(),
            every: HOST_EVERY,
        });
        self.sets.iter().cloned().chain(hosts).collect()
    }
}

/// Gives paths the prefixes of their sets beside their own.
pub fn fill(paths: &mut [PathPolicy], held: &Prefixes) {
    for path in paths.iter_mut().filter(|path| path.origin.lists().next().is_some()) {
        let sets = path.origin.lists().filter_map(|name| held.get(name));
        let all = path.remote.iter().copied().chain(sets.flat_map(|set| set.iter().copied()));
        let mut seen = HashSet::new();
        path.remote = all.filter(|&net| seen.insert(net)).collect();
    }
}

/// Reads a set, and where its name stands.
pub fn read(table: &Table<'_>, problems: &mut Problems) -> Option<(Set, Span)> {
    table.require("name", problems, "add name = \"aws-eu-west-1\", or how paths are to name it");
    let name = table.read("name", problems, |value| parse_name(table::text(value)?));
    let url = table.read("url", problems, |value| Ok(Url::parse(table::text(value)?)?));
    let file = table.read_file("file", problems);
    let select = table.read_list("select", problems, |value| Select::parse(table::text(value)?));
    let select = select.unwrap_or_default().into_iter().map(|select| select.value).collect();
    let every = read_time(table, "every", INTERVALS, "1s to 1d", problems);
    let timeout = read_time(table, "timeout", TIMEOUTS, "100ms to 5min", problems);
    let max_response =
        table.read("max_response", problems, |value| quantity::size(value, RESPONSE_BYTES));
    let access = access::read(table, url.as_ref(), problems);
    match (table.place("file"), table.place("url")) {
        (Some(file), Some(url)) => {
            let fault = Fault::new("`file` does not go with `url`", "a set is in one place");
            problems.push(fault.help("leave one of the two out").at(file).also(url, "here is one"));
        }
        (Some(_), None) => {
            check_use(table, "a set in a file", &[&URL_KEYS, &access::NAMES], problems);
        }
        (None, _) => table.require("url", problems, "add url = \"https://HOST\", or a `file`"),
    }
    let place = match (file, url) {
        (Some(file), _) => SetPlace::File(file),
        (None, url) => SetPlace::Url(Box::new(SetUrl {
            url: url?.value,
            access,
            timeout: timeout.unwrap_or(TIMEOUT),
            // In range, hence whole.
            max_response_bytes: max_response.map_or(MAX_RESPONSE_BYTES, |size| size.value as usize),
        })),
    };
    let usual = if matches!(place, SetPlace::File(_)) { FILE_EVERY } else { URL_EVERY };
    let name = name?;
    Some((Set { name: name.value, place, select, every: every.unwrap_or(usual) }, name.at))
}

/// `names` are the places of the sets' names, and `sites` those of the paths, one for one.
pub fn check(
    (sets, names, unread): (&[Set], &[Span], &Unread),
    (paths, sites): (&[PathPolicy], &[Site]),
    problems: &mut Problems,
) {
    if let Some(at) = names.get(MAX_SETS) {
        let fault = Fault::new(format!("{} sets", names.len()), format!("at most {MAX_SETS}"));
        problems.push(fault.help("a path takes more than one expression of a set").at(*at));
    }
    let mut first = HashMap::new();
    for (set, at) in sets.iter().zip(names) {
        if let Some(before) = first.insert(set.name.as_str(), *at) {
            let fault = Fault::new("two sets have the same name", "the second");
            problems.push(fault.help("rename one of them").at(*at).also(before, "the first"));
        }
    }
    let mut hosts = HashSet::new();
    for (path, site) in paths.iter().zip(sites) {
        for name in &path.origin.remote_names {
            if let Some(at) = first.get(name.as_str()) {
                let fault = Fault::new(format!("a set is named as the host {name}"), "this set");
                let help = "rename the set: metrics and `status` show both by their names";
                problems.push(fault.help(help).at(*at).also(site.remote_name, "the host"));
            }
            if hosts.insert(name) && hosts.len() == MAX_HOSTS + 1 {
                let label = format!("at most {MAX_HOSTS} in all paths together");
                problems.push(Fault::new("too many names", label).at(site.remote_name));
            }
        }
        let is_unknown =
            |name: &&String| !first.contains_key(name.as_str()) && !unread.may_have(name);
        let Some(name) = path.origin.remote_sets.iter().find(is_unknown) else { continue };
        let fault = Fault::new(format!("no set {}", quoted(name)), "no [[set]] has this name");
        let known: Vec<_> = sets.iter().map(|set| quoted(&set.name)).collect();
        let help = match known.as_slice() {
            [] => "add a [[set]] with its name, and its `file` or `url`".to_owned(),
            known => format!("there are {}", known.join(", ")),
        };
        problems.push(fault.help(help).at(site.remote_set));
    }
}
