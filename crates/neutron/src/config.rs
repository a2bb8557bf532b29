//! Settings of the cloud and of this host, from any source.

mod ini;
mod kuryr;
mod options;
mod source;

use std::path::PathBuf;
use std::time::Duration;

use model::{IfName, Nesting, Result};
use netlink::HostLock;

use crate::contract::{self, HostId};
pub use kuryr::{KuryrConf, Plugin};
pub use source::{Sources, SourcesRead};
pub use web::Proxies;

/// The longest wait for a port to be ACTIVE, in seconds.
pub const LONGEST_WAIT: u64 = 300;

/// Everything that may be set.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Where the cloud is, and the account there.
    pub access: Access,
    /// This host, as Neutron's agents know it.
    pub host: HostId,
    /// How ports are connected on this host.
    pub plugging: Plugging,
    /// The treatment of Docker's requests.
    pub kuryr: Kuryr,
    /// Ports that are made ahead of need; none where absent.
    pub stock: Option<StockSettings>,
}

impl Settings {
    /// With defaults for everything else.
    pub fn new(access: Access, host: HostId) -> Result<Self> {
        let (plugging, kuryr) = (Plugging::usual()?, Kuryr::default());
        Ok(Self { access, host, plugging, kuryr, stock: None })
    }
}

/// Where the cloud is, and the account there.
#[derive(Clone, Debug, PartialEq)]
pub struct Access {
    /// The credentials.
    pub identity: Identity,
    /// Of which region the endpoint is taken; any where none is named.
    pub region: Option<String>,
    /// Which of the endpoints: `public`, `internal`, `admin`.
    pub interface: Interface,
    /// Neutron itself, where the catalogue is not to be asked.
    pub endpoint: Option<String>,
    /// The authorities that sign the cloud's certificates; the system's where none is named.
    pub authorities: Option<PathBuf>,
    /// Whether any certificate is taken.
    pub insecure: bool,
    /// How many requests are under way at the same time.
    pub concurrency: usize,
    /// How long one request may take. It is repeated, where that does no harm, only as long.
    pub timeout: Duration,
    /// The proxies for servers.
    pub proxies: Proxies,
}

impl Access {
    /// How many requests are under way at the same time, where none is given.
    pub const CONCURRENCY: usize = 8;

    /// How long one request may take, where none is given.
    pub const TIMEOUT: Duration = Duration::from_secs(60);

    /// Settings for this identity, with defaults for the rest.
    pub fn of(identity: Identity) -> Self {
        Self {
            identity,
            region: None,
            interface: Interface::Public,
            endpoint: None,
            authorities: None,
            insecure: false,
            concurrency: Self::CONCURRENCY,
            timeout: Self::TIMEOUT,
            proxies: Proxies::default(),
        }
    }
}

/// One of a service's endpoints in the catalogue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interface {
    /// The public endpoint.
    #[default]
    Public,
    /// Within the cloud.
    Internal,
    /// For administrators.
    Admin,
}

/// The credentials (Keystone v3).
#[derive(Clone, PartialEq, Eq)]
pub enum Identity {
    /// Not at all: Neutron runs with `auth_strategy = noauth`.
    None {
        /// The project that things are made in.
        project: Option<String>,
    },
    /// By a user's password.
    Password {
        /// Keystone, with or without `/v3`.
        url: String,
        /// The user.
        user: Named,
        /// The password.
        password: String,
        /// In which project.
        project: Named,
    },
    /// By an application credential.
    Application {
        /// Keystone.
        url: String,
        /// The credential's id, or its name with its user.
        credential: Credential,
        /// Its secret.
        secret: String,
    },
    /// By a token that another program got.
    Token {
        /// Keystone.
        url: String,
        /// The token.
        token: String,
        /// In which project.
        project: Option<Named>,
    },
}

/// A user or project: by its id, or by its name in a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    /// By its id.
    Id(String),
    /// By its name.
    Name {
        /// The name.
        name: String,
        /// The domain's id or name.
        domain: Domain,
    },
}

/// A domain of users and projects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Domain {
    /// By its id.
    Id(String),
    /// By its name.
    Name(String),
}

/// Which application credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    /// By its id.
    Id(String),
    /// By its name and user.
    Name {
        /// The credential's name.
        name: String,
        /// The user of the credential.
        user: Named,
    },
}

/// How ports are connected on this host.
#[derive(Clone, Debug, PartialEq)]
pub struct Plugging {
    /// The bridge of Open vSwitch, where Neutron names none.
    pub bridge: IfName,
    /// Where Open vSwitch's database answers: `unix:/run/openvswitch/db.sock`, `tcp:HOST:PORT`.
    pub ovsdb: String,
    /// Where programs for other VIF types are; none are executed where absent.
    pub bindir: Option<PathBuf>,
    /// How containers are connected where this host is itself an instance of the cloud.
    pub nesting: Option<Nesting>,
    /// How long an attachment waits for its port to be ACTIVE; not at all where absent.
    pub wait: Option<Duration>,
    /// How long Open vSwitch may take to configure a port: ten seconds at most.
    pub timeout: Duration,
    /// By which processes that work on one bridge exclude each other.
    pub lock: HostLock,
}

