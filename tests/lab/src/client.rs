//! What moves the data of an experiment.

/// Who sends and receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    Own,
    Iperf3,
}
