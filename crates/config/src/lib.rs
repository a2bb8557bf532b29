//! The configuration of this host: `/etc/spoke/config.toml`, or the file that `SPOKE_CONFIG`
//! names. A missing file is an empty one; an unknown key is an error.

mod daemon;
mod kurma;
mod kuryr;
mod names;
mod neutron;
mod remote;
mod web;

use std::path::PathBuf;

use model::text::question;
use model::{Backend, Error, Result};
use serde::Deserialize;

pub use daemon::{
    DhcpConfig, DockerConfig, EventsConfig, Format, Level, Listen, LogConfig, MetricsConfig, Scope,
    SpecConfig, TcpConfig,
};
pub use kurma::KurmaConfig;
pub use kuryr::KuryrConfig;
pub use names::NamesConfig;
pub use neutron::{CloudSettings, NeutronConfig};
pub use remote::RemoteConfig;
pub use web::WebConfig;

/// Where the configuration is, unless `SPOKE_CONFIG` says otherwise.
const PATH: &str = "/etc/spoke/config.toml";

/// A larger file is refused.
const LARGEST: u64 = 1 << 20;

/// The whole file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// `[store]`.
    pub store: StoreConfig,
    /// `[firewall]`.
    pub firewall: FirewallConfig,
    /// `[docker]`.
    pub docker: DockerConfig,
    /// `[kurma]`.
    pub kurma: KurmaConfig,
    /// `[kuryr]`.
    pub kuryr: KuryrConfig,
    /// `[neutron]`.
    pub neutron: Option<NeutronConfig>,
    /// `[remote]`.
    pub remote: RemoteConfig,
    /// `[dhcp]`.
    pub dhcp: DhcpConfig,
    /// `[metrics]`.
    pub metrics: MetricsConfig,
    /// `[web]`.
    pub web: WebConfig,
    /// `[events]`.
    pub events: EventsConfig,
    /// `[names]`.
    pub names: NamesConfig,
    /// `[hosts]`.
    pub hosts: HostsConfig,
    /// `[log]`.
    pub log: LogConfig,
}

/// Where the store is kept.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StoreConfig {
    /// The half of the store that lasts for one boot: attachments and addresses.
    pub runtime: PathBuf,
    /// The half that outlives a reboot: networks and reservations.
    pub state: PathBuf,
}

/// The shortest life of a host's certificate, in seconds.
const SHORTEST_LIFE: u32 = 60;

/// This host among others.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HostsConfig {
    /// How long after its lease a host's entries are withdrawn and its addresses may be taken over, in
    /// seconds.
    pub takeover_seconds: u32,
    /// How long a certificate of a host is worth something, in seconds; it is renewed when a third of that is
    /// over.
    pub certificate_seconds: u32,
}

impl Default for HostsConfig {
    /// A daemon that is restarted or updated is back by then, and its containers were there all the time.
    fn default() -> Self {
        Self { takeover_seconds: 60, certificate_seconds: 90 * 24 * 3600 }
    }
}

impl HostsConfig {
    /// Hosts renew certificates every few seconds otherwise, and have no time to try again.
    fn check(&self) -> Result<()> {
        match self.certificate_seconds < SHORTEST_LIFE {
            true => Err(Error::invalid(format!(
                "hosts.certificate_seconds is {}: give at least {SHORTEST_LIFE}",
                self.certificate_seconds
            ))),
            false => Ok(()),
        }
    }
}

/// Which packet filter is used.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FirewallConfig {
    /// `nftables` or `iptables`, wherever a network's configuration names none.
    pub backend: Backend,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self { runtime: "/run/spoke".into(), state: "/var/lib/spoke".into() }
    }
}

impl Default for FirewallConfig {
    fn default() -> Self {
        Self { backend: Backend::Nftables }
    }
}

impl Config {
    /// Reads the file that is meant on this host.
    pub fn of_this_host() -> Result<Self> {
        Self::read(&std::env::var_os("SPOKE_CONFIG").map_or_else(|| PATH.into(), PathBuf::from))
    }

