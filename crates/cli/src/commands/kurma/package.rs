//! Making this program a plugin: in an image, or on this host.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use image::build::{self, Extra, Recipe};
use model::{Error, Result};
use serde::Serialize;

use crate::answer::Answer;
use crate::args::kurma::BuildArgs;
use crate::context::CommandContext;
use crate::output::{Output, names, render};

/// The executables of a plugin.
const EXECUTABLES: [&str; 3] = ["add", "del", "setup"];

/// Where an image has the CNI plugins that are added to it.
const PROGRAMS: &str = "/opt/cni/bin";

/// An image that was made.
#[derive(Serialize)]
struct Built {
    id: String,
    name: String,
    path: PathBuf,
}

/// `spoke kurma build-image`.
pub(super) fn build(
    wanted: &BuildArgs,
    output: Output,
    context: &CommandContext,
) -> Result<Answer> {
    let mut recipe = Recipe::plugin(&wanted.name, env!("CARGO_PKG_VERSION"), &context.executable);
    for file in &wanted.with {
        let name = file.file_name().ok_or_else(|| {
            Error::invalid(format!("--with {} is no file's name", file.display()))
        })?;
        recipe.files.push(Extra { from: file.clone(), to: Path::new(PROGRAMS).join(name) });
    }
    // For runtimes that call the image's plugins by CNI: what was added goes before.
    let ours = cni::Plugin::ALL.map(|plugin| Path::new(PROGRAMS).join(plugin.name()));
    let is_free = |path: &PathBuf| recipe.files.iter().all(|file| file.to != *path);
    let ours: Vec<PathBuf> = ours.into_iter().filter(is_free).collect();
    recipe.links.extend(ours);
    let (id, path) = match (&wanted.aci, &wanted.layout, &wanted.archive) {
        (Some(file), _, _) => (build::aci(&recipe, file)?, file),
        (None, Some(directory), _) => (build::layout(&recipe, directory)?, directory),
        (None, None, Some(file)) => (build::archive(&recipe, file)?, file),
        (None, None, None) => {
            return Err(Error::invalid("say what to make: --aci, --layout or --archive"));
        }
    };
    let built = Built { id: id.to_string(), name: recipe.name, path: path.clone() };
    let table = || format!("{}  {}\n", built.id, built.path.display());
    render(output, &built, table).map(Answer::text)
}

/// `spoke kurma install`: each executable becomes a link to this program.
pub(super) fn install(
    directory: &Path,
    output: Output,
    context: &CommandContext,
) -> Result<Answer> {
    let program = &context.executable;
    let paths = EXECUTABLES.map(|name| directory.join(name));
    for path in &paths {
        refuse_foreign(path, program)?;
    }
    let making = |cause| Error::os(format!("making {}", directory.display()), cause);
    fs::create_dir_all(directory).map_err(making)?;
    for path in &paths {
        file::replace_link(path, &path.with_extension("new"), program)
            .map_err(|cause| Error::os(format!("linking {}", path.display()), cause))?;
    }
    names(output, &paths.map(|path| path.display().to_string())).map(Answer::text)
}

/// A file that is no link to this program is kept.
fn refuse_foreign(path: &Path, program: &Path) -> Result<()> {
    let is_ours = |target: &Path| target == program || target.file_name() == program.file_name();
    match fs::read_link(path) {
        Ok(target) if is_ours(&target) => Ok(()),
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(()),
        Ok(_) | Err(_) => Err(Error::conflict(format!(
            "{} is of another program: move it away, or choose another --directory",
            path.display()
        ))),
    }
}
