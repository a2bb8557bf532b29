//! Membership of a container's interface in a VRF, as the reference plugin `vrf` makes it.

use std::collections::BTreeSet;
use std::net::IpAddr;

use model::{Error, Fact, Family, IfName, IpNet, Kind, Result, Vrf};
use netlink::address::Address;
use netlink::route::{MAIN, Routes};
use netlink::wire::Batch;
use netlink::{
    At, Errno, Existing, Link, Links, NamespaceLock, Netns, NewAddress, Route, Socket, TIMEOUT,
};

/// `RT_TABLE_DEFAULT`, `_MAIN` and `_LOCAL`: reserved.
const RESERVED: std::ops::RangeInclusive<u32> = 253..=255;
/// How often a VRF is searched that another process makes or removes at the same time.
const ATTEMPTS: usize = 8;

/// Puts the interface into the VRF, which is made if it is missing, with its addresses and routes.
pub(crate) fn join(wanted: &Vrf, device: &IfName, sandbox: &Netns) -> Result<()> {
    let _lock = NamespaceLock::take(sandbox, TIMEOUT)?;
    sandbox.enter(|| {
        let mut socket = Socket::route()?;
        let link = existing(&mut socket, device)?;
        let vrf = ensure(&mut socket, wanted)?;
        match link.master {
            Some(master) if master == vrf.index => Ok(()),
            Some(master) => Err(taken(&mut socket, &link, master)?),
            None => enslave(&mut socket, &link, &vrf),
        }
    })?
}

/// Takes the interface out of the VRF, and removes that with its last member. What is gone is done.
pub(crate) fn leave(wanted: &Vrf, device: &IfName, sandbox: Option<&Netns>) -> Result<()> {
    let Some(sandbox) = sandbox else { return Ok(()) };
    sandbox.enter(|| {
        let mut socket = Socket::route()?;
        let Some(vrf) = find(&socket.vrfs()?, &wanted.name) else { return Ok(()) };
        let link = socket.link(At::Name(device))?;
        if let Some(link) = link.filter(|link| link.master == Some(vrf.index)) {
            release(&mut socket, &link, &vrf)?;
        }
        if !socket.links(Links { kind: None, master: Some(vrf.index) })?.is_empty() {
            return Ok(());
        }
        let mut batch = Batch::new();
        batch.delete_link(At::Index(vrf.index));
        socket.send(&mut batch)?.except(Errno::NODEV).into_result()
    })?
}

/// Whether the interface is in the VRF, and that has the wanted table.
pub(crate) fn check(wanted: &Vrf, device: &IfName, sandbox: &Netns) -> Result<()> {
    sandbox.enter(|| {
        let mut socket = Socket::route()?;
        let Some(vrf) = find(&socket.vrfs()?, &wanted.name) else {
            let what = format!("VRF {} is missing", wanted.name);
            return Err(Error::not_found(what).about(Fact::Words("Link not found".to_owned())));
        };
        if let Some(table) = wanted.table.filter(|table| *table != vrf.table) {
            return Err(Error::not_found(format!(
                "VRF {} has routing table {}, not {table}",
                vrf.name, vrf.table
            )));
        }
        match existing(&mut socket, device)?.master {
            Some(master) if master == vrf.index => Ok(()),
            Some(_) | None => Err(Error::not_found(format!(
                "Failed to find {device} associated to vrf {}",
                vrf.name
            ))),
        }
    })?
}

/// The VRF; made where it is missing.
fn ensure(socket: &mut Socket, wanted: &Vrf) -> Result<netlink::Vrf> {
    for _ in 0..ATTEMPTS {
        match decide(wanted, &socket.vrfs()?)? {
            Decision::Join(vrf) => return Ok(vrf),
            Decision::Make(table) => make(socket, &wanted.name, table)?,
        }
    }
    Err(Error::try_again(format!("VRF {} keeps being removed by another program", wanted.name)))
}

/// The change of the VRF itself.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Decision {
    Join(netlink::Vrf),
    /// With this table.
    Make(u32),
}

