//! Says what is wrong with the certificate of `[metrics]` now. The file is right or wrong wherever it
//! is checked, also where there is no certificate: so it is no error.

use wad_agent::api::Guard;
use wad_policy::config::{Config, Texts, line_of};
use wad_toolbox::causes::told;

use super::place;

/// Returns a sentence, if something is, with the line that names the file.
pub fn files(config: &Config, texts: &Texts) -> Vec<String> {
    let Some(identity) = &config.metrics.guard.identity else { return Vec::new() };
    let Err(error) = Guard::new(&config.metrics.guard) else { return Vec::new() };
    let is_key = error.file() == Some(&identity.key);
    let key = if is_key { "certificate_key" } else { "certificate" };
    let line = line_of(texts, "metrics", key);
    let place = place(line);
    let follows = if error.is_denied() {
        "whether it can be used is not known here"
    } else {
        "`wad run` and `wad reload` refuse it until that is mended"
    };
    vec![format!("[metrics] {key}{place}: {}: {follows}", told(&error))]
}

#[cfg(test)]
mod tests {
    use std::fs;

    use wad_policy::config::{Host, testing::root};

    use super::*;

    #[test]
    fn files_that_cannot_be_used_are_told_with_their_lines() {
        let folder = tempfile::tempdir().unwrap();
        let [certificate, key] = ["a.pem", "a.key"].map(|name| folder.path().join(name));
        let text = format!(
            "[metrics]\ncertificate = '{}'\ncertificate_key = '{}'\n",
            certificate.display(),
            key.display()
        );
        let texts = Texts::of("wad.toml", &text);
        let config = Config::check(&texts, &Host::default()).unwrap();
        let said = || files(&config, &texts).concat();
        let begins =
            format!("[metrics] certificate (wad.toml:2): cannot read {}", certificate.display());
        assert!(said().starts_with(&begins), "{}", said());
        assert!(said().ends_with("refuse it until that is mended"), "{}", said());
        let good = root().join("wad-agent/agent/src/pods/testdata/server.pem");
        fs::copy(good, &certificate).unwrap();
        let begins =
            format!("[metrics] certificate_key (wad.toml:3): cannot read {}", key.display());
        assert!(said().starts_with(&begins), "{}", said());
        let plain = Texts::of("wad.toml", "");
        let config = Config::check(&plain, &Host::default()).unwrap();
        assert_eq!(files(&config, &plain), [""; 0]);
    }
}
