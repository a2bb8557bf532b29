//! Random attaching, detaching, moving, killing and cutting off over three hosts: at the end the kernel of every host
//! has what the book has, and the book what was done; and when all has gone, nothing is left.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::bed::{Host, SPOKE, Segment, address, address6, until, until_equal, until_reached};

mod left;

/// So many events, unless `CHURN_EVENTS` says otherwise.
const EVENTS: usize = 150;
/// So many of them until all is compared.
const STRETCH: usize = 250;
/// So many namespaces of each host.
const BOXES: usize = 12;
/// So many addresses of each network move between hosts.
const FIXED: usize = 4;
/// A host is cut off for this and up to so many events more.
const CUT: usize = 4;
const NAMES: [&str; 3] = ["a", "b", "c"];
/// One in VXLAN with both families, and one of each family that is routed.
const NETWORKS: [&str; 3] = ["front", "back", "six"];
const CREATE: [&str; 3] = [
    "--ipv6 --subnet fd00:64::/64 --subnet 10.64.0.0/16 front",
    "--transport route --subnet 10.65.0.0/16 back",
    "--transport route --subnet fd00:66::/64 six",
];
/// Those that are routed, and in which family.
const ROUTED: [(usize, &str); 2] = [(1, "-4"), (2, "-6")];

/// The same numbers in each run of a seed (Numerical Recipes' linear congruential generator).
struct Random(u32);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 16) as usize % limit
    }
}

/// A host and a namespace of it.
type Place = (usize, usize);

struct Churn {
    segment: Segment,
    hosts: [Host; 3],
    random: Random,
    /// Each box that is connected, to which network, and its address.
    connected: BTreeMap<Place, (usize, String)>,
    /// The host that is cut off, and for how many events more.
    cut: Option<(usize, usize)>,
    done: BTreeMap<&'static str, usize>,
}

#[test]
fn every_entry_equals_the_book_after_random_events() {
    let segment = Segment::new();
    let hosts = segment.cluster(NAMES);
    for create in CREATE {
        hosts[0].spoke(&format!("network create --hosts all {create}"));
    }
    for host in &hosts {
        (0..BOXES).for_each(|number| drop(host.world.netns(&boxed(number))));
    }
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse().expect("a number"));
    let seed = number("CHURN_SEED").map_or(18, |seed| u32::try_from(seed).expect("a seed"));
    let (random, connected, done) = (Random(seed), BTreeMap::new(), BTreeMap::new());
    let mut churn = Churn { segment, hosts, random, connected, cut: None, done };
    let (begin, mut compared) = (Instant::now(), Duration::ZERO);
    for event in 1..=number("CHURN_EVENTS").unwrap_or(EVENTS) {
        churn.event();
        if event % STRETCH == 0 {
            compared = compared.max(churn.judge());
        }
    }
    compared = compared.max(churn.judge());
    churn.end();
    println!("{:?} in {:?}; equal after at most {compared:?}", churn.done, begin.elapsed());
}

fn boxed(number: usize) -> String {
    format!("box{number}")
}

fn fixed(network: usize, number: usize) -> String {
    match NETWORKS[network] {
        "six" => format!("fd00:66::c800:0:0:{}", 7 + number),
        _ => format!("10.{}.200.{}", 64 + network, 10 + number),
    }
}

/// The address of a box, of IPv6 where its network has no other.
fn held(host: &Host, network: usize, name: &str) -> String {
    match NETWORKS[network] {
        "six" => address6(&host.world, name),
        _ => address(&host.world, name),
    }
}

impl Churn {
    fn event(&mut self) {
        match self.cut {
            Some((at, 0)) => self.heal(at),
            Some((at, left)) => self.cut = Some((at, left - 1)),
            None => {}
        }
        let at = self.random.below(NAMES.len());
        let network = self.random.below(NETWORKS.len());
        let (what, is_cut) = (self.random.below(100), self.cut.is_some());
        let what = match what {
            0..42 => "attach",
            42..62 => "detach",
            62..68 => "vanish",
            // Its last holder cannot give an address back while it is cut off.
            68..87 if is_cut => "attach",
            68..87 => "move",
            87..92 => "kill",
            92..95 if !is_cut => "cut",
            95..96 => "etcd",
            _ => "disturb",
        };
        *self.done.entry(what).or_default() += 1;
        match what {
            "attach" => self.attach(at, network, None),
            "detach" => self.detach(),
            "vanish" => self.vanish(),
            "move" => self.move_one(at, network),
            "kill" => {
                self.hosts[at].kill();
                self.hosts[at].start();
            }
            "cut" => self.cut_off(at),
            "etcd" => {
                self.segment.stop_etcd();
                self.segment.start_etcd();
            }
            _ => self.disturb(at),
        }
    }

    fn attach(&mut self, at: usize, network: usize, address: Option<String>) {
        let number = (0..BOXES).find(|number| !self.connected.contains_key(&(at, *number)));
        let Some(number) = number else { return };
        let (name, world) = (boxed(number), &self.hosts[at].world);
        let exact = address.as_ref().map_or_else(String::new, |it| match it.contains(':') {
            true => format!("--ip6 {it}"),
            false => format!("--ip {it}"),
        });
        // Its last holder gives an exact address back in a moment, and a daemon that starts hears in a moment.
        until(world, &format!("{SPOKE} network connect {exact} {} {name}", NETWORKS[network]));
        let address = address.unwrap_or_else(|| held(&self.hosts[at], network, &name));
        self.connected.insert((at, number), (network, address));
    }

