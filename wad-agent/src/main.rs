//! The program `wad`. All of it is in the library, which the fuzz targets of
//! `tests/fuzz` are linked with as well.

use std::process::ExitCode;

fn main() -> ExitCode {
    wad::main()
}
