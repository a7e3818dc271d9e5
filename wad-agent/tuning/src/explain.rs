//! Explains which path the flows to an address fall under, what they get, and why:
//! from what is in force in the kernel or, where no agent runs, from the
//! configuration.

mod answer;
mod lookup;
mod offline;
mod query;
mod show;
#[cfg(test)]
mod tests;
mod why;

pub use self::{
    answer::{Answer, Basis},
    lookup::{Known, RuleSet, explain},
    offline::Offline,
    query::{End, PodName, Query, QueryError, below_root, interface_name, mark_number},
};
