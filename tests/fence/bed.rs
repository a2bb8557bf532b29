//! A host with a fenced network and an open one, and a world outside that has servers on every address.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::process::{Child, Command, Stdio};

use tests::{Plugins, Serve, World};

use crate::outside;

pub(crate) const SPOKE: &str = "/opt/cni/bin/spoke";
const WORLD: &str = include_str!("world.py");
const ATTEMPT: &str = concat!(include_str!("packets.py"), include_str!("attempt.py"));

/// What containers of the fenced network may reach. The host is 203.0.113.254, and asks 203.0.113.53.
pub(crate) const RULES: &str = "*.allowed.example:443,exact.example:443,ports.allowed.example:80-81,\
                                203.0.113.20:5432,10.66.0.20:443,[2001:db8:113::20]:5432";

/// A script for a host that forwards before Spoke does, and whatever there is.
pub(crate) const FORWARDS: &str =
    "echo 1 | tee /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv6/conf/all/forwarding";

pub(crate) struct Bed {
    pub(crate) world: World,
    pub(crate) serve: Option<Serve>,
}

impl Bed {
    /// With networks `agents`, which has a fence, and `plain`, and these namespaces.
    #[track_caller]
    pub(crate) fn new(namespaces: &[&str]) -> Self {
        Self::after("true", namespaces)
    }

    /// On a host where a shell script has run before Spoke.
    pub(crate) fn after(script: &str, namespaces: &[&str]) -> Self {
        let world = World::new(&Plugins::subject());
        prepare(&world);
        world.sh(script);
        let serve = Some(Serve::start(&world, &[]));
        let bed = Self { world, serve };
        bed.spoke(&format!(
            "network create --egress '{RULES}' --subnet 10.81.1.0/24 --subnet fd81:1::/64 agents"
        ));
        bed.spoke("network create --subnet 10.81.2.0/24 plain");
        for name in namespaces {
            bed.world.netns(name);
        }
        bed.until_answers("10.81.1.1");
        bed
    }

    #[track_caller]
    pub(crate) fn spoke(&self, command: &str) -> String {
        self.world.sh(&format!("{SPOKE} {command}"))
    }

    #[track_caller]
    pub(crate) fn until_answers(&self, gateway: &str) {
        until(
            &self.world,
            &format!("nft list table inet spoke_names 2>/dev/null | grep -q ' {gateway} '"),
        );
    }

    /// What becomes of attempts from a namespace.
    #[track_caller]
    pub(crate) fn attempts(&self, namespace: &str, lines: &str) -> BTreeMap<String, String> {
        attempts(&self.world, &format!("/run/netns/{namespace}"), lines)
    }

    /// Each attempt of a namespace comes to what is expected of it; all are made at once.
    #[track_caller]
    pub(crate) fn all(&self, namespace: &str, table: &[(&str, &str)]) {
        let lines = table.iter().enumerate();
        let lines: String = lines.map(|(place, (it, _))| format!("{place} {it}\n")).collect();
        let results = self.attempts(namespace, &lines);
        for (place, (attempt, expected)) in table.iter().enumerate() {
            let result = &results[&place.to_string()];
            assert_eq!(result, expected, "{namespace}: {attempt}\n{}", self.world.logs());
        }
    }

    /// What becomes of one attempt.
    #[track_caller]
    pub(crate) fn attempt(&self, namespace: &str, line: &str) -> String {
        let all = self.attempts(namespace, &format!("it {line}"));
        all.get("it").expect("a result").clone()
    }

    /// The same of this host itself.
    pub(crate) fn attempt_of_host(&self, line: &str) -> String {
        let mut said = attempts(&self.world, "/proc/1/ns/net", &format!("it {line}"));
        said.remove("it").unwrap_or_default()
    }

    /// Has a namespace listen at a port, by TCP and UDP.
    #[track_caller]
    pub(crate) fn listens(&self, name: &str, port: u16) {
        listen(&self.world, &format!("/run/netns/{name}"), &format!("{name} {port}"));
        for kind in ["t", "u"] {
            let there = format!("ip netns exec {name} ss -Hl{kind}n | grep -q ':{port} '");
            until(&self.world, &there);
        }
    }

