use super::{Change, Course, Delivery, LossBased, Moment, Phase, Signs};
use crate::law::{Aimd, INFINITE_SSTHRESH};

const AT: Moment = Moment {
    now_us: 5_000_000,
    srtt_us: 100_000,
    cwnd_segments: 1000,
    ssthresh_segments: 400,
    prior_cwnd_segments: 1000,
    in_flight_segments: 300,
    delivered_segments: 0,
    retransmitted_segments: 0,
    delivery: Delivery { segments: 0, interval_us: 0 },
    signs: Signs { lost_segments: 0, sacked_segments: 0, delivered_ce_segments: 0 },
    ignores_stalls: true,
};
/// A kernel's threshold where a program was skipped: half a return address.
const GARBAGE: u32 = 0xffff_a001;
/// Another one.
const ZERO: u32 = 0;

const fn standard(_: u32) -> Aimd {
    Aimd::STANDARD
}

fn asked(moment: &Moment) -> (u32, bool, Phase) {
    let (mut law, mut course) = (LossBased::START, Course::START);
    let answer = law.on_asked(&mut course, moment, standard);
    (answer.ssthresh_segments, answer.had_none, course.phase().unwrap())
}

#[test]
fn a_stall_is_not_answered_and_a_loss_is() {
    assert_eq!(asked(&AT), (1000, false, Phase::LocalStall));
    assert_eq!(asked(&Moment { ignores_stalls: false, ..AT }), (500, false, Phase::Recovery));
    let signs = Signs { lost_segments: 1, ..AT.signs };
    assert_eq!(asked(&Moment { signs, ..AT }), (500, false, Phase::Recovery));
}

#[test]
fn without_a_threshold_what_is_on_its_way_is_all_that_is_known() {
    let skipped = Moment { ssthresh_segments: GARBAGE, cwnd_segments: 980_000_000, ..AT };
    assert_eq!(asked(&skipped), (300, true, Phase::LocalStall));
    assert_eq!(
        asked(&Moment { ssthresh_segments: ZERO, ..skipped }),
        (300, true, Phase::LocalStall)
    );
    let not_ignored = Moment { ignores_stalls: false, ..skipped };
    assert_eq!(asked(&not_ignored), (150, true, Phase::Recovery));
    let none = Moment { in_flight_segments: 0, ..not_ignored };
    assert_eq!(asked(&none), (2, true, Phase::Recovery));
    assert!(!asked(&Moment { ssthresh_segments: INFINITE_SSTHRESH, ..AT }).1);
}

#[test]
fn a_loss_within_a_stall_is_answered_late_and_once() {
    let (mut law, mut course) = (LossBased::START, Course::START);
    let _ = law.on_asked(&mut course, &AT, standard);
    let mut change = |change| law.on_change(&mut course, &AT, change, standard);
    assert_eq!(change(Change::Other), None);
    assert_eq!(change(Change::LossFoundInCwr), Some(500));
    assert_eq!(change(Change::LossFound), None);
    assert_eq!(course.phase(), Some(Phase::Recovery));
}

#[test]
fn a_threshold_that_no_program_gave_is_answered_with_the_next_change() {
    let skipped = Moment { ssthresh_segments: GARBAGE, ..AT };
    for (change, ignores_stalls, ssthresh_segments) in [
        (Change::CwrEnds, true, 1000),
        (Change::LossFoundInCwr, true, 1000),
        (Change::CwrEnds, false, 500),
        (Change::LossFound, true, 500),
        (Change::Other, true, 500),
    ] {
        let (mut law, mut course) = (LossBased::START, Course::START);
        let moment = Moment { ignores_stalls, ..skipped };
        let answer = law.on_change(&mut course, &moment, change, standard);
        assert_eq!(answer, Some(ssthresh_segments), "{change:?}");
    }
}

#[test]
fn a_flow_that_its_host_holds_back_halves_what_it_used() {
    let (mut law, mut course) = (LossBased::START, Course::START);
    let _ = law.on_asked(&mut course, &AT, standard);
    let delivery = Delivery { segments: 100, interval_us: 50_000 };
    let lost = Moment { delivery, now_us: AT.now_us + 10_000, ..AT };
    let answer = law.on_change(&mut course, &lost, Change::LossFoundInCwr, standard);
    assert_eq!(answer, Some(100));
}

#[test]
fn what_is_not_heeded_would_have_no_answer() {
    let changes = [Change::CwrEnds, Change::LossFound, Change::LossFoundInCwr, Change::Other];
    for (change, ssthresh_segments) in changes
        .into_iter()
        .flat_map(|change| [400, INFINITE_SSTHRESH, GARBAGE, ZERO].map(|s| (change, s)))
    {
        // With a stall, which has the most to answer.
        let (mut law, mut course) = (LossBased::START, Course::START);
        let _ = law.on_asked(&mut course, &AT, standard);
        let before = (law, course);
        let moment = Moment { ssthresh_segments, ..AT };
        let answer = law.on_change(&mut course, &moment, change, standard);
        let is_moved = answer.is_some() || (law, course) != before;
        assert_eq!(LossBased::heeds(change, ssthresh_segments), is_moved, "{change:?}");
    }
}
