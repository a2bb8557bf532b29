//! Random attaching, detaching, moving and killing over three hosts: at the end the kernel of every host has what the
//! book has, and the book what was done.

use std::collections::BTreeMap;

use crate::bed::{Host, Segment, address, until, until_equal, until_reached};

/// So many events, unless `CHURN_EVENTS` says otherwise.
const EVENTS: usize = 150;
/// So many namespaces of each host.
const BOXES: usize = 12;
/// So many addresses move between hosts.
const FIXED: usize = 5;
const NAMES: [&str; 3] = ["a", "b", "c"];

/// The same numbers in each run (Numerical Recipes' linear congruential generator).
struct Random(u32);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 16) as usize % limit
    }
}

struct Churn<'a> {
    segment: &'a Segment,
    hosts: [Host; 3],
    random: Random,
    /// Each box that is connected, by host and number, and its address.
    connected: BTreeMap<(usize, usize), String>,
}

#[test]
fn every_entry_equals_the_book_after_random_events() {
    let segment = Segment::new();
    let hosts = segment.cluster(NAMES);
    hosts[0].spoke("network create --hosts all front");
    for host in &hosts {
        (0..BOXES).for_each(|number| drop(host.world.netns(&boxed(number))));
    }
    let (random, connected) = (Random(18), BTreeMap::new());
    let mut churn = Churn { segment: &segment, hosts, random, connected };
    let events = std::env::var("CHURN_EVENTS").ok().and_then(|count| count.parse().ok());
    for _ in 0..events.unwrap_or(EVENTS) {
        churn.event();
    }
    churn.judge();
}

fn boxed(number: usize) -> String {
    format!("box{number}")
}

fn fixed(number: usize) -> String {
    format!("10.64.200.{}", 10 + number)
}

impl Churn<'_> {
    fn event(&mut self) {
        let at = self.random.below(NAMES.len());
        match self.random.below(100) {
            0..45 => self.attach(at, None),
            45..72 => self.detach(),
            72..92 => self.move_one(at),
            92..96 => {
                self.hosts[at].kill();
                self.hosts[at].start();
            }
            _ => self.disturb(at),
        }
    }

    fn attach(&mut self, at: usize, address: Option<String>) {
        let number = (0..BOXES).find(|number| !self.connected.contains_key(&(at, *number)));
        let Some(number) = number else { return };
        let (name, world) = (boxed(number), &self.hosts[at].world);
        let exact = address.as_ref().map_or_else(String::new, |it| format!("--ip {it}"));
        // Its last holder gives an exact address back in a moment, and a daemon that starts hears in a moment.
        until(world, &format!("/opt/cni/bin/spoke network connect {exact} front {name}"));
        let address = address.unwrap_or_else(|| crate::bed::address(world, &name));
        self.connected.insert((at, number), address);
    }

    fn detach(&mut self) {
        let count = self.connected.len().max(1);
        let which = self.random.below(count);
        let Some(place) = self.connected.keys().nth(which).copied() else { return };
        self.disconnect(place);
    }

    fn disconnect(&mut self, place: (usize, usize)) {
        self.hosts[place.0].spoke(&format!("network disconnect front {}", boxed(place.1)));
        self.connected.remove(&place);
    }

    /// An exact address comes to a host, from where it is.
    fn move_one(&mut self, to: usize) {
        let address = fixed(self.random.below(FIXED));
        let holder = self.connected.iter().find(|(_, held)| **held == address);
        if let Some(place) = holder.map(|(place, _)| *place) {
            self.disconnect(place);
        }
        self.attach(to, Some(address));
    }

    /// Somebody takes entries away, and adds others.
    fn disturb(&mut self, at: usize) {
        self.hosts[at].sh(
            "device=$(ls /sys/class/net/sp-front/brif | grep spokevx || true)
             mac=$(bridge fdb show dev $device 2>/dev/null | grep -m 1 dst | cut -d ' ' -f 1 || true)
             bridge fdb del $mac dev $device self 2>/dev/null || true
             ip neigh replace 10.64.1.99 lladdr 02:00:00:00:99:99 dev sp-front nud permanent
             nft delete table ip spoke_overlay 2>/dev/null || true",
        );
    }

    fn judge(&self) {
        for (at, name) in NAMES.iter().enumerate() {
            // The addresses of the two other bridges.
            let others = self.connected.keys().filter(|(host, _)| *host != at).count() + 2;
            until_equal(self.segment, &self.hosts[at].world, "front", name, others);
            let book = self.segment.book("front", name);
            for ((host, number), held) in self.connected.iter().filter(|((host, _), _)| *host != at)
            {
                let mine = book.iter().find(|[address, ..]| address == held).expect("an endpoint");
                assert_eq!(mine[2], self.hosts[*host].address, "{held}");
                assert_eq!(*held, address(&self.hosts[*host].world, &boxed(*number)));
            }
        }
        let mut all = self.connected.iter();
        let Some(((from, number), _)) = all.next() else { return };
        for ((_, _), to) in all.filter(|((host, _), _)| host != from).take(3) {
            until_reached(&self.hosts[*from].world, &boxed(*number), to);
        }
    }
}
