//! The folder of an authority and of this host's own key and certificate.

use std::{
    fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use wad_toolbox::{
    own_folder::{self, FolderError},
    whole_file,
};

use super::{Certificate, Wanted, sign};
use crate::{
    credentials::{self, CredentialsError},
    identity::{Leaf, NodeUri},
};

const AUTHORITY_KEY: &str = "ca.key";
const AUTHORITY_CERTIFICATE: &str = "ca.crt";
const HOST_KEY: &str = "host.key";
const HOST_CERTIFICATE: &str = "host.crt";
/// The link to the pair of this host that is in use, among all that there were.
const CURRENT: &str = "current";
const PAIRS: &str = "pairs";
/// Keys and certificates of other hosts.
const ISSUED: &str = "issued";
/// Most bytes of a key.
const MAX_KEY_BYTES: u64 = 64 << 10;

#[derive(Debug, thiserror::Error)]
pub enum MakeError {
    #[error("{} is there already, and is left as it is", file.display())]
    Exists { file: PathBuf },
    #[error("{} is there already; --again replaces it", folder.display())]
    Issued { folder: PathBuf },
    #[error(
        "there is no key of an authority at {}: `wad peer init` makes one; where it is another \
         host that signs, `wad peer issue` there", file.display()
    )]
    NoAuthority { file: PathBuf },
    #[error("{} is no key that `wad peer init` has made", file.display())]
    Key { file: PathBuf },
    #[error("the certificate in {} has no wad:// name that could be kept", file.display())]
    NoName { file: PathBuf },
    #[error("{} is no link, as `wad peer init` makes it: it is not replaced", file.display())]
    NoLink { file: PathBuf },
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error("cannot read {}", file.display())]
    Read { file: PathBuf, source: io::Error },
    #[error("cannot write {}", file.display())]
    Write { file: PathBuf, source: io::Error },
    #[error("cannot make a certificate")]
    Sign(#[from] rcgen::Error),
}

type Result<T, E = MakeError> = std::result::Result<T, E>;

/// The folder, by default `/etc/wad/peer`.
#[derive(Clone, Debug)]
pub struct Folder(PathBuf);

impl Folder {
    pub const fn new(folder: PathBuf) -> Self {
        Self(folder)
    }

    /// Makes an authority, and a key and certificate of this host.
    pub fn init(&self, wanted: &Wanted) -> Result<Certificate> {
        own_folder::make_private(&self.0)?;
        for name in [AUTHORITY_KEY, AUTHORITY_CERTIFICATE, HOST_KEY, HOST_CERTIFICATE, CURRENT] {
            let file = self.file(name);
            if fs::symlink_metadata(&file).is_ok() {
                return Err(MakeError::Exists { file });
            }
        }
        let authority = sign::authority()?;
        write(&self.file(AUTHORITY_KEY), authority.key.as_bytes())?;
        write(&self.file(AUTHORITY_CERTIFICATE), authority.certificate.as_bytes())?;
        self.put(&sign::host(wanted, self.authority()?, None)?)?;
        for name in [HOST_KEY, HOST_CERTIFICATE] {
            let file = self.file(name);
            let linked = symlink(Path::new(CURRENT).join(name), &file);
            linked.map_err(|source| MakeError::Write { file, source })?;
        }
        self.certificate()
    }

    /// Makes a key and certificate of another host, and returns the folder that has them.
    pub fn issue(&self, wanted: &Wanted, again: bool) -> Result<(PathBuf, Certificate)> {
        own_folder::guard(&self.0)?;
        let authority = self.authority()?;
        let folder = self.file(ISSUED).join(&wanted.node.name);
        if folder.exists() && !again {
            return Err(MakeError::Issued { folder });
        }
        let pair = sign::host(wanted, authority, None)?;
        let own = self.file(AUTHORITY_CERTIFICATE);
        let authority = fs::read(&own).map_err(|source| MakeError::Read { file: own, source })?;
        let certificate = folder.join(HOST_CERTIFICATE);
        write(&folder.join(HOST_KEY), pair.key.as_bytes())?;
        write(&certificate, pair.certificate.as_bytes())?;
        write(&folder.join(AUTHORITY_CERTIFICATE), &authority)?;
        Ok((folder, credentials::leaf(&certificate)?.into()))
    }

