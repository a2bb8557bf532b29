//! Docker's containers, whose own server is between.

use tests::{Engine, Managed, Plugins, Release, World};

use crate::bed::{ask, asking, prepare, until_answers};

const SPOKE: &str = "/opt/cni/bin/spoke";
/// Where Docker's server is asked.
const SERVER: &str = "127.0.0.11";

struct Bed {
    engine: Engine,
    manager: Managed,
}

impl Bed {
    #[track_caller]
    fn new() -> Self {
        let mut engine = Engine::prepared(Release::V28_5, &Plugins::subject());
        prepare(engine.world());
        let manager = Managed::start(engine.world());
        engine.start(&[]);
        engine.import();
        Self { engine, manager }
    }

    fn world(&self) -> &World {
        self.engine.world()
    }

    /// A network of Docker's that is one of Spoke's.
    #[track_caller]
    fn network(&self, name: &str, number: u8, options: [&str; 2]) {
        let subnet = format!("10.75.{number}.0/24");
        let [spoke, docker] = options;
        self.world().sh(&format!("{SPOKE} network create {spoke} --subnet {subnet} {name}"));
        let create = "network create -d spoke --ipam-driver spoke --ipam-opt";
        self.engine.docker(&format!("{create} network={name} {docker} --subnet {subnet} {name}"));
        until_answers(self.world(), &format!("10.75.{number}.1"));
    }

    #[track_caller]
    fn run(&self, name: &str, options: &str) {
        self.engine.docker(&format!("run -d --name {name} {options} busybox /bin/sleep 3600"));
        if !self.netns(name).is_empty() {
            let led =
                format!("nsenter --net={} nft list tables | grep -q spoke_names", self.netns(name));
            self.world().sh(&format!("timeout 60 sh -c 'until {led}; do sleep 0.05; done'"));
        }
    }

    #[track_caller]
    fn netns(&self, name: &str) -> String {
        let key = "inspect --format {{.NetworkSettings.SandboxKey}}";
        // /var/run is a link, which would lead out of the world.
        self.engine.docker(&format!("{key} {name}")).trim().replace("/var/run/", "/run/")
    }

    #[track_caller]
    fn ask(&self, from: &str, name: &str) -> String {
        ask(self.world(), &self.netns(from), SERVER, name)
    }

    fn was_asked(&self, name: &str) -> bool {
        self.world().sh("cat /world/asked").contains(&format!("] {name} from"))
    }
}

/// Without `--dns`, which Docker's own server would otherwise need to ask Spoke. That server knows the names of
/// Docker's other networks, and is asked by Spoke for what it does not know.
#[test]
fn its_containers_need_no_option() {
    if !Release::V28_5.is_there() {
        return;
    }
    let bed = Bed::new();
    bed.network("front", 1, ["--names", ""]);
    bed.network("vault", 2, ["--names --internal", "--internal"]);
    bed.network("agents", 3, ["--egress allowed.example:443", ""]);
    bed.engine.docker("network create own");
    bed.run("web", "--network front");
    bed.engine.docker("network connect own web");
    bed.engine.docker("run -d --name near --network own busybox /bin/sleep 3600");
    let near =
        bed.engine.docker("inspect --format {{.NetworkSettings.Networks.own.IPAddress}} near");
    for name in ["near", "--tcp near"] {
        assert_eq!(bed.ask("web", name), near.trim(), "{name}");
    }
    assert_eq!(bed.ask("web", "--tcp outside.example"), "192.0.2.7");
    bed.world().netns("line");
    bed.world().sh(&format!("{SPOKE} network connect --ip 10.75.1.20 front line"));
    assert_eq!(bed.ask("web", "line"), "10.75.1.20");
    assert_eq!(bed.ask("web", "--tcp line"), "10.75.1.20");

    // On an internal network, too, and nothing leaves it.
    bed.run("inner", "--network vault");
    bed.world().netns("safe");
    bed.world().sh(&format!("{SPOKE} network connect --ip 10.75.2.20 vault safe"));
    assert_eq!(bed.ask("inner", "safe"), "10.75.2.20");
    assert_ne!(bed.ask("inner", "secret.outside.example"), "192.0.2.7");
    assert!(!bed.was_asked("secret.outside.example"));

    behind_a_fence(&bed);
    outliving(&bed);
    stopping(&bed);

    // Where it is on no such network any more, Docker's server is asked as before.
    bed.engine.docker("network disconnect front web");
    let netns = bed.netns("web");
    let gone = format!("nsenter --net={netns} nft list tables | grep -q spoke_names");
    bed.world().sh(&format!("timeout 60 sh -c 'while {gone}; do sleep 0.05; done'"));
    assert_eq!(bed.ask("web", "near"), near.trim());
    bed.engine.remove_each("web near inner agent late");
}

