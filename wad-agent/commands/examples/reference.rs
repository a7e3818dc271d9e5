//! Writes what is made from the program's own tables into a folder: the pages of the
//! book's reference, for `cargo xtask book`, or what is installed beside the program, for
//! `cargo xtask dist`.

use std::{
    env, fs,
    io::{Error, Result},
    path::{Path, PathBuf},
    process::ExitCode,
};

use wad_commands::reference::{pages, share};

fn main() -> ExitCode {
    let mut words = env::args_os().skip(1);
    let write: fn(&Path) -> Result<()> = match words.next().as_deref().and_then(|it| it.to_str()) {
        Some("pages") => write_pages,
        Some("share") => write_share,
        _ => return usage(),
    };
    let Some(folder) = words.next().map(PathBuf::from) else { return usage() };
    match write(&folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    eprintln!("usage: reference pages FOLDER, reference share FOLDER");
    ExitCode::FAILURE
}

fn write_pages(folder: &Path) -> Result<()> {
    pages().iter().try_for_each(|page| write(&folder.join(page.file), page.text.as_bytes()))
}

fn write_share(folder: &Path) -> Result<()> {
    share::files().iter().try_for_each(|file| write(&folder.join(&file.place), &file.text))
}

fn write(file: &Path, bytes: &[u8]) -> Result<()> {
    let folder = file.parent().unwrap_or(file);
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(file, bytes))
        .map_err(|error| Error::new(error.kind(), format!("{}: {error}", file.display())))
}
