//! Links, routes and rules of a network namespace, asked for and changed through
//! rtnetlink(7).

use std::{io, net::IpAddr};

use crate::{
    netns::{self, Identity},
    own_thread::on_own_thread,
};
use futures_util::{Stream, StreamExt as _, TryStreamExt as _};
use netlink_packet_core::{NLM_F_ACK, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::{
    AddressFamily, RouteNetlinkMessage,
    link::LinkMessage,
    route::{RouteAttribute, RouteMessage},
    rule::RuleMessage,
};
use rtnetlink::{Handle, IpVersion};

#[derive(Debug, thiserror::Error)]
pub enum NetlinkError {
    #[error("cannot speak to the kernel by rtnetlink")]
    Socket { source: io::Error },
    #[error("cannot enter the network namespace that was changed")]
    Namespace { source: io::Error },
    #[error("cannot start the process that takes routes out if this one is killed")]
    Guard { source: io::Error },
    #[error("the kernel refuses to {what}")]
    Request { what: &'static str, source: io::Error },
}

impl NetlinkError {
    fn request(what: &'static str) -> impl Fn(rtnetlink::Error) -> Self {
        move |error| {
            let source = match error {
                rtnetlink::Error::NetlinkError(message) => message.to_io(),
                other => io::Error::other(other),
            };
            Self::Request { what, source }
        }
    }

    /// Returns what the kernel said, if it was asked.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Request { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    V4,
    V6,
}

impl Family {
    pub const ALL: [Self; 2] = [Self::V4, Self::V6];

    #[must_use]
    pub const fn address_family(self) -> AddressFamily {
        match self {
            Self::V4 => AddressFamily::Inet,
            Self::V6 => AddressFamily::Inet6,
        }
    }
}

/// A connection, in the network namespace of the thread that made it.
#[derive(Debug)]
pub struct Netlink(Handle);

impl Netlink {
    /// Opens a socket on a tokio runtime, which it lives on.
    pub fn open() -> Result<Self, NetlinkError> {
        let (connection, handle, _) =
            rtnetlink::new_connection().map_err(|source| NetlinkError::Socket { source })?;
        tokio::spawn(connection);
        Ok(Self(handle))
    }

    pub async fn links(&self) -> Result<Vec<LinkMessage>, NetlinkError> {
        collect("list interfaces", self.0.link().get().execute()).await
    }

    /// Returns the link of that number; None if there is none.
    pub async fn link(&self, index: u32) -> Result<Option<LinkMessage>, NetlinkError> {
        let asked = self.0.link().get().match_index(index).execute();
        match collect("look at an interface", asked).await {
            Ok(found) => Ok(found.into_iter().next()),
            Err(error) if error.errno() == Some(libc::ENODEV) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub async fn routes(&self, family: Family) -> Result<Vec<RouteMessage>, NetlinkError> {
        let mut all = RouteMessage::default();
        all.header.address_family = family.address_family();
        collect("list routes", self.0.route().get(all).execute()).await
    }

    /// Returns the route that packets between these addresses take; None if there is
    /// none.
    pub async fn route_to(
        &self,
        local: IpAddr,
        remote: IpAddr,
    ) -> Result<Option<RouteMessage>, NetlinkError> {
        let (family, bits) = match remote {
            IpAddr::V4(_) => (Family::V4, 32),
            IpAddr::V6(_) => (Family::V6, 128),
        };
        let mut wanted = RouteMessage::default();
        wanted.header.address_family = family.address_family();
        (wanted.header.source_prefix_length, wanted.header.destination_prefix_length) =
            (bits, bits);
        wanted.attributes =
            vec![RouteAttribute::Source(local.into()), RouteAttribute::Destination(remote.into())];
        match collect("look up a route", self.0.route().get(wanted).execute()).await {
            Ok(found) => Ok(found.into_iter().next()),
            Err(error) if error.errno() == Some(libc::ENETUNREACH) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the rules in the order in which they are followed.
    pub async fn rules(&self, family: Family) -> Result<Vec<RuleMessage>, NetlinkError> {
        let version = match family {
            Family::V4 => IpVersion::V4,
            Family::V6 => IpVersion::V6,
        };
        collect("list rules", self.0.rule().get(version).execute()).await
    }

    /// Has the kernel make a change.
    pub async fn change(
        &mut self,
        what: &'static str,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> Result<(), NetlinkError> {
        let mut request = NetlinkMessage::from(message);
        request.header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
        let mut answers = self.0.request(request).map_err(NetlinkError::request(what))?;
        while let Some(answer) = answers.next().await {
            if let NetlinkPayload::Error(error) = answer.payload
                && error.code.is_some()
            {
                return Err(NetlinkError::Request { what, source: error.to_io() });
            }
        }
        Ok(())
    }
}

async fn collect<T>(
    what: &'static str,
    answers: impl Stream<Item = Result<T, rtnetlink::Error>>,
) -> Result<Vec<T>, NetlinkError> {
    answers.try_collect().await.map_err(NetlinkError::request(what))
}

/// Does work in a network namespace, on a thread of its own; None if it is gone, or
/// out of sight.
pub fn inside<T: Send>(
    namespace: Identity,
    work: impl AsyncFnOnce(Netlink) -> Result<T, NetlinkError> + Send,
) -> Result<Option<T>, NetlinkError> {
    let entering = |source| NetlinkError::Namespace { source };
    // Entering one's own takes a privilege, too.
    let other = if Identity::own().map_err(entering)? == namespace {
        None
    } else {
        let Some(found) = netns::find(namespace).map_err(entering)? else { return Ok(None) };
        Some(found)
    };
    let in_thread = move || {
        if let Some(other) = other {
            other.enter().map_err(entering)?;
        }
        runtime()?.block_on(async { work(Netlink::open()?).await })
    };
    on_own_thread(in_thread).map_err(entering)?.map(Some)
}

/// Does work in the calling thread's network namespace, on a thread of its own.
pub fn here<T: Send>(
    work: impl AsyncFnOnce(Netlink) -> Result<T, NetlinkError> + Send,
) -> Result<T, NetlinkError> {
    let in_thread = || runtime()?.block_on(async { work(Netlink::open()?).await });
    on_own_thread(in_thread).map_err(|source| NetlinkError::Socket { source })?
}

/// Makes a runtime for a thread that speaks to the kernel.
pub fn runtime() -> Result<tokio::runtime::Runtime, NetlinkError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| NetlinkError::Socket { source })
}
