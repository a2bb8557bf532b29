//! Spoke as the runtime of others' plugins: `cnitool` and `spoke cni` beside libcni, as Podman has
//! it, with the reference plugins of two versions.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod podman;
mod tool;

use tests::{Plugins, World};

/// Spoke, where no world has it as a plugin.
const SPOKE: &str = "/run/ours/spoke";

/// A world with plugins of the reference, and Spoke elsewhere.
fn world(plugins: &Plugins) -> World {
    let world = World::new(plugins);
    world.sh("mkdir -p /run/ours /var/lib/cni && rm -rf /var/lib/cni/* /etc/cni/net.d
        mkdir -p /etc/cni/net.d && ip link set lo up");
    let ours = Plugins::subject().dir().join("spoke");
    std::fs::copy(ours, world.path(SPOKE)).expect("Spoke is copied");
    world.sh("ln -s spoke /run/ours/cnitool");
    world
}
