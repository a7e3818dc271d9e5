//! `wad import` prints TOML whatever it thinks of it, and says by its exit code whether
//! the file is carried over whole.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

/// Returns the exit code, what was printed, and what was said.
fn import(file: &Path) -> (Option<i32>, String, String) {
    let wad = Command::new(env!("CARGO_BIN_EXE_wad")).arg("import").arg(file).output();
    let Output { status, stdout, stderr } = wad.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn the_papers_example_is_printed_and_lacks_consent_alone() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/import");
    let (code, printed, said) = import(&folder.join("papers.wad"));
    assert_eq!(printed, fs::read_to_string(folder.join("papers.toml")).unwrap());
    assert!(code == Some(78) && said.contains("is refused: 1 error"), "{code:?} {said}");
    assert!(said.contains("add allow = \"aggressive\""), "{said}");
}

#[test]
fn the_exit_code_says_whether_all_is_carried_over() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bob.wad");
    let bob = "[bob]\ndst_addr: 192.0.2.1\nsndbuf: 65536\n";
    let other = [b"[bob]\ndst_addr: 192.0.2.1\n# ".to_vec(), vec![b'#'; 1 << 20]].concat();
    for (text, expected, reason) in [
        (bob.into(), 0, ""),
        (format!("{bob}web100: 1\n").into_bytes(), 4, "1 of its lines not carried over"),
        (b"sndbuf: 65536\n".to_vec(), 1, "has no entry such as [bob]"),
        (b"[bob]\nsndbuf: \xff\n".to_vec(), 1, "cannot read"),
        (other, 1, "larger than 1 MiB"),
    ] {
        fs::write(&file, text).unwrap();
        let (code, printed, said) = import(&file);
        assert!(code == Some(expected) && said.contains(reason), "{code:?} {said}");
        // What is no such file is not printed, the rest is.
        assert_eq!(printed.contains("sndbuf = 65536"), expected == 0 || reason.contains("lines"));
    }
    let (code, _, said) = import(&folder.path().join("missing"));
    assert!(code == Some(1) && said.contains("missing"), "{code:?} {said}");
}
