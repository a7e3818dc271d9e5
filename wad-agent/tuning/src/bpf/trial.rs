//! Finds out which programs this kernel takes, by loading each of them. Nothing is attached, pinned
//! or registered, so that nothing is left.

use std::{
    collections::HashMap,
    os::fd::{AsFd as _, BorrowedFd},
};

use schemars::JsonSchema;
use serde::Serialize;
use wad_common::instruments::Members;
use wad_policy::law::Law;
use wad_struct_ops::{self as struct_ops, KernelBtf};
use wad_toolbox::causes::told;

use super::{
    Result, TuningError, algorithms, bring_up, objects,
    open_maps::OpenMaps,
    options, pinned_maps,
    programs::{self, Optional},
    scan::Output,
};

/// Bytes of a record that all scans could write.
const RECORD_BYTES: usize = 4096;

/// How much goes without a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Need {
    /// There is no tuning without it.
    Required,
    /// The agent does without it, and without what it is for.
    Wanted,
    /// Little is lost without it.
    Bonus,
}

/// A program, and whether this kernel takes it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Trial {
    pub program: String,
    /// Its kind, as `iter/tcp`.
    pub kind: String,
    pub need: Need,
    /// It says what goes without the program.
    pub without: String,
    /// Why the kernel refuses it; null where it takes it.
    pub refusal: Option<String>,
}

/// Loads each program once, and lets go of it.
pub fn try_programs() -> Result<Vec<Trial>> {
    if !objects::are_embedded() {
        return Err(TuningError::NoObjects);
    }
    let btf = KernelBtf::read()?;
    let mut object = bring_up::load_object(None, &btf)?;
    let tuner = bring_up::load_tuner(&mut object).map(drop);
    let mut trials = vec![Trial {
        program: "wad_tuner".to_owned(),
        kind: "sock_ops".to_owned(),
        need: Need::Required,
        without: "`wad run` does not start".to_owned(),
        refusal: refusal(tuner),
    }];
    let (output, _) = Output::new(RECORD_BYTES, 1)?;
    let own = OpenMaps::take_from(&mut object);
    let mut maps = own.these(pinned_maps::ALL)?;
    maps.insert("OUTPUT", output.as_fd());
    trials.push(Trial {
        program: "wad_options".to_owned(),
        kind: "cgroup/setsockopt".to_owned(),
        need: Need::Wanted,
        without: "paths with `override_setsockopt` are refused".to_owned(),
        refusal: refusal(options::load_with(&maps).map(drop)),
    });
    trials.extend(Law::ALL.iter().map(|law| try_law(*law, &maps, &btf)));
    let object = programs::link(&maps, &btf, (0, &Members::NONE))?;
    trials.extend(programs::ALL.into_iter().map(|program| {
        let Optional { name, kind, is_bonus, without, .. } = *program;
        Trial {
            program: name.to_owned(),
            kind: kind.to_string(),
            need: if is_bonus { Need::Bonus } else { Need::Wanted },
            without: without.to_owned(),
            refusal: refusal(programs::load_from(&object, &btf, program).map(drop)),
        }
    }));
    Ok(trials)
}

fn try_law(law: Law, maps: &HashMap<&str, BorrowedFd<'_>>, btf: &KernelBtf) -> Trial {
    let loaded = match struct_ops::unsound(btf) {
        Some(why) => Some(why.to_owned()),
        None => {
            refusal(algorithms::load_with(maps, &[(law, law.name().to_owned())], btf).map(drop))
        }
    };
    Trial {
        program: law.name().to_owned(),
        kind: "struct_ops".to_owned(),
        need: Need::Wanted,
        without: "paths that name it keep the kernel's default congestion control".to_owned(),
        refusal: loaded,
    }
}

fn refusal(loaded: Result<()>) -> Option<String> {
    loaded.err().map(|error| told(&error))
}
