use std::ops::Range;

use proptest::prelude::*;

use super::*;
use crate::metric::Whose;

const TICK: Duration = Duration::from_secs(5);
const MINUTE: Duration = Duration::from_secs(60);

/// Returns what flows show on a path on which all is as fast as this, and nothing is lost.
fn reading(goodput: f64) -> Reading {
    Reading {
        goodput: Some(goodput),
        goodput_of_one: Some(goodput),
        free_flows: 9,
        resent: Some(0.0),
        rtt_inflation: Some(1.2),
    }
}

fn sample(goodput: f64) -> Sample {
    let readings = || reading(goodput).into();
    Sample { tuned: readings(), untuned: readings(), neighbours: readings() }
}

/// Settings of one that knows how the path is at the defaults, before and beside.
fn watched() -> Settings {
    Settings { at_defaults_at_most: MINUTE * 5, untuned_share: 0.05, ..Settings::default() }
}

const GOOD: f64 = 1e7;

/// A guard with its clock.
struct Guarded {
    guard: Guard,
    now: Moment,
}

impl Guarded {
    fn new(settings: Settings) -> Self {
        Self { guard: Guard::new(settings), now: TICK * 1_000 }
    }

    fn tick(&mut self, sample: &Sample) -> Option<Change> {
        self.now += TICK;
        self.guard.tick(self.now, sample)
    }

    /// Gives it this until its state changes. Says after how many ticks.
    fn until_change(&mut self, sample: &Sample) -> (usize, Change) {
        let changed = (1..20_000).find_map(|n| self.tick(sample).map(|change| (n, change)));
        changed.expect("its state changes")
    }

    fn in_force() -> Self {
        let mut guarded = Self::new(watched());
        let (ticks, change) = guarded.until_change(&sample(GOOD));
        assert_eq!((ticks, change.to), (24, State::IN_FORCE));
        guarded
    }
}

#[test]
fn it_watches_then_lets_go_trips_holds_off_tries_and_returns() {
    let mut guarded = Guarded::new(watched());
    assert!(guarded.guard.holds_back());
    guarded.until_change(&sample(GOOD));
    assert_eq!(guarded.guard.share(), 0.95);
    (0..5_000).for_each(|_| assert_eq!(guarded.tick(&sample(GOOD)), None));

    let (ticks, change) = guarded.until_change(&sample(GOOD / 10.0));
    assert_eq!(Some(ticks as u32), ticks_to_trip(guarded.guard.settings(), 2.0));
    assert_eq!((change.to, guarded.guard.share()), (State::Tripped, 0.0));
    let harm = change.harm.unwrap();
    assert_eq!(harm.signal, SIGNALS[0].signal);
    assert!((harm.ratio - 10.0).abs() < 1e-6 && harm.part_of_bound >= 1.0, "{harm:?}");
    (0..100).for_each(|_| assert_eq!(guarded.tick(&sample(GOOD / 10.0)), None));

    let back = guarded.guard.is_back().unwrap();
    assert_eq!(back.to, State::HoldOff { left: MINUTE * 5 });
    assert_eq!(guarded.guard.is_back(), None);
    let (ticks, change) = guarded.until_change(&sample(GOOD / 10.0));
    assert_eq!((ticks, change.to), (60, State::TRIAL));
    assert_eq!(guarded.guard.share(), 0.25);
    // It is a tenth without the policy, too: nothing is worse with it.
    let (ticks, change) = guarded.until_change(&sample(GOOD / 10.0));
    assert_eq!((ticks, change.to), (24, State::IN_FORCE));
    assert_eq!(guarded.guard.trips(), 1);
}

