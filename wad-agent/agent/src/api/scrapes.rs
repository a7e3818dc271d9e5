//! The scrapes: however many ask at a time, and go away again, one reading is under way.
//!
//! Whoever asks before a reading begins shares it with all others who do; whoever asks
//! while one is under way gets the next, as the page has to be of a time after the
//! question. A page is compressed once, for all who take it so.

use std::sync::{Arc, Mutex};

use hyper::body::Bytes;
use tokio::sync::{self, watch};
use wad_observing::metrics::{Format, SourceError};
use wad_toolbox::mutex::locked;

use crate::gzip::gzip;

/// The page, or why there is none.
type Page = Result<Bytes, String>;
type Awaited = watch::Receiver<Option<Page>>;

/// Says how a page is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    pub format: Format,
    pub is_gzip: bool,
}

impl Form {
    /// The number of forms that there are.
    const COUNT: usize = 4;

    const fn place(self) -> usize {
        self.format as usize * 2 + self.is_gzip as usize
    }
}

/// Makes the pages of the metrics, one at a time.
#[derive(Clone)]
pub struct Scrapes(Arc<Shared>);

struct Shared {
    make: Box<dyn Fn(Format) -> Result<String, SourceError> + Send + Sync>,
    /// Readings that have not begun, by form.
    next: Mutex<[Option<Awaited>; Form::COUNT]>,
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
    pub async fn page(&self, form: Form) -> Result<Bytes, SourceError> {
        let mut awaited = self.await_next(form);
        let page = awaited.wait_for(Option::is_some).await?.clone();
        Ok(page.expect("it was waited for")?)
    }

    fn await_next(&self, form: Form) -> Awaited {
        let next = &mut locked(&self.0.next)[form.place()];
        let start = || {
            let (page, awaited) = watch::channel(None);
            tokio::spawn(Arc::clone(&self.0).read(form, page));
            awaited
        };
        next.get_or_insert_with(start).clone()
    }
}

impl Shared {
    /// Reads when it is its turn. Who asked may have gone meanwhile: it is a task of its
    /// own, and holds its turn until the reading, which can't be stopped, is over.
    async fn read(self: Arc<Self>, form: Form, page: watch::Sender<Option<Page>>) {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        let reading = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            // Those who ask from now on get the next one.
            drop(locked(&self.next)[form.place()].take());
            if page.is_closed() {
                return;
            }
            let text = (self.make)(form.format).map(Bytes::from);
            let text = if form.is_gzip { text.and_then(|text| Ok(gzip(&text)?)) } else { text };
            page.send_replace(Some(text.map_err(|error| error.to_string())));
        });
        // It fails only as the runtime ends.
        drop(reading.await);
    }
}

/// Whether a client takes a gzip-compressed answer (RFC 9110 section 12.5.3).
pub fn takes_gzip(accept_encoding: &str) -> bool {
    let weight = |wanted: &str| {
        accept_encoding.split(',').find_map(|coding| {
            let (name, parameters) = coding.split_once(';').unwrap_or((coding, ""));
            let is_it = name.trim().eq_ignore_ascii_case(wanted);
            let weight = parameters.trim().strip_prefix("q=").map_or(Ok(1.0), str::parse);
            is_it.then(|| weight.unwrap_or(0.0))
        })
    };
    weight("gzip").or_else(|| weight("*")).unwrap_or(0.0_f32) > 0.0
}

#[cfg(test)]
mod tests {
    use std::{
        io::Read as _,
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
                    tokio::spawn(async move {
                        scrapes.page(Form { format, is_gzip: false }).await.map(drop)
                    })
                })
                .collect();
            tokio::time::sleep(Duration::from_millis(1)).await;
            asking.iter().for_each(tokio::task::JoinHandle::abort);
        }
        let begun = std::time::Instant::now();
        let form = Form { format: Format::Text, is_gzip: false };
        assert_eq!(scrapes.page(form).await.unwrap(), "page");
        assert!(begun.elapsed() < Duration::from_secs(1));
        let [readings, _, most] = &*counts;
        assert_eq!(most.load(Ordering::SeqCst), 1);
        assert!(readings.load(Ordering::SeqCst) < 50, "{readings:?}");
    }

    #[tokio::test]
    async fn a_page_is_compressed_for_who_takes_it_so() {
        let scrapes = Scrapes::new(|_| Ok("page ".repeat(1000)));
        let form = Form { format: Format::Text, is_gzip: true };
        let page = scrapes.page(form).await.unwrap();
        assert!(page.len() < 100, "{} bytes", page.len());
        let mut text = String::new();
        flate2::read::GzDecoder::new(&*page).read_to_string(&mut text).unwrap();
        assert_eq!(text, "page ".repeat(1000));
    }

    #[test]
    fn gzip_is_only_for_those_who_ask() {
        for (accepted, expected) in [
            ("gzip", true),
            ("deflate, GZip;q=0.5", true),
            ("*", true),
            ("gzip, deflate;q=0, *;q=0", true),
            ("", false),
            ("identity", false),
            ("gzip;q=0, *", false),
            ("gzip;q=none", false),
            ("xgzip", false),
        ] {
            assert_eq!(takes_gzip(accepted), expected, "{accepted}");
        }
    }
}
