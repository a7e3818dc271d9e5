//! A package's description of itself, and its files.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::{Kind, Package};
use crate::{
    bill::Bill,
    exec,
    source::{DESCRIPTION, LICENCES, Source},
    tree::gzip,
};

/// Bulk transfers are what most have it for.
const EXTENDED: &str = "\
You write down which remote networks are special, and what TCP connections to
them should get: buffers, congestion control, windows, pacing. Small BPF
programs in the kernel give it to each of these connections, without a change
to any application. All other connections stay as they were.";

/// These are installed as they are: the place in the repository, and in the package.
const EXAMPLES: [(&str, &str); 3] = [
    ("config/wad.toml", "wad.toml"),
    ("config/prometheus/wad-rules.yaml", "prometheus/wad-rules.yaml"),
    ("config/grafana/wad.json", "grafana/wad.json"),
];

/// RPM leaves folders behind that no package says are its own, Debian none that is empty.
const OWN_FOLDERS: [&str; 11] = [
    "/usr/share/doc/wad",
    "/usr/share/doc/wad/examples",
    "/usr/share/doc/wad/examples/grafana",
    "/usr/share/doc/wad/examples/prometheus",
    "/usr/share/fish",
    "/usr/share/fish/vendor_completions.d",
    "/usr/share/licenses",
    "/usr/share/licenses/wad",
    "/usr/share/wad",
    "/usr/share/wad/schemas",
    "/usr/share/zsh/site-functions",
];

/// Writes what the package is of into a folder, and returns the description of it there.
pub fn describe(
    package: &Package,
    source: &Source,
    beside: &Beside,
    folder: &Path,
) -> Result<PathBuf> {
    let maintainer = source.maintainer.as_ref().context(
        "packages name a maintainer, the author of the commit: build them in a clone of the \
         repository",
    )?;
    let mut staging =
        Staging { folder, time: source.time.to_string(), kind: package.kind, contents: Vec::new() };
    staging.fill(package.wad, beside)?;
    let change = json!([{
        "semver": format!("{}-1", package.version),
        "date": staging.time,
        "packager": maintainer,
        "deb": { "urgency": "medium", "distributions": ["stable"] },
        "changes": [{ "note": "What has changed is in /usr/share/doc/wad." }],
    }]);
    let changelog = staging.write("changelog.yaml", serde_json::to_vec(&change)?)?;

    let summary = DESCRIPTION.trim_start_matches("wad, a ");
    let scripts = exec::root().join("config/packages").join(package.kind.name());
    let mut description = json!({
        "name": "wad",
        "arch": package.machine(),
        "platform": "linux",
        "version": package.version,
        "release": "1",
        "section": "net",
        "priority": "optional",
        "maintainer": maintainer,
        "description": format!("{summary}\n{EXTENDED}"),
        "license": LICENCES,
        "mtime": staging.time,
        "changelog": changelog,
        "contents": staging.contents,
        "scripts": {
            "postinstall": scripts.join("postinst"),
            "preremove": scripts.join("prerm"),
            "postremove": scripts.join("postrm"),
        },
    });
    match package.kind {
        Kind::Deb => description["deb"] = json!({ "compression": "xz" }),
        Kind::Rpm => {
            description["rpm"] = json!({
                "summary": summary,
                "compression": "xz",
                "packager": maintainer,
                "group": "System Environment/Daemons",
                "buildhost": "localhost",
            });
        }
    }
    // YAML takes JSON.
    staging.write("nfpm.yaml", serde_json::to_vec_pretty(&description)?)
}

/// Files that are the same in all packages of a target.
pub struct Beside {
    /// The folder of manual pages, completions and schemas.
    pub share: PathBuf,
    /// The notices of others whose work is in the program.
    pub notices: String,
}

impl Beside {
    /// Gathers them; the folder is made already.
    pub fn of(target: &str, share: &Path) -> Result<Self> {
        Ok(Self { share: share.to_owned(), notices: Bill::of(target)?.notices()? })
    }
}

/// Files on their way into a package.
struct Staging<'a> {
    /// Files that are made are written here.
    folder: &'a Path,
    time: String,
    kind: Kind,
    contents: Vec<Value>,
}

