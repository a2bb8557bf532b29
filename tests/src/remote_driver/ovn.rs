//! OVN's driver for Docker, a third-party driver, in the network of a [`World`].

use std::fs;
use std::path::{Path, PathBuf};

use crate::World;
use crate::daemon::{Daemon, Ready};
use crate::neutron_switch::Switch;
use crate::world::output;

/// The northbound database's socket.
const SOCKET: &str = "/run/ovn/nb.sock";

/// Debian's `ovn-docker-overlay-driver`, called `openvswitch`, with a northbound database and a switch of
/// its own and no controller that programs that: the switch learns.
#[derive(Debug)]
pub struct OvnDocker {
    driver: Daemon,
    _database: Daemon,
    /// Its switch.
    pub switch: Switch,
}

/// Debian ships it for Python 3, and it takes what programs print for text.
const TEXT: &str = "import subprocess
class Text(subprocess.Popen):
    def __init__(self, *args, **keys):
        keys.setdefault('text', True)
        super().__init__(*args, **keys)
subprocess.Popen = Text
";

impl OvnDocker {
    /// Starts it.
    ///
    /// # Panics
    /// When it is not there, or does not come up, with what it said.
    #[track_caller]
    pub fn start(world: &World) -> Self {
        let switch = Switch::start(world);
        for folder in ["/run/ovn", "/world/python", "/etc/docker/plugins"] {
            fs::create_dir_all(world.path(folder)).expect("a folder");
        }
        fs::write(world.path("/world/python/sitecustomize.py"), TEXT).expect("a file");
        let (schema, book) = ("/usr/share/ovn/ovn-nb.ovsschema", "/run/ovn/nb.db");
        let made = output(world.command("ovsdb-tool").args(["create", book, schema]), "");
        assert_eq!(made.status, 0, "ovn-central (scripts/setup test): {}", made.stderr);
        let mut database = world.command("ovsdb-server");
        database.args([book, &format!("--remote=punix:{SOCKET}"), "--unixctl=/run/ovn/nb.ctl"]);
        let database = Daemon::start(world, "ovsdb-server", &mut database, Ready::Listens(SOCKET));
        switch.vsctl(&format!("set open_vswitch . external_ids:ovn-nb=unix:{SOCKET}"));
        let mut driver = world.command("/usr/bin/python3");
        driver.args(["-u".as_ref(), program().as_os_str()]).env("PYTHONPATH", "/world/python");
        let driver = Daemon::start(world, "ovn-docker", &mut driver, Ready::Says("Running on"));
        // Without a controller.
        switch.vsctl("set bridge br-int fail-mode=standalone");
        Self { driver, _database: database, switch }
    }

    /// What its northbound database has: `ovn-nbctl ARGUMENTS`.
    #[track_caller]
    pub fn nbctl(&self, world: &World, arguments: &str) -> String {
        world.sh(&format!("ovn-nbctl --timeout=20 --db=unix:{SOCKET} {arguments}"))
    }

    /// What it has said.
    pub fn log(&self) -> String {
        self.driver.log()
    }
}

fn program() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.cache/peers/ovn-docker");
    let program = folder.join("ovn-docker-overlay-driver");
    program
        .canonicalize()
        .unwrap_or_else(|error| panic!("{}: {error} (scripts/peers ovn-docker)", program.display()))
}
