//! `[kuryr]`: the plugin of kuryr-libnetwork's name, beside that of our own. The keys that
//! kuryr.conf has are called as there.

use std::net::SocketAddr;
use std::path::PathBuf;

use libnetwork::SpaceName;
use model::{Error, IfName, Result};
use neutron::config::{Kuryr, Plugin};
use serde::Deserialize;

use super::daemon::{Scope, TcpConfig, absolute};

/// Overrides [`KuryrConfig::capability_scope`], as with kuryr-libnetwork.
const SCOPE: &str = "CAPABILITY_SCOPE";

/// How Docker Engines reach the plugin, and what it makes of their requests.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KuryrConfig {
    /// Whether it is served at all. `[neutron]` says which cloud it is.
    pub enabled: bool,
    /// Its socket; Docker finds it by this place, and calls the driver as the file is called.
    pub socket: PathBuf,
    /// Docker's name of the driver, where it is not the name of the socket's file.
    pub driver: Option<String>,
    /// Serve TCP without protection, too (`kuryr_uri`): every client is obeyed.
    pub listen: Option<SocketAddr>,
    /// Whether `listen` may be an address that other hosts reach.
    pub expose: bool,
    /// A file to write by which a Docker Engine finds what is at `listen`: `.spec` or `.json`.
    pub spec: Option<PathBuf>,
    /// Serve TCP with certificates on both sides.
    pub tcp: Option<TcpConfig>,
    /// Whether networks belong to one host or to a swarm.
    pub capability_scope: Option<Scope>,
    /// Whether Docker sends the MAC address with each request for an IP address. By default it
    /// does, unless ports are made ahead of need, whose addresses are fixed.
    pub requires_mac_address: Option<bool>,
    /// The address space of networks of this host.
    pub local_default_address_space: Option<String>,
    /// The address space of networks of a cluster.
    pub global_default_address_space: Option<String>,
    /// The prefix of containers' interface names, before a number; `eth` by default.
    pub veth_dst_prefix: Option<IfName>,
    /// Whether exposed ports are let in by a security group.
    pub process_external_connectivity: bool,
    /// Whether published ports are ports of this host, where a network does not say. It must have
    /// a route to the containers.
    pub publish_ports: bool,
    /// The prefix of the names of subnet pools.
    pub subnetpool_name_prefix: Option<String>,
    /// The pool of networks without a subnet.
    pub default_subnetpool_v4: Option<String>,
    /// The same of IPv6.
    pub default_subnetpool_v6: Option<String>,
    /// Whether subnets that are made have DHCP.
    pub enable_dhcp: Option<bool>,
}

impl Default for KuryrConfig {
    fn default() -> Self {
        Self {
            enabled: false,
            socket: "/run/docker/plugins/kuryr.sock".into(),
            driver: None,
            listen: None,
            expose: false,
            spec: None,
            tcp: None,
            capability_scope: None,
            requires_mac_address: None,
            local_default_address_space: None,
            global_default_address_space: None,
            veth_dst_prefix: None,
            process_external_connectivity: true,
            publish_ports: false,
            subnetpool_name_prefix: None,
            default_subnetpool_v4: None,
            default_subnetpool_v6: None,
            enable_dhcp: None,
        }
    }
}

impl KuryrConfig {
    /// Docker's name of the driver.
    pub fn driver(&self) -> &str {
        let stem = || self.socket.file_stem().and_then(|stem| stem.to_str());
        self.driver.as_deref().or_else(stem).unwrap_or("kuryr")
    }

