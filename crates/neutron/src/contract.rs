//! The names of kuryr-libnetwork 18, and how Spoke's resources are distinguished from others.
//!
//! An upgraded host must find its old resources, and the other way round: these names and tags are
//! the contract. Spoke adds a mark in the description, set by the request that makes a resource, so
//! that no resource of Spoke's is ever without one.

use std::fmt;

use ipnet::IpNet;
use model::{Attachment, Error, LinkKind, PortUser, Result};
use sha2::{Digest, Sha256};

use crate::api::PortResource;

/// Neutron's `device_owner` of every container's port, and a tag of those that kuryr made.
pub const OWNER: &str = "compute:kuryr";

/// The name of a port that no container has yet; it keeps it.
pub const PORT_NAME: &str = "kuryr-unbound-port";

/// The tag of a port that existed before.
pub const EXISTING_PORT: &str = "kuryr.port.existing";

/// The tag of a subnet pool that existed before.
pub const EXISTING_POOL: &str = "kuryr.subnetpool.existing";

/// The prefix of the tag of a network that existed before; twelve digits of its Docker id follow.
pub const EXISTING_NETWORK: &str = "kuryr.net.existing:";

/// The prefixes of the tags that hold the first and the second half of a Docker id, of networks and
/// of ports.
const HALVES: [&str; 2] = ["kuryr.net.uuid.lh:", "kuryr.net.uuid.uh:"];

/// How long half an id is.
const HALF: usize = 32;

/// The default pools of kuryr's configuration, of either family.
pub const DEFAULT_POOLS: [&str; 2] = ["kuryr", "kuryr6"];

/// The default prefix of the names of pools.
pub const POOL_PREFIX: &str = "kuryrPool";

/// The prefix of the tags that count the users of a shared resource.
const USE: &str = "spoke.use:";

/// The tags that a network or port has for a Docker id. A short id, such as swarm's, gives one.
pub fn id_tags(id: &str) -> Vec<String> {
    let (lower, upper) = id.split_at_checked(HALF).unwrap_or((id, ""));
    let halves = HALVES.iter().zip([lower, upper.get(..HALF).unwrap_or(upper)]);
    halves.filter(|(_, half)| !half.is_empty()).map(|(tag, half)| format!("{tag}{half}")).collect()
}

/// The Docker id that tags speak of.
pub fn id_of_tags<'a>(tags: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let mut halves = [None, None];
    for tag in tags {
        for (half, prefix) in halves.iter_mut().zip(HALVES) {
            *half = half.or(tag.strip_prefix(prefix));
        }
    }
    halves[0].map(|lower| format!("{lower}{}", halves[1].unwrap_or_default()))
}

/// Whether a tag holds half of a Docker id.
pub fn is_id_tag(tag: &str) -> bool {
    HALVES.iter().any(|prefix| tag.starts_with(prefix))
}

/// The name of a network that Spoke makes: `kuryr-net-` and eight digits of its Docker id.
pub fn network_name(id: &str) -> String {
    format!("kuryr-net-{}", id.get(..8).unwrap_or(id))
}

/// The name of a subnet that Spoke makes.
pub fn subnet_name(net: &IpNet) -> String {
    format!("{SUBNET}{net}")
}

/// The prefix of the names of subnets that kuryr made.
pub const SUBNET: &str = "kuryr-subnet-";

/// The name of a pool that Spoke makes.
pub fn pool_name(prefix: &str, net: &IpNet) -> String {
    format!("{prefix}-{net}")
}

/// The name of the security group of a port's exposed ports.
pub fn exposed_group_name(port: &str) -> String {
    format!("{port}-exposed_ports")
}

/// Neutron's `device_id` of an attachment: an endpoint's id, where the runtime is Docker; else a
/// digest of network, container and interface. 64 hexadecimal digits either way. A record that has a
/// port keeps the id by which that is known.
pub fn device_id(attachment: &Attachment) -> String {
    let id = &attachment.id;
    if let Some(container) = former_device_id(attachment)
        && port_user(attachment) == PortUser::Container
    {
        return container;
    }
    hex(&Sha256::digest(format!("{}/{}/{}", id.network, id.container, id.ifname).as_bytes()))
}

/// The id that an earlier version gave the port of the attachment, whatever the runtime: the container's, of 64
/// hexadecimal digits. None where it gave the digest.
pub fn former_device_id(attachment: &Attachment) -> Option<String> {
    let container = attachment.id.container.as_str();
    let is_id = container.len() == 2 * HALF && container.bytes().all(|it| it.is_ascii_hexdigit());
    is_id.then(|| container.to_owned())
}

/// By which id the port of an attachment is known, or will be.
pub fn port_user(attachment: &Attachment) -> PortUser {
    let binding = match attachment.wiring.link.as_ref().map(|link| &link.kind) {
        Some(LinkKind::Neutron(link)) => link.binding.as_ref(),
        Some(_) | None => None,
    };
    match (binding, &attachment.alias) {
        (Some(binding), _) => binding.user,
        (None, Some(_)) => PortUser::Container,
        (None, None) => PortUser::Attachment,
    }
}

/// A host, as Neutron knows it (`binding:host_id`): 1 to 255 printable characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostId(String);

impl HostId {
    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Eight hexadecimal digits of it, for tags, which are short.
    pub fn digest(&self) -> String {
        hex(&Sha256::digest(self.0.as_bytes())[..4])
    }
}