fn decide(wanted: &Vrf, there: &[netlink::Vrf]) -> Result<Decision> {
    match (find(there, &wanted.name), wanted.table) {
        (Some(vrf), Some(table)) if vrf.table != table => Err(Error::conflict(format!(
            "VRF {} already exist with different routing table {}",
            vrf.name, vrf.table
        ))),
        (Some(vrf), _) => Ok(Decision::Join(vrf)),
        (None, Some(table)) => Ok(Decision::Make(table)),
        (None, None) => {
            let taken: BTreeSet<u32> = there.iter().map(|vrf| vrf.table).chain(RESERVED).collect();
            let free = (1..u32::MAX).find(|table| !taken.contains(table));
            free.map(Decision::Make)
                .ok_or_else(|| Error::exhausted("no routing table is left for a VRF".to_owned()))
        }
    }
}

fn find(there: &[netlink::Vrf], name: &IfName) -> Option<netlink::Vrf> {
    there.iter().find(|vrf| vrf.name == *name).cloned()
}

/// Something else of that name is in the way permanently.
fn make(socket: &mut Socket, name: &IfName, table: u32) -> Result<()> {
    let mut batch = Batch::new();
    batch.new_vrf(name, table);
    match socket.send(&mut batch)?.into_result() {
        Err(error) if error.kind() == Kind::Conflict => match socket.link(At::Name(name))? {
            Some(link) if link.kind.as_deref() != Some("vrf") => {
                Err(Error::conflict(format!("interface {name} is not a VRF")))
            }
            Some(_) | None => Ok(()),
        },
        made => made,
    }
}

/// The kernel takes the interface down and up again: what it loses by that is released.
fn enslave(socket: &mut Socket, link: &Link, vrf: &netlink::Vrf) -> Result<()> {
    let before = socket.addresses(Some(link.index))?;
    let routes = routes(socket, link.index)?;
    socket.enslave(link.index, Some(vrf.index))?;
    let after = socket.addresses(Some(link.index))?;
    restore(socket, &lost_addresses(&before, &after), &moved(&routes, &before, [MAIN, vrf.table]))
}

/// The same the other way round, for an interface that stays.
fn release(socket: &mut Socket, link: &Link, vrf: &netlink::Vrf) -> Result<()> {
    let before = socket.addresses(Some(link.index))?;
    let routes = routes(socket, link.index)?;
    socket.enslave(link.index, None)?;
    let after = socket.addresses(Some(link.index))?;
    // Whatever else the interface loses, it goes.
    let _ = restore(
        socket,
        &lost_addresses(&before, &after),
        &moved(&routes, &before, [vrf.table, MAIN]),
    );
    Ok(())
}

fn restore(socket: &mut Socket, addresses: &[NewAddress], routes: &[Route]) -> Result<()> {
    let mut batch = Batch::new();
    for address in addresses {
        batch.add_address(address);
    }
    for route in routes {
        batch.add_route(route, Existing::Refuse);
    }
    socket.send(&mut batch)?.except(Errno::EXIST).into_result()
}

fn routes(socket: &mut Socket, link: u32) -> Result<Vec<Route>> {
    let of = |family| Routes { family, table: None, link: Some(link) };
    let mut routes = socket.routes(of(Family::V4))?;
    routes.extend(socket.routes(of(Family::V6))?);
    Ok(routes)
}

/// IPv6 addresses are lost when the interface goes down. They cannot have been taken since.
fn lost_addresses(before: &[Address], after: &[Address]) -> Vec<NewAddress> {
    let is_there = |lost: &Address| after.iter().any(|there| there.address == lost.address);
    let lost = before.iter().filter(|address| !is_there(address));
    lost.map(|lost| NewAddress {
        protocol: lost.protocol,
        ..NewAddress::new(lost.link, lost.address)
    })
    .collect()
}

/// The routes that the kernel does not make by itself in the new table, with what is reached
/// directly first. Those in other tables stay there.
fn moved(routes: &[Route], addresses: &[Address], [from, to]: [u32; 2]) -> Vec<Route> {
    let made = |route: &Route| {
        route.gateway.is_none()
            && addresses.iter().any(|held| held.address.trunc() == route.dst.trunc())
    };
    let is_multicast = |route: &Route| match route.dst {
        IpNet::V4(_) => false,
        IpNet::V6(dst) => dst.addr().is_multicast(),
    };
    let is_local = |route: &Route| route.table == 255 || is_own(route, addresses);
    let mut moved: Vec<Route> = routes
        .iter()
        .filter(|route| !made(route) && !is_multicast(route) && !is_local(route))
        .map(|route| Route { table: if route.table == from { to } else { route.table }, ..*route })
        .collect();
    moved.sort_by_key(|route| route.gateway.is_some());
    moved
}

