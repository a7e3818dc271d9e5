//! Pictures of traces.

use std::path::{Path, PathBuf};

use wad_observing::trace::{Format, testing::lines};

use super::*;

fn written(folder: &Path, name: &str, lines: &[Vec<u8>]) -> PathBuf {
    let file = folder.join(name);
    fs::write(&file, lines.concat()).unwrap();
    file
}

fn plotted(files: Vec<PathBuf>) -> Result<String> {
    picture_of_traces(&files)
}

fn count(svg: &str, class: &str) -> usize {
    svg.matches(&format!("<path class=\"{class}\"")).count()
}

#[test]
fn every_flow_has_its_lines_and_label() {
    let folder = tempfile::tempdir().unwrap();
    let file = written(folder.path(), "trace.jsonl", &lines(Format::Json, 40));
    let svg = plotted(vec![file]).unwrap();
    // Of two flows: window, rate, RTT, retransmissions; and a threshold.
    assert_eq!((count(&svg, "line"), count(&svg, "dashed")), (8, 2));
    assert!(svg.contains("[fd81::1]:40001 → [fd81::2]:5001 (to, \"b\", cubic)"), "{svg}");
    assert!(svg.contains("goodput (Mbit/s)") && svg.contains("smoothed RTT (ms)"));
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n") && !svg.contains("NaN"));
}

#[test]
fn lines_under_others_show_and_there_is_no_half_retransmission() {
    let folder = tempfile::tempdir().unwrap();
    let file = written(folder.path(), "trace.jsonl", &lines(Format::Json, 10));
    let svg = plotted(vec![file]).unwrap();
    assert!(svg.contains("stroke=\"#0072b2\" stroke-width=\"3.2\""), "{svg}");
    assert!(svg.contains("stroke=\"#d55e00\" stroke-width=\"1.6\""), "{svg}");
    let (_, counts) = svg.split_once("retransmitted since").unwrap();
    assert!(!counts.contains(">0.5<"), "{counts}");
}

#[test]
fn a_variant_that_is_called_as_its_algorithm_is_named_once() {
    let folder = tempfile::tempdir().unwrap();
    let [mine, other] = ["cubic.jsonl", "tuned.jsonl"].map(|name| {
        let lines = lines(Format::Json, 10).into_iter();
        let of_one = lines.filter(|line| !String::from_utf8_lossy(line).contains("\"cookie\":2"));
        written(folder.path(), name, &of_one.collect::<Vec<_>>())
    });
    let svg = plotted(vec![mine, other]).unwrap();
    assert!(svg.contains(">cubic</text>") && svg.contains(">tuned (cubic)</text>"), "{svg}");
}

#[test]
fn files_of_one_trace_are_one_and_others_are_set_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let lines = lines(Format::Csv, 40);
    let older = written(folder.path(), "a.csv.1", &lines[..41]);
    let newer = written(folder.path(), "a.csv", &[&lines[..1], &lines[41..]].concat());
    let whole = written(folder.path(), "b.csv", &lines);
    let one = plotted(vec![newer.clone(), older.clone()]).unwrap();
    let same = plotted(vec![whole.clone()]).unwrap();
    let lines_of = |svg: &str| {
        svg.lines().filter(|line| line.starts_with("<path")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(lines_of(&one), lines_of(&same));
    let both = plotted(vec![newer, older.clone(), whole]).unwrap();
    assert_eq!(count(&both, "line"), 16);
    assert!(both.contains(">a: [fd81::1]") && both.contains(">b: [fd81::1]"));
    fs::create_dir(folder.path().join("other")).unwrap();
    let namesake = written(&folder.path().join("other"), "a.csv", &lines);
    let both = plotted(vec![older, namesake]).unwrap();
    assert!(both.contains("other/a: [fd81::1]"), "{both}");
}

#[test]
fn what_is_left_of_a_trace_is_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let mut lines = lines(Format::Json, 40);
    let last = lines.len() - 1;
    lines[last].truncate(20);
    let file = written(folder.path(), "t", &lines);
    assert_eq!(count(&plotted(vec![file]).unwrap(), "line"), 8);
}

#[test]
fn what_cannot_be_drawn_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let empty = written(folder.path(), "t", &lines(Format::Json, 0));
    let said = plotted(vec![empty]).unwrap_err().to_string();
    assert!(said.contains("no flow was traced"), "{said}");
    let none = written(folder.path(), "passwd", &[b"root:x:0:0\n".to_vec()]);
    let said = format!("{:#}", plotted(vec![none]).unwrap_err());
    assert!(said.contains("passwd") && said.contains("no trace"), "{said}");
    let other = [
        b"time,cookie,netns,path,local,remote,congestion,PipeSize (octets)\n".to_vec(),
        b"2026-11-21T22:16:00Z,1,2,p,1.2.3.4:5,1.2.3.4:6,cubic,7\n".to_vec(),
    ];
    let other = written(folder.path(), "o", &other);
    let said = plotted(vec![other]).unwrap_err().to_string();
    assert!(said.contains("none of CurCwnd, "), "{said}");
}

/// Whatever a file holds: no panic, and no line without end.
#[test]
fn values_out_of_all_bounds_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let mut text = String::from(
        "time,cookie,netns,path,local,remote,congestion,CurCwnd,HCThruOctetsAcked,SmoothedRTT\n",
    );
    for (time, value) in [
        ("2026-11-21T22:16:00Z", "NaN"),
        ("-009999-01-02T01:59:59Z", "1e308"),
        ("2026-11-21T22:16:01Z", "-5"),
        ("2026-11-21T22:16:01Z", "inf"),
        ("9999-12-30T22:00:00Z", "7"),
        ("2026-11-21T22:16:02Z", "1e17"),
    ] {
        text += &format!("{time},1,2,p,1.2.3.4:5,1.2.3.4:6,cubic,{value},{value},{value}\n");
    }
    let file = written(folder.path(), "t", &[text.into_bytes()]);
    let svg = plotted(vec![file]).unwrap();
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
}
