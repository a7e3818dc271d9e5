//! The texts of a configuration, of one file or several. Together they are as one, but that
//! every error names its own.

use serde::{Deserialize, Serialize};

/// The texts, in their order: at least one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Texts(Vec<Text>);

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Text {
    /// The name by which errors show it.
    pub file: String,
    pub text: String,
}

impl Texts {
    /// One text.
    #[must_use]
    pub fn of(file: &str, text: &str) -> Self {
        Self(vec![Text { file: file.to_owned(), text: text.to_owned() }])
    }

    pub(super) const fn all(texts: Vec<Text>) -> Self {
        Self(texts)
    }

    /// Returns the name of the file itself.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.first().map_or("", |text| &text.file)
    }

    /// Returns the names of those from the folder.
    pub fn fragments(&self) -> impl Iterator<Item = &str> {
        self.0.iter().skip(1).map(|text| text.file.as_str())
    }

    /// Returns each text and where it begins, as spans count: all of them in a row, with a
    /// byte between two, so that the end of one is not the beginning of the next.
    pub(super) fn parts(&self) -> impl DoubleEndedIterator<Item = (usize, &Text)> {
        let mut next = 0;
        let parts: Vec<_> = self
            .0
            .iter()
            .map(|text| {
                let begin = next;
                next += text.text.len() + 1;
                (begin, text)
            })
            .collect();
        parts.into_iter()
    }
}
