//! Looking at the traffic of a host, and at what the kernel says of it.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tests::World;

pub(crate) const SPOKE: &str = "/opt/cni/bin/spoke";

/// More than anything takes.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Someone outside of the host, who reaches its published ports.
pub(crate) const NEIGHBOUR: &str = "
ip netns add client
ip link add up0 type veth peer name eth0 netns client
ip address add 192.0.2.1/24 dev up0
ip -n client address add 192.0.2.2/24 dev eth0
ip link set up0 up; ip -n client link set eth0 up; ip -n client link set lo up";

/// What `spoke COMMAND -o json` prints.
#[track_caller]
pub(crate) fn json(world: &World, command: &str) -> Value {
    let text = world.sh(&format!("{SPOKE} {command} -o json"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{command}: {error}\n{text}"))
}

/// The row of a list in which `key` is `value`.
#[track_caller]
pub(crate) fn row(list: &Value, key: &str, value: &str) -> Value {
    let rows = list.as_array().expect("a list");
    let found = rows.iter().find(|row| row[key] == value);
    found.unwrap_or_else(|| panic!("nothing with {key} {value} in {list:#}")).clone()
}

/// Tries until there is something.
#[track_caller]
pub(crate) fn until<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        if let Some(found) = attempt() {
            return found;
        }
        assert!(Instant::now() < deadline, "never: {what}");
        tests::glance();
    }
}

/// What the kernel counts at an interface in the network namespace at `netns`: bytes and packets that it
/// received, and sent.
#[track_caller]
pub(crate) fn kernels(world: &World, netns: &str, interface: &str) -> [u64; 4] {
    let said = world.sh(&format!("nsenter --net={netns} ip -s -j link show {interface}"));
    let said: Value = serde_json::from_str(&said).expect("JSON");
    let number = |way: &str, what: &str| said[0]["stats64"][way][what].as_u64().expect("a number");
    [number("rx", "bytes"), number("rx", "packets"), number("tx", "bytes"), number("tx", "packets")]
}

/// The same as `spoke top` says it.
#[track_caller]
pub(crate) fn counted(world: &World, name: &str) -> [u64; 4] {
    let row = row(&json(world, &format!("top {name}")), "name", name);
    ["receive_bytes", "receive_packets", "transmit_bytes", "transmit_packets"]
        .map(|key| row[key].as_u64().expect("a number"))
}

/// That `spoke top` says what the kernel does. A container is never quite silent: it is asked until nothing
/// came in between.
#[track_caller]
pub(crate) fn is_counted(world: &World, name: &str, netns: &str, interface: &str) {
    let spoke = until(&format!("a quiet moment of {name}"), || {
        let before = kernels(world, netns, interface);
        let spoke = counted(world, name);
        (before == kernels(world, netns, interface)).then_some((before, spoke))
    });
    assert_eq!(spoke.1, spoke.0, "{name}");
    assert!(spoke.0.iter().all(|number| *number > 0), "{name} has no traffic: {spoke:?}");
}

/// Fetches a page from a port; what was answered.
#[track_caller]
pub(crate) fn fetch(world: &World, from: &str, address: &str, port: u16) -> String {
    let ask = "printf 'GET /index.html HTTP/1.0\\r\\n\\r\\n'";
    let said = world
        .sh(&format!("{ask} | timeout 20 ip netns exec {from} busybox nc -w 10 {address} {port}"));
    assert!(said.contains("a page"), "{from} asks {address}:{port}: {said}");
    said
}

/// A program of a world that runs beside the test; killed when dropped.
pub(crate) struct Beside {
    pub(crate) child: Child,
}

impl Beside {
    #[track_caller]
    pub(crate) fn start(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self { child: command.spawn().expect("it starts") }
    }

    /// `spoke COMMAND`.
    #[track_caller]
    pub(crate) fn spoke(world: &World, command: &str) -> Self {
        let mut spoke = world.command(SPOKE);
        Self::start(spoke.args(command.split(' ')))
    }

    /// Waits for its end: whether it succeeded, and what it printed on both.
    #[track_caller]
    pub(crate) fn end(mut self) -> (bool, Vec<u8>, String) {
        use std::io::Read as _;
        let (mut out, mut err) = (Vec::new(), String::new());
        self.child.stdout.take().expect("piped").read_to_end(&mut out).expect("read");
        self.child.stderr.take().expect("piped").read_to_string(&mut err).expect("read");
        let status = self.child.wait().expect("our child");
        (status.success(), out, err)
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
