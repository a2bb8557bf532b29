//! The subnets of segments. What a container sends to this host for an address there that no container has makes this host
//! look for it. All containers of a segment share them, and networks of one bridge may have subnets in each other.

use model::{Family, IfName, IpNet, Result};
use netlink::Socket;
use netlink::nft::{self, Between, Transaction, Tuple};

use super::{SUBNETS, Sender, TABLE, number_of, of};

type Ranges = Vec<(&'static str, Between)>;

/// The subnets that a container's port needs where it is checked: its own, and the addresses of the link.
pub(super) fn wanted(sender: &Sender) -> Ranges {
    if !sender.is_checked {
        return Ranges::new();
    }
    let link = model::link_local(Family::V6);
    let nets: Vec<IpNet> = sender.subnets.iter().map(IpNet::trunc).chain([link]).collect();
    let range = |net: &IpNet| {
        let key = |address| segment(&sender.bridge).address(address);
        (
            of(&SUBNETS, net.addr()),
            Between { first: key(net.network()), last: key(net.broadcast()) },
        )
    };
    IpNet::aggregate(&nets).iter().map(range).collect()
}

fn segment(bridge: &IfName) -> Tuple {
    Tuple::new().mark_between(number_of(bridge))
}

/// Those in the kernel, of all segments.
fn present(socket: &mut Socket) -> Result<Ranges> {
    let mut all = Ranges::new();
    for set in SUBNETS {
        let ranges = nft::between(socket, TABLE, set.name)?;
        all.extend(ranges.into_iter().map(|range| (set.name, range)));
    }
    Ok(all)
}

fn is_in((set, inner): &(&str, Between), (other, outer): &(&str, Between)) -> bool {
    set == other && outer.first <= inner.first && inner.last <= outer.last
}

/// Whether all of them are there, by themselves or in others. Their first addresses do not say it: a narrower one may
/// begin with the same.
pub(super) fn are_there(socket: &mut Socket, sender: &Sender) -> Result<bool> {
    Ok(!sender.is_checked || missing(&present(socket)?, sender).is_empty())
}

/// The subnets that are in no other one.
fn missing(present: &Ranges, sender: &Sender) -> Ranges {
    let mut missing = wanted(sender);
    missing.retain(|wanted| !present.iter().any(|there| is_in(wanted, there)));
    missing
}

/// Removes those that are in ones that are missing: the kernel takes none that overlap. Returns what is missing.
pub(super) fn make_room(socket: &mut Socket, sender: &Sender) -> Result<Ranges> {
    let present = present(socket)?;
    let missing = missing(&present, sender);
    let mut transaction = Transaction::new();
    for there in present.iter().filter(|there| missing.iter().any(|wanted| is_in(there, wanted))) {
        transaction.delete_between(TABLE, there.0, &there.1, sender.about("widening"));
    }
    // Another one was faster, maybe with the same.
    transaction.commit(socket)?.except(netlink::Errno::NOENT).into_result()?;
    Ok(missing)
}

/// Takes out those of a bridge.
pub(super) fn forget(
    socket: &mut Socket,
    transaction: &mut Transaction,
    bridge: &IfName,
) -> Result<()> {
    let segment = segment(bridge);
    for (set, range) in present(socket)? {
        if range.first.bytes().starts_with(segment.bytes()) {
            let about = format!("removing a subnet of {bridge} ({TABLE})");
            transaction.delete_between(TABLE, set, &range, about);
        }
    }
    Ok(())
}

/// Puts all of them into a table that is made anew.
pub(super) fn keep(socket: &mut Socket, transaction: &mut Transaction) -> Result<()> {
    for (set, range) in present(socket)? {
        transaction.add_between(TABLE, set, &range, format!("making {TABLE} anew"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::spoof::{self, Bound};
    use crate::filter::tests::space::Space;

    fn sender(port: &str, subnet: &str) -> Sender {
        Sender {
            owner: format!("attachment-{port}").parse().unwrap(),
            port: port.parse().unwrap(),
            bridge: "br0".parse().unwrap(),
            mac: "02:00:00:00:00:02".parse().unwrap(),
            addresses: vec!["10.1.2.7".parse().unwrap()],
            of_link: Vec::new(),
            gateways: vec!["10.1.2.1".parse().unwrap()],
            subnets: vec![subnet.parse().unwrap()],
            bound: Bound::No,
            is_checked: true,
            is_apart: false,
            is_machine: false,
        }
    }

    #[test]
    fn of_subnets_in_each_other_there_is_the_widest() {
        let space = Space::new();
        let mut socket = space.netns.enter(Socket::netfilter).unwrap().unwrap();
        let (wide, narrow) = (sender("port0", "10.1.0.0/16"), sender("port1", "10.1.0.0/24"));
        for [first, second] in [[&wide, &narrow], [&narrow, &wide]] {
            spoof::install(&mut socket, first).unwrap();
            spoof::install(&mut socket, second).unwrap();
            let listed = space.run("nft list set bridge spoke subnets4");
            assert!(listed.contains(". 10.1.0.0/16 }"), "{listed}");
            for sender in [first, second] {
                assert!(!spoof::restore(&mut socket, sender).unwrap());
            }
            // The narrow one that comes back first does not pass for the wide one.
            space.run("nft flush set bridge spoke subnets4");
            for sender in [&narrow, &wide] {
                assert!(spoof::restore(&mut socket, sender).unwrap());
            }
            let listed = space.run("nft list set bridge spoke subnets4");
            assert!(listed.contains(". 10.1.0.0/16 }"), "{listed}");
            spoof::forget_bridge(&mut socket, &wide.bridge).unwrap();
            let listed = space.run("nft list set bridge spoke subnets4");
            assert!(!listed.contains("10.1"), "{listed}");
            space.run("nft flush ruleset");
        }
    }
}