/// A network that Docker alone made is called what Docker calls it, as soon as its containers have names.
#[test]
fn a_network_of_its_own_has_its_name() {
    if !Release::V28_5.is_there() {
        return;
    }
    let bed = Bed::new();
    let create = "network create -d spoke --ipam-driver spoke -o names=true";
    bed.engine.docker(&format!("{create} --subnet 10.75.11.0/24 Shop"));
    until_answers(bed.world(), "10.75.11.1");
    bed.run("web", "--network Shop");
    let known = format!("{SPOKE} dns query web >/dev/null 2>&1");
    bed.world().sh(&format!("timeout 60 sh -c 'until {known}; do sleep 0.05; done'"));
    let shown =
        bed.world().sh(&format!("{SPOKE} dns ls --format '{{{{.Name}}}} {{{{.Network}}}}'"));
    assert_eq!(shown, "web Shop\n");
    for name in ["web.shop.spoke", "--tcp web.Shop.spoke", "web.docker-10.75.11.0-24.spoke"] {
        assert_eq!(bed.ask("web", name), "10.75.11.2", "{name}");
    }
    assert_eq!(bed.ask("web", "2.11.75.10.in-addr.arpa PTR"), "web.shop.spoke");
    bed.world().netns("line");
    bed.world().sh(&format!("{SPOKE} network connect --ip 10.75.11.20 Shop line"));
    assert_eq!(bed.ask("web", "line.shop.spoke"), "10.75.11.20");
    // Another network that is called so has the name.
    bed.world().sh(&format!("{SPOKE} network create --names --subnet 10.75.12.0/24 shop"));
    until_answers(bed.world(), "10.75.12.1");
    assert_eq!(bed.ask("web", "line.shop.spoke"), "NXDOMAIN");
    assert_eq!(bed.ask("web", "line.docker-10.75.11.0-24.spoke"), "10.75.11.20");
    bed.engine.remove_each("web");
}

/// Docker's server would ask others from the host: nothing reaches it but what Spoke lets through, not even
/// at its own port.
#[track_caller]
fn behind_a_fence(bed: &Bed) {
    bed.run("agent", "--network agents");
    assert_eq!(bed.ask("agent", "outside.example"), "NXDOMAIN");
    assert_eq!(bed.ask("agent", "agent"), "10.75.3.2");
    let netns = bed.world().path(&bed.netns("agent"));
    let found = std::process::Command::new("nsenter")
        .arg(format!("--net={}", netns.display()))
        .args(["python3", "-c", include_str!("ports.py")])
        .output()
        .expect("nsenter starts");
    let said = String::from_utf8_lossy(&found.stdout);
    // Spoke's own socket, and Docker's.
    assert_eq!(said.lines().count(), 2, "{found:?}");
    assert_eq!(said.matches(": NXDOMAIN").count(), 1, "{said}");
    assert_eq!(said.matches(": nothing").count(), 1, "{said}");
    assert!(!bed.was_asked("outside.example.fence"));
    robbed(bed);
}

