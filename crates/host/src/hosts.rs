//! What the command line asks of the daemon about other hosts: one line of JSON each way, on a socket
//! that only the superuser may connect to. Only the daemon speaks to etcd.

mod asking;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cluster::{Access, TokenId, Url};
use model::{
    EngineKind, Error, HostName, IpNet, Ipv4Net, Ipv6Net, Kind, Labels, Mtu, NamedElsewhere,
    NetworkName, OwnerName, Placement, Result, SharedNetwork, SharedRules, Timestamp,
    TransportChoice,
};
use serde::{Deserialize, Serialize};
use spec::ManyHostsSpec;

pub use asking::{ask, ask_restarted};
pub use view::{AuthorityView, HostAuthority, HostCheck, HostRoute, HostRtt, HostView, HostsView};

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
    /// Makes a cluster, of which this host is the first member.
    Init {
        /// The cluster's etcd; none where its hosts run it.
        etcd: Vec<Url>,
        /// As whom.
        me: Me,
    },
    /// Joins a cluster.
    Join {
        /// What `spoke host token create` printed on a member.
        token: String,
        /// As whom.
        me: Me,
    },
    /// The hosts of the cluster.
    Hosts,
    /// What is wrong on the way to each host.
    Check,
    /// How long each host takes to answer.
    Rtt,
    /// Takes a host out of the cluster.
    Remove {
        /// Its name.
        name: HostName,
        /// Also another host whose daemon is there, or this one where the cluster does not let it in any more.
        force: bool,
    },
    /// Of the host that is asked where none is named.
    Drain {
        /// The host.
        name: Option<HostName>,
        /// Whether it takes containers again.
        undo: bool,
    },
    /// Changes the labels of a host.
    Label {
        /// Its name.
        name: HostName,
        /// Those that it gets.
        labels: Labels,
        /// The keys of those that it loses.
        remove: Vec<String>,
    },
    /// Makes a token, by which hosts join.
    CreateToken {
        /// How long it holds, in seconds.
        seconds: u32,
    },
    /// The tokens that hold.
    Tokens,
    /// Removes a token.
    RemoveToken {
        /// Which one.
        id: TokenId,
    },
    /// Replaces the keys of encrypted networks.
    RotateKeys,
    /// Begins a change of the cluster's authority, or leaves out of one that goes on.
    RotateAuthority {
        /// The lost hosts that are not waited for.
        without: BTreeSet<HostName>,
    },
    /// Gives up the change of the cluster's authority.
    AbandonAuthority,
    /// The cluster's authority, and what each host says of it.
    Authority,
    /// Takes an older state of the cluster than this host has heard of as it is.
    AcceptOlder,
    /// What containers of other hosts are called.
    Names,
    /// Where addresses of networks are.
    Routes,
    /// Declares a network for many hosts.
    CreateNetwork(Box<SharedNetworkSpec>),
    /// Removes one.
    RemoveNetwork {
        /// Its name.
        name: NetworkName,
    },
    /// Has an address given to this host.
    Pin {
        /// Its network.
        network: NetworkName,
        /// The address.
        address: IpAddr,
        /// Who wants it: an owner's name, or words for errors.
        by: String,
    },
    /// The addresses that other hosts keep for a name.
    Follow {
        /// Their network.
        network: NetworkName,
        /// The name.
        name: OwnerName,
    },
}

/// As whom a host becomes a member.
#[derive(Debug, Serialize, Deserialize)]
pub struct Me {
    /// What it is called.
    pub name: HostName,
    /// Its address for other hosts; the daemon finds one where none is named.
    pub address: Option<IpAddr>,
    /// How it reaches the cluster's etcd.
    pub access: Access,
}

