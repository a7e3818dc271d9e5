//! Lines go to a file that is rotated, or to standard output. What is there is always
//! whole: a piece that cannot be written to its end is cut off again.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write},
    os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use nix::fcntl::OFlag;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use wad_toolbox::whole_file;

use super::read;

/// Takes whole lines.
pub trait Out: Send {
    /// Writes all of them or none, and returns how many bytes they took.
    fn write(&mut self, lines: &[u8]) -> io::Result<u64>;

    /// Looks whether lines could be written, as far as that shows without any.
    fn look(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Waits until all of it is where it is to stay.
    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Out for Box<dyn Out> {
    fn write(&mut self, lines: &[u8]) -> io::Result<u64> {
        (**self).write(lines)
    }

    fn look(&mut self) -> io::Result<()> {
        (**self).look()
    }

    fn finish(&mut self) -> io::Result<()> {
        (**self).finish()
    }
}

/// Says how lines are packed. Each piece is a frame of zstd of its own: a file of
/// them is valid up to the last one that is whole.
#[derive(Clone, Copy, Debug)]
pub enum Packing {
    None,
    Zstd,
}

impl Packing {
    fn pack(self, lines: &[u8]) -> Vec<u8> {
        match self {
            Self::None => lines.to_vec(),
            Self::Zstd => compress_to_vec(lines, CompressionLevel::Fastest),
        }
    }
}

/// Something that is not rotated: standard output, a pipe, a device.
pub struct Stream<W> {
    out: W,
    packing: Packing,
}

impl<W: Write> Stream<W> {
    pub fn begin(out: W, packing: Packing, head: &[u8]) -> io::Result<Self> {
        let mut stream = Self { out, packing };
        stream.put(head)?;
        Ok(stream)
    }

    fn put(&mut self, lines: &[u8]) -> io::Result<u64> {
        let piece = self.packing.pack(lines);
        self.out.write_all(&piece)?;
        self.out.flush()?;
        Ok(piece.len() as u64)
    }
}

impl<W: Write + Send> Out for Stream<W> {
    fn write(&mut self, lines: &[u8]) -> io::Result<u64> {
        self.put(lines)
    }
}

/// Bounds say how much is kept.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Most bytes of each file.
    pub max_bytes: u64,
    /// Files, with the one that is written: FILE, FILE.1, ... up to FILE.(keep - 1),
    /// which is the oldest.
    pub keep: u32,
}

/// A file, and those before it.
pub struct Files {
    path: PathBuf,
    packing: Packing,
    bounds: Bounds,
    head: Vec<u8>,
    current: Option<Current>,
}

struct Current {
    file: File,
    /// All of it whole.
    bytes: u64,
}

impl Files {
    /// Begins a file. One that is there becomes the one before it, and is never
    /// appended to: its last line may not be whole.
    pub fn begin(path: &Path, packing: Packing, bounds: Bounds, head: &[u8]) -> io::Result<Self> {
        let mut files = Self::at_first_line(path, packing, bounds, head);
        files.current = Some(files.next()?);
        Ok(files)
    }

    /// Begins a file with the first line that there is, in the same way.
    pub fn at_first_line(path: &Path, packing: Packing, bounds: Bounds, head: &[u8]) -> Self {
        Self { path: path.to_owned(), packing, bounds, head: packing.pack(head), current: None }
    }

    fn next(&self) -> io::Result<Current> {
        self.check_place()?;
        self.make_room()?;
        let file = OpenOptions::new().append(true).create_new(true).open(&self.path)?;
        let mut current = Current { file, bytes: 0 };
        if let Err(error) = current.add(&self.head) {
            // Not left without its head; if it cannot go, it is moved as a trace is.
            let _ = fs::remove_file(&self.path);
            return Err(error);
        }
        Ok(current)
    }

    /// Checks that a file could begin there.
    fn check_place(&self) -> io::Result<()> {
        if !may_replace(&self.path)? {
            return Err(io::Error::other("it is there, and is no trace: it is left alone"));
        }
        fs::metadata(self.path.parent().unwrap_or(Path::new("/"))).map(drop)
    }

