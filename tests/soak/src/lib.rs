//! The agent is killed here at every system call that changes the host (`wad-soak --kills`), and is
//! under load while everything around it comes and goes (`wad-soak`). It is looked at from outside.

pub mod kills;
pub mod storm;
mod traced;
