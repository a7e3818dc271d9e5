//! Answers for tests.

use std::sync::Arc;

use wad_instruments::{FieldError, Reading, testing::flow};
use wad_linux::privileges::Privileges;
use wad_observing::{metrics::Source, reading};
use wad_tuning::explain::{Answer, Basis};

use super::Api;
use crate::{
    evidence::Experiments, explainer::Explainer, guards::Guards, heard::Ends, paths, probes::Desk,
    status::About,
};

/// Returns answers of one flow, three paths, and what a source says.
pub fn api(source: Source) -> Arc<Api> {
    let about = About::example(Privileges::of(u64::MAX));
    let paths = paths::Source::new(|| Ok(paths::testing::example()));
    let explainer = Explainer::new(|query| match query.remote.port {
        None => Ok(Answer::new(query, Basis::PolicySet(3))),
        Some(_) => Err("the map of rules is gone".into()),
    });
    let flows = reading::Source::new(|filter| match filter.fields.first() {
        None => Ok(Reading { time: jiff::Timestamp::UNIX_EPOCH, flows: vec![flow(7, 1.0, 1e6)] }),
        Some(name) => {
            let near = vec!["snd_wnd".to_owned()];
            Err(FieldError::UnknownField { name: name.clone(), near }.into())
        }
    });
    let attachment = Arc::default();
    Arc::new(Api {
        about,
        max_paths: Arc::new(1000.into()),
        attachment,
        source,
        paths,
        explainer,
        flows,
        probes: Desk::default(),
        peers: Default::default(),
        ends: Ends::new(wad_peers::Board::default()),
        experiments: Experiments::default(),
        guards: Guards::default(),
        recent: Arc::default(),
    })
}
