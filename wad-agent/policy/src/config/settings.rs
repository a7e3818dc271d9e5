//! The settings of a path that are in force: a value for each field that gives one.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, Visitor},
};

use super::{
    fields,
    setting::{InForce, Setting, Value},
};

/// Values by their names, which have the units; in the order in which they are shown.
#[derive(Clone, Debug, Default)]
pub struct Settings(Vec<(Cow<'static, str>, Option<Value>)>);

impl Settings {
    /// Returns the settings that `wad explain` shows: what is left out is left to the
    /// kernel.
    pub fn explained(in_force: InForce<'_>) -> Self {
        let values = fields::explained().iter().filter_map(|(_, setting)| {
            let value = (setting.value)(in_force)?;
            Some((setting.name.into(), Some(value)))
        });
        Self(values.collect())
    }

    /// Returns the settings that `wad paths` shows: what is left to the kernel is there
    /// without a value.
    pub fn of_path(in_force: InForce<'_>) -> Self {
        let value = |(_, setting): &(_, &Setting)| (setting.name.into(), (setting.value)(in_force));
        Self(fields::shown_of_paths().iter().map(value).collect())
    }

    /// Returns them in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Option<&Value>)> {
        self.0.iter().map(|(name, value)| (&**name, value.as_ref()))
    }

    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(known, _)| known == name)?.1.as_ref()
    }
}

/// Settings are equal in whatever order.
impl PartialEq for Settings {
    fn eq(&self, other: &Self) -> bool {
        self.0.len() == other.0.len() && self.0.iter().all(|setting| other.0.contains(setting))
    }
}

impl<const N: usize> From<[(&'static str, Option<Value>); N]> for Settings {
    fn from(values: [(&'static str, Option<Value>); N]) -> Self {
        Self(values.into_iter().map(|(name, value)| (name.into(), value)).collect())
    }
}

impl Serialize for Settings {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl<'de> Deserialize<'de> for Settings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ByName;

        impl<'de> Visitor<'de> for ByName {
            type Value = Settings;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("settings by name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Settings, A::Error> {
                let mut settings = Settings::default();
                while let Some((name, value)) = map.next_entry::<String, Option<Value>>()? {
                    settings.0.push((name.into(), value));
                }
                Ok(settings)
            }
        }

        deserializer.deserialize_map(ByName)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_keeps_order_and_kind() {
        let settings = Settings::from([
            ("b", Some(Value::Whole(6))),
            ("a", Some(Value::Real(6.0))),
            ("c", None),
        ]);
        let json = serde_json::to_string(&settings).unwrap();
        assert_eq!(json, r#"{"b":6,"a":6.0,"c":null}"#);
        let read: Settings = serde_json::from_str(&json).unwrap();
        assert_eq!(read, settings);
        assert_eq!(read.get("a"), Some(&Value::Real(6.0)));
        assert_eq!((read.get("c"), read.get("d")), (None, None));
        assert_eq!(serde_json::to_string(&read).unwrap(), json);
    }
}
