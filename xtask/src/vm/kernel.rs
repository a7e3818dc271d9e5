//! Debian's kernels for virtual machines, `linux-image-cloud-amd64`, are each the
//! newest of a suite: a version by its number would be gone from the archive before
//! long.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

use super::apt::Suite;
use crate::exec;

const PACKAGE: &str = "linux-image-cloud-amd64";

/// A kernel that is asked for.
pub struct Wanted {
    /// The name that the user gives it.
    pub name: &'static str,
    pub suite: &'static str,
    /// Tells whether the command fails where this kernel does not pass.
    pub gates: bool,
    /// Tells whether the kernel may be given a congestion control by BPF.
    pub has_struct_ops: bool,
    /// The parameters that the kernel is told when it boots.
    pub parameters: &'static str,
}

/// From 7.0 on the storage of sockets comes from kmalloc_nolock(), which finds none
/// on a processor without cmpxchg16b but where allocations are checked.
const CHECKED: &str = "slab_debug=F,kmalloc-*";

/// This list has all kernels, oldest first. What sid holds may be broken without a
/// change of ours.
pub const ALL: [Wanted; 4] = [
    Wanted { name: "5.10", suite: "bullseye", gates: true, has_struct_ops: false, parameters: "" },
    Wanted { name: "6.1", suite: "bookworm", gates: true, has_struct_ops: true, parameters: "" },
    Wanted { name: "6.12", suite: "trixie", gates: true, has_struct_ops: true, parameters: "" },
    Wanted { name: "sid", suite: "sid", gates: false, has_struct_ops: true, parameters: CHECKED },
];

/// Returns the kernel of that name.
pub fn named(name: &str) -> Result<&'static Wanted> {
    let wanted = ALL.iter().find(|wanted| wanted.name == name);
    wanted.with_context(|| format!("{name} is not in the list of kernels"))
}

/// A kernel that was fetched and unpacked.
pub struct Kernel {
    /// The release as `uname -r` prints it.
    pub release: String,
    pub image: PathBuf,
    /// The kernel's `lib/modules/RELEASE`.
    modules: PathBuf,
}

impl Kernel {
    /// Fetches what is not there yet.
    pub fn fetch(wanted: &Wanted, folder: &Path) -> Result<Self> {
        let suite = Suite::open(wanted.suite, folder.join("apt").join(wanted.suite))?;
        let packages = packages(&suite)?;
        // An unpacked kernel is complete, as it gets its name last.
        let kernels = folder.join("kernels").join(wanted.suite);
        let unpacked = kernels.join(&packages[0]);
        if !unpacked.exists() {
            // What the suite held before is of no use any more.
            let _ = fs::remove_dir_all(&kernels);
            let partial = kernels.join("partial");
            unpack(&suite, &packages, &partial)?;
            fs::rename(&partial, &unpacked).with_context(|| unpacked.display().to_string())?;
        }
        Self::find(&unpacked)
    }

    fn find(root: &Path) -> Result<Self> {
        // Where everything is under /usr, so are the modules.
        let folder = ["usr/lib/modules", "lib/modules"].map(|path| root.join(path));
        let entry = folder.iter().find_map(|path| fs::read_dir(path).ok()?.next()?.ok());
        let entry = entry.with_context(|| format!("no modules in {}", root.display()))?;
        let release = entry.file_name().to_string_lossy().into_owned();
        let modules = entry.path();
        let image = [root.join(format!("boot/vmlinuz-{release}")), modules.join("vmlinuz")];
        let image = image.into_iter().find(|path| path.exists());
        let image = image.with_context(|| format!("no kernel in {}", root.display()))?;
        Ok(Self { release, image, modules })
    }

    /// Copies modules whose names fit, with those that they need, to
    /// `ROOT/lib/modules/RELEASE`, uncompressed and indexed. Returns that folder.
    pub fn copy_modules(&self, root: &Path, fits: impl Fn(&str) -> bool) -> Result<PathBuf> {
        let to = root.join("lib/modules").join(&self.release);
        let index = self.modules.join("modules.dep");
        let text = fs::read_to_string(&index).with_context(|| index.display().to_string())?;
        for file in needed(&text, fits) {
            copy_module(&self.modules.join(file), &to.join(file))?;
        }
        for list in ["modules.order", "modules.builtin", "modules.builtin.modinfo"] {
            let from = self.modules.join(list);
            if from.exists() {
                fs::copy(&from, to.join(list)).with_context(|| from.display().to_string())?;
            }
        }
        depmod(root, &self.release)?;
        Ok(to)
    }
}

