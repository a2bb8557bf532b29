//! Open vSwitch in the network of a [`World`].

use std::fs;
use std::io;
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use rustix::fs::{FlockOperation, flock};

use crate::daemon::{Daemon, Ready};
use crate::neutron_lab::FullLab;
use crate::world::output;
use crate::{Output, World};

const SOCKET: &str = "/run/openvswitch/db.sock";

/// Where the switch is controlled, in the folder of its database.
const CONTROL: &str = "ovs-vswitchd.ctl";

/// A switch that learns, as its host's `br-int`. It ends with the world.
#[derive(Debug)]
pub struct Switch {
    switch: Daemon,
    _database: Daemon,
    run: PathBuf,
    pid: u32,
}

impl Switch {
    /// Its database, as a configuration names it.
    pub const DATABASE: &str = "unix:/run/openvswitch/db.sock";

    /// Starts one that forwards in userspace. Its programs are this host's, whatever the world is made of.
    ///
    /// # Panics
    /// When it does not come up, with what it said.
    #[track_caller]
    pub fn start(world: &World) -> Self {
        Self::forwarding(world, "netdev")
    }

    /// Starts one whose frames the kernel forwards ([`crate::Feature::OpenVswitch`]).
    ///
    /// # Panics
    /// When it does not come up, with what it said.
    #[track_caller]
    pub fn in_kernel(world: &World) -> Self {
        Self::forwarding(world, "system")
    }

    #[track_caller]
    fn forwarding(world: &World, datapath: &str) -> Self {
        let run = world.path("/run/openvswitch");
        fs::create_dir_all(&run).expect("a folder");
        let database = run.join("conf.db");
        let schema = "/usr/share/openvswitch/vswitch.ovsschema";
        let mut tool = Command::new("ovsdb-tool");
        let made = output(tool.arg("create").args([database.as_os_str(), schema.as_ref()]), "");
        assert_eq!(made.status, 0, "openvswitch-switch (make test): {}", made.stderr);
        let socket = run.join("db.sock");
        let mut server = inside(world.pid(), "ovsdb-server", &run);
        server.arg(&database).arg(format!("--remote=punix:{}", socket.display()));
        server.arg(format!("--unixctl={}", run.join("ovsdb-server.ctl").display()));
        let server = Daemon::start(world, "ovsdb-server", &mut server, Ready::Listens(SOCKET));
        let pid = world.pid();
        vsctl(pid, &run, &["--no-wait", "init"]);
        let this = Self { switch: vswitchd(world, &run), _database: server, run, pid };
        this.vsctl(&format!(
            "--may-exist add-br br-int -- set bridge br-int datapath_type={datapath} fail-mode=standalone"
        ));
        this
    }

    /// Ends the switch and starts it again, with the database that it had, as a reboot of the host does.
    ///
    /// # Panics
    /// When it does not come up, with what it said.
    #[track_caller]
    #[must_use]
    pub fn restart(self, world: &World) -> Self {
        let Self { switch, _database, run, pid } = self;
        drop(switch);
        fs::remove_file(run.join(CONTROL)).expect("its socket");
        Self { switch: vswitchd(world, &run), _database, run, pid }
    }

    /// What `ovs-vsctl ARGUMENTS` prints.
    #[track_caller]
    pub fn vsctl(&self, arguments: &str) -> String {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        vsctl(self.pid, &self.run, &arguments)
    }

    /// The ports of `br-int`, in their order.
    #[track_caller]
    pub fn ports(&self) -> Vec<String> {
        ports(&self.vsctl("list-ports br-int"))
    }

    /// A key of a port's `external_ids`.
    #[track_caller]
    pub fn external_id(&self, port: &str, key: &str) -> String {
        let said = self.vsctl(&format!("--if-exists get interface {port} external_ids:{key}"));
        said.trim().trim_matches('"').to_owned()
    }
}

#[track_caller]
fn vswitchd(world: &World, run: &Path) -> Daemon {
    let mut switch = inside(world.pid(), "ovs-vswitchd", run);
    switch.arg(format!("unix:{}", run.join("db.sock").display()));
    switch.arg(format!("--unixctl={}", run.join(CONTROL).display()));
    let ready = Ready::Listens("/run/openvswitch/ovs-vswitchd.ctl");
    Daemon::start(world, "ovs-vswitchd", &mut switch, ready)
}

