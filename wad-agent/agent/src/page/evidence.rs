//! Experiments say whether tuning helps on a path, and guards when it hurts.

use maud::{Markup, html};
use wad_evidence::{
    experiment::Found,
    plan::Arm,
    verdict::{Effect, Verdict},
};

use super::{
    layout::Page,
    paths,
    words::{self, MOST_ROWS, NONE, left_out, or_dash},
};
use crate::{
    evidence::{ExperimentTold, State, end_words},
    guards::GuardTold,
};

/// Makes the page.
pub fn page(experiments: &[ExperimentTold], guards: &[GuardTold]) -> Page {
    let live = html! {
        h2 { "Guards" }
        (guards_table(guards))
        h2 { "Experiments" }
        @if experiments.is_empty() {
            p { "There is none. " code { "wad experiment start" } " begins one." }
        } @else {
            (experiments_table(experiments))
            @for (number, experiment) in experiments.iter().enumerate() {
                (findings(number, experiment))
            }
        }
    };
    Page { at: "/evidence", title: "Evidence".to_owned(), form: html! {}, live }
}

/// Says what a guard does.
pub fn state(guard: &GuardTold) -> String {
    let left = guard.left_seconds.map(|left| format!(" for another {}", words::seconds(left)));
    let dry = if guard.dry_run { ", in a dry run" } else { "" };
    format!("{}{}{dry}", guard.state.words(), left.unwrap_or_default())
}

fn guards_table(guards: &[GuardTold]) -> Markup {
    // Those that do something come first.
    let mut sorted: Vec<_> = guards.iter().collect();
    sorted.sort_by_key(|guard| !guard.is_away());
    html! {
        @if guards.is_empty() {
            p { "No path has one. " code { "[guard] paths" } " in the configuration says which do." }
        } @else {
            (words::table("guards", "Paths with a guard, those first that it restrains", &html! {
                thead { tr {
                    th scope="col" { "Path" }
                    th scope="col" { "State" }
                    th.n scope="col" { "New connections" }
                    th.n scope="col" { "Suspicion" }
                    th.wide scope="col" { "Worst signal" }
                    th.n scope="col" { "Trips" }
                    th scope="col" { "Last tripped" }
                } }
                tbody {
                    @for guard in sorted.iter().take(MOST_ROWS) { (guard_row(guard)) }
                }
            }))
            (left_out(guards.len()))
        }
    }
}

fn guard_row(guard: &GuardTold) -> Markup {
    let worst = guard.worst();
    html! {
        tr {
            th.k scope="row" { a href=(paths::link(&guard.path)) { (guard.path) } }
            td { @if guard.is_away() { span.warn { (state(guard)) } } @else { (state(guard)) } }
            td.n { (format!("{:.0} %", guard.share * 100.0)) }
            td.n { (or_dash(worst.map(|it| format!("{:.0} %", it.part_of_bound * 100.0)))) }
            td.wide { (or_dash(worst.map(|it| format!("{}: {:.1} times", it.signal, it.ratio)))) }
            td.n { (words::count(guard.trips)) }
            td.what {
                @match &guard.tripped {
                    None => (NONE),
                    Some(trip) => {
                        time { (trip.at.strftime("%F %T UTC").to_string()) }
                        ": " (trip.harm.signal.to_string())
                        (format!(", {:.1} times", trip.harm.ratio))
                    },
                }
            }
        }
    }
}

fn experiments_table(experiments: &[ExperimentTold]) -> Markup {
    words::table(
        "experiments",
        "Experiments, in the order in which they were begun",
        &html! {
            thead { tr {
                th scope="col" { "Path" }
                th scope="col" { "State" }
                th.n scope="col" { "Pairs" }
                th.n scope="col" { "Not counted" }
                th scope="col" { "Goodput" }
                th.n scope="col" { "Ratio" }
                th.n.wide scope="col" { "Possible" }
            } }
            tbody {
                @for it in experiments {
                    @let first = it.found.first();
                    tr {
                        th.k scope="row" { a href=(paths::link(&it.path)) { (it.path) } }
                        td { (experiment_state(it)) }
                        td.n { (words::count(it.counts.pairs)) " of " (words::count(it.blocks / 2)) }
                        td.n { (words::count(it.counts.thrown.values().sum())) }
                        (verdict(first))
                        td.n { (or_dash(first.and_then(|it| it.finding.effect).map(|it| ratio(it.ratio)))) }
                        td.n.wide { (or_dash(first.and_then(|it| it.finding.effect).map(possible))) }
                    }
                }
            }
        },
    )
}

fn experiment_state(it: &ExperimentTold) -> String {
    match (it.state, it.ended_by, it.block) {
        (State::Ended, Some(end), _) => format!("over, as {}", end_words(end)),
        (_, _, Some(block)) => {
            let gets = match block.arm {
                Arm::Tuned => "the policy",
                Arm::Default => "the kernel's defaults",
            };
            let thrown = if block.thrown.is_some() { ", which will not count" } else { "" };
            format!("block {} of {}, with {gets}{thrown}", block.number + 1, it.blocks)
        }
        _ => "waits for its next block".to_owned(),
    }
}

/// Tells of all metrics of an experiment that have shown anything.
fn findings(number: usize, it: &ExperimentTold) -> Markup {
    let known: Vec<_> = it.found.iter().filter(|found| found.finding.pairs > 0).collect();
    let caption = format!("What the experiment on {} has found out", it.path);
    html! {
        @if !known.is_empty() {
            details {
                summary { (caption) }
                (words::table(&format!("found{number}"), &caption, &html! {
                    thead { tr {
                        th scope="col" { "Metric" }
                        th scope="col" { "Verdict" }
                        th.n scope="col" { "Ratio" }
                        th.n scope="col" { "Possible" }
                        th.n scope="col" { "No effect up to" }
                        th.n scope="col" { "Pairs" }
                    } }
                    tbody {
                        @for found in known {
                            @let effect = found.finding.effect;
                            tr {
                                th scope="row" { (found.metric.to_string()) }
                                (verdict(Some(found)))
                                td.n { (or_dash(effect.map(|it| ratio(it.ratio)))) }
                                td.n { (or_dash(effect.map(possible))) }
                                td.n { (ratio(found.margin)) }
                                td.n { (words::count(found.finding.pairs as u64)) }
                            }
                        }
                    }
                }))
                p.soft { "Any of these verdicts is wrong with a probability of " (it.alpha) " at most." }
            }
        }
    }
}

fn verdict(found: Option<&Found>) -> Markup {
    let verdict = found.and_then(|found| found.finding.verdict);
    html! {
        td {
            @match verdict {
                None => "no data",
                Some(Verdict::Worse) => span.warn { "worse" },
                Some(verdict) => (verdict.to_string()),
            }
        }
    }
}

fn ratio(ratio: f64) -> String {
    format!("{ratio:.3} ×")
}

fn possible(Effect { least, most, .. }: Effect) -> String {
    let end = |end: Option<f64>, none: &str| end.map_or_else(|| none.to_owned(), ratio);
    match (least, most) {
        (None, None) => "any".to_owned(),
        _ => format!("{} to {}", end(least, "0 ×"), end(most, "any")),
    }
}
