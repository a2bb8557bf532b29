//! What the command line asks of the daemon about other hosts: one line of JSON each way, on a socket
//! that only the superuser may connect to. Only the daemon speaks to etcd.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cluster::{Access, TokenId, Url};
use model::{
    EngineKind, Error, HostName, IfName, IpNet, Ipv4Net, Ipv6Net, Kind, Labels, Mtu,
    NamedElsewhere, NetworkName, OwnerName, Placement, Result, SharedNetwork, Timestamp,
    TransportChoice,
};
use serde::{Deserialize, Serialize};
use spec::ManyHostsSpec;

/// The socket, below the runtime directory.
const SOCKET: &str = "hosts.sock";
/// What is known of the cluster on this host, below the state directory.
const PLACE: &str = "hosts";
/// Below that: a file for each network that the daemon made.
const NETWORKS: &str = "networks";
/// Beside that: a file for each network that it makes in engines.
const ENGINES: &str = "engines";
/// Beside that: a file for each network that Docker is making for many hosts.
const ASKED: &str = "asked";
/// What containers of other hosts are called, below the runtime directory.
const NAMES: &str = "hosts-names.json";
/// Below the first: as whom this host is a member.
pub const MEMBER: &str = "member.json";
/// Longer lines are refused, in bytes.
const LONGEST: u64 = 16 << 20;
/// How long the daemon may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Where the daemon listens.
pub fn socket(runtime: &Path) -> PathBuf {
    runtime.join(SOCKET)
}

/// Where the daemon keeps what it knows of the cluster.
pub fn place(state: &Path) -> PathBuf {
    state.join(PLACE)
}

/// Where it keeps what it knows of the networks that it made; `place` is that of the cluster.
pub fn networks(place: &Path) -> PathBuf {
    place.join(NETWORKS)
}

/// Where the daemon keeps what it has heard of the names of containers of other hosts.
pub fn names(runtime: &Path) -> PathBuf {
    runtime.join(NAMES)
}

/// Where it keeps in which engines it made them.
pub fn engines(place: &Path) -> PathBuf {
    place.join(ENGINES)
}

/// Where it keeps what Docker asked for and is not there yet.
pub fn asked(place: &Path) -> PathBuf {
    place.join(ASKED)
}

/// Whether this host is a member of a cluster.
pub fn is_member(place: &Path) -> bool {
    place.join(MEMBER).exists()
}

/// What is asked.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ask {
    Init {
        etcd: Vec<Url>,
        me: Me,
    },
    Join {
        token: String,
        me: Me,
    },
    Hosts,
    Check,
    Rtt,
    Remove {
        name: HostName,
        force: bool,
    },
    /// Of the host that is asked where none is named.
    Drain {
        name: Option<HostName>,
        undo: bool,
    },
    Label {
        name: HostName,
        labels: Labels,
        remove: Vec<String>,
    },
    CreateToken {
        seconds: u32,
    },
    Tokens,
    RemoveToken {
        id: TokenId,
    },
    RotateKeys,
    /// Begins a change of the cluster's authority, or leaves out of one that goes on.
    RotateAuthority {
        without: BTreeSet<HostName>,
    },
    AbandonAuthority,
    Authority,
    AcceptOlder,
    Names,
    Routes,
    CreateNetwork(Box<Wanted>),
    RemoveNetwork {
        name: NetworkName,
    },
    Pin {
        network: NetworkName,
        address: IpAddr,
        by: String,
    },
    /// The addresses that other hosts keep for a name.
    Follow {
        network: NetworkName,
        name: OwnerName,
    },
}

/// As whom a host becomes a member.
#[derive(Debug, Serialize, Deserialize)]
pub struct Me {
    pub name: HostName,
    pub address: Option<IpAddr>,
    pub access: Access,
}

/// A network for many hosts.
#[derive(Debug, Serialize, Deserialize)]
pub struct Wanted {
    pub name: NetworkName,
    pub subnet: Option<Ipv4Net>,
    /// Where it is named without one of IPv4, the network has no other, unless `ipv6` says so.
    pub subnet6: Option<Ipv6Net>,
    /// Whether it has subnets of both families, also where none is named.
    pub ipv6: bool,
    /// Whether it has no IPv4 subnet, also where none of IPv6 is named.
    #[serde(default)]
    pub only_v6: bool,
    pub block: Option<u8>,
    pub mtu: Option<Mtu>,
    pub hosts: Placement,
    /// Whether it is encrypted between hosts.
    #[serde(default)]
    pub encrypt: bool,
    /// How its packets go from host to host.
    #[serde(default)]
    pub transport: TransportChoice,
    /// In which engines it is made.
    #[serde(default)]
    pub engines: BTreeSet<EngineKind>,
    /// Whether each host answers queries for the names of its containers.
    #[serde(default)]
    pub names: bool,
    /// Whether names keep their addresses.
    #[serde(default)]
    pub sticky: bool,
    /// Whether one of its name and subnet is as good, and this host is the one that has to have it now.
    #[serde(default)]
    pub or_join: bool,
}

