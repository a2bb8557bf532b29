//! Third-party Docker plugins.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::Signal;

use crate::World;
use crate::daemon::{Daemon, Ready};

/// kuryr-libnetwork 18 in a world, in front of a Neutron without Keystone: network driver and IPAM
/// driver `upstream`, found by its `.spec`. scripts/peers has it from PyPI.
#[derive(Debug)]
pub struct Kuryr {
    daemon: Daemon,
}

impl Kuryr {
    /// Starts it on the host that Neutron calls `host`, with Neutron at this URL of the world's.
    ///
    /// # Panics
    /// When it is not installed, or does not come up, with what it said.
    #[track_caller]
    pub fn start(world: &World, neutron: &str, host: &str) -> Self {
        let venv = venv();
        let conf = format!(
            "[DEFAULT]\nkuryr_uri = http://127.0.0.1:23750\ncapability_scope = local\n\
             bindir = {}\nuse_stderr = true\nprocess_external_connectivity = false\n\
             [neutron]\nauth_type = none\nendpoint = {neutron}\nenable_dhcp = false\n\
             vif_plugging_is_fatal = true\nvif_plugging_timeout = 20\n\
             [binding]\ndriver = kuryr.lib.binding.drivers.veth\n",
            venv.join("libexec/kuryr").display()
        );
        fs::write(world.path("/world/kuryr.conf"), conf).expect("a file");
        let spec = world.path("/etc/docker/plugins");
        fs::create_dir_all(&spec).expect("a folder");
        fs::write(spec.join("upstream.spec"), "http://127.0.0.1:23750\n").expect("a file");
        // Neutron knows a host by its name.
        let script = format!(
            "hostname {host}; exec {} --config-file /world/kuryr.conf",
            venv.join("bin/kuryr-server").display()
        );
        let mut command = world.command("unshare");
        command.args(["--uts", "sh", "-c", &script]);
        let ready = Ready::Says("Running on");
        Self { daemon: Daemon::start(world, "kuryr-server", &mut command, ready) }
    }

    /// Ends it as its service does.
    #[track_caller]
    pub fn stop(self) {
        self.daemon.end(Signal::TERM);
    }

    /// What it has said.
    pub fn log(&self) -> String {
        self.daemon.log()
    }
}

/// Where a world that is a copy of this host has it, too.
fn venv() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.cache/peers/kuryr-pypi");
    folder
        .canonicalize()
        .unwrap_or_else(|error| panic!("{}: {error} (scripts/peers kuryr-pypi)", folder.display()))
}
