//! The page of JSON Schemas: the form of all that commands print with `--json`, made from
//! the types that are printed.

use schemars::{
    JsonSchema, Schema,
    generate::SchemaSettings,
    transform::{RecursiveTransform, Transform as _},
};
use serde_json::Value;
use wad_agent::{
    evidence::{ExperimentOutcome, ExperimentsTold},
    guards::{GuardsTold, ReleaseOutcome},
    paths::Paths,
    reload::{ReloadOutcome, ReloadPreview},
    status::Status,
    switched::SwitchOutcome,
};
use wad_instruments::Reading;
use wad_observing::{diagnose::Diagnoses, suggest::Suggestions};
use wad_peers::told::Peers;
use wad_probing::{
    answers::{History, Runs},
    plan::Plan,
};
use wad_toolbox::document::Document;
use wad_tuning::explain::Answer;

use crate::{check, cleanup, experiment, flows, peer, plan, simulate};

const OPENING: &str = "\
# JSON Schemas

What commands print with `--json` is one document, or with `flows --watch` one a line, of this form
(JSON Schema 2020-12). `schema` comes first in each: it rises if a field goes, or changes its meaning.
Other fields may come at any time: whoever reads a document passes over those that it does not know.
`cargo xtask dist` puts the same into `target/dist/share/wad/schemas`, a file each.
[Events](../events.md) and [traces](../trace.md) have versions of their own.
";

/// A schema says what form a command's document has.
pub struct DocumentSchema {
    /// The command as it is called, `flows --instruments`, without `--json`.
    pub command: &'static str,
    pub schema: Schema,
}

/// Returns the schemas of all documents, in the order of the commands.
pub fn all() -> Vec<DocumentSchema> {
    vec![
        of::<check::Report>("check"),
        of::<check::Kernel>("check --host"),
        of::<plan::Plan>("plan"),
        of::<simulate::Simulated>("simulate"),
        of::<Status>("status"),
        of::<Answer>("explain"),
        of::<ReloadOutcome>("reload"),
        of::<ReloadPreview>("reload --dry-run"),
        of::<SwitchOutcome>("disable"),
        of::<SwitchOutcome>("enable"),
        of::<Paths>("paths"),
        of::<History>("paths --history"),
        of::<Reading>("flows"),
        of::<flows::Instruments>("flows --instruments"),
        of::<Plan>("probe plan"),
        of::<Runs>("probe now"),
        of::<Runs>("probe log"),
        of::<peer::Shown>("peer show"),
        of::<Peers>("peer status"),
        of::<Diagnoses>("diagnose"),
        of::<Suggestions>("suggest"),
        of::<experiment::Planned>("experiment plan"),
        of::<ExperimentOutcome>("experiment start"),
        of::<ExperimentOutcome>("experiment stop"),
        of::<ExperimentsTold>("experiment status"),
        of::<ExperimentsTold>("report"),
        of::<GuardsTold>("guard show"),
        of::<ReleaseOutcome>("guard release"),
        of::<cleanup::Cleaned>("cleanup"),
    ]
}

fn of<T: JsonSchema>(command: &'static str) -> DocumentSchema {
    let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut schema = generator.into_root_schema_for::<Document<T>>();
    schema.insert("title".to_owned(), Value::from(format!("wad {command} --json")));
    // It would tell of all documents.
    schema.remove("description");
    RecursiveTransform(unwrap_lines).transform(&mut schema);
    DocumentSchema { command, schema }
}

/// Makes one line of a description that is wrapped in the source.
fn unwrap_lines(schema: &mut Schema) {
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = text.replace('\n', " ");
    }
}

impl DocumentSchema {
    /// The file that has it: `flows-instruments.json`.
    pub fn file(&self) -> String {
        format!("{}.json", self.command.replace(" --", "-").replace(' ', "-"))
    }

    pub fn text(&self) -> String {
        format!("{:#}\n", self.schema.as_value())
    }
}

pub fn page() -> String {
    let mut page = OPENING.to_owned();
    for schema in all() {
        let DocumentSchema { command, .. } = &schema;
        page += &format!("\n## wad {command} --json\n\n```json\n{}```\n", schema.text());
    }
    page
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use clap::CommandFactory as _;

    use super::*;
    use crate::{cli::Cli, reference::commands::leaves};

    #[test]
    fn every_command_that_takes_json_has_a_schema_and_no_other() {
        let cli = Cli::command();
        let takes = |command: &clap::Command| {
            command.get_arguments().any(|argument| argument.get_long() == Some("json"))
        };
        let leaves = leaves(&cli);
        let leaves = leaves.iter().filter(|(_, command)| takes(command));
        let commands = leaves.map(|(name, _)| &**name);
        let schemas = all();
        let first = |it: &DocumentSchema| it.command.split(" --").next().unwrap_or_default();
        let known: HashSet<_> = schemas.iter().map(first).collect();
        assert_eq!(commands.collect::<HashSet<_>>(), known);
    }

    #[test]
    fn each_begins_with_its_version() {
        for schema in all() {
            let value = schema.schema.as_value();
            assert!(value["properties"]["schema"].is_object(), "{}", schema.command);
            let required = value["required"].as_array().unwrap();
            assert!(required.contains(&"schema".into()), "{}", schema.command);
        }
    }
}
