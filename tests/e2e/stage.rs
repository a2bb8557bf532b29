//! A world with an image in it, and the question what was left behind.

use tests::{Cgroup, Plugins, Podman, Snapshot, World};

pub(crate) const IMAGE: &str = Podman::IMAGE;

/// A world with [`IMAGE`], and a name for cgroups that are removed with it.
pub(crate) struct Stage {
    pub(crate) world: World,
    pub(crate) plugins: Plugins,
    pub(crate) cgroup: Cgroup,
    before: Snapshot,
}

impl Stage {
    /// The plugins under test, and the image.
    pub(crate) fn new() -> Self {
        let plugins = Plugins::subject();
        let world = World::new(&plugins);
        Podman::set_up(&world);
        let before = Snapshot::of(&world);
        Self { world, plugins, cgroup: Cgroup::new(), before }
    }

    /// That nothing is there that was not there at first, once the networks are removed as well.
    #[track_caller]
    pub(crate) fn is_empty_after(&self, networks: &[&str]) {
        if self.plugins.are_ours() {
            for network in networks {
                self.world.sh(&format!("{}/spoke network rm {network}", Plugins::MOUNT));
            }
        }
        let mut changes = Snapshot::of(&self.world).changes(&self.before);
        changes.retain(|line| !self.may_stay(line));
        assert!(changes.is_empty(), "left behind:\n{}", changes.join("\n"));
    }

    /// Of the runtimes; and of the reference plugins, what they are known to leave.
    fn may_stay(&self, line: &str) -> bool {
        const RUNTIMES: [&str; 9] = [
            "file /run/stage/",
            "file /run/containerd/",
            "file /run/runc/",
            "file /run/libpod/",
            "file /run/lock/",
            "file /var/lib/containers/",
            "file /var/lib/containerd/",
            "file /var/lib/cni/networks/",
            "file /etc/cni/net.d/",
        ];
        // The kernel keeps what was asked for of every bridge: that the host forwards.
        const FORWARDING: [&str; 2] = [" sysctl ipv4/ip_forward", "/forwarding ="];
        const REFERENCE: [&str; 4] = ["tables nat ", "tables filter ", "ctr0", "cri0"];
        let address = line.contains("/var/lib/cni/networks/")
            && !["/lock ", "/last_reserved_ip."].iter().any(|part| line.contains(part));
        let ours = line.contains("file /run/spoke/") || line.contains("file /var/lib/spoke/");
        let of = |parts: &[&str]| parts.iter().any(|part| line.contains(part));
        let own = if self.plugins.are_ours() { ours } else { of(&REFERENCE) };
        !address && (of(&RUNTIMES) || of(&FORWARDING) || own)
    }
}
