//! Tests that cannot run on this host say so, and are counted.
//!
//! Only what cannot be installed may be missing: a kernel's feature, a version that a distribution
//! has replaced, a lab that has its own target. A missing package is a failure.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::{env, thread};

/// Environment variable: the file that gets a line for each test that did not run. `make test`
/// prints it at its end.
const FILE: &str = "SPOKE_TESTS_SKIPPED";

/// Says on standard error that the calling test, or a part of it, does not run, and why; counts it
/// where `SPOKE_TESTS_SKIPPED` names a file.
///
/// # Panics
/// Where that file cannot be written.
#[expect(clippy::print_stderr, reason = "what is not tested has to be said")]
pub fn skipped(what: &str, why: &str) {
    let (what, why) = (what.trim(), why.trim().replace('\n', " "));
    eprintln!("\n!!! NOT TESTED: {what}: {why}");
    let Some(file) = env::var_os(FILE) else { return };
    let line = format!("{what}\t{}\t{why}\n", test());
    let mut file = OpenOptions::new().create(true).append(true).open(file).expect("the list");
    file.write_all(line.as_bytes()).expect("a line");
}

/// What the calling test is called: nextest names it to its process, the others to its thread.
fn test() -> String {
    let named = env::args().skip_while(|argument| argument != "--exact").nth(1);
    let named = named.filter(|_| env::var_os("NEXTEST").is_some());
    named.or_else(|| thread::current().name().map(str::to_owned)).unwrap_or_default()
}