/// Returns the packages that are the kernel: the image that the suite's newest depends
/// on, first, and what that was split into.
fn packages(suite: &Suite) -> Result<Vec<String>> {
    let newest = suite.show(PACKAGE)?;
    let image = dependencies(&newest)
        .find(|package| package.starts_with("linux-image-"))
        .with_context(|| format!("{PACKAGE} names no kernel:\n{newest}"))?
        .to_owned();
    let shown = suite.show(&image)?;
    let parts = dependencies(&shown)
        .filter(|name| name.starts_with("linux-binary-") || name.starts_with("linux-modules-"));
    let version = field(&shown, "Version").unwrap_or_default();
    let names = [image.as_str()].into_iter().chain(parts);
    Ok(names.map(|name| format!("{name}={version}")).collect())
}

pub fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

/// Returns the names of the packages that one depends on, without versions and
/// alternatives.
pub fn dependencies(text: &str) -> impl Iterator<Item = &str> {
    let list = field(text, "Depends").unwrap_or_default();
    let names = list.split(", ").filter_map(|dependency| dependency.split(' ').next());
    names.filter(|name| !name.is_empty())
}

/// Fetches packages, and puts what is in them into a folder.
pub fn extract(suite: &Suite, packages: &[String], into: &Path) -> Result<()> {
    let archives = into.join("archives");
    fs::create_dir_all(&archives).with_context(|| archives.display().to_string())?;
    suite.download(packages, &archives)?;
    for entry in fs::read_dir(&archives)? {
        let archive = entry?.path();
        exec::prepare(Command::new("dpkg-deb").arg("--extract").arg(&archive).arg(into))?;
    }
    fs::remove_dir_all(&archives).with_context(|| archives.display().to_string())
}

fn unpack(suite: &Suite, packages: &[String], into: &Path) -> Result<()> {
    extract(suite, packages, into)?;
    let kernel = Kernel::find(into)?;
    // depmod looks in lib/modules only.
    if !into.join("lib").exists() {
        std::os::unix::fs::symlink("usr/lib", into.join("lib"))?;
    }
    depmod(into, &kernel.release)
}

fn depmod(root: &Path, release: &str) -> Result<()> {
    let program = exec::find_program("depmod").context("depmod is missing")?;
    exec::prepare(Command::new(program).arg("--basedir").arg(root).arg(release))
}

/// Returns the files of the modules whose names fit, and of those that they need: each
/// line of modules.dep has a module's file, and after a colon all that it needs.
fn needed(index: &str, fits: impl Fn(&str) -> bool) -> Vec<&str> {
    let lines = index.lines().filter_map(|line| line.split_once(':'));
    let wanted = lines.filter(|(file, _)| fits(module_name(file)));
    let mut files: Vec<&str> = wanted
        .flat_map(|(file, needs)| [file].into_iter().chain(needs.split_whitespace()))
        .collect();
    files.sort_unstable();
    files.dedup();
    files
}

fn module_name(file: &str) -> &str {
    let name = file.rsplit('/').next().unwrap_or_default();
    name.split('.').next().unwrap_or_default()
}

/// Copies a module under the same name: to be loaded from, what an index calls `.xz`
/// may be plain only if it is called so.
fn copy_module(from: &Path, to: &Path) -> Result<()> {
    let failed = || from.display().to_string();
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).with_context(failed)?;
    }
    match from.extension().and_then(|extension| extension.to_str()) {
        Some("ko") => fs::copy(from, to).map(drop).with_context(failed),
        Some("xz") => {
            let plain = Command::new("xz").args(["--decompress", "--stdout"]).arg(from).output();
            let plain = plain.with_context(failed)?;
            if !plain.status.success() {
                bail!("xz cannot read {}", from.display());
            }
            fs::write(to.with_extension(""), plain.stdout).with_context(failed)
        }
        _ => bail!("{}: an unknown kind of module", from.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_is_found_through_what_depends_on_it() {
        let text = "Package: linux-image-cloud-amd64\nVersion: 6.1-2\n\
                    Depends: linux-base (= 6.1-2), linux-image-6.1-cloud-amd64 (= 6.1-2) | x\n";
        let names: Vec<_> = dependencies(text).collect();
        assert_eq!(names, ["linux-base", "linux-image-6.1-cloud-amd64"]);
        assert_eq!(dependencies("Package: base-files\n").count(), 0);
        assert_eq!(field(text, "Version"), Some("6.1-2"));
    }

    #[test]
    fn modules_come_with_those_that_they_need() {
        let index = "kernel/a/tcp_one.ko.xz:\nkernel/b/two.ko: kernel/c/four.ko kernel/a/tcp_one.ko.xz\n\
                     kernel/c/three.ko:\nkernel/c/four.ko:\n";
        let files = needed(index, |name| name == "two" || name.starts_with("tcp_"));
        assert_eq!(files, ["kernel/a/tcp_one.ko.xz", "kernel/b/two.ko", "kernel/c/four.ko"]);
    }
}
