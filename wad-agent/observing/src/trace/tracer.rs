//! A tracer reads flows at a steady beat, and hands what it reads to the thread that
//! writes. `wad trace` and the agent have the same one.

use std::{fmt::Display, io, pin::pin, sync::Arc, time::Duration};

use tokio::time::{self, Instant, MissedTickBehavior};
use wad_instruments::Reading;

use super::{
    columns::Columns,
    counts::{Counts, WriteOutcome},
    files::Out,
    news::{News, Voice},
    row::{Format, Row},
    writer::{Closed, Writer, piece_bytes},
};

/// Says what lines have, and how often there are some.
#[derive(Clone, Debug)]
pub struct Form {
    pub columns: Columns,
    pub format: Format,
    pub interval: Duration,
    /// Most bytes of a file.
    pub max_bytes: u64,
}

/// A trace that is being written.
pub struct Tracer {
    form: Form,
    writer: Writer,
    counts: Arc<Counts>,
    voice: Voice,
}

/// Says what became of a trace.
#[derive(Debug)]
pub struct Ended {
    pub outcome: WriteOutcome,
    /// Readings that should have been.
    pub missed: u64,
}

impl Tracer {
    pub fn start(
        form: Form,
        out: impl Out + 'static,
        counts: Arc<Counts>,
        voice: Voice,
    ) -> io::Result<Self> {
        let piece_bytes = piece_bytes(form.max_bytes);
        let writer = Writer::start(out, piece_bytes, Arc::clone(&counts), Arc::clone(&voice))?;
        Ok(Self { form, writer, counts, voice })
    }

    /// Reads at each beat until the end is there, or nobody takes lines any more. Where
    /// there is no reading, it goes on with the next one that there is.
    pub async fn follow<E: Display>(
        &mut self,
        ask: impl AsyncFn() -> Result<Reading, E>,
        end: impl Future<Output = ()>,
    ) {
        let mut end = pin!(end);
        let interval = self.form.interval;
        let mut last = Instant::now();
        let mut beat = time::interval_at(last + interval, interval);
        beat.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            let answer = async {
                let at = beat.tick().await;
                self.counts.missed(beats_between(last, at, interval));
                last = at;
                ask().await
            };
            let answer = tokio::select! {
                biased;
                () = &mut end => return,
                answer = answer => answer,
            };
            match answer {
                Ok(reading) => {
                    if self.counts.is_silent(None).is_some() {
                        (self.voice)(&News::Heard);
                    }
                    if self.take(&reading) == Err(Closed) {
                        return;
                    }
                }
                Err(error) => self.misses(error.to_string()),
            }
        }
    }

    /// Has a reading written.
    pub fn take(&mut self, reading: &Reading) -> Result<(), Closed> {
        let Form { columns, format, .. } = &self.form;
        let row = |flow| Row::new(reading.time, flow, columns);
        let lines: Vec<u8> =
            reading.flows.iter().flat_map(|flow| format.line(&row(flow))).collect();
        self.writer.write(lines)
    }

    fn misses(&self, why: String) {
        self.counts.missed(1);
        if self.counts.is_silent(Some(why.clone())).as_ref() != Some(&why) {
            (self.voice)(&News::Silent { why });
        }
    }

    /// Writes what is left.
    pub fn finish(self) -> Ended {
        Ended { outcome: self.writer.finish(), missed: self.counts.missed_readings() }
    }
}

/// Counts the beats that should have been between two.
fn beats_between(last: Instant, now: Instant, interval: Duration) -> u64 {
    let beats = (now - last).as_secs_f64() / interval.as_secs_f64();
    (beats.round() as u64).saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, sync::Mutex};

    use jiff::Timestamp;

    use super::*;
    use crate::trace::{
        files::{Packing, Stream},
        testing::flow,
    };

    #[test]
    fn beats_that_were_skipped_are_counted() {
        let (last, interval) = (Instant::now(), Duration::from_millis(10));
        for (ms, missed) in [(10, 0), (20, 1), (100, 9), (0, 0)] {
            assert_eq!(beats_between(last, last + Duration::from_millis(ms), interval), missed);
        }
    }

    #[test]
    fn readings_that_are_none_are_told_once_and_the_next_one_is_written() {
        let form = Form {
            columns: Columns::new(["CurCwnd"]),
            format: Format::Csv,
            interval: Duration::from_millis(1),
            max_bytes: 1 << 20,
        };
        let told = Arc::new(Mutex::new(Vec::new()));
        let said = Arc::clone(&told);
        let voice: Voice = Arc::new(move |news| said.lock().unwrap().push(news.clone()));
        let out = Stream::begin(Vec::new(), Packing::None, b"").unwrap();
        let counts = Arc::<Counts>::default();
        let mut tracer = Tracer::start(form, out, Arc::clone(&counts), voice).unwrap();
        let asked = Cell::new(0);
        let ask = async || {
            asked.set(asked.get() + 1);
            match asked.get() {
                2 | 3 => Err("away"),
                _ => Ok(Reading {
                    time: Timestamp::UNIX_EPOCH,
                    flows: vec![flow(1, [("CurCwnd", Some(1.0))]), flow(2, [])],
                }),
            }
        };
        let end = async {
            while asked.get() < 6 {
                time::sleep(Duration::from_millis(1)).await;
            }
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.unwrap().block_on(tracer.follow(ask, end));
        let read = asked.get() - 2;
        let Ended { outcome, missed } = tracer.finish();
        assert_eq!(outcome, WriteOutcome { written: 2 * read, lost: 0, error: None });
        assert!(missed >= 2 && counts.bytes() > 0 && counts.fault().is_none());
        let expected = [News::Silent { why: "away".to_owned() }, News::Heard];
        assert_eq!(*told.lock().unwrap(), expected);
    }
}
