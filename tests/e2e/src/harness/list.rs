//! The list of tests: where and beside what each is run.

use std::fmt::Write as _;

use super::{Company, Machines, Test};

/// The words for a test that this host never runs, by which `cargo xtask test` knows it, too.
const NEVER_ON_HOSTS: &str = "never on hosts";

/// Returns a line for each test, those that virtual machines never run with the reason,
/// and how many there are of each kind.
pub fn list(tests: &[&Test]) -> String {
    let mut text = String::new();
    for test in tests {
        let machines = match test.machines {
            Machines::EveryChange => "at every change".to_owned(),
            Machines::Long => "in the long run".to_owned(),
            Machines::Never(reason) => format!("never: {reason}"),
        };
        let company = match test.company {
            Company::Beside => "beside others".to_owned(),
            Company::Few => "beside a few".to_owned(),
            Company::Alone => "alone".to_owned(),
            Company::NeverOnHosts(reason) => format!("{NEVER_ON_HOSTS}: {reason}"),
        };
        let _ = writeln!(text, "{}: test; {company}; in virtual machines {machines}", test.name());
    }
    let count = |is: fn(&Test) -> bool| tests.iter().filter(|test| is(test)).count();
    let _ = writeln!(
        text,
        "\n{} tests: {} beside others, {} beside a few, {} alone, {} {NEVER_ON_HOSTS}; in virtual \
         machines {} at every change, {} more in the long run, {} never",
        tests.len(),
        count(|test| test.company == Company::Beside),
        count(|test| test.company == Company::Few),
        count(|test| test.company == Company::Alone),
        count(|test| !test.company.is_on_hosts()),
        count(|test| test.machines == Machines::EveryChange),
        count(|test| test.machines == Machines::Long),
        count(|test| matches!(test.machines, Machines::Never(_))),
    );
    text
}
