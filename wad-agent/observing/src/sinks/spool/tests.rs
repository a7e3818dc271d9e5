//! Order, bounds, and ends at any byte.

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

const BATCH_BYTES: usize = 256;
const PLENTY: u64 = 64 << 20;

fn line(number: u64) -> Vec<u8> {
    // Of several lengths.
    format!("{{\"n\":{number},\"x\":\"{}\"}}\n", "x".repeat(number as usize % 7)).into_bytes()
}

fn lines(numbers: impl IntoIterator<Item = u64>) -> Vec<Vec<u8>> {
    numbers.into_iter().map(line).collect()
}

fn number(line: &[u8]) -> u64 {
    serde_json::from_slice::<serde_json::Value>(line).unwrap()["n"].as_u64().unwrap()
}

fn open(folder: &TempDir, max_bytes: u64) -> Spool {
    let (spool, lost, found) = Spool::open(folder.path().join("sink"), max_bytes);
    found.unwrap();
    assert_eq!(lost, Lost::default());
    spool
}

fn put(spool: &mut Spool, numbers: impl IntoIterator<Item = u64>) -> Lost {
    let (lost, written) = spool.append(lines(numbers));
    written.unwrap();
    lost
}

/// Takes all that there is; the numbers of the lines, and how many were damaged.
fn take_all(spool: &mut Spool) -> (Vec<u64>, u64) {
    let (mut numbers, mut damaged) = (Vec::new(), 0);
    while let Some(batch) = spool.next(BATCH_BYTES).unwrap() {
        assert!(batch.bytes().len() <= BATCH_BYTES);
        numbers.extend(batch.lines().map(number));
        damaged += spool.advance(&batch, batch.len()).damaged;
    }
    (numbers, damaged)
}

fn segments(folder: &TempDir) -> Vec<PathBuf> {
    let files = fs::read_dir(folder.path().join("sink")).unwrap();
    let files = files.map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        files.filter(|file| file.extension().is_some_and(|kind| kind == "jsonl")).collect();
    files.sort();
    files
}

#[test]
fn lines_come_in_their_order_and_leave_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let mut spool = open(&folder, PLENTY);
    assert!(spool.next(BATCH_BYTES).unwrap().is_none());
    put(&mut spool, 0..100);
    put(&mut spool, 100..150);
    assert_eq!(spool.bytes(), lines(0..150).concat().len() as u64);
    assert_eq!(take_all(&mut spool), ((0..150).collect(), 0));
    assert_eq!((spool.bytes(), segments(&folder).len()), (0, 0));
    put(&mut spool, 150..151);
    assert_eq!(take_all(&mut spool), (vec![150], 0));
}

#[test]
fn what_was_not_taken_is_there_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let mut spool = open(&folder, PLENTY);
    put(&mut spool, 0..100);
    let batch = spool.next(BATCH_BYTES).unwrap().unwrap();
    assert!(batch.len() > 3);
    spool.advance(&batch, 3);
    drop(spool);
    let mut spool = open(&folder, PLENTY);
    put(&mut spool, 100..110);
    assert_eq!(take_all(&mut spool), ((3..110).collect(), 0));
    drop(spool);
    // A new segment is none of which the position is noted.
    let mut spool = open(&folder, PLENTY);
    put(&mut spool, 110..120);
    drop(spool);
    assert_eq!(take_all(&mut open(&folder, PLENTY)), ((110..120).collect(), 0));
}

#[test]
fn the_bound_holds_and_what_is_beyond_it_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let max_bytes = 10_000;
    let mut spool = open(&folder, max_bytes);
    let mut lost = 0;
    for number in 0..1000 {
        lost += put(&mut spool, [number]).full;
        let on_disk: u64 =
            segments(&folder).iter().map(|file| fs::metadata(file).unwrap().len()).sum();
        assert!(on_disk <= max_bytes);
    }
    assert!(segments(&folder).len() > 4);
    let (numbers, damaged) = take_all(&mut spool);
    assert_eq!((numbers.len() as u64 + lost, damaged), (1000, 0));
    // The newest are those that are lost.
    assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>());
    assert!(lost > 100 && numbers.len() > 300);
    assert_eq!(put(&mut spool, [0]), Lost::default());
}

#[test]
fn a_crash_at_any_byte_of_a_write_costs_the_line_that_was_not_written() {
    let whole = lines(0..10).concat();
    let ends: Vec<usize> = (0..=10).map(|count| lines(0..count).concat().len()).collect();
    for end in 0..=whole.len() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = open(&folder, PLENTY);
        put(&mut spool, 0..10);
        drop(spool);
        let file = OpenOptions::new().write(true).open(&segments(&folder)[0]).unwrap();
        file.set_len(end as u64).unwrap();

        let (mut spool, lost, found) = Spool::open(folder.path().join("sink"), PLENTY);
        found.unwrap();
        assert_eq!(lost.damaged, u64::from(!ends.contains(&end)), "{end}");
        put(&mut spool, 10..12);
        let written = ends.iter().filter(|at| **at <= end).count() as u64 - 1;
        let expected: Vec<_> = (0..written).chain(10..12).collect();
        assert_eq!(take_all(&mut spool), (expected, 0), "{end}");
    }
}

#[test]
fn a_position_of_which_any_part_is_written_leaves_nothing_out() {
    let folder = tempfile::tempdir().unwrap();
    let mut spool = open(&folder, PLENTY);
    put(&mut spool, 0..10);
    let batch = spool.next(BATCH_BYTES).unwrap().unwrap();
    spool.advance(&batch, 5);
    drop(spool);
    let file = folder.path().join("sink").join(POSITION);
    let whole = fs::read(&file).unwrap();
    for end in 0..whole.len() - 1 {
        fs::write(&file, &whole[..end]).unwrap();
        let mut spool = open(&folder, PLENTY);
        let first = spool.next(BATCH_BYTES).unwrap().unwrap();
        assert!(number(first.lines().next().unwrap()) <= 5, "{end}");
    }
}

