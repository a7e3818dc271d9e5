//! The keeper looks whether other files stand where key, certificate and authorities are, and
//! has them used together as soon as they go together. Until then those before are used.

use std::{
    future::pending,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use jiff::Timestamp;
use tokio::{task::spawn_blocking, time::sleep};
use tracing::{info, warn};
use wad_policy::config::Peers;
use wad_toolbox::causes::told;

use crate::{
    board::Board,
    common::{Common, InForce},
    credentials::{Credentials, CredentialsError, Files, Own, Seen},
};

/// How often it is looked.
const LOOK: Duration = Duration::from_secs(2);
/// Old words are ended within this time.
const TICK: Duration = Duration::from_millis(500);
/// A certificate that ends sooner is told of.
const SOON: Duration = Duration::from_secs(14 * 86_400);
const TOLD_EVERY: Duration = Duration::from_secs(86_400);

/// Holds what came of a look at the files.
pub struct Looked {
    /// None where they cannot be read.
    seen: Option<Seen>,
    made: Result<Credentials, String>,
}

impl Looked {
    pub fn at(settings: &Peers) -> Self {
        Self::of(settings, Files::read(settings))
    }

    fn of(settings: &Peers, files: Result<Files, CredentialsError>) -> Self {
        match files {
            Err(error) => Self { seen: None, made: Err(told(&error)) },
            Ok(files) => {
                let made = Credentials::new(settings, &files).map_err(|error| told(&error));
                Self { seen: Some(files.seen()), made }
            }
        }
    }
}

/// Remembers what was seen last.
pub struct Keeper {
    used: Option<Seen>,
    /// Something was wrong at the last look, and it has been told or not.
    wrong: Option<(String, bool)>,
    looked: Instant,
    told_of_end: Option<Instant>,
}

impl Keeper {
    /// Begins with what was found before.
    pub fn new(looked: Looked, board: &Board) -> (Self, Option<Arc<Credentials>>) {
        let now = Instant::now();
        let mut keeper = Self { used: None, wrong: None, looked: now, told_of_end: None };
        match looked.made {
            Ok(credentials) => {
                keeper.used = looked.seen;
                keeper.tell_of_end(&credentials.own);
                board.set_own(credentials.own.clone());
                (keeper, Some(Arc::new(credentials)))
            }
            Err(why) => {
                warn!("no peer is heard until its files can be used: {why}");
                board.count_file_error(why.clone());
                keeper.wrong = Some((why, true));
                (keeper, None)
            }
        }
    }

    /// Does what is due now and then; for ever where there is no keeper. It may be given up at
    /// any time.
    pub async fn keep(keeper: &mut Option<Self>, common: &Common) {
        let Some(keeper) = keeper else { return pending().await };
        sleep(TICK).await;
        common.board.end_what_is_old();
        if keeper.looked.elapsed() >= LOOK {
            keeper.look(common).await;
            keeper.looked = Instant::now();
        }
    }

    async fn look(&mut self, common: &Common) {
        let Some(in_force) = common.in_force() else { return };
        let settings = in_force.settings.clone();
        let used = self.used;
        let look = move || {
            // Most times they are as they were.
            let is_same = |files: &Files| used.is_some_and(|used| used == files.seen());
            let files = Files::read(&settings);
            (!files.as_ref().is_ok_and(is_same)).then(|| Looked::of(&settings, files))
        };
        let Ok(looked) = spawn_blocking(look).await else { return };
        let Some(Looked { seen, made }) = looked else {
            if self.wrong.take().is_some()
                && let Some(credentials) = &in_force.credentials
            {
                // They were put back.
                common.board.set_own(credentials.own.clone());
            }
            if let Some(credentials) = &in_force.credentials {
                self.tell_of_end(&credentials.own);
            }
            return;
        };
        match made {
            Ok(credentials) => {
                info!("key, certificate and authorities of [peers] are replaced");
                (self.used, self.wrong, self.told_of_end) = (seen, None, None);
                self.tell_of_end(&credentials.own);
                common.board.set_own(credentials.own.clone());
                let settings = in_force.settings.clone();
                let credentials = Some(Arc::new(credentials));
                common.set(Some(Arc::new(InForce { settings, credentials })));
            }
            // Two files cannot be replaced at once: it may be right at the next look.
            Err(why) => match &mut self.wrong {
                Some((before, is_told)) if *before == why => {
                    if !std::mem::replace(is_told, true) {
                        warn!("files of [peers] cannot be used, those before still are: {why}");
                        common.board.count_file_error(why);
                    }
                }
                _ => self.wrong = Some((why, false)),
            },
        }
    }

    fn tell_of_end(&mut self, own: &Own) {
        let now = Timestamp::try_from(SystemTime::now()).unwrap_or(Timestamp::UNIX_EPOCH);
        let left = own.valid_until.duration_since(now);
        let is_soon = Duration::try_from(left).unwrap_or_default() < SOON;
        let was_told = self.told_of_end.is_some_and(|at| at.elapsed() < TOLD_EVERY);
        if is_soon && !was_told {
            self.told_of_end = Some(Instant::now());
            let until = own.valid_until;
            warn!("the certificate of [peers] ends at {until}; `wad peer rotate` renews it");
        }
    }
}
