//! What hosts share: keys, records, and how both change.

use std::net::IpAddr;

use model::{
    AddressPin, ClusterHost, Error, HostName, IpNet, NetworkName, PublicKey, Result,
    SharedEndpoint, SharedNetwork, Timestamp, Vni,
};
use serde::{Deserialize, Serialize};

use crate::layout_version;
use crate::trust::{AuthorityRecord, CertificateRecord, Serial, Standing};

/// The name of a token: 16 hexadecimal digits. It is no secret.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TokenId(String);

impl TokenId {
    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for TokenId {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        match text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            true => Ok(Self(text)),
            false => Err(Error::invalid(format!(
                "{:?} is no token's name; `spoke host token ls` lists them",
                model::text::shown(&text)
            ))),
        }
    }
}

impl From<TokenId> for String {
    fn from(id: TokenId) -> Self {
        id.0
    }
}

/// What is known of a token besides its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRecord {
    /// SHA-256 of the secret, in hexadecimal digits; of a used one [`Secret::digest_of`]: programs that do not know of
    /// `used` take it for another token.
    ///
    /// [`Secret::digest_of`]: crate::Secret::digest_of
    pub digest: String,
    /// From when on it is worth nothing.
    pub expires: Timestamp,
    /// Which host has used it, where one has: that one may ask again, because it may not have heard the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<TokenUse>,
}

/// What a token was used for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenUse {
    /// The host that joined.
    pub host: HostName,
    /// When it joined: a later host of this name is another one.
    pub since: Timestamp,
}

/// What is known of a host, with what only later versions know of it: others than the host itself write its record too,
/// and leave that as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostRecord {
    /// What this version knows.
    #[serde(flatten)]
    pub host: ClusterHost,
    /// The rest.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// The fields of a record that this version does not know.
pub type UnknownFields = std::collections::BTreeMap<String, serde_json::Value>;

impl From<ClusterHost> for HostRecord {
    fn from(host: ClusterHost) -> Self {
        Self { host, rest: UnknownFields::new() }
    }
}

/// What a member's daemon says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AliveRecord {
    /// The latest layout that its program knows. Programs that know the first one only do not say it.
    #[serde(default = "AliveRecord::first")]
    pub layout: u32,
    /// Whether its host has the program of etcd, in a cluster with an etcd of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd: Option<bool>,
    /// What it says of the authorities that it knows, in such a cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authority: Option<Standing>,
}

impl AliveRecord {
    /// Of this program.
    pub fn new(etcd: Option<bool>, authority: Option<Standing>) -> Self {
        Self { layout: layout_version::LATEST, etcd, authority }
    }

    fn first() -> u32 {
        1
    }
}

/// What is known of a server of the cluster's own etcd.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerRecord {
    /// Whether it has a vote, and so answers; until then it only learns what the others have.
    pub voter: bool,
}

/// The name of a record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// The version of the layout.
    Layout,
    /// A member.
    Host(HostName),
    /// That a member's daemon is there; goes with its lease.
    Alive(HostName),
    /// Changes with every network that is declared or removed, and every host that joins: who declares one has seen
    /// all others, and the addresses of all hosts.
    Turn,
    /// A network of many hosts.
    Network(NetworkName),
    /// A number of a network in VXLAN packets.
    Vni(Vni),
    /// The same, of a network that is encrypted or routed.
    EncryptedVni(Vni),
    /// The same for a network with rules, of whichever transport. A program that does not know of rules finds no
    /// claim, and does not use the network.
    RuledVni(Vni),
    /// The public key of a host's tunnels, in which turn of [`Key::KeyTurn`].
    Tunnel(HostName, u32),
    /// How often the hosts have changed their keys.
    KeyTurn,
    /// A block of a network's addresses.
    Block(NetworkName, IpNet),
    /// An address that a host has apart from its blocks.
    Pin(NetworkName, IpAddr),
    /// An address of a network that a container, or the bridge, of a host has.
    Endpoint(HostName, NetworkName, IpAddr),
    /// A token with which a host can join.
    Token(TokenId),
    /// That a host runs a server of the cluster's own etcd.
    Server(HostName),
    /// A certificate of a host.
    Certificate(HostName, Serial),
    /// A certificate that is worth nothing any more.
    Revoked(Serial),
    /// The last change of the cluster's authority.
    Authority,
}

impl Key {
    /// The one that says whose the VNI of a network is.
    pub fn claim(network: &SharedNetwork) -> Self {
        match (network.rules.is_open(), network.is_special()) {
            (false, _) => Self::RuledVni(network.vni),
            (true, true) => Self::EncryptedVni(network.vni),
            (true, false) => Self::Vni(network.vni),
        }
    }
}

/// What is under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// Of [`Key::Layout`].
    Layout(u32),
    /// Of [`Key::Host`].
    Host(HostRecord),
    /// Of [`Key::Turn`].
    Mark,
    /// Of [`Key::Alive`].
    Alive(AliveRecord),
    /// Of [`Key::Network`].
    Network(Box<SharedNetwork>),
    /// Of [`Key::Vni`], [`Key::EncryptedVni`] and [`Key::RuledVni`]: whose it is.
    Vni(NetworkName),
    /// Of [`Key::Tunnel`].
    Tunnel(PublicKey),
    /// Of [`Key::KeyTurn`].
    KeyTurn(u32),
    /// Of [`Key::Block`]: whose it is.
    Block(HostName),
    /// Of [`Key::Pin`].
    Pin(AddressPin),
    /// Of [`Key::Endpoint`].
    Endpoint(SharedEndpoint),
    /// Of [`Key::Token`].
    Token(TokenRecord),
    /// Of [`Key::Server`].
    Server(ServerRecord),
    /// Of [`Key::Certificate`].
    Certificate(CertificateRecord),
    /// Of [`Key::Revoked`]: when it would have ended.
    Revoked(Timestamp),
    /// Of [`Key::Authority`].
    Authority(AuthorityRecord),
}

/// Grows with every transaction of the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Revision(pub u64);

/// A record that came, changed or went; a name or a value that cannot be read is reported as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What it is called in the cluster, for sentences.
    pub path: String,
    /// Whether it went.
    pub is_gone: bool,
    /// How long its key and its value are.
    pub bytes: usize,
    /// Its name, and what is there now; or what is wrong with one of them.
    pub read: std::result::Result<(Key, Option<(Record, Revision)>), String>,
}
