//! Says which files of sinks and traces cannot be written as the host is now. Both are tried again,
//! and events wait in a spool: so it is no error.

use std::{io, path::Path};

use wad_observing::trace::files::may_replace;
use wad_policy::config::{Config, Sink, SinkKind, Texts, Trace, line_of_named};

use super::place;

/// Returns a sentence for each, with the line that names the file.
pub fn files(config: &Config, texts: &Texts) -> Vec<String> {
    let of_sink = |sink: &Sink| {
        let SinkKind::File(file) = &sink.kind else { return None };
        let fault = link_fault(&file.path).or_else(|| fault(&file.path))?;
        let place = place(line_of_named(texts, "sink", (&sink.name, "path")));
        let name = &sink.name;
        Some(format!("sink {name}{place}: {fault}: events wait in its spool until that is mended"))
    };
    let of_trace = |trace: &Trace| {
        let fault = fault(&trace.file).or_else(|| other_fault(&trace.file))?;
        let place = place(line_of_named(texts, "trace", (&trace.name, "file")));
        let name = &trace.name;
        Some(format!("trace {name}{place}: {fault}: nothing is written until that is mended"))
    };
    let sinks = config.sinks.iter().filter_map(of_sink);
    sinks.chain(config.traces.iter().filter_map(of_trace)).collect()
}

/// Returns what keeps a sink from its file, whose links are not followed.
fn link_fault(file: &Path) -> Option<String> {
    let is_link = file.is_symlink();
    is_link.then(|| format!("{} is a symbolic link, which is not followed", file.display()))
}

/// Returns what keeps a trace from a file that is there already.
fn other_fault(file: &Path) -> Option<String> {
    let is_other = may_replace(file).is_ok_and(|may_replace| !may_replace);
    is_other.then(|| format!("{} is there, and is no trace", file.display()))
}

/// Returns what keeps a file from being written, as far as others than its owner see that.
fn fault(file: &Path) -> Option<String> {
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

    #[test]
    fn traces_that_cannot_be_written_are_told_as_well() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().display();
        let trace = |name| format!("[[trace]]\nname = '{name}'\nfile = '{folder}");
        let text = [
            trace("good") + "/good.jsonl'\n",
            trace("folder") + "'\n",
            trace("nowhere") + "/none/x'\n",
            trace("below") + "/file/x'\n",
            trace("other") + "/file'\n",
        ]
        .concat();
        fs::write(format!("{folder}/file"), "other\n").unwrap();
        let texts = Texts::of("wad.toml", &text);
        let config = Config::check(&texts, &Host::default()).unwrap();
        let expected = [
            format!("trace folder (wad.toml:6): {folder} is a folder"),
            format!("trace nowhere (wad.toml:9): there is no folder {folder}/none"),
            format!("trace below (wad.toml:12): {folder}/file is no folder"),
            format!("trace other (wad.toml:15): {folder}/file is there, and is no trace"),
        ];
        let expected = expected.map(|it| it + ": nothing is written until that is mended");
        assert_eq!(files(&config, &texts), expected);
    }
}
