//! Pictures within a page. Each has a title and says what it shows; the numbers stand in a table
//! beside it. Lengths are in pixels of the picture, which is as wide as there is room.

use jiff::{SignedDuration, Timestamp};
use maud::{Markup, PreEscaped, html};
use wad_observing::recent::{LastHour, MINUTES};
use wad_policy::event_name::EventName;
use wad_probing::archive::{Bucket, Spread};
use wad_svg::{Picture, Scale};

use super::words;

const WIDTH: f64 = 800.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 780.0;
const TOP: f64 = 48.0;
const BOTTOM: f64 = 202.0;
const HEIGHT: f64 = 238.0;

/// The mark of a part of a picture, for the table beside it.
pub fn key(number: usize) -> Markup {
    html! {
        svg.key viewBox="0 0 10 10" aria-hidden="true" { rect class={ "c" (number) } width="10" height="10" {} }
    }
}

fn figure(picture: Picture, class: &str) -> Markup {
    // Its text is escaped by whoever has drawn it.
    html! { figure class=(class) { (PreEscaped(picture.finish())) } }
}

/// Draws the events of each minute of the last hour, by kind.
pub fn minutes(hour: &LastHour, now: Timestamp) -> Markup {
    let first = now.as_second().div_euclid(60) - MINUTES as i64 + 1;
    let of_minute = |counts: &[u32]| counts.iter().map(|count| u64::from(*count)).sum::<u64>();
    let most = hour.minutes.iter().map(|minute| of_minute(&minute.counts)).max().unwrap_or(0);
    let all: u64 = hour.minutes.iter().map(|minute| of_minute(&minute.counts)).sum();
    let about = format!(
        "{} events in the last hour, at most {} in a minute; the table below has them by kind",
        words::count(all),
        words::count(most)
    );
    let title = "Events per minute";
    let mut picture = Picture::within_page((WIDTH, HEIGHT), "minutes", [title, &about]);
    let scale = Scale::above(most as f64, 1.0);
    let y = |value: f64| BOTTOM - value / scale.limit * (BOTTOM - TOP);
    frame(&mut picture, title, scale);
    let width = (RIGHT - LEFT) / MINUTES as f64;
    for minute in &hour.minutes {
        let place = minute.number - first;
        if !(0..MINUTES as i64).contains(&place) {
            continue;
        }
        let x = LEFT + place as f64 * width;
        let time = Timestamp::from_second(minute.number * 60).unwrap_or_default().strftime("%H:%M");
        let mut below = 0.0;
        for (kind, count) in minute.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let above = below + f64::from(*count);
            let content = format!("{time}: {count} {}", EventName::ALL[kind].label());
            let (from, to) = ((x + 1.0, y(above)), (x + width - 1.0, y(below)));
            picture.area(&format!("c{kind}"), from, to, &content);
            below = above;
        }
    }
    for minutes in (0..=MINUTES).step_by(10) {
        let at = now - SignedDuration::from_mins((MINUTES - minutes) as i64);
        let x = LEFT + minutes as f64 * width;
        tick(&mut picture, x, &at.strftime("%H:%M").to_string());
    }
    figure(picture, "course")
}