fn is_own(route: &Route, addresses: &[Address]) -> bool {
    let own = |address: IpAddr| addresses.iter().any(|held| held.address.addr() == address);
    route.dst.prefix_len() == route.dst.max_prefix_len() && own(route.dst.addr())
}

fn existing(socket: &mut Socket, device: &IfName) -> Result<Link> {
    let gone = || Error::not_found(format!("could not get link by name {device}"));
    socket.link(At::Name(device))?.ok_or_else(gone)
}

fn taken(socket: &mut Socket, link: &Link, master: u32) -> Result<Error> {
    let name = socket.link(At::Index(master))?.map_or_else(String::new, |it| it.name.to_string());
    Ok(Error::conflict(format!("interface {} has already a master set: {name}", link.name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vrf(name: &str, table: u32) -> netlink::Vrf {
        netlink::Vrf { index: table, name: name.parse().unwrap(), table }
    }

    fn wanted(name: &str, table: Option<u32>) -> Vrf {
        Vrf { name: name.parse().unwrap(), table }
    }

    #[test]
    fn a_vrf_is_joined_or_made_with_a_table_of_its_own() {
        let there = [vrf("red", 1), vrf("green", 3)];
        assert_eq!(decide(&wanted("red", None), &there).unwrap(), Decision::Join(vrf("red", 1)));
        assert_eq!(decide(&wanted("red", Some(1)), &there).unwrap(), Decision::Join(vrf("red", 1)));
        assert_eq!(decide(&wanted("blue", None), &there).unwrap(), Decision::Make(2));
        assert_eq!(decide(&wanted("blue", Some(3)), &there).unwrap(), Decision::Make(3));
        let refused = decide(&wanted("red", Some(2)), &there).unwrap_err();
        assert_eq!(refused.kind(), Kind::Conflict);
        assert!(refused.to_string().contains("different routing table 1"), "{refused}");
    }

    #[test]
    fn no_reserved_table_is_given_away() {
        let there: Vec<_> = (1..=252).map(|table| vrf(&format!("v{table}"), table)).collect();
        assert_eq!(decide(&wanted("blue", None), &there).unwrap(), Decision::Make(256));
    }

    fn held(text: &str) -> Address {
        Address {
            link: 2,
            address: text.parse().unwrap(),
            scope: 0,
            broadcast: None,
            tentative: false,
            duplicate: false,
            protocol: 0,
        }
    }

    #[test]
    fn what_the_kernel_drops_is_given_back() {
        let before = [held("10.9.0.2/24"), held("fd00::2/64"), held("fe80::1/64")];
        let lost = lost_addresses(&before, &before[..1]);
        let lost: Vec<String> = lost.iter().map(|lost| lost.address.to_string()).collect();
        assert_eq!(lost, ["fd00::2/64", "fe80::1/64"]);
        let route = |dst: &str, via: Option<&str>| {
            Route::new(dst.parse().unwrap(), via.map(|via| via.parse().unwrap()), Some(2))
        };
        let other = Route { table: 77, ..route("10.7.0.0/16", None) };
        let routes = [
            route("0.0.0.0/0", Some("10.9.0.1")),
            route("10.9.0.0/24", None),
            route("10.8.0.0/16", None),
            other,
            route("fd00::/64", None),
            route("fe80::/64", None),
            route("ff00::/8", None),
            route("::/0", Some("fd00::1")),
        ];
        let moved = moved(&routes, &before, [MAIN, 5]);
        let shown: Vec<_> =
            moved.iter().map(|route| (route.dst.to_string(), route.table)).collect();
        let expected = [("10.8.0.0/16", 5), ("10.7.0.0/16", 77), ("0.0.0.0/0", 5), ("::/0", 5)];
        let expected = expected.map(|(dst, table)| (dst.to_owned(), table));
        assert_eq!(shown, expected);
    }
}
