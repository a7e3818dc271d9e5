//! Traces that are whole, cut off, damaged, or none.

use proptest::prelude::*;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use wad_instruments::{Owner, Place, PodNames};

use super::*;
use crate::trace::{row::Format, testing::lines};

/// The rows of a trace, and whether all of it was read.
fn rows(trace: &[u8]) -> Result<(Vec<Row>, bool), TraceError> {
    let mut rows = Rows::new(trace)?;
    let read: Vec<_> = rows.by_ref().collect();
    Ok((read, rows.damage().is_none()))
}

/// A frame for each line, as the slowest trace has it.
fn packed(lines: &[Vec<u8>]) -> Vec<u8> {
    let frame = |line: &Vec<u8>| compress_to_vec(&line[..], CompressionLevel::Fastest);
    lines.iter().flat_map(frame).collect()
}

#[test]
fn all_forms_say_the_same() {
    let json = lines(Format::Json, 20);
    let expected: Vec<Row> =
        json[1..].iter().map(|line| serde_json::from_slice(line).unwrap()).collect();
    let csv = lines(Format::Csv, 20);
    for trace in [json.concat(), csv.concat(), packed(&json), packed(&csv)] {
        assert_eq!(rows(&trace).unwrap(), (expected.clone(), true));
    }
}

#[test]
fn a_trace_of_before_has_no_owners_or_no_names_of_pods() {
    let names = PodNames {
        namespace: Some("transfer".into()),
        pod_name: Some("dtn-0".into()),
        container_name: None,
    };
    let of_user = || Owner { uid: Some(7), ..Owner::default() };
    let of_pod = Owner { place: Place { names, ..Place::default() }, ..of_user() };
    for (columns, fields, owner) in [
        ("", "", Owner::default()),
        (",uid,pid,process,cgroup", ",7,,,", of_user()),
        (
            ",uid,pid,process,cgroup,namespace,pod_name,container_name",
            ",7,,,,transfer,dtn-0,",
            of_pod,
        ),
    ] {
        let trace = format!(
            "time,cookie,netns,path,local,remote,congestion{columns},CurCwnd (octets)\n\
             1970-01-01T00:00:00Z,1,2,bob,10.0.0.1:1,10.0.0.2:2,cubic{fields},14480\n"
        );
        let (read, is_all) = rows(trace.as_bytes()).unwrap();
        assert!(is_all && read.len() == 1);
        assert_eq!(read[0].instruments.get("CurCwnd"), Some(14_480.0));
        assert_eq!(read[0].owner, owner);
    }
}

#[test]
fn a_trace_cut_off_at_any_byte_is_read_up_to_the_last_whole_line() {
    for format in [Format::Json, Format::Csv] {
        let lines = lines(format, 2);
        let trace = lines.concat();
        let (all, _) = rows(&trace).unwrap();
        for bytes in 0..trace.len() {
            let whole = trace[..bytes].iter().filter(|byte| **byte == b'\n').count();
            match rows(&trace[..bytes]) {
                Ok((read, is_all)) => {
                    assert_eq!(read, all[..whole - 1], "{bytes}");
                    assert_eq!(is_all, trace[bytes - 1] == b'\n', "{bytes}");
                }
                Err(_) => assert_eq!(whole, 0, "{bytes}"),
            }
        }
        let frames: Vec<_> = lines.chunks(1).map(packed).collect();
        let ends: Vec<_> = (1..=frames.len()).map(|n| frames[..n].concat().len()).collect();
        let trace = frames.concat();
        for bytes in 0..trace.len() {
            let whole = ends.iter().filter(|end| **end <= bytes).count();
            match rows(&trace[..bytes]) {
                Ok((read, is_all)) => {
                    // Of a frame that was cut off some lines may be whole.
                    assert!(read.len() + 1 >= whole && all.starts_with(&read), "{bytes}");
                    assert_eq!(is_all, ends.contains(&bytes), "{bytes}");
                }
                Err(_) => assert_eq!(whole, 0, "{bytes}"),
            }
        }
    }
}

#[test]
fn what_is_no_trace_is_said_to_be_none() {
    assert!(matches!(rows(b""), Err(TraceError::NoTrace)));
    assert!(matches!(rows(b"root:x:0:0:root:/root:/bin/sh\n"), Err(TraceError::NoTrace)));
    assert!(matches!(rows(b"{\"wad_trace\":2}\n"), Err(TraceError::Later(2))));
    assert!(matches!(rows(b"time,cookie,colour\n"), Err(TraceError::Head(_))));
    let mut lines = lines(Format::Csv, 3);
    lines[3] = b"yesterday,1,2,p,1.2.3.4:5,1.2.3.4:5,cubic\n".to_vec();
    let trace = lines.concat();
    let mut rows = Rows::new(&*trace).unwrap();
    assert_eq!(rows.by_ref().count(), 2);
    let said = rows.damage().unwrap().to_string();
    assert!(said.starts_with("only its first 3 lines can be read"), "{said}");
}

/// PROPTEST_CASES can make them more.
fn cases() -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig { cases: usual.cases.max(2000), ..usual }
}

proptest! {
    #![proptest_config(cases())]

    /// Whatever is done to a trace, reading it ends, and does not panic.
    #[test]
    fn damaged_traces_are_read_or_refused(
        form in 0..4_usize,
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        cut in any::<prop::sample::Index>(),
        more in proptest::collection::vec(any::<u8>(), 0..20),
    ) {
        let lines = lines([Format::Json, Format::Csv][form % 2], 4);
        let mut trace = if form < 2 { lines.concat() } else { packed(&lines) };
        for (at, byte) in changes {
            let at = at.index(trace.len());
            trace[at] = byte;
        }
        let at = cut.index(trace.len());
        trace.splice(at..at, more);
        let _ = rows(&trace);
    }
}
