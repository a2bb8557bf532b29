//! The version.

use model::Result;
use serde::Serialize;

use crate::answer::Answer;
use crate::output::{Output, render};

#[derive(Serialize)]
struct Version {
    version: &'static str,
    architecture: &'static str,
}

pub(crate) fn version(output: Output) -> Result<Answer> {
    let version =
        Version { version: env!("CARGO_PKG_VERSION"), architecture: std::env::consts::ARCH };
    let table = || format!("spoke {} {}\n", version.version, version.architecture);
    Ok(Answer::text(render(output, &version, table)?))
}
