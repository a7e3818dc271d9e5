//! How often a test does what takes long: at each change enough to see what breaks, in the long
//! run as often as is promised.

use std::env;

/// The long run sets this variable.
const VARIABLE: &str = "WAD_E2E_WHOLE";

/// Returns one or the other.
pub fn of<T>(at_each_change: T, in_the_long_run: T) -> T {
    if env::var_os(VARIABLE).is_some() { in_the_long_run } else { at_each_change }
}
