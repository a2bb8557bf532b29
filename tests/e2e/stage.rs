//! A world with an image in it, and the question what was left behind.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{fs, process};

use tests::{Plugins, Snapshot, World};

/// The image that containers run: busybox, and a page to serve.
pub(crate) const IMAGE: &str = "docker.io/library/spoke-test:1";

/// Where everything of the runtimes goes; no part of what is compared.
pub(crate) const DIR: &str = "/run/stage";

/// Imports [`IMAGE`] into a Podman whose files are all in [`DIR`].
const IMPORT: &str = r#"
mkdir -p /run/stage/net.d /run/stage/image/{bin,etc,proc,sys,dev,tmp,www}
cd /run/stage
cat >containers.conf <<'CONF'
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "none"
[network]
network_backend = "cni"
cni_plugin_dirs = ["/opt/cni/bin"]
network_config_dir = "/run/stage/net.d"
CONF
cp /bin/busybox image/bin
for applet in sh httpd ping sleep cat; do ln -s busybox image/bin/$applet; done
echo "a page" >image/www/index.html
cat >podman <<'PODMAN'
#!/bin/sh
export CONTAINERS_CONF=/run/stage/containers.conf PODMAN_IGNORE_CGROUPSV1_WARNING=1
exec podman --root /run/stage/root --runroot /run/stage/runroot --tmpdir /run/stage/tmp --storage-driver vfs "$@"
PODMAN
chmod 755 podman
tar -C image -c . | ./podman import -q -c 'CMD ["/bin/sleep", "3600"]' - docker.io/library/spoke-test:1
"#;

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
        world.sh(IMPORT);
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

/// The name of a cgroup that nobody else uses; removed from every hierarchy in the end.
///
/// Declared after the world in its owner, so that no process is left in it by then.
pub(crate) struct Cgroup(String);

impl Cgroup {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        Self(format!("spoke-test-{}-{}", process::id(), COUNT.fetch_add(1, Ordering::Relaxed)))
    }

    pub(crate) fn name(&self) -> &str {
        &self.0
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let top = Path::new("/sys/fs/cgroup");
        remove(&top.join(&self.0));
        for hierarchy in fs::read_dir(top).into_iter().flatten().flatten() {
            remove(&hierarchy.path().join(&self.0));
        }
    }
}

/// A cgroup is removed from below; its files go with it.
fn remove(cgroup: &Path) {
    for entry in fs::read_dir(cgroup).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path());
        }
    }
    let _ = fs::remove_dir(cgroup);
}
