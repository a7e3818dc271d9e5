use std::{fs, time::Duration};

use tokio::time::{Instant, sleep, timeout};

use super::*;

fn sh(script: &str) -> Helper {
    Helper {
        program: "/bin/sh".into(),
        arguments: vec!["-c".into(), script.into()],
        variables: vec![("WAD_PROBE_HOST", "there".to_owned())],
        memory_bytes: 256 << 20,
        output_bytes: 100_000,
    }
}

/// Returns how many processes have this among their arguments, and are no zombies.
fn processes(argument: &str) -> usize {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines
        .filter(|line| line.split(|byte| *byte == 0).any(|word| word == argument.as_bytes()))
        .count()
}

async fn are_gone(argument: &str) {
    let begun = Instant::now();
    while processes(argument) > 0 {
        assert!(begun.elapsed() < Duration::from_secs(5), "{argument} is left");
        sleep(Duration::from_millis(5)).await;
    }
}

async fn are_there(argument: &str) {
    let begun = Instant::now();
    while processes(argument) == 0 {
        assert!(begun.elapsed() < Duration::from_secs(5), "{argument} never came");
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn what_a_helper_says_is_heard() {
    let ended = sh("echo $WAD_PROBE_HOST $LC_ALL; echo 1 >&2; echo why >&2; exit 3").run().await;
    let ended = ended.unwrap();
    assert_eq!(ended.output, b"there C\n");
    assert_eq!((ended.status.code(), ended.said.as_str()), (Some(3), "why"));
    let said = ended.failed(&sh("")).to_string();
    assert_eq!(said, "/bin/sh ended with exit status: 3: why");
    let missing = Helper { program: "/nowhere/wad".into(), ..sh("") };
    let error = missing.run().await.unwrap_err();
    assert!(matches!(error, HelperError::Start { .. }), "{error}");
}

#[tokio::test]
async fn one_that_hangs_is_gone_with_all_its_processes() {
    let helper = sh("sleep 731.1 & sleep 731.1 & trap '' TERM; sleep 731.1");
    let late = timeout(Duration::from_millis(300), helper.run()).await;
    assert!(late.is_err());
    are_gone("731.1").await;
}

#[tokio::test]
async fn one_that_leaves_its_group_is_gone_as_well() {
    let helper = sh("setsid sleep 731.2 & setsid sh -c 'setsid sleep 731.2; sleep 731.2' & \
                     sleep 731.2");
    let run = tokio::spawn(async move { helper.run().await.map(drop) });
    are_there("731.2").await;
    run.abort();
    assert!(run.await.unwrap_err().is_cancelled());
    are_gone("731.2").await;
}

#[tokio::test]
async fn one_that_forks_and_exits_leaves_nobody_and_is_not_waited_for() {
    let begun = Instant::now();
    let ended = sh("sleep 731.3 & setsid sleep 731.3 & echo done").run().await.unwrap();
    assert_eq!(ended.output, b"done\n");
    assert!(begun.elapsed() < Duration::from_secs(20));
    are_gone("731.3").await;
}

#[tokio::test]
async fn one_that_floods_is_ended() {
    for script in ["yes", "yes >&2", "while :; do yes 731.4; done"] {
        let error = sh(script).run().await.unwrap_err();
        assert!(matches!(error, HelperError::Flood { most_bytes: 100_000, .. }), "{error}");
    }
    are_gone("731.4").await;
}

#[tokio::test]
async fn one_that_is_killed_halfway_says_so() {
    let ended = sh("echo half; kill -KILL $$").run().await.unwrap();
    assert_eq!((ended.status.code(), &ended.output[..]), (None, &b"half\n"[..]));
    assert!(ended.failed(&sh("")).to_string().contains("signal: 9"));
}

#[tokio::test]
async fn one_has_no_more_memory_than_it_may() {
    let helper = Helper { memory_bytes: 64 << 20, ..sh("ulimit -v; ulimit -c") };
    assert_eq!(helper.run().await.unwrap().output, b"65536\n0\n");
}
