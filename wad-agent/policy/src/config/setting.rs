//! A setting is what a field comes to once it is in force, as commands show it.

use std::fmt::{self, Display};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wad_common::{control::WindowSize, policy::Policy};
use wad_toolbox::shown;

use super::Origin;
use crate::law::Law;

/// A policy as the kernel side has it, and where it comes from.
#[derive(Clone, Copy)]
pub struct InForce<'a> {
    pub policy: &'a Policy,
    pub origin: &'a Origin,
}

impl InForce<'_> {
    /// The congestion control's name; None for the kernel's default.
    pub fn congestion(&self) -> Option<String> {
        Some(shown::text(&self.policy.congestion)).filter(|name| !name.is_empty())
    }

    /// Returns which law of ours it is, if it is one.
    pub fn law(&self) -> Option<Law> {
        Law::of_algorithm(&self.congestion()?)
    }
}

/// A value that a field gives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Value {
    Flag(bool),
    Whole(u64),
    Real(f64),
    Text(String),
    Window(Window),
}

/// A size of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Window {
    Segments(u32),
    Bytes(u32),
}

impl Value {
    /// A number of which zero is none.
    pub fn number(number: impl Into<u64>) -> Option<Self> {
        Some(number.into()).filter(|number| *number > 0).map(Self::Whole)
    }

    /// A size of which zero is none.
    pub const fn window(size: WindowSize) -> Option<Self> {
        match size {
            WindowSize { segments: 0, bytes: 0 } => None,
            WindowSize { segments: 0, bytes } => Some(Self::Window(Window::Bytes(bytes))),
            WindowSize { segments, .. } => Some(Self::Window(Window::Segments(segments))),
        }
    }
}

impl Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => flag.fmt(f),
            Self::Whole(number) => number.fmt(f),
            Self::Real(number) => number.fmt(f),
            Self::Text(text) => f.write_str(text),
            Self::Window(Window::Segments(segments)) => write!(f, "{segments} segments"),
            Self::Window(Window::Bytes(bytes)) => write!(f, "{bytes} bytes"),
        }
    }
}

/// Says how a command shows what is in force of a field.
#[derive(Clone, Copy)]
pub struct Setting {
    /// The name in JSON, with the unit.
    pub name: &'static str,
    /// The unit: what follows the value in text.
    pub unit: &'static str,
    /// Words that stand in text in place of the value.
    pub words: Option<&'static str>,
    /// The heading of a column that it has to itself.
    pub title: Option<&'static str>,
    /// The key of the field behind which it is shown; None for its place in the table.
    pub after: Option<&'static str>,
    /// Returns the value; None where it is left to the kernel.
    pub value: fn(InForce<'_>) -> Option<Value>,
}

impl Setting {
    pub const fn new(name: &'static str, value: fn(InForce<'_>) -> Option<Value>) -> Self {
        Self { name, unit: "", words: None, title: None, after: None, value }
    }

    pub const fn unit(self, unit: &'static str) -> Self {
        Self { unit, ..self }
    }

    pub const fn words(self, words: &'static str) -> Self {
        Self { words: Some(words), ..self }
    }

    pub const fn title(self, title: &'static str) -> Self {
        Self { title: Some(title), ..self }
    }

    pub const fn after(self, key: &'static str) -> Self {
        Self { after: Some(key), ..self }
    }

    /// The value in words.
    pub fn text(&self, value: &Value) -> String {
        match self.words {
            Some(words) => words.to_owned(),
            None => format!("{value}{}", self.unit),
        }
    }
}
