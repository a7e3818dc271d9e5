//! The archive as other processes meet it: killed while it writes, on a full disk, and after
//! a day of 1,000 paths.

use std::{
    env, fs,
    io::{BufRead as _, BufReader},
    net::IpAddr,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use jiff::Timestamp;
use nix::sys::{
    resource::{Resource, getrlimit, setrlimit},
    signal::{SigHandler, Signal, signal},
};
use tempfile::TempDir;
use wad_probing::{
    archive::{Archive, Bounds, Query},
    measurement::{Measurement, RoundTrips, Share},
    row::{Ending, Row},
};

const DAY: Duration = Duration::from_secs(86_400);
const BOUNDS: Bounds = Bounds { keep: Duration::from_secs(90 * 86_400), max_bytes: 64 << 20 };
/// The file of the archive that a child of a test writes.
const CHILD: &str = "WAD_TEST_ARCHIVE";

fn row(path: usize, second: i64) -> Row {
    let period = Timestamp::from_second(1_800_000_000 + second).unwrap();
    let median_seconds = 0.01 + second as f64 * 1e-7;
    Row {
        task: format!("rtt of path {path}"),
        path: Some(format!("path {path}")),
        host: format!("dtn{path}.example"),
        address: Some(IpAddr::from([192, 0, (path / 250) as u8, (path % 250) as u8])),
        tool: "rtt".to_owned(),
        period,
        started: Some(period + Duration::from_millis(1_500)),
        took: Duration::from_micros(950_123),
        ending: Ending::Measured(Measurement {
            rtt: Some(RoundTrips {
                samples: 20,
                min_seconds: median_seconds * 0.9,
                median_seconds,
                max_seconds: median_seconds * 2.0,
            }),
            loss: Some(Share { part: 0, whole: 20 }),
            reordering: Some(Share { part: 0, whole: 20 }),
            spent_bytes: 2_560,
            ..Measurement::default()
        }),
    }
}

/// Runs one test of this file as a child that finds the archive's path in its environment.
fn child(test: &str, archive: &Path) -> Child {
    Command::new(env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(CHILD, archive)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Reads the numbers that a child says, a line each, until it ends or was heard enough of.
fn said(child: &mut Child, mut is_enough: impl FnMut(i64) -> bool) -> Option<i64> {
    let mut last = None;
    for line in BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok) {
        if let Some(number) = line.strip_prefix("kept ").and_then(|text| text.parse().ok()) {
            last = Some(number);
            if is_enough(number) {
                let _ = child.kill();
            }
        }
    }
    last
}

/// The child appends and says so; it is killed in the midst, at another place each time.
#[test]
fn each_row_that_append_took_outlives_kill_9() {
    if let Some(path) = env::var_os(CHILD) {
        let archive = Archive::open(Path::new(&path), BOUNDS);
        for second in 0.. {
            archive.append(&row(second as usize % 7, second));
            println!("kept {second}");
        }
    }
    let folder = tempfile::tempdir().unwrap();
    for kill_after in [3, 40, 411, 1_500] {
        let path = folder.path().join(format!("{kill_after}.sqlite"));
        let mut child = child("each_row_that_append_took_outlives_kill_9", &path);
        let last = said(&mut child, |second| second == kill_after).unwrap();
        child.wait().unwrap();
        assert!(last >= kill_after, "it ended by itself after {last}");

        let archive = Archive::open(&path, BOUNDS);
        let rows = archive.query(&Query::default()).unwrap();
        let seconds = |row: &Row| row.period.as_second() - 1_800_000_000;
        let kept: Vec<i64> = rows.iter().rev().map(seconds).collect();
        // One more may be there, which it did not come to say.
        assert!(kept.len() as i64 > last, "{} of {last}", kept.len());
        assert_eq!(kept, (0..kept.len() as i64).collect::<Vec<_>>());
        assert_eq!(rows[0], row(kept.len().wrapping_sub(1) % 7, kept.len() as i64 - 1));
        assert_eq!(archive.state().set_aside, Vec::<std::path::PathBuf>::new());
        // It goes on.
        archive.append(&row(0, 1_000_000));
        assert_eq!(archive.state().waiting, 0);
    }
}

/// A process of its own may write files no longer than so much, which is a full disk to
/// it; then it may again.
#[test]
fn rows_wait_in_memory_while_the_disk_is_full() {
    if let Some(path) = env::var_os(CHILD) {
        // SAFETY: no handler of ours is set; the signal is ignored.
        unsafe { signal(Signal::SIGXFSZ, SigHandler::SigIgn) }.unwrap();
        let archive = Archive::open(Path::new(&path), BOUNDS);
        let (_, most) = getrlimit(Resource::RLIMIT_FSIZE).unwrap();
        setrlimit(Resource::RLIMIT_FSIZE, 600_000, most).unwrap();
        let mut second = 0;
        while archive.state().waiting < 50 {
            archive.append(&row(second as usize % 7, second));
            second += 1;
            assert!(second < 100_000, "it never was full");
        }
        let state = archive.state();
        assert!(state.failing.is_some(), "{state:?}");
        assert_eq!(state.lost, 0);
        // They are told of all the same.
        assert_eq!(archive.query(&Query::default()).unwrap().len() as i64, second.min(10_000));
        assert_eq!(archive.latest().unwrap().len(), 7);

        setrlimit(Resource::RLIMIT_FSIZE, most, most).unwrap();
        let begun = Instant::now();
        while archive.state().waiting > 0 {
            archive.append(&row(second as usize % 7, second));
            second += 1;
            std::thread::sleep(Duration::from_millis(100));
            assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", archive.state());
        }
        assert_eq!(archive.state().failing, None);
        println!("kept {second}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("probe.sqlite");
    let mut child = child("rows_wait_in_memory_while_the_disk_is_full", &path);
    let rows = said(&mut child, |_| false).expect("the child has said how many rows there are");
    assert!(child.wait().unwrap().success());
    let archive = Archive::open(&path, BOUNDS);
    let found = archive.query(&Query::default()).unwrap();
    assert_eq!(found.len() as i64, rows.min(10_000));
    assert!(found.is_sorted_by_key(|row| std::cmp::Reverse(row.period)));
}

fn size(path: &Path) -> u64 {
    let end = |end: &str| format!("{}{end}", path.display());
    ["", "-wal"].map(|it| fs::metadata(end(it)).map_or(0, |file| file.len())).iter().sum()
}

/// Bytes of memory of this process that are in RAM.
fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// Returns a folder that no disk makes slow, where there is one.
fn in_memory() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap()
}

/// Appends what 1,000 paths give in a day, each 5 minutes.
fn write_a_day(archive: &Archive, mut after_each: impl FnMut()) {
    for period in 0..288 {
        for path in 0..1_000 {
            archive.append(&row(path, period * 300 + path as i64 / 4));
        }
        after_each();
    }
}

#[test]
fn a_day_of_1_000_paths_stays_within_its_bound_of_size() {
    let folder = in_memory();
    let path = folder.path().join("probe.sqlite");
    let archive = Archive::open(&path, Bounds { max_bytes: 16 << 20, ..BOUNDS });
    write_a_day(&archive, || assert!(size(&path) <= 16 << 20, "{} bytes", size(&path)));
    let state = archive.state();
    assert_eq!((state.written, state.waiting, state.lost), (288_000, 0, 0));
    // The newest are there, of each path.
    let latest = archive.latest().unwrap();
    assert_eq!(latest.len(), 1_000);
    let last = Timestamp::from_second(1_800_000_000 + 287 * 300).unwrap();
    assert!(latest.iter().all(|latest| latest.last.period >= last));
}

/// Shows how long questions take, and the memory: for a machine that does nothing else.
#[test]
#[ignore = "it times: cargo test --release -p wad-probing --test archive -- --ignored --nocapture"]
fn questions_about_a_day_of_1_000_paths_take_50_ms_at_most() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("probe.sqlite");
    let archive = Archive::open(&path, BOUNDS);
    let begun = Instant::now();
    write_a_day(&archive, || {});
    let took = begun.elapsed();
    println!("288,000 rows in {took:?}, {:?} each; {} bytes", took / 288_000, size(&path));
    let before = resident_bytes();
    let ask = |name: &str, ask: &dyn Fn() -> usize| {
        let mut times: Vec<Duration> = (0..21)
            .map(|_| {
                let begun = Instant::now();
                assert!(ask() > 0, "{name}");
                begun.elapsed()
            })
            .collect();
        times.sort();
        println!("{name}: median {:?}, worst {:?}", times[10], times[20]);
        assert!(times[20] <= Duration::from_millis(50), "{name}: {times:?}");
    };
    let of_path = Query { path: Some("path 500".to_owned()), ..Query::default() };
    let of_host = Query { host: Some("dtn500.example".to_owned()), ..Query::default() };
    let newest = Query { limit: Some(1_000), ..Query::default() };
    let at = |second: i64| Some(Timestamp::from_second(1_800_000_000 + second).unwrap());
    let noon = Query { since: at(43_200), until: at(43_500), ..newest.clone() };
    ask("a path's day", &|| archive.query(&of_path).unwrap().len());
    ask("a host's day", &|| archive.query(&of_host).unwrap().len());
    ask("the newest 1,000", &|| archive.query(&newest).unwrap().len());
    ask("five minutes at noon", &|| archive.query(&noon).unwrap().len());
    ask("the latest of each", &|| archive.latest().unwrap().len());
    ask("a path's day in buckets", &|| archive.history(&of_path, DAY / 96).unwrap().len());
    println!("resident: {before} bytes after writing, {} in all", resident_bytes());
    assert!(resident_bytes() <= 64 << 20);
}