#[test]
fn each_signal_trips_by_itself_and_by_nothing_less_than_its_margin() {
    for row in SIGNALS {
        let worse = |ratio: f64| {
            let bad = match row.signal.measured {
                Measured::Goodput => reading(GOOD / ratio),
                Measured::Resent => {
                    let resent = Some(signal::LEAST_RESENT * (ratio - 1.0));
                    Reading { resent, ..reading(GOOD) }
                }
                Measured::RttInflation => {
                    Reading { rtt_inflation: Some(1.2 * ratio), ..reading(GOOD) }
                }
            };
            let good = sample(GOOD);
            match (row.signal.whose, row.signal.against) {
                (Whose::Neighbours, _) => Sample { neighbours: bad.into(), ..good },
                // All together carry as much as before.
                (Whose::Own, Against::Beside) => {
                    Sample { tuned: Reading { goodput: Some(GOOD), ..bad }.into(), ..good }
                }
                // Those beside are as bad.
                (Whose::Own, Against::Before) => {
                    Sample { tuned: bad.into(), untuned: bad.into(), ..good }
                }
            }
        };
        let mut guarded = Guarded::in_force();
        let just_within = worse(row.margin * 0.99);
        (0..5_000).for_each(|_| assert_eq!(guarded.tick(&just_within), None, "{row:?}"));
        let (ticks, change) = guarded.until_change(&worse(row.margin * row.margin));
        assert!(ticks <= 28, "{row:?}: {ticks}");
        assert_eq!(change.harm.unwrap().signal.measured, row.signal.measured, "{row:?}");
    }
}

#[test]
fn the_bound_is_what_is_said() {
    let settings = Settings::default();
    let ticks = |margins| ticks_to_trip(&settings, margins);
    assert_eq!(
        [1.0, 1.25, 1.5, 2.0, 9.0].map(ticks),
        [None, Some(88), Some(48), Some(28), Some(28)]
    );
}

#[test]
fn hold_offs_double_and_are_forgotten_after_a_long_calm() {
    let mut guarded = Guarded::in_force();
    let hold_off = |guarded: &mut Guarded| {
        let harm = Sample { neighbours: reading(GOOD / 5.0).into(), ..sample(GOOD) };
        guarded.until_change(&harm);
        let State::HoldOff { left } = guarded.guard.is_back().unwrap().to else { panic!() };
        assert_eq!(guarded.until_change(&sample(GOOD)).1.to, State::TRIAL);
        left.as_secs() / 60
    };
    assert_eq!(
        [(); 10].map(|()| hold_off(&mut guarded)),
        [5, 10, 20, 40, 80, 160, 320, 640, 1280, 1440]
    );
    guarded.until_change(&sample(GOOD));
    for _ in 0..86_400 / 5 + 1 {
        guarded.tick(&sample(GOOD));
    }
    assert_eq!(hold_off(&mut guarded), 5);
}

#[test]
fn other_settings_leave_what_is_known() {
    let mut guarded = Guarded::in_force();
    guarded.until_change(&sample(GOOD / 10.0));
    guarded.guard.is_back();
    let settings =
        Settings { hold_off: MINUTE, hold_off_at_most: MINUTE * 2, ..Settings::default() };
    guarded.guard.set(settings);
    assert_eq!(guarded.guard.state(), State::HoldOff { left: MINUTE * 2 });
    assert_eq!(guarded.guard.trips(), 1);
}

#[test]
fn a_trial_that_hurts_goes_back_at_once() {
    let mut guarded = Guarded::in_force();
    let harm = Sample { tuned: reading(GOOD / 10.0).into(), ..sample(GOOD) };
    guarded.until_change(&harm);
    guarded.guard.is_back();
    assert_eq!(guarded.until_change(&sample(GOOD)).1.to, State::TRIAL);
    let (ticks, change) = guarded.until_change(&harm);
    assert_eq!((ticks, change.to), (28, State::Tripped));
    assert_eq!(guarded.guard.is_back().unwrap().to, State::HoldOff { left: MINUTE * 10 });
}

#[test]
fn a_path_without_traffic_is_held_back_for_a_while_only() {
    let mut guarded = Guarded::new(watched());
    // The time until the first tick does not count.
    for n in 0..=60 {
        assert!(guarded.guard.holds_back(), "{n}");
        assert_eq!(guarded.tick(&Sample::default()), None);
    }
    assert_eq!(guarded.guard.share(), 0.95);
    // How it is with its policy is the reference then.
    assert_eq!(guarded.until_change(&sample(GOOD)).0, 24);
    assert_eq!(guarded.until_change(&sample(GOOD / 10.0)).1.to, State::Tripped);
}