#[test]
fn a_position_that_cannot_be_keeps_nothing_from_being_told() {
    for position in ["18446744073709551615 0", "1 18446744073709551615", "1", "x y"] {
        let folder = tempfile::tempdir().unwrap();
        put(&mut open(&folder, PLENTY), 0..10);
        fs::write(folder.path().join("sink").join(POSITION), position).unwrap();
        let mut spool = open(&folder, PLENTY);
        assert_eq!(put(&mut spool, 10..12), Lost::default(), "{position}");
        assert_eq!(put(&mut spool, 12..14), Lost::default(), "{position}");
        let (numbers, damaged) = take_all(&mut spool);
        assert!(numbers.ends_with(&[10, 11, 12, 13]), "{position}: {numbers:?}");
        assert_eq!(damaged, 0);
    }
}

#[test]
fn damage_in_the_midst_is_passed_over_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let mut spool = open(&folder, PLENTY);
    put(&mut spool, 0..50);
    let file = OpenOptions::new().write(true).open(&segments(&folder)[0]).unwrap();
    let before = lines(0..20).concat().len() as u64;
    // As a power cut may leave it: zeros over a line and a half.
    file.write_all_at(&[0; 20], before).unwrap();
    let (numbers, damaged) = take_all(&mut spool);
    assert_eq!(numbers[..20], (0..20).collect::<Vec<_>>());
    assert_eq!(numbers.last(), Some(&49));
    assert!((1..=2).contains(&damaged) && numbers.len() >= 48, "{damaged} {numbers:?}");
    // A segment that was removed by somebody, or cut.
    put(&mut spool, 0..50);
    fs::remove_file(&segments(&folder)[0]).unwrap();
    put(&mut spool, 50..60);
    assert_eq!(take_all(&mut spool), (Vec::new(), 1));
    put(&mut spool, 0..10);
    let file = OpenOptions::new().write(true).open(&segments(&folder)[0]).unwrap();
    file.set_len(lines(0..4).concat().len() as u64).unwrap();
    assert_eq!(take_all(&mut spool), (vec![0, 1, 2, 3], 1));
}

#[test]
fn where_the_disk_refuses_lines_wait_in_memory_in_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let parent = folder.path().join("sink");
    // Nothing can be made in what is no folder.
    fs::write(&parent, "").unwrap();
    let (mut spool, _, found) = Spool::open(parent.join("deep"), PLENTY);
    assert!(found.is_err());
    let (lost, written) = spool.append(lines(0..10));
    assert!(written.is_err());
    assert_eq!(lost, Lost::default());
    let given = spool.next(BATCH_BYTES).unwrap().unwrap();
    // The disk is well again while they are given.
    fs::remove_file(&parent).unwrap();
    put(&mut spool, 10..20);
    assert_eq!(given.lines().map(number).next(), Some(0));
    spool.advance(&given, 4);
    put(&mut spool, 20..30);
    drop(spool);
    let (mut spool, ..) = Spool::open(parent.join("deep"), PLENTY);
    assert_eq!(take_all(&mut spool), ((4..30).collect(), 0));
}

#[test]
fn memory_is_bounded_too() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("sink"), "").unwrap();
    let (mut spool, ..) = Spool::open(folder.path().join("sink/deep"), PLENTY);
    let mut lost = 0;
    for number in 0..100 {
        let long = format!("{{\"n\":{number},\"x\":\"{}\"}}\n", "x".repeat(40_000));
        lost += spool.append([long.into_bytes()]).0.disk;
        assert!(spool.bytes() <= MEMORY_BYTES as u64);
    }
    let mut kept = 0;
    while let Some(batch) = spool.next(BATCH_BYTES).unwrap() {
        assert_eq!(batch.lines().map(number).next(), Some(kept));
        kept += batch.len() as u64;
        spool.advance(&batch, batch.len());
    }
    assert_eq!(kept + lost, 100);
    assert!(lost > 50);
}

#[derive(Clone, Debug)]
enum Step {
    Put(u64),
    /// Take so many lines of the next batch.
    Take(usize),
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (1_u64..40).prop_map(Step::Put),
        4 => (0_usize..12).prop_map(Step::Take),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever happens, what is taken is what was put and not counted as lost, in its
    /// order, each once.
    #[test]
    fn nothing_is_lost_uncounted_doubled_or_out_of_order(steps in steps()) {
        let folder = tempfile::tempdir().unwrap();
        let max_bytes = 4_000;
        let mut spool = open(&folder, max_bytes);
        let (mut next, mut expected, mut taken) = (0, VecDeque::new(), Vec::new());
        for step in steps {
            match step {
                Step::Put(count) => {
                    let numbers = next..next + count;
                    next += count;
                    let lost = put(&mut spool, numbers.clone()).full;
                    expected.extend(numbers.take((count - lost) as usize));
                }
                Step::Take(most) => {
                    if let Some(batch) = spool.next(BATCH_BYTES).unwrap() {
                        let lines = most.min(batch.len());
                        taken.extend(batch.lines().take(lines).map(number));
                        prop_assert_eq!(spool.advance(&batch, lines), Lost::default());
                    }
                }
                Step::Restart => {
                    drop(spool);
                    spool = open(&folder, max_bytes);
                }
            }
            prop_assert!(spool.bytes() <= max_bytes);
        }
        let (rest, damaged) = take_all(&mut spool);
        taken.extend(rest);
        prop_assert_eq!(damaged, 0);
        prop_assert_eq!(taken, Vec::from(expected));
    }
}
