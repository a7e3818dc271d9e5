//! A path's new flows begin with what is known, from one of these.

/// A new flow knows this of its path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resume {
    /// Nothing: it finds out by slow start.
    #[default]
    Off,
    /// Its beginning is what an earlier flow between the same ends has found out.
    Saved,
    /// That, or what the file says, or what is measured.
    Known,
}
