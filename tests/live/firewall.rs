//! Published ports obey ufw and firewalld: what becomes of a connection to a container's port is what becomes
//! of one to a port of the host's own under the same rules.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tests::{Cni, Plugins, Serve, World};

use crate::bed::Live;

const PROBE: &str = include_str!("probe.py");
const LISTEN: &str = include_str!("listen.py");

/// Ports of the host: the first a program listens at, the second leads to a container.
const RULES: u16 = 14;
const OWN: u16 = 9000;
pub(crate) const PUBLISHED: u16 = 8000;

/// Two addresses of each family: of the segment, and from elsewhere.
const MACHINES: &str = "
ip netns add lan; ip -n lan link set lo up
ip link add up0 type veth peer name eth0 netns lan
ip address add 192.0.2.1/24 dev up0; ip -n lan address add 192.0.2.2/24 dev eth0
ip address add 2001:db8:1::1/64 dev up0 nodad; ip -n lan address add 2001:db8:1::2/64 dev eth0 nodad
ip -n lan address add 198.51.100.7/32 dev eth0; ip -n lan address add 2001:db8:9::7/128 dev eth0 nodad
ip link set up0 up; ip -n lan link set eth0 up
ip route add 198.51.100.0/24 via 192.0.2.2; ip route add 2001:db8:9::/64 via 2001:db8:1::2
# Every refusal is answered, however many there are at once.
sysctl -qw net.ipv4.icmp_ratelimit=0 net.ipv6.icmp.ratelimit=0
";

/// Where connections come from, and where they go to.
const WAYS: [(&str, &str, &str); 6] = [
    ("any", "198.51.100.7", "192.0.2.1"),
    ("any6", "2001:db8:9::7", "2001:db8:1::1"),
    ("lan", "192.0.2.2", "192.0.2.1"),
    ("lan6", "2001:db8:1::2", "2001:db8:1::1"),
    ("local", "192.0.2.1", "192.0.2.1"),
    ("local6", "2001:db8:1::1", "2001:db8:1::1"),
];

pub(crate) struct Wall {
    pub(crate) world: World,
}

impl Live for Wall {
    fn world(&self) -> &World {
        &self.world
    }
}

impl Wall {
    /// With a program of the host and a container at each port, and nothing that judges.
    #[track_caller]
    pub(crate) fn new() -> Self {
        let world = World::new(&Plugins::subject());
        world.sh(MACHINES);
        std::fs::write(world.path("/probe.py"), PROBE).unwrap();
        std::fs::write(world.path("/listen.py"), LISTEN).unwrap();
        let wall = Self { world };
        wall.spoke("network create --subnet 10.75.1.0/24 --subnet fd75:1::/64 front");
        wall.world.netns("web");
        let ports: Vec<String> =
            (1..=RULES).map(|rule| format!("--publish {}:{}", PUBLISHED + rule, 80)).collect();
        wall.spoke(&format!("network connect {} front web", ports.join(" ")));
        wall.world.sh("ip netns exec web python3 /listen.py 80");
        let own: Vec<String> = (1..=RULES).map(|rule| (OWN + rule).to_string()).collect();
        wall.world.sh(&format!("python3 /listen.py {}", own.join(" ")));
        wall
    }

