//! `wad … | head` ends well, whatever `head` leaves unread.

use std::{io::pipe, process::Command};

#[test]
fn nobody_reading_on_is_no_failure() {
    for form in [None, Some("--json")] {
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        let mut plan = Command::new(env!("CARGO_BIN_EXE_wad"));
        plan.args(["plan", "--rate", "10Gbit", "--rtt", "100ms"]).args(form);
        let output = plan.stdout(writer).output().unwrap();
        assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
    }
}
