//! The links hold tuning in the kernel. The agent has them open, with all else that is
//! pinned, so that nobody ends it by removing a pin or unmounting the file system; looks
//! whether others have taken something off; and puts that back.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fs, io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
    sync::Arc,
};

use aya::{maps::MapData, sys::SyscallError};
use aya_obj::generated::bpf_attach_type::{self, BPF_CGROUP_SETSOCKOPT, BPF_CGROUP_SOCK_OPS};
use wad_linux::{
    bpffs::{self, BPFFS},
    cgroup::{self, Cgroup},
    sysctl::Sysctl,
};
use wad_policy::{config::PathPolicy, law::Law};
use wad_struct_ops::{CongestionControl, KernelBtf, sys};
use wad_toolbox::whole_file;

use super::{Pins, Result, TuningError, algorithms, open_maps::OpenMaps, options, pins};
use crate::{
    attachment::{Lost, Part},
    instance::Instance,
};

/// The setting that names all congestion controls that are registered.
const REGISTERED: &str = "net.ipv4.tcp_available_congestion_control";

/// The links, and what they are of.
pub struct Links {
    pub cgroup: Arc<Cgroup>,
    maps: OpenMaps,
    /// All that is pinned is held open here, by the names of the pins.
    held: BTreeMap<String, Held>,
}

/// A pinned object, open: a map, a program or a link.
enum Held {
    Map(Arc<MapData>),
    Other(OwnedFd),
}

impl AsFd for Held {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Map(map) => map.fd().as_fd(),
            Self::Other(object) => object.as_fd(),
        }
    }
}

impl Links {
    /// Opens all that is pinned, but for the maps, which are open.
    pub fn open(pins: &Pins, cgroup: &Arc<Cgroup>, maps: OpenMaps) -> Result<Self> {
        let mut links = Self { cgroup: Arc::clone(cgroup), maps, held: BTreeMap::new() };
        links.hold(pins)?;
        Ok(links)
    }

    /// Opens what has been pinned since.
    pub fn hold(&mut self, pins: &Pins) -> Result<()> {
        for name in pins.names()? {
            if let Entry::Vacant(place) = self.held.entry(name) {
                let held = match self.maps.get(place.key()) {
                    Some(map) => Held::Map(Arc::clone(map)),
                    None => {
                        let object = sys::open_pin(&pins.at(place.key()));
                        Held::Other(object.map_err(TuningError::Held)?)
                    }
                };
                place.insert(held);
            }
        }
        Ok(())
    }

    /// Takes the program for options off, unless these paths want it.
    pub fn detach_options(&mut self, pins: &Pins, paths: &[PathPolicy]) -> Result<()> {
        if !options::is_wanted(paths) {
            // The pin is its last holder from here on.
            self.held.remove(pins::OPTIONS_LINK);
        }
        options::detach_unwanted(pins, paths)
    }

    /// Leaves all of it to the pins, which are all there as far as they can be.
    pub fn let_go(&mut self, pins: &Pins) {
        // What is not pinned ends here: before Linux 6.4 laws do not, and are removed by
        // their pins.
        let _ = self.pin(pins);
        self.held.clear();
    }

    /// Looks what is not where it belongs. It changes nothing, and fails only where it
    /// cannot look.
    pub fn look(&self, pins: &Pins) -> io::Result<Vec<Lost>> {
        let mut lost = Vec::new();
        let mut note = |part, why| lost.push(Lost { part, why });
        if let Some(why) = self.why_off(pins::TUNER_LINK)? {
            note(Part::Tuner, format!("new flows are not tuned: {why}"));
        }
        if let Some(why) = self.why_off(pins::OPTIONS_LINK)? {
            note(Part::Options, format!("override_setsockopt has no effect: {why}"));
        }
        let laws = self.unregistered()?;
        if !laws.is_empty() {
            let laws = laws.join(", ");
            note(Part::Laws, format!("new flows cannot have {laws}: not registered any more"));
        }
        let missing = self.held.keys().filter(|name| !is_there(&pins.at(name))).count();
        if missing > 0 {
            let folder = pins.folder().display();
            let why = if bpffs::is_mounted() {
                format!("{missing} of {} pins are gone from {folder}", self.held.len())
            } else {
                format!("no BPF file system is mounted at {BPFFS}")
            };
            note(Part::Pins, format!("tuning would end with the agent: {why}"));
        }
        Ok(lost)
    }

