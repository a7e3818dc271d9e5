//! `wad suggest`: paths that would help the connections that there are, with what was seen
//! of them.

use std::{path::Path, time::Duration};

use anyhow::{Result, bail};
use clap::Args;
use tokio::time::{self, Instant};
use wad_agent::client::{self, Request};
use wad_instruments::Reading;
use wad_linux::{
    lock,
    sysctl::{self, Sysctl},
};
use wad_observing::{
    diagnose::FIELDS,
    reading::{Filter, Remote},
    suggest::{LeftOut, Watch},
};
use wad_policy::{config, tuning_plan::KernelBuffers};
use wad_toolbox::signals::Stop;

use crate::{
    arguments::{Ask, OwnerFilterArguments},
    output,
    progress::Progress,
};

#[derive(Debug, Args)]
pub struct Suggest {
    /// How long to watch; SIGINT (Ctrl-C) ends it sooner, with what was seen so far
    #[arg(long = "for", value_name = "TIME", default_value = "1min",
          value_parser = parse_duration)]
    pub duration: Duration,
    /// Only connections to or from here; may be given several times
    #[arg(long = "remote", value_name = "PREFIX")]
    pub remotes: Vec<Remote>,
    #[command(flatten)]
    pub owners: OwnerFilterArguments,
    #[command(flatten)]
    pub ask: Ask,
}

/// Connections are looked at so often; over more than ten minutes, as often as in ten.
const BEAT: Duration = Duration::from_secs(1);
const MOST_LOOKS: u32 = 600;

fn parse_duration(text: &str) -> Result<Duration, String> {
    let range = Duration::from_secs(2)..=Duration::from_secs(7 * 24 * 3600);
    config::duration(text, range, "2s to 7d").map_err(|fault| fault.to_string())
}

/// `wad suggest`.
pub fn run(args: &Suggest) -> Result<()> {
    let progress = Progress::of("watching connections");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let watch = runtime.block_on(watch(args))?;
    drop(progress);
    let suggestions = watch.suggestions(kernel_buffers());
    if suggestions.suggestions.is_empty() && suggestions.left_out == LeftOut::default() {
        bail!(
            "no connection was there for as long as it takes to judge one: watch while there are \
             some, for longer with --for"
        );
    }
    if args.ask.json {
        return output::print_json(&suggestions);
    }
    output::print(suggestions)
}

async fn watch(args: &Suggest) -> Result<Watch> {
    let filter = Filter {
        remotes: args.remotes.clone(),
        owners: args.owners.to_filter(),
        all: true,
        fields: FIELDS.map(str::to_owned).to_vec(),
        ..Filter::default()
    };
    let instance = args.ask.instance.name.name();
    let socket = lock::socket(Path::new(lock::RUN_DIR), instance);
    let request = Request::get(format!("/v1/flows?{filter}"));
    let ask = || client::ask::<Reading>(&socket, instance, &request);

    let mut stop = Stop::new()?;
    let mut watch = Watch::default();
    watch.look(ask().await?);
    let end = Instant::now() + args.duration;
    let beat = BEAT.max(args.duration / MOST_LOOKS);
    loop {
        let next = (Instant::now() + beat).min(end);
        tokio::select! {
            () = stop.asked() => return Ok(watch),
            () = time::sleep_until(next) => watch.look(ask().await?),
        }
        if next >= end {
            return Ok(watch);
        }
    }
}

/// Returns up to where this host's kernel sizes buffers by itself (tcp(7)); zero where it
/// does not say.
fn kernel_buffers() -> KernelBuffers {
    let sysctl = Sysctl::default();
    let most = |key| sysctl::last_number(key, &sysctl.read(key).ok()?).ok();
    KernelBuffers {
        sndbuf_bytes: most("net.ipv4.tcp_wmem").unwrap_or(0),
        rcvbuf_bytes: most("net.ipv4.tcp_rmem").unwrap_or(0),
    }
}
