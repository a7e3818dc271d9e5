//! The answer for people.

use std::fmt::{self, Display};

use wad_policy::config::{Settings, fields};
use wad_toolbox::refusals::RefusedFlows;

use super::{
    answer::{Answer, Basis, PathAnswer, Verdict},
    query::End,
};

/// Columns of a setting's key.
const KEY: usize = 22;

impl Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let remote = End { address: self.remote, port: self.remote_port };
        let from = match &self.from {
            Basis::PolicySet(number) => format!("policy set {number}, in force"),
            Basis::Configuration { file } => format!("{}, no agent asked", file.display()),
        };
        match &self.path {
            Some(PathAnswer { name, prefix, .. }) => {
                writeln!(f, "{remote} falls under path {name}, by {prefix} ({from})")?;
            }
            None if self.tried.is_empty() => writeln!(f, "{remote} falls under no path ({from})")?,
            None => writeln!(f, "{remote} falls under no path for sure ({from})")?,
        }
        for tried in &self.tried {
            let (word, conditions) = match &tried.verdict {
                Verdict::Taken => continue,
                Verdict::OnlyIf(conditions) => ("unless it has", conditions),
                Verdict::OnlyFor(conditions) => ("not as it is for", conditions),
            };
            let conditions = conditions.join(" and ");
            writeln!(f, "  path {}, by {}: {word} {conditions}", tried.path, tried.prefix)?;
        }
        match &self.path {
            Some(path) => {
                writeln!(f)?;
                write_settings(f, &path.settings)?;
                path.why.iter().try_for_each(|why| writeln!(f, "- {why}"))?;
                path.refused.iter().try_for_each(|RefusedFlows { refused, flows }| {
                    write!(f, "- the kernel has refused {refused} to {flows} of its flows")?;
                    refused.why().map_or(Ok(()), |why| write!(f, ": {why}"))?;
                    writeln!(f)
                })
            }
            None => writeln!(f, "\nits flows are as without wad"),
        }
    }
}

fn write_settings(f: &mut fmt::Formatter<'_>, settings: &Settings) -> fmt::Result {
    let mut given = fields::explained()
        .iter()
        .filter_map(|(field, setting)| Some((field.key, setting, settings.get(setting.name)?)))
        .peekable();
    if given.peek().is_none() {
        return writeln!(f, "it has no settings: flows are only counted");
    }
    given.try_for_each(|(key, setting, value)| writeln!(f, "{key:KEY$}  {}", setting.text(value)))
}
