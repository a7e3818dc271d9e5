//! Errors say what is wrong with a configuration file as a whole.

use std::{io, path::PathBuf};

use super::report::Mistake;

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read the configuration {} (--config FILE names another)", file.display())]
    Read { file: PathBuf, source: io::Error },

    #[error("cannot read {} (is /proc mounted?)", file.display())]
    Host { file: PathBuf, source: io::Error },

    #[error(
        "{} is larger than {} MiB, which is room for more paths than wad takes: is it a configuration file?",
        file.display(),
        most_bytes >> 20
    )]
    TooLarge { file: PathBuf, most_bytes: usize },

    #[error(
        "{}:{line}:{column}: byte {offset} is not UTF-8 text: is it a configuration file?",
        file.display()
    )]
    NotUtf8 { file: PathBuf, line: usize, column: usize, offset: usize },

    /// All errors of the file, each with its place shown.
    #[error("{file} is refused: {}\n\n{report}", counted(*errors))]
    Invalid { file: String, errors: usize, report: String, mistakes: Vec<Mistake> },
}

fn counted(errors: usize) -> String {
    match errors {
        1 => "1 error".to_owned(),
        more => format!("{more} errors"),
    }
}
