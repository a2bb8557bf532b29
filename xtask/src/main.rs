//! The project's own checks.
//!
//! - `cargo xtask tidy`: the architecture's invariants, file lengths, words, licences.
//! - `cargo xtask ci`: everything that judges the text: format, clippy, documentation, tidy.
//! - `cargo xtask matrix`: the README's table of runtimes and back ends, from the tests themselves.
//! - `cargo xtask options`: the manual's tables of options, from the table of options.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod matrix;
mod options;
mod tidy;

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// What keeps a check from a verdict, or the verdict.
type Result<T> = std::result::Result<T, String>;

fn main() -> ExitCode {
    let task = env::args().nth(1).unwrap_or_default();
    let done = match task.as_str() {
        "tidy" => tidy::tidy(&root()),
        "ci" => ci(),
        "matrix" => matrix::matrix(&root()),
        "options" => options::options(&root()),
        _ => Err("usage: cargo xtask tidy|ci|matrix|options".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("{text}");
            ExitCode::FAILURE
        }
    }
}

fn ci() -> Result<()> {
    step("format", cargo(&["fmt", "--all", "--check"]))?;
    let all = ["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"];
    step("clippy", cargo(&all))?;
    let mut doc =
        cargo(&["doc", "--workspace", "--no-deps", "--document-private-items", "--quiet"]);
    doc.env("RUSTDOCFLAGS", "-D warnings");
    step("doc", doc)?;
    println!("lint: tidy");
    tidy::tidy(&root())
}

fn step(name: &str, mut command: Command) -> Result<()> {
    println!("lint: {name}");
    let status = command.status().map_err(|error| format!("{name}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("lint: {name} failed")) }
}

fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root());
    command
}

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}
