//! What a container may tell its neighbours and the host of who has an address.

use engine::port::Driver;
use linux::{Life, Linux};
use model::*;

use crate::bed::{Container, attachment, bridge, isolated, network, run};
use crate::bridge_port::{checked, pings};

const TELL: &str = include_str!("spoof.py");
const UNSPECIFIED: &str = "::";
const EVERYBODY: &str = "ff02::1";

/// Frames, as hexadecimal text.
struct Forger {
    own: Mac,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn v6(address: &str) -> Vec<u8> {
    address.parse::<std::net::Ipv6Addr>().unwrap().octets().to_vec()
}

fn v4(address: &str) -> Vec<u8> {
    address.parse::<std::net::Ipv4Addr>().unwrap().octets().to_vec()
}

impl Forger {
    fn arp(&self, sender: Mac, address: &str) -> Vec<u8> {
        let fixed = [0, 1, 8, 0, 6, 4, 0, 1];
        [&fixed[..], &sender.octets(), &v4(address), &[0; 6], &v4(address)].concat()
    }

    fn frame(&self, kind: [u8; 2], body: &[u8]) -> String {
        let everybody = match kind {
            [0x86, 0xdd] => [0x33, 0x33, 0, 0, 0, 1],
            _ => [0xff; 6],
        };
        hex(&[&everybody, &self.own.octets(), &kind[..], body].concat())
    }

    fn news(&self, sender: Mac, address: &str) -> String {
        self.frame([8, 6], &self.arp(sender, address))
    }

    /// An ICMPv6 message, as the next protocol of what stands `before` it.
    fn message(&self, source: &str, body: &[u8], before: &[u8]) -> String {
        let first = if before.is_empty() { 58 } else { 0 };
        let length = u16::try_from(before.len() + body.len()).unwrap().to_be_bytes();
        let head = [&[0x60, 0, 0, 0], &length[..], &[first, 255]].concat();
        let packet = [head, v6(source), v6(EVERYBODY), before.to_vec(), body.to_vec()].concat();
        self.frame([0x86, 0xdd], &packet)
    }

    fn solicitation(&self, source: &str, target: &str, options: &[u8]) -> String {
        let body = [&[135, 0, 0, 0, 0, 0, 0, 0], &v6(target)[..], options].concat();
        self.message(source, &body, &[])
    }

    fn advertisement(&self, source: &str, target: &str, options: &[u8]) -> String {
        self.message(source, &advertised(target, options), &[])
    }

    fn router_solicitation(&self, source: &str, options: &[u8]) -> String {
        self.message(source, &[&[133, 0, 0, 0, 0, 0, 0, 0], options].concat(), &[])
    }

    /// An ICMP redirect of `source`, which wants packets to 192.0.2.1 for itself.
    fn redirect(&self, source: &str, gateway: &str) -> String {
        let inner = [&[0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0][..], &v4("10.88.0.3")].concat();
        let inner = [inner, v4("192.0.2.1"), vec![0, 53, 0, 53, 0, 8, 0, 0]].concat();
        let body = [&[5, 1, 0, 0][..], &v4(gateway), &inner].concat();
        let length = u8::try_from(20 + body.len()).unwrap();
        let head = [&[0x45, 0, 0, length, 0, 0, 0, 0, 64, 1, 0, 0][..], &v4(source)].concat();
        self.frame([8, 0], &[head, v4("255.255.255.255"), body].concat())
    }
}

fn advertised(target: &str, options: &[u8]) -> Vec<u8> {
    [&[136, 0, 0, 0, 0x20, 0, 0, 0], &v6(target)[..], options].concat()
}

fn named(kind: u8, mac: Mac) -> Vec<u8> {
    [&[kind, 1], &mac.octets()[..]].concat()
}

/// The frame with tags of VLANs in front of its type.
fn tagged(frame: &str, tags: &str) -> String {
    format!("{}{tags}{}", &frame[..24], &frame[24..])
}

/// What of `frames` the other container and the host saw, by their place. Checksums do not count.
fn seen(from: &Container, to: &Container, frames: &[String]) -> [Vec<usize>; 2] {
    let input = frames.join("\n");
    let (from, to) = (from.netns(), to.netns());
    let reported = run(&format!(
        "cat >/tmp/spoof.$$.py <<'END'\n{TELL}\nEND\n\
         printf '%s' '{input}' | python3 /tmp/spoof.$$.py {from} {to}; rm /tmp/spoof.$$.py"
    ));
    let bodies: Vec<_> = frames.iter().map(|frame| without_checksum(frame)).collect();
    ["n ", "h "].map(|who| {
        let lines = reported.lines().filter_map(|line| line.strip_prefix(who));
        let place = |line: &str| bodies.iter().position(|body| *body == without_checksum(line));
        lines.map(|line| place(line).unwrap_or(usize::MAX)).collect()
    })
}

fn without_checksum(frame: &str) -> String {
    match &frame[24..28] {
        "86dd" => {
            // Behind a header of eight bytes, where there is one.
            let at = if &frame[40..42] == "00" { 124 } else { 108 };
            format!("{}{}", &frame[..at + 4], &frame[at + 8..])
        }
        "0800" => format!("{}{}{}", &frame[..48], &frame[52..72], &frame[76..]),
        _ => frame.to_owned(),
    }
}

fn both(container: &str, kind: LinkKind, host: u8, sandbox: &Sandbox) -> Attachment {
    let mut made = attachment(container, kind, &format!("10.88.0.{host}/24"), sandbox);
    let address = format!("fd00::{host}/64").parse().unwrap();
    made.addresses.push(InterfaceAddress { address, gateway: None, interface: None });
    made
}

struct Two {
    linux: Linux,
    containers: [Container; 2],
    attachments: [Attachment; 2],
    macs: [Mac; 2],
}

impl Two {
    fn new(kind: fn() -> LinkKind) -> Self {
        Self::with(kind, None)
    }

