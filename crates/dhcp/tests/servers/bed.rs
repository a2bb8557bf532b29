//! A container's namespace and a server's, a pair of links between them.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use dhcp::{ContainerLocator, Keeper, LeaseStore, News, Pace, Subject, Terms};
use model::{AttachmentId, Dhcp, Mac};
use tempfile::TempDir;

/// Nothing takes longer, however busy the machine is.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A process that holds a namespace, or serves in one; killed when dropped.
pub(crate) struct Running {
    child: Child,
    lines: Option<Receiver<String>>,
    heard: String,
}

impl Running {
    fn start(program: &str, arguments: &[String]) -> Self {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{program}: {error}"));
        let (report, lines) = channel();
        let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        follow(out, report.clone());
        follow(err, report);
        Self { child, lines: Some(lines), heard: String::new() }
    }

    /// Waits until it says a line with `word`.
    pub(crate) fn hear(&mut self, word: &str) {
        loop {
            let line = self.lines.as_ref().unwrap().recv_timeout(TIMEOUT);
            let line = line.unwrap_or_else(|_| panic!("no {word} after {}", self.heard));
            self.heard.push_str(&line);
            self.heard.push('\n');
            if line.contains(word) {
                return;
            }
        }
    }

    pub(crate) fn heard(&mut self) -> &str {
        for line in self.lines.as_ref().unwrap().try_iter() {
            self.heard.push_str(&line);
            self.heard.push('\n');
        }
        &self.heard
    }

    fn namespace(&self) -> PathBuf {
        format!("/proc/{}/ns/net", self.child.id()).into()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn follow(from: impl std::io::Read + Send + 'static, report: Sender<String>) {
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if report.send(line).is_err() {
                return;
            }
        }
    });
}

fn namespace() -> Running {
    let script = "echo here; exec sleep 1000";
    let arguments = ["-n", "sh", "-c", script].map(String::from);
    let mut held = Running::start("unshare", &arguments);
    held.hear("here");
    held
}

pub(crate) struct Bed {
    server: Running,
    container: Running,
    sandbox: Running,
    directory: TempDir,
    news: Receiver<News>,
    report: Sender<News>,
    reported: Mutex<()>,
}

/// Where the link is moved to.
struct Moved(PathBuf);

impl ContainerLocator for Moved {
    fn sandbox(&self, _: &AttachmentId) -> Option<PathBuf> {
        Some(self.0.clone())
    }

    fn is_link_of(&self, _: &AttachmentId, group: u32) -> bool {
        group == GROUP
    }
}

/// The group of a link in the host's namespace that is a container's.
pub(crate) const GROUP: u32 = 77;
/// In the environment of a test that has a host's namespace of its own.
const WITHIN: &str = "SPOKE_TEST_HOST";

/// Runs the test of this name again in a network namespace of its own, which is the host's for the
/// keeper; `true` in there.
pub(crate) fn is_in_own_host(test: &str) -> bool {
    if std::env::var_os(WITHIN).is_some() {
        return true;
    }
    let myself = std::env::current_exe().unwrap();
    let output = Command::new("unshare")
        .args(["-n".as_ref(), myself.as_os_str()])
        .args(["--exact", test, "--nocapture"])
        .env(WITHIN, "1")
        .output()
        .unwrap();
    let said = [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy).concat();
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    false
}