    fn detach(&mut self) {
        let count = self.connected.len().max(1);
        let which = self.random.below(count);
        let Some(place) = self.connected.keys().nth(which).copied() else { return };
        self.disconnect(place);
    }

    /// A container's namespace goes without a word, which the daemon would see within a minute.
    fn vanish(&mut self) {
        let which = self.random.below(self.connected.len().max(1));
        let Some(place) = self.connected.keys().nth(which).copied() else { return };
        self.connected.remove(&place);
        let (name, host) = (boxed(place.1), &self.hosts[place.0]);
        host.sh(&format!("ip netns del {name}; {SPOKE} gc >/dev/null; ip netns add {name}"));
    }

    fn disconnect(&mut self, place: Place) {
        let Some((network, _)) = self.connected.remove(&place) else { return };
        let (network, name) = (NETWORKS[network], boxed(place.1));
        self.hosts[place.0].spoke(&format!("network disconnect {network} {name}"));
    }

    /// An exact address comes to a host, from where it is.
    fn move_one(&mut self, to: usize, network: usize) {
        let address = fixed(network, self.random.below(FIXED));
        let holder = self.connected.iter().find(|(_, (_, held))| *held == address);
        if let Some(place) = holder.map(|(place, _)| *place) {
            self.disconnect(place);
        }
        self.attach(to, network, Some(address));
    }

    /// The segment carries no packet of the host any more, and no link of it goes down.
    fn cut_off(&mut self, at: usize) {
        self.segment.sh(&format!("ip link set host{} nomaster", at + 1));
        self.cut = Some((at, CUT + self.random.below(CUT)));
    }

    fn heal(&mut self, at: usize) {
        self.segment.sh(&format!("ip link set host{} master seg0", at + 1));
        self.cut = None;
    }

    /// Another program removes entries, and adds others.
    fn disturb(&mut self, at: usize) {
        self.hosts[at].sh(
            "device=$(ls /sys/class/net/sp-front/brif | grep spokevx || true)
             mac=$(bridge fdb show dev $device 2>/dev/null | grep -m 1 dst | cut -d ' ' -f 1 || true)
             bridge fdb del $mac dev $device self 2>/dev/null || true
             ip neigh replace 10.64.1.99 lladdr 02:00:00:00:99:99 dev sp-front nud permanent
             ip route del $(ip -4 route show proto 83 | head -n 1 | cut -d ' ' -f 1) proto 83 2>/dev/null || true
             ip route replace 10.65.99.0/24 via 192.0.2.100 proto 83
             ip -6 route del $(ip -6 route show proto 83 | head -n 1 | cut -d ' ' -f 1) proto 83 2>/dev/null || true
             nft delete table ip spoke_overlay 2>/dev/null || true
             nft delete table inet spoke_routes 2>/dev/null || true",
        );
    }

    /// Compares everything; how long it took until all was equal.
    fn judge(&mut self) -> Duration {
        if let Some((at, _)) = self.cut {
            self.heal(at);
        }
        let begin = Instant::now();
        for (at, name) in NAMES.iter().enumerate() {
            (0..NETWORKS.len()).for_each(|network| self.until_booked(at, network));
            // The addresses of the two other bridges, and each in both families.
            let others = 2 * (self.elsewhere(at, 0).count() + 2);
            let world = &self.hosts[at].world;
            until_equal(&self.segment, world, NETWORKS[0], name, others);
            ROUTED.into_iter().for_each(|routed| self.until_routed(at, routed));
        }
        self.until_divided();
        let took = begin.elapsed();
        for network in 0..NETWORKS.len() {
            self.reach(network);
        }
        took
    }

    /// What is on a network on other hosts than this one.
    fn elsewhere(&self, at: usize, network: usize) -> impl Iterator<Item = (&Place, &String)> {
        let all = self.connected.iter();
        all.filter(move |((host, _), (of, _))| *host != at && *of == network)
            .map(|(place, (_, address))| (place, address))
    }

    /// Waits until the book has what was done on the other hosts, and no more.
    #[track_caller]
    fn until_booked(&self, at: usize, network: usize) {
        let deadline = Instant::now() + Duration::from_secs(60);
        let done = self.elsewhere(at, network);
        let done = done.map(|((host, _), held)| [held.clone(), self.hosts[*host].address.clone()]);
        let done: BTreeSet<[String; 2]> = done.collect();
        loop {
            let book = self.segment.book(NETWORKS[network], NAMES[at]);
            // The addresses of bridges, and the second ones of a network of both families, follow from the first ones.
            let is_container = |address: &str| match NETWORKS[network] {
                "six" => !address.ends_with("::1") && !address.ends_with(":0:0:1"),
                _ => !address.contains(':') && !address.ends_with(".1"),
            };
            let book = book.into_iter().filter(|[address, ..]| is_container(address));
            let book: BTreeSet<_> = book.map(|[address, _, host]| [address, host]).collect();
            if book == done {
                break;
            }
            assert!(Instant::now() < deadline, "the book has {book:#?}\ndone was {done:#?}");
            tests::glance();
        }
        for ((host, number), known) in self.elsewhere(at, network) {
            assert_eq!(*known, held(&self.hosts[*host], network, &boxed(*number)));
        }
    }

    fn reach(&self, network: usize) {
        let mut all = self.connected.iter().filter(|(_, (of, _))| *of == network);
        let Some(((from, number), _)) = all.next() else { return };
        for ((_, _), (_, to)) in all.filter(|((host, _), _)| host != from).take(3) {
            until_reached(&self.hosts[*from].world, &boxed(*number), to);
        }
    }
}
