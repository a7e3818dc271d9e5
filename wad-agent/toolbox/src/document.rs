//! A document is JSON for other programs, as commands print it with `--json` and as the
//! agent answers: the version of its form comes first.

use schemars::JsonSchema;
use serde::Serialize;

/// A form keeps its number when fields come, which those that read it pass over. It rises
/// when one goes, or has another meaning.
pub const SCHEMA: u32 = 1;

/// Holds what is told, with the version of its form before it.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Document<T> {
    /// The version of this form: it rises if a field goes, or changes its meaning.
    pub schema: u32,
    #[serde(flatten)]
    pub told: T,
}

impl<T> Document<T> {
    pub const fn new(told: T) -> Self {
        Self { schema: SCHEMA, told }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_comes_first() {
        #[derive(Serialize)]
        struct Told {
            name: &'static str,
        }

        let json = serde_json::to_string(&Document::new(Told { name: "bob" })).unwrap();
        assert_eq!(json, r#"{"schema":1,"name":"bob"}"#);
    }
}