    /// What becomes of connections by each way to these ports.
    #[track_caller]
    pub(crate) fn probe(&self, ports: &[u16]) -> BTreeMap<(String, u16), String> {
        let lines = |is_local: bool| {
            let ways = WAYS.iter().filter(|(name, ..)| name.starts_with("local") == is_local);
            let of = |(_, source, host): &(&str, &str, &str)| {
                ports.iter().map(|port| format!("{source} {host} {port}\n")).collect::<String>()
            };
            ways.map(of).collect::<String>()
        };
        std::fs::write(self.world.path("/outside"), lines(false)).unwrap();
        std::fs::write(self.world.path("/local"), lines(true)).unwrap();
        let said = self.world.sh("ip netns exec lan python3 /probe.py </outside >/outside.said & \
             python3 /probe.py </local >/local.said; wait; cat /outside.said /local.said");
        let mut found = BTreeMap::new();
        for line in said.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [source, _, port, result] = words[..] else { panic!("{line}") };
            let way = WAYS.iter().find(|(_, from, _)| *from == source).unwrap().0;
            found.insert((way.to_owned(), port.parse().unwrap()), result.to_owned());
        }
        found
    }

    /// How many of so many connections from the segment, all at once, are open.
    #[track_caller]
    fn opened(&self, port: u16, count: usize) -> usize {
        let lines = format!("192.0.2.2 192.0.2.1 {port}\n").repeat(count);
        std::fs::write(self.world.path("/outside"), lines).unwrap();
        let said = self.world.sh("ip netns exec lan python3 /probe.py </outside");
        said.lines().filter(|line| line.ends_with(" open")).count()
    }

    /// The whole table, of the host's own ports; those of the container are compared with it.
    #[track_caller]
    fn compare(&self, when: &str) -> BTreeMap<(String, u16), String> {
        let ports: Vec<u16> = (1..=RULES).flat_map(|rule| [OWN + rule, PUBLISHED + rule]).collect();
        let found = self.probe(&ports);
        let mut own = BTreeMap::new();
        let mut wrong = Vec::new();
        for (way, ..) in WAYS {
            for rule in 1..=RULES {
                let at = |base: u16| found[&(way.to_owned(), base + rule)].clone();
                let (is, should) = (at(PUBLISHED), at(OWN));
                if is != should {
                    wrong.push(format!("rule {rule} from {way}: {is}, the host's own: {should}"));
                }
                own.insert((way.to_owned(), rule), should);
            }
        }
        let table = || self.world.try_sh("nft list table inet spoke_follow").stdout;
        assert!(wrong.is_empty(), "{when}: {wrong:#?}\n{}", table());
        own
    }

    /// Waits until this is what the firewall of the table does.
    #[track_caller]
    pub(crate) fn until_follows(&self, text: &str) {
        self.until(&format!("nft list table inet spoke_follow 2>/dev/null | grep -q \"{text}\""));
    }

    pub(crate) fn status(&self) -> Value {
        self.json("firewall status")
    }
}

/// `PORT` stands for the port of the rule.
const UFW: [&str; 14] = [
    "",
    "allow PORT/tcp",
    "deny PORT/tcp",
    "reject PORT/tcp",
    "allow proto tcp from 192.0.2.0/24 to any port PORT
     allow proto tcp from 2001:db8:1::/64 to any port PORT",
    "deny proto tcp from 192.0.2.0/24 to any port PORT
     deny proto tcp from 2001:db8:1::/64 to any port PORT
     allow PORT/tcp",
    "allow in on up0 to any port PORT proto tcp",
    "allow in on nosuch0 to any port PORT proto tcp",
    "allow proto tcp from any to 192.0.2.1 port PORT",
    "allow proto tcp from any to any port 7,PORT,PORT0:PORT9",
    "allow log PORT/tcp
     deny PORT",
    "allow proto udp from any to any port PORT
     reject from 198.51.100.7 to any port PORT
     allow proto tcp from 198.51.100.0/24 port 1024:65535 to any port PORT
     allow PORT",
    "allow PORT/tcp
     prepend deny proto tcp from 192.0.2.2 to any port PORT",
    // A line of before.rules refuses it by its name.
    "allow PORT/tcp",
];

/// Names of the last rule's ports.
const NAMED: &str = r#"
printf 'led-here\t8014/tcp\thalf-way\nown-one\t9014/tcp\n' >>/etc/services
for six in "" 6; do
    sed -i "/^COMMIT/i -A ufw$six-before-input -p tcp --dport half-way -j DROP" /etc/ufw/before$six.rules
    sed -i "/^COMMIT/i -A ufw$six-before-input -p tcp -m multiport --dports own-one,7 -j DROP" \
        /etc/ufw/before$six.rules
done
"#;

#[track_caller]
fn ufw_rules(wall: &Wall) {
    let mut script = format!("set -e\n{NAMED}\nufw default deny >/dev/null\n");
    for (rule, text) in (1..).zip(UFW) {
        for base in [OWN, PUBLISHED] {
            // A range beside the port, in which no other rule's port is.
            let port = (base + rule).to_string();
            let range = (base + 1000 + rule * 10).to_string();
            for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
                let line = line
                    .replace("PORT0", &range)
                    .replace(":PORT9", &format!(":{}", base + 1009 + rule * 10));
                script += &format!("ufw {} >/dev/null\n", line.replace("PORT", &port));
            }
        }
    }
    wall.world.sh(&script);
}

