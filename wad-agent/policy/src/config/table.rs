//! Reads a TOML table key by key and collects what is wrong with it.

use std::{
    ops::RangeInclusive,
    path::{Path, PathBuf},
};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};
use wad_toolbox::nearest::nearest;

use super::{
    fault::{Fault, Nature, Problem, Problems, Span, quoted},
    keys::Key,
};

/// A value that was read, and where it stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Located<T> {
    pub value: T,
    pub at: Span,
}

/// A table whose keys are all known.
pub struct Table<'t> {
    own: Layer<'t>,
    /// The tables that have what it has not, the first before the next.
    under: Vec<Layer<'t>>,
    /// Places of values in those that it does without.
    hidden: Vec<Span>,
    /// Whether a key can only be its own.
    is_own: fn(&str) -> bool,
    keys: &'static [Key],
    /// The place of its header.
    pub at: Span,
}

/// The entries of a table, and where its section begins.
#[derive(Clone, Copy)]
pub struct Layer<'t> {
    pub entries: &'t DeTable<'t>,
    pub base_bytes: usize,
}

impl Layer<'_> {
    fn span<T>(&self, place: &Spanned<T>) -> Span {
        Span::new(self.base_bytes, place.span())
    }

    /// Whether a value of it is at this place.
    fn holds(&self, at: Span) -> bool {
        self.entries.iter().any(|(key, value)| {
            let range = self.span(key).start..self.span(value).end;
            range.contains(&at.start)
        })
    }
}

/// A key as it is written, its value, and the layer that they are of.
#[derive(Clone, Copy)]
struct Entry<'t> {
    written: &'t str,
    value: &'t Spanned<DeValue<'t>>,
    layer: Layer<'t>,
}

impl Entry<'_> {
    fn at(&self) -> Span {
        self.layer.span(self.value)
    }

    /// Something is wrong with its value, or with a part of it.
    fn problem<T>(&self, fault: Fault, place: &Spanned<T>) -> Problem {
        let title = format!("`{}`: {}", self.written, fault.title);
        let nature = Nature::OfValue;
        Fault { title, nature, ..fault }.at(self.layer.span(place))
    }
}

impl<'t> Table<'t> {
    /// Reports the keys that are not among `keys`, or there under both names.
    pub fn open(
        table: &'t Spanned<DeTable<'t>>,
        keys: &'static [Key],
        base_bytes: usize,
        problems: &mut Problems,
    ) -> Self {
        let own = Layer { entries: table.get_ref(), base_bytes };
        Self::new(own, keys, own.span(table)).check_keys(problems)
    }

    fn new(own: Layer<'t>, keys: &'static [Key], at: Span) -> Self {
        Self { own, under: Vec::new(), hidden: Vec::new(), is_own: |_| true, keys, at }
    }

    /// Returns the table over others, which have what it has not, but for keys that can only
    /// be its own.
    #[must_use]
    pub fn over(self, under: Vec<Layer<'t>>, is_own: fn(&str) -> bool) -> Self {
        Self { under, is_own, ..self }
    }

    /// Has it do without the values at these places.
    pub fn hide(&mut self, places: impl IntoIterator<Item = Span>) {
        self.hidden.extend(places);
    }

    /// Whether a value that it has from another table is at this place.
    pub fn is_from_elsewhere(&self, at: Span) -> bool {
        self.under.iter().any(|layer| layer.holds(at))
    }

    /// The table under a key of this one.
    pub fn table(
        &self,
        name: &'static str,
        keys: &'static [Key],
        problems: &mut Problems,
    ) -> Option<Self> {
        let entry = self.get(name)?;
        Self::table_in(entry, entry.value, keys, problems)
    }

    /// The tables of an array under a key, the last part of the name.
    pub fn tables(
        &self,
        name: &'static str,
        keys: &'static [Key],
        problems: &mut Problems,
    ) -> Vec<Self> {
        let key = name.rsplit_once('.').map_or(name, |(_, key)| key);
        let Some(entry) = self.get(key) else { return Vec::new() };
        let Some(items) = entry.value.get_ref().as_array() else {
            let fault = wrong_type(entry.value.get_ref(), "an array of tables")
                .help(format!("write [[{name}]], in double brackets, for each"));
            problems.push(entry.problem(fault, entry.value));
            return Vec::new();
        };
        items.iter().filter_map(|item| Self::table_in(entry, item, keys, problems)).collect()
    }