impl TryFrom<String> for HostId {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        let is_plain = |c: char| !c.is_control() && !c.is_whitespace();
        match (1..=255).contains(&text.len()) && text.chars().all(is_plain) {
            true => Ok(Self(text)),
            false => Err(Error::invalid(format!("{text:?} is no name of a host for Neutron"))),
        }
    }
}

impl fmt::Display for HostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The mark in the description of everything that we make: `spoke:HOST:WHAT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Which host made it.
    pub host: String,
    /// The purpose of the resource: unique among those that this host makes, so that a process
    /// without an answer finds what was made.
    pub what: String,
}

impl Mark {
    const PREFIX: &'static str = "spoke:";

    /// For something that this host makes.
    pub fn new(host: &HostId, what: impl Into<String>) -> Self {
        Self { host: host.as_str().to_owned(), what: what.into() }
    }

    /// The mark in a description; `None` where it is not Spoke's.
    pub fn read(description: &str) -> Option<Self> {
        let (host, what) = description.strip_prefix(Self::PREFIX)?.rsplit_once(':')?;
        Some(Self { host: host.to_owned(), what: what.to_owned() })
    }

    /// Whether this host made it.
    pub fn is_of(&self, host: &HostId) -> bool {
        self.host == host.as_str()
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}:{}", Self::PREFIX, self.host, self.what)
    }
}

/// A tag that says that this host uses something, once.
pub fn use_tag(host: &HostId, nonce: u32) -> String {
    format!("{USE}{}:{nonce:08x}", host.digest())
}

/// Whether a tag says that the resource is in use.
pub fn is_use(tag: &str) -> bool {
    tag.starts_with(USE)
}

/// Whether a tag says that this host uses something.
pub fn is_use_of(tag: &str, host: &HostId) -> bool {
    tag.strip_prefix(USE).is_some_and(|rest| rest.starts_with(&host.digest()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether kuryr-libnetwork made it.
pub fn is_kuryrs(port: &PortResource) -> bool {
    let own_name = format!("{}-port", port.device_id);
    match port.is_tagged(OWNER) {
        true => !port.is_tagged(EXISTING_PORT),
        false => !port.device_id.is_empty() && port.name == own_name,
    }
}

/// Whether kuryr-libnetwork made it for an address that was requested; it keeps its name when a container gets it.
pub fn is_kuryrs_address(port: &PortResource) -> bool {
    port.is_tagged(OWNER) && !port.is_tagged(EXISTING_PORT) && port.name == PORT_NAME
}

#[cfg(test)]
mod tests {
    use model::{Layer, Link, NeutronLink, Phase, PortSpec, Process, Runtime, Timestamp};

    use super::*;

    #[test]
    fn ids_become_tags_and_tags_ids() {
        let id = "286eddb51ebca09339cb17aaec05e48ffe60659ced6f3fc41b020b0eb506d364";
        let tags = id_tags(id);
        assert_eq!(tags[0], "kuryr.net.uuid.lh:286eddb51ebca09339cb17aaec05e48f");
        assert_eq!(tags[1], "kuryr.net.uuid.uh:fe60659ced6f3fc41b020b0eb506d364");
        assert_eq!(id_of_tags(tags.iter().rev().map(String::as_str)).unwrap(), id);
        let swarm = "x4b2k9s0dj3k2l1m5n6o7p8q9";
        assert_eq!(id_tags(swarm), [format!("kuryr.net.uuid.lh:{swarm}")]);
        assert_eq!(id_of_tags(["compute:kuryr"]), None);
    }

    /// A record of an earlier version, whose binding does not say by which id the port is known.
    #[test]
    fn a_port_keeps_the_id_by_which_it_is_known() {
        let container = "286eddb51ebca09339cb17aaec05e48ffe60659ced6f3fc41b020b0eb506d364";
        let id = doubles::attachment_id("front", container);
        let phase = Phase::Attaching { by: Process { pid: 1, start: 1 } };
        let mut made = Attachment::new(id, Layer::Link, Runtime::Podman, Timestamp(0), phase);
        let own = device_id(&made);
        assert!(own != container && own.len() == container.len());
        assert_eq!(former_device_id(&made).as_deref(), Some(container));
        let binding = r#"{"port":"p","ownership":"own","vif":"tap"}"#;
        let mut link = NeutronLink {
            network: "net".parse().unwrap(),
            subnets: Vec::new(),
            spec: PortSpec::default(),
            binding: Some(serde_json::from_str(binding).unwrap()),
        };
        let link_of = |link: &NeutronLink| {
            let kind = LinkKind::Neutron(Box::new(link.clone()));
            Some(Link { kind, name: None, mac: None, mtu: None })
        };
        made.wiring.link = link_of(&link);
        assert_eq!(device_id(&made), container);
        link.binding.as_mut().unwrap().user = PortUser::Attachment;
        made.wiring.link = link_of(&link);
        assert_eq!(device_id(&made), own);
        // An endpoint of Docker's.
        link.binding = None;
        made.wiring.link = link_of(&link);
        made.alias = Some("0123456789ab".parse().unwrap());
        assert_eq!(device_id(&made), container);
    }

    #[test]
    fn marks_are_read_back() {
        let host = HostId::try_from("node:1".to_owned()).unwrap();
        let mark = Mark::new(&host, "4f");
        assert_eq!(Mark::read(&mark.to_string()), Some(mark.clone()));
        assert!(mark.is_of(&host) && Mark::read("my own").is_none());
        let tag = use_tag(&host, 7);
        assert!(is_use(&tag) && is_use_of(&tag, &host) && tag.len() <= 60);
    }
}
