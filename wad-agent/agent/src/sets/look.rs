//! Looks for a set's list: in its file, when that has changed, or behind its URL. None of
//! them can hold the agent up: each has a task, which tells what it has found.

use std::{
    collections::HashSet,
    fs::{File, Metadata, OpenOptions},
    io::{self, Read},
    net::IpAddr,
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use ipnet::IpNet;
use nix::fcntl::OFlag;
use tokio::{sync::mpsc, task, time::sleep};
use wad_http::{self as http, Client, HttpError, Terms, Version};
use wad_policy::config::{ListError, Set, SetPlace, SetUrl, Unfit, list_of_addresses};
use wad_toolbox::{chance::chance, others_file};

use super::addresses::Addresses;
use crate::dns::{DnsError, look_up};

/// Largest file: 200 bytes for each of the most prefixes.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// Part of a wait that is up to chance, so that hosts do not ask all at once.
const JITTER: f64 = 0.1;
/// Wait after the first failure of a URL; doubled with each.
const FIRST_BACK_OFF: Duration = Duration::from_secs(5);

/// The addresses of a name hold for as long as its name server says, within these bounds.
const HOLD_LEAST: Duration = Duration::from_secs(5);
const HOLD_MOST: Duration = Duration::from_secs(3600);

/// Says why what a set holds is not what its list says.
#[derive(Debug, thiserror::Error)]
pub enum SetError {
    #[error("cannot fetch {url}")]
    Http { url: String, source: Box<HttpError> },
    #[error("cannot read {}", file.display())]
    Read { file: PathBuf, source: io::Error },
    #[error(transparent)]
    Dns(#[from] DnsError),
    #[error("the list is not taken")]
    List(#[from] ListError),
    #[error(transparent)]
    Unfit(#[from] Unfit),
    #[error("its prefixes cannot be put in force: {reason}")]
    NotInForce { reason: String },
}

/// The news of a set, by its place among all: its list, or why that is not known.
#[derive(Debug)]
pub struct News {
    pub place: usize,
    pub list: Result<Vec<IpNet>, SetError>,
}

/// Says which of these addresses connections have; None where that is not known.
pub type InUse = Arc<dyn Fn(&[IpAddr]) -> Option<HashSet<IpAddr>> + Send + Sync>;

/// A stamp says which version of a file was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp([i128; 5]);

impl Stamp {
    fn of(file: &Metadata) -> Self {
        let at = |seconds: i64, ns: i64| i128::from(seconds) * 1_000_000_000 + i128::from(ns);
        Self([
            file.dev().into(),
            file.ino().into(),
            file.len().into(),
            at(file.mtime(), file.mtime_nsec()),
            at(file.ctime(), file.ctime_nsec()),
        ])
    }
}

/// Reads a set's file, unless it is the version that was read last: then there is no news.
pub fn read_file(
    set: &Set,
    file: &Path,
    seen: &mut Option<Stamp>,
) -> Option<Result<Vec<IpNet>, SetError>> {
    let before = seen.take();
    let read = || -> io::Result<Option<(Stamp, Vec<u8>)>> {
        let (mut open, stamp) = open(file)?;
        if before == Some(stamp) {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        Read::by_ref(&mut open).take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(Some((stamp, bytes)))
    };
    match read() {
        Ok(None) => {
            *seen = before;
            None
        }
        Ok(Some((stamp, bytes))) => {
            *seen = Some(stamp);
            Some(set.read_list(&bytes).map_err(SetError::from))
        }
        Err(error) => {
            let source = others_file::told(file, error);
            Some(Err(SetError::Read { file: file.to_owned(), source }))
        }
    }
}

/// A pipe is not waited for.
fn open(file: &Path) -> io::Result<(File, Stamp)> {
    let open = OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(file)?;
    let metadata = open.metadata()?;
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    let stamp = Stamp::of(&metadata);
    Ok((open, stamp))
}

/// Looks up a host's addresses again and again, as long as they hold.
pub async fn look_up_on(
    place: usize,
    (set, known): (Set, Vec<IpNet>),
    in_use: InUse,
    news: mpsc::Sender<News>,
) {
    let mut addresses = Addresses::known(&known, Instant::now());
    let mut failures = 0;
    sleep(Duration::from_secs(1).mul_f64(chance())).await;
    loop {
        let answer = look_up(&set.name).await;
        let wait = match &answer {
            Ok(answer) => answer.holds.clamp(HOLD_LEAST, HOLD_MOST),
            Err(_) => back_off(failures).min(HOLD_MOST),
        };
        failures = if answer.is_ok() { 0 } else { failures + 1 };
        let list = match answer {
            Err(error) => Err(error.into()),
            Ok(answer) => {
                let now = Instant::now();
                let due = addresses.take(&answer.addresses, now);
                if !due.is_empty() {
                    let (ask, of_due) = (Arc::clone(&in_use), due.clone());
                    let used = task::spawn_blocking(move || ask(&of_due)).await;
                    // Where it is not known, all of them may be.
                    let used = used.ok().flatten();
                    let used = used.unwrap_or_else(|| due.iter().copied().collect());
                    addresses.drop_unused(&due, &used, now);
                }
                list_of_addresses(addresses.all()).map_err(SetError::from)
            }
        };
        if news.send(News { place, list }).await.is_err() {
            return;
        }
        sleep(wait).await;
    }
}

/// Looks for a list again and again, for as long as somebody wants to know.
pub async fn look_on(place: usize, set: Set, mut seen: Option<Stamp>, news: mpsc::Sender<News>) {
    let (mut failures, mut last) = (0, None);
    // Its file was read at the start; those who start together do not ask together.
    sleep(match &set.place {
        SetPlace::File(_) => wait(&set, 0),
        SetPlace::Url(_) | SetPlace::Host => Duration::from_secs(1).mul_f64(chance()),
    })
    .await;
    loop {
        let list = match &set.place {
            SetPlace::Url(url) => Some(fetch(&set, url, &mut last).await),
            // Others look these up.
            SetPlace::Host => return,
            SetPlace::File(file) => {
                let (of_task, file) = (set.clone(), file.clone());
                let looked = task::spawn_blocking(move || {
                    let list = read_file(&of_task, &file, &mut seen);
                    (list, seen)
                });
                let Ok((list, now_seen)) = looked.await else { return };
                seen = now_seen;
                list
            }
        };
        if let Some(list) = list {
            failures = if list.is_ok() { 0 } else { failures + 1 };
            if news.send(News { place, list }).await.is_err() {
                return;
            }
        }
        sleep(wait(&set, failures)).await;
    }
}

/// The list that was fetched last, by its version.
type Fetched = Option<(Version, Vec<IpNet>)>;

/// Fetches a list, unless its server says that it is the one that was had last.
async fn fetch(set: &Set, url: &SetUrl, last: &mut Fetched) -> Result<Vec<IpNet>, SetError> {
    let terms = Terms {
        access: &url.access,
        timeout: url.timeout,
        max_response_bytes: url.max_response_bytes,
    };
    let at = |error| SetError::Http { url: url.url.to_string(), source: Box::new(error) };
    let client = Client::new(terms, &url.url).map_err(at)?;
    let known = last.as_ref().map(|(version, _)| version);
    let (body, version) = match client.fetch(known).await.map_err(at)? {
        http::Fetched::New { body, version } => (body, version),
        http::Fetched::Same => {
            let (_, list) = last.as_ref().expect("a version was named");
            return Ok(list.clone());
        }
    };
    *last = None;
    let set = set.clone();
    // A long list is not read in the way of other tasks.
    let read = task::spawn_blocking(move || set.read_list(&body).map_err(SetError::from));
    // It is not aborted by anybody.
    let list = read.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))?;
    *last = version.map(|version| (version, list.clone()));
    Ok(list)
}

/// Twice as long with each failure before.
fn back_off(failures: u32) -> Duration {
    FIRST_BACK_OFF.saturating_mul(1_u32.checked_shl(failures).unwrap_or(u32::MAX))
}

/// Returns the time to the next look: a URL that has failed is asked again sooner.
fn wait(set: &Set, failures: u32) -> Duration {
    let wait = match (&set.place, failures) {
        (SetPlace::File(_), _) | (_, 0) => set.every,
        (SetPlace::Url(_) | SetPlace::Host, failures) => back_off(failures - 1).min(set.every),
    };
    wait.mul_f64(1.0 - JITTER * chance())
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write as _, net::TcpListener, thread};

    use wad_policy::config::{Config, testing::host};

    use super::*;

    fn set(keys: &str) -> Set {
        let text = format!("[[set]]\nname = 's'\n{keys}\n");
        let config = Config::parse("wad.toml", &text, &host());
        config.unwrap_or_else(|error| panic!("{error}")).sets.remove(0)
    }

    #[test]
    fn a_file_is_read_when_it_has_changed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("list");
        let set = set(&format!("file = '{}'", file.display()));
        let mut seen = None;
        let mut look = || read_file(&set, &file, &mut seen);
        let gone = |look: Option<Result<_, SetError>>| match look {
            Some(Err(SetError::Read { source, .. })) => source.kind(),
            other => panic!("{other:?}"),
        };
        assert_eq!(gone(look()), io::ErrorKind::NotFound);
        fs::write(&file, "10.0.0.1\n").unwrap();
        assert!(look().unwrap().is_ok() && look().is_none());
        fs::write(&file, "oops\n").unwrap();
        assert!(matches!(look(), Some(Err(SetError::List(_)))));
        assert!(look().is_none());
        fs::remove_file(&file).unwrap();
        assert_eq!(gone(look()), io::ErrorKind::NotFound);
        // It is told of until it is back.
        assert_eq!(gone(look()), io::ErrorKind::NotFound);
        fs::write(&file, "10.0.0.1\n").unwrap();
        assert!(look().unwrap().is_ok());
        fs::remove_file(&file).unwrap();
        nix::unistd::mkfifo(&file, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(gone(look()), io::ErrorKind::InvalidInput);
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        assert_eq!(gone(look()), io::ErrorKind::IsADirectory);
    }

    #[tokio::test]
    async fn a_list_that_has_not_changed_is_not_sent_again() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let set = set(&format!("url = 'http://{}'", listener.local_addr().unwrap()));
        thread::spawn(move || {
            let answers = ["\"1\"\r\n", "same", "\"2\"\r\noops", "\"3\"\r\n", "same"];
            for (stream, answer) in listener.incoming().zip(answers) {
                let (mut stream, mut head) = (stream.unwrap(), [0; 1024]);
                let bytes = stream.read(&mut head).unwrap();
                let head = String::from_utf8_lossy(&head[..bytes]);
                // Only of a good list a version is named.
                let is_known = head.contains("if-none-match: \"");
                assert_eq!(is_known, !answer.ends_with("\r\n"), "{head}");
                let answer = match answer.split_once("\r\n") {
                    None => "HTTP/1.1 304 Not Modified\r\n\r\n".to_owned(),
                    Some((tag, bad)) => {
                        format!("HTTP/1.1 200 OK\r\netag: {tag}\r\n\r\n10.0.0.1\n{bad}")
                    }
                };
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        let SetPlace::Url(url) = &set.place else { panic!("{set:?}") };
        let mut last = None;
        for is_good in [true, true, false, true, true] {
            let list = fetch(&set, url, &mut last).await;
            assert_eq!(list.is_ok(), is_good, "{list:?}");
            assert!(list.is_err() || list.unwrap() == ["10.0.0.1/32".parse().unwrap()]);
        }
    }

    #[test]
    fn a_url_that_fails_is_asked_again_sooner() {
        let seconds = |set: &Set, failures| wait(set, failures).as_secs_f64();
        let url = set("url = 'http://a'");
        for (failures, expected) in [(0, 3600.0), (1, 5.0), (2, 10.0), (99, 3600.0)] {
            let waited = seconds(&url, failures);
            assert!((expected * 0.9..=expected).contains(&waited), "{failures}: {waited}");
        }
        assert!(seconds(&set("url = 'http://a'\nevery = '2s'"), 1) <= 2.0);
        assert!(seconds(&set("file = '/a'"), 9) > 8.0);
    }
}