/// Draws parts of a whole beside each other.
pub fn parts(parts: &[(&'static str, f64)]) -> Markup {
    const STRIP: (f64, f64) = (560.0, 30.0);
    let all: f64 = parts.iter().map(|(_, part)| part).sum();
    let percent = |part: f64| part / all * 100.0;
    let words: Vec<_> =
        parts.iter().map(|(who, part)| format!("{who} {:.0} %", percent(*part))).collect();
    let title = "What held it back, as parts of its time";
    let mut picture = Picture::within_page(STRIP, "parts", [title, &words.join(", ")]);
    let mut x = 0.0;
    for (number, (who, part)) in parts.iter().enumerate() {
        let next = x + part / all * STRIP.0;
        let content = format!("{who}: {:.1} %", percent(*part));
        picture.area(&format!("c{number}"), (x, 4.0), (next, STRIP.1 - 4.0), &content);
        x = next;
    }
    figure(picture, "strip")
}

/// A course that is drawn of the results of probes.
pub struct Course {
    name: &'static str,
    title: &'static str,
    /// The axis counts in this.
    unit: f64,
    of: fn(&Bucket) -> Option<Spread>,
    written: fn(f64) -> String,
}

pub const RTT: Course = Course {
    name: "rtt",
    title: "RTT in ms",
    unit: 1e-3,
    of: |bucket| bucket.rtt_seconds,
    written: words::seconds,
};

pub const BANDWIDTH: Course = Course {
    name: "bandwidth",
    title: "Bandwidth in Mbit/s",
    unit: 1e6,
    of: |bucket| bucket.bandwidth_bits_per_second,
    written: words::rate,
};

const DAYS: i64 = 7;

/// Draws what probes have found out over the last days: the mean as a line, the rest as its
/// range. Nothing is drawn where nothing is known.
pub fn course(buckets: &[Bucket], course: Course, now: Timestamp) -> Markup {
    let Course { name, title, unit, of, written } = course;
    let known: Vec<_> = buckets.iter().filter_map(|it| Some((it.start, of(it)?))).collect();
    let Some((_, latest)) = known.last() else { return html! {} };
    let least = known.iter().map(|(_, it)| it.min).fold(f64::INFINITY, f64::min);
    let most = known.iter().map(|(_, it)| it.max).fold(0.0, f64::max);
    let about = format!(
        "From {} to {} in the last {DAYS} days, {} at the end",
        written(least),
        written(most),
        written(latest.mean)
    );
    let mut picture = Picture::within_page((WIDTH, HEIGHT), name, [title, &about]);
    let scale = Scale::above(most / unit, 0.0);
    let y = |value: f64| BOTTOM - value / unit / scale.limit * (BOTTOM - TOP);
    frame(&mut picture, title, scale);
    let begin = now - SignedDuration::from_hours(24 * DAYS);
    let span = now.duration_since(begin).as_secs_f64();
    let x = |time: Timestamp| {
        LEFT + (time.duration_since(begin).as_secs_f64() / span).max(0.0) * (RIGHT - LEFT)
    };
    for (time, spread) in &known {
        picture.line("range", (x(*time), y(spread.min)), (x(*time), y(spread.max)));
    }
    let points = buckets.iter().map(|it| Some((x(it.start), y(of(it)?.mean))));
    picture.curve("class=\"line\"", points);
    for day in 0..=DAYS {
        let at = begin + SignedDuration::from_hours(24 * day);
        tick(&mut picture, x(at), &at.strftime("%d %b").to_string());
    }
    figure(picture, "course")
}

/// Draws what is around a course: the scale to its left, and its name.
fn frame(picture: &mut Picture, title: &str, scale: Scale) {
    picture.text((0.0, 18.0), "", title);
    for value in scale.numbers() {
        let y = BOTTOM - value / scale.limit * (BOTTOM - TOP);
        picture.line(if value == 0.0 { "axis" } else { "grid" }, (LEFT, y), (RIGHT, y));
        picture.text((LEFT - 8.0, y + 5.0), "text-anchor=\"end\"", &scale.written(value));
    }
}

fn tick(picture: &mut Picture, x: f64, content: &str) {
    picture.line("axis", (x, BOTTOM), (x, BOTTOM + 5.0));
    // The last one would be cut.
    let anchor = if x > RIGHT - 40.0 { "end" } else { "middle" };
    picture.text((x, BOTTOM + 26.0), format_args!("text-anchor=\"{anchor}\""), content);
}

#[cfg(test)]
mod tests {
    use wad_observing::recent::Minute;

    use super::*;

    #[test]
    fn events_stand_in_their_minutes() {
        let now: Timestamp = "2026-11-26T12:00:30Z".parse().unwrap();
        let number = now.as_second() / 60;
        let minute = |number, open| Minute { number, counts: [open, 0, 0, 2, 0, 0, 0, 0, 0] };
        let minutes_of = vec![minute(number - 3, 5), minute(number, 1), minute(number + 9, 7)];
        let hour = LastHour { minutes: minutes_of, ..LastHour::default() };
        let svg = minutes(&hour, now).into_string();
        for part in ["11:57: 5 open", "12:00: 2 limited", ">12:00</text>", "role=\"img\""] {
            assert!(svg.contains(part), "{part}: {svg}");
        }
        assert_eq!(svg.matches("<rect").count(), 4, "{svg}");
        assert!(!minutes(&LastHour::default(), now).into_string().contains("NaN"));
    }

    #[test]
    fn parts_of_a_time_fill_the_strip() {
        let svg = parts(&[("network", 3.0), ("receiver", 1.0)]).into_string();
        assert!(svg.contains("width=\"420.0\"") && svg.contains("network 75 %"), "{svg}");
    }

    #[test]
    fn what_was_not_measured_is_not_drawn() {
        let now: Timestamp = "2026-11-26T12:00:00Z".parse().unwrap();
        let rtt = Some(Spread { min: 0.01, mean: 0.02, max: 0.05 });
        let bucket = Bucket {
            start: now - SignedDuration::from_hours(84),
            periods: 1,
            measured: 1,
            rtt_seconds: rtt,
            loss: None,
            reordering: None,
            path_mtu_bytes: None,
            bandwidth_bits_per_second: None,
            least: 0,
        };
        let buckets = [bucket];
        assert!(course(&buckets, BANDWIDTH, now).into_string().is_empty());
        let svg = course(&buckets, RTT, now).into_string();
        let middle = f64::midpoint(LEFT, RIGHT);
        assert!(svg.contains(&format!("M{middle:.1},")) && svg.contains("to 50 ms"), "{svg}");
    }
}
