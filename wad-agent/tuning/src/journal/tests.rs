//! The journal against folders that look like /proc/sys: crashes, power cuts,
//! reboots, and others who change the same settings.

use std::{os::unix::fs::PermissionsExt, str};

use wad_linux::sysctl::testing::{self, BOOT_ID};

use super::*;

const RMEM: &str = "net.core.rmem_max";
const WMEM: &str = "net.core.wmem_max";

struct Host {
    state: tempfile::TempDir,
    _root: tempfile::TempDir,
    sysctl: Sysctl,
}

impl Host {
    fn new() -> Self {
        let (root, sysctl) = testing::tree(&[(RMEM, "212992"), (WMEM, "212992")]);
        Self { state: tempfile::tempdir().unwrap(), _root: root, sysctl }
    }

    /// Opens a journal as a new agent would; dropping the result is a crash.
    fn journal(&self) -> Journal {
        Journal::open(&self.state.path().join("wad"), "default", self.sysctl.clone()).unwrap()
    }

    fn file(&self) -> PathBuf {
        self.state.path().join("wad/journal-default.jsonl")
    }

    fn rmem(&self) -> String {
        self.sysctl.read(RMEM).unwrap()
    }
}

#[test]
fn a_change_is_written_down_and_undone() {
    let host = Host::new();
    let mut journal = host.journal();
    assert!(!host.file().exists());
    journal.set(RMEM, "6571899").unwrap();
    assert_eq!(host.rmem(), "6571899");
    assert_eq!(host.file().metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let dir = host.file().parent().unwrap().metadata().unwrap();
    assert_eq!(dir.permissions().mode() & 0o777, 0o700);
    assert_eq!(
        fs::read_to_string(host.file()).unwrap(),
        format!(
            "{{\"boot_id\":\"{BOOT_ID}\",\"change\":{{\"sysctl\":{{\"key\":\"{RMEM}\",\
             \"before\":\"212992\",\"after\":\"6571899\"}}}}}}\n"
        )
    );
    assert_eq!(journal.undo().unwrap(), []);
    assert_eq!(host.rmem(), "212992");
    assert!(!host.file().exists());
    assert_eq!(journal.changes().count(), 0);
}

#[test]
fn the_line_comes_before_the_change() {
    let host = Host::new();
    // A folder where the journal's file should be: it cannot be written.
    fs::create_dir_all(host.file()).unwrap();
    let mut journal = Journal {
        file: host.file(),
        boot_id: BOOT_ID.to_owned(),
        sysctl: host.sysctl.clone(),
        entries: Vec::new(),
        damage: None,
        place: None,
    };
    assert!(matches!(journal.set(RMEM, "6571899"), Err(JournalError::Write { .. })));
    assert_eq!(host.rmem(), "212992");
}

#[test]
fn after_a_crash_the_next_agent_undoes_it() {
    let host = Host::new();
    host.journal().set(RMEM, "6571899").unwrap();
    host.journal().set(RMEM, "8000000").unwrap();
    let mut journal = host.journal();
    assert_eq!(journal.before(RMEM, "8000000"), Some("212992"));
    assert_eq!(journal.undo().unwrap(), []);
    assert_eq!(host.rmem(), "212992");
}

#[test]
fn what_someone_else_changed_is_left_and_reported() {
    let host = Host::new();
    let mut journal = host.journal();
    journal.set(RMEM, "456").unwrap();
    journal.set(WMEM, "789").unwrap();
    host.sysctl.write(RMEM, "123").unwrap();
    let left = journal.undo().unwrap();
    assert_eq!(
        left.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["net.core.rmem_max is 123 now, not the 456 wad set: left as it is"]
    );
    assert_eq!((host.rmem().as_str(), host.sysctl.read(WMEM).unwrap().as_str()), ("123", "212992"));
    assert!(!host.file().exists());
}

#[test]
fn what_others_put_back_already_needs_no_word() {
    let host = Host::new();
    let mut journal = host.journal();
    journal.set(RMEM, "456").unwrap();
    host.sysctl.write(RMEM, "212992").unwrap();
    assert_eq!(journal.undo().unwrap(), []);
}

#[test]
fn entries_of_another_boot_are_dropped() {
    let host = Host::new();
    host.journal().set(RMEM, "6571899").unwrap();
    host.sysctl.write("kernel.random.boot_id", "another").unwrap();
    let mut journal = host.journal();
    assert_eq!(journal.changes().count(), 0);
    assert!(!host.file().exists());
    // Even where the value is the same by chance.
    assert_eq!(journal.undo().unwrap(), []);
    assert_eq!(host.rmem(), "6571899");
}

#[test]
fn an_error_keeps_the_file_and_does_not_stop_the_rest() {
    let host = Host::new();
    let mut journal = host.journal();
    journal.set(RMEM, "456").unwrap();
    journal
        .record(Change::Sysctl {
            namespace: None,
            key: "net.core.gone".to_owned(),
            before: "1".to_owned(),
            after: "2".to_owned(),
        })
        .unwrap();
    assert!(journal.undo().unwrap_err().to_string().contains("net.core.gone"));
    assert_eq!(host.rmem(), "212992");
    assert_eq!(host.journal().changes().count(), 2);
}

#[test]
fn unreadable_lines_do_not_hide_the_others() {
    let host = Host::new();
    host.journal().set(RMEM, "456").unwrap();
    let mut bytes = b"nonsense\n\0\0\xff\n\n{\"boot_id\":1}\n".to_vec();
    bytes.extend(fs::read(host.file()).unwrap());
    let found = lines::read(&bytes, BOOT_ID);
    assert_eq!(found.unreadable, [1, 2, 4]);
    assert_eq!(found.cut_short, None);
    assert_eq!(found.changes.len(), 1);
    fs::write(host.file(), &bytes).unwrap();
    let mut journal = host.journal();
    assert_eq!(journal.undo().unwrap(), []);
    assert_eq!(host.rmem(), "212992");

    // They are told of, and kept.
    let damage = journal.damage().unwrap().to_string();
    assert!(damage.starts_with("lines 1, 2, 4 of the journal"), "{damage}");
    assert!(damage.contains("net.core.rmem_max and net.core.wmem_max"), "{damage}");
    let kept = host.file().with_extension("jsonl.damaged");
    assert!(damage.ends_with(&kept.display().to_string()), "{damage}");
    assert_eq!(fs::read(kept).unwrap(), bytes);
    assert!(!host.file().exists() && host.journal().damage().is_none());
}

#[test]
fn a_journal_of_nothing_but_garbage_is_kept() {
    let host = Host::new();
    fs::create_dir_all(host.file().parent().unwrap()).unwrap();
    fs::write(host.file(), "garbage\n".repeat(12)).unwrap();
    let damage = host.journal().damage().unwrap().to_string();
    assert!(damage.starts_with("lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 2 more of"), "{damage}");
    assert!(host.file().with_extension("jsonl.damaged").exists());
    // A line that was never finished belongs to a change that was never made.
    fs::write(host.file(), "{\"boot_id\":").unwrap();
    assert_eq!(host.journal().damage(), None);
}

/// A power cut, or a full disk, may end the file at any byte.
#[test]
fn cut_anywhere_the_complete_lines_hold_and_more_can_follow() {
    let host = Host::new();
    let mut journal = host.journal();
    journal.set(RMEM, "456").unwrap();
    journal.set(WMEM, "789").unwrap();
    journal.set(RMEM, "500").unwrap();
    let whole = fs::read(host.file()).unwrap();
    for length in 0..=whole.len() {
        let kept = &whole[..length];
        fs::write(host.file(), kept).unwrap();
        let complete = kept.iter().filter(|byte| **byte == b'\n').count();
        let tail = kept.rsplit(|byte| *byte == b'\n').next().unwrap();
        // Without its newline, a line may still be whole.
        let whole_tail = usize::from(tail.ends_with(b"}}}"));

        let found = lines::read(kept, BOOT_ID);
        assert_eq!(found.changes.len(), complete + whole_tail, "cut at {length}");
        assert_eq!(found.unreadable.len(), 0);
        let torn = !tail.is_empty() && whole_tail == 0;
        let cut_short = found.cut_short.map(|line| (line.number, line.begins_at));
        let begins_at = (length - tail.len()) as u64;
        assert_eq!(cut_short, torn.then_some((complete + 1, begins_at)), "cut at {length}");

        host.sysctl.write(RMEM, "212992").unwrap();
        let mut journal = host.journal();
        let known = journal.changes().count();
        if torn && known > 0 {
            assert_eq!(fs::read(host.file()).unwrap(), whole[..length - tail.len()]);
        }
        journal.set("net.core.wmem_max", "1000").unwrap();
        let again = host.journal();
        // What was cut off is no damage, neither now nor later.
        assert_eq!(again.damage(), None, "cut at {length}");
        assert!(!host.file().with_extension("jsonl.damaged").exists());
        assert!(again.changes().count() >= known.max(1), "cut at {length}");
        assert!(again.before("net.core.wmem_max", "1000").is_some(), "cut at {length}");
    }
    assert!(str::from_utf8(&whole).is_ok());
}

/// A full disk takes a part of a line, of a change that is not made then.
#[test]
fn a_part_of_a_line_does_not_swallow_the_next() {
    let host = Host::new();
    let mut journal = host.journal();
    journal.set(RMEM, "456").unwrap();
    let mut file = OpenOptions::new().append(true).open(host.file()).unwrap();
    file.write_all(b"{\"boot_id\":\"").unwrap();
    journal.set(WMEM, "789").unwrap();
    let mut again = host.journal();
    assert_eq!((again.damage(), again.changes().count()), (None, 2));
    assert_eq!(again.undo().unwrap(), []);
    assert_eq!(
        (host.rmem().as_str(), host.sysctl.read(WMEM).unwrap().as_str()),
        ("212992", "212992")
    );
}

#[test]
fn a_link_in_its_place_is_not_written_through_and_nothing_is_changed() {
    let host = Host::new();
    let mut journal = host.journal();
    fs::create_dir(host.file().parent().unwrap()).unwrap();
    let victim = host.state.path().join("victim");
    std::os::unix::fs::symlink(&victim, host.file()).unwrap();
    assert!(journal.set(RMEM, "456").is_err());
    assert!(!victim.exists());
    fs::write(&victim, "").unwrap();
    assert!(journal.set(RMEM, "456").is_err());
    assert_eq!(fs::read(&victim).unwrap(), b"");
    assert_eq!(host.rmem(), "212992");
}

/// The change is of an agent in a network namespace that is gone by now.
#[test]
fn what_went_with_its_namespace_is_undone() {
    let host = Host::new();
    host.journal().set(RMEM, "456").unwrap();
    let namespace = "{\"device\":0,\"inode\":1}";
    let line = |change: &str| format!("{{\"boot_id\":\"{BOOT_ID}\",\"change\":{change}}}\n");
    let queue = format!(
        "{{\"transmit_queue\":{{\"namespace\":{namespace},\"index\":2,\"interface\":\"eth0\",\
         \"before\":\"1000\",\"after\":\"5000\"}}}}"
    );
    let routes = format!("{{\"routes\":{{\"namespace\":{namespace}}}}}");
    let before = fs::read_to_string(host.file()).unwrap();
    fs::write(host.file(), before + &line(&queue) + &line(&routes)).unwrap();
    let mut journal = host.journal();
    assert_eq!(journal.changes().count(), 3);
    assert_eq!(journal.undo().unwrap(), []);
    assert_eq!(host.rmem(), "212992");
    assert!(!host.file().exists());
}

fn another_namespace() -> Identity {
    serde_json::from_str("{\"device\":0,\"inode\":1}").unwrap()
}

#[test]
fn what_was_changed_in_a_namespace_is_undone_there_or_forgotten() {
    let host = Host::new();
    let place = another_namespace();
    for is_gone in [false, true] {
        host.sysctl.write(RMEM, "212992").unwrap();
        let mut journal = host.journal();
        journal.set(WMEM, "456").unwrap();
        assert_eq!(journal.others().unwrap(), [].into());
        journal.at(place, |journal| journal.set(RMEM, "456")).unwrap();
        assert_eq!(host.journal().others().unwrap(), [place].into());
        if is_gone {
            journal.forget(place).unwrap();
        } else {
            assert_eq!(journal.at(place, |journal| journal.leave(place)).unwrap(), []);
        }
        assert_eq!(host.rmem(), if is_gone { "456" } else { "212992" });
        // Its own change stays, and an agent that comes after it knows of no other.
        assert_eq!(journal.changes().count(), 1);
        assert_eq!(host.journal().others().unwrap(), [].into());
        journal.undo().unwrap();
    }
}

#[test]
fn queues_are_restored_in_one_namespace_at_a_time() {
    let host = Host::new();
    let mut journal = host.journal();
    let queue = |namespace| Change::TransmitQueue {
        namespace,
        // There is none of this number: it went with its lengths.
        index: i32::MAX as u32,
        interface: "eth0".to_owned(),
        before: "1000".to_owned(),
        after: "5000".to_owned(),
    };
    let own = Identity::own().unwrap();
    journal.record(queue(own)).unwrap();
    journal.record(queue(another_namespace())).unwrap();
    let wanted = [TransmitQueue { interface: "eth0".to_owned(), packets: 5000 }];
    journal.restore_transmit_queues_but(&wanted).unwrap();
    assert_eq!(journal.changes().count(), 2);
    journal.restore_transmit_queues_but(&[]).unwrap();
    assert_eq!(journal.changes().collect::<Vec<_>>(), [&queue(another_namespace())]);
}

#[test]
fn instances_do_not_share_a_journal() {
    let host = Host::new();
    host.journal().set(RMEM, "456").unwrap();
    let dir = host.state.path().join("wad");
    let other = Journal::open(&dir, "test", host.sysctl.clone()).unwrap();
    assert_eq!(other.changes().count(), 0);
    assert!(host.file().exists());
}