    /// Replaces this host's key and certificate, for the same name and prefixes; with
    /// `keeps_key`, only the certificate.
    pub fn rotate(&self, days: u32, keeps_key: bool) -> Result<Certificate> {
        own_folder::guard(&self.0)?;
        let authority = self.authority()?;
        for name in [HOST_KEY, HOST_CERTIFICATE, CURRENT] {
            let file = self.file(name);
            if !fs::symlink_metadata(&file).is_ok_and(|found| found.is_symlink()) {
                return Err(MakeError::NoLink { file });
            }
        }
        let file = self.file(HOST_CERTIFICATE);
        let Leaf { uris, .. } = credentials::leaf(&file)?;
        let node = match &uris[..] {
            [uri] => NodeUri::parse(uri),
            _ => None,
        };
        let node = node.ok_or(MakeError::NoName { file })?;
        let key = keeps_key.then(|| self.key(HOST_KEY)).transpose()?;
        let before = fs::read_link(self.file(CURRENT)).ok();
        self.put(&sign::host(&Wanted { node, days }, authority, key)?)?;
        // Whoever reads just now has it still; what was there before that, nobody has.
        self.remove_all_but(before.as_deref());
        self.certificate()
    }

    /// Reads this host's certificate.
    pub fn certificate(&self) -> Result<Certificate> {
        Ok(credentials::leaf(&self.file(HOST_CERTIFICATE))?.into())
    }

    /// Puts a pair where it is used, both at once.
    fn put(&self, pair: &sign::Pair) -> Result<()> {
        let name = Path::new(PAIRS).join(Timestamp::now().as_nanosecond().to_string());
        let folder = self.0.join(&name);
        write(&folder.join(HOST_KEY), pair.key.as_bytes())?;
        write(&folder.join(HOST_CERTIFICATE), pair.certificate.as_bytes())?;
        let (next, file) = (self.file("current.new"), self.file(CURRENT));
        let placed = whole_file::remove(&next)
            .and_then(|_| symlink(&name, &next))
            .and_then(|()| fs::rename(&next, &file))
            .and_then(|()| fs::File::open(&self.0)?.sync_all());
        placed.map_err(|source| MakeError::Write { file, source })
    }

    /// Removes the pairs that were in use, but for this one and the one in use.
    fn remove_all_but(&self, before: Option<&Path>) {
        let current = fs::read_link(self.file(CURRENT)).ok();
        let kept = [before, current.as_deref()].map(|path| path.and_then(Path::file_name));
        let Ok(pairs) = fs::read_dir(self.file(PAIRS)) else { return };
        for pair in pairs.flatten() {
            if !kept.contains(&Some(&pair.file_name())) {
                // One that is left does no harm.
                let _ = fs::remove_dir_all(pair.path());
            }
        }
    }

    fn authority(&self) -> Result<rcgen::KeyPair> {
        let file = self.file(AUTHORITY_KEY);
        if file.exists() { self.key(AUTHORITY_KEY) } else { Err(MakeError::NoAuthority { file }) }
    }

