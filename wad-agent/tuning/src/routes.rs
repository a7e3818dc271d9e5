//! `[host] routes`: `reorder`, `delayed_ack = false` and `ecn` as metrics of routes, which
//! are the only way in for the first, and the only one to no delay at all for the
//! second.
//!
//! Routes that others made are never touched. The paths' prefixes get rules, right
//! before that of the main table, which lead to tables with copies of what the main
//! table has for them, plus metrics. A copy is made only of what is simple enough to
//! be copied; for the rest there is nothing, or a `throw`, and the main table decides
//! as before. The copies follow the main table as it changes. They must not outlive
//! who does that: see `guard`.
//!
//! All of it is in one network namespace: the agent's own, or another one that flows of
//! the paths are in.

mod copies;
mod follow;
mod guard;
mod pass;
mod remove;
mod route;
mod rule;
mod standing;

use netlink_packet_route::route::RouteProtocol;

pub use self::{
    follow::Follower,
    guard::{COMMAND as GUARD, run as run_guard},
    remove::{are_there, remove},
    standing::{Counts, Refused, Report, RoutesState, Standing, means},
};

/// The protocol says whose the rules and routes are, in a column that others leave
/// alone.
const PROTOCOL: RouteProtocol = RouteProtocol::Other(119);

/// Right before the rule of the main table: whatever rules others have come first.
const PRIORITY: u32 = 32_765;
/// The priority of the main table's rule, as the kernel makes it
/// (`fib_default_rules_init()`), and its table.
const MAIN_PRIORITY: u32 = 32_766;
const MAIN_TABLE: u32 = 254;