impl Wanted {
    /// One of these subnets that an engine's own command, or its configuration, asks for.
    ///
    /// # Errors
    /// As [`one_of_each`].
    pub fn of(name: &NetworkName, subnets: &[IpNet], spec: &ManyHostsSpec) -> Result<Self> {
        let (subnet, subnet6) = one_of_each(subnets)?;
        Ok(Self {
            name: name.clone(),
            subnet,
            subnet6,
            ipv6: false,
            only_v6: false,
            block: None,
            mtu: None,
            hosts: spec.hosts.clone(),
            encrypt: false,
            transport: spec.transport,
            engines: spec.engines.clone(),
            names: spec.names,
            sticky: spec.sticky,
            or_join: false,
        })
    }
}

/// Has the daemon declare a network for many hosts.
///
/// # Errors
/// As the daemon's; `Conflict` where this host cannot have it.
pub fn declare(runtime: &Path, wanted: Wanted) -> Result<()> {
    let name = wanted.name.clone();
    match ask(runtime, &Ask::CreateNetwork(Box::new(wanted)))? {
        Reply::Network { failure: Some(failure), .. } => Err(Error::conflict(format!(
            "network {name} is declared for the cluster, and this host cannot have it: {failure}"
        ))),
        _ => Ok(()),
    }
}

/// The subnets of a network of many hosts by family: one of each.
///
/// # Errors
/// `Unsupported` where there are more.
pub fn one_of_each(subnets: &[IpNet]) -> Result<(Option<Ipv4Net>, Option<Ipv6Net>)> {
    let (mut subnet, mut subnet6) = (None, None);
    for net in subnets {
        let is_second = match net {
            IpNet::V4(net) => subnet.replace(*net).is_some(),
            IpNet::V6(net) => subnet6.replace(*net).is_some(),
        };
        if is_second {
            return Err(Error::unsupported(
                "a network of many hosts has one IPv4 subnet, and one of IPv6 beside it where that is wanted",
            ));
        }
    }
    Ok((subnet, subnet6))
}

/// What is answered.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    Done,
    Token {
        token: String,
        expires: Timestamp,
    },
    Hosts(HostsView),
    Checks(Vec<HostCheck>),
    Rtts(Vec<HostRtt>),
    Routes(Vec<HostRoute>),
    Tokens(BTreeMap<TokenId, Timestamp>),
    Authority(AuthorityView),
    /// What containers of other hosts are called.
    Names(Vec<NamedElsewhere>),
    Network {
        network: SharedNetwork,
        missing: Vec<HostName>,
        failure: Option<String>,
        /// What is to be said of the engines of the host that was asked.
        #[serde(default)]
        notes: Vec<String>,
    },
}

/// Where addresses of a network are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostRoute {
    pub network: NetworkName,
    /// A block, or an address that is elsewhere than its block.
    pub net: IpNet,
    pub host: HostName,
    /// The next hop; none where others do not know it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<IpAddr>,
    /// The device of the asked host that is on the segment, where the next hop is of that only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<IfName>,
}

/// The hosts, as this one sees them.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct HostsView {
    pub hosts: Vec<HostView>,
    /// Since when etcd does not answer, and what was said last.
    pub lost: Option<(Timestamp, String)>,
    /// What others wrote that is not used, and what does not work.
    pub notes: Vec<String>,
}

/// A host.
#[derive(Debug, Serialize, Deserialize)]
pub struct HostView {
    pub name: String,
    pub address: String,
    /// `up`, `draining` where it takes no more containers, or `lost` where its daemon does not renew its lease.
    pub state: String,
    /// Whether it takes no more containers.
    pub draining: bool,
    /// By which networks choose it.
    pub labels: BTreeMap<String, String>,
    /// Whether it is the one that is asked.
    pub own: bool,
    /// `server` where it runs one of the cluster's own etcd, `learns` until that has a vote.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etcd: Option<String>,
    /// Its blocks.
    pub blocks: BTreeMap<String, String>,
    /// How many containers it has on networks of the cluster.
    pub containers: usize,
}

