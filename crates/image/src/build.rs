//! Makes images: one static program under several names, and files beside it.
//!
//! The same recipe gives the same bytes: neither time nor place nor user is kept.

mod elf;
mod output;
mod pack;
mod tar;
mod tree;

use std::path::{Path, PathBuf};

use model::{Error, Result};

use crate::{App, ImageId, Isolators, MountPoint};

/// Where the program is in an image.
pub const PROGRAM: &str = "/usr/bin/spoke";

/// The contents of an image.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// Its name: `example.com/network/spoke`.
    pub name: String,
    /// Which of those it is.
    pub version: String,
    /// The program, on this host; statically linked, as there is nothing else in the image.
    pub program: PathBuf,
    /// Other names of it, with their absolute paths in the image.
    pub links: Vec<PathBuf>,
    /// Files that lie beside it.
    pub files: Vec<Extra>,
    /// The program, and its user.
    pub app: App,
}

/// A file that is put into an image.
#[derive(Clone, Debug)]
pub struct Extra {
    /// Where it is on this host.
    pub from: PathBuf,
    /// Its absolute path in the image. Whether it can be executed stays as it is.
    pub to: PathBuf,
}

impl Recipe {
    /// The daemon: `spoke serve`, for a container that has the host's networks and processes.
    pub fn daemon(name: &str, version: &str, program: &Path) -> Self {
        let app = App {
            exec: vec![PROGRAM.to_owned(), "serve".to_owned()],
            environment: vec![("PATH".to_owned(), "/usr/sbin:/usr/bin:/sbin:/bin".to_owned())],
            ..App::default()
        };
        Self {
            name: name.to_owned(),
            version: version.to_owned(),
            program: program.to_owned(),
            links: Vec::new(),
            files: Vec::new(),
            app,
        }
    }

    /// A Kurma network plugin: `/opt/network/{add,del,setup}`, with the rights that it takes to make
    /// networks, and with the host's books and configuration where a host gives them.
    pub fn plugin(name: &str, version: &str, program: &Path) -> Self {
        let mount = |name: &str, path: &str, read_only| MountPoint {
            name: name.to_owned(),
            path: path.into(),
            read_only,
        };
        let app = App {
            exec: vec!["/opt/network/setup".to_owned()],
            user: "0".to_owned(),
            group: "0".to_owned(),
            isolators: Isolators { privileged: true, ..Isolators::default() },
            mount_points: vec![
                mount("spoke-runtime", "/run/spoke", false),
                mount("spoke-state", "/var/lib/spoke", false),
                mount("spoke-config", "/etc/spoke", true),
            ],
            ..App::default()
        };
        Self {
            name: name.to_owned(),
            version: version.to_owned(),
            program: program.to_owned(),
            links: ["add", "del", "setup"].map(|verb| Path::new("/opt/network").join(verb)).into(),
            files: Vec::new(),
            app,
        }
    }
}

/// Makes an App Container image: a `tar.gz` that exists as a whole or not at all.
///
/// # Errors
/// When the recipe is wrong, a file of it is missing, or `to` cannot be written.
pub fn aci(recipe: &Recipe, to: &Path) -> Result<ImageId> {
    named(recipe).and_then(|()| pack::aci(recipe, to)).map_err(|error| doing(error, to))
}

/// Makes an OCI image layout in a directory, which is made. Blobs that exist stay; the image
/// becomes the layout's only one.
///
/// # Errors
/// As for [`aci`].
pub fn layout(recipe: &Recipe, to: &Path) -> Result<ImageId> {
    named(recipe).and_then(|()| pack::layout(recipe, to)).map_err(|error| doing(error, to))
}

/// Makes an archive that is an OCI image layout for `podman load` and `skopeo`, and one of Docker's
/// for `docker load`.
///
/// # Errors
/// As for [`aci`].
pub fn archive(recipe: &Recipe, to: &Path) -> Result<ImageId> {
    named(recipe).and_then(|()| pack::archive(recipe, to)).map_err(|error| doing(error, to))
}

fn doing(error: Error, to: &Path) -> Error {
    error.context(format!("making the image {}", to.display()))
}

/// The name must be one everywhere: an AC Identifier, and `HOST/REPOSITORY` with a tag.
fn named(recipe: &Recipe) -> Result<()> {
    let (name, version) = (&recipe.name, &recipe.version);
    crate::locator::check_identifier(name)?;
    let known: crate::Reference = format!("{name}:{version}").parse()?;
    match known.tag() == Some(version.as_str()) {
        true => Ok(()),
        false => Err(Error::invalid(format!("{version:?} is no version"))),
    }
}

#[cfg(test)]
mod tests;
