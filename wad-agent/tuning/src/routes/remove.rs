//! Takes out what is ours, whoever made it, and sees whether there is any.

use wad_linux::netlink::{self, Family, Netlink, NetlinkError};

use super::{pass, rule};

/// All of it, in the calling thread's network namespace.
pub fn remove() -> Result<(), NetlinkError> {
    netlink::here(async |mut netlink| clear(&mut netlink).await)
}

/// Whether there are rules of ours, which somebody follows, or lost.
pub fn are_there() -> Result<bool, NetlinkError> {
    netlink::here(async |netlink| {
        let mut found = false;
        for family in Family::ALL {
            let rules = netlink.rules(family).await.unwrap_or_default();
            found |= rules.iter().any(rule::is_ours);
        }
        Ok(found)
    })
}

pub async fn clear(netlink: &mut Netlink) -> Result<(), NetlinkError> {
    for family in Family::ALL {
        pass::clear(netlink, family).await?;
    }
    Ok(())
}