    /// Moves what is there up to the first number that is free, or out.
    fn make_room(&self) -> io::Result<()> {
        let numbered = |number: u32| match number {
            0 => self.path.clone(),
            _ => whole_file::beside(&self.path, &format!(".{number}")),
        };
        let oldest = self.bounds.keep.saturating_sub(1);
        let free = (0..=oldest).find(|number| !numbered(*number).exists());
        if free.is_none() {
            fs::remove_file(numbered(oldest))?;
        }
        for number in (1..=free.unwrap_or(oldest)).rev() {
            fs::rename(numbered(number - 1), numbered(number))?;
        }
        Ok(())
    }
}

impl Out for Files {
    /// Others may have moved the file, or removed it with its folder.
    fn look(&mut self) -> io::Result<()> {
        if self.current.as_ref().is_some_and(|current| current.is_at(&self.path)) {
            return Ok(());
        }
        self.current = None;
        self.check_place()
    }

    fn write(&mut self, lines: &[u8]) -> io::Result<u64> {
        let piece = self.packing.pack(lines);
        let most = self.bounds.max_bytes.saturating_sub(piece.len() as u64);
        let mut current = match self.current.take() {
            Some(current) if current.bytes <= most => current,
            _ => self.next()?,
        };
        let added = current.add(&piece);
        if added.is_ok() || current.file.set_len(current.bytes).is_ok() {
            self.current = Some(current);
        }
        added.map(|()| piece.len() as u64)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.current.as_ref().map_or(Ok(()), |current| current.file.sync_data())
    }
}

impl Current {
    fn is_at(&self, path: &Path) -> bool {
        let place = |about: fs::Metadata| (about.dev(), about.ino());
        let own = self.file.metadata().map(place);
        matches!((own, fs::symlink_metadata(path).map(place)), (Ok(own), Ok(there)) if own == there)
    }

