//! The form in which experiments are kept: a line of JSON, with the version of
//! the form, and no longer than a bound.

use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// Another form has another version.
const VERSION: u32 = 1;

/// No state is longer; the longest experiment has 0.8 MB.
pub const MOST_BYTES: usize = 32 << 20;

/// Says why a state is not taken.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    #[error("it has {bytes} bytes, and no state has more than {MOST_BYTES}")]
    TooLong { bytes: usize },
    #[error("it is of version {version}, and this is of version {VERSION}")]
    OtherVersion { version: u32 },
    #[error("it is damaged")]
    Damaged(#[from] serde_json::Error),
}

#[derive(Serialize, Deserialize)]
struct Versioned<T> {
    version: u32,
    state: T,
}

#[derive(Deserialize)]
struct Version {
    version: u32,
}

/// Returns the state as it is kept.
pub fn text<T: Serialize>(state: &T) -> Vec<u8> {
    // Its maps have texts as keys, and its numbers are finite: there is nothing to fail at.
    serde_json::to_vec(&Versioned { version: VERSION, state }).unwrap_or_default()
}

/// Returns the state that was kept.
pub fn read<T: DeserializeOwned>(text: &[u8]) -> Result<T, Unreadable> {
    if text.len() > MOST_BYTES {
        return Err(Unreadable::TooLong { bytes: text.len() });
    }
    let Version { version } = serde_json::from_slice(text)?;
    if version != VERSION {
        return Err(Unreadable::OtherVersion { version });
    }
    Ok(serde_json::from_slice::<Versioned<T>>(text)?.state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_state_of_ours_is_refused() {
        assert_eq!(read::<u8>(&text(&7_u8)).unwrap(), 7);
        let told = |text: &[u8]| read::<u8>(text).unwrap_err().to_string();
        assert_eq!(
            told(br#"{"version": 2, "state": {"new": []}}"#),
            "it is of version 2, and this is of version 1"
        );
        assert_eq!(told(b"{"), "it is damaged");
        assert_eq!(
            told(&vec![b' '; MOST_BYTES + 1]),
            "it has 33554433 bytes, and no state has more than 33554432"
        );
    }
}
