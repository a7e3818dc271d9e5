//! The lab and the end-to-end tests of `wad`.
