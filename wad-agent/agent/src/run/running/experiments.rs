//! Experiments are begun and ended by hand.

use tracing::info;
use wad_policy::config::{AskedExperiment, Config, refuse_neighbours};
use wad_toolbox::causes::with_causes;

use super::Running;
use crate::{
    evidence::{ExperimentOrder, ExperimentOutcome, ExperimentTold},
    run::parse,
};

impl Running<'_> {
    /// Does what is asked, or says why not.
    pub(super) fn experiment(&mut self, order: ExperimentOrder) -> ExperimentOutcome {
        let path = match &order {
            ExperimentOrder::Start { path, .. } | ExperimentOrder::Stop { path } => path.clone(),
        };
        let done = match order {
            ExperimentOrder::Start { asked, .. } => self.start_experiment(&path, &asked),
            ExperimentOrder::Stop { .. } => self.evidence.stop(&path, self.force.tuning()),
        };
        if let Err(reason) = done {
            return ExperimentOutcome::Refused { reason };
        }
        let all = self.evidence.experiments.all();
        let of_path = all.iter().find(|kept| kept.path == path).map(ExperimentTold::of);
        match of_path {
            Some(experiment) => ExperimentOutcome::Done { experiment: experiment.into() },
            // It would have been refused.
            None => ExperimentOutcome::Refused { reason: "there is none".to_owned() },
        }
    }

    fn start_experiment(&mut self, name: &str, asked: &AskedExperiment) -> Result<(), String> {
        let config = self.file_in_force()?;
        let path = config.paths.iter().find(|path| path.name == name);
        let path = path.ok_or_else(|| format!("no path of the file is called {name:?}"))?;
        if path.experiment.is_some() {
            return Err("the file has an experiment for this path: change it there".to_owned());
        }
        if let Some(why) = refuse_neighbours(path, &asked.neighbours, &config.paths) {
            return Err(why);
        }
        let settings = asked.settle(path).map_err(|error| error.to_string())?;
        self.evidence.start(path, &settings, self.force.tuning())?;
        info!(path = name, "somebody has begun an experiment");
        Ok(())
    }

    /// Reads the file once more: paths are not kept as it has them.
    fn file_in_force(&self) -> Result<Config, String> {
        if self.has_other_texts() {
            return Err(
                "the file has changed and is not in force: `wad reload` comes first".to_owned()
            );
        }
        let options = self.agent.options;
        let texts = options.texts().map_err(anyhow::Error::from);
        let config = texts.and_then(|texts| parse::configuration(&texts, options));
        config.map(|(config, _)| config).map_err(|error| with_causes(&error))
    }
}
