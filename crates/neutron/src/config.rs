//! What must be known of the cloud and of this host, whoever says it.

use std::path::PathBuf;
use std::time::Duration;

use model::{IfName, Nesting};

use crate::contract::HostId;

/// Everything that may be set.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Where the cloud is, and who we are there.
    pub access: Access,
    /// This host, as Neutron's agents know it.
    pub host: HostId,
    /// How ports are connected on this host.
    pub plugging: Plugging,
    /// What is made of Docker's requests.
    pub kuryr: Kuryr,
    /// Ports that are made ahead of need; none where absent.
    pub stock: Option<StockSettings>,
}

/// Where the cloud is, and who we are there.
#[derive(Clone, Debug, PartialEq)]
pub struct Access {
    /// How we say who we are.
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
    /// How long one request may take.
    pub timeout: Duration,
}

/// One of a service's endpoints in the catalogue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interface {
    /// For everybody.
    #[default]
    Public,
    /// Within the cloud.
    Internal,
    /// For administrators.
    Admin,
}

/// How we say who we are (Keystone v3).
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
        /// Whose.
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
    /// By a token that somebody else got.
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
        /// Whose it is.
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
}

/// What is made of Docker's requests (kuryr.conf's names in parentheses).
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
