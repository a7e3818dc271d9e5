//! A table shows what was simulated.

use std::fmt::{self, Display};

use wad_simulation::MOST_WINDOW_BYTES;
use wad_toolbox::{
    amounts::{Bytes, Rate, Time},
    text_table::TextTable,
};

use super::{Simulated, SimulatedLaw};

pub struct Page<'s>(pub &'s Simulated);

impl Display for Page<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.0;
        writeln!(
            f,
            "{}, {} round trip, queue of {}, MTU {}{}; {} connection{} for {}, seed {}",
            Rate(all.rate_bits_per_second),
            Time(all.rtt_seconds),
            Bytes(all.queue_bytes),
            all.mtu_bytes,
            losses(all),
            all.flows,
            if all.flows == 1 { "" } else { "s" },
            Time(all.seconds),
            all.seed,
        )?;
        writeln!(
            f,
            "Simulated. The path carries {} of payload, {} in a round trip.\n",
            Rate(all.carries_bits_per_second),
            Bytes((all.rate_bits_per_second / 8.0 * all.rtt_seconds) as u64),
        )?;
        let titles = [
            "LAW",
            "RATE",
            "LAST HALF",
            "0.9 AFTER",
            "LOST",
            "SENT AGAIN",
            "BACK AFTER",
            "QUEUE",
            "JAIN",
        ];
        let table = TextTable::new(titles).with_figures_behind(1);
        table.with_rows(all.laws.iter().map(row)).fmt(f)?;
        f.write_str(
            "\nRATE, LAST HALF: of payload, over all of the time and over the second half of it.\n\
             0.9 AFTER: when the path first carried 0.9 of what it can.\n\
             BACK AFTER: from the last decrease that a window came back from, until it was as large\n\
             again; > if it never did. QUEUE: the most that waited.\n",
        )?;
        if all.flows > 1 {
            f.write_str("JAIN: 1 where all connections have the same rate (Jain's index).\n")?;
        }
        write_bounds(f, all)
    }
}

/// Says where buffers and windows are what bounds the rate.
fn write_bounds(f: &mut fmt::Formatter<'_>, all: &Simulated) -> fmt::Result {
    let held_bytes = all.rate_bits_per_second / 8.0 * all.rtt_seconds;
    for law in &all.laws {
        let bytes = law.most_window_bytes;
        let rate = bytes as f64 * f64::from(all.flows) * 8.0 / all.rtt_seconds;
        if (bytes as f64) * f64::from(all.flows) >= held_bytes {
            continue;
        }
        let each = if all.flows == 1 { "" } else { " each" };
        write!(
            f,
            "{}: no more than {} on its way{each}, which is {} at most",
            law.law,
            Bytes(bytes),
            Rate(rate)
        )?;
        match bytes == MOST_WINDOW_BYTES {
            true => {
                let flows = (held_bytes / bytes as f64).ceil();
                writeln!(f, ": TCP's\nlargest window (RFC 7323). It takes --flows {flows:.0}.")?;
            }
            false => writeln!(f, " (its buffers).")?,
        }
    }
    Ok(())
}

fn losses(all: &Simulated) -> String {
    let mut text = String::new();
    if all.loss > 0.0 {
        text += &format!(", {:e} lost", all.loss);
    }
    if !all.lose_packets.is_empty() {
        let numbers: Vec<_> = all.lose_packets.iter().map(u64::to_string).collect();
        let s = if numbers.len() == 1 { "" } else { "s" };
        text += &format!(", packet{s} {} lost", numbers.join(", "));
    }
    text
}

fn row(law: &SimulatedLaw) -> Vec<String> {
    let dash = || "-".to_owned();
    let back = match (law.back_after_seconds, law.not_back_for_seconds) {
        (Some(seconds), _) => Time(seconds).to_string(),
        (None, Some(seconds)) => format!(">{}", Time(seconds)),
        (None, None) => dash(),
    };
    let mut row = vec![
        law.law.clone(),
        Rate(law.bits_per_second).to_string(),
        Rate(law.last_half_bits_per_second).to_string(),
        law.full_after_seconds.map_or_else(dash, |seconds| Time(seconds).to_string()),
        law.lost_segments.to_string(),
        law.retransmitted_segments.to_string(),
        back,
        Bytes(law.most_queue_bytes).to_string(),
    ];
    row.extend(law.jain_index.map(|index| format!("{index:.3}")));
    row
}