/// A world that is a host of a [`FullLab`]'s: its `br-int` is OVN's. It leaves when dropped.
#[derive(Debug)]
pub struct Chassis {
    name: String,
    number: fs::File,
    n: u16,
    run: PathBuf,
    pid: u32,
    script: PathBuf,
    socket: PathBuf,
}

impl Chassis {
    /// Joins `world` to the lab, as the host `name`; OVSDB is at [`Switch::DATABASE`] there too.
    ///
    /// # Panics
    /// When it does not come up, with what it said.
    #[track_caller]
    pub fn join(lab: &FullLab, world: &World, name: &str) -> Self {
        let folder = PathBuf::from(lab.setting("NEUTRON_LAB_DIR"));
        let (n, number) = free_number(&folder);
        let script =
            PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../scripts/neutron-lab/chassis");
        let netns = format!("/proc/{}/ns/net", world.pid());
        let mut add = Command::new(&script);
        add.args(["add", name, &n.to_string(), &netns]).env("NEUTRON_LAB_DIR", &folder);
        let done = output(&mut add, "");
        assert_eq!(done.status, 0, "chassis {name}:\n{}{}", done.stdout, done.stderr);
        let run = folder.join("chassis").join(name).join("run");
        let socket = world.path(SOCKET);
        fs::create_dir_all(socket.parent().expect("a folder")).expect("a folder");
        relay(UnixListener::bind(&socket).expect("a socket"), run.join("db.sock"));
        Self { name: name.into(), number, n, run, pid: world.pid(), script, socket }
    }

    /// What `ovs-vsctl ARGUMENTS` prints.
    #[track_caller]
    pub fn vsctl(&self, arguments: &str) -> String {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        vsctl(self.pid, &self.run, &arguments)
    }

    /// The ports of `br-int` but those of OVN's tunnels.
    #[track_caller]
    pub fn ports(&self) -> Vec<String> {
        let mut ports = ports(&self.vsctl("list-ports br-int"));
        ports.retain(|port| !port.starts_with("ovn-"));
        ports
    }
}

impl Drop for Chassis {
    fn drop(&mut self) {
        let mut del = Command::new(&self.script);
        del.args(["del", &self.name, &self.n.to_string()]);
        let folder = self.run.ancestors().nth(3).unwrap_or(&self.run);
        let _ = output(del.env("NEUTRON_LAB_DIR", folder), "");
        let _ = fs::remove_file(&self.socket);
        let _ = flock(&self.number, FlockOperation::Unlock);
    }
}

/// A number of the underlay's network that no other test has.
#[track_caller]
fn free_number(lab: &Path) -> (u16, fs::File) {
    let mut numbers = (2..=200).filter_map(|n| {
        let file = fs::File::create(lab.join("run").join(format!("chassis.{n}"))).ok()?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
        Some((n, file))
    });
    numbers.next().expect("a number for a chassis")
}

/// Connects every client of `listener` with `to`.
fn relay(listener: UnixListener, to: PathBuf) {
    thread::spawn(move || {
        for from in listener.incoming() {
            let (Ok(from), Ok(to)) = (from, UnixStream::connect(&to)) else { return };
            let halves = (from.try_clone(), to.try_clone());
            let (Ok(back), Ok(answer)) = halves else { return };
            thread::spawn(move || pass(&from, &to));
            thread::spawn(move || pass(&answer, &back));
        }
    });
}

fn pass(mut from: &UnixStream, mut to: &UnixStream) {
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}

/// A program of this host's, with the world's network, and among its processes so that it ends
/// with them.
fn inside(pid: u32, program: &str, run: &Path) -> Command {
    let mut command = Command::new("nsenter");
    command
        .args(["--target", &pid.to_string(), "--net", "--pid", "--", program])
        .env("OVS_RUNDIR", run)
        .stdin(Stdio::null());
    command
}

#[track_caller]
fn vsctl(pid: u32, run: &Path, arguments: &[&str]) -> String {
    let mut command = inside(pid, "ovs-vsctl", run);
    let Output { status, stdout, stderr } = output(command.arg("--timeout=20").args(arguments), "");
    assert_eq!(status, 0, "ovs-vsctl {arguments:?}: {stdout}{stderr}");
    stdout
}

fn ports(listed: &str) -> Vec<String> {
    listed.lines().map(str::to_owned).collect()
}
