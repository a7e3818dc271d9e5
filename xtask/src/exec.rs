//! Other programs are run here, and things are found.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs, io,
    os::unix::{fs::MetadataExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};

/// Returns the root of the repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a folder of the repository")
}

/// Returns the outer cargo's target folder.
pub fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Returns the path relative to the root of the repository, or the whole path if it is elsewhere.
pub fn from_root(path: &Path) -> &Path {
    path.strip_prefix(root()).unwrap_or(path)
}

/// Returns a cargo of the toolchain that runs this program, at the root.
pub fn cargo(arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(cargo);
    command.args(arguments).current_dir(root());
    // The outer cargo says of which package this program is. A build script that looks there
    // (ring's) would run again, and all that takes its crate be compiled again, whenever cargo is
    // now run by this program, now by hand.
    let is_of_package = |name: &OsString| {
        let name = name.as_encoded_bytes();
        name.starts_with(b"CARGO_PKG_") || name.starts_with(b"CARGO_MANIFEST_")
    };
    for (name, _) in env::vars_os().filter(|(name, _)| is_of_package(name)) {
        command.env_remove(name);
    }
    command
}

/// Returns a program of ours, started at the root.
pub fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root());
    command
}

/// Runs a command to its end.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {}", words(command)))?;
    if !status.success() {
        bail!("{} failed: {status}", words(command));
    }
    Ok(())
}

/// Runs a command whose output is not the result that the user asked for: all
/// of it goes to standard error.
pub fn prepare(command: &mut Command) -> Result<()> {
    run(command.stdout(Stdio::from(io::stderr())))
}

/// Returns what a command prints, if it succeeds.
pub fn output(command: &mut Command) -> Option<String> {
    let output = command.stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Becomes the command, which then gets the user's signals itself.
pub fn become_command(command: &mut Command) -> Result<()> {
    let error = command.exec();
    Err(error).with_context(|| format!("cannot start {}", words(command)))
}

/// Tells whether this process is root's.
pub fn is_root() -> Result<bool> {
    Ok(fs::metadata("/proc/self").context("/proc/self")?.uid() == 0)
}

/// Returns where a program is: in PATH, or in the folders for administrators, which
/// PATH may leave out.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let administrators = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    env::split_paths(&path)
        .chain(administrators)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

fn words(command: &Command) -> String {
    let words: Vec<_> = [command.get_program()].into_iter().chain(command.get_args()).collect();
    format!("`{}`", words.join(OsStr::new(" ")).display())
}
