//! The sections that only the daemon reads: `[docker]`, `[metrics]`, `[events]` and `[log]`.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use model::{Error, Result};
use serde::Deserialize;

/// Docker reports an endpoint later than it asks for it: no time at all would free the living.
const GRACE: RangeInclusive<u64> = 1..=86_400;

/// How Docker Engines reach us, and we them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DockerConfig {
    /// Whether the plugin is served at all.
    pub enabled: bool,
    /// The plugin's socket; Docker finds it by this place, and calls the driver as the file is
    /// called.
    pub socket: PathBuf,
    /// Docker's name of the driver, where it is not the name of the socket's file: a managed plugin
    /// has a tag.
    pub driver: Option<String>,
    /// Whether networks belong to one host or to a swarm.
    pub scope: Scope,
    /// Whether Docker sends the MAC address with each request for an IP address.
    pub requires_mac_address: bool,
    /// The sockets of the Docker Engines that use the plugin.
    pub api: Vec<PathBuf>,
    /// How long no engine has listed a thing before it is freed, in seconds; lists are compared at
    /// least once in twice that time.
    pub grace_seconds: u64,
    /// Serve other hosts too.
    pub tcp: Option<TcpConfig>,
}

/// The scope of the driver's networks for Docker (libnetwork's capability `Scope`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// It is known on its own host.
    #[default]
    Local,
    /// It is known in the whole swarm.
    Global,
}

/// The plugin over TCP. Both sides show a certificate.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TcpConfig {
    /// Where to listen.
    pub listen: SocketAddr,
    /// Our certificate with its chain, PEM.
    pub certificate: PathBuf,
    /// Its private key, PEM.
    pub key: PathBuf,
    /// The authority of client certificates, PEM.
    pub client_ca: PathBuf,
    /// A file to write by which a Docker Engine finds us.
    pub spec: Option<SpecConfig>,
}

/// The file by which a Docker Engine finds a plugin over TLS (Docker's plugin discovery, `.json`).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpecConfig {
    /// Where it is written, for example `/etc/docker/plugins/spoke.json`; Docker calls the driver as
    /// the file is called.
    pub path: PathBuf,
    /// The authority of the server's certificate, for the engine.
    pub ca: PathBuf,
    /// The certificate that the engine shows.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The name in our certificate; the address where none is given.
    pub host: Option<String>,
}

/// How leases of DHCP servers are kept for containers.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DhcpConfig {
    /// Whether that is done at all.
    pub enabled: bool,
    /// Where the plugin `dhcp` finds it.
    pub socket: PathBuf,
    /// For how long a server is asked for a first address, in seconds.
    #[serde(alias = "patience_seconds")]
    pub timeout_seconds: u64,
    /// Whether servers are asked to broadcast their answers.
    pub broadcast: bool,
}

impl Default for DhcpConfig {
    fn default() -> Self {
        let socket = PathBuf::from(cni::dhcp::SOCKET);
        Self { enabled: true, socket, timeout_seconds: 60, broadcast: false }
    }
}

impl DhcpConfig {
    pub(super) fn check(&self) -> Result<()> {
        absolute("dhcp.socket", &self.socket)?;
        match self.timeout_seconds {
            1..=3600 => Ok(()),
            other => Err(Error::invalid(format!(
                "dhcp.timeout_seconds is {other}; it must be between 1 and 3600"
            ))),
        }
    }
}

/// Where Prometheus fetches figures.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MetricsConfig {
    /// Whether they are served at all.
    pub enabled: bool,
    /// The path of a unix socket, or an address and port.
    pub listen: Listen,
    /// Whether `listen` may be an address that other hosts reach.
    pub expose: bool,
}

/// A unix socket or a TCP address.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Listen {
    /// A path.
    Unix(PathBuf),
    /// An address and port.
    Tcp(SocketAddr),
}

/// Where the daemon writes what happens.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EventsConfig {
    /// The file, as JSON lines.
    pub path: PathBuf,
}