#[test]
fn published_ports_obey_ufw() {
    let wall = Wall::new();
    ufw_rules(&wall);
    let before = wall.probe(&[PUBLISHED + 3]);
    assert!(before.values().all(|result| result == "open"), "{before:?}");
    wall.world.sh("ufw --force enable >/dev/null");
    let serve = Serve::start(&wall.world, &[]);

    // What is open, and that ufw says otherwise.
    let status = wall.status();
    assert_eq!((&status["follow"], &status["firewalls"][0]["state"]), (&Value::Null, &"on".into()));
    let port = |status: &Value, rule: u16| {
        let all = status["ports"].as_array().unwrap();
        all.iter().find(|it| it["host_port"] == PUBLISHED + rule).unwrap().clone()
    };
    assert_eq!(port(&status, 2)["allowed"]["ufw"][0]["from"], "anywhere");
    assert_eq!(port(&status, 3)["allowed"]["ufw"], Value::Array(Vec::new()));
    assert_eq!(port(&status, 5)["allowed"]["ufw"][0]["from"], "192.0.2.0/24");
    assert_eq!(port(&status, 7)["allowed"]["ufw"][0]["on"], "up0");
    assert_eq!(port(&status, 14)["allowed"]["ufw"], Value::Array(Vec::new()));
    assert_eq!(status["firewalls"][0]["notes"], Value::Array(Vec::new()), "{status}");
    assert_eq!(port(&status, 3)["container_port"], 80);
    assert!(status["otherwise"][0].as_str().unwrap().contains("8001/tcp of web"), "{status}");
    assert!(wall.spoke("firewall status").contains("fix: spoke firewall follow ufw"));

    assert_eq!(wall.spoke("firewall follow ufw"), "published ports obey ufw\n");
    let table = wall.compare("followed");
    let of = |way: &str, rule: u16| table[&(way.to_owned(), rule)].as_str();
    let seen = (of("any", 1), of("any", 2), of("lan6", 4), of("lan", 5), of("any6", 5));
    assert_eq!(seen, ("silent", "open", "refused", "open", "silent"));
    assert_eq!((of("lan", 13), of("any", 13), of("any", 14)), ("silent", "open", "silent"));
    assert_eq!(port(&wall.status(), 3)["obeys"], "ufw");

    // Each interface is judged as long as a port is published behind it.
    wall.spoke("network create --driver ptp --subnet 10.75.2.0/24 line");
    wall.world.netns("ended");
    let behind = || wall.world.sh("nft list set inet spoke_follow behind");
    let before = behind();
    wall.spoke("network connect --publish 8098:80 line ended");
    assert_ne!(behind(), before);
    wall.spoke("network disconnect line ended");
    assert_eq!(behind(), before);

    // Six in thirty seconds are too many, here and there.
    wall.world.sh("ufw limit 8001/tcp >/dev/null; ufw limit 9001/tcp >/dev/null");
    wall.until_follows("8001 add @often4\\|8001 update @often4\\|@often4.*over");
    assert_eq!((wall.opened(PUBLISHED + 1, 6), wall.opened(OWN + 1, 6)), (5, 5));
    wall.world.sh("ufw delete limit 8001/tcp >/dev/null; ufw delete limit 9001/tcp >/dev/null");
    wall.until("! nft list table inet spoke_follow | grep -q 8001");

    // A rule that changes, live; and what it says is what holds after everything.
    wall.world.sh("ufw delete deny 8003/tcp >/dev/null; ufw allow 8003/tcp >/dev/null");
    wall.world.sh("ufw delete deny 9003/tcp >/dev/null; ufw allow 9003/tcp >/dev/null");
    wall.until_follows("8003 accept");
    assert_eq!(wall.compare("changed")[&("any".to_owned(), 3)], "open");
    wall.world.sh("ufw reload >/dev/null");
    wall.compare("reloaded");
    wall.world.sh("nft flush ruleset");
    wall.until("nft list table inet spoke | grep -q 8003");
    let flushed = wall.probe(&[PUBLISHED + 3, PUBLISHED + 1]);
    assert_eq!(flushed[&("any".to_owned(), PUBLISHED + 3)], "open", "after a flush");
    assert_eq!(flushed[&("any".to_owned(), PUBLISHED + 1)], "silent", "after a flush");
    wall.world
        .sh("/lib/ufw/ufw-init force-stop >/dev/null 2>&1; /lib/ufw/ufw-init start >/dev/null");
    wall.compare("restarted");

    serve.kill();
    what_is_lost_comes_back_before_a_port_does(&wall);
    what_is_behind_bridges_of_others_obeys(&wall);

    let serve = Serve::start(&wall.world, &[]);
    what_is_off_is_open_and_what_cannot_be_read_is_shut(&wall);
    assert_eq!(wall.spoke("firewall follow none"), "published ports obey no firewall\n");
    let open = wall.probe(&[PUBLISHED + 1]);
    assert!(open.values().all(|result| result == "open"), "{open:?}");
    wall.refuses("firewall follow ufw", 3, &["ufw.conf"]);
    wall.refuses("firewall follow iptables", 2, &["ufw, firewalld, none"]);
    serve.stop();
    assert!(wall.world.try_sh("nft list table inet spoke_follow").status != 0);
}

