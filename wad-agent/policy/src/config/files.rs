//! The files of a configuration: the one that is named, then those of the folder `conf.d`
//! beside it, in the order of their names.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use wad_toolbox::others_file;

use super::{
    ConfigError,
    texts::{Text, Texts},
};

/// Most bytes of all texts together: 256 for each of the most paths that there can be.
pub const MAX_BYTES: usize = 32 << 20;
/// The folder beside the file.
const FOLDER: &str = "conf.d";
const ENDING: &str = "toml";

impl Texts {
    /// Reads a file, and what is in the folder beside it.
    ///
    /// # Errors
    /// Where one cannot be read, is no text, or all are too large together.
    pub fn read(file: &Path) -> Result<Self, ConfigError> {
        let mut texts = Vec::new();
        let mut room = MAX_BYTES;
        for file in std::iter::once(file.to_owned()).chain(fragments(file)?) {
            let text = read(&file, room)?;
            room -= text.len();
            texts.push(Text { file: file.display().to_string(), text });
        }
        Ok(Self::all(texts))
    }
}

/// Returns the folder of more files beside that of a configuration.
#[must_use]
pub fn folder(file: &Path) -> PathBuf {
    file.with_file_name(FOLDER)
}

/// Whether a file of this name in the folder is read: one that an editor, or a ConfigMap of
/// Kubernetes, keeps beside the others is not.
#[must_use]
pub fn is_fragment(name: &Path) -> bool {
    let is_hidden = name.as_os_str().as_encoded_bytes().starts_with(b".");
    !is_hidden && name.extension().is_some_and(|ending| ending == ENDING)
}

/// Returns the files in the folder, in the order of their names; none without a folder.
///
/// # Errors
/// Where the folder is there, and cannot be read.
pub fn fragments(file: &Path) -> Result<Vec<PathBuf>, ConfigError> {
    let folder = folder(file);
    let read_error = |source| ConfigError::Read { file: folder.clone(), source };
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        // Also beside a file such as /dev/stdin, or in a folder that is a file.
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            return Ok(Vec::new());
        }
        Err(error) => return Err(read_error(error)),
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry.map_err(read_error)?;
        // What leads nowhere is an error when it is read. /dev/null hides a file.
        let is_file = fs::metadata(entry.path()).map_or(true, |it| it.is_file());
        if is_fragment(Path::new(&entry.file_name())) && is_file {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

/// Returns the text of a file, of so many bytes at most.
fn read(file: &Path, most_bytes: usize) -> Result<String, ConfigError> {
    let read_error =
        |error| ConfigError::Read { file: file.to_owned(), source: others_file::told(file, error) };
    let mut bytes = Vec::new();
    let limit = most_bytes as u64 + 1;
    File::open(file)
        .and_then(|open| open.take(limit).read_to_end(&mut bytes))
        .map_err(read_error)?;
    if bytes.len() > most_bytes {
        return Err(ConfigError::TooLarge { file: file.to_owned(), most_bytes: MAX_BYTES });
    }
    String::from_utf8(bytes).map_err(|error| {
        let offset = error.utf8_error().valid_up_to();
        let before = &error.as_bytes()[..offset];
        let line_start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        ConfigError::NotUtf8 {
            file: file.to_owned(),
            line: 1 + before.iter().filter(|&&byte| byte == b'\n').count(),
            column: 1 + String::from_utf8_lossy(&before[line_start..]).chars().count(),
            offset,
        }
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn fragments_are_read_after_the_file_in_the_order_of_their_names() {
        let folder = tempfile::tempdir().unwrap();
        let main = folder.path().join("wad.toml");
        fs::write(&main, "main").unwrap();
        let read = || -> Vec<String> {
            Texts::read(&main).unwrap().parts().map(|(_, text)| text.text.clone()).collect()
        };
        assert_eq!(read(), ["main"]);
        let more = folder.path().join("conf.d");
        fs::create_dir_all(more.join("folder.toml")).unwrap();
        for name in ["20-b.toml", "10-a.toml", ".10-a.toml.swp", ".hidden.toml", "note.md"] {
            fs::write(more.join(name), name).unwrap();
        }
        symlink("20-b.toml", more.join("30-link.toml")).unwrap();
        symlink("/dev/null", more.join("35-null.toml")).unwrap();
        assert_eq!(read(), ["main", "10-a.toml", "20-b.toml", "20-b.toml"]);
        // What is to be read and cannot be is an error, not something left out.
        symlink("nowhere", more.join("40-gone.toml")).unwrap();
        let error = Texts::read(&main).unwrap_err().to_string();
        assert!(error.contains("conf.d/40-gone.toml"), "{error}");
    }

    #[test]
    fn all_together_are_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let main = folder.path().join("wad.toml");
        fs::write(&main, "#\n".repeat(MAX_BYTES / 2)).unwrap();
        assert!(Texts::read(&main).is_ok());
        fs::create_dir(folder.path().join("conf.d")).unwrap();
        fs::write(folder.path().join("conf.d/a.toml"), "#").unwrap();
        let error = Texts::read(&main).unwrap_err();
        assert!(matches!(error, ConfigError::TooLarge { file, .. } if file.ends_with("a.toml")));
    }
}
