//! Takes out what is ours, whoever made it, and sees whether there is any.

use wad_linux::{
    netlink::{self, Family, Netlink, NetlinkError},
    netns::Identity,
};

use super::{pass, rule};

/// All of it, in a network namespace. One that is gone took it along.
pub fn remove(namespace: Identity) -> Result<(), NetlinkError> {
    netlink::inside(namespace, async |mut netlink| clear(&mut netlink).await).map(|_| ())
}

/// Whether there are rules of ours, which somebody follows, or lost.
pub fn are_there(namespace: Identity) -> Result<bool, NetlinkError> {
    let found = netlink::inside(namespace, async |netlink| {
        let mut found = false;
        for family in Family::ALL {
            let rules = netlink.rules(family).await.unwrap_or_default();
            found |= rules.iter().any(rule::is_ours);
        }
        Ok(found)
    });
    Ok(found?.unwrap_or(false))
}

pub async fn clear(netlink: &mut Netlink) -> Result<(), NetlinkError> {
    for family in Family::ALL {
        pass::clear(netlink, family).await?;
    }
    Ok(())
}
