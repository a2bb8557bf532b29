//! What each host, and the book, has to have after random events, and what is left when all has gone.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Churn, NAMES, NETWORKS};
use crate::bed::{SPOKE, until};

/// The part of a routed network that a host has, in bits: of `six`, and of the others.
const BLOCK6: u32 = 72;
/// Only a difference that stays takes longer.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Who has each block of a network, or each address.
type Held = BTreeMap<String, String>;

impl Churn {
    /// Waits until a host routes as etcd says.
    #[track_caller]
    pub(super) fn until_routed(&self, at: usize, (network, family): (usize, &str)) {
        let gateways = self.gateways(family);
        let host = &self.hosts[at];
        until_same(&format!("{}: the routes", NAMES[at]), || {
            let said = host.sh(&format!("ip {family} route show proto 83"));
            let kernel = said.lines().map(|line| {
                let words: Vec<&str> = line.split_whitespace().collect();
                [words[0].to_owned(), words[2].to_owned()]
            });
            (kernel.collect(), self.routes(at, network, &gateways))
        });
    }

    /// By which address each host is a gateway: over a segment of IPv4 hosts route IPv6 by their link-local addresses.
    fn gateways(&self, family: &str) -> Vec<String> {
        let of_link = |script: &str| {
            let said = script.split_whitespace().nth(3).expect("an address");
            said.split('/').next().expect("an address").to_owned()
        };
        let show = "ip -6 -o address show dev eth0 scope link";
        let all = self.hosts.iter().map(|host| match family {
            "-6" => of_link(&host.sh(show)),
            _ => host.address.clone(),
        });
        all.collect()
    }

    /// Where the blocks of other hosts are, each address of one that is in no block of its own, and those of this host.
    #[track_caller]
    fn routes(&self, at: usize, network: usize, gateways: &[String]) -> BTreeSet<[String; 2]> {
        let blocks = self.blocks(network);
        let by = |name: &str| {
            let at = NAMES.iter().position(|known| *known == name).expect("a host");
            gateways[at].clone()
        };
        let others = blocks.iter().filter(|(_, host)| *host != NAMES[at]);
        let bridge = || format!("sp-{}", NETWORKS[network]);
        let exact =
            self.apart(network).into_iter().map(|(address, host)| match host == NAMES[at] {
                true => [address, bridge()],
                false => [address, by(&host)],
            });
        others.map(|(block, host)| [block.clone(), by(host)]).chain(exact).collect()
    }

    /// The blocks of a network in etcd.
    #[track_caller]
    fn blocks(&self, network: usize) -> Held {
        let begin = format!("/spoke/v1/block/{}/", NETWORKS[network]);
        let said = self.segment.etcdctl(&format!("get --prefix {begin}"));
        let lines: Vec<&str> = said.lines().collect();
        let pairs = lines.chunks(2);
        pairs
            .map(|pair| {
                let block = pair[0].trim_start_matches(&begin).to_owned();
                (block, pair[1].trim_matches('"').to_owned())
            })
            .collect()
    }

    /// The addresses of containers that are in no block of their host, and which one that is.
    #[track_caller]
    fn apart(&self, network: usize) -> Held {
        let blocks = self.blocks(network);
        let of = self.connected.iter().filter(|(_, (of, _))| *of == network);
        let all = of.map(|((host, _), (_, address))| (address.clone(), NAMES[*host].to_owned()));
        all.filter(|(address, host)| blocks.get(&block_of(address)) != Some(host)).collect()
    }

    /// Waits until each host leases from the blocks that etcd has as its own, and exactly the addresses that are apart are
    /// pinned.
    #[track_caller]
    pub(super) fn until_divided(&self) {
        for (network, name) in NETWORKS.iter().enumerate() {
            until_same(&format!("the blocks of {name}"), || {
                let own = self.hosts.iter().zip(NAMES).flat_map(|(host, at)| {
                    let file = format!("/var/lib/spoke/hosts/networks/{name}");
                    let local: Value =
                        serde_json::from_str(&host.sh(&format!("cat {file}"))).expect("JSON");
                    let more = local["more"].as_array().cloned().unwrap_or_default();
                    let all = more.into_iter().chain([local["block"].clone()]);
                    all.map(move |block| {
                        [block.as_str().expect("a text").to_owned(), at.to_owned()]
                    })
                });
                (own.collect(), pairs(self.blocks(network)))
            });
            let begin = format!("/spoke/v1/pin/{name}/");
            until_same(&format!("the pins of {name}"), || {
                let said = self.segment.etcdctl(&format!("get --prefix {begin}"));
                let lines: Vec<&str> = said.lines().collect();
                let pins = lines.chunks(2).map(|pair| {
                    let pin: Value = serde_json::from_str(pair[1]).expect("JSON");
                    let host = pin["host"].as_str().expect("a text").to_owned();
                    [pair[0].trim_start_matches(&begin).to_owned(), host]
                });
                (pins.collect(), pairs(self.apart(network)))
            });
        }
        for host in &self.hosts {
            until(&host.world, "nft list table inet spoke_routes >/dev/null");
            for other in self.hosts.iter().filter(|other| other.name != host.name) {
                let address = &other.address;
                until(
                    &host.world,
                    &format!("nft list table ip spoke_overlay | grep -qF {address}"),
                );
            }
        }
    }

    /// All containers go, and all networks: nothing of them is left, in etcd or on a host.
    pub(super) fn end(&mut self) {
        for place in self.connected.keys().copied().collect::<Vec<_>>() {
            self.disconnect(place);
        }
        self.judge();
        for name in NETWORKS {
            until(&self.hosts[0].world, &format!("{SPOKE} network rm {name}"));
        }
        for kind in ["network", "block", "pin", "endpoint", "vni"] {
            self.segment.until_gone(&format!("/{kind}/"));
        }
        for host in &self.hosts {
            until(
                &host.world,
                "[ -z \"$(ls /var/lib/spoke/hosts/networks)\" ]
                 [ -z \"$(ip route show proto 83; ip -6 route show proto 83)\" ]
                 ! ip -o link | grep -E ': (sp-|spokevx)'
                 ! nft list tables | grep -E 'spoke_(overlay|routes)'",
            );
        }
    }
}

/// Of 256 addresses of IPv4, or the same of IPv6.
fn block_of(address: &str) -> String {
    match address.parse().expect("an address") {
        IpAddr::V4(_) => format!("{}.0/24", address.rsplit_once('.').expect("an address").0),
        IpAddr::V6(it) => {
            let first = it.to_bits() & (u128::MAX << (128 - BLOCK6));
            format!("{}/{BLOCK6}", Ipv6Addr::from_bits(first))
        }
    }
}

fn pairs(held: Held) -> BTreeSet<[String; 2]> {
    held.into_iter().map(|(what, host)| [what, host]).collect()
}

/// Waits until there is what there should be.
#[track_caller]
fn until_same(what: &str, both: impl Fn() -> (BTreeSet<[String; 2]>, BTreeSet<[String; 2]>)) {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let (is, should) = both();
        if is == should {
            return;
        }
        assert!(Instant::now() < deadline, "{what} are {is:#?}\nand should be {should:#?}");
        tests::glance();
    }
}