/// The cluster's authority.
#[derive(Debug, Serialize, Deserialize)]
pub struct AuthorityView {
    /// SHA-256 of its certificate, in hexadecimal digits.
    pub authority: String,
    /// How far the last change of it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// When that began, in seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    pub hosts: Vec<HostAuthority>,
}

/// What a host says of the authorities that it knows.
#[derive(Debug, Serialize, Deserialize)]
pub struct HostAuthority {
    pub name: String,
    /// Which has signed its certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// Which it trusts.
    pub trusted: Vec<String>,
    /// `ready`, `waited for`, `lost`, or `left out`.
    pub state: String,
}

/// What was found on the way to another host.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct HostCheck {
    pub name: String,
    pub address: String,
    /// By which it was asked.
    pub network: Option<String>,
    /// From a packet to its answer.
    pub microseconds: Option<u128>,
    /// The largest packet of the network that arrives and comes back, in bytes.
    pub mtu: Option<u32>,
    /// By how much its clock is ahead.
    pub clock_milliseconds: Option<i64>,
    /// What is wrong, in sentences.
    pub problems: Vec<String>,
}

/// How long another host takes to answer.
#[derive(Debug, Serialize, Deserialize)]
pub struct HostRtt {
    pub name: String,
    pub address: String,
    /// From its own address to ours, in microseconds; the least of a few.
    pub host_microseconds: Option<u128>,
    /// The network by which it was asked too, and what that took.
    pub network: Option<String>,
    pub network_microseconds: Option<u128>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Line {
    Reply(Reply),
    Failed { kind: String, what: String },
}

/// Every kind of error, as it is called on the socket.
const KINDS: [Kind; 9] = [
    Kind::Invalid,
    Kind::Unsupported,
    Kind::NotFound,
    Kind::Conflict,
    Kind::Exhausted,
    Kind::TryAgain,
    Kind::Denied,
    Kind::Kernel,
    Kind::Bug,
];

/// Asks the daemon.
pub fn ask(runtime: &Path, ask: &Ask) -> Result<Reply> {
    let path = socket(runtime);
    let mut stream = UnixStream::connect(&path).map_err(|cause| match cause.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => Error::try_again(
            "the daemon is not running, and only it speaks to other hosts: start `spoke serve`",
        ),
        _ => Error::os(format!("connecting to {}", path.display()), cause),
    })?;
    let broken = |cause| Error::os("asking the daemon", cause);
    stream.set_read_timeout(Some(TIMEOUT)).map_err(broken)?;
    stream.write_all(&line(ask)?).map_err(broken)?;
    match read(&mut stream)? {
        Line::Reply(reply) => Ok(reply),
        Line::Failed { kind, what } => {
            let kind = KINDS.into_iter().find(|known| format!("{known:?}") == kind);
            Err(Error::new(kind.unwrap_or(Kind::Bug), what))
        }
    }
}

/// Answers one question.
pub fn answer(
    stream: &mut UnixStream,
    limit: Duration,
    work: impl FnOnce(Ask) -> Result<Reply>,
) -> Result<()> {
    let broken = |cause| Error::os("answering a command", cause);
    stream.set_read_timeout(Some(limit)).map_err(broken)?;
    stream.set_write_timeout(Some(limit)).map_err(broken)?;
    let reply = match read(stream).and_then(work) {
        Ok(reply) => Line::Reply(reply),
        Err(error) => Line::Failed { kind: format!("{:?}", error.kind()), what: error.to_string() },
    };
    stream.write_all(&line(&reply)?).map_err(broken)
}

fn line(value: &impl Serialize) -> Result<Vec<u8>> {
    let json = serde_json::to_vec(value);
    let mut json = json.map_err(|cause| Error::bug("a question as JSON").because(cause))?;
    json.push(b'\n');
    Ok(json)
}

fn read<T: serde::de::DeserializeOwned>(stream: &mut UnixStream) -> Result<T> {
    let mut line = Vec::new();
    let read = BufReader::new(stream.take(LONGEST)).read_until(b'\n', &mut line);
    read.map_err(|cause| Error::os("waiting for the other end", cause))?;
    serde_json::from_slice(&line).map_err(|cause| {
        Error::invalid(
            "the command and the daemon do not understand each other; restart the daemon",
        )
        .because(cause)
    })
}
