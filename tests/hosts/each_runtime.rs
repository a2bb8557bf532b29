//! Three hosts of a cluster, each with a runtime of its own.

use serde_json::Value;
use tests::{Engine, Plugins, Podman5, PodmanRelease, Release, Serve, World};

use crate::bed::{Segment, address, init, join, serve};

/// Hosts of one cluster with a runtime each: `docker`, which does not run yet, `podman` and `cni`.
pub(crate) struct OfEachRuntime {
    pub(crate) engine: Engine,
    pub(crate) podman: Podman5,
    pub(crate) cni: World,
    /// Their daemons, in this order.
    pub(crate) serves: [Serve; 3],
}

impl OfEachRuntime {
    /// `None` where Podman is not there.
    #[track_caller]
    pub(crate) fn new(segment: &Segment) -> Option<Self> {
        let release = Some(Release::V28_5).filter(|release| release.is_there());
        let engine = Engine::prepared(release.unwrap_or(Release::V20_10), &Plugins::subject());
        let podman = Podman5::new(PodmanRelease::V5_4)?;
        let cni = World::new(&Plugins::subject());
        let worlds = [engine.world(), &podman.world, &cni];
        for (number, world) in (1..).zip(worlds) {
            segment.plug(world, number);
        }
        let serves = worlds.map(serve);
        init(engine.world(), "docker");
        join(engine.world(), &podman.world, "podman");
        join(&podman.world, &cni, "cni");
        Some(Self { engine, podman, cni, serves })
    }
}

/// The addresses of Docker's `web`, Podman's `api` and the namespace `box`, on the network `front`.
#[track_caller]
pub(crate) fn web_api_box(engine: &Engine, podman: &Podman5, cni: &World) -> [String; 3] {
    let of = |endpoint: Value| endpoint["IPAddress"].as_str().expect("a text").to_owned();
    let (web, api) = (engine.endpoint("web", "front"), podman.endpoint("api", "front"));
    [of(web), of(api), address(cni, "box")]
}
