//! Writes the pages of the book's reference into a folder, for `cargo xtask book`.

use std::{env, fs, path::PathBuf, process::ExitCode};

fn main() -> ExitCode {
    let Some(folder) = env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: reference FOLDER");
        return ExitCode::FAILURE;
    };
    for page in wad_commands::reference::pages() {
        let file = folder.join(page.file);
        if let Err(error) = fs::write(&file, page.text) {
            eprintln!("{}: {error}", file.display());
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
