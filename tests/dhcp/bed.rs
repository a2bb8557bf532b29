//! A server's namespace, a container's, and a daemon.

use std::fs;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, process};

/// Nothing takes longer, however busy the machine is.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Killed when dropped.
pub(crate) struct Process(pub(crate) Child);

impl Process {
    pub(crate) fn start(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::null()).stdout(Stdio::null());
        Self(command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}")))
    }

    pub(crate) fn namespace() -> Self {
        let held = Self::start(Command::new("unshare").args(["-n", "sleep", "1000"]));
        let own = fs::read_link("/proc/self/ns/net").unwrap();
        wait(|| fs::read_link(held.net()).is_ok_and(|theirs| theirs != own));
        held
    }

    pub(crate) fn net(&self) -> String {
        format!("/proc/{}/ns/net", self.0.id())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) struct Bed {
    directory: PathBuf,
    server: Process,
    container: Process,
    daemon: Option<Process>,
    _dnsmasq: Process,
}

impl Bed {
    pub(crate) fn new() -> Self {
        let (server, container) = (Process::namespace(), Process::namespace());
        let name = format!("spoke-dhcp-{}-{}", process::id(), server.0.id());
        let directory = env::temp_dir().join(name);
        fs::create_dir_all(&directory).unwrap();
        let ours = tests::program();
        std::os::unix::fs::symlink(ours, directory.join("dhcp")).unwrap();
        let at = |file: &str| directory.join(file).display().to_string();
        let config = format!(
            "[store]\nruntime = {:?}\nstate = {:?}\n[events]\npath = {:?}\n",
            at("run"),
            at("state"),
            at("events")
        );
        fs::write(directory.join("config.toml"), config).unwrap();
        let peer = container.0.id();
        inside(&server, &format!("ip link add srv type veth peer name eth0 netns {peer}"));
        inside(&server, "ip address add 10.7.0.1/24 dev srv");
        inside(&server, "ip link set srv up");
        let dnsmasq = Process::start(
            Command::new("nsenter")
                .arg(format!("--net={}", server.net()))
                .args(["dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--port=0"])
                .args(["--interface=srv", "--bind-interfaces", "--no-ping", "--log-dhcp"])
                .args(["--user=root", "--pid-file="])
                .arg("--dhcp-range=10.7.0.10,10.7.0.50,255.255.255.0,120s")
                .arg(format!("--log-facility={}", at("log")))
                .arg(format!("--dhcp-leasefile={}", at("leases"))),
        );
        let bed = Self { directory, server, container, daemon: None, _dnsmasq: dnsmasq };
        bed.wait_for_log("sockets bound exclusively to interface srv");
        bed
    }

    /// Our program under the plugin's name.
    pub(crate) fn ours(&self) -> PathBuf {
        self.directory.join("dhcp")
    }

    fn socket(&self) -> PathBuf {
        self.directory.join("dhcp.sock")
    }

    pub(crate) fn start_daemon(&mut self, program: &Path) {
        let mut command = Command::new(program);
        command.args(["daemon", "-socketpath"]).arg(self.socket());
        command.env("SPOKE_CONFIG", self.directory.join("config.toml"));
        self.daemon = Some(Process::start(&mut command));
        wait(|| UnixStream::connect(self.socket()).is_ok());
    }

    /// With SIGKILL.
    pub(crate) fn kill_daemon(&mut self) {
        self.daemon = None;
    }

    /// What the plugin answers, which must be a success.
    pub(crate) fn call(&self, plugin: &Path, verb: &str) -> String {
        let (text, ok) = self.execute(plugin, verb);
        assert!(ok, "{verb}: {text}");
        text
    }

    /// What the plugin answers, which must be a failure.
    pub(crate) fn try_call(&self, plugin: &Path, verb: &str) -> String {
        let (text, ok) = self.execute(plugin, verb);
        assert!(!ok, "{verb}: {text}");
        text
    }

    fn execute(&self, plugin: &Path, verb: &str) -> (String, bool) {
        let version = if verb == "STATUS" { "1.1.0" } else { "1.0.0" };
        let config = format!(
            r#"{{"cniVersion":"{version}","name":"lan","type":"macvlan","ipam":{{"type":"dhcp","daemonSocketPath":{:?}}}}}"#,
            self.socket()
        );
        let mut child = Command::new(plugin)
            .env("CNI_COMMAND", verb)
            .env("CNI_CONTAINERID", "c1")
            .env("CNI_NETNS", self.container.net())
            .env("CNI_IFNAME", "eth0")
            .env("CNI_PATH", "/nowhere")
            .env("SPOKE_CONFIG", self.directory.join("config.toml"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(config.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (String::from_utf8_lossy(&text).into_owned(), output.status.success())
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.directory.join("log")).unwrap_or_default()
    }

    pub(crate) fn wait_for_log(&self, word: &str) {
        wait(|| self.log().contains(word));
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.daemon = None;
        let _ = &self.server;
        let _ = fs::remove_dir_all(&self.directory);
    }
}

pub(crate) fn inside(namespace: &Process, command: &str) {
    let net = format!("--net={}", namespace.net());
    let done = Command::new("nsenter").arg(net).args(command.split(' ')).status().unwrap();
    assert!(done.success(), "{command}");
}

#[track_caller]
pub(crate) fn wait(is: impl Fn() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !is() {
        assert!(Instant::now() < deadline, "it does not come to pass");
        tests::glance();
    }
}