/// Without a daemon.
#[track_caller]
fn what_is_lost_comes_back_before_a_port_does(wall: &Wall) {
    wall.world.sh("nft delete table inet spoke_follow");
    wall.world.netns("other");
    wall.spoke("network connect --publish 8099:80 front other");
    wall.world.sh("ip netns exec other python3 /listen.py 80");
    assert_eq!(wall.probe(&[8099])[&("lan".to_owned(), 8099)], "silent");
}

/// Without a daemon: nothing in Spoke's own table names these bridges.
#[track_caller]
fn what_is_behind_bridges_of_others_obeys(wall: &Wall) {
    wall.world.sh("ufw default allow routed >/dev/null
        for bridge in cbr0 cbr1; do ip link add $bridge type bridge; ip link set $bridge up; done");
    let bridge = |name: &str, subnet: &str| {
        json!({"type": "bridge", "bridge": name, "isGateway": true,
            "ipam": {"type": "host-local", "subnet": subnet, "routes": [{"dst": "0.0.0.0/0"}]}})
    };
    let list = json!({"name": "pods", "cniVersion": "1.0.0", "plugins": [
        bridge("cbr0", "10.75.3.0/24"),
        {"type": "portmap", "snat": false, "capabilities": {"portMappings": true}},
    ]});
    let chain = json!({"name": "inner", "cniVersion": "1.0.0",
        "plugins": [bridge("cbr1", "10.75.4.0/24")]});
    std::fs::write(wall.world.path("/run/chain.conflist"), chain.to_string()).unwrap();
    wall.spoke(
        "network create -d cni --conflist /run/chain.conflist --cni-path /opt/cni/bin chained",
    );
    let listen = |name: &str| wall.world.sh(&format!("ip netns exec {name} python3 /listen.py 80"));
    let seen = |ports: &[u16]| -> Vec<String> {
        let found = wall.probe(ports);
        ports.iter().map(|port| found[&("lan".to_owned(), *port)].clone()).collect()
    };
    wall.spoke("firewall follow none");
    let pods = [8096, 8097].map(|port| {
        let maps = json!([{"hostPort": port, "containerPort": 80, "protocol": "tcp"}]);
        let runtime = json!({"portMappings": maps});
        let mut pod = Cni { runtime, ..Cni::container(&wall.world, &format!("pod{port}")) };
        assert!(pod.add(&list).iter().all(|answer| answer.ok()));
        listen(&format!("pod{port}"));
        pod
    });
    wall.world.netns("apart");
    wall.spoke("network connect --publish 8095:80 chained apart");
    listen("apart");
    assert_eq!(seen(&[8095, 8096, 8097]), ["open"; 3]);
    wall.spoke("firewall follow ufw");
    assert_eq!(seen(&[8095, 8096, 8097]), ["silent"; 3], "followed");
    assert!(pods[0].del(&list).iter().all(|answer| answer.ok()));
    assert_eq!(seen(&[8097]), ["silent"], "the other one has gone");
    // Made while it is followed.
    wall.spoke("network disconnect chained apart");
    let behind = "nft list set inet spoke_follow behind";
    assert!(!wall.world.sh(behind).contains("cbr1"));
    wall.spoke("network connect --publish 8094:80 chained apart");
    assert_eq!(seen(&[8094]), ["silent"], "{}", wall.world.sh(behind));
    wall.spoke("network disconnect chained apart");
    assert!(pods[1].del(&list).iter().all(|answer| answer.ok()));
    wall.world.sh("ufw default deny routed >/dev/null");
}

fn what_is_off_is_open_and_what_cannot_be_read_is_shut(wall: &Wall) {
    wall.world.sh("ufw disable >/dev/null");
    wall.until("! nft list chain inet spoke_follow v4 | grep -q drop");
    let all = wall.probe(&[PUBLISHED + 1, 8099]);
    assert!(all.values().all(|result| result == "open"), "{all:?}");
    // A reload that failed says that it is off, and the kernel refuses.
    wall.world.sh("iptables -P INPUT DROP");
    wall.until("nft list chain inet spoke_follow v4 | grep -q drop");
    wall.world.sh("iptables -P INPUT ACCEPT");
    wall.until("! nft list chain inet spoke_follow v4 | grep -q drop");
    // ufw truncates this file before it writes it: an empty one does not say that it is off.
    let cut = "cp /etc/ufw/ufw.conf /etc/ufw/ufw.conf.whole; : >/etc/ufw/ufw.conf";
    wall.world.sh(cut);
    wall.until("nft list chain inet spoke_follow v4 | grep -q drop");
    wall.world.sh("cat /etc/ufw/ufw.conf.whole >/etc/ufw/ufw.conf");
    wall.until("! nft list chain inet spoke_follow v4 | grep -q drop");
    wall.world.sh("mv /etc/ufw/ufw.conf /etc/ufw/ufw.conf.away");
    wall.until("nft list chain inet spoke_follow v4 | grep -q drop");
    let shut = wall.probe(&[PUBLISHED + 2]);
    assert_eq!(shut[&("lan".to_owned(), PUBLISHED + 2)], "silent");
    assert_eq!(shut[&("local".to_owned(), PUBLISHED + 2)], "open");
}

/// firewalld on its bus, with the host's device in the zone `public`.
pub(crate) const FIREWALLD: &str = "
mkdir -p /run/dbus /run/firewalld
dbus-daemon --system --fork --nopidfile
";

/// It answers once its rules are loaded.
pub(crate) const IS_READY: &str = "timeout 30 sh -c 'until dbus-send --system --print-reply \
    --dest=org.fedoraproject.FirewallD1 /org/fedoraproject/FirewallD1 \
    org.fedoraproject.FirewallD1.getDefaultZone >/dev/null 2>&1; do sleep 0.05; done'";

/// Options of `firewall-offline-cmd`, a line each.
const ZONES: [&str; 14] = [
    "",
    "--add-port=PORT/tcp",
    "--add-rich-rule=rule family=ipv4 source address=192.0.2.0/24 port port=PORT protocol=tcp accept
     --add-rich-rule=rule family=ipv6 source address=2001:db8:1::/64 port port=PORT protocol=tcp accept",
    "--add-rich-rule=rule port port=PORT protocol=tcp reject
     --add-port=PORT/tcp",
    "--add-rich-rule=rule family=ipv4 source address=198.51.100.0/24 drop
     --add-rich-rule=rule family=ipv6 source address=2001:db8:1::2 port port=PORT protocol=tcp drop
     --add-port=PORT/tcp",
    "--zone=internal --add-port=PORT/tcp",
    "--add-rich-rule=rule family=ipv4 destination address=192.0.2.1 port port=PORT protocol=tcp accept",
    "--add-rich-rule=rule port port=PORT protocol=tcp log prefix=x accept",
    "--add-rich-rule=rule source ipset=nets port port=PORT protocol=tcp accept",
    "--add-rich-rule=rule priority=-10 port port=PORT protocol=tcp drop
     --add-port=PORT/tcp",
    "--add-port=PORT/udp",
    "--add-rich-rule=rule family=ipv4 source NOT address=192.0.2.0/24 port port=PORT-LAST protocol=tcp accept",
    "--add-rich-rule=rule family=ipv4 destination ipset=served accept",
    "--add-rich-rule=rule family=ipv4 source ipset=callers port port=PORT protocol=tcp accept
     --add-rich-rule=rule family=ipv6 destination NOT ipset=served6 port port=PORT protocol=tcp accept",
];

#[track_caller]
fn firewalld_rules(wall: &Wall) {
    let mut script = "set -e
        firewall-offline-cmd -q --new-ipset=nets --type=hash:net
        firewall-offline-cmd -q --ipset=nets --add-entry=192.0.2.0/25 --add-entry=203.0.113.0/24
        firewall-offline-cmd -q --new-ipset=served --type=hash:ip,port
        firewall-offline-cmd -q --ipset=served --add-entry=192.0.2.1,tcp:8013 --add-entry=192.0.2.1,tcp:9013
        firewall-offline-cmd -q --new-ipset=callers --type=hash:net,port
        firewall-offline-cmd -q --ipset=callers --add-entry=192.0.2.0/24,tcp:1024-65535 --add-entry=203.0.113.0/24,udp:53
        firewall-offline-cmd -q --new-ipset=served6 --type=hash:ip,port --option=family=inet6
        firewall-offline-cmd -q --ipset=served6 --add-entry=2001:db8:1::9,tcp:8014 --add-entry=2001:db8:1::9,9014
        firewall-offline-cmd -q --zone=public --add-interface=up0
        firewall-offline-cmd -q --zone=internal --add-source=2001:db8:9::/64\n"
        .to_owned();
    for (rule, text) in (1..).zip(ZONES) {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        for line in lines {
            let (zone, option) = match line.strip_prefix("--zone=internal ") {
                Some(option) => ("internal", option),
                None => ("public", line),
            };
            let of = |base: u16| {
                let option = option.replace("LAST", &(base + rule + 1).to_string());
                option.replace("PORT", &(base + rule).to_string())
            };
            // One process for both: it takes a second to start.
            let options = [of(OWN), of(PUBLISHED)].map(|option| format!("'{option}'")).join(" ");
            script += &format!("firewall-offline-cmd -q --zone={zone} {options}\n");
        }
    }
    wall.world.sh(&script);
}

#[test]
fn published_ports_obey_firewalld() {
    let wall = Wall::new();
    wall.world.sh(FIREWALLD);
    firewalld_rules(&wall);
    wall.world.sh("firewalld --nopid");
    wall.world.sh(IS_READY);
    let serve = Serve::start(&wall.world, &[]);
    wall.until("firewall-cmd --zone=trusted --list-interfaces | grep -q sp-front");
    assert_eq!(wall.spoke("firewall follow firewalld"), "published ports obey firewalld\n");
    let table = wall.compare("followed");
    let of = |way: &str, rule: u16| table[&(way.to_owned(), rule)].as_str();
    let seen =
        (of("lan", 1), of("any6", 2), of("lan", 2), of("lan", 3), of("lan", 9), of("lan", 10));
    assert_eq!(seen, ("refused", "refused", "open", "open", "open", "silent"));
    let seen = (of("lan", 13), of("lan6", 13), of("lan", 14), of("any", 14), of("lan6", 14));
    // What is elsewhere rule 5 drops.
    assert_eq!(seen, ("open", "refused", "open", "silent", "open"));
    let status = wall.status();
    assert_eq!(status["firewalls"][0]["notes"], Value::Array(Vec::new()), "{status}");
    assert_eq!(status["ports"][0]["obeys"], "firewalld");

    wall.world.sh("firewall-cmd -q --zone=public --add-port=8001/tcp --add-port=9001/tcp");
    wall.until_follows("8001 accept");
    wall.compare("changed");
    wall.world.sh("firewall-cmd -q --reload");
    wall.until("! nft list table inet spoke_follow | grep -q \"8001 accept\"");
    let reloaded = wall.compare("reloaded");
    assert_eq!(reloaded, table);
    // Its rules are gone, and what it did last holds.
    wall.world.sh("nft flush ruleset");
    wall.until("nft list table inet spoke | grep -q 8003");
    let flushed = wall.probe(&[PUBLISHED + 1, PUBLISHED + 2]);
    let at = |way: &str, rule: u16| flushed[&(way.to_owned(), PUBLISHED + rule)].as_str();
    assert_eq!((at("lan", 1), at("lan", 2)), ("refused", "open"), "after a flush");
    wall.world
        .sh("pkill -x firewalld; timeout 20 sh -c 'while pgrep -x firewalld; do sleep 0.05; done'");
    wall.world.sh("firewalld --nopid");
    wall.world.sh(IS_READY);
    wall.until("firewall-cmd --zone=trusted --list-interfaces | grep -q sp-front");
    let restarted = wall.compare("restarted");
    assert_eq!(restarted, table);
    wall.spoke("firewall follow none");
    let open = wall.probe(&[PUBLISHED + 1]);
    assert!(open.values().all(|result| result == "open"), "{open:?}");
    serve.stop();
}
