//! The scrapes: however many ask at a time, and go away again, one reading is under way.
//!
//! Whoever asks before a reading begins shares it with all others who do; whoever asks
//! while one is under way gets the next, as the page has to be of a time after the
//! question.

use std::sync::{Arc, Mutex};

use hyper::body::Bytes;
use tokio::sync::{self, watch};
use wad_observing::metrics::{Format, SourceError};
use wad_toolbox::mutex::locked;

/// The page, or why there is none.
type Page = Result<Bytes, String>;
type Awaited = watch::Receiver<Option<Page>>;

/// Makes the pages of the metrics, one at a time.
#[derive(Clone)]
pub struct Scrapes(Arc<Shared>);

struct Shared {
    make: Box<dyn Fn(Format) -> Result<String, SourceError> + Send + Sync>,
    /// Readings that have not begun, by format.
    next: Mutex<[Option<Awaited>; 2]>,
    turn: Arc<sync::Mutex<()>>,
}

impl Scrapes {
    /// Makes pages by a closure, which may block for as long as reading the maps takes.
    pub fn new(
        make: impl Fn(Format) -> Result<String, SourceError> + Send + Sync + 'static,
    ) -> Self {
        let (next, turn) = (Mutex::default(), Arc::default());
        Self(Arc::new(Shared { make: Box::new(make), next, turn }))
    }

    /// Returns a page that is read after this call.
    pub async fn page(&self, format: Format) -> Result<Bytes, SourceError> {
        let mut awaited = self.await_next(format);
        let page = awaited.wait_for(Option::is_some).await?.clone();
        Ok(page.expect("it was waited for")?)
    }

    fn await_next(&self, format: Format) -> Awaited {
        let next = &mut locked(&self.0.next)[format as usize];
        let start = || {
            let (page, awaited) = watch::channel(None);
            tokio::spawn(Arc::clone(&self.0).read(format, page));
            awaited
        };
        next.get_or_insert_with(start).clone()
    }
}

impl Shared {
    /// Reads when it is its turn. Who asked may have gone meanwhile: it is a task of its
    /// own, and holds its turn until the reading, which can't be stopped, is over.
    async fn read(self: Arc<Self>, format: Format, page: watch::Sender<Option<Page>>) {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        let reading = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            // Those who ask from now on get the next one.
            drop(locked(&self.next)[format as usize].take());
            if page.is_closed() {
                return;
            }
            let text = (self.make)(format).map(Bytes::from).map_err(|error| error.to_string());
            page.send_replace(Some(text));
        });
        // It fails only as the runtime ends.
        drop(reading.await);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        time::Duration,
    };

    use super::*;

    #[tokio::test]
    async fn ten_thousand_who_go_away_make_no_more_work_than_one_who_stays() {
        let counts = Arc::new([const { AtomicUsize::new(0) }; 3]);
        let counted = Arc::clone(&counts);
        let scrapes = Scrapes::new(move |_| {
            let [readings, under_way, most] = &*counted;
            readings.fetch_add(1, Ordering::SeqCst);
            most.fetch_max(under_way.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(20));
            under_way.fetch_sub(1, Ordering::SeqCst);
            Ok("page".to_owned())
        });
        for batch in 0..100 {
            let format = [Format::Text, Format::OpenMetrics][batch % 2];
            let asking: Vec<_> = (0..100)
                .map(|_| {
                    let scrapes = scrapes.clone();
                    tokio::spawn(async move { scrapes.page(format).await.map(drop) })
                })
                .collect();
            tokio::time::sleep(Duration::from_millis(1)).await;
            asking.iter().for_each(tokio::task::JoinHandle::abort);
        }
        let begun = std::time::Instant::now();
        assert_eq!(scrapes.page(Format::Text).await.unwrap(), "page");
        assert!(begun.elapsed() < Duration::from_secs(1));
        let [readings, _, most] = &*counts;
        assert_eq!(most.load(Ordering::SeqCst), 1);
        assert!(readings.load(Ordering::SeqCst) < 50, "{readings:?}");
    }
}
