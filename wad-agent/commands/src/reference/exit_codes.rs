//! The page of exit codes.

use super::{head, row};
use crate::exit::Exit;

const OPENING: &str = "\
# Exit codes

Every command ends with one of these; those from 64 on are of `sysexits.h`. Errors are on
standard error, with what to do about them.

";

pub fn page() -> String {
    let mut page = OPENING.to_owned();
    page += &head(["Code", "Meaning"]);
    for exit in Exit::ALL {
        page += &row([&exit.code().to_string(), exit.about()]);
    }
    page
}
