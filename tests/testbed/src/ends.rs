//! Two network namespaces, the near end and the far end of something that joins
//! them, and the ways of joining.

use crate::{
    netns::{Netns, NetnsError},
    process::{ProcessError, run},
};

/// The near end, `a`, where senders run, and the far end, `b`.
#[derive(Debug)]
pub struct Ends {
    pub a: Netns,
    pub b: Netns,
}

impl Ends {
    /// Creates both namespaces, with nothing in them but a loopback device that is up.
    ///
    /// # Errors
    /// Without root.
    pub fn create() -> Result<Self, EndsError> {
        Self { a: Netns::create("a")?, b: Netns::create("b")? }.up()
    }

    /// Creates the far end alone: the near end is the namespace of this process.
    ///
    /// # Errors
    /// Without root.
    pub fn create_far() -> Result<Self, EndsError> {
        Self { a: Netns::own("a")?, b: Netns::create("b")? }.up()
    }

    fn up(self) -> Result<Self, EndsError> {
        for end in self.both() {
            end.ip(&["link", "set", "lo", "up"])?;
        }
        Ok(self)
    }

    #[must_use]
    pub const fn both(&self) -> [&Netns; 2] {
        [&self.a, &self.b]
    }
}

/// Tells what went wrong with the ends.
#[derive(Debug, thiserror::Error)]
pub enum EndsError {
    #[error(transparent)]
    Netns(#[from] NetnsError),
    #[error(transparent)]
    Process(#[from] ProcessError),
}

/// Joins two namespaces by a pair of virtual Ethernet devices of one name, both
/// up.
///
/// # Errors
/// When `ip` refuses it.
pub fn join(ends: [&Netns; 2], device: &str) -> Result<(), ProcessError> {
    let [near, far] = ends.map(Netns::name);
    let pair = ["link", "add", device, "netns", near, "type", "veth", "peer", "name", device];
    run("ip", &[&pair[..], &["netns", far]].concat())?;
    ends.iter().try_for_each(|end| end.ip(&["link", "set", device, "up"]).map(|_| ()))
}

/// Gives a device an address, in use at once, with a prefix length.
///
/// # Errors
/// When `ip` refuses it.
pub fn add_address(netns: &Netns, device: &str, address: &str) -> Result<(), ProcessError> {
    let mut arguments = vec!["addr", "add", address, "dev", device];
    if address.contains(':') {
        arguments.push("nodad");
    }
    netns.ip(&arguments).map(|_| ())
}