/// Runs a command in this process's namespace.
pub(crate) fn in_host(command: &str) -> String {
    let words: Vec<&str> = command.split(' ').collect();
    let output = Command::new(words[0]).args(&words[1..]).output().unwrap();
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

impl Bed {
    pub(crate) fn new() -> Self {
        let (report, news) = channel();
        let bed = Self {
            server: namespace(),
            container: namespace(),
            sandbox: namespace(),
            directory: TempDir::new().unwrap(),
            news,
            report,
            reported: Mutex::default(),
        };
        let peer = bed.container.child.id();
        bed.in_server("ip link set lo up");
        bed.in_server(&format!("ip link add srv type veth peer name eth0 netns {peer}"));
        bed.in_server("ip address add 10.7.0.1/24 dev srv");
        bed.in_server("ip link set srv up");
        bed
    }

    /// A client of this name on the container's link, of which there is only one.
    pub(crate) fn subject(&self, container: &str) -> Subject {
        Subject {
            id: doubles::attachment_id("lan", container),
            netns: self.container.namespace(),
            mac: None,
            client: format!("\0{container}/lan/eth0").into_bytes(),
            dhcp: Dhcp {
                socket: "/unused".into(),
                request: Vec::new(),
                skip: Vec::new(),
                provide: Vec::new(),
                priority: None,
            },
        }
    }

    pub(crate) fn keeper(&self) -> Keeper {
        self.keep(Pace { give_up: TIMEOUT, ..Pace::default() })
    }

    /// One that gives up soon.
    pub(crate) fn hasty(&self) -> Keeper {
        self.keep(Pace { give_up: Duration::from_secs(2), ..Pace::default() })
    }

    fn keep(&self, pace: Pace) -> Keeper {
        let lease_store =
            LeaseStore::open(&self.directory.path().join("shelf"), "this".into()).unwrap();
        let report = self.report.clone();
        let places = Box::new(Moved(self.sandbox.namespace()));
        Keeper::start(lease_store, pace, places, Box::new(move |news| drop(report.send(news))))
            .unwrap()
    }

    pub(crate) fn news(&self) -> News {
        let _reported = self.reported.lock().unwrap();
        self.news.recv_timeout(TIMEOUT).expect("news")
    }

    /// What was reported until now is not of interest.
    pub(crate) fn forget_news(&self) {
        while self.news.try_recv().is_ok() {}
    }

    pub(crate) fn wait(&self, is: impl Fn() -> bool) {
        let deadline = Instant::now() + TIMEOUT;
        while !is() {
            assert!(Instant::now() < deadline, "it does not come to pass");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Files of leases.
    pub(crate) fn lease_store(&self) -> Vec<String> {
        let files = fs::read_dir(self.directory.path().join("shelf")).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name != "lock").collect()
    }

    /// Whether the only lease is known to be lost, on disk.
    pub(crate) fn has_lost_lease(&self) -> bool {
        let names = self.lease_store();
        names.len() == 1 && self.read(&format!("shelf/{}", names[0])).contains("\"lost\":true")
    }

    /// Puts a directory in the place of the only lease, which cannot be removed then, until the
    /// result is called.
    pub(crate) fn block_lease(&self) -> impl FnOnce() + use<> {
        let file = self.directory.path().join("shelf").join(&self.lease_store()[0]);
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        move || fs::remove_dir(&file).unwrap()
    }

    pub(crate) fn read(&self, file: &str) -> String {
        fs::read_to_string(self.directory.path().join(file)).unwrap_or_default()
    }

    /// Gives the container's link its address, as a plugin does.
    pub(crate) fn configure(&self, terms: &Terms) {
        inside(&self.container, &format!("ip address add {} dev eth0", terms.address));
    }

    pub(crate) fn addresses(&self) -> String {
        self.addresses_of("eth0")
    }

    pub(crate) fn addresses_of(&self, link: &str) -> String {
        inside(&self.container, &format!("ip -4 address show dev {link}"))
    }

    /// As if the container's link were another one.
    pub(crate) fn rename(&self, from: &str, to: &str) {
        inside(&self.container, &format!("ip link set {from} name {to}"));
    }

    pub(crate) fn move_to_sandbox(&self) {
        let to = self.sandbox.child.id();
        inside(&self.container, &format!("ip link set eth0 netns {to} name lan0"));
        inside(&self.sandbox, "ip link set lan0 up");
    }

    pub(crate) fn routes(&self) -> String {
        inside(&self.container, "ip -4 route")
    }

    /// A macvlan on the container's link; returns its hardware address.
    pub(crate) fn add_macvlan(&self, container: &str) -> Mac {
        let mac = Mac::new([2, 0, 0, 0, 0, container.len() as u8]);
        inside(&self.container, "ip link set eth0 up");
        let add = format!("ip link add mv0 link eth0 address {mac} type macvlan mode bridge");
        inside(&self.container, &add);
        mac
    }

    /// Moves the macvlan to the host's namespace.
    pub(crate) fn take_back_macvlan(&self) {
        inside(&self.container, &format!("ip link set mv0 netns {}", std::process::id()));
    }

    /// Moves the macvlan to the sandbox, where it gets its address.
    pub(crate) fn move_macvlan(&self, terms: &Terms) {
        let to = self.sandbox.child.id();
        inside(&self.container, &format!("ip link set mv0 netns {to} name lan0"));
        inside(&self.sandbox, &format!("ip address add {} dev lan0", terms.address));
        inside(&self.sandbox, "ip link set lan0 up");
    }

    /// Puts a macvlan with its parent's hardware address in the place of the container's link; the
    /// parent is the host's `par0`.
    pub(crate) fn put_on_parent(&self) {
        let (host, container) = (std::process::id(), self.container.child.id());
        inside(&self.container, &format!("ip link set eth0 netns {host} name par0"));
        in_host("ip link set par0 up");
        let add = "ip link add eth0 link par0 netns";
        in_host(&format!("{add} {container} type macvlan mode passthru"));
    }

    /// Ends the container, with its namespace and its links.
    pub(crate) fn end_container(&mut self) {
        let _ = self.container.child.kill();
        let _ = self.container.child.wait();
    }

    pub(crate) fn in_sandbox(&self, command: &str) -> String {
        inside(&self.sandbox, command)
    }

    pub(crate) fn in_server(&self, command: &str) {
        inside(&self.server, command);
    }

    fn serve(&self, program: &str, arguments: &[String]) -> Running {
        let net = format!("--net={}", self.server.namespace().display());
        let mut all = vec![net, program.to_owned()];
        all.extend_from_slice(arguments);
        Running::start("nsenter", &all)
    }
}

fn inside(namespace: &Running, command: &str) -> String {
    let output = Command::new("nsenter")
        .arg(format!("--net={}", namespace.namespace().display()))
        .args(command.split(' '))
        .output()
        .unwrap();
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// dnsmasq, which serves once this returns.
pub(crate) fn dnsmasq(bed: &Bed, options: &[&str]) -> Running {
    let leases = bed.directory.path().join("leases");
    let own = [
        "--keep-in-foreground",
        "--conf-file=/dev/null",
        "--port=0",
        "--interface=srv",
        "--bind-interfaces",
        "--no-ping",
        "--log-dhcp",
        "--log-facility=-",
        "--user=root",
        "--pid-file=",
    ];
    let mut arguments: Vec<String> = own.into_iter().map(String::from).collect();
    arguments.push(format!("--dhcp-leasefile={}", leases.display()));
    arguments.extend(options.iter().map(|option| (*option).to_owned()));
    let mut running = bed.serve("dnsmasq", &arguments);
    running.hear("sockets bound exclusively to interface srv");
    running
}

/// BusyBox's server, with leases of so many seconds.
pub(crate) fn udhcpd(bed: &Bed, lease: u32) -> Running {
    let file = |name: &str| bed.directory.path().join(name);
    let router = Ipv4Addr::new(10, 7, 0, 1);
    let config = format!(
        "start 10.7.0.10\nend 10.7.0.20\ninterface srv\nmin_lease 1\nlease_file {}\npidfile {}\n\
         opt router {router}\nopt subnet 255.255.255.0\nopt lease {lease}\n",
        file("udhcpd.leases").display(),
        file("udhcpd.pid").display(),
    );
    fs::write(file("udhcpd.conf"), config).unwrap();
    fs::write(file("udhcpd.leases"), "").unwrap();
    let arguments = ["-f".to_owned(), file("udhcpd.conf").display().to_string()];
    let mut running = bed.serve("udhcpd", &arguments);
    running.hear("started");
    running
}

/// ISC's server, which knows of the lease from another one.
pub(crate) fn dhcpd(bed: &Bed, terms: &Terms) -> Running {
    let file = |name: &str| bed.directory.path().join(name).display().to_string();
    let config = "authoritative;\ndefault-lease-time 600;\nmax-lease-time 600;\n\
                  subnet 10.7.0.0 netmask 255.255.255.0 { range 10.7.0.10 10.7.0.50; }\n";
    fs::write(file("dhcpd.conf"), config).unwrap();
    let lease = format!(
        "lease {} {{\n  starts epoch 0;\n  ends never;\n  binding state active;\n  \
         uid \"\\000c1/lan/eth0\";\n}}\n",
        terms.address.addr()
    );
    fs::write(file("dhcpd.leases"), lease).unwrap();
    let flags = ["-4", "-d", "-f", "--no-pid", "-user", "root", "-group", "root", "-cf"];
    let mut arguments: Vec<String> = flags.into_iter().map(String::from).collect();
    arguments.extend([file("dhcpd.conf"), "-lf".into(), file("dhcpd.leases"), "srv".into()]);
    let mut running = bed.serve("dhcpd", &arguments);
    running.hear("Server starting service");
    running
}
