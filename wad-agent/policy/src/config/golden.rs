//! The configurations in `tests/config/`: every valid one is taken, and every
//! invalid one is refused with the message that stands beside it. With
//! `WAD_BLESS=1` the messages are written anew.

use std::{
    fs,
    path::{Path, PathBuf},
};

use wad_common::{control::Control, law::Aimd};

use super::{
    Allow, Config, ConfigError, Congestion, PathPolicy,
    testing::{compare, host, root},
};
use crate::law::Law;

/// The configurations of a folder, of which there is at least one.
fn configurations(folder: &str) -> Vec<PathBuf> {
    let folder = root().join("tests/config").join(folder);
    let mut files: Vec<_> = fs::read_dir(&folder)
        .expect("the folder is part of the repository")
        .map(|entry| entry.expect("readable").path())
        .filter(|file| file.extension().is_some_and(|kind| kind == "toml" || kind == "bin"))
        .collect();
    assert!(!files.is_empty(), "no configuration in {}", folder.display());
    files.sort();
    files
}

/// The message for a file, with its name for its path.
fn refusal(file: &Path) -> String {
    let error = match Config::load(file, &host()) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("{} is taken", file.display()),
    };
    let name = file.file_name().expect("a file").to_string_lossy();
    error.replace(&file.display().to_string(), &name) + "\n"
}

#[test]
fn valid_configurations_are_taken() {
    let sample = root().join("config/wad.toml");
    for file in configurations("valid").into_iter().chain([sample]) {
        if let Err(error) = Config::load(&file, &host()) {
            panic!("{error}");
        }
    }
}

#[test]
fn the_papers_entry_is_read_as_they_meant_it() {
    let file = root().join("tests/config/valid/papers.toml");
    let config = Config::load(&file, &host()).expect("valid");
    let expected = PathPolicy {
        name: "bob".to_owned(),
        remote: vec!["10.5.128.74/32".parse().expect("a prefix")],
        sndbuf_bytes: Some(3_751_239),
        rcvbuf_bytes: Some(6_571_899),
        divide: true,
        congestion: Some(Congestion::Ours(Law::Aimd)),
        control: Control {
            aimd: Aimd { increase_q16: 6 << 16, keep_q16: 45_876 },
            ..Control::STANDARD
        },
        no_delayed_acks: true,
        allow: Some(Allow::Aggressive),
        ..PathPolicy::default()
    };
    assert_eq!(config.paths, [expected]);
}

#[test]
fn the_sample_shows_the_defaults_and_sizes_buffers() {
    let sample = Config::load(&root().join("config/wad.toml"), &host()).expect("valid");
    let empty = Config::parse("wad.toml", "", &host()).expect("valid");
    assert_eq!(Config { paths: Vec::new(), ..sample.clone() }, empty);
    // 622 Mbit/s times 70 ms are 5,442,500 bytes.
    assert_eq!(sample.paths[0].sndbuf_bytes, Some(6_803_125));
}

#[test]
fn a_table_given_again_far_behind_is_an_error() {
    let filler = "# ...\n".repeat(20_000);
    let text = format!("[log]\n{filler}[[path]]\nname = \"a\"\nremote = \"::1\"\n[log]\n");
    let refused = Config::parse("wad.toml", &text, &host()).expect_err("twice").to_string();
    assert!(refused.contains("[log] is there twice"), "{refused}");
    assert!(refused.contains("wad.toml:20005:1"), "{refused}");
}

#[test]
fn invalid_configurations_are_refused_with_their_message() {
    for file in configurations("invalid") {
        compare(&refusal(&file), &file.with_extension("stderr"));
    }
}

/// Too large to keep: made here.
fn compare_generated(name: &str, text: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join(name);
    fs::write(&file, text).expect("writable");
    let message = refusal(&file);
    assert!(message.len() < 10_000, "{name}: {} bytes", message.len());
    let golden = root().join("tests/config/invalid").join(name);
    compare(&message, &golden.with_extension("stderr"));
}

#[test]
fn fields_come_from_the_path_then_its_parents_then_the_defaults() {
    let file = root().join("tests/config/valid/inherit.toml");
    let config = Config::load(&file, &host()).expect("valid");
    let [child, parent, grandparent, plain, own] = &config.paths[..] else { panic!("{config:?}") };
    let law = |path: &PathPolicy| path.congestion.as_ref().map(|law| law.name().to_owned());
    assert_eq!(law(child).as_deref(), Some("wad_highspeed"));
    assert_eq!([child, parent].map(|path| path.sndbuf_bytes), [Some(1 << 20), Some(4 << 20)]);
    assert_eq!([child, parent].map(|path| path.rcvbuf_bytes), [Some(12_500_000); 2]);
    assert_eq!([child, parent, grandparent].map(|path| path.dscp), [Some(1); 3]);
    // Whom a path is for is its own.
    assert_eq!([child, parent].map(|path| path.user), [None, Some(0)]);
    // What is of no use to a path is no error where others have it, too.
    assert_eq!(
        [grandparent, plain].map(law),
        [const { Some("cubic") }; 2].map(|law| law.map(str::to_owned))
    );
    assert_eq!(plain.dscp, None);
    // Nor is it in force.
    let most = |path: &PathPolicy| path.max_pacing_bytes_per_second;
    assert_eq!([plain, own].map(most), [Some(50_000_000), None]);
}

/// Each folder has a file with a folder beside it.
#[test]
fn errors_of_several_files_name_the_file() {
    let folder = root().join("tests/config/several");
    for case in ["names", "sections", "syntax"] {
        let file = folder.join(case).join("wad.toml");
        let error = Config::load(&file, &host()).expect_err("wrong");
        let shown = error.to_string().replace(&format!("{}/", folder.display()), "") + "\n";
        compare(&shown, &folder.join(case).join("wad.stderr"));
        let ConfigError::Invalid { mistakes, .. } = error else { panic!("{error}") };
        assert!(mistakes[0].file.ends_with(".toml"), "{mistakes:?}");
    }
    let config = Config::load(&folder.join("valid/wad.toml"), &host()).expect("valid");
    let names: Vec<_> = config.paths.iter().map(|path| path.name.as_str()).collect();
    assert_eq!(names, ["main", "a", "b"]);
    assert_eq!((config.sources.len(), config.limits.max_buffer_bytes), (1, Some(1 << 20)));
    assert_eq!(config.paths[2].sndbuf_bytes, Some(1 << 20));
}

#[test]
fn huge_files_are_refused_with_a_short_message() {
    compare_generated("generated-10mb-one-line.toml", &"a".repeat(10_000_000));
    compare_generated("generated-10mb-keys.toml", &"key = 1\n".repeat(1_250_000));
    compare_generated("generated-40mb.toml", &"#\n".repeat(20_000_000));
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = Config::load(Path::new("/nonexistent/wad.toml"), &host());
    assert!(matches!(error, Err(ConfigError::Read { file, .. }) if file.ends_with("wad.toml")));
}
