//! The program `wad`.

use std::process::ExitCode;

fn main() -> ExitCode {
    wad_commands::main()
}