    fn with(kind: fn() -> LinkKind, ingress: Option<IngressPolicy>) -> Self {
        let linux = Linux::new(Life::Long);
        let containers = [Container::new(), Container::new()];
        let attachments = [("one", 2), ("two", 3)].map(|(name, host)| {
            let mut made = both(name, kind(), host, &containers[usize::from(host) - 2].sandbox);
            made.wiring.firewall =
                ingress.map(|ingress| Firewall { ingress, ..Firewall::open(Backend::Nftables) });
            made
        });
        let macs = [0, 1]
            .map(|number| linux.attach(&attachments[number]).unwrap().interfaces[2].mac.unwrap());
        Self { linux, containers, attachments, macs }
    }

    fn end(self) {
        for attachment in &self.attachments {
            self.linux.detach(attachment).unwrap();
        }
    }
}

fn link_local(mac: Mac) -> String {
    let [a, b, c, d, e, f] = mac.octets();
    format!(
        "fe80::{:x}:{:x}:{:x}:{:x}",
        u16::from_be_bytes([a ^ 2, b]),
        u16::from_be_bytes([c, 0xff]),
        u16::from_be_bytes([0xfe, d]),
        u16::from_be_bytes([e, f])
    )
}

/// What the first container may not tell.
fn forged(forger: &Forger, other: Mac) -> Vec<String> {
    let (own, third) = (forger.own, Mac::new([2, 0x99, 0, 0, 0, 1]));
    let (gateway, neighbour) = ("fd00::1", "fd00::3");
    let bridge = run("ip -6 -br addr show dev br0 scope link");
    let bridge = bridge.split_whitespace().nth(2).unwrap().split('/').next().unwrap().to_owned();
    let neighbour_link = link_local(other);
    let nonce = [&[14, 1, 1, 2, 3, 4, 5, 6], &named(2, third)[..]].concat();
    let stranger = Forger { own: third };
    let hop = [58, 0, 1, 4, 0, 0, 0, 0];
    vec![
        // ARP: of the gateway, of a neighbour, of another hardware address.
        forger.news(own, "10.88.0.1"),
        forger.news(own, "10.88.0.3"),
        forger.news(third, "10.88.0.2"),
        forger.news(other, "10.88.0.2"),
        stranger.news(third, "10.88.0.77"),
        // The same with tags of no VLAN, which receivers take off.
        tagged(&forger.news(own, "10.88.0.1"), "81000000"),
        tagged(&forger.news(own, "10.88.0.1"), "8100000081000000"),
        tagged(&forger.news(own, "10.88.0.1"), "88a8000081000000"),
        // Whose target is another's.
        forger.advertisement("fd00::2", gateway, &named(2, own)),
        forger.advertisement("fd00::2", neighbour, &named(2, own)),
        forger.advertisement("fd00::2", &neighbour_link, &named(2, own)),
        forger.advertisement("fd00::2", &bridge, &named(2, own)),
        forger.advertisement("fd00::2", neighbour, &[]),
        forger.message("fd00::2", &advertised(neighbour, &named(2, own)), &hop),
        tagged(&forger.advertisement("fd00::2", gateway, &named(2, own)), "81000000"),
        tagged(&forger.advertisement("fd00::2", gateway, &named(2, own)), "8100000081000000"),
        // Another hardware address, also behind another option.
        forger.advertisement("fd00::2", "fd00::2", &named(2, third)),
        forger.advertisement("fd00::2", "fd00::77", &named(2, other)),
        forger.advertisement("fd00::2", "fd00::2", &nonce),
        // Questions teach whom they reach who asks.
        forger.solicitation(neighbour, gateway, &named(1, own)),
        forger.solicitation(&neighbour_link, gateway, &named(1, own)),
        forger.solicitation("fd00::2", gateway, &named(1, third)),
        forger.solicitation("fd00::77", gateway, &nonce),
        forger.router_solicitation(neighbour, &named(1, own)),
        forger.router_solicitation("fd00::2", &named(1, other)),
        // Who claims a neighbour's address keeps that from having it.
        forger.solicitation(UNSPECIFIED, neighbour, &[]),
        // It is no router.
        forger.message(&link_local(own), &[134, 0, 0, 0, 64, 0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0], &[]),
        forger.message(&bridge, &[&[137; 1][..], &[0; 39]].concat(), &[]),
        forger.redirect("10.88.0.1", "10.88.0.2"),
    ]
}

/// What it may.
fn honest(forger: &Forger) -> Vec<String> {
    let own = forger.own;
    vec![
        forger.news(own, "10.88.0.2"),
        forger.news(own, "0.0.0.0"),
        // An address that moves between containers has no owner.
        forger.news(own, "10.88.0.77"),
        forger.advertisement("fd00::2", "fd00::2", &named(2, own)),
        forger.advertisement("fd00::2", "fd00::2", &[]),
        forger.advertisement(&link_local(own), &link_local(own), &named(2, own)),
        forger.advertisement("fd00::2", "fd00::77", &named(2, own)),
        forger.solicitation("fd00::2", "fd00::3", &named(1, own)),
        forger.solicitation("fd00::2", "fd00::3", &[]),
        forger.solicitation("fd00::77", "fd00::1", &named(1, own)),
        forger.solicitation(UNSPECIFIED, "fd00::2", &[]),
        forger.solicitation(UNSPECIFIED, "fd00::78", &[14, 1, 1, 2, 3, 4, 5, 6]),
        forger.router_solicitation("fd00::2", &named(1, own)),
        forger.router_solicitation(UNSPECIFIED, &[]),
        forger.redirect("10.88.0.2", "10.88.0.9"),
        // Any other message.
        forger.message("fd00::2", &[128, 0, 0, 0, 0, 1, 0, 1], &[]),
    ]
}

#[test]
fn forged_news_reach_no_neighbour_and_honest_ones_do() {
    isolated(|| {
        let two = Two::new(checked);
        let forger = Forger { own: two.macs[0] };
        let honest = honest(&forger);
        let forged = forged(&forger, two.macs[1]);
        let frames: Vec<_> = forged.iter().chain(&honest).cloned().collect();
        let expected: Vec<_> = (forged.len()..frames.len()).collect();
        let [neighbour, host] = seen(&two.containers[0], &two.containers[1], &frames);
        assert_eq!(neighbour, expected);
        assert_eq!(host, expected);
        two.end();
    });
}

/// What a container that others do not reach may not send, in the name of a neighbour or of the gateway.
fn borrowed(forger: &Forger, other: Mac) -> Vec<String> {
    let (own, neighbour) = (forger.own, "fd00::3");
    let (as_other, echo) = (Forger { own: other }, [128, 0, 0, 0, 0, 1, 0, 1]);
    vec![
        forger.news(own, "10.88.0.1"),
        forger.news(own, "10.88.0.3"),
        tagged(&forger.news(own, "10.88.0.3"), "81000000"),
        tagged(&forger.news(own, "10.88.0.3"), "8100000081000000"),
        as_other.news(other, "10.88.0.2"),
        as_other.message("fd00::2", &echo, &[]),
        forger.redirect("10.88.0.3", "10.88.0.9"),
        forger.message(neighbour, &echo, &[]),
        forger.message("fd00::1", &echo, &[]),
        forger.message(&link_local(other), &echo, &[]),
        forger.advertisement("fd00::2", neighbour, &named(2, own)),
        forger.advertisement("fd00::2", "fd00::1", &named(2, own)),
        forger.advertisement("fd00::2", &link_local(other), &named(2, own)),
        forger.solicitation(neighbour, "fd00::1", &named(1, own)),
        forger.solicitation(UNSPECIFIED, neighbour, &[]),
    ]
}

#[test]
fn who_is_apart_sends_nothing_in_a_neighbours_name() {
    isolated(|| {
        for ingress in [IngressPolicy::Open, IngressPolicy::SameBridge] {
            let two = Two::with(bridge, Some(ingress));
            let forger = Forger { own: two.macs[0] };
            let stranger = Forger { own: Mac::new([2, 0x99, 0, 0, 0, 1]) };
            let borrowed = borrowed(&forger, two.macs[1]);
            let mut frames: Vec<_> = borrowed.iter().cloned().chain(honest(&forger)).collect();
            // Addresses that no neighbour has, of the hardware, too, and what only a router says.
            frames.push(stranger.news(stranger.own, "10.88.0.77"));
            frames.push(forger.message("fd00::77", &[128, 0, 0, 0, 0, 1, 0, 1], &[]));
            frames.push(forger.redirect("192.0.2.9", "10.88.0.9"));
            // Of tags the kernel takes one off.
            let expected: Vec<_> = match ingress {
                IngressPolicy::Open => [0, 1, 1, 2].into_iter().chain(4..frames.len()).collect(),
                _ => (borrowed.len()..frames.len()).collect(),
            };
            let seen = seen(&two.containers[0], &two.containers[1], &frames);
            assert_eq!(seen, [expected.clone(), expected], "{ingress:?}");
            two.end();
            assert!(!run("nft list ruleset").contains("/link\""));
        }
    });
}

/// As an operator saves and loads all tables. What is behind a tag of a VLAN nft(8) reads in another way than it lists it.
#[test]
fn who_is_apart_is_so_when_nft_has_read_what_it_listed() {
    isolated(|| {
        let two = Two::with(bridge, Some(IngressPolicy::SameBridge));
        let forger = Forger { own: two.macs[0] };
        run("saved=$(nft list ruleset); nft flush ruleset; printf '%s\\n' \"$saved\" | nft -f -");
        let tagged = |frame: &String| frame.get(24..28) == Some("8100");
        let borrowed = borrowed(&forger, two.macs[1]).into_iter().filter(|it| !tagged(it));
        let mut frames: Vec<_> = borrowed.collect();
        let first = frames.len();
        frames.extend(honest(&forger));
        let expected: Vec<_> = (first..frames.len()).collect();
        let seen = seen(&two.containers[0], &two.containers[1], &frames);
        assert_eq!(seen, [expected.clone(), expected]);
        two.end();
    });
}

/// A bridge of others has an address of the link that does not follow from its name, and is the router all the
/// same.
#[test]
fn the_router_of_a_foreign_bridge_is_no_other_host() {
    isolated(|| {
        run("ip link add br0 address 02:88:00:00:00:01 type bridge; ip link set br0 up");
        let two = Two::new(checked);
        let forger = Forger { own: two.macs[0] };
        let router = link_local(Mac::new([2, 0x88, 0, 0, 0, 1]));
        let frames = [
            forger.advertisement("fd00::2", &router, &named(2, forger.own)),
            forger.advertisement("fd00::2", "fd00::2", &named(2, forger.own)),
        ];
        let seen = seen(&two.containers[0], &two.containers[1], &frames);
        assert_eq!(seen, [vec![1], vec![1]]);
        two.end();
    });
}

/// Without the check all of it arrives: what is dropped above is dropped by what is checked.
#[test]
fn without_a_check_everything_arrives() {
    isolated(|| {
        let two = Two::new(bridge);
        let forger = Forger { own: two.macs[0] };
        let frames: Vec<_> =
            forged(&forger, two.macs[1]).into_iter().chain(honest(&forger)).collect();
        let [neighbour, host] = seen(&two.containers[0], &two.containers[1], &frames);
        assert_eq!((neighbour.len(), host.len()), (frames.len(), frames.len()));
        two.end();
    });
}

#[test]
fn neighbours_find_each_other_and_addresses_are_looked_for() {
    isolated(|| {
        let detected = || {
            let LinkKind::Bridge(made) = checked() else { unreachable!() };
            let port = BridgePort { duplicate_detection: true, ..made.port };
            LinkKind::Bridge(Bridge { port, ..made })
        };
        let two = Two::new(detected);
        let [one, other] = &two.containers;
        assert!(!one.run("ip -6 addr show dev eth0").contains("tentative"));
        for address in ["10.88.0.1", "10.88.0.3", "fd00::1", "fd00::3"] {
            assert!(pings(one, address), "{address}");
        }
        assert!(pings(one, &format!("{}%eth0", link_local(two.macs[1]))));
        let flush = "ip neigh flush all";
        run(flush);
        one.run(flush);
        other.run(flush);
        for address in ["10.88.0.2", "fd00::2"] {
            assert!(pings(other, address), "{address}");
            run(&format!("ping -c1 -W10 {address}"));
        }
        // An address of its own that no other container has, and the same on the other one.
        for container in [one, other] {
            container.run("ip addr add fd00::77/64 dev eth0; ip addr add 10.88.0.77/24 dev eth0");
            container.run("until ! ip -6 addr show dev eth0 | grep -q tentative; do :; done");
            assert!(!container.run("ip -6 addr show dev eth0").contains("dadfailed"));
            run("ping -c1 -W10 fd00::77; ping -c1 -W10 10.88.0.77");
            container.run("ip addr del fd00::77/64 dev eth0; ip addr del 10.88.0.77/24 dev eth0");
            run(flush);
        }
        two.end();
    });
}

/// Red's containers have an address of blue's, and one that moves between blue's.
#[test]
fn tenants_may_have_the_same_addresses() {
    isolated(|| {
        let blue = Two::new(checked);
        let LinkKind::Bridge(on_blue) = checked() else { unreachable!() };
        let red = || {
            let (name, gateway) = ("br1".parse().unwrap(), Gateway::None);
            LinkKind::Bridge(Bridge { name, gateway, ..on_blue.clone() })
        };
        let boxes = [Container::new(), Container::new()];
        let reds = [("red3", 3), ("red77", 77)].map(|(name, host)| {
            let at = &boxes[usize::from(host > 3)];
            let mut made = both(name, red(), host, &at.sandbox);
            made.wiring.masquerade = None;
            blue.linux.attach(&made).unwrap();
            made
        });
        let own = blue.macs[0];
        let forger = Forger { own };
        let says = |target| forger.advertisement(&link_local(own), target, &named(2, own));
        let frames = [
            forger.news(own, "10.88.0.77"),
            says("fd00::77"),
            forger.news(own, "10.88.0.3"),
            says("fd00::3"),
            forger.news(own, "10.88.0.1"),
            forger.news(own, "10.88.0.2"),
        ];
        let [from, to] = &blue.containers;
        let [others, host] = seen(from, to, &frames);
        assert_eq!(
            (others, host),
            (vec![0, 1, 5], vec![0, 1, 5]),
            "red keeps an address from blue"
        );
        blue.linux.detach(&reds[0]).unwrap();
        assert!(blue.linux.restore(&blue.attachments[1]).is_ok_and(|missed| !missed));
        let [others, host] = seen(from, to, &frames);
        assert_eq!((others, host), (vec![0, 1, 5], vec![0, 1, 5]), "blue's went with red's");

        // What blue's gateway has goes with blue's bridge.
        let Two { linux, attachments, .. } = blue;
        attachments.iter().for_each(|made| linux.detach(made).unwrap());
        let taken = || run("nft list set bridge spoke taken; nft list set bridge spoke taken6");
        assert!(taken().contains("10.88.0.1"), "{}", taken());
        linux.remove(&network(bridge())).unwrap();
        let there = taken();
        assert!(!there.contains("10.88.0.1") && there.contains("10.88.0.77"), "{there}");
        linux.detach(&reds[1]).unwrap();
    });
}