    /// Adds a second uplink, `up1` with 203.0.114.254: the world sends by it, and is answered by `up0`.
    #[track_caller]
    pub(crate) fn add_uplink(&self) {
        self.world.sh(
            "ip link add link up0 name up1 type macvlan mode bridge; ip address add 203.0.114.254/24 dev up1
            ip link set up1 up; echo 0 >/proc/sys/net/ipv4/conf/up1/rp_filter
            ip -n world route add 203.0.114.254 dev out0
            ip -n world neighbour replace 203.0.114.254 dev out0 nud permanent \
                lladdr $(cat /sys/class/net/up1/address)",
        );
    }

    /// Asks for `held.allowed.example`, which the world answers when [`Bed::answer_held`] says so.
    #[track_caller]
    pub(crate) fn ask_held(&self, namespace: &str) -> Held {
        self.world.sh("rm -f /world/asked.go; mkfifo /world/asked.go");
        let before = outside::queries(&self.world, b"\x04held").len();
        let netns = self.world.path(&format!("/run/netns/{namespace}"));
        let mut asks = Command::new("nsenter");
        asks.arg(format!("--net={}", netns.display()));
        asks.args(["python3", "-c", ATTEMPT]).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = asks.stderr(Stdio::null()).spawn().expect("nsenter starts");
        let line = b"it ask 10.81.1.1 held.allowed.example";
        child.stdin.take().expect("piped").write_all(line).expect("written");
        let asked = "grep -c '^held.allowed' /world/asked";
        until(&self.world, &format!("[ \\$({asked}) -gt {before} ]"));
        Held(child)
    }

    /// Lets the world answer, and waits until the daemon has read that: what `namespace` asks for afterwards
    /// is answered later.
    #[track_caller]
    pub(crate) fn answer_held(&self, namespace: &str) {
        let answered = self.world.sh("grep -c '^held answered' /world/asked || true");
        self.world.sh("echo >/world/asked.go");
        let now = "grep -c '^held answered' /world/asked";
        until(&self.world, &format!("[ \\$({now}) -gt {} ]", answered.trim()));
        self.attempt(namespace, "ask 10.81.1.1 fresh.allowed.example");
    }

    /// Whether the world was asked for a name, or anything below it.
    pub(crate) fn was_asked(&self, name: &str) -> bool {
        outside::was_asked(&self.world, name)
    }

    /// Everything that has come to the world, as `address . protocol . port`.
    #[track_caller]
    pub(crate) fn seen(&self) -> String {
        outside::seen(&self.world)
    }

    /// Everything that was denied, as JSON.
    #[track_caller]
    pub(crate) fn denied(&self) -> serde_json::Value {
        serde_json::from_str(&self.spoke("denied -o json")).expect("JSON")
    }
}

/// One that waits for an answer; it ends with this.
pub(crate) struct Held(Child);

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[track_caller]
pub(crate) fn until(world: &World, condition: &str) {
    world.sh(&format!("timeout 60 sh -c \"until {condition}; do sleep 0.05; done\""));
}

