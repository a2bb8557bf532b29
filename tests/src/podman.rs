//! Podman 4.3 in a world.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::{World, output};

/// Podman as it is in a world after [`Podman::set_up`].
#[derive(Clone, Copy, Debug)]
pub struct Podman;

const SCRIPT: &str = include_str!("podman.sh");
/// This host's program.
const PROGRAM: &str = "/usr/bin/podman";

impl Podman {
    /// The image that containers run: busybox, and a page to serve.
    pub const IMAGE: &str = "docker.io/library/spoke-test:1";

    /// Where everything of it goes; no part of what is compared.
    pub const DIR: &str = "/run/stage";
    /// The same of one in the root of another release.
    pub const BESIDE: &str = "/run/four";

    /// Puts Podman and [`Podman::IMAGE`] into `world`, which is a copy of the real host.
    #[track_caller]
    pub fn set_up(world: &World) {
        world.sh(SCRIPT);
    }

    /// Puts this host's Podman into the world of another release, below [`Podman::BESIDE`]: the program, and those
    /// of its libraries that the world lacks.
    #[track_caller]
    pub fn set_up_beside(world: &World) {
        world.sh("mkdir -p /world/four/lib");
        let copy = |from: &str, to: &str| {
            fs::copy(from, world.path(to)).unwrap_or_else(|error| panic!("{from}: {error}"));
        };
        copy(PROGRAM, "/world/four/podman");
        let listed = output(Command::new("ldd").arg(PROGRAM), "").stdout;
        for library in listed.split_whitespace().filter(|word| word.starts_with('/')) {
            let name = Path::new(library).file_name().expect("a file").to_string_lossy();
            if !world.path(&format!("/usr{library}")).exists() && !world.path(library).exists() {
                copy(library, &format!("/world/four/lib/{name}"));
            }
        }
        let own = "LD_LIBRARY_PATH=/world/four/lib exec /world/four/podman";
        let script = SCRIPT.replace(Self::DIR, Self::BESIDE);
        world.sh(&script.replace("exec podman", own));
    }

    /// What `podman ARGUMENTS` prints in `world`.
    ///
    /// # Panics
    /// When it fails, with all that it said.
    #[track_caller]
    pub fn run(world: &World, arguments: &str) -> String {
        world.sh(&format!("{}/podman {arguments}", Self::DIR))
    }

    /// The same of the one beside another release.
    ///
    /// # Panics
    /// As [`Podman::run`].
    #[track_caller]
    pub fn run_beside(world: &World, arguments: &str) -> String {
        world.sh(&format!("{}/podman {arguments}", Self::BESIDE))
    }
}
