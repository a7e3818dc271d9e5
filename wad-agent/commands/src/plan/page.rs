//! A plan as text.

use std::fmt::{self, Display};

use wad_common::law::highspeed;
use wad_policy::config::{MAX_BUFFER_BYTES, decrease, increase_segments};
use wad_toolbox::{
    amounts::{Bytes, Rate, Time},
    text_table::TextTable,
};

use super::{MtuPlan, Plan, laws::LawPlan, policy::Policies};

/// Flows are set against so much memory.
const PLAN_MEMORY_BYTES: u64 = 1 << 30;

pub struct Page<'a> {
    pub plan: &'a Plan,
}

impl Display for Page<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plan = self.plan;
        let loss =
            plan.loss.map_or_else(|| "no loss rate given".to_owned(), |p| format!("{p:e} lost"));
        writeln!(
            f,
            "{}, {} round trip, MTU {} (segments of {} bytes), {loss}\n",
            Rate(plan.rate_bits_per_second),
            Time(plan.rtt_seconds),
            plan.mtu_bytes,
            plan.mss_bytes,
        )?;
        writeln!(
            f,
            "The path is full with {:.0} bytes on their way, {} segments.",
            plan.bdp_bytes, plan.bdp_segments
        )?;
        let most = if plan.buffer_bytes == MAX_BUFFER_BYTES {
            "\"auto\", cut to the kernel's bound"
        } else {
            "\"auto\""
        };
        writeln!(
            f,
            "Buffers: sndbuf and rcvbuf of {} bytes ({most}); the kernel doubles them.",
            plan.buffer_bytes
        )?;
        let most_bytes = 2 * plan.buffer_bytes;
        let fit = match PLAN_MEMORY_BYTES / most_bytes {
            0 => "more than a".to_owned(),
            fit => format!("{fit} of which fit whole in each"),
        };
        writeln!(
            f,
            "Memory: they grow with need; each holds {} at most, {fit}\n\
             GiB of [limits] max_memory. Near that they grow no more, beyond it the largest shrink.",
            Bytes(most_bytes)
        )?;
        writeln!(
            f,
            "Responsiveness of standard TCP, C RTT^2 / (2 MSS): {}.\n",
            Time(plan.responsiveness_seconds)
        )?;
        self.write_laws(f)?;
        self.write_streams(f)?;
        self.write_mtus(f)?;
        self.write_pair(f)?;
        self.write_policies(f)
    }
}

