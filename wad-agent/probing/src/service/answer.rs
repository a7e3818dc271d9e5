//! Other hosts are answered for as long as the service has it so, whatever breaks meanwhile.

use std::time::Duration;

use tokio::{task::JoinHandle, time::sleep};
use tracing::warn;
use wad_policy::config::Answering;
use wad_toolbox::{causes::told, seldom::Seldom};

use crate::tools::{Answerer, AnswererError, Terms};

/// Until it is tried again to answer after that has failed.
const AGAIN: Duration = Duration::from_secs(1);

pub fn bind(answering: &Answering) -> Result<Answerer, AnswererError> {
    let Answering { address, to, transfers, max_bytes, timeout } = answering;
    let (transfers, bytes, time) = (*transfers, *max_bytes, *timeout);
    Answerer::bind(*address, Terms { allowed: to.clone(), transfers, bytes, time })
}

/// Answers by what is bound already, or as soon as the address can be had: after `before`,
/// which has been told to end.
pub async fn keep_answering(
    answering: Answering,
    mut bound: Option<Answerer>,
    before: Option<JoinHandle<()>>,
) {
    if let Some(before) = before {
        let _ = before.await;
    }
    let mut said = Seldom::new();
    loop {
        let served = match bound.take().map_or_else(|| bind(&answering), Ok) {
            Ok(answerer) => answerer.serve().await,
            Err(error) => Err(error),
        };
        if let Err(error) = served
            && said.may_say()
        {
            warn!("nobody is answered, which is tried again: {}", told(&error));
        }
        sleep(AGAIN).await;
    }
}