    fn key(&self, name: &str) -> Result<rcgen::KeyPair> {
        let file = self.file(name);
        let pem = whole_file::read(&file, MAX_KEY_BYTES);
        let pem = pem.map_err(|source| MakeError::Read { file: file.clone(), source })?;
        sign::key(&pem.unwrap_or_default()).ok_or(MakeError::Key { file })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

/// Reads the certificate of a file, wherever it is from.
pub fn certificate(file: &Path) -> Result<Certificate> {
    Ok(credentials::leaf(file)?.into())
}

fn write(file: &Path, content: &[u8]) -> Result<()> {
    let failed = |source| MakeError::Write { file: file.to_owned(), source };
    whole_file::write(file, content).map_err(failed)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::testing::nets;

    fn wanted(name: &str, prefixes: &[&str]) -> Wanted {
        let node = NodeUri { name: name.to_owned(), prefixes: nets(prefixes) };
        Wanted { node, days: 30 }
    }

    /// All files below, each with its mode.
    fn modes(folder: &Path) -> Vec<(PathBuf, u32)> {
        let entries = fs::read_dir(folder).unwrap().flatten();
        let of = |entry: fs::DirEntry| {
            let found = fs::symlink_metadata(entry.path()).unwrap();
            let below = if found.is_dir() { modes(&entry.path()) } else { Vec::new() };
            let own =
                (!found.is_symlink()).then(|| (entry.path(), found.permissions().mode() & 0o777));
            below.into_iter().chain(own).collect::<Vec<_>>()
        };
        entries.flat_map(of).collect()
    }

    #[test]
    fn a_folder_is_made_once_and_for_its_owner_alone() {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder::new(root.path().join("peer"));
        let made = folder.init(&wanted("a.example", &["192.0.2.0/24"])).unwrap();
        assert_eq!(made.name.as_deref(), Some("a.example"));
        assert_eq!(made.prefixes, nets(&["192.0.2.0/24"]));
        let days = made.valid_until.duration_since(Timestamp::now()).as_hours();
        assert!((29 * 24..=30 * 24).contains(&days), "{days}");
        let modes = modes(root.path());
        assert!(modes.len() > 5, "{modes:?}");
        for (file, mode) in modes {
            let expected = if file.is_dir() { 0o700 } else { 0o600 };
            assert_eq!(mode, expected, "{}", file.display());
        }
        let again = folder.init(&wanted("b.example", &[])).unwrap_err();
        assert!(matches!(again, MakeError::Exists { .. }), "{again}");
        assert_eq!(folder.certificate().unwrap(), made);
    }

    #[test]
    fn another_host_gets_files_of_its_own() {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder::new(root.path().join("peer"));
        let other = wanted("b.example", &["2001:db8::/48"]);
        let none = folder.issue(&other, false).unwrap_err();
        assert!(matches!(none, MakeError::NoAuthority { .. }), "{none}");
        folder.init(&wanted("a.example", &[])).unwrap();
        let (files, made) = folder.issue(&other, false).unwrap();
        assert_eq!(made.name.as_deref(), Some("b.example"));
        for name in [HOST_KEY, HOST_CERTIFICATE, AUTHORITY_CERTIFICATE] {
            assert!(files.join(name).is_file(), "{name}");
        }
        let again = folder.issue(&other, false).unwrap_err();
        assert!(matches!(again, MakeError::Issued { .. }), "{again}");
        let (_, next) = folder.issue(&other, true).unwrap();
        assert_ne!(next.pin, made.pin);
    }

    #[test]
    fn a_pair_is_replaced_at_once_for_the_same_name() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("peer");
        let folder = Folder::new(path.clone());
        let first = folder.init(&wanted("a.example", &["192.0.2.0/24"])).unwrap();
        let second = folder.rotate(365, false).unwrap();
        assert_ne!(second.pin, first.pin);
        assert_eq!((&second.name, &second.prefixes), (&first.name, &first.prefixes));
        let third = folder.rotate(365, true).unwrap();
        assert_eq!(third.pin, second.pin);
        assert!(third.valid_until > first.valid_until);
        let pairs = || fs::read_dir(path.join(PAIRS)).unwrap().count();
        assert_eq!(pairs(), 2);
        // What was put there by hand is not ours to replace.
        fs::remove_file(path.join(HOST_KEY)).unwrap();
        fs::write(path.join(HOST_KEY), "mine").unwrap();
        let refused = folder.rotate(365, false).unwrap_err();
        assert!(matches!(refused, MakeError::NoLink { .. }), "{refused}");
        assert_eq!((folder.certificate().unwrap().pin, pairs()), (third.pin, 2));
    }
}
