//! What the linker leaves out of the program.

use std::env;

/// A panic aborts, and the program has no symbols: no code unwinds its stack, and the tables for that are
/// a tenth of it.
fn main() {
    println!("cargo::rerun-if-changed=discard.ld");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    if !is("PROFILE", "release") || !is("CARGO_CFG_TARGET_OS", "linux") {
        return;
    }
    let script = format!("{}/discard.ld", env::var("CARGO_MANIFEST_DIR").unwrap_or_default());
    for argument in ["-Wl,--no-eh-frame-hdr", &script] {
        println!("cargo::rustc-link-arg-bins={argument}");
    }
    // Rust's own linker, which is the usual one there, keeps one of functions that are the same.
    if is("CARGO_CFG_TARGET_ARCH", "x86_64") && is("CARGO_CFG_TARGET_ENV", "gnu") {
        println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
    }
}
