//! Podman 4.3 in a world.

use crate::World;

/// Podman as it is in a world after [`Podman::set_up`].
#[derive(Clone, Copy, Debug)]
pub struct Podman;

impl Podman {
    /// The image that containers run: busybox, and a page to serve.
    pub const IMAGE: &str = "docker.io/library/spoke-test:1";

    /// Where everything of it goes; no part of what is compared.
    pub const DIR: &str = "/run/stage";

    /// Puts Podman and [`Podman::IMAGE`] into `world`, which is a copy of the real host.
    #[track_caller]
    pub fn set_up(world: &World) {
        world.sh(include_str!("podman.sh"));
    }

    /// What `podman ARGUMENTS` prints in `world`.
    ///
    /// # Panics
    /// When it fails, with all that it said.
    #[track_caller]
    pub fn run(world: &World, arguments: &str) -> String {
        world.sh(&format!("{}/podman {arguments}", Self::DIR))
    }
}
