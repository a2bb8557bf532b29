//! Random attaching, detaching, moving, killing and cutting off over three hosts: at the end the kernel of every host
//! has what the book has, and the book what was done.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::bed::{Host, SPOKE, Segment, address, until, until_equal, until_reached};

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
/// One in VXLAN with both families, and one that is routed.
const NETWORKS: [&str; 2] = ["front", "back"];
const CREATE: [&str; 2] = [
    "--ipv6 --subnet fd00:64::/64 --subnet 10.64.0.0/16 front",
    "--transport route --subnet 10.65.0.0/16 back",
];

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

struct Churn<'a> {
    segment: &'a Segment,
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
    let mut churn = Churn { segment: &segment, hosts, random, connected, cut: None, done };
    let (begin, mut compared) = (Instant::now(), Duration::ZERO);
    for event in 1..=number("CHURN_EVENTS").unwrap_or(EVENTS) {
        churn.event();
        if event % STRETCH == 0 {
            compared = compared.max(churn.judge());
        }
    }
    compared = compared.max(churn.judge());
    println!("{:?} in {:?}; equal after at most {compared:?}", churn.done, begin.elapsed());
}

fn boxed(number: usize) -> String {
    format!("box{number}")
}

fn fixed(network: usize, number: usize) -> String {
    format!("10.{}.200.{}", 64 + network, 10 + number)
}

impl Churn<'_> {
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
            42..68 => "detach",
            // Its last holder cannot give an address back while it is cut off.
            68..87 if is_cut => "attach",
            68..87 => "move",
            87..92 => "kill",
            92..95 if !is_cut => "cut",
            _ => "disturb",
        };
        *self.done.entry(what).or_default() += 1;
        match what {
            "attach" => self.attach(at, network, None),
            "detach" => self.detach(),
            "move" => self.move_one(at, network),
            "kill" => {
                self.hosts[at].kill();
                self.hosts[at].start();
            }
            "cut" => self.cut_off(at),
            _ => self.disturb(at),
        }
    }

    fn attach(&mut self, at: usize, network: usize, address: Option<String>) {
        let number = (0..BOXES).find(|number| !self.connected.contains_key(&(at, *number)));
        let Some(number) = number else { return };
        let (name, world) = (boxed(number), &self.hosts[at].world);
        let exact = address.as_ref().map_or_else(String::new, |it| format!("--ip {it}"));
        // Its last holder gives an exact address back in a moment, and a daemon that starts hears in a moment.
        until(world, &format!("{SPOKE} network connect {exact} {} {name}", NETWORKS[network]));
        let address = address.unwrap_or_else(|| crate::bed::address(world, &name));
        self.connected.insert((at, number), (network, address));
    }

    fn detach(&mut self) {
        let count = self.connected.len().max(1);
        let which = self.random.below(count);
        let Some(place) = self.connected.keys().nth(which).copied() else { return };
        self.disconnect(place);
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

    /// Somebody takes entries away, and adds others.
    fn disturb(&mut self, at: usize) {
        self.hosts[at].sh(
            "device=$(ls /sys/class/net/sp-front/brif | grep spokevx || true)
             mac=$(bridge fdb show dev $device 2>/dev/null | grep -m 1 dst | cut -d ' ' -f 1 || true)
             bridge fdb del $mac dev $device self 2>/dev/null || true
             ip neigh replace 10.64.1.99 lladdr 02:00:00:00:99:99 dev sp-front nud permanent
             ip route del $(ip -4 route show proto 83 | head -n 1 | cut -d ' ' -f 1) proto 83 2>/dev/null || true
             ip route replace 10.65.99.0/24 via 192.0.2.100 proto 83
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
            until_equal(self.segment, world, NETWORKS[0], name, others);
            self.until_routed(at);
        }
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
            let is_container = |address: &str| !address.contains(':') && !address.ends_with(".1");
            let book = book.into_iter().filter(|[address, ..]| is_container(address));
            let book: BTreeSet<_> = book.map(|[address, _, host]| [address, host]).collect();
            if book == done {
                break;
            }
            assert!(Instant::now() < deadline, "the book has {book:#?}\ndone was {done:#?}");
        }
        for ((host, number), held) in self.elsewhere(at, network) {
            assert_eq!(*held, address(&self.hosts[*host].world, &boxed(*number)));
        }
    }

    fn reach(&self, network: usize) {
        let mut all = self.connected.iter().filter(|(_, (of, _))| *of == network);
        let Some(((from, number), _)) = all.next() else { return };
        for ((_, _), (_, to)) in all.filter(|((host, _), _)| host != from).take(3) {
            until_reached(&self.hosts[*from].world, &boxed(*number), to);
        }
    }

    /// Waits until a host routes as etcd says.
    #[track_caller]
    fn until_routed(&self, at: usize) {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let said = self.hosts[at].sh("ip -4 route show proto 83");
            let kernel = said.lines().map(|line| {
                let words: Vec<&str> = line.split_whitespace().collect();
                [words[0].to_owned(), words[2].to_owned()]
            });
            let (kernel, book): (BTreeSet<_>, _) = (kernel.collect(), self.routes(at));
            if kernel == book {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "{}: the book has {book:#?}\nthe kernel has {kernel:#?}\n{}",
                NAMES[at],
                self.hosts[at].world.logs()
            );
        }
    }

    /// Where the blocks of other hosts are, each address of one that is in no block of its own, and those of this host.
    #[track_caller]
    fn routes(&self, at: usize) -> BTreeSet<[String; 2]> {
        let begin = format!("/spoke/v1/block/{}/", NETWORKS[1]);
        let said = self.segment.etcdctl(&format!("get --prefix {begin}"));
        let lines: Vec<&str> = said.lines().collect();
        let blocks: BTreeMap<&str, &str> = lines
            .chunks(2)
            .map(|pair| {
                let is_it = |name: &&str| pair[1] == format!("\"{name}\"");
                let holder = NAMES.iter().position(is_it).expect("a host");
                (pair[0].trim_start_matches(&begin), self.hosts[holder].address.as_str())
            })
            .collect();
        let is_apart = |address: &str, host: &str| {
            let block = format!("{}.0/24", address.rsplit_once('.').expect("an address").0);
            blocks.get(block.as_str()) != Some(&host)
        };
        let me = self.hosts[at].address.as_str();
        let route = |to: &str, by: &str| [to.to_owned(), by.to_owned()];
        let others = blocks.iter().filter(|(_, host)| **host != me);
        let book = self.segment.book(NETWORKS[1], NAMES[at]);
        let exact = book.iter().filter(|[address, _, host]| is_apart(address, host));
        let own = self.connected.iter().filter(|((host, _), (network, address))| {
            *host == at && *network == 1 && is_apart(address, me)
        });
        others
            .map(|(block, host)| route(block, host))
            .chain(exact.map(|[address, _, host]| route(address, host)))
            .chain(own.map(|(_, (_, address))| route(address, "sp-back")))
            .collect()
    }
}