#[test]
fn by_default_a_policy_is_in_force_from_the_start() {
    let mut guarded = Guarded::new(Settings::default());
    let tuned = |goodput| Sample { tuned: reading(goodput).into(), ..Sample::default() };
    assert_eq!(guarded.guard.share(), 1.0);
    let (ticks, change) = guarded.until_change(&tuned(GOOD));
    assert_eq!((ticks, change.to, guarded.guard.share()), (24, State::IN_FORCE, 1.0));
    let (ticks, change) = guarded.until_change(&tuned(GOOD / 10.0));
    assert_eq!((ticks, change.to), (28, State::Tripped));
    // The defaults are no better, as it turns out.
    guarded.guard.is_back();
    assert_eq!(guarded.until_change(&sample(GOOD / 10.0)).1.to, State::TRIAL);
    assert_eq!(guarded.until_change(&sample(GOOD / 10.0)).1.to, State::IN_FORCE);
}

#[test]
fn a_hold_off_ends_by_hand_and_with_its_policy() {
    let held = || {
        let mut guarded = Guarded::in_force();
        assert_eq!(guarded.guard.release(), None);
        guarded.until_change(&sample(GOOD / 10.0));
        guarded
    };
    let mut guarded = held();
    assert_eq!(guarded.guard.release().unwrap().to, State::IN_FORCE);
    guarded.until_change(&sample(GOOD / 10.0));
    guarded.guard.is_back();
    assert_eq!(guarded.guard.policy_is_another().unwrap().to, State::TRIAL);
    assert_eq!(guarded.guard.release().unwrap().to, State::IN_FORCE);
    assert_eq!(guarded.guard.policy_is_another(), None);
    let mut watched = Guarded::new(watched());
    assert_eq!(watched.guard.release().unwrap().to, State::IN_FORCE);
}

#[test]
fn a_dry_run_says_and_does_nothing() {
    let mut guarded = Guarded::new(Settings { dry_run: true, ..Settings::default() });
    let steps = [(GOOD, State::IN_FORCE), (GOOD / 10.0, State::HoldOff { left: MINUTE * 5 })];
    for (goodput, state) in steps {
        assert_eq!(guarded.until_change(&sample(goodput)).1.to, state);
        assert_eq!(guarded.guard.share(), 1.0);
    }
    assert_eq!(guarded.until_change(&sample(GOOD)).1.to, State::IN_FORCE);
    assert_eq!(guarded.guard.trips(), 1);
}

#[test]
fn time_that_nobody_watched_does_not_count() {
    let mut guarded = Guarded::in_force();
    guarded.until_change(&sample(GOOD / 10.0));
    guarded.guard.is_back();
    guarded.tick(&sample(GOOD));
    let left = guarded.guard.state();
    guarded.now += MINUTE * 60;
    assert_eq!(guarded.tick(&sample(GOOD)), None);
    assert_eq!(guarded.guard.state(), left);
    // After a reboot the clock begins anew.
    guarded.guard = Guard::read(&guarded.guard.text()).unwrap();
    guarded.now = Duration::ZERO;
    assert_eq!(guarded.tick(&sample(GOOD)), None);
    assert_eq!(guarded.guard.state(), left);
}

#[test]
fn what_cannot_have_been_kept_is_refused() {
    let guard = Guarded::in_force().guard;
    let text = String::from_utf8(guard.text()).unwrap();
    for (from, to) in [
        ("\"untuned_share\":0.05", "\"untuned_share\":0.7"),
        ("\"state\":\"in_force\"", "\"state\":\"in_farce\""),
        ("10000000.0", "-1.0"),
        ("\"values\":24", "\"values\":25"),
        ("\"sum_ln\":0.0", "\"sum_ln\":1e999"),
    ] {
        assert!(text.contains(from), "{from} is not in {text}");
        assert!(Guard::read(text.replacen(from, to, 1).as_bytes()).is_err(), "{from}");
    }
}