impl Staging<'_> {
    fn fill(&mut self, wad: &Path, beside: &Beside) -> Result<()> {
        let in_repository = |path: &str| exec::root().join(path);
        self.add("/usr/bin/wad", wad, 0o755);
        let unit = in_repository("config/systemd/wad.service");
        self.add("/usr/lib/systemd/system/wad.service", &unit, 0o644);
        self.folder("/etc/wad");
        self.share(&beside.share, "")?;

        let documents = "/usr/share/doc/wad";
        for (place, name) in EXAMPLES {
            self.add(&format!("{documents}/examples/{name}"), &in_repository(place), 0o644);
        }
        self.pack(&format!("{documents}/THIRD-PARTY-NOTICES"), beside.notices.as_bytes())?;
        let changes = in_repository("CHANGELOG.md");
        match self.kind {
            Kind::Deb => {
                self.pack(&format!("{documents}/changelog"), &read(&changes)?)?;
                for (place, name) in [
                    (format!("{documents}/copyright"), "copyright"),
                    ("/usr/share/lintian/overrides/wad".to_owned(), "lintian-overrides"),
                ] {
                    self.add(&place, &in_repository("config/packages/deb").join(name), 0o644);
                }
            }
            Kind::Rpm => {
                for place in OWN_FOLDERS {
                    self.folder(place);
                }
                self.add(&format!("{documents}/CHANGELOG.md"), &changes, 0o644);
                for file in ["LICENSE-APACHE", "LICENSE-MIT"] {
                    self.add(
                        &format!("/usr/share/licenses/wad/{file}"),
                        &in_repository(file),
                        0o644,
                    );
                }
            }
        }
        Ok(())
    }

    /// Adds what is made from the program's tables, below /usr/share.
    fn share(&mut self, folder: &Path, below: &str) -> Result<()> {
        let failed = || folder.display().to_string();
        let mut entries = Vec::new();
        for entry in fs::read_dir(folder).with_context(failed)? {
            entries.push(entry.with_context(failed)?.path());
        }
        entries.sort();
        for path in entries {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let place = format!("{below}/{name}");
            if path.is_dir() {
                self.share(&path, &place)?;
            } else if place.starts_with("/man/") {
                self.pack(&format!("/usr/share{place}"), &read(&path)?)?;
            } else if self.kind == Kind::Deb && place.starts_with("/zsh/") {
                // Debian's zsh looks there for what packages bring.
                self.add(&format!("/usr/share/zsh/vendor-completions/{name}"), &path, 0o644);
            } else {
                self.add(&format!("/usr/share{place}"), &path, 0o644);
            }
        }
        Ok(())
    }

    fn folder(&mut self, place: &str) {
        self.contents.push(json!({
            "dst": place, "type": "dir", "file_info": { "mode": 0o755, "mtime": self.time },
        }));
    }

    fn add(&mut self, place: &str, from: &Path, mode: u32) {
        let is_document =
            ["/usr/share/doc/", "/usr/share/man/"].iter().any(|folder| place.starts_with(folder));
        // RPM knows which files may be left out; Debian has its places for them.
        let class = match place {
            _ if place.starts_with("/usr/share/licenses/") => "licence",
            _ if is_document && self.kind == Kind::Rpm => "doc",
            _ => "",
        };
        self.contents.push(json!({
            "src": from, "dst": place, "type": class,
            "file_info": { "mode": mode, "mtime": self.time },
        }));
    }

    /// Adds a file that is packed, as readers of documents take it.
    fn pack(&mut self, place: &str, bytes: &[u8]) -> Result<()> {
        let name = place.rsplit('/').next().unwrap_or_default();
        let packed = self.write(&format!("{name}.gz"), gzip(bytes)?)?;
        self.add(&format!("{place}.gz"), &packed, 0o644);
        Ok(())
    }

    fn write(&self, name: &str, bytes: Vec<u8>) -> Result<PathBuf> {
        fs::create_dir_all(self.folder).with_context(|| self.folder.display().to_string())?;
        let path = self.folder.join(name);
        fs::write(&path, bytes).with_context(|| path.display().to_string())?;
        Ok(path)
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| path.display().to_string())
}
