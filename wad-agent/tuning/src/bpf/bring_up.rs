//! Brings maps, the tuner and the laws into the kernel when an agent starts, or takes them
//! over from the one before.

use std::os::fd::AsFd as _;

use aya::{
    EbpfLoader,
    programs::{CgroupAttachMode, SockOps, links::FdLink},
};
use nix::unistd::{SysconfVar, sysconf};
use tracing::warn;
use wad_linux::cgroup::{self, Cgroup};
use wad_struct_ops::{KernelBtf, sys};
use wad_toolbox::side_by_side::side_by_side;

use super::{
    Pins, Result, Setup, Start, TuningError, algorithms, links::Links, maps::Maps, objects,
    offsets, open_maps::OpenMaps, options, pinned_maps, sets,
};

/// Holds what a start has made or taken over.
pub struct InKernel {
    pub maps: Maps,
    pub open_maps: OpenMaps,
    pub links: Links,
    pub how: Start,
    pub policy_set: u64,
}

/// Makes all of it, or takes the place of what another build left on the cgroup.
pub fn bring_up(pins: &Pins, setup: &Setup<'_>, btf: &KernelBtf) -> Result<InKernel> {
    pins.make_folder()?;
    sets::make(pins)?;
    let mut object = load_object(Some(pins), btf)?;
    let open_maps = OpenMaps::take_from(&mut object);
    let mut maps = Maps::new(pins, &open_maps, setup.left_alone)?;
    let missing = algorithms::missing(pins, setup.instance, setup.paths);
    // Most of a start is the verifier's work, and waits for grace periods of RCU.
    let ((policy_set, laws), tuner) = side_by_side(
        || {
            let policy_set = maps.install(setup.paths, setup.instance, setup.groups);
            (policy_set, algorithms::load(&open_maps, setup.instance, &missing, btf))
        },
        || load_tuner(&mut object),
    );
    let (policy_set, name, laws) = (policy_set?, tuner?, laws?);
    let tuner = self::tuner(&mut object, name)?;
    let options =
        if options::is_wanted(setup.paths) { Some(options::load(&open_maps)?) } else { None };
    // All that the kernel may refuse is loaded. What another build left on this
    // cgroup is changed for it, place by place: laws before the tuner that gives
    // them. What is elsewhere goes: names of laws are taken.
    let before = pins.others()?.into_iter().find(|other| is_attached_to(other, setup.cgroup));
    if before.is_none() {
        pins.remove_others()?;
    }
    algorithms::register(pins, before.as_ref(), laws)?;
    if let Some(options) = options {
        options::attach(&options, pins, before.as_ref(), &setup.cgroup.file)?;
    }
    sys::pin(tuner.fd()?.as_fd(), &pins.tuner_program()).map_err(TuningError::Held)?;
    let Some(before) = before else {
        attach(tuner, pins, setup.cgroup)?;
        let links = Links::open(pins, setup.cgroup, open_maps.clone())?;
        return Ok(InKernel { maps, open_maps, links, how: Start::Fresh, policy_set });
    };
    sys::take_link(&before.tuner_link(), tuner.fd()?.as_fd(), &pins.tuner_link())
        .map_err(|source| TuningError::Replace { link: before.tuner_link(), source })?;
    let links = Links::open(pins, setup.cgroup, open_maps.clone())?;
    remove_rest(pins);
    Ok(InKernel { maps, open_maps, links, how: Start::Upgraded, policy_set })
}

/// Takes over what an agent of this build left.
pub fn take_over(pins: &Pins, setup: &Setup<'_>, btf: &KernelBtf) -> Result<InKernel> {
    let open_maps = OpenMaps::open(pins)?;
    let missing = algorithms::missing(pins, setup.instance, setup.paths);
    let laws = algorithms::load(&open_maps, setup.instance, &missing, btf)?;
    algorithms::register(pins, None, laws)?;
    options::attach_wanted((pins, &open_maps), &setup.cgroup.file, setup.paths)?;
    options::detach_unwanted(pins, setup.paths)?;
    take_back(pins, &open_maps, setup, btf)?;
    let links = Links::open(pins, setup.cgroup, open_maps.clone())?;
    let mut maps = Maps::new(pins, &open_maps, setup.left_alone)?;
    let policy_set = maps.install(setup.paths, setup.instance, setup.groups)?;
    remove_rest(pins);
    Ok(InKernel { maps, open_maps, links, how: Start::TakenOver, policy_set })
}