/// A network for many hosts.
#[derive(Debug, Serialize, Deserialize)]
pub struct SharedNetworkSpec {
    /// What it is called.
    pub name: NetworkName,
    /// Its IPv4 subnet; the daemon chooses one where none is named.
    pub subnet: Option<Ipv4Net>,
    /// Where it is named without one of IPv4, the network has no other, unless `ipv6` says so.
    pub subnet6: Option<Ipv6Net>,
    /// Whether it has subnets of both families, also where none is named.
    pub ipv6: bool,
    /// Whether it has no IPv4 subnet, also where none of IPv6 is named.
    #[serde(default)]
    pub only_v6: bool,
    /// The length of the prefix of a host's block.
    pub block: Option<u8>,
    /// The MTU of its links.
    pub mtu: Option<Mtu>,
    /// The hosts that have it.
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
    /// Who reaches its containers, and where these may go.
    #[serde(default)]
    pub rules: SharedRules,
    /// Whether one of its name and subnet is as good, and this host is the one that has to have it now.
    #[serde(default)]
    pub or_join: bool,
}

impl SharedNetworkSpec {
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
            rules: spec.rules.clone(),
            or_join: false,
        })
    }
}

/// Has the daemon declare a network for many hosts.
///
/// # Errors
/// As the daemon's; `Conflict` where this host cannot have it.
pub fn declare(runtime: &Path, wanted: SharedNetworkSpec) -> Result<()> {
    let (name, rules) = (wanted.name.clone(), wanted.rules.clone());
    match ask(runtime, &Ask::CreateNetwork(Box::new(wanted)))? {
        Reply::Network { failure: Some(failure), .. } => Err(Error::conflict(format!(
            "network {name} is declared for the cluster, and this host cannot have it: {failure}"
        ))),
        Reply::Network { network, .. } => refuse_without(&name, &rules, &network),
        _ => Ok(()),
    }
}

/// Fails where rules were asked for, and the network that was made or joined does not have them: a daemon of an earlier
/// version passes them over.
///
/// # Errors
/// `Conflict`.
pub fn refuse_without(
    name: &NetworkName,
    rules: &SharedRules,
    network: &SharedNetwork,
) -> Result<()> {
    match network.rules.satisfy(rules) {
        true => Ok(()),
        false => Err(Error::conflict(format!(
            "network {name} was made without the rules that were asked for: the daemon is of an earlier version; start it \
             anew, remove the network and make it again"
        ))),
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
    /// It is done.
    Done,
    /// A token was made.
    Token {
        /// What `spoke host join` is given.
        token: String,
        /// When it ends.
        expires: Timestamp,
    },
    /// To [`Ask::Hosts`].
    Hosts(HostsView),
    /// To [`Ask::Check`].
    Checks(Vec<HostCheck>),
    /// To [`Ask::Rtt`].
    Rtts(Vec<HostRtt>),
    /// To [`Ask::Routes`].
    Routes(Vec<HostRoute>),
    /// The tokens, and when each ends.
    Tokens(BTreeMap<TokenId, Timestamp>),
    /// To [`Ask::Authority`].
    Authority(AuthorityView),
    /// What containers of other hosts are called.
    Names(Vec<NamedElsewhere>),
    /// The network is declared.
    Network {
        /// As hosts share it.
        network: SharedNetwork,
        /// The hosts that do not have it yet.
        missing: Vec<HostName>,
        /// Why this host cannot have it.
        failure: Option<String>,
        /// What is to be said of the engines of the host that was asked.
        #[serde(default)]
        notes: Vec<String>,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Line {
    Reply(Box<Reply>),
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
        Ok(reply) => Line::Reply(Box::new(reply)),
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
    let broken = |cause| Error::os("waiting for the other end", cause);
    understood(&read_line(stream).map_err(broken)?)
}

/// Empty where the other end ended before it wrote anything.
fn read_line(stream: &mut UnixStream) -> std::io::Result<Vec<u8>> {
    let mut line = Vec::new();
    BufReader::new(stream.take(LONGEST)).read_until(b'\n', &mut line)?;
    Ok(line)
}

fn understood<T: serde::de::DeserializeOwned>(line: &[u8]) -> Result<T> {
    serde_json::from_slice(line).map_err(|cause| {
        Error::invalid(
            "the command and the daemon do not understand each other; restart the daemon",
        )
        .because(cause)
    })
}
