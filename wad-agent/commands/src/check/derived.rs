//! Derived events: of what they are made, and what comes of them.

use std::fmt;

use wad_policy::derived::{Definition, Derived, Limit};

use super::lists;

pub fn write(f: &mut fmt::Formatter<'_>, derived: &Derived) -> fmt::Result {
    derived.0.iter().try_for_each(|definition| {
        let title = format!("derived {}", definition.name);
        lists::write(f, &title, &of(definition))
    })
}

/// Says of what it is made, and what comes of it.
pub fn of(definition: &Definition) -> Vec<String> {
    let Definition { text, measure, unit, threshold, has_metric, .. } = definition;
    let unit = unit.as_deref().unwrap_or_default();
    let mut items = vec![format!("{text} ({measure})")];
    if let Some(threshold) = threshold {
        let (side, limit) = match threshold.limit {
            Limit::Above(limit) => ("above", limit),
            Limit::Below(limit) => ("below", limit),
        };
        let event = format!("an event {side} {limit} {unit}");
        let lasting = match threshold.lasting.as_secs_f64() {
            0.0 => String::new(),
            seconds => format!(" for {seconds} s"),
        };
        let paths = match threshold.paths.as_slice() {
            [] => String::new(),
            paths => format!(" on {}", paths.join(" and ")),
        };
        items.push(format!("{}{lasting}{paths}", event.trim_end()));
    }
    if *has_metric {
        items.push("a metric".to_owned());
    }
    items
}