/// The treatment of Docker's requests (kuryr.conf's names in parentheses).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kuryr {
    /// `subnetpool_name_prefix`
    pub pool_prefix: String,
    /// `default_subnetpool_v4`, `default_subnetpool_v6`
    pub default_pools: [String; 2],
    /// `enable_dhcp` of subnets that we make.
    pub enable_dhcp: bool,
    /// `process_external_connectivity`
    pub exposes: bool,
    /// `capability_scope`: whether networks are a swarm's, of which a host may learn long after it
    /// requested their pools.
    pub is_swarm: bool,
}

/// Ports that are made ahead of need, for each network, set of security groups and host or trunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StockSettings {
    /// How many are ready, at least.
    pub minimum: usize,
    /// How many are kept, at most; those that come back beyond that are deleted.
    pub maximum: usize,
    /// How many are made at once.
    pub batch: usize,
    /// Whether that is one request (`bulk`); it helps where Neutron's driver makes several ports
    /// faster than one after the other.
    pub bulk: bool,
    /// So long after its last container a network's ports stay ready.
    pub idle: Duration,
}

/// Reads `text` as `kuryr.conf` and as `clouds.yaml`; whether it is either: the entry of a fuzz target.
pub fn decode_anything(text: &str) -> [bool; 2] {
    let conf = kuryr::read(text, &|_| None);
    let signed = conf.as_ref().map(|(_, options)| options.access());
    drop(signed);
    [conf.is_ok(), yaml::read(text).is_ok()]
}

impl Plugging {
    /// The bridge of Open vSwitch that Neutron's agents have, where none is given.
    pub const BRIDGE: &str = "br-int";

    /// Where Open vSwitch's database answers, where none is given.
    pub const OVSDB: &str = "unix:/run/openvswitch/db.sock";

    /// The default of how long Open vSwitch may take to configure a port.
    pub const TIMEOUT: Duration = Duration::from_secs(10);

    /// The settings of most hosts: no program is executed, and there is no wait.
    pub fn usual() -> Result<Self> {
        let (bridge, ovsdb) = (Self::BRIDGE.parse()?, Self::OVSDB.to_owned());
        let timeout = Self::TIMEOUT;
        let lock = HostLock::default();
        Ok(Self { bridge, ovsdb, bindir: None, nesting: None, wait: None, timeout, lock })
    }
}

impl Default for Kuryr {
    fn default() -> Self {
        Self {
            pool_prefix: contract::POOL_PREFIX.to_owned(),
            default_pools: contract::DEFAULT_POOLS.map(ToOwned::to_owned),
            enable_dhcp: true,
            exposes: true,
            is_swarm: false,
        }
    }
}

impl Identity {
    /// All its texts, in a fixed order, to distinguish it from others.
    pub(crate) fn texts(&self) -> Vec<&str> {
        match self {
            Identity::None { project } => vec!["none", project.as_deref().unwrap_or_default()],
            Identity::Password { url, user, password, project } => {
                let mut texts = vec!["password", url.as_str(), password.as_str()];
                texts.extend(user.texts());
                texts.extend(project.texts());
                texts
            }
            Identity::Application { url, credential: Credential::Id(id), secret } => {
                vec!["application", url.as_str(), secret.as_str(), "id", id.as_str()]
            }
            Identity::Application { url, credential: Credential::Name { name, user }, secret } => {
                let mut texts = vec!["application", url.as_str(), secret.as_str(), name.as_str()];
                texts.extend(user.texts());
                texts
            }
            Identity::Token { url, token, project } => {
                let mut texts = vec!["token", url.as_str(), token.as_str()];
                texts.extend(project.iter().flat_map(Named::texts));
                texts
            }
        }
    }
}

impl Named {
    fn texts(&self) -> Vec<&str> {
        match self {
            Named::Id(id) => vec!["id", id.as_str()],
            Named::Name { name, domain: Domain::Id(id) } => vec!["in", id.as_str(), name.as_str()],
            Named::Name { name, domain: Domain::Name(domain) } => {
                vec!["of", domain.as_str(), name.as_str()]
            }
        }
    }
}

impl std::fmt::Debug for Identity {
    /// Without secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Identity::None { .. } => "none",
            Identity::Password { .. } => "password",
            Identity::Application { .. } => "application credential",
            Identity::Token { .. } => "token",
        })
    }
}
