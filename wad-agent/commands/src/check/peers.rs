//! Says what is wrong with the files of `[peers]` now. They may be replaced any time, and `wad run`
//! waits for those that it can use: so it is no error.

use wad_peers::{FileFault, file_faults};
use wad_policy::config::{Config, Texts, line_of};

use super::place;

/// Returns a sentence for each fault, with the line that names the file.
pub fn files(config: &Config, texts: &Texts) -> Vec<String> {
    let Some(peers) = &config.peers else { return Vec::new() };
    let faults = file_faults(peers).into_iter();
    faults.map(|fault| sentence(&fault, line_of(texts, "peers", fault.key))).collect()
}

fn sentence(
    FileFault { key, why, is_denied }: &FileFault,
    line: Option<(String, usize)>,
) -> String {
    let place = place(line);
    let follows = if *is_denied {
        "whether it can be used is not known here"
    } else {
        "until that is mended no peer is heard, or those before count"
    };
    format!("[peers] {key}{place}: {why}: {follows}")
}

#[cfg(test)]
mod tests {
    use wad_policy::config::Host;

    use super::*;

    #[test]
    fn a_file_that_cannot_be_used_is_told_with_its_line() {
        let text = "[peers]\ncertificate = '/nowhere/host.crt'\nkey = '/nowhere/host.key'\n\
                    ca = '/nowhere/ca.crt'\n[[peer]]\nname = 'b'\nidentity = 'wad://b'\n\
                    address = 'b'\n";
        let texts = Texts::of("wad.toml", text);
        let config = Config::check(&texts, &Host::default()).unwrap();
        let said = files(&config, &texts);
        assert_eq!(said.len(), 3, "{said:?}");
        let begins = "[peers] key (wad.toml:3): cannot read /nowhere/host.key: ";
        assert!(said[1].starts_with(begins), "{said:?}");
        assert!(said[1].ends_with("no peer is heard, or those before count"), "{said:?}");
        let denied = FileFault { key: "key", why: "cannot read it".to_owned(), is_denied: true };
        assert!(sentence(&denied, None).ends_with("is not known here"));
        let nothing = Config::parse("wad.toml", "", &Host::default()).unwrap();
        assert!(files(&nothing, &texts).is_empty());
    }
}
