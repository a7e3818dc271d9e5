//! `wad peer status`: how it is with the peers of the running agent.

use std::{
    fmt::{self, Display},
    path::Path,
};

use anyhow::Result;
use clap::Args;
use wad_agent::client::{self, Request};
use wad_linux::lock;
use wad_peers::told::{PEERS, Peer, Peers};
use wad_toolbox::{
    amounts::{Bytes, Time},
    text_table::TextTable,
};

use crate::{arguments::Ask, output};

#[derive(Debug, Args)]
pub struct Status {
    #[command(flatten)]
    pub ask: Ask,
}

/// `wad peer status`.
pub fn run(Status { ask }: &Status) -> Result<()> {
    let instance = ask.instance.name.name();
    let socket = lock::socket(Path::new(lock::RUN_DIR), instance);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let request = Request::get(PEERS);
    let peers: Peers = runtime.block_on(client::ask(&socket, instance, &request))?;
    if ask.json { output::print_json(&peers) } else { output::print(Page(&peers)) }
}

struct Page<'p>(&'p Peers);

impl Display for Page<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Peers { own, files_failing, refused, peers, .. } = self.0;
        if let Some(own) = own {
            let name = own.name.as_deref().unwrap_or("no name");
            let prefixes: Vec<_> = own.prefixes.iter().map(ToString::to_string).collect();
            writeln!(f, "this end   {name}, speaks for {}", or_dash(prefixes.join(", ")))?;
            let ends = shown_end(own.certificate_ends_in_seconds);
            writeln!(f, "           {}, its certificate {ends}", own.key)?;
        }
        if let Some(why) = files_failing {
            writeln!(f, "failing    {why}")?;
        }
        if peers.is_empty() {
            return writeln!(f, "The configuration has no [[peer]].");
        }
        for (reason, count) in refused {
            writeln!(f, "refused    {count} that are no peer: {reason}")?;
        }
        let titles = [
            "PEER",
            "HEARD",
            "COUNTS FOR",
            "SPEAKS FOR",
            "ITS NIC",
            "RCVBUF",
            "CERTIFICATE",
            "SAYS",
        ];
        let table = TextTable::new(titles).with_rows(peers.iter().map(row));
        writeln!(f)?;
        if f.alternate() {
            write!(f, "{table:#}")?
        } else {
            write!(f, "{table}")?
        }
        for peer in peers {
            if let Some(why) = &peer.failing {
                writeln!(f, "failing    {}: {why}", peer.name)?;
            }
            for (reason, count) in &peer.refused {
                writeln!(f, "refused    {count} of {}: {reason}", peer.name)?;
            }
        }
        Ok(())
    }
}

fn row(peer: &Peer) -> [String; 8] {
    let heard = peer.heard.as_ref();
    let dash = || "-".to_owned();
    let prefixes = heard.map(|heard| {
        let prefixes: Vec<_> = heard.prefixes.iter().map(ToString::to_string).collect();
        prefixes.join(" ")
    });
    let rate = |bits: f64| format!("{} Mbit/s", (bits / 1e6).round());
    [
        peer.name.clone(),
        heard.map_or_else(|| "no".to_owned(), |heard| format!("{} ago", Time(heard.age_seconds))),
        heard.map_or_else(dash, |heard| Time(heard.ends_in_seconds).to_string()),
        or_dash(prefixes.unwrap_or_default()),
        heard.and_then(|heard| heard.nic_bits_per_second).map_or_else(dash, rate),
        heard
            .and_then(|heard| heard.max_rcvbuf_bytes)
            .map_or_else(dash, |bytes| Bytes(bytes).to_string()),
        peer.certificate_ends_in_seconds.map_or_else(dash, shown_end),
        heard.map_or_else(dash, says),
    ]
}

/// Names what there is, in short.
fn says(heard: &wad_peers::told::Heard) -> String {
    let window = |direction: &wad_peers::told::Direction| direction.wanted_window_bytes.is_some();
    let words = [
        (window(&heard.sending), "window"),
        (heard.sending.bandwidth_bits_per_second.is_some(), "bandwidth"),
        (heard.sending.min_rtt_seconds.is_some(), "rtt"),
        (heard.consent.is_some(), "consent"),
    ];
    let words: Vec<_> = words.iter().filter(|(is, _)| *is).map(|(_, word)| *word).collect();
    or_dash(words.join(" "))
}

fn or_dash(text: String) -> String {
    if text.is_empty() { "-".to_owned() } else { text }
}

fn shown_end(seconds: f64) -> String {
    let days = seconds / 86_400.0;
    if seconds <= 0.0 {
        "has ended".to_owned()
    } else if days >= 2.0 {
        format!("ends in {days:.0} days")
    } else {
        format!("ends in {}", Time(seconds.round()))
    }
}
