//! Checks what only shows with all sources of a file.

use std::collections::HashMap;

use super::{
    super::{
        Config,
        fault::{Fault, Problems, Span},
    },
    Source, SourceKind,
};

/// Most sources: each has metrics of its own.
const MAX_SOURCES: usize = 16;

/// `names` are the places of the sources' names, one for one.
pub fn check(config: &Config, names: &[Span], problems: &mut Problems) {
    if let Some(at) = names.get(MAX_SOURCES) {
        let title = format!("{} sources", names.len());
        problems.push(Fault::new(title, format!("at most {MAX_SOURCES}")).at(*at));
    }
    let sources = config.sources.iter().zip(names);
    let mut first = HashMap::new();
    for (source, at) in sources.clone() {
        if let Some(before) = first.insert(source.name.as_str(), *at) {
            let fault = Fault::new("two sources have the same name", "the second");
            problems.push(fault.help("rename one of them").at(*at).also(before, "the first"));
        }
    }
    let is_own = |source: &Source| source.kind == SourceKind::Probe && source.url.is_none();
    if let Some((_, at)) = sources.clone().find(|(source, _)| is_own(source))
        && config.probe.is_none()
    {
        let fault = Fault::new("this agent has no probe service", "it asks that");
        problems.push(fault.help("add [probe], or the `url` of another host's").at(*at));
    }
    let mut passive = sources.filter(|(source, _)| source.kind == SourceKind::Passive);
    if let (Some((_, first)), Some((_, second))) = (passive.next(), passive.next()) {
        let fault = Fault::new("two sources are passive", "they would see the same flows");
        problems.push(fault.help("leave one out").at(*second).also(*first, "the first"));
    }
}
