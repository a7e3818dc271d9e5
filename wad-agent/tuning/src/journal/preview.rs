//! Says what would become of the lengths of transmit queues, and changes none.

use wad_policy::config::TransmitQueue;

use super::{Change, Journal, JournalError, transmit_queue};
use crate::preview::Move;

impl Journal {
    /// Returns the lengths that would change in the network namespace that is meant: those
    /// that are wanted, and those that would go back to what they were.
    pub fn queue_moves(&self, wanted: &[TransmitQueue]) -> Result<Vec<Move>, JournalError> {
        let here = self.namespace()?;
        let mut moves = Vec::new();
        for TransmitQueue { interface, packets } in wanted {
            let failed =
                |source| JournalError::TransmitQueue { interface: interface.clone(), source };
            let now = transmit_queue::of(interface).map_err(failed)?;
            let now = now.map_or_else(|| "missing".to_owned(), |queue| queue.packets.to_string());
            moves.extend(Move::of(interface, now, packets.to_string()));
        }
        let is_wanted = |name: &str| wanted.iter().any(|queue| queue.interface == name);
        moves.extend(self.changes().filter_map(|change| match change {
            Change::TransmitQueue { namespace, interface, before, after, .. }
                if *namespace == here && !is_wanted(interface) =>
            {
                Move::of(interface, after, before)
            }
            _ => None,
        }));
        Ok(moves)
    }
}
