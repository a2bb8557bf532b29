//! A host and its containers, made of threads in namespaces of their own, and a switch.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use netlink::Netns;
use rustix::thread::{UnshareFlags, unshare_unsafe};
use tempfile::TempDir;

pub(crate) fn isolated(test: impl FnOnce() + Send + 'static) {
    let thread = thread::spawn(|| {
        unshare();
        run("ip link set lo up");
        test();
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

#[allow(unsafe_code)]
fn unshare() {
    // SAFETY: a new network namespace for this thread leaves memory and descriptors alone.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.expect("root may unshare");
}

/// A container: a thread that keeps a namespace until it is stopped.
pub(crate) struct Container {
    path: PathBuf,
    end: Option<mpsc::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Container {
    /// With the other end of the host's `end` as its `eth0`.
    pub(crate) fn behind(end: &str, mac: model::Mac, address: &str) -> Self {
        let this = Self::new();
        run(&format!(
            "ip link add {end} mtu 1442 type veth peer name eth0 mtu 1442 address {mac} netns {}; \
             ip link set {end} up",
            this.path.display()
        ));
        // As the dataplane does where the switch is a program.
        this.run("ethtool -K eth0 tx off >/dev/null");
        this.run(&format!("ip link set eth0 up; ip address add {address} dev eth0"));
        this
    }

    fn new() -> Self {
        let (report, reported) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let thread = thread::spawn(move || {
            unshare();
            let id = rustix::thread::gettid().as_raw_nonzero();
            let process = std::process::id();
            report.send(PathBuf::from(format!("/proc/{process}/task/{id}/ns/net"))).unwrap();
            let _ = ended.recv();
        });
        Self { path: reported.recv().unwrap(), end: Some(end), thread: Some(thread) }
    }

    pub(crate) fn run(&self, command: &str) -> String {
        self.within(|| run(command))
    }

    pub(crate) fn within<T>(&self, work: impl FnOnce() -> T) -> T {
        Netns::open(&self.path).unwrap().enter(work).unwrap()
    }

    /// Whether an address answers.
    pub(crate) fn reaches(&self, address: &str) -> bool {
        self.answers(address, 5)
    }

    /// Whether an address does not answer.
    pub(crate) fn misses(&self, address: &str) -> bool {
        !self.answers(address, 1)
    }

    fn answers(&self, address: &str, seconds: u32) -> bool {
        let ping = format!("ping -c1 -w{seconds} {address} >/dev/null && echo yes || echo no");
        self.run(&ping) == "yes\n"
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

pub(crate) fn run(command: &str) -> String {
    let output = Command::new("sh").args(["-ec", command]).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command}: {}", text(&output.stderr));
    text(&output.stdout)
}

pub(crate) fn exists(link: &str) -> bool {
    run(&format!("ip link show {link} >/dev/null 2>&1 && echo yes || echo no")) == "yes\n"
}

/// Open vSwitch in user space, of the calling thread's namespace, with a bridge `br-int`.
pub(crate) struct Switch {
    switch: Option<Child>,
    database: Child,
    directory: TempDir,
    /// The database's port on the loopback device.
    pub(crate) port: u16,
}

impl Switch {
    pub(crate) fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name).display().to_string();
        let schema = "/usr/share/openvswitch/vswitch.ovsschema";
        run(&format!("ovsdb-tool create {} {schema}", at("conf.db")));
        let port = 6640;
        let database = daemon(
            directory.path(),
            Command::new("ovsdb-server").args([
                at("conf.db"),
                format!("--remote=punix:{}", at("db.sock")),
                format!("--remote=ptcp:{port}:127.0.0.1"),
                format!("--unixctl={}", at("database.ctl")),
            ]),
        );
        let socket = at("db.sock");
        until(|| UnixStream::connect(&socket).is_ok());
        let mut this = Self { switch: None, database, directory, port };
        this.vsctl("--no-wait init");
        this.switch = Some(daemon(
            this.directory.path(),
            Command::new("ovs-vswitchd").args([
                this.database(),
                format!("--unixctl={}", this.at("switch.ctl")),
                "--disable-system".to_owned(),
            ]),
        ));
        this.vsctl("add-br br-int -- set bridge br-int datapath_type=netdev");
        this
    }

    fn at(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    /// Where its database answers.
    pub(crate) fn database(&self) -> String {
        format!("unix:{}", self.at("db.sock"))
    }

    pub(crate) fn vsctl(&self, arguments: &str) -> String {
        run(&format!("ovs-vsctl --timeout=20 --db={} {arguments}", self.database()))
    }

    /// The ports of a bridge.
    pub(crate) fn ports(&self, bridge: &str) -> Vec<String> {
        self.vsctl(&format!("list-ports {bridge}")).lines().map(str::to_owned).collect()
    }

    /// Stops or continues what moves packets; the database goes on.
    pub(crate) fn signal(&self, signal: &str) {
        run(&format!("kill -{signal} {}", self.switch.as_ref().unwrap().id()));
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        for child in self.switch.iter_mut().chain([&mut self.database]) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Ends with the calling thread at the latest.
fn daemon(directory: &Path, command: &mut Command) -> Child {
    let mut bound = Command::new("setpriv");
    bound.args(["--pdeathsig", "KILL"]).arg(command.get_program()).args(command.get_args());
    bound.env("OVS_RUNDIR", directory).env("OVS_LOGDIR", directory);
    bound.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    bound.spawn().expect("openvswitch-switch is installed")
}

fn until(holds: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "Open vSwitch's database does not come up");
        thread::yield_now();
    }
}
