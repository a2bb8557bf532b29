//! Names in the kernel, as a function of whose they are: nothing has to be remembered to be
//! removed.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use model::{AttachmentId, Error, IfName, Layer, Mac, NetworkName, Result};
use sha2::{Digest, Sha256};

/// Marks every host interface that Spoke makes (`IFLA_GROUP`): "spok".
pub const GROUP: u32 = 0x7370_6f6b;

/// Marks the gateways of VLANs, both ends of each (`IFLA_GROUP`): "spog". They belong to a bridge and not
/// to a container.
pub const VLAN_GATEWAY: u32 = 0x7370_6f67;

/// Marks every address that Spoke gives to a third party's bridge (`IFA_PROTO`): "s".
pub const PROTOCOL: u8 = 0x73;

/// How the name of a container's end begins that waits in the host's namespace.
const GUEST: &str = "vetc";

/// The suffix of the mark of an attachment without a link's end in the host's namespace.
const HIDDEN: &str = "hidden";

/// The suffix of the mark of a third party's interface.
const READY: &str = "ready";

/// The names and addresses that follow from an attachment's identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    digest: [u8; 32],
}

impl Identity {
    /// Of an attachment.
    pub fn of(id: &AttachmentId) -> Self {
        let mut hash = Sha256::new();
        for part in [id.network.as_str(), id.container.as_str(), id.ifname.as_str()] {
            hash.update(part.as_bytes());
            hash.update([0]);
        }
        Self { digest: hash.finalize().into() }
    }

    /// The host's end of its veth pair: `veth` and 44 bits.
    pub fn host_link(&self) -> Result<IfName> {
        format!("veth{}", self.hex(11)).parse().map_err(|_: Error| Error::bug("veth name"))
    }

    /// The container's end of the pair while it is in the host's namespace: `vetc` and 44 bits.
    pub fn guest_link(&self) -> Result<IfName> {
        format!("{GUEST}{}", self.hex(11)).parse().map_err(|_: Error| Error::bug("veth name"))
    }

    /// Marks the container's end where there is none in the host (`IFLA_GROUP`). Spoke does not
    /// choose names in a container, and two networks may want the same.
    pub fn group(&self) -> u32 {
        let [a, b, c, d, ..] = self.digest;
        u32::from_be_bytes([a, b, c, d]).max(1)
    }

    /// The mark of its packet filter elements in `layer`: each layer's can be removed alone.
    pub fn mark(&self, layer: Layer) -> String {
        format!("{}/{}", self.hex(32), layer.name())
    }

    /// Says whose a host's end is that has a third party's name choice (`IFLA_IFALIAS`).
    pub fn alias(&self) -> String {
        self.mark(Layer::Link)
    }

    /// The same of a link without an end in the host, whose life nothing in the host proves.
    pub fn hidden_mark(&self) -> String {
        format!("{}/{HIDDEN}", self.hex(32))
    }

    /// Begins the alias of a third party's interface as long as this attachment has it.
    pub fn external_mark(&self) -> String {
        format!("{}/{READY}", self.hex(32))
    }

    /// Whether an alias begins like [`Identity::external_mark`], of whichever attachment.
    pub fn is_external_mark(alias: &str) -> bool {
        let mark = alias.split(' ').next().unwrap_or_default();
        let is_digits = |digits: &str| {
            digits.len() == 32 && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
        };
        mark.split_once('/').is_some_and(|(digits, rest)| is_digits(digits) && rest == READY)
    }

    /// The prefix of its marks, before a slash, in every layer.
    pub fn digits(&self) -> String {
        self.hex(32)
    }

    /// The hardware address of the container's interface, where none is asked for and there is no
    /// address to derive it from ([`mac_of`]).
    pub fn mac(&self) -> Mac {
        short(&self.digest[16..])
    }

    /// The hardware address of the host's end.
    pub fn host_mac(&self) -> Mac {
        short(&self.digest[24..])
    }

    /// Whether `mark` is this identity's, in whichever layer.
    #[cfg(test)]
    pub(crate) fn made(&self, mark: &str) -> bool {
        mark.split_once('/').is_some_and(|(identity, _)| identity == self.digits())
    }

    fn hex(&self, digits: usize) -> String {
        let mut text: String = self.digest.iter().map(|byte| format!("{byte:02x}")).collect();
        text.truncate(digits);
        text
    }
}

/// The host's end of the veth pair with this mark; `None` where it is no mark of Spoke's.
pub fn host_link_of(mark: &str) -> Option<IfName> {
    let (identity, _) = mark.split_once('/')?;
    format!("veth{}", identity.get(..11)?).parse().ok()
}

/// Whether the link with this mark has no end in the host ([`Identity::hidden_mark`]).
pub fn is_hidden(mark: &str) -> bool {
    mark.split_once('/').is_some_and(|(_, layer)| layer == HIDDEN)
}

/// Whether an interface of Spoke's is a container's end that waits in the host's namespace.
pub fn is_guest_link(name: &IfName) -> bool {
    name.as_str().starts_with(GUEST)
}

/// The group ([`Identity::group`]) of the attachment with this name in the host's namespace; `None`
/// where it is not the name of a container's end.
pub fn group_of(guest: &IfName) -> Option<u32> {
    let digits = guest.as_str().strip_prefix(GUEST)?.get(..8)?;
    u32::from_str_radix(digits, 16).ok().map(|group| group.max(1))
}

