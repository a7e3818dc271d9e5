//! The command line.

use std::ffi::OsString;

use clap::{
    Arg, Parser, Subcommand,
    error::{ContextKind, ContextValue},
};
use wad_tuning::routes::GUARD;

use crate::{
    check, cleanup, diagnose, experiment, explain, flows, guard, import, paths, peer, plan, plot,
    probe, reload, report, run, simulate, status, suggest, switch, top, trace,
};

/// The advice to whoever gives a configuration to a command that reads none.
const READS_NONE: &str = "this command reads no configuration: a running agent goes by its own \
                          file, which `wad status` names";

/// Values with these names are quantities.
const QUANTITIES: [&str; 9] =
    ["BYTES", "FRACTION", "N", "NUMBER", "P", "RATE", "SECONDS", "SIZE", "TIME"];

/// Parses the command line. The error may be that help was asked for.
pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(words).map_err(|mut error| {
        let unknown = error.get(ContextKind::InvalidArg);
        let is_config = match unknown {
            Some(ContextValue::String(flag)) => flag == "--config",
            // Without it `reload` takes no file.
            Some(ContextValue::Strings(missing)) => missing == &["--dry-run"],
            _ => false,
        };
        if is_config {
            let advice = ContextValue::StyledStrs(vec![READS_NONE.into()]);
            error.insert(ContextKind::Suggested, advice);
        }
        error
    })
}

/// Tunes chosen TCP flows on chosen paths, with no change to applications.
#[derive(Debug, Parser)]
#[command(name = "wad", version, mut_subcommands(with_signs))]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

/// Has all quantities take what begins with a minus: no option is meant by "-5ms", and the value's
/// own parser says what is wrong with it.
fn with_signs(command: clap::Command) -> clap::Command {
    let with_sign = |argument: Arg| {
        let names = argument.get_value_names().unwrap_or_default();
        let is_quantity = names.iter().any(|name| QUANTITIES.contains(&name.as_str()));
        let may_be_bare = argument.get_num_args().is_some_and(|count| count.min_values() == 0);
        match is_quantity {
            // An option behind it would be its value.
            true if may_be_bare => argument.allow_negative_numbers(true),
            true => argument.allow_hyphen_values(true),
            false => argument,
        }
    };
    command.mut_args(with_sign).mut_subcommands(with_signs)
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Tune new flows as the configuration says, until stopped
    Run(run::Run),
    /// Check a configuration, and show what would be done
    Check(check::Check),
    /// Show what a path asks for: buffers, congestion control, streams, and the
    /// policy to paste
    Plan(plan::Arguments),
    /// Simulate laws, or a path's policy, on a path of given figures: rates, losses,
    /// recovery, as a table and a picture
    Simulate(simulate::Simulate),
    /// Make TOML of a configuration file of the papers' WAD, with what could not be
    /// carried over
    Import(import::Import),
    /// Show what the running agent does
    Status(status::Arguments),
    /// Show which path the connections to an address fall under, what they get, and
    /// why
    Explain(explain::Explain),
    /// Have the running agent read its configuration again, and say what changed
    Reload(reload::Reload),
    /// Tune no flow of a path, or none at all, until it is enabled again
    Disable(switch::Switch),
    /// Tune again what was disabled
    Enable(switch::Switch),
    /// Show what is known of each path, from where, how old it is, and the policy
    /// that came of it
    Paths(paths::KnownPaths),
    /// Show every flow of the paths, and what TCP knows of it
    Flows(flows::Flows),
    /// Write chosen instruments of chosen flows to a file, at a steady beat
    Trace(trace::Trace),
    /// Draw what was traced: windows, rate, RTT and retransmissions over time
    Plot(plot::Plot),
    /// Measure paths, and show what was measured
    Probe(probe::Probe),
    /// Talk with agents at other ends of paths: keys and certificates, and what is heard
    Peer(peer::Peer),
    /// Say what limits a flow, how that is known, and what would help
    Diagnose(diagnose::Diagnose),
    /// Watch all connections, and suggest the paths that would help them
    Suggest(suggest::Suggest),
    /// Find out whether tuning helps on a path: plan, start, stop, and watch experiments
    Experiment(experiment::Experiment),
    /// Show what guards over paths do, and end it: a policy that hurts is held back
    Guard(guard::Guard),
    /// Show what experiments have found out: whether tuning helps, and what they cannot say
    Report(report::Arguments),
    /// Show flows and paths live, with their rates and what limits them
    #[command(after_help = format!("Keys:\n{}", top::KEYS))]
    Top(top::Top),
    /// Take the agent's routes out if it is killed; it starts this itself
    #[command(name = GUARD, hide = true)]
    GuardRoutes,
    /// Take everything of wad's out of the kernel, and undo what it changed
    Cleanup(cleanup::Cleanup),
}

#[cfg(test)]
mod tests {
    use std::iter;

    use clap::CommandFactory as _;

    use super::*;
    use crate::reference::commands::leaves;

    #[test]
    fn a_quantity_with_a_minus_is_wrong_as_a_value() {
        for (line, said) in [
            ("plan --rate 1Gbit --rtt -5ms", "invalid value '-5ms' for '--rtt <TIME>'"),
            ("plan --rtt 5ms --rate -1Gbit", "invalid value '-1Gbit' for '--rate <RATE>'"),
            ("simulate --path p --queue -1BDP", "invalid value '-1BDP' for '--queue <SIZE>'"),
            ("simulate --path p --lose -1,3", "invalid value '-1' for '--lose <NUMBER>'"),
            ("experiment plan p --block -1h", "invalid value '-1h' for '--block <TIME>'"),
            ("flows --watch -5", "invalid value '-5' for '--watch [<SECONDS>]'"),
        ] {
            let words = iter::once("wad").chain(line.split(' ')).map(Into::into);
            let error = parse(words).unwrap_err().to_string();
            assert!(error.contains(said), "{line}: {error}");
        }
        let bare = ["wad", "flows", "--watch", "--json"].map(Into::into);
        assert!(parse(bare).is_ok(), "an option is no value");
    }

    #[test]
    fn only_commands_that_read_a_file_take_one() {
        let readers = [
            "run",
            "check",
            "explain",
            "simulate",
            "reload",
            "cleanup",
            "probe plan",
            "probe run",
            "experiment plan",
        ];
        let wad = Cli::command();
        for (name, command) in leaves(&wad) {
            let takes = command.get_arguments().any(|argument| argument.get_id() == "config");
            assert_eq!(takes, readers.contains(&&*name), "{name}");
        }
        let words = ["wad", "reload", "--config", "new.toml"].map(Into::into);
        let error = parse(words).unwrap_err().to_string();
        assert!(error.contains("`wad status` names"), "{error}");
    }
}
