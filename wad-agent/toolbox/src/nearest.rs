//! A name that nobody knows may be a slip of one that somebody does.

use strsim::damerau_levenshtein;

/// Returns the known name that is nearest to what is written, if it may have been meant: a
/// third of its letters may be wrong, and all of their case.
pub fn nearest<'k>(written: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let folded = written.to_lowercase();
    let near = known
        .into_iter()
        // A long text is no slip, and would take long to compare.
        .filter(|known| written.len() <= 2 * known.len())
        .map(|known| (damerau_levenshtein(&folded, &known.to_lowercase()), known))
        .filter(|(distance, known)| *distance <= known.len().div_ceil(3));
    near.min().map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_slip_is_told_from_another_word() {
        let known = ["CurCwnd", "SmoothedRTT", "remote", "remote_port"];
        for (written, meant) in [
            ("CurCwmd", Some("CurCwnd")),
            ("curcwnd", Some("CurCwnd")),
            ("SmothedRTT", Some("SmoothedRTT")),
            ("remote_prot", Some("remote_port")),
            ("remot", Some("remote")),
            ("rmtoe", Some("remote")),
            ("local", None),
            ("", None),
        ] {
            assert_eq!(nearest(written, known), meant, "{written}");
        }
        assert_eq!(nearest(&"remote".repeat(100_000), known), None);
        assert_eq!(nearest("a", []), None);
    }
}
