//! `spoke docker image`: this program as an image that runs the daemon.

use std::path::PathBuf;

use image::build::{self, Recipe};
use model::{Error, Result};
use serde::Serialize;

use crate::answer::Answer;
use crate::args::ImageArgs;
use crate::context::CommandContext;
use crate::output::{Output, render};

/// An image that was made.
#[derive(Serialize)]
struct BuiltImage {
    id: String,
    name: String,
    path: PathBuf,
}

pub(super) fn write(
    wanted: &ImageArgs,
    output: Output,
    context: &CommandContext,
) -> Result<Answer> {
    let version = env!("CARGO_PKG_VERSION");
    let recipe = Recipe::daemon(&wanted.name, version, &context.executable);
    let (id, path) = match (&wanted.archive, &wanted.layout) {
        (Some(file), _) => (build::archive(&recipe, file)?, file),
        (None, Some(directory)) => (build::layout(&recipe, directory)?, directory),
        (None, None) => return Err(Error::invalid("name the archive, or --layout DIRECTORY")),
    };
    let name = format!("{}:{version}", recipe.name);
    let made = BuiltImage { id: id.to_string(), name, path: path.clone() };
    let table = || format!("{}  {}  {}\n", made.id, made.name, made.path.display());
    render(output, &made, table).map(Answer::text)
}