    /// The scope of networks: from the environment, else from here, else from kuryr.conf.
    ///
    /// # Errors
    /// A word that is none of the two.
    pub fn scope(
        &self,
        given: &Plugin,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Scope> {
        let of_file = if given.is_global { Scope::Global } else { Scope::Local };
        match variable(SCOPE).as_deref() {
            None | Some("") => Ok(self.capability_scope.unwrap_or(of_file)),
            Some("local") => Ok(Scope::Local),
            Some("global") => Ok(Scope::Global),
            Some(other) => {
                Err(Error::invalid(format!("{SCOPE}={other:?} is neither local nor global")))
            }
        }
    }

    /// The names of its address spaces, of a host and of a cluster.
    ///
    /// # Errors
    /// What cannot be such a name.
    pub fn spaces(&self, given: &Plugin) -> Result<[SpaceName; 2]> {
        let [local, global] = &given.spaces;
        let space = |key: &str, here: &Option<String>, there: &String| {
            let name = here.as_ref().unwrap_or(there);
            name.parse().map_err(|why| Error::invalid(format!("kuryr.{key} {name:?} {why}")))
        };
        Ok([
            space("local_default_address_space", &self.local_default_address_space, local)?,
            space("global_default_address_space", &self.global_default_address_space, global)?,
        ])
    }

    /// The prefix of containers' interface names, before a number.
    pub fn prefix(&self, given: &Plugin) -> Option<IfName> {
        self.veth_dst_prefix.clone().or_else(|| given.prefix.clone())
    }

    /// The treatment of Docker's requests: these settings, else those of `kuryr.conf`.
    pub(super) fn over(&self, given: Kuryr) -> Kuryr {
        let [v4, v6] = given.default_pools;
        Kuryr {
            pool_prefix: self.subnetpool_name_prefix.clone().unwrap_or(given.pool_prefix),
            default_pools: [
                self.default_subnetpool_v4.clone().unwrap_or(v4),
                self.default_subnetpool_v6.clone().unwrap_or(v6),
            ],
            enable_dhcp: self.enable_dhcp.unwrap_or(given.enable_dhcp),
            exposes: self.process_external_connectivity && given.exposes,
            is_swarm: given.is_swarm,
        }
    }

    /// Refuses what no daemon could serve.
    pub(super) fn check(&self) -> Result<()> {
        absolute("kuryr.socket", &self.socket)?;
        self.spaces(&Plugin::default())?;
        if let Some(tcp) = &self.tcp {
            tcp.check("kuryr.tcp")?;
        }
        match &self.listen {
            Some(address) if !address.ip().is_loopback() && !self.expose => {
                return Err(Error::invalid(format!(
                    "kuryr.listen {address} can be reached from other hosts, and every caller \
                     is obeyed; listen on 127.0.0.1, use [kuryr.tcp], or set kuryr.expose = true"
                )));
            }
            Some(_) | None => {}
        }
        let Some(spec) = &self.spec else { return Ok(()) };
        absolute("kuryr.spec", spec)?;
        let is_read = spec.extension().is_some_and(|end| end == "spec" || end == "json");
        match (is_read, self.listen) {
            (true, Some(_)) => Ok(()),
            (false, _) => Err(Error::invalid(format!(
                "kuryr.spec {}: Docker only reads files that end in .spec or .json",
                spec.display()
            ))),
            (true, None) => Err(Error::invalid(
                "kuryr.spec names the TCP address of the plugin, and kuryr.listen is missing",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<KuryrConfig> {
        let config: KuryrConfig =
            toml::from_str(text).map_err(|error| Error::invalid(error.to_string()))?;
        config.check().map(|()| config)
    }

    #[test]
    fn is_as_kuryrs_unless_set_otherwise() {
        let config = parse("").unwrap();
        assert_eq!(config, KuryrConfig::default());
        assert_eq!((config.driver(), config.enabled), ("kuryr", false));
        assert_eq!(config.spaces(&Plugin::default()).unwrap()[0].as_str(), "no_address_space");
        let given = config.over(Kuryr::default());
        assert_eq!(given.default_pools, ["kuryr", "kuryr6"]);
    }

    #[test]
    fn the_environment_says_the_scope() {
        let config = parse("capability_scope = \"global\"").unwrap();
        let usual = Plugin::default();
        let scope = |given: Option<&str>| config.scope(&usual, &|_| given.map(str::to_owned));
        assert_eq!(scope(None).unwrap(), Scope::Global);
        assert_eq!(scope(Some("local")).unwrap(), Scope::Local);
        assert_eq!(scope(Some("world")).unwrap_err().kind(), model::Kind::Invalid);
        let given = Plugin { is_global: true, ..Plugin::default() };
        let unsaid = KuryrConfig::default();
        assert_eq!(unsaid.scope(&given, &|_| None).unwrap(), Scope::Global, "kuryr.conf says it");
        assert_eq!(unsaid.scope(&given, &|_| Some("local".into())).unwrap(), Scope::Local);
    }

    #[test]
    fn refuses_what_cannot_be_served() {
        for (text, word) in [
            ("listen = \"0.0.0.0:23750\"", "kuryr.expose"),
            ("socket = \"kuryr.sock\"", "absolute"),
            ("spec = \"/usr/lib/docker/plugins/kuryr/kuryr.spec\"", "kuryr.listen"),
            ("listen = \"127.0.0.1:1\"\nspec = \"/etc/docker/plugins/kuryr.toml\"", ".spec"),
            ("local_default_address_space = \"\"", "local_default_address_space"),
            ("kuryr_uri = \"x\"", "kuryr_uri"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
        assert!(parse("listen = \"0.0.0.0:23750\"\nexpose = true").is_ok());
    }
}
