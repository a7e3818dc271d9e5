//! Each parser takes its seeds, and what becomes of them where bytes are lost, changed and
//! repeated. libFuzzer finds more (`cargo xtask fuzz`), and takes longer.
#![forbid(unsafe_code)]

use std::{fs, path::Path};

use proptest::{collection::vec, prelude::*, sample::Index, test_runner::TestRunner};
use wad_fuzz::PARSERS;

/// So many inputs are made for each parser.
const CASES: u32 = 200;
const MOST_CHANGES: usize = 8;

/// A change is made to a seed.
#[derive(Clone, Debug)]
enum Change {
    Set(Index, u8),
    Cut(Index),
    Repeat(Index, Index),
}

impl Change {
    fn any() -> impl Strategy<Value = Self> {
        let place = any::<Index>;
        prop_oneof![
            (place(), any::<u8>()).prop_map(|(at, byte)| Self::Set(at, byte)),
            place().prop_map(Self::Cut),
            (place(), place()).prop_map(|(from, to)| Self::Repeat(from, to)),
        ]
    }

    fn apply(&self, bytes: &mut Vec<u8>) {
        // One more than there are: it may be empty, and be cut and added to at its end.
        let places = bytes.len() + 1;
        match self {
            Self::Set(at, byte) => {
                if let Some(place) = bytes.get_mut(at.index(places)) {
                    *place = *byte;
                }
            }
            Self::Cut(at) => bytes.truncate(at.index(places)),
            Self::Repeat(from, to) => {
                let (from, to) = (from.index(places), to.index(places));
                bytes.extend_from_within(from.min(to)..from.max(to));
            }
        }
    }
}

/// Returns all files of a folder and those in it.
fn files(folder: &Path, found: &mut Vec<Vec<u8>>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            files(&path, found);
        } else {
            found.push(fs::read(&path).unwrap());
        }
    }
}

#[test]
fn seeds_and_what_is_made_of_them_are_taken() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (name, parser) in PARSERS {
        let folder = match name {
            // They are goldens, too.
            "config" => root.join("../config"),
            name => root.join("seeds").join(name),
        };
        let mut seeds = Vec::new();
        files(&folder, &mut seeds);
        assert!(!seeds.is_empty(), "{name} has no seeds");
        seeds.iter().for_each(|seed| parser(seed));

        let config =
            ProptestConfig { cases: CASES, failure_persistence: None, ..Default::default() };
        let input = (any::<Index>(), vec(Change::any(), 1..=MOST_CHANGES));
        TestRunner::new(config)
            .run(&input, |(seed, changes)| {
                let mut bytes = seed.get(&seeds).clone();
                changes.iter().for_each(|change| change.apply(&mut bytes));
                parser(&bytes);
                Ok(())
            })
            .unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}
