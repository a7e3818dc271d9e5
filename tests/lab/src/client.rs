//! A client moves the data of an experiment.

/// Tells who sends and receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    Own,
    Iperf3,
}
