//! Reads `[agent]`: where the agent keeps its state, and what it leaves at its end.

use std::path::PathBuf;

use super::{
    fault::{Fault, Problems, quoted},
    keys::{
        Key,
        LeftOut::Value,
        Takes::{Text, Words},
        key,
    },
    table::{self, Table},
};

pub const TABLE: &str = "agent";

pub const KEYS: &[Key] = &[
    key("state_dir").takes(
        Text("an absolute path"),
        Value("\"/var/lib/wad\""),
        "where the journal is of what `wad` changes on this host, what is disabled, what was \
         measured, what sets hold, and events that wait for their sinks; takes a stop and a start",
    ),
    key("on_exit").takes(
        Words(&["restore", "keep"]),
        Value("\"restore\""),
        "`\"restore\"`: a stop takes everything out; `\"keep\"`: tuning goes on without the agent, \
         see [restarts](../restarts.md)",
    ),
];

#[derive(Clone, Debug, PartialEq)]
pub struct Agent {
    /// Where the journal of changes to the host is kept.
    pub state_dir: PathBuf,
    pub on_exit: OnExit,
}

impl Default for Agent {
    fn default() -> Self {
        Self { state_dir: PathBuf::from("/var/lib/wad"), on_exit: OnExit::Restore }
    }
}

/// Says what becomes of the tuning when the agent ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnExit {
    /// The tuning is taken out of the kernel, and the host is as it was.
    Restore,
    /// The tuning stays, for the next agent to take over, with what it needs of the
    /// host.
    Keep,
}

pub fn read(table: &Table<'_>, problems: &mut Problems) -> Agent {
    let usual = Agent::default();
    let state_dir = table.read_file("state_dir", problems);
    let on_exit = table.read("on_exit", problems, |value| match table::text(value)? {
        "restore" => Ok(OnExit::Restore),
        "keep" => Ok(OnExit::Keep),
        other => Err(Fault::new(
            format!("{} is nothing to do at the end", quoted(other)),
            "it takes \"restore\" or \"keep\"",
        )),
    });
    Agent {
        state_dir: state_dir.unwrap_or(usual.state_dir),
        on_exit: on_exit.map_or(usual.on_exit, |on_exit| on_exit.value),
    }
}
