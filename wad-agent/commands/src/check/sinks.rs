//! Says which files of sinks cannot be written as the host is now. Until they can, events wait in
//! the spool: so it is no error.

use std::{io, path::Path};

use wad_policy::config::{Config, Sink, SinkKind, Texts, line_of_named};

use super::place;

/// Returns a sentence for each, with the line that names the file.
pub fn files(config: &Config, texts: &Texts) -> Vec<String> {
    let sentence = |sink: &Sink| {
        let SinkKind::File(file) = &sink.kind else { return None };
        let fault = fault(&file.path)?;
        let line = line_of_named(texts, "sink", (&sink.name, "path"));
        let place = place(line);
        let name = &sink.name;
        Some(format!("sink {name}{place}: {fault}: events wait in its spool until that is mended"))
    };
    config.sinks.iter().filter_map(sentence).collect()
}

/// Returns what keeps a file from being written, as far as others than its owner see that.
fn fault(file: &Path) -> Option<String> {
    if file.is_symlink() {
        return Some(format!("{} is a symbolic link, which is not followed", file.display()));
    }
    if file.is_dir() {
        return Some(format!("{} is a folder", file.display()));
    }
    let folder = file.parent()?;
    match folder.metadata() {
        Ok(found) if !found.is_dir() => Some(format!("{} is no folder", folder.display())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Some(format!("there is no folder {}", folder.display()))
        }
        Ok(_) | Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use wad_policy::config::Host;

    use super::*;

    #[test]
    fn files_that_cannot_be_written_are_told_with_their_lines() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().display();
        let sink = |name| format!("[[sink]]\nname = '{name}'\nkind = 'file'\npath = '{folder}");
        let text = [
            sink("good") + "/good.jsonl'\n",
            sink("folder") + "'\n",
            sink("nowhere") + "/none/x'\n",
            sink("below") + "/file/x'\n",
            sink("link") + "/link'\n",
        ]
        .concat();
        fs::write(format!("{folder}/file"), "").unwrap();
        symlink("file", format!("{folder}/link")).unwrap();
        let texts = Texts::of("wad.toml", &text);
        let config = Config::check(&texts, &Host::default()).unwrap();
        let expected = [
            format!("sink folder (wad.toml:8): {folder} is a folder"),
            format!("sink nowhere (wad.toml:12): there is no folder {folder}/none"),
            format!("sink below (wad.toml:16): {folder}/file is no folder"),
            format!(
                "sink link (wad.toml:20): {folder}/link is a symbolic link, which is not followed"
            ),
        ];
        let expected = expected.map(|it| it + ": events wait in its spool until that is mended");
        assert_eq!(files(&config, &texts), expected);
    }
}