    /// Adds a piece: once the kernel has taken it, it outlives this process. To wait
    /// until the disk has it as well would let a slow disk hold up the next piece, for
    /// seconds on a busy one.
    fn add(&mut self, piece: &[u8]) -> io::Result<()> {
        self.file.write_all(piece)?;
        self.bytes += piece.len() as u64;
        Ok(())
    }
}

/// Whether this names something that can't be rotated: a pipe, a device.
pub fn is_stream(path: &Path) -> bool {
    let kind = fs::metadata(path).map(|about| about.file_type());
    kind.is_ok_and(|kind| kind.is_fifo() || kind.is_char_device())
}

/// Whether a file may be moved out of the way: there is none, or it is a trace.
pub fn may_replace(path: &Path) -> io::Result<bool> {
    // To open a pipe would wait for who writes to it.
    let opened = OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path);
    let mut file = match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        opened => opened?,
    };
    if !file.metadata()?.is_file() {
        return Ok(false);
    }
    let mut first = [0; read::BEGINNING];
    let mut bytes = 0;
    while bytes < first.len() {
        match file.read(&mut first[bytes..])? {
            0 => break,
            more => bytes += more,
        }
    }
    Ok(bytes == 0 || read::begins_a_trace(&first[..bytes]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{
        row::Format,
        testing::{lines, rows_of},
    };

    const BOUNDS: Bounds = Bounds { max_bytes: 4000, keep: 3 };

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let name =
            |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
        let mut names: Vec<_> = entries.map(name).collect();
        names.sort();
        names
    }

    #[test]
    fn files_are_bounded_in_size_and_number_and_each_is_whole() {
        for packing in [Packing::None, Packing::Zstd] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("t");
            let lines = lines(Format::Json, 100);
            let mut files = Files::begin(&path, packing, BOUNDS, &lines[0]).unwrap();
            for line in &lines[1..] {
                files.write(line).unwrap();
            }
            assert_eq!(names(folder.path()), ["t", "t.1", "t.2"]);
            let mut last = None;
            for name in ["t.2", "t.1", "t"] {
                let file = folder.path().join(name);
                assert!(fs::metadata(&file).unwrap().len() <= BOUNDS.max_bytes, "{name}");
                let (rows, damage) = rows_of(&file);
                assert!(!rows.is_empty() && damage.is_none(), "{name}: {damage:?}");
                let times = rows.iter().map(|row| (row.time, row.cookie));
                for time in times {
                    assert!(last < Some(time), "{name}: {last:?} {time:?}");
                    last = Some(time);
                }
            }
            let (rows, _) = rows_of(&path);
            assert_eq!(Format::Json.line(rows.last().unwrap()), lines[lines.len() - 1]);
        }
    }

    #[test]
    fn what_is_there_is_moved_only_as_far_as_need_be() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        let head = lines(Format::Csv, 0).remove(0);
        for expected in [&["t"][..], &["t", "t.1"], &["t", "t.1", "t.2"], &["t", "t.1", "t.2"]] {
            drop(Files::begin(&path, Packing::None, BOUNDS, &head).unwrap());
            assert_eq!(names(folder.path()), expected);
        }
        fs::remove_file(folder.path().join("t.1")).unwrap();
        fs::write(folder.path().join("t.2"), "old").unwrap();
        drop(Files::begin(&path, Packing::None, BOUNDS, &head).unwrap());
        assert_eq!(fs::read(folder.path().join("t.2")).unwrap(), b"old");
    }

    #[test]
    fn one_file_is_enough() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        let lines = lines(Format::Csv, 60);
        let bounds = Bounds { keep: 1, ..BOUNDS };
        let mut files = Files::begin(&path, Packing::None, bounds, &lines[0]).unwrap();
        for line in &lines[1..] {
            files.write(line).unwrap();
        }
        assert_eq!(names(folder.path()), ["t"]);
        assert!(rows_of(&path).1.is_none());
    }

    #[test]
    fn a_file_that_others_moved_or_removed_is_begun_anew() {
        let folder = tempfile::tempdir().unwrap();
        let (inner, away) = (folder.path().join("inner"), folder.path().join("away"));
        let path = inner.join("t");
        let lines = lines(Format::Json, 2);
        let mut files = Files::at_first_line(&path, Packing::None, BOUNDS, &lines[0]);
        assert_eq!(files.look().unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(files.write(&lines[1]).is_err());
        fs::create_dir(&inner).unwrap();
        files.look().unwrap();
        assert_eq!(names(&inner), [""; 0], "there is no line yet");
        assert_eq!(files.write(&lines[1]).unwrap(), lines[1].len() as u64);

        fs::rename(&path, &away).unwrap();
        files.look().unwrap();
        files.write(&lines[2]).unwrap();
        assert_eq!((rows_of(&away).0.len(), rows_of(&path).0.len()), (1, 1));

        fs::remove_dir_all(&inner).unwrap();
        assert_eq!(files.look().unwrap_err().kind(), io::ErrorKind::NotFound);
        fs::create_dir(&inner).unwrap();
        fs::write(&path, "dear").unwrap();
        let said = files.look().unwrap_err().to_string();
        assert!(said.contains("is no trace") && files.write(&lines[3]).is_err(), "{said}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "dear");
        fs::remove_file(&path).unwrap();
        files.look().unwrap();
        files.write(&lines[3]).unwrap();
        assert_eq!((rows_of(&path).0.len(), names(&inner)), (1, vec!["t".to_owned()]));
    }

    #[test]
    fn only_traces_are_moved_out_of_the_way() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        assert!(may_replace(&path).unwrap());
        let head = || lines(Format::Csv, 0).remove(0);
        let zstd = Packing::Zstd.pack(&head());
        for (content, expected) in
            [(head(), true), (zstd, true), (Vec::new(), true), (b"root:x:0:0:".to_vec(), false)]
        {
            fs::write(&path, content).unwrap();
            assert_eq!(may_replace(&path).unwrap(), expected);
        }
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(!may_replace(&pipe).unwrap() && !may_replace(folder.path()).unwrap());
    }
}
