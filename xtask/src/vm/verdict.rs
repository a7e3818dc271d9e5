//! A verdict is made of what a console says of the tests that ran there.

use std::fmt;

use super::machine::{Console, End};

/// So many lines of the console are shown with a failure that is not a test's.
const SHOWN: usize = 40;

/// The outcome on one kernel.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    Passed {
        tests: u32,
    },
    /// The failure in one line, and the end of the console where that tells more.
    Failed {
        why: String,
        console: Vec<String>,
    },
}

impl fmt::Display for Verdict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed { tests } => write!(out, "passed, {tests} tests"),
            Self::Failed { why, .. } => write!(out, "FAILED: {why}"),
        }
    }
}

/// Judges a console by the program that should have run there.
pub fn judge(console: &Console, program: &str) -> Verdict {
    let failed = |why: String| {
        let last = console.lines.len().saturating_sub(SHOWN);
        Verdict::Failed { why, console: console.lines[last..].to_vec() }
    };
    if let Some(line) = console.lines.iter().find(|line| is_kernel_error(line)) {
        return failed(format!("the kernel says: {}", line.trim()));
    }
    let failures: Vec<_> = console.lines.iter().filter_map(|line| failed_test(line)).collect();
    let off = console.lines.iter().any(|line| line == "vm: done");
    match console.end {
        End::Silent => failed("nothing was to be seen any more".to_owned()),
        End::TooLong => failed("it took too long".to_owned()),
        End::Off if !off => failed("it ended early".to_owned()),
        End::Off if !failures.is_empty() => {
            Verdict::Failed { why: failures.join(", "), console: Vec::new() }
        }
        End::Off => match tests_passed(&console.lines, program) {
            Some(tests) => Verdict::Passed { tests },
            None => failed(program.to_owned()),
        },
    }
}

/// Tells whether a line is of an error that should never be: oops=panic makes a panic
/// of most of it.
fn is_kernel_error(line: &str) -> bool {
    ["Kernel panic", "BUG: ", "Oops: ", "general protection fault"]
        .iter()
        .any(|word| line.contains(word))
}

/// Returns the number of a program's tests, if at least one was run and all passed.
fn tests_passed(lines: &[String], program: &str) -> Option<u32> {
    let begin = lines.iter().position(|line| *line == format!("vm: begin {program}"))?;
    let length = lines[begin..].iter().position(|line| *line == format!("vm: end {program} 0"))?;
    let result = lines[begin..begin + length]
        .iter()
        .rev()
        .find_map(|line| line.strip_prefix("test result: ok. "))?;
    // "3 passed; 0 failed; 0 ignored; ...": one that was ignored did not pass.
    let mut counts = result.split("; ").filter_map(|count| count.split_once(' '));
    let passed = counts.next()?.0.parse().ok()?;
    let none_ignored = counts.any(|count| count == ("0", "ignored"));
    (passed > 0 && none_ignored).then_some(passed)
}

fn failed_test(line: &str) -> Option<&str> {
    // "test NAME ... FAILED <SECONDS>"
    let (name, outcome) = line.strip_prefix("test ")?.split_once(" ... ")?;
    (outcome.split(' ').next() == Some("FAILED")).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn console(text: &str) -> Console {
        Console { lines: text.lines().map(str::to_owned).collect(), end: End::Off }
    }

    const GOOD: &str = "vm: begin tests\ntest a::b ... ok <0.100s>\n\
                        test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured\n\
                        vm: end tests 0\nvm: done\n";

    fn why(console: &Console) -> String {
        match judge(console, "tests") {
            Verdict::Failed { why, .. } => why,
            passed @ Verdict::Passed { .. } => panic!("{passed}"),
        }
    }

    #[test]
    fn all_have_to_pass() {
        assert_eq!(judge(&console(GOOD), "tests"), Verdict::Passed { tests: 2 });
        assert_eq!(why(&console(&GOOD.replace("end tests 0", "end tests 101"))), "tests");
        assert_eq!(why(&console(&GOOD.replace("2 passed", "0 passed"))), "tests");
        assert_eq!(
            why(&console(&GOOD.replace("ok. 2 passed; 0 failed; 0", "ok. 1 passed; 0 failed; 1"))),
            "tests"
        );
        let named = GOOD.replace("... ok", "... FAILED");
        assert_eq!(why(&console(&named)), "a::b");
    }

    #[test]
    fn a_machine_that_does_not_end_as_it_should_has_not_passed() {
        assert_eq!(why(&console(&GOOD.replace("vm: done\n", ""))), "it ended early");
        assert!(why(&console(&GOOD.replace("vm: done", "[ 1.0] BUG: unable"))).contains("BUG"));
        let silent = Console { end: End::Silent, ..console(GOOD) };
        assert!(why(&silent).contains("nothing"));
    }
}
