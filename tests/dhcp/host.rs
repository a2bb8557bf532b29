//! A server's namespace, a host's with a link to it, on which `spoke serve` runs, and a container's.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::{env, process};

use crate::bed::{Process, inside, wait};

pub(crate) struct Host {
    directory: PathBuf,
    server: Process,
    host: Process,
    container: Process,
    udhcpd: Option<Process>,
    serve: Option<Process>,
}

impl Host {
    pub(crate) fn new() -> Self {
        let (server, host, container) =
            (Process::namespace(), Process::namespace(), Process::namespace());
        let name = format!("spoke-serve-dhcp-{}-{}", process::id(), server.0.id());
        let directory = env::temp_dir().join(name);
        fs::create_dir_all(&directory).unwrap();
        let ours = tests::program();
        for name in ["spoke", "macvlan", "dhcp"] {
            symlink(&ours, directory.join(name)).unwrap();
        }
        let peer = host.0.id();
        inside(&server, &format!("ip link add srv type veth peer name up0 netns {peer}"));
        inside(&server, "ip address add 10.7.0.1/24 dev srv");
        inside(&server, "ip link set srv up");
        inside(&host, "ip link set up0 up");
        let new = Self { directory, server, host, container, udhcpd: None, serve: None };
        new.write_config();
        new
    }

    fn write_config(&self) {
        let at = |file: &str| self.at(file).display().to_string();
        let config = format!(
            "[store]\nruntime = {:?}\nstate = {:?}\n[events]\npath = {:?}\n[dhcp]\nsocket = {:?}\n\
             [docker]\nsocket = {:?}\n[metrics]\nenabled = false\n",
            at("run"),
            at("state"),
            at("events"),
            at("dhcp.sock"),
            at("docker.sock"),
        );
        fs::write(self.at("config.toml"), config).unwrap();
    }

    fn at(&self, file: &str) -> PathBuf {
        self.directory.join(file)
    }

    fn on_host(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.host.net())).arg(self.at(program));
        command.env("SPOKE_CONFIG", self.at("config.toml"));
        command
    }

    /// A server whose leases last so many seconds; what it says goes to a new log.
    pub(crate) fn start_server(&mut self, lease: u32) {
        let at = |file: &str| self.at(file).display().to_string();
        let config = format!(
            "start 10.7.0.10\nend 10.7.0.20\ninterface srv\nmin_lease 1\nlease_file {}\n\
             pidfile {}\nopt router 10.7.0.1\nopt subnet 255.255.255.0\nopt lease {lease}\n",
            at("udhcpd.leases"),
            at("udhcpd.pid"),
        );
        fs::write(self.at("udhcpd.conf"), config).unwrap();
        fs::write(self.at("udhcpd.leases"), "").unwrap();
        let log = File::create(self.at("server.log")).unwrap();
        let net = format!("--net={}", self.server.net());
        let mut command = Command::new("nsenter");
        command.args([&net, "udhcpd", "-f"]).arg(self.at("udhcpd.conf"));
        command.stderr(log);
        self.udhcpd = Some(Process::start(&mut command));
        wait(|| self.served().contains("started"));
    }

    pub(crate) fn stop_server(&mut self) {
        self.udhcpd = None;
    }

    /// What the server says.
    pub(crate) fn served(&self) -> String {
        fs::read_to_string(self.at("server.log")).unwrap_or_default()
    }

    /// Starts `spoke serve`; what it says goes to a new log.
    pub(crate) fn start_serve(&mut self) {
        let log = File::create(self.at("serve.log")).unwrap();
        let mut command = self.on_host("spoke");
        self.serve = Some(Process::start(command.arg("serve").stderr(log)));
        wait(|| self.said().contains("serving, version"));
    }

    /// With SIGKILL.
    pub(crate) fn kill_serve(&mut self) {
        self.serve = None;
    }

    /// What the daemon says.
    pub(crate) fn said(&self) -> String {
        fs::read_to_string(self.at("serve.log")).unwrap_or_default()
    }

    /// The events of this kind, a line each.
    pub(crate) fn events(&self, kind: &str) -> Vec<String> {
        let all = fs::read_to_string(self.at("events")).unwrap_or_default();
        let kind = format!("\"event\":\"{kind}\"");
        all.lines().filter(|line| line.contains(&kind)).map(str::to_owned).collect()
    }

    /// Another daemon at the socket of ours.
    pub(crate) fn start_other(&self) -> Process {
        let mut command = Command::new(crate::REFERENCE);
        command.args(["daemon", "-socketpath"]).arg(self.at("dhcp.sock"));
        let other = Process::start(&mut command);
        wait(|| UnixStream::connect(self.at("dhcp.sock")).is_ok());
        other
    }

    /// What the plugin `macvlan` answers, which must be a success.
    pub(crate) fn call(&self, verb: &str) -> String {
        let config = format!(
            r#"{{"cniVersion":"1.0.0","name":"lan","type":"macvlan","master":"up0","ipam":{{"type":"dhcp","daemonSocketPath":{:?}}}}}"#,
            self.at("dhcp.sock")
        );
        let mut child = self
            .on_host("macvlan")
            .env("CNI_COMMAND", verb)
            .env("CNI_CONTAINERID", "c1")
            .env("CNI_NETNS", self.container.net())
            .env("CNI_IFNAME", "eth0")
            .env("CNI_PATH", &self.directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(config.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        assert!(output.status.success(), "{verb}: {text}");
        text
    }

    /// What `ip -4` says in the container.
    pub(crate) fn shows(&self, what: &str) -> String {
        let net = format!("--net={}", self.container.net());
        let shown = Command::new("nsenter").args([&net, "ip", "-4", what]).output().unwrap();
        String::from_utf8_lossy(&shown.stdout).into_owned()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.serve = None;
        self.udhcpd = None;
        let _ = fs::remove_dir_all(&self.directory);
    }
}
