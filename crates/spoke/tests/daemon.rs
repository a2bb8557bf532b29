//! `spoke serve` itself, each in a network namespace and a directory of its own.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

const SPOKE: &str = env!("CARGO_BIN_EXE_spoke");

/// Longer than anything here takes; a test that hangs ends.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Where one host's Spoke keeps everything.
struct Host {
    root: TempDir,
}

/// A running daemon; killed when dropped.
struct Daemon {
    child: Child,
    log: BufReader<std::process::ChildStderr>,
}

impl Host {
    fn new() -> Self {
        let root = TempDir::new().unwrap();
        let below = |path: &str| root.path().join(path).display().to_string();
        let config = format!(
            "[store]\nruntime = {:?}\nstate = {:?}\n[docker]\nsocket = {:?}\napi = []\n\
             [metrics]\nlisten = {:?}\n[events]\npath = {:?}\n\
             [dhcp]\nsocket = {:?}\n[remote]\nsockets = [{:?}]\ndescriptions = []\n",
            below("run"),
            below("state"),
            below("plugins/spoke.sock"),
            below("metrics.sock"),
            below("run/events"),
            below("dhcp.sock"),
            below("plugins"),
        );
        std::fs::write(root.path().join("config.toml"), config).unwrap();
        Self { root }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    fn serve(&self) -> Command {
        let mut command = Command::new("unshare");
        command.args(["-n", "--", SPOKE, "serve"]).env("SPOKE_CONFIG", self.path("config.toml"));
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        command
    }

    fn start(&self) -> Daemon {
        Daemon::of(self.serve())
    }

    fn post(&self, call: &str, body: &str) -> String {
        let request = format!(
            "POST /{call} HTTP/1.1\r\nHost:\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        ask(&self.path("plugins/spoke.sock"), &request)
    }

    fn figures(&self) -> String {
        ask(&self.path("metrics.sock"), "GET /metrics HTTP/1.1\r\n\r\n")
    }

    fn events(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path("run/events")).unwrap();
        let event = |line: &str| -> serde_json::Value { serde_json::from_str(line).unwrap() };
        text.lines().map(|line| event(line)["event"].as_str().unwrap().to_owned()).collect()
    }

    fn spoke(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new("unshare");
        command.args(["-n", "--", SPOKE]).args(arguments);
        command.env("SPOKE_CONFIG", self.path("config.toml")).output().unwrap()
    }
}

fn ask(socket: &std::path::Path, request: &str) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

impl Daemon {
    /// Started, and ready for calls.
    fn of(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        let mut daemon = Self { child, log };
        daemon.until("event=started");
        daemon
    }

    /// Waits for a line of its log that holds `word`.
    fn until(&mut self, word: &str) -> String {
        let mut all = String::new();
        loop {
            let mut line = String::new();
            let read = self.log.read_line(&mut line).unwrap();
            assert_ne!(read, 0, "it ended without {word}:\n{all}");
            if line.contains(word) {
                return line;
            }
            all.push_str(&line);
        }
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }

    /// Runs a command in its network namespace.
    fn inside(&self, command: &[&str]) -> String {
        inside(self.child.id(), command)
    }

    fn status(&self, key: &str) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = text.lines().find(|line| line.starts_with(key)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }
}

/// A container of a CNI runtime, with a port.
struct Container {
    process: Child,
}

impl Container {
    fn new() -> Self {
        let process = Command::new("unshare").args(["-n", "sleep", "infinity"]).spawn().unwrap();
        let container = Self { process };
        let home = std::fs::read_link("/proc/self/ns/net").unwrap();
        while std::fs::read_link(container.netns()).unwrap() == home {
            std::thread::yield_now();
        }
        container
    }

    fn netns(&self) -> String {
        format!("/proc/{}/ns/net", self.process.id())
    }

