//! The path of a record's file.
//!
//! The path of a key is injective: no separator can occur in what it separates. It is never read
//! back, because every file also holds its key. Names that start with a dot are files in the
//! making; no record has one.

use engine::port::{Key, Prefix};
use model::{IfName, IpNet, OwnerName, SubnetId};

use super::file::Kind;
use super::naming::Naming;

/// The path of the key's file below the root of its half.
pub(super) fn of(key: &Key) -> String {
    match key {
        Key::Network(name) => format!("networks/{name}"),
        Key::Configured(name) => format!("configured/{name}"),
        Key::Title(name) => format!("titles/{name}"),
        Key::Attachment(id, layer) => {
            let (interface, layer) = (printable(&id.ifname), layer.name());
            format!("attachments/{}/{}:{interface}:{layer}", id.network, id.container)
        }
        Key::Lease(space, address) => format!("leases/{}/{address}", space.label()),
        Key::Cursor(pool) => format!("cursors/{}:{}", pool.network, pool.index),
        Key::Port(protocol, port) => format!("ports/{protocol}:{port}"),
        Key::Reservation(space, address) => format!("reservations/{}/{address}", space.label()),
        Key::Sticky(network, owner) => format!("sticky/{network}/{}", owner_name(owner)),
        Key::Subnet(id) => format!("subnets/{}", subnet_name(id)),
        Key::Alias(id) => format!("aliases/{id}"),
        Key::Sandbox(container) => format!("sandboxes/{container}"),
        Key::Endpoint(id) => {
            format!("endpoints/{}/{}:{}", id.network, id.container, printable(&id.ifname))
        }
        Key::Amendment(network, runtime, name) => {
            format!("amendments/{network}/{runtime}{}", owner_name(name))
        }
        Key::Usage(network, runtime, name, ifname) => {
            // An interface's name has no colon here: the last one ends the owner's.
            format!("usage/{network}/{runtime}{}:{}", owner_name(name), printable(ifname))
        }
    }
}

/// The path of the file in which slot number `slot` of a transaction is prepared: beside `path`,
/// so that putting it into place is a rename within one directory.
pub(super) fn prepared(path: &str, slot: usize) -> String {
    format!("{}/.{slot}.new", parent(path))
}

/// The directory of a path that has one.
pub(super) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or(".", |(directory, _)| directory)
}

/// Where damaged files go that something else has to take the place of.
pub(super) const ASIDE: &str = "damaged";

/// Where the keys of a prefix are.
#[derive(Debug)]
pub(super) struct Scan {
    /// Which records these are.
    pub(super) kind: Kind,
    /// The directory below the root.
    pub(super) directory: String,
    /// Whether the files are in it, or in its directories.
    pub(super) nested: bool,
    /// How the names of the files begin that are meant.
    pub(super) begin: String,
    /// What those files hold that are meant, where not all are.
    pub(super) naming: Option<Naming>,
}

impl Scan {
    /// Every place where a record can be.
    pub(super) fn everything() -> Vec<Self> {
        let prefixes = [
            Prefix::Networks,
            Prefix::Configured,
            Prefix::Attachments,
            Prefix::AllLeases,
            Prefix::Ports,
            Prefix::Reservations,
            Prefix::Subnets,
            Prefix::Aliases,
            Prefix::Sandboxes,
            Prefix::Endpoints,
            Prefix::Amendments,
            Prefix::Usages,
        ];
        let cursors = Self::flat(Kind::Cursor, "cursors".into());
        let titles = Self::flat(Kind::Title, "titles".into());
        let sticky = Self::nested(Kind::Sticky, "sticky");
        prefixes.iter().map(Self::of).chain([cursors, titles, sticky]).collect()
    }

    fn flat(kind: Kind, directory: String) -> Self {
        Self { kind, directory, nested: false, begin: String::new(), naming: None }
    }

    fn nested(kind: Kind, directory: &str) -> Self {
        Self { nested: true, ..Self::flat(kind, directory.to_owned()) }
    }

    /// Where the attachments are whose containers may be called so.
    pub(super) fn called(name: &str) -> Self {
        Self { naming: Naming::of(name), ..Self::of(&Prefix::Attachments) }
    }

    /// Whether a file with these contents is meant.
    pub(super) fn is_meant(&self, bytes: &[u8]) -> bool {
        self.naming.as_ref().is_none_or(|naming| naming.may_be_in(bytes))
    }