/// A tick of a path that does anything.
fn any_reading() -> impl Strategy<Value = Reading> {
    let value = |range: Range<f64>| prop_oneof![3 => range.prop_map(Some), 1 => Just(None), 1 => Just(Some(f64::NAN))];
    (value(1e5..1e8), value(1e5..1e8), value(0.0..1.0), value(1.0..9.0)).prop_map(
        |(goodput, goodput_of_one, resent, rtt_inflation)| Reading {
            goodput,
            goodput_of_one,
            free_flows: 9,
            resent,
            rtt_inflation,
        },
    )
}

fn any_sample() -> impl Strategy<Value = Sample> {
    let any = (any_reading(), any_reading(), any_reading()).prop_map(
        |(tuned, untuned, neighbours): (Reading, Reading, Reading)| Sample {
            tuned: tuned.into(),
            untuned: untuned.into(),
            neighbours: neighbours.into(),
        },
    );
    // What goes on for long changes states.
    prop_oneof![any, Just(sample(GOOD)), Just(sample(GOOD / 20.0)), Just(Sample::default())]
}

fn history() -> impl Strategy<Value = Vec<(Sample, usize)>> {
    prop::collection::vec((any_sample(), 1..90_usize), 1..60)
}

/// Gives a guard a history, and each of its states after a tick to whoever looks.
fn follow(history: &[(Sample, usize)], mut look: impl FnMut(&mut Guarded, Option<Change>)) {
    let mut guarded = Guarded::new(watched());
    for (sample, ticks) in history {
        for _ in 0..*ticks {
            let change = guarded.tick(sample);
            look(&mut guarded, change);
            guarded.guard.is_back();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_is_unknown_changes_no_state(history in history()) {
        let mut tick = 0;
        follow(&history, |guarded, _| {
            tick += 1;
            if tick % 23 != 0 {
                return;
            }
            let mut other = guarded.guard.clone();
            for n in 1..100 {
                let before = other.state();
                let change = other.tick(guarded.now + TICK * n, &Sample::default());
                // Only what is up to time alone: how long it holds off.
                let is_of_time = matches!(before, State::HoldOff { .. });
                assert!(change.is_none() || is_of_time, "{before:?} {change:?}");
            }
        });
    }

    #[test]
    fn no_path_flaps(history in history()) {
        let mut tripped_at: Option<(Moment, u32)> = None;
        let mut trips = 0;
        follow(&history, |guarded, change| {
            if change.is_some_and(|change| change.to == State::Tripped) {
                if let Some((before, doublings)) = tripped_at {
                    let least = guarded.guard.settings().hold_off_of(doublings);
                    assert!(guarded.now - before >= least);
                }
                tripped_at = Some((guarded.now, guarded.guard.doublings));
                trips += 1;
            }
            assert_eq!(guarded.guard.trips(), trips);
        });
    }

    #[test]
    fn hold_offs_are_within_their_bounds(history in history()) {
        follow(&history, |guarded, _| {
            if let State::HoldOff { left } = guarded.guard.state() {
                let settings = guarded.guard.settings();
                assert!(left <= settings.hold_off_at_most);
                assert!(left <= settings.hold_off_of(guarded.guard.doublings));
            }
            let share = guarded.guard.share();
            assert_eq!(share > 0.0, !guarded.guard.holds_back());
        });
    }

    #[test]
    fn what_is_kept_goes_on_as_it_was(history in history()) {
        let mut tick = 0;
        follow(&history, |guarded, _| {
            tick += 1;
            if tick % 97 == 0 {
                let read = Guard::read(&guarded.guard.text()).unwrap();
                assert_eq!(Guard { last: guarded.guard.last, ..read }, guarded.guard);
            }
        });
    }

    #[test]
    fn a_text_that_was_damaged_is_refused_or_goes_on(
        damages in prop::collection::vec((any::<prop::sample::Index>(), "[0-9]{1,25}|[a-z]|-"), 1..4),
    ) {
        let mut text = String::from_utf8(Guarded::in_force().guard.text()).unwrap();
        for (place, damage) in damages {
            let place = place.index(text.len());
            text.replace_range(place..=place, &damage);
        }
        if let Ok(mut guard) = Guard::read(text.as_bytes()) {
            for n in 1..200 {
                guard.tick(TICK * n, &sample(GOOD));
                assert!((0.0..=1.0).contains(&guard.share()));
            }
        }
    }
}
