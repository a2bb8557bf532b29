//! Files for a shell: completions; and the version.

use clap::CommandFactory;
use model::{Error, Result};
use serde::Serialize;

use super::args::Cli;
use crate::answer::Answer;
use crate::output::{Output, render};

#[derive(Serialize)]
struct Version {
    version: &'static str,
    architecture: &'static str,
}

pub(super) fn version(output: Output) -> Result<Answer> {
    let version =
        Version { version: env!("CARGO_PKG_VERSION"), architecture: std::env::consts::ARCH };
    let table = || format!("spoke {} {}\n", version.version, version.architecture);
    Ok(Answer::text(render(output, &version, table)?))
}

pub(super) fn completion(shell: clap_complete::Shell) -> Result<Answer> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "spoke", &mut script);
    let text = String::from_utf8(script)
        .map_err(|cause| Error::bug("a completion script is no text").because(cause))?;
    Ok(Answer::text(text))
}