/// A container with NET_ADMIN may take away what leads its queries: it is back within seconds, and is reported once.
#[track_caller]
fn robbed(bed: &Bed) {
    let inside = format!("nsenter --net={}", bed.netns("agent"));
    let led =
        format!("{inside} nft list chain inet spoke_names queries 2>/dev/null | grep -q dnat");
    for _ in 0..2 {
        bed.world().sh(&format!("{inside} nft delete table inet spoke_names"));
        bed.world().sh(&format!("timeout 20 sh -c 'until {led}; do sleep 0.05; done'"));
    }
    assert_eq!(bed.ask("agent", "outside.example"), "NXDOMAIN");
    // What is put back is not taken for another program's change.
    let says = format!("{SPOKE} events | grep -c 'container agent took away'");
    assert_eq!(bed.world().sh(&says).trim(), "1");
    bed.world().sh(&format!("{inside} nft flush chain inet spoke_names queries"));
    bed.world().sh(&format!("timeout 20 sh -c 'until {led}; do sleep 0.05; done'"));
}

/// While the daemon is stopped, queries behind a fence wait, and do not go past the host. Docker's server is asked
/// in other containers.
#[track_caller]
fn stopping(bed: &Bed) {
    let [agent, web] = ["agent", "web"].map(|name| bed.netns(name));
    let tables = |netns: &str| bed.world().sh(&format!("nsenter --net={netns} nft list tables"));
    assert!(bed.manager.stop(), "{}", bed.manager.log());
    assert!(tables(&agent).contains("spoke_names"), "{}", bed.manager.log());
    assert!(!tables(&web).contains("spoke_names"), "{}", bed.manager.log());
    let asked = asking(bed.world(), &agent, SERVER, "stopped.outside.example");
    let owner =
        "(echo 'add table inet spoke_names { flags owner; }'; exec tail -f /dev/null) 2>/dev/null";
    bed.world().sh(&format!(
        "({owner} | exec nsenter --net={web} nft -i >/dev/null 2>&1 & echo $! >/world/owner)"
    ));
    let led = format!("nsenter --net={web} nft list tables | grep -q spoke_names");
    bed.world().sh(&format!("timeout 60 sh -c 'until {led}; do sleep 0.05; done'"));
    bed.manager.again();
    assert_eq!(asked(bed.world()), "NXDOMAIN");
    assert!(!bed.was_asked("stopped.outside.example"));

    // A container that lets no other process have that table keeps no sockets open, and so not its namespace.
    let says = format!("{SPOKE} events | grep -q 'answering queries for names in a container'");
    bed.world().sh(&format!("timeout 60 sh -c \"until {says}; do sleep 0.05; done\""));
    let own = format!("test $(nsenter --net={web} ss -Hlnu src {SERVER} | wc -l) = 1");
    bed.world().sh(&format!("timeout 60 sh -c 'until {own}; do sleep 0.05; done'"));
    bed.world().sh("kill $(cat /world/owner)");
    let led = format!("nsenter --net={web} nft list chain inet spoke_names queries");
    bed.world().sh(&format!("timeout 60 sh -c 'until {led} >/dev/null 2>&1; do sleep 0.05; done'"));
    assert_eq!(bed.ask("web", "line"), "10.75.1.20");
}

/// Queries in sandboxes wait for the next life of the daemon, and it learns the aliases of containers that
/// start meanwhile.
#[track_caller]
fn outliving(bed: &Bed) {
    assert!(bed.manager.kill(), "{}", bed.manager.log());
    let netns = bed.netns("web");
    let asked = ["line", "--tcp line"].map(|name| asking(bed.world(), &netns, SERVER, name));
    let queued = format!(
        "nsenter --net={netns} ss -Hlnut src {SERVER} | awk \"\\$3 > 0 {{ n++ }} END {{ exit n < 2 }}\""
    );
    bed.world().sh(&format!("timeout 60 sh -c 'until {queued}; do sleep 0.05; done'"));
    // Meanwhile the engine is not heard, and its events are lost.
    bed.world().sh("mv /run/docker.sock /run/hidden.sock");
    bed.manager.again();
    for answer in asked {
        assert_eq!(answer(bed.world()), "10.75.1.20");
    }
    let late =
        "run -d --name late --network front --network-alias late-alias busybox /bin/sleep 3600";
    bed.engine.docker(&format!("-H unix:///run/hidden.sock {late}"));
    bed.world().sh("mv /run/hidden.sock /run/docker.sock");
    let known = format!("{SPOKE} dns query late-alias >/dev/null 2>&1");
    bed.world().sh(&format!("timeout 60 sh -c 'until {known}; do sleep 0.05; done'"));
}
