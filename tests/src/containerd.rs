//! containerd 1.6 in a world.

use crate::grpc::{self, Message};
use crate::{Podman, World};

/// containerd as it is in a world after [`Containerd::set_up`].
#[derive(Clone, Copy, Debug)]
pub struct Containerd;

impl Containerd {
    /// Starts containerd, which has [`Podman::IMAGE`], with `conflist` as its only network. Podman is
    /// in `world` already.
    #[track_caller]
    pub fn set_up(world: &World, conflist: &str) {
        let start = include_str!("containerd.sh");
        let network = format!("cat >/etc/cni/net.d/10-net.conflist <<'NET'\n{conflist}\nNET");
        Self::run(world, &format!("{start}\n{network}"));
    }

    /// What a script prints that finds containerd and its client.
    ///
    /// # Panics
    /// When it fails, with all that it said.
    #[track_caller]
    pub fn run(world: &World, script: &str) -> String {
        let peers = concat!(env!("CARGO_MANIFEST_DIR"), "/../.cache/peers/containerd");
        let socket = Self::socket();
        world.sh(&format!("export PATH={peers}:$PATH CONTAINERD_ADDRESS={socket}\n{script}"))
    }

    /// What the kubelet's half of containerd answers.
    ///
    /// # Panics
    /// When it refuses.
    #[track_caller]
    pub fn cri(world: &World, method: &str, request: &Message) -> Message {
        let method = format!("runtime.v1.RuntimeService/{method}");
        let scratch = format!("{}/containerd", Podman::DIR);
        grpc::call(world, &Self::socket(), &method, &scratch, request)
    }

    fn socket() -> String {
        format!("{}/containerd/socket", Podman::DIR)
    }
}