    /// What its runtime executes.
    fn call(&self, command: &str, host: &Host, daemon: &Daemon) {
        let config = r#"{"cniVersion":"1.1.0","name":"front","type":"spoke",
            "capabilities":{"portMappings":true},
            "runtimeConfig":{"portMappings":[
                {"hostPort":8080,"containerPort":80,"protocol":"tcp"}]},
            "ipam":{"ranges":[[{"subnet":"10.71.1.0/24"}]]}}"#;
        std::fs::write(host.path("net.json"), config).unwrap();
        let line = format!(
            "exec env SPOKE_CONFIG={} CNI_COMMAND={command} CNI_CONTAINERID=c1 CNI_IFNAME=eth0 \
             CNI_PATH=/nowhere CNI_NETNS={} {SPOKE} <{}",
            host.path("config.toml").display(),
            self.netns(),
            host.path("net.json").display(),
        );
        inside(daemon.child.id(), &["sh", "-c", &line]);
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs a command in the network namespace of a process.
fn inside(process: u32, command: &[&str]) -> String {
    let target = process.to_string();
    let output =
        Command::new("nsenter").args(["-t", &target, "-n", "--"]).args(command).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let reported = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{command:?}: {reported}{said}");
    reported
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const ACTIVATED: &str = r#"{"Implements":["NetworkDriver","IpamDriver"]}"#;

#[test]
fn serves_until_it_is_stopped() {
    let host = Host::new();
    let mut daemon = host.start();
    assert!(host.post("Plugin.Activate", "").ends_with(ACTIVATED));
    let pool = r#"{"AddressSpace":"spoke-local","Pool":"10.99.0.0/24"}"#;
    assert!(host.post("IpamDriver.RequestPool", pool).contains("local/10.99.0.0/24"));
    assert!(host.post("IpamDriver.RequestPool", pool).contains("\"Error\""));
    let warned = daemon.until("call=IpamDriver.RequestPool");
    assert!(warned.contains(" warn ") && warned.contains("result=conflict"), "{warned}");
    let figures = host.figures();
    for line in [
        r#"spoke_operations_total{frontend="docker",operation="IpamDriver.RequestPool",result="ok"} 1"#,
        r#"spoke_operations_total{frontend="docker",operation="IpamDriver.RequestPool",result="conflict"} 1"#,
        r#"spoke_events_total{event="started"} 1"#,
    ] {
        assert!(figures.contains(line), "{line}\n{figures}");
    }
    daemon.signal("TERM");
    assert_eq!(daemon.child.wait().unwrap().code(), Some(0));
    assert_eq!(host.events(), ["started", "stopped"]);
    assert!(!host.path("plugins/spoke.sock").exists());
    assert!(!host.path("metrics.sock").exists());
}

#[test]
fn there_is_one_and_it_can_be_killed() {
    let host = Host::new();
    let daemon = host.start();
    let second = host.serve().output().unwrap();
    assert_eq!(second.status.code(), Some(4));
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(
        said.contains(&format!("process {} (spoke) already serves", daemon.child.id())),
        "{said}"
    );
    let pool = r#"{"AddressSpace":"spoke-local","Pool":"10.98.0.0/24"}"#;
    assert!(host.post("IpamDriver.RequestPool", pool).contains("10.98.0.0/24"));
    drop(daemon);
    assert!(host.path("plugins/spoke.sock").exists(), "killed, it removes nothing");
    let daemon = host.start();
    assert!(host.post("IpamDriver.RequestPool", pool).contains("\"Error\""), "it remembers");
    drop(daemon);
}

#[test]
fn takes_a_socket_that_is_held_for_it() {
    let host = Host::new();
    let path = host.path("held.sock");
    let held = UnixListener::bind(&path).unwrap();
    let passed = || {
        let mut command = host.serve();
        // The socket is passed as standard input, which needs no preparation of the child.
        command.env("LISTEN_FDS", "1").env("LISTEN_FDS_FIRST_FD", "0");
        command.stdin(Stdio::from(OwnedFd::from(held.try_clone().unwrap())));
        command
    };
    let request = "POST /Plugin.Activate HTTP/1.1\r\nHost:\r\nContent-Length: 0\r\n\
                   Connection: close\r\n\r\n";
    for signal in ["KILL", "TERM"] {
        // It waits at the socket from before the daemon starts.
        let early = std::thread::spawn({
            let path = path.clone();
            move || ask(&path, request)
        });
        let mut daemon = Daemon::of(passed());
        assert!(early.join().unwrap().ends_with(ACTIVATED));
        daemon.signal(signal);
        daemon.child.wait().unwrap();
        assert!(path.exists());
    }
    assert!(!host.path("plugins/spoke.sock").exists(), "it made none of its own");
}

#[test]
fn says_when_it_is_ready() {
    let host = Host::new();
    let notices = std::os::unix::net::UnixDatagram::bind(host.path("notify")).unwrap();
    notices.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut command = host.serve();
    command.env("NOTIFY_SOCKET", host.path("notify"));
    let mut daemon = Daemon::of(command);
    let heard = || {
        let mut buffer = [0; 64];
        let length = notices.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    };
    assert_eq!(heard(), "READY=1");
    daemon.signal("INT");
    assert_eq!(heard(), "STOPPING=1");
    assert_eq!(daemon.child.wait().unwrap().code(), Some(0));
}

#[test]
fn puts_the_packet_filter_back() {
    let host = Host::new();
    let mut daemon = host.start();
    let container = Container::new();
    container.call("ADD", &host, &daemon);
    // What is learned of this host's subnets comes by itself, and where it is needed; tables stand in the
    // order in which they were made.
    let is_reported = |line: &&str| !line.contains("elements = { 10.71.1.0/24 }");
    let ruleset = |daemon: &Daemon| -> String {
        let text = daemon.inside(&["nft", "list", "ruleset"]);
        let mut lines: Vec<_> = text.lines().filter(is_reported).collect();
        lines.sort_unstable();
        lines.join("\n")
    };
    let before = ruleset(&daemon);
    assert!(before.contains("10.71.1.2"), "{before}");
    daemon.inside(&["nft", "flush", "ruleset"]);
    daemon.until("event=healed");
    assert_eq!(ruleset(&daemon), before);
    assert!(host.figures().contains("spoke_heals_total 1\n"));
    assert!(host.events().contains(&"healed".to_owned()));
    container.call("DEL", &host, &daemon);
}

/// As when the last network goes and another one comes.
#[test]
fn tells_of_no_loss_where_nothing_is_missing() {
    let host = Host::new();
    let mut daemon = host.start();
    let shell = |daemon: &Daemon, script: &str| daemon.inside(&["sh", "-euc", script]);
    // As dockerd leaves it.
    shell(
        &daemon,
        "iptables-nft -P FORWARD DROP; iptables-nft -N DOCKER-USER
         iptables-nft -A DOCKER-USER -j RETURN; iptables-nft -I FORWARD -j DOCKER-USER",
    );
    let container = Container::new();
    container.call("ADD", &host, &daemon);
    let rules = |daemon: &Daemon| shell(daemon, "iptables-nft -S SPOKE-FORWARD | grep sp-+");
    let allowing = rules(&daemon);
    // That our rules come back shows when the daemon has looked at the table.
    shell(
        &daemon,
        "nft list table inet spoke | {
         echo 'delete table inet spoke'; cat; echo 'flush chain ip filter SPOKE-FORWARD'; } | nft -f -",
    );
    let limit = Instant::now() + TIMEOUT;
    while shell(&daemon, "iptables-nft -S SPOKE-FORWARD").lines().count() == 1 {
        assert!(Instant::now() < limit, "{:?}", host.events());
    }
    assert_eq!(rules(&daemon), allowing);
    daemon.inside(&["nft", "flush", "ruleset"]);
    daemon.until("event=healed");
    assert!(host.figures().contains("spoke_heals_total 1\n"));
    container.call("DEL", &host, &daemon);
}

#[test]
fn tells_of_a_clash_that_others_make() {
    let host = Host::new();
    let mut daemon = host.start();
    let made = host.spoke(&["network", "create", "--subnet", "10.70.1.0/24", "front"]);
    assert!(made.status.success(), "{made:?}");
    let line = daemon.until("event=network-created");
    assert!(line.contains("network=front") && line.contains("runtime=spoke"), "{line}");
    daemon.inside(&["ip", "link", "add", "docker0", "up", "type", "bridge"]);
    daemon.inside(&["ip", "address", "add", "10.70.1.7/24", "dev", "docker0"]);
    let line = daemon.until("event=clash");
    assert!(line.contains("10.70.1.0/24 (docker network bridge)"), "{line}");
    assert!(host.figures().contains("spoke_clashes 1\n"));
    daemon.inside(&["ip", "link", "delete", "docker0"]);
    daemon.until("event=clash-over");
    assert!(host.figures().contains("spoke_clashes 0\n"));
}

#[test]
fn tells_of_what_other_processes_attach() {
    let host = Host::new();
    let mut daemon = host.start();
    let container = Container::new();
    container.call("ADD", &host, &daemon);
    let attached = daemon.until("event=attached");
    for word in ["network=front", "container=c1", "interface=eth0", "addresses=10.71.1.2/24"] {
        assert!(attached.contains(word), "{word}: {attached}");
    }
    assert!(daemon.until("event=published").contains("ports=8080->80/tcp"));
    container.call("DEL", &host, &daemon);
    daemon.until("event=unpublished");
    assert!(daemon.until("event=detached").contains("container=c1"));
    assert_eq!(host.events(), ["started", "attached", "published", "unpublished", "detached"]);
}

#[test]
fn events_can_be_followed() {
    let host = Host::new();
    let daemon = host.start();
    let mut follower = Command::new(SPOKE)
        .args(["events", "-f", "--last", "1", "-o", "json"])
        .env("SPOKE_CONFIG", host.path("config.toml"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    let mut next =
        || -> serde_json::Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    assert_eq!(next()["event"], "started");
    assert!(host.spoke(&["network", "create", "front"]).status.success());
    let made = next();
    assert_eq!((&made["event"], &made["network"]), (&"network-created".into(), &"front".into()));
    assert!(host.spoke(&["network", "rm", "front"]).status.success());
    assert_eq!(next()["event"], "network-removed");
    follower.kill().unwrap();
    follower.wait().unwrap();
    drop(daemon);
}

#[test]
fn refuses_what_it_cannot_serve_before_it_changes_anything() {
    let host = Host::new();
    let config = std::fs::read_to_string(host.path("config.toml")).unwrap();
    let exposed = config
        .replace("metrics.sock", "x")
        .replace(&format!("{:?}", host.path("x").display().to_string()), "\"0.0.0.0:9100\"");
    std::fs::write(host.path("config.toml"), exposed).unwrap();
    let refused = host.serve().output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("metrics.expose"));
    assert!(!host.path("run").exists() && !host.path("plugins").exists());
}

#[test]
fn is_small() {
    let host = Host::new();
    let daemon = host.start();
    for _ in 0..200 {
        assert!(host.post("Plugin.Activate", "").ends_with(ACTIVATED));
    }
    // What is read from the program's file is not counted: here it is not optimised.
    let own = daemon.status("RssAnon:");
    assert!(own < 8 << 10, "{own} KiB of its own");
    let threads = daemon.status("Threads:");
    assert!(threads <= 26, "{threads} threads");
}

#[test]
fn tells_of_docker_plugins_that_come_and_go() {
    let host = Host::new();
    let mut daemon = host.start();
    let socket = host.path("plugins/other.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    assert!(daemon.until("event=plugin-came").contains("plugin other came"));
    drop(listener);
    std::fs::remove_file(&socket).unwrap();
    assert!(daemon.until("event=plugin-gone").contains("plugin other went"));
    std::fs::create_dir(host.path("plugins/more")).unwrap();
    let _more = UnixListener::bind(host.path("plugins/more/more.sock")).unwrap();
    daemon.until("plugin more came");
    assert!(host.figures().contains("spoke_remote_cleanups_pending 0"));
    assert!(!host.events().contains(&"failed".to_owned()));
}
