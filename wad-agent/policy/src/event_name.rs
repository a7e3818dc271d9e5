//! An event is what happens to flows, by the names under which it is told.

use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EventName {
    /// A flow of a path is established, or was found running.
    Open,
    /// The flow has got what its path says, at least in part.
    Tuned,
    /// The flow ran already when it got that, or something else than before.
    Retuned,
    /// The flow was left alone, or a setting was refused.
    Limited,
    /// The flow closed; the counts are final.
    Closed,
    /// The flow goes on, but no more as a flow of its path.
    Left,
    /// A derived event's value is beyond its threshold.
    Derived,
    /// An experiment on a path has come to something.
    Experiment,
    /// The guard of a path holds its policy back, or lets it return.
    Guard,
}

impl EventName {
    pub const ALL: [Self; 9] = [
        Self::Open,
        Self::Tuned,
        Self::Retuned,
        Self::Limited,
        Self::Closed,
        Self::Left,
        Self::Derived,
        Self::Experiment,
        Self::Guard,
    ];

    pub const fn label(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Tuned => "tuned",
            Self::Retuned => "retuned",
            Self::Limited => "limited",
            Self::Closed => "closed",
            Self::Left => "left",
            Self::Derived => "derived",
            Self::Experiment => "experiment",
            Self::Guard => "guard",
        }
    }

    /// Returns when it is told, for the reference.
    pub const fn when(self) -> &'static str {
        match self {
            Self::Open => "a connection of a path is established, or found running",
            Self::Tuned => "a new one has got what its path says",
            Self::Retuned => "the same of one that runs",
            Self::Limited => "it was left alone, or not all was set",
            Self::Closed => "its end",
            Self::Left => "it goes on, but no more as its path's",
            Self::Derived => "a derived event is beyond its threshold",
            Self::Experiment => {
                "a block of an experiment does not count, it has a verdict, or it is over"
            }
            Self::Guard => "a path's guard holds its policy back, tries it, or lets it return",
        }
    }

    /// Returns the level, as NetLogger has levels.
    pub const fn level(self) -> &'static str {
        match self {
            Self::Limited | Self::Derived | Self::Guard => "Warn",
            _ => "Info",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::EventName;

    #[test]
    fn they_are_in_their_places_and_told_by_their_names() {
        for (place, name) in EventName::ALL.into_iter().enumerate() {
            assert_eq!(name as usize, place);
            assert_eq!(serde_json::to_string(&name).unwrap(), format!("\"{}\"", name.label()));
        }
    }
}