    fn table_in(
        entry: Entry<'t>,
        value: &'t Spanned<DeValue<'t>>,
        keys: &'static [Key],
        problems: &mut Problems,
    ) -> Option<Self> {
        let Some(entries) = value.get_ref().as_table() else {
            problems.push(entry.problem(wrong_type(value.get_ref(), "a table"), value));
            return None;
        };
        let own = Layer { entries, ..entry.layer };
        Some(Self::new(own, keys, own.span(value)).check_keys(problems))
    }

    fn check_keys(self, problems: &mut Problems) -> Self {
        for (written, _) in self.own.entries {
            let name = written.get_ref().as_ref();
            if self.keys.iter().any(|key| key.name == name) {
                continue;
            }
            let at = self.own.span(written);
            match self.keys.iter().find(|key| key.alias == Some(name)) {
                None => problems.push(unknown_key(name, self.keys).at(at)),
                Some(key) => {
                    if let Some((other, _)) = self.own.entries.get_key_value(key.name) {
                        let title = format!("`{name}` and `{}` are the same key", key.name);
                        let fault = Fault::new(title, "given here").help("keep one of them");
                        problems.push(fault.at(at).also(self.own.span(other), "and here"));
                    }
                }
            }
        }
        self
    }

    /// Whether the key is there, with whatever value.
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Whether the key is there, with an array.
    pub fn is_array(&self, name: &str) -> bool {
        self.get(name).is_some_and(|entry| entry.value.get_ref().as_array().is_some())
    }

    /// Returns where the key's value stands, if it is there.
    pub fn place(&self, name: &str) -> Option<Span> {
        self.get(name).map(|entry| entry.at())
    }