/// Makes the world outside, and the host's server of names there.
#[track_caller]
pub(crate) fn prepare(world: &World) {
    fs::write(world.path("/world/world.py"), WORLD).expect("written");
    fs::write(world.path("/world/attempt.py"), ATTEMPT).expect("written");
    world.netns("world");
    world.sh(
        "ip link set lo up; echo 1 >/proc/sys/net/ipv6/conf/all/forwarding
        printf 'nameserver 203.0.113.53\\n' >/etc/resolv.conf
        ip link add up0 type veth peer name out0 netns world
        ip address add 203.0.113.254/24 dev up0; ip address add 2001:db8:113::254/64 nodad dev up0
        ip link set up0 up
        ip -n world link set lo up; ip -n world address add 203.0.113.53/24 dev out0
        ip -n world address add 2001:db8:113::53/64 nodad dev out0; ip -n world link set out0 up
        ip -n world route add local 203.0.113.0/25 dev lo; ip -n world route add local 198.51.0.0/16 dev lo
        ip -n world route add local 169.254.169.254 dev lo; ip -n world route add local 10.66.0.0/16 dev lo
        ip -n world route add default via 203.0.113.254
        ip -n world -6 route add local 2001:db8:113::/120 dev lo; ip -n world -6 route add local fd66::/64 dev lo
        ip -n world -6 route add default via 2001:db8:113::254
        ip route add default via 203.0.113.53; ip -6 route add default via 2001:db8:113::53
        ip route add 203.0.113.0/25 via 203.0.113.53
        ip -6 route add 2001:db8:113::/120 via 2001:db8:113::53
        ip netns exec world nft -f - <<'END'
table inet seen {
    set four { typeof ip daddr . meta l4proto . th dport; flags dynamic; size 65535; }
    set six { typeof ip6 daddr . meta l4proto . th dport; flags dynamic; size 65535; }
    set hidden { typeof ip6 daddr . ip6 nexthdr; flags dynamic; size 65535; }
    set odd { typeof ip daddr . meta l4proto; flags dynamic; size 65535; }
    set odd_six { typeof ip6 daddr . meta l4proto; flags dynamic; size 65535; }
    chain in {
        type filter hook prerouting priority -300
        iifname out0 ip daddr != 203.0.113.53 meta l4proto { tcp, udp } add @four { ip daddr . meta l4proto . th dport }
        iifname out0 ip daddr != 203.0.113.53 meta l4proto != { tcp, udp } add @odd { ip daddr . meta l4proto }
        iifname out0 ip6 daddr 2001:db8:113::/120 ip6 daddr != 2001:db8:113::53 meta l4proto != { tcp, udp } add @odd_six { ip6 daddr . meta l4proto }
        # Nothing is forwarded to addresses of one link: that are reports of the host itself (MLD).
        iifname out0 ip6 daddr != ff02::/16 ip6 nexthdr != { tcp, udp, ipv6-icmp } add @hidden { ip6 daddr . ip6 nexthdr }
        iifname out0 ip6 daddr != 2001:db8:113::53 meta l4proto { tcp, udp } add @six { ip6 daddr . meta l4proto . th dport }
    }
}
END
",
    );
    listen(world, "/run/netns/world", "asked 22 80 81 443 853 5432 8443");
    listen(world, "/proc/1/ns/net", "host 8022");
    until(world, "ip netns exec world ss -Hltn | grep -q ':8443 '");
    until(world, "ip netns exec world ss -Hltn | grep -q ':443 '");
    until(world, "ss -Hltn | grep -q ':8022 '");
}

/// Starts a world's listeners in a network namespace: a file for the names that it is asked, and ports. They
/// are this host's program, because not every world has one, and end with the world.
#[track_caller]
pub(crate) fn listen(world: &World, netns: &str, arguments: &str) {
    let (file, ports) = arguments.split_once(' ').expect("a file and ports");
    let pid = world.pid().to_string();
    let net = match netns.strip_prefix("/proc/1/") {
        Some(own) => format!("--net=/proc/{pid}/{own}"),
        None => format!("--net={}", world.path(netns).display()),
    };
    let mut listens = Command::new("nsenter");
    listens.args(["--target", &pid, "--pid", &net, "--", "sh", "-c"]);
    let (script, asked) = (world.path("/world/world.py"), world.path(&format!("/world/{file}")));
    listens.arg(format!(
        "python3 {} {} {ports} >/dev/null 2>{}.log &",
        script.display(),
        asked.display(),
        asked.display()
    ));
    assert!(listens.status().expect("nsenter starts").success());
}

/// What becomes of attempts in a network namespace of a world.
#[track_caller]
pub(crate) fn attempts(world: &World, netns: &str, lines: &str) -> BTreeMap<String, String> {
    let mut tries = Command::new("nsenter");
    tries.arg(format!("--net={}", world.path(netns).display()));
    tries.args(["python3", "-c", ATTEMPT]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut tries = tries.stderr(Stdio::piped()).spawn().expect("nsenter starts");
    tries.stdin.take().expect("piped").write_all(lines.as_bytes()).expect("written");
    let done = tries.wait_with_output().expect("it ends");
    let complaint = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && complaint.is_empty(), "{netns}: {complaint}{}", world.logs());
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    let pair = |line: &str| line.split_once(' ').map(|(name, it)| (name.to_owned(), it.to_owned()));
    said.lines().filter_map(pair).collect()
}