/// The host's own device on the segment of a network's parent: `vets` and 44 bits.
pub fn shim_link(network: &NetworkName) -> Result<IfName> {
    let digest: [u8; 32] = Sha256::digest(network.as_str().as_bytes()).into();
    format!("vets{}", Identity { digest }.hex(11))
        .parse()
        .map_err(|_: Error| Error::bug("shim name"))
}

/// The hardware address of that.
pub fn shim_mac(network: &NetworkName) -> Mac {
    short(&Sha256::digest(format!("shim/{network}").as_bytes()))
}

/// The networks that share a device of Spoke's: eight digits each, in its alias, because a link in
/// a container cannot be seen from the device below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Users(BTreeSet<String>);

impl Users {
    /// Those of an alias.
    pub(crate) fn read(alias: Option<&str>) -> Self {
        let is_one =
            |word: &&str| word.len() == 8 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        Self(alias.unwrap_or_default().split(' ').filter(is_one).map(str::to_owned).collect())
    }

    /// Whether it is one of them.
    pub(crate) fn has(&self, network: &NetworkName) -> bool {
        self.0.contains(&Self::digits(network))
    }

    /// With another one; `None` where it is one of them.
    pub(crate) fn with(mut self, network: &NetworkName) -> Option<Self> {
        self.0.insert(Self::digits(network)).then_some(self)
    }

    /// The users without one; `None` where none is left.
    pub(crate) fn without(mut self, network: &NetworkName) -> Option<Self> {
        self.0.remove(&Self::digits(network));
        (!self.0.is_empty()).then_some(self)
    }

    fn digits(network: &NetworkName) -> String {
        let digest: [u8; 32] = Sha256::digest(network.as_str().as_bytes()).into();
        Identity { digest }.hex(8)
    }
}

impl fmt::Display for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<&str> = self.0.iter().map(String::as_str).collect();
        f.write_str(&words.join(" "))
    }
}

/// Whether an interface of this group is one that Spoke made in the host.
pub fn is_ours_by(group: u32) -> bool {
    [GROUP, VLAN_GATEWAY].contains(&group)
}

/// The hardware address of a bridge: fixed from the start, so that it does not follow its ports.
pub fn bridge_mac(bridge: &IfName) -> Mac {
    short(&Sha256::digest(bridge.as_str().as_bytes()))
}

/// The address that the kernel gives an interface on its link (RFC 4291, appendix A).
pub(crate) fn link_local(mac: Mac) -> Ipv6Addr {
    let [a, b, c, d, e, f] = mac.octets();
    let interface = [a ^ 2, b, c, 0xff, 0xfe, d, e, f];
    let prefix = 0xfe80_u128 << 112;
    (prefix | u128::from(u64::from_be_bytes(interface))).into()
}

/// The hardware address of the holder of an address in a network. It moves with the address from
/// one container to the next, so that no neighbour needs an announcement.
pub fn mac_of(network: &NetworkName, address: IpAddr) -> Mac {
    let mut hash = Sha256::new();
    hash.update(network.as_str().as_bytes());
    hash.update([0]);
    hash.update(address.to_string().as_bytes());
    short(&hash.finalize())
}

/// What distinguishes a text from others, in sixteen digits.
pub(crate) fn digest_of(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

fn short(digest: &[u8]) -> Mac {
    let mut octets = [0; 6];
    for (octet, byte) in octets.iter_mut().zip(digest) {
        *octet = *byte;
    }
    Mac::local(octets)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(network: &str, container: &str) -> AttachmentId {
        doubles::attachment_id(network, container)
    }

    #[test]
    fn the_last_user_is_known() {
        let (a, b) = ("a".parse().unwrap(), "b".parse().unwrap());
        let both = Users::default().with(&a).unwrap().with(&b).unwrap();
        let read = Users::read(Some(&both.to_string()));
        assert!(read == both && read.clone().with(&a).is_none());
        let one = read.without(&a).unwrap();
        assert_eq!(one.without(&b), None);
        assert_eq!(Users::read(Some("whatever it is")).without(&a), None);
    }

    #[test]
    fn names_differ_where_identities_do() {
        let (one, other) = (Identity::of(&id("a", "bc")), Identity::of(&id("ab", "c")));
        assert_ne!(one.host_link().unwrap(), other.host_link().unwrap());
        assert_ne!(one.guest_link().unwrap(), one.host_link().unwrap());
        assert!(is_guest_link(&one.guest_link().unwrap()));
        assert!(!is_guest_link(&one.host_link().unwrap()));
        assert_ne!(one.mac(), one.host_mac());
        assert_ne!(one.mark(Layer::Link), one.mark(Layer::Publish));
        assert_eq!(one, Identity::of(&id("a", "bc")));
        assert_eq!(group_of(&one.guest_link().unwrap()), Some(one.group()));
        assert_eq!(group_of(&one.host_link().unwrap()), None);
        assert_ne!(shim_link(&"a".parse().unwrap()).ok(), shim_link(&"b".parse().unwrap()).ok());
        assert!(one.made(&one.hidden_mark()) && is_hidden(&one.hidden_mark()));
        assert!(!is_hidden(&one.mark(Layer::Link)));
        assert!(one.made(&one.mark(Layer::Link)) && !one.made(&other.mark(Layer::Link)));
        assert_eq!(host_link_of(&one.mark(Layer::Publish)), one.host_link().ok());
        let address = "10.0.0.2".parse().unwrap();
        let of = |network: &str| mac_of(&network.parse().unwrap(), address);
        assert!(of("a") == of("a") && of("a") != of("b"));
    }
}
