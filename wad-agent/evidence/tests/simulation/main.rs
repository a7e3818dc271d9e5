//! Simulations of many experiments and many guarded paths. Those that `cargo test` runs take
//! seconds; `cargo test -p wad-evidence --test simulation -- --ignored --nocapture` runs the long
//! ones, which print the figures that the book has.

mod coverage;
mod guarded;
mod noise;
mod published;