/// Takes back what another build has taken, or was about to take, when it was killed half-way: laws
/// before the tuner that gives them. Both have pins of it then, whichever of the two this one is;
/// without this, flows would have laws of the one build whose maps are the other's.
fn take_back(pins: &Pins, maps: &OpenMaps, setup: &Setup<'_>, btf: &KernelBtf) -> Result<()> {
    for other in pins.others()? {
        algorithms::take_back(pins, &other, (maps, setup.instance, btf))?;
        options::take_back(pins, &other, maps)?;
        if other.tuner_link().exists() {
            let opened = sys::open_pin(&pins.tuner_link())
                .and_then(|link| Ok((link, sys::open_pin(&pins.tuner_program())?)));
            let (link, program) = opened.map_err(TuningError::Held)?;
            sys::update_link(link.as_fd(), program.as_fd())
                .map_err(|source| TuningError::Replace { link: pins.tuner_link(), source })?;
        }
    }
    Ok(())
}

/// Removes what is left of another build, whose links this one has taken.
fn remove_rest(pins: &Pins) {
    if let Err(left) = pins.remove_others() {
        warn!("{left}; the next start tries again");
    }
}

/// Whether the tuner that an agent left is on this cgroup. On another one, or on
/// one that is gone, the ends of its flows go unseen: its counts are no use.
pub fn is_attached_to(pins: &Pins, cgroup: &Cgroup) -> bool {
    let attached =
        sys::open_pin(&pins.tuner_link()).and_then(|link| cgroup::attached_to(link.as_fd()));
    attached.is_ok_and(|id| id == Some(cgroup.id))
}

/// Makes the maps, pins them if there is a place, and gets the tuner ready for loading.
pub fn load_object(pins: Option<&Pins>, btf: &KernelBtf) -> Result<aya::Ebpf> {
    let has_mptcp = u8::from(btf.has_function("bpf_skc_to_mptcp_sock"));
    let (choices, defaults) = (offsets::choices(btf)?, offsets::defaults(btf)?);
    let (sock, task) = (offsets::sock(btf)?, offsets::task(btf)?);
    let mut loader = EbpfLoader::new();
    loader.override_global("HAS_MPTCP", &has_mptcp, true);
    loader.override_global("CHOICES", &choices, true);
    loader.override_global("DEFAULTS", &defaults, true);
    loader.override_global("SOCK", &sock, true);
    loader.override_global("TASK", &task, true);
    let flows = pinned_maps::most_flows(memory_bytes()?);
    loader.map_max_entries("FLOWS", flows);
    loader.map_max_entries("SLOTS", 2 * flows);
    let pinned =
        pins.into_iter().flat_map(|pins| pinned_maps::NAMES.map(|name| (name, pins.map(name))));
    let paths: Vec<_> = pinned.collect();
    for (name, path) in &paths {
        loader.map_pin_path(name, path);
    }
    let mut object = loader.load(objects::tuner())?;
    // Scans have outputs of their own, and descriptors may be few.
    drop(object.take_map("OUTPUT"));
    Ok(object)
}

/// Returns the memory of this host.
fn memory_bytes() -> Result<u64> {
    let number = |variable| Ok(sysconf(variable)?.unwrap_or(0) as u64);
    let pages = number(SysconfVar::_PHYS_PAGES);
    let bytes = pages.and_then(|pages| Ok(pages * number(SysconfVar::PAGE_SIZE)?));
    bytes.map_err(|error: nix::Error| TuningError::Memory(error.into()))
}

/// Loads the tuner or, where the kernel refuses that, the one that does without
/// an instruction that came with Linux 5.12. Returns the name of the one that is loaded.
pub fn load_tuner(object: &mut aya::Ebpf) -> Result<&'static str> {
    const NOW: &str = "wad_tuner";
    const BEFORE: &str = "wad_tuner_plain";
    let Err(error) = tuner(object, NOW)?.load() else { return Ok(NOW) };
    // What is wrong with both is said of the first.
    tuner(object, BEFORE)?.load().map_err(|_| error)?;
    Ok(BEFORE)
}

fn tuner<'a>(object: &'a mut aya::Ebpf, name: &'static str) -> Result<&'a mut SockOps> {
    object
        .program_mut(name)
        .and_then(|program| program.try_into().ok())
        .ok_or(TuningError::Lacks { what: "program", name })
}

/// Attaches beside other programs; a link never replaces one.
fn attach(tuner: &mut SockOps, pins: &Pins, cgroup: &Cgroup) -> Result<()> {
    let id = tuner.attach(&cgroup.file, CgroupAttachMode::Single).map_err(|source| {
        TuningError::Attach {
            cgroup: cgroup.path.clone(),
            source: Box::new(source),
            others: cgroup.programs_in_the_way(),
        }
    })?;
    let link: FdLink = tuner.take_link(id)?.try_into()?;
    let path = pins.tuner_link();
    link.pin(&path).map_err(|source| TuningError::Pin { path, source })?;
    Ok(())
}