/// The daemon's messages on standard error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogConfig {
    /// The least severe level that is written.
    pub level: Level,
    /// How.
    pub format: Format,
}

/// The severity of a message; each level includes the ones before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Failures.
    Error,
    /// Warnings for an operator.
    Warn,
    /// Changes of networks and containers.
    #[default]
    Info,
    /// Each call.
    Debug,
}

/// How a line is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// For people: the sentence, then `key=value`.
    #[default]
    Text,
    /// For programs: a JSON object.
    Json,
}

impl Default for DockerConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            socket: "/run/docker/plugins/spoke.sock".into(),
            driver: None,
            scope: Scope::Local,
            requires_mac_address: false,
            api: vec!["/var/run/docker.sock".into()],
            grace_seconds: 30,
            tcp: None,
        }
    }
}

impl Default for MetricsConfig {
    fn default() -> Self {
        let listen = Listen::Unix("/run/spoke/metrics.sock".into());
        Self { enabled: true, listen, expose: false }
    }
}

impl Default for EventsConfig {
    fn default() -> Self {
        Self { path: "/run/spoke/events".into() }
    }
}

impl DockerConfig {
    /// Docker's name of the driver: by default the name of the socket's file without `.sock`.
    pub fn driver(&self) -> &str {
        let stem = || self.socket.file_stem().and_then(|stem| stem.to_str());
        self.driver.as_deref().or_else(stem).unwrap_or("spoke")
    }

    /// Refuses what no daemon could serve.
    pub(super) fn check(&self) -> Result<()> {
        absolute("docker.socket", &self.socket)?;
        self.api.iter().try_for_each(|path| absolute("docker.api", path))?;
        if !GRACE.contains(&self.grace_seconds) {
            return Err(Error::invalid(format!(
                "docker.grace_seconds {} is not between {} and {}",
                self.grace_seconds,
                GRACE.start(),
                GRACE.end()
            )));
        }
        self.tcp.as_ref().map_or(Ok(()), |tcp| tcp.check("docker.tcp"))
    }
}

impl TcpConfig {
    /// Refuses what cannot be served; `section` is its place.
    pub(super) fn check(&self, section: &str) -> Result<()> {
        let of = |key: &str| format!("{section}.{key}");
        absolute(&of("certificate"), &self.certificate)?;
        absolute(&of("key"), &self.key)?;
        absolute(&of("client_ca"), &self.client_ca)?;
        match &self.spec {
            Some(spec) if spec.path.extension().is_none_or(|end| end != "json") => {
                Err(Error::invalid(format!(
                    "{} {}: Docker only reads files that end in .json",
                    of("spec.path"),
                    spec.path.display()
                )))
            }
            Some(spec) => absolute(&of("spec.path"), &spec.path),
            None => Ok(()),
        }
    }
}

impl MetricsConfig {
    /// Refuses to show by mistake to other hosts what runs on this one.
    pub(super) fn check(&self) -> Result<()> {
        match &self.listen {
            Listen::Unix(path) => absolute("metrics.listen", path),
            Listen::Tcp(address) if address.ip().is_loopback() || self.expose => Ok(()),
            Listen::Tcp(address) => Err(Error::invalid(format!(
                "metrics.listen {address} can be reached from other hosts, and the figures are not \
                 protected; listen on 127.0.0.1 or a unix socket, or set metrics.expose = true"
            ))),
        }
    }
}

impl TryFrom<String> for Listen {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        if text.starts_with('/') {
            return Ok(Listen::Unix(text.into()));
        }
        let address = text.parse().map_err(|_| {
            Error::invalid(format!("{text:?} is neither an absolute path nor ADDRESS:PORT"))
        })?;
        Ok(Listen::Tcp(address))
    }
}

pub(super) fn absolute(key: &str, path: &Path) -> Result<()> {
    match path.is_absolute() {
        true => Ok(()),
        false => Err(Error::invalid(format!("{key} {}: give an absolute path", path.display()))),
    }
}