    /// Reads the file at `path`, or gives the defaults where there is none.
    fn read(path: &std::path::Path) -> Result<Self> {
        let doing = || format!("reading the configuration {}", path.display());
        let text = match file::text(path, LARGEST) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            text => text.map_err(|error| file::failed(doing(), error))?,
        };
        Self::parse(&text).map_err(|error| error.context(doing()))
    }

    fn parse(text: &str) -> Result<Self> {
        let config: Self = toml::from_str(text).map_err(|error| wrong(&error))?;
        config.hosts.check()?;
        config.docker.check()?;
        config.kurma.check()?;
        config.kuryr.check()?;
        config.neutron.as_ref().map_or(Ok(()), NeutronConfig::check)?;
        config.remote.check()?;
        config.metrics.check()?;
        config.web.check()?;
        config.dhcp.check()?;
        daemon::absolute("events.path", &config.events.path)?;
        Ok(config)
    }
}

/// What cannot be read, with the nearest known word to an unknown one. serde's sentence has the given one first, and then all
/// that there are, each between backquotes.
fn wrong(error: &toml::de::Error) -> Error {
    let shown = error.to_string();
    let mut words = error.message().split('`').skip(1).step_by(2);
    let is_word = ["unknown field `", "unknown variant `"];
    let meant = match words.next() {
        Some(given) if is_word.iter().any(|it| error.message().starts_with(it)) => {
            question(given, words)
        }
        Some(_) | None => String::new(),
    };
    Error::invalid(format!("{}{meant}", shown.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_file_is_the_default() {
        assert_eq!(Config::parse("").unwrap(), Config::default());
    }

    #[test]
    fn a_certificate_has_time_to_be_renewed() {
        let error = Config::parse("[hosts]\ncertificate_seconds = 59\n").unwrap_err();
        assert!(error.to_string().contains("at least 60"), "{error}");
        assert!(Config::parse("[hosts]\ncertificate_seconds = 60\n").is_ok());
    }

    #[test]
    fn names_the_unknown_key() {
        let error = Config::parse("[firewall]\nbackand = \"iptables\"\n").unwrap_err();
        assert!(error.to_string().contains("backand"), "{error}");
        for (text, asked) in [
            ("[firewall]\nbackand = \"iptables\"", "; did you mean backend?"),
            ("[firewal]", "; did you mean firewall?"),
            ("[log]\nlevel = \"debg\"", "; did you mean debug?"),
            ("[hosts]\ntakeover_second = 1", "; did you mean takeover_seconds?"),
        ] {
            let error = Config::parse(text).unwrap_err().to_string();
            assert!(error.ends_with(asked), "{text}: {error}");
        }
        let error = Config::parse("[log]\ncolour = true\n").unwrap_err().to_string();
        assert!(error.contains("colour") && !error.contains("did you mean"), "{error}");
        let iptables = Config::parse("[firewall]\nbackend = \"iptables\"\n").unwrap();
        assert_eq!(iptables.firewall.backend, Backend::Iptables);
    }

    #[test]
    fn reads_what_the_daemon_needs() {
        let config = Config::parse(
            r#"
            [docker]
            socket = "/run/docker/plugins/net.sock"
            scope = "global"
            api = []
            [docker.tcp]
            listen = "[::]:7000"
            certificate = "/c.pem"
            key = "/k.pem"
            client_ca = "/ca.pem"
            spec = { path = "/etc/docker/plugins/net.json", ca = "/a", certificate = "/b", key = "/c" }
            [metrics]
            listen = "127.0.0.1:9100"
            [log]
            level = "debug"
            format = "json"
            "#,
        )
        .unwrap();
        assert_eq!((config.docker.driver(), config.docker.scope), ("net", Scope::Global));
        assert_eq!(config.metrics.listen, Listen::Tcp("127.0.0.1:9100".parse().unwrap()));
        assert_eq!(config.log, LogConfig { level: Level::Debug, format: Format::Json });
    }

    #[test]
    fn refuses_what_cannot_be_served() {
        for (text, word) in [
            ("[metrics]\nlisten = \"0.0.0.0:9100\"", "metrics.expose"),
            ("[metrics]\nlisten = \"here\"", "ADDRESS:PORT"),
            ("[docker]\nsocket = \"spoke.sock\"", "absolute"),
            ("[docker]\nscope = \"world\"", "world"),
            ("[docker]\ngrace_seconds = 0", "between 1 and 86400"),
            ("[log]\nlevel = \"loud\"", "loud"),
            ("[events]\npath = \"events\"", "absolute"),
            ("[web]\nlisten = \"0.0.0.0:9180\"", "127.0.0.1:9180"),
            ("[web]\nlisten = \"[2001:db8::1]:1\"", "spoke web"),
        ] {
            let error = Config::parse(text).unwrap_err().to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
        assert!(Config::parse("[metrics]\nlisten = \"0.0.0.0:1\"\nexpose = true").is_ok());
    }
}
