//! The evidence tells of connections what limited them, by how much, and why nothing here
//! helps.

use std::net::IpAddr;

use wad_toolbox::amounts::{Bytes, Rate, Time};

use super::{LimitShare, totals::Totals};
use crate::diagnose::Limit;

/// A smaller part of the time is not told of.
const LEAST_SHARE: f64 = 0.01;

/// Returns what limited them, the largest part first.
pub fn limits(totals: &Totals) -> Vec<LimitShare> {
    let share = |(limit, limited): (&Limit, &super::totals::Limited)| LimitShare {
        limit: *limit,
        share: totals.share(*limit),
        evidence: limited.held_bytes().zip(totals.rtt_seconds).map(|(bytes, rtt)| {
            format!(
                "{} in each {} makes {}",
                Bytes(bytes as u64),
                Time(rtt),
                Rate(bytes * 8.0 / rtt)
            )
        }),
    };
    let mut limits: Vec<_> = totals.limits.iter().map(share).collect();
    limits.retain(|it| it.share >= LEAST_SHARE);
    limits.sort_by(|a, b| b.share.total_cmp(&a.share));
    limits
}

/// Says what the other end could do for connections that its window limited.
pub fn of_other_end(local: Option<IpAddr>) -> String {
    let remote = local.map_or_else(String::new, |local| format!(" remote = \"{local}\","));
    format!(
        "the window is the other end's to offer: there, a path with{remote} the same bandwidth \
         and rtt, and rcvbuf = \"auto\"; `wad suggest` there says the same"
    )
}

/// Says why nothing here helps those that something limited most of the time.
pub const fn why_nothing(limit: Limit) -> Option<&'static str> {
    Some(match limit {
        Limit::SendingApplication => "TCP sends as soon as the application writes",
        Limit::ReceivingApplication => "the application that receives has to read faster",
        Limit::PathRate => {
            "the path carries no more for them: data wait in its queue, or in this host's"
        }
        Limit::Loss => {
            "packets are lost without a queue; where that is no congestion, `loss = \"leaky\"` \
             helps, which takes more than a fair share and so consent"
        }
        Limit::Pacing => "an application, or a policy, has set the rate at which they send",
        Limit::SlowStart => "slow start ends by itself, and they end sooner",
        Limit::WindowGrowth => {
            "their window grows as fast as the congestion control has it: `wad plan` says what \
             others do, with consent"
        }
        Limit::WindowCap => "the application, or a policy, holds their window",
        Limit::OtherEnd => "what limits them is at the other end: `wad suggest` there says it",
        Limit::SendBuffer | Limit::OwnWindow => {
            "the kernel gives more by itself: the application has set the size, which a size of \
             the path's replaces with `override_setsockopt = true`"
        }
        // Said by what the other end could do.
        Limit::PeerWindow => return None,
        Limit::Idle | Limit::Unknown => "too little was seen of them: watch for longer",
    })
}