    /// The value of a key, if it is there and as it should be.
    pub fn read<T>(
        &self,
        name: &str,
        problems: &mut Problems,
        parse: impl FnOnce(&DeValue<'t>) -> Result<T, Fault>,
    ) -> Option<Located<T>> {
        let entry = self.get(name)?;
        Self::parse(entry, entry.value, problems, parse)
    }

    /// The values of a key that takes one or an array of them: those that are
    /// as they should be.
    pub fn read_list<T>(
        &self,
        name: &str,
        problems: &mut Problems,
        parse: impl Fn(&DeValue<'t>) -> Result<T, Fault>,
    ) -> Option<Vec<Located<T>>> {
        let entry = self.get(name)?;
        let Some(items) = entry.value.get_ref().as_array() else {
            return Some(Self::parse(entry, entry.value, problems, parse).into_iter().collect());
        };
        if items.is_empty() {
            let fault = Fault::new("empty list", "nothing is in it");
            let fault = fault.help("name at least one, or leave it out");
            problems.push(entry.problem(fault, entry.value));
        }
        let parsed = items.iter().filter_map(|item| Self::parse(entry, item, problems, &parse));
        Some(parsed.collect())
    }

    /// The values of a table whose keys are names that are not ours: those that are
    /// as they should be.
    pub fn read_map<T>(
        &self,
        name: &str,
        problems: &mut Problems,
        parse: impl Fn(&str, &DeValue<'t>) -> Result<T, Fault>,
    ) -> Vec<T> {
        let Some(entry) = self.get(name) else { return Vec::new() };
        let value = entry.value;
        let Some(entries) = value.get_ref().as_table() else {
            problems.push(entry.problem(wrong_type(value.get_ref(), "a table"), value));
            return Vec::new();
        };
        let parsed = entries.iter().filter_map(|(key, value)| {
            let key = key.get_ref();
            let inner = Entry { written: key, value, layer: entry.layer };
            let parsed = Self::parse(inner, value, problems, |value| parse(key, value));
            parsed.map(|field| field.value)
        });
        parsed.collect()
    }

    /// The file that a key names.
    pub fn read_file(&self, name: &str, problems: &mut Problems) -> Option<PathBuf> {
        self.read(name, problems, |value| absolute(text(value)?)).map(|file| file.value)
    }

    /// Reports a key that is not there but has to be.
    pub fn require(&self, name: &str, problems: &mut Problems, help: &str) {
        if !self.has(name) {
            let fault = Fault::new(format!("`{name}` is missing"), "in this table").help(help);
            problems.push(fault.at(self.at));
        }
    }

    fn parse<T>(
        entry: Entry<'t>,
        value: &Spanned<DeValue<'t>>,
        problems: &mut Problems,
        parse: impl FnOnce(&DeValue<'t>) -> Result<T, Fault>,
    ) -> Option<Located<T>> {
        match parse(value.get_ref()) {
            Ok(parsed) => Some(Located { value: parsed, at: entry.layer.span(value) }),
            Err(fault) => {
                problems.push(entry.problem(fault, value));
                None
            }
        }
    }

    /// The entry of a key, under either of its names.
    fn get(&self, name: &str) -> Option<Entry<'t>> {
        self.get_of(self.own, name).or_else(|| {
            let may_be_of = !self.under.is_empty() && !(self.is_own)(name);
            let under = self.under.iter().filter(|_| may_be_of);
            let mut found = under.filter_map(|layer| self.get_of(*layer, name));
            found.find(|entry| !self.hidden.contains(&entry.at()))
        })
    }

    fn get_of(&self, layer: Layer<'t>, name: &str) -> Option<Entry<'t>> {
        let alias = || self.keys.iter().find(|key| key.name == name)?.alias;
        let entries = layer.entries;
        let entry = entries.get_key_value(name).or_else(|| entries.get_key_value(alias()?));
        entry.map(|(written, value)| Entry { written: written.get_ref().as_ref(), value, layer })
    }
}

/// A string.
pub fn text<'v>(value: &'v DeValue<'_>) -> Result<&'v str, Fault> {
    value.as_str().ok_or_else(|| {
        let fault = wrong_type(value, "a string");
        match value {
            DeValue::Integer(_) | DeValue::Float(_) => fault.help(
                "write it in quotes; what is a quantity has its unit, as \"70ms\" or \"1Gbit\"",
            ),
            _ => fault,
        }
    })
}

/// An absolute path.
pub fn absolute(file: &str) -> Result<PathBuf, Fault> {
    if Path::new(file).is_absolute() && !file.contains(char::is_control) {
        return Ok(PathBuf::from(file));
    }
    Err(Fault::new(format!("{} is no absolute path", quoted(file)), "must begin with /"))
}

/// A name of few plain characters, which is one of `what`.
pub fn short_name(value: &DeValue<'_>, what: &str) -> Result<String, Fault> {
    let name = text(value)?;
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if (1..=63).contains(&name.len()) && name.chars().all(fits) {
        return Ok(name.to_owned());
    }
    let title = format!("{} is no name of a {what}", quoted(name));
    Err(Fault::new(title, "1 to 63 letters, digits, - and _ only"))
}

/// An integer within a range; `unit` is what it counts.
pub fn integer(value: &DeValue<'_>, range: RangeInclusive<u64>, unit: &str) -> Result<u64, Fault> {
    let integer = value.as_integer().ok_or_else(|| wrong_type(value, "an integer"))?;
    i128::from_str_radix(integer.as_str(), integer.radix())
        .ok()
        .and_then(|number| u64::try_from(number).ok())
        .filter(|number| range.contains(number))
        .ok_or_else(|| out_of_range(&range, unit))
}

/// A number, with or without a fraction, within a range.
pub fn number(value: &DeValue<'_>, range: RangeInclusive<f64>, unit: &str) -> Result<f64, Fault> {
    let number: f64 = match value {
        DeValue::Integer(integer) => i128::from_str_radix(integer.as_str(), integer.radix())
            .map_or(f64::NAN, |number| number as f64),
        DeValue::Float(float) => float.as_str().parse().unwrap_or(f64::NAN),
        _ => return Err(wrong_type(value, "a number")),
    };
    if range.contains(&number) { Ok(number) } else { Err(out_of_range(&range, unit)) }
}

/// `true` or `false`.
pub fn boolean(value: &DeValue<'_>) -> Result<bool, Fault> {
    value.as_bool().ok_or_else(|| wrong_type(value, "true or false"))
}

pub fn out_of_range<T: std::fmt::Display>(range: &RangeInclusive<T>, unit: &str) -> Fault {
    let label = format!("must be {} to {} {unit}", range.start(), range.end());
    Fault::new("out of range", label.trim_end())
}

pub fn wrong_type(value: &DeValue<'_>, expected: &str) -> Fault {
    let found = match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    };
    Fault::new("wrong type", format!("this is {found}, but it takes {expected}"))
}

fn unknown_key(name: &str, keys: &[Key]) -> Fault {
    let names = keys.iter().flat_map(|key| [Some(key.name), key.alias]).flatten();
    let help = match nearest(name, names) {
        Some(known) => format!("did you mean `{known}`?"),
        None => {
            let known: Vec<_> = keys.iter().map(|key| key.name).collect();
            format!("it takes {}", known.join(", "))
        }
    };
    Fault::new(format!("unknown key {}", quoted(name)), "not known here").help(help)
}