    pub(super) fn of(prefix: &Prefix) -> Self {
        let (flat, nested) = (Self::flat, Self::nested);
        match prefix {
            Prefix::Networks => flat(Kind::Network, "networks".into()),
            Prefix::Configured => flat(Kind::Configured, "configured".into()),
            Prefix::Attachments => nested(Kind::Attachment, "attachments"),
            Prefix::AttachmentsOf(network) => {
                flat(Kind::Attachment, format!("attachments/{network}"))
            }
            // No id holds the separator.
            Prefix::AttachmentsOfContainer(container) => {
                let begin = format!("{container}:");
                Self { begin, ..nested(Kind::Attachment, "attachments") }
            }
            Prefix::Leases(space) => flat(Kind::Lease, format!("leases/{}", space.label())),
            Prefix::AllLeases => nested(Kind::Lease, "leases"),
            Prefix::Ports => flat(Kind::Port, "ports".into()),
            Prefix::Reservations => nested(Kind::Reservation, "reservations"),
            Prefix::StickyOf(network) => flat(Kind::Sticky, format!("sticky/{network}")),
            Prefix::Subnets => flat(Kind::Subnet, "subnets".into()),
            Prefix::Aliases => flat(Kind::Alias, "aliases".into()),
            Prefix::Sandboxes => flat(Kind::Sandbox, "sandboxes".into()),
            Prefix::Endpoints => nested(Kind::Endpoint, "endpoints"),
            Prefix::Amendments => nested(Kind::Amendment, "amendments"),
            Prefix::AmendmentsOf(network) => flat(Kind::Amendment, format!("amendments/{network}")),
            Prefix::Usages => nested(Kind::Usage, "usage"),
            Prefix::UsagesOf(network) => flat(Kind::Usage, format!("usage/{network}")),
            Prefix::EndpointsOf(network) => flat(Kind::Endpoint, format!("endpoints/{network}")),
        }
    }
}

/// The separators occur neither in a space's name nor in an address.
fn subnet_name(id: &SubnetId) -> String {
    let net = |net: &IpNet| format!("{}_{}", net.addr(), net.prefix_len());
    match &id.part {
        Some(part) => format!("{},{},{}", id.space.label(), net(&id.net), net(part)),
        None => format!("{},{}", id.space.label(), net(&id.net)),
    }
}

/// At most 45 bytes, so that container (200), interface and layer (8) fill one file name (255).
fn printable(name: &IfName) -> String {
    let mut text = String::with_capacity(16);
    for byte in name.as_str().bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-') {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

/// An owner's name holds no space, so a space can stand for the slash without growing past the
/// length of a file name; the prefix keeps `.` and `..` away.
fn owner_name(owner: &OwnerName) -> String {
    format!("={}", owner.as_str().replace('/', " "))
}

#[cfg(test)]
mod tests {
    use model::{Layer, Space};

    use super::*;
    use model::{AttachmentId, PoolId};
    use proptest::prelude::*;

    fn attachment(network: &str, container: &str, ifname: &str) -> Key {
        let id = AttachmentId {
            network: network.parse().unwrap(),
            container: container.parse().unwrap(),
            ifname: ifname.parse().unwrap(),
        };
        Key::Attachment(id, Layer::Firewall)
    }

    #[test]
    fn the_longest_names_fit() {
        let long = "x".repeat(200);
        let worst = of(&attachment(&long, &long, "@@@@@@@@@@@@@@@"));
        assert!(worst.split('/').all(|part| part.len() <= 255), "{worst}");
        let owner = Key::Sticky("n".parse().unwrap(), "/".repeat(200).parse().unwrap());
        assert!(of(&owner).split('/').all(|part| part.len() <= 255));
    }

    #[test]
    fn paths_are_readable() {
        let space = Space::Network("lan".parse().unwrap());
        let address = "2001:DB8:0::1".parse().unwrap();
        let port = Key::Port(model::Protocol::Udp, 53.try_into().unwrap());
        let cursor = Key::Cursor(PoolId { network: "n".parse().unwrap(), index: 1 });
        let sticky = Key::Sticky("n".parse().unwrap(), "default/web-0".parse().unwrap());
        let paths = [
            (attachment("n", "c", "e@\u{1}"), "attachments/n/c:e%40%01:firewall"),
            (Key::Lease(space, address), "leases/lan/2001:db8::1"),
            (Key::Reservation(Space::Host, address), "reservations/@host/2001:db8::1"),
            (port, "ports/udp:53"),
            (cursor, "cursors/n:1"),
            (sticky, "sticky/n/=default web-0"),
        ];
        for (key, path) in paths {
            assert_eq!(of(&key), path);
        }
        assert_eq!(prepared("leases/@host/10.0.0.1", 3), "leases/@host/.3.new");
    }

    proptest! {
        #[test]
        fn different_keys_have_different_paths(
            a in ("[a.]{1,3}", "[a.-]{1,3}", "[^/:\\s]{1,3}"),
            b in ("[a.]{1,3}", "[a.-]{1,3}", "[^/:\\s]{1,3}"),
        ) {
            let key = |(network, container, ifname): &(String, String, String)| {
                let id = AttachmentId {
                    network: format!("n{network}").parse().ok()?,
                    container: format!("c{container}").parse().ok()?,
                    ifname: ifname.parse().ok()?,
                };
                Some(Key::Attachment(id, Layer::Link))
            };
            if let (Some(one), Some(other)) = (key(&a), key(&b)) {
                prop_assert_eq!(one == other, of(&one) == of(&other));
            }
        }

        #[test]
        fn owners_stay_one_name(a in "[./a=%]{1,4}", b in "[./a=%]{1,4}") {
            let key = |owner: &str| Key::Sticky("n".parse().unwrap(), owner.parse().unwrap());
            let (one, other) = (of(&key(&a)), of(&key(&b)));
            prop_assert_eq!(a == b, one == other);
            prop_assert_eq!(one.matches('/').count(), 2);
        }
    }
}
