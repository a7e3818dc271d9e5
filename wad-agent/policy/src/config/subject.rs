//! The subject of an experiment: whom a path is for, and what its connections get.

use super::{
    PathPolicy, experiment,
    fields::{self, flow::NEIGHBOURS},
};

/// Returns it in words, which stay the same for as long as the file does.
#[must_use]
pub fn subject(path: &PathPolicy) -> String {
    let nets = |what: &str, nets: &[ipnet::IpNet]| {
        let nets: Vec<_> = nets.iter().map(ToString::to_string).collect();
        (!nets.is_empty()).then(|| format!("{what} {}", nets.join(", ")))
    };
    let beside = [experiment::KEY, NEIGHBOURS];
    let shown = fields::checked().iter().filter(|(field, _)| !beside.contains(&field.key));
    let fields = shown.filter_map(|(field, checked)| {
        let text = (checked.text)(path)?;
        // What has a column to itself does not say what it is.
        Some(if checked.title.is_some() { format!("{} {text}", field.key) } else { text })
    });
    let ends = [nets("remote", &path.remote), nets("local", &path.local)];
    ends.into_iter().flatten().chain(fields).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, testing::host};

    fn subject_of(keys: &str) -> String {
        let text = format!("[[path]]\nname = \"a\"\nremote = \"10.0.0.0/8\"\n{keys}\n");
        subject(&Config::parse("wad.toml", &text, &host()).unwrap().paths[0])
    }

    #[test]
    fn what_an_experiment_is_about_is_told_apart() {
        let one = subject_of("congestion = \"cubic\"\nsndbuf = \"4MiB\"");
        assert!(one.starts_with("remote 10.0.0.0/8; "), "{one}");
        assert!(one.contains("sndbuf") && one.contains("cubic"), "{one}");
        assert_ne!(one, subject_of("congestion = \"cubic\"\nsndbuf = \"5MiB\""));
        assert_ne!(one, subject_of("congestion = \"reno\"\nsndbuf = \"4MiB\""));
        let with = "congestion = \"cubic\"\nsndbuf = \"4MiB\"\n[path.experiment]\nseed = 1";
        assert_eq!(one, subject_of(with));
    }
}
