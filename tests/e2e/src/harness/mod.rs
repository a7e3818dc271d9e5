//! The harness of the end-to-end tests. Each test is a process of its own, as it is in
//! a cgroup, has signals caught and names things by its process id; those that may are
//! run beside each other, then those that may beside a few, then the others one at a time.

mod host;
mod list;
mod needs;
mod one;
mod run;

pub use self::{
    list::list,
    needs::leave_to_machines,
    one::run_one,
    run::{Places, run},
};

/// A test, as `#[e2e(...)]` registers it where it stands.
pub struct Test {
    /// The path of the function.
    pub path: &'static str,
    pub machines: Machines,
    pub company: Company,
    /// Tells whether it is begun before the others of its company, so that none of those
    /// that take long is left at the end by itself.
    pub is_slow: bool,
    /// Tells whether it is also run where no congestion control by BPF can be
    /// registered.
    pub any_kernel: bool,
    /// The BPF program that the kernel has to take.
    pub needs: Option<&'static str>,
    pub run: fn() -> anyhow::Result<()>,
}

inventory::collect!(Test);

/// Tells when a test is run in virtual machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machines {
    /// The test runs at every change: it sees what a kernel's difference is likely to
    /// break.
    EveryChange,
    /// The test runs only in the long run.
    Long,
    /// The test never runs in virtual machines, for this reason.
    Never(&'static str),
}

/// Tells what a test bears beside it on a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Company {
    /// The test bears as many others as wait for most of their time.
    Beside,
    /// The test bears a few others: it measures, but takes a fraction of a processor
    /// for it.
    Few,
    /// The test bears nothing: what it measures takes the whole machine, or it changes,
    /// counts or traces what is the host's.
    Alone,
    /// The test is run in virtual machines alone, for this reason.
    NeverOnHosts(&'static str),
}

impl Company {
    /// Tells whether a host runs the test at all.
    pub fn is_on_hosts(self) -> bool {
        !matches!(self, Self::NeverOnHosts(_))
    }
}

impl Test {
    /// Returns the name as `MODULE::FUNCTION`.
    pub fn name(&self) -> &'static str {
        self.path.split_once("::tests::").map_or(self.path, |(_, name)| name)
    }

    /// Tells whether the test itself has agents refused programs: there can be one filter of that
    /// kind around a process, so none is put around the test.
    pub fn plays_kernel(&self) -> bool {
        self.name().starts_with("refused_programs::")
    }
}

/// Which tests are meant.
#[derive(Debug, Default, clap::Args)]
pub struct Choice {
    /// Only tests with one of these in their name
    #[arg(value_name = "FILTER")]
    filters: Vec<String>,
    /// A filter is a whole name
    #[arg(long)]
    exact: bool,
    /// Only those that are run in virtual machines
    #[arg(long, value_enum)]
    machines: Option<Tier>,
    /// Only those for kernels without congestion controls by BPF
    #[arg(long)]
    any_kernel: bool,
}

/// Which runs of virtual machines a test has to be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Tier {
    /// At every change
    EveryChange,
    /// The long run, which has the others as well
    Long,
}

impl Choice {
    /// Returns the tests that the choice means here, in the order of their names.
    pub fn tests(&self) -> Vec<&'static Test> {
        let mut tests = self.named();
        tests.retain(|test| self.has(test));
        tests
    }

    /// Returns the tests of such names, wherever they are run, in the order of these.
    pub fn named(&self) -> Vec<&'static Test> {
        let mut tests: Vec<&Test> =
            inventory::iter::<Test>.into_iter().filter(|test| self.names(test)).collect();
        tests.sort_unstable_by_key(|test| test.name());
        tests
    }

    fn names(&self, test: &Test) -> bool {
        let name = test.name();
        let fits =
            |filter: &String| if self.exact { name == filter } else { name.contains(filter) };
        self.filters.is_empty() || self.filters.iter().any(fits)
    }

    /// Tells whether they are run in a virtual machine.
    pub const fn is_of_machines(&self) -> bool {
        self.machines.is_some()
    }

    fn has(&self, test: &Test) -> bool {
        let is_here = match (self.machines, test.machines) {
            (None, _) => test.company.is_on_hosts(),
            (Some(_), Machines::EveryChange) => true,
            (Some(tier), Machines::Long) => tier == Tier::Long,
            (Some(_), Machines::Never(_)) => false,
        };
        self.names(test) && is_here && (test.any_kernel || !self.any_kernel)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn choice(filter: &str, exact: bool, machines: Option<Tier>) -> Choice {
        Choice { filters: vec![filter.to_owned()], exact, machines, any_kernel: false }
    }

    const fn test(path: &'static str, machines: Machines) -> Test {
        Test {
            path,
            machines,
            company: Company::Alone,
            is_slow: false,
            any_kernel: false,
            needs: None,
            run: || Ok(()),
        }
    }

    #[test]
    fn a_name_is_that_of_one_test_and_begins_with_its_file() {
        let tests = Choice::default().named();
        let names: HashSet<&str> = tests.iter().map(|test| test.name()).collect();
        assert!(!tests.is_empty() && names.len() == tests.len());
        assert!(names.iter().all(|name| name.split("::").count() == 2), "{names:?}");
    }

    #[test]
    fn a_filter_is_a_part_of_a_name_or_all_of_it() {
        let test = test("wad_e2e::tests::flows::are_shown", Machines::Long);
        assert!(choice("are", false, None).has(&test));
        assert!(!choice("are", true, None).has(&test));
        assert!(choice("flows::are_shown", true, None).has(&test));
        assert!(!choice("wad_e2e", false, None).has(&test));
    }

    #[test]
    fn the_long_run_has_what_is_run_at_every_change() {
        let tiers = [Machines::EveryChange, Machines::Long, Machines::Never("it is too large")];
        let in_run = |tier| tiers.map(|machines| choice("", false, tier).has(&test("x", machines)));
        assert_eq!(in_run(None), [true, true, true]);
        assert_eq!(in_run(Some(Tier::EveryChange)), [true, false, false]);
        assert_eq!(in_run(Some(Tier::Long)), [true, true, false]);
    }

    #[test]
    fn what_harms_a_host_is_run_in_machines_alone() {
        let company = Company::NeverOnHosts("it sets the clock");
        let test = Test { company, ..test("x", Machines::Long) };
        let in_run = |tier| choice("", false, tier).has(&test);
        assert_eq!(
            [None, Some(Tier::EveryChange), Some(Tier::Long)].map(in_run),
            [false, false, true]
        );
        assert!(choice("x", true, None).names(&test), "it is listed");
    }

    #[test]
    fn kernels_without_our_congestion_controls_get_only_what_bears_that() {
        let only = Choice { any_kernel: true, ..Choice::default() };
        let test = test("x", Machines::EveryChange);
        assert!(!only.has(&test));
        assert!(only.has(&Test { any_kernel: true, ..test }));
    }
}