    /// Says why a program that is to be on the cgroup is not.
    fn why_off(&self, link: &str) -> io::Result<Option<String>> {
        let Some(link) = self.held.get(link) else { return Ok(None) };
        let path = self.cgroup.path.display();
        if self.cgroup.is_removed() {
            return Ok(Some(format!("the cgroup {path} was removed")));
        }
        let is_on = cgroup::attached_to(link.as_fd())? == Some(self.cgroup.id);
        Ok((!is_on).then(|| format!("the program was detached from the cgroup {path}")))
    }

    /// Names the laws that are not registered any more.
    fn unregistered(&self) -> io::Result<Vec<&str>> {
        let registered = Sysctl::default().read(REGISTERED).map_err(io::Error::other)?;
        let is_gone = |name: &&str| !registered.split_whitespace().any(|other| other == *name);
        Ok(self
            .held
            .keys()
            .map(String::as_str)
            .filter(|name| pins::is_algorithm(name))
            .filter(is_gone)
            .collect())
    }

    /// Puts a part back where it belongs. Where others are lost, too, pins come first: each part
    /// leaves its own beside them.
    pub fn put_back(&mut self, part: Part, pins: &Pins, instance: &Instance) -> Result<()> {
        match part {
            Part::Pins => self.pin(pins),
            Part::Laws => self.register(pins, instance),
            Part::Options => {
                self.find_cgroup()?;
                let program = options::load(&self.maps)?;
                let link = self.attach(program.as_fd(), BPF_CGROUP_SETSOCKOPT)?;
                self.replace(pins::OPTIONS_LINK, link, pins)
            }
            Part::Tuner => {
                self.find_cgroup()?;
                let tuner = self.held.get(pins::TUNER_PROGRAM);
                let tuner = tuner.ok_or(TuningError::NotPinned(pins::TUNER_PROGRAM))?;
                let link = self.attach(tuner.as_fd(), BPF_CGROUP_SOCK_OPS)?;
                self.replace(pins::TUNER_LINK, link, pins)
            }
        }
    }

    /// Takes what is now where a removed cgroup was.
    fn find_cgroup(&mut self) -> Result<()> {
        if self.cgroup.is_removed() {
            self.cgroup = Arc::new(Cgroup::open(Some(&self.cgroup.path))?);
        }
        Ok(())
    }

    fn attach(&self, program: BorrowedFd<'_>, kind: bpf_attach_type) -> Result<OwnedFd> {
        sys::link_cgroup(program, self.cgroup.file.as_fd(), kind).map_err(|io_error| {
            TuningError::Attach {
                cgroup: self.cgroup.path.clone(),
                source: Box::new(SyscallError { call: "bpf_link_create", io_error }.into()),
                others: self.cgroup.programs_in_the_way(),
            }
        })
    }

    /// Takes a link for one that is on nothing, its pin included. It does its work without
    /// a pin as well: that is another part.
    fn replace(&mut self, name: &str, link: OwnedFd, pins: &Pins) -> Result<()> {
        self.held.insert(name.to_owned(), Held::Other(link));
        whole_file::remove(&pins.at(name)).map_err(TuningError::Held)?;
        self.pin(pins)
    }

    /// Registers laws again. Flows that run under them have kept them.
    fn register(&mut self, pins: &Pins, instance: &Instance) -> Result<()> {
        let gone = self.unregistered().map_err(TuningError::Held)?;
        let gone: Vec<String> = gone.into_iter().map(str::to_owned).collect();
        let is_gone = |law: &Law| gone.contains(&instance.algorithm(law.name()));
        let laws: Vec<Law> = Law::ALL.iter().copied().filter(is_gone).collect();
        let laws = algorithms::load(&self.maps, instance, &laws, &KernelBtf::read()?)?;
        for pin in gone.iter().map(|name| pins.at(name)).filter(|pin| is_there(pin)) {
            CongestionControl::unpin(&pin).map_err(TuningError::Held)?;
        }
        algorithms::register(pins, None, laws)?;
        for name in gone {
            let object = sys::open_pin(&pins.at(&name)).map_err(TuningError::Held)?;
            self.held.insert(name, Held::Other(object));
        }
        Ok(())
    }

    /// Pins what lacks its pin, the tuner's link last: a folder that has it is whole.
    fn pin(&self, pins: &Pins) -> Result<()> {
        pins.make_folder()?;
        let (last, others): (Vec<_>, Vec<_>) =
            self.held.iter().partition(|(name, _)| *name == pins::TUNER_LINK);
        for (name, object) in others.into_iter().chain(last) {
            let path = pins.at(name);
            if !is_there(&path) {
                sys::pin(object.as_fd(), &path).map_err(TuningError::Held)?;
            }
        }
        Ok(())
    }
}

fn is_there(pin: &Path) -> bool {
    !fs::symlink_metadata(pin).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}
