//! Agents at both ends of a path talk, as WAD-to-WAD was meant to: by which certificate each
//! knows the other, what they say, what of it is heard, and which runs of probes they agree to.
//!
//! All goes over TLS 1.3 with certificates of both ends. What a peer says is a hint: it is
//! bounded before it gets out of here, and others bound what follows from it. Nothing that was
//! heard is said to anybody else.
#![forbid(unsafe_code)]

mod ask;
mod board;
mod common;
mod credentials;
mod files;
pub mod identity;
pub mod make;
pub mod message;
mod refusal;
pub mod reservation;
mod serve;
mod service;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
pub mod told;
mod verifiers;

pub use self::{
    ask::Asker,
    board::Board,
    common::{Replying, Reserve, Say, Towards},
    files::{FileFault, faults as file_faults},
    refusal::Refusal,
    service::{Ready, Service, ServiceError},
};