impl Page<'_> {
    /// The policies, with what each gains.
    fn write_policies(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Policies { fair, aggressive, expected } = &self.plan.policies;
        let usual = if self.plan.loss.is_none() { ", as is usual," } else { "" };
        write!(
            f,
            "With {:e} lost{usual} one connection can expect {} untuned, and\n\
             {} by CUBIC with large buffers.\n\n\
             The policy to paste, with {}:\n\n{fair}",
            expected.loss,
            Rate(expected.untuned_bits_per_second),
            Rate(expected.cubic_bits_per_second),
            Rate(expected.fair_bits_per_second),
        )?;
        if let (Some(toml), Some(rate)) = (aggressive, expected.aggressive_bits_per_second) {
            write!(
                f,
                "\nOr, which recovers sooner and needs consent, with {}:\n\n{toml}",
                Rate(rate)
            )?;
        }
        Ok(())
    }

    /// Pair, recovery, and what losses leave of each law.
    fn write_laws(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without a loss rate nobody has the further ones.
        let titles = [
            "LAW",
            "AIMD(b, a)",
            "RECOVERY",
            "FILLS AT LOSS",
            "WINDOW",
            "SIMULATED",
            "SHARE",
            "RATE",
            "STREAMS",
        ];
        let rows = self.plan.laws.iter().map(|law| {
            let mut row = vec![
                law.law.to_owned(),
                increase(law),
                Time(law.recovery_seconds).to_string(),
                format!("{:.1e}", law.filling_loss),
            ];
            row.extend(law.at_loss.iter().flat_map(|at| {
                [
                    format!("{:.0}", at.mean_window_segments),
                    at.simulated_window_segments
                        .map_or_else(|| "-".to_owned(), |segments| format!("{segments:.0}")),
                    format!("{:.1}", at.share),
                    Rate(at.rate_bits_per_second).to_string(),
                    at.streams.to_string(),
                ]
            }));
            row
        });
        TextTable::new(titles).with_rows(rows).fmt(f)?;
        f.write_str(
            "\nRECOVERY: from one loss on the full path until it is full again, no queue.\n\
             FILLS AT LOSS: the loss rate at which the mean window just fills the path.\n",
        )?;
        if let Some(loss) = self.plan.loss {
            writeln!(
                f,
                "WINDOW: mean at {loss:e}, by the response function; what is beyond the path fills it.\n\
                 SIMULATED: the same, by the law itself. SHARE: times a CUBIC flow's rate.\n\
                 RATE: of one flow. STREAMS: how many fill the path."
            )?;
        }
        writeln!(f)
    }

    fn write_streams(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let least = self.plan.least_streams;
        if least > 1 {
            writeln!(
                f,
                "A connection's window is at most 1 GiB (RFC 7323): with fewer than {least} streams\n\
                 the path can't be full, whatever their law and buffers.\n"
            )?;
        }
        let streams = self.plan.streams_with_default_buffers;
        let s = if streams == 1 { "" } else { "s" };
        writeln!(
            f,
            "Untuned, with windows of 3 MiB at most (the kernel's default buffers), standard TCP\n\
             needs {streams} stream{s}. With other buffers, and nothing else changed:\n"
        )?;
        let head = ["STREAMS", "BUFFERS OF", "SEGMENTS", "RECOVERY", "FILL AT LOSS"];
        let rows = self.plan.streams.iter().map(|plan| {
            vec![
                plan.streams.to_string(),
                plan.buffer_bytes.to_string(),
                plan.window_segments.to_string(),
                Time(plan.recovery_seconds).to_string(),
                format!("{:.1e}", plan.filling_loss),
            ]
        });
        TextTable::new(head).with_rows(rows).fmt(f)?;
        writeln!(f)
    }

    fn write_mtus(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Standard TCP with other MTUs:\n")?;
        let titles = ["MTU", "SEGMENTS", "RECOVERY", "FILLS AT LOSS", "RATE"];
        let rows = self.plan.mtus.iter().map(|MtuPlan { mtu_bytes, bdp_segments, standard }| {
            let mut row = vec![
                mtu_bytes.to_string(),
                bdp_segments.to_string(),
                Time(standard.recovery_seconds).to_string(),
                format!("{:.1e}", standard.filling_loss),
            ];
            row.extend(standard.at_loss.map(|at| Rate(at.rate_bits_per_second).to_string()));
            row
        });
        TextTable::new(titles).with_rows(rows).fmt(f)?;
        writeln!(f)
    }

    /// The papers size AIMD by the buffer, and have an example.
    fn write_pair(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const EXAMPLE_BYTES: u32 = 2_000_000;
        let segments = EXAMPLE_BYTES / self.plan.mss_bytes;
        let pair = highspeed::response(segments);
        let (increase, decrease) = (increase_segments(pair), decrease(pair));
        writeln!(
            f,
            "RFC 3649's AIMD(b, a) for {} segments: ({:.2}, {}).\n\
             The Net100 papers' example, 2 MB: (0.31, 11); its {segments} segments here: \
             ({decrease:.2}, {increase}).\n",
            self.plan.bdp_segments, self.plan.rfc3649_decrease, self.plan.rfc3649_increase_segments,
        )
    }
}

fn increase(law: &LawPlan) -> String {
    let rounded = |number: f64| (number * 1e3).round() / 1e3;
    match law.increase_segments {
        Some(a) => format!("{}, {}", rounded(law.decrease), rounded(a)),
        None => format!("{}, by time", rounded(law.decrease)),
    }
}
