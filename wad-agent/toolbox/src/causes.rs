//! Errors with their causes, in one line.

use std::error::Error;

/// Most of an error that another program has a part in.
const MAX_TOLD_CHARS: usize = 1000;

/// An error and its causes, without those that it has told of already.
pub fn with_causes(error: &anyhow::Error) -> String {
    joined(error.chain())
}

/// Returns an error with its causes in one line that has an end: some of it is what a
/// service sent.
pub fn told(error: &(dyn Error + 'static)) -> String {
    let escaped = |c: char| match c.is_control() {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    joined(anyhow::Chain::new(error)).chars().take(MAX_TOLD_CHARS).map(escaped).collect()
}

fn joined<'e>(chain: impl Iterator<Item = &'e (dyn Error + 'static)>) -> String {
    chain.map(ToString::to_string).fold(String::new(), |told, cause| {
        if told.is_empty() {
            cause
        } else if told.contains(&cause) {
            told
        } else {
            format!("{told}: {cause}")
        }
    })
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_cause_is_told_once() {
        let cause = || anyhow::Error::from(io::Error::from_raw_os_error(2));
        let plain = cause().context("cannot open x");
        assert_eq!(with_causes(&plain), "cannot open x: No such file or directory (os error 2)");
        let full =
            cause().context("cannot open x: No such file or directory (os error 2); mount it");
        assert_eq!(with_causes(&full), full.to_string());
    }
}
