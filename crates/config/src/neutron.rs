//! `[neutron]`: which cloud it is, the account there, and how ports are connected on this host.
//! What keystoneauth has a name for has that name here.

use std::path::PathBuf;
use std::time::Duration;

use model::{Error, IfName, Nesting, ResourceRef, Result};
use neutron::config::{Kuryr, LONGEST_WAIT, Plugging, Plugin, Settings, Sources, StockSettings};
use neutron::contract::HostId;
use serde::Deserialize;

use super::KuryrConfig;
use super::daemon::{Scope, absolute};

/// The default name of this host (proc_sys_kernel(5)).
const HOSTNAME: &str = "/proc/sys/kernel/hostname";

/// More at once would be held against us.
const MOST_REQUESTS: usize = 64;

/// More ports are not kept of one kind.
const MOST_PORTS: usize = 4096;

/// No port is kept longer without use, in seconds.
const LONGEST_IDLE: u64 = 24 * 3600;

/// The section. What it does not say, `clouds.yaml`, `kuryr.conf` or the environment does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NeutronConfig {
    /// A cloud of `clouds.yaml`.
    pub cloud: Option<String>,
    /// That file.
    pub clouds_file: Option<PathBuf>,
    /// `kuryr.conf`, as kuryr-libnetwork reads it.
    pub kuryr_conf: Option<PathBuf>,
    #[serde(flatten)]
    account: Account,
    /// This host, as Neutron's agents know it.
    pub host: Option<String>,
    /// How many requests are under way at the same time.
    pub concurrency: Option<usize>,
    /// The bridge of Open vSwitch, where Neutron names none.
    pub bridge: Option<IfName>,
    /// Where Open vSwitch's database answers.
    pub ovsdb: Option<String>,
    /// Where programs for other VIF types are.
    pub bindir: Option<PathBuf>,
    /// How long an attachment waits for its port to be ACTIVE, in seconds; not at all where absent.
    pub wait_seconds: Option<u64>,
    /// How containers are connected where this host is itself an instance of the cloud.
    pub nesting: Option<NestingConfig>,
    /// Ports that are made ahead of need.
    pub stock: Option<StockConfig>,
}

/// All that is known of the cloud.
#[derive(Debug)]
pub struct CloudSettings {
    /// The settings, from any source.
    pub settings: Settings,
    /// How Docker reaches the plugin, as `kuryr.conf` says.
    pub plugin: Plugin,
    /// What of `kuryr.conf` was skipped, and why: a sentence each.
    pub notes: Vec<String>,
}

/// The account, with keystoneauth's names.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Account {
    auth_type: Option<String>,
    auth_url: Option<String>,
    username: Option<String>,
    user_id: Option<String>,
    user_domain_id: Option<String>,
    user_domain_name: Option<String>,
    password: Option<String>,
    project_id: Option<String>,
    project_name: Option<String>,
    project_domain_id: Option<String>,
    project_domain_name: Option<String>,
    default_domain_id: Option<String>,
    default_domain_name: Option<String>,
    application_credential_id: Option<String>,
    application_credential_name: Option<String>,
    application_credential_secret: Option<String>,
    token: Option<String>,
    region_name: Option<String>,
    interface: Option<String>,
    #[serde(alias = "endpoint")]
    endpoint_override: Option<String>,
    cafile: Option<String>,
    insecure: Option<bool>,
    timeout: Option<u64>,
}

/// `[neutron.nesting]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NestingConfig {
    /// `macvlan`, `ipvlan` or `trunk`.
    #[serde(rename = "type")]
    kind: String,
    /// The instance's interface.
    parent: IfName,
    /// Of a macvlan or ipvlan.
    #[serde(default)]
    mode: Option<String>,
    /// The trunk; that of the instance's port where none is named.
    #[serde(default)]
    trunk: Option<ResourceRef>,
}

/// `[neutron.stock]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StockConfig {
    /// How many ports of each kind are ready, at least.
    minimum: usize,
    /// How many are kept, at most.
    maximum: usize,
    /// How many are made at once.
    batch: usize,
    /// Whether that is one request.
    bulk: bool,
    /// How long they are kept for a network that no container is on.
    idle_seconds: u64,
}

impl Default for StockConfig {
    fn default() -> Self {
        Self { minimum: 5, maximum: 20, batch: 5, bulk: false, idle_seconds: 60 }
    }
}

impl std::fmt::Debug for Account {
    /// Without secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Account")
            .field("auth_url", &self.auth_url)
            .field("username", &self.username)
            .finish_non_exhaustive()
    }
}

impl NeutronConfig {
    /// All settings of the cloud, from any source; `variable` gives the environment's.
    ///
    /// # Errors
    /// A file that cannot be read, or an impossible setting.
    pub fn settings(
        &self,
        kuryr: &KuryrConfig,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<CloudSettings> {
        let instead = self.account.given();
        // A cloud that is named here excludes another one in the environment.
        let is_named = ["auth_url", "endpoint_override"]
            .iter()
            .any(|key| instead.iter().any(|(k, _)| k == key));
        let of_environment =
            |name: &str| variable(name).filter(|_| !(is_named && name.starts_with("OS_")));
        let sources = Sources {
            cloud: self.cloud.clone(),
            clouds_file: self.clouds_file.clone(),
            kuryr_conf: self.kuryr_conf.clone(),
            instead,
        };
        let given =
            sources.read(&of_environment).map_err(|error| match self == &Self::default() {
                true => error.context("[neutron] of the configuration says nothing"),
                false => error,
            })?;
        let mut access = given.access;
        access.concurrency = self.concurrency.unwrap_or(access.concurrency);
        let is_swarm = kuryr.scope(&given.conf.plugin, variable)? == Scope::Global;
        let settings = Settings {
            access,
            host: self.host()?,
            plugging: self.plugging(given.conf.plugging)?,
            kuryr: Kuryr { is_swarm, ..kuryr.over(given.conf.kuryr) },
            stock: self.stock.as_ref().map(StockConfig::settings),
        };
        Ok(CloudSettings { settings, plugin: given.conf.plugin, notes: given.conf.notes })
    }

    fn host(&self) -> Result<HostId> {
        let name = match &self.host {
            Some(host) => host.clone(),
            None => std::fs::read_to_string(HOSTNAME)
                .map_err(|cause| Error::os(format!("reading {HOSTNAME}"), cause))?
                .trim()
                .to_owned(),
        };
        HostId::try_from(name).map_err(|error| error.context("neutron.host"))
    }

    fn plugging(&self, given: Plugging) -> Result<Plugging> {
        Ok(Plugging {
            bridge: self.bridge.clone().unwrap_or(given.bridge),
            ovsdb: self.ovsdb.clone().unwrap_or(given.ovsdb),
            bindir: self.bindir.clone().or(given.bindir),
            nesting: match &self.nesting {
                Some(nesting) => Some(nesting.nesting()?),
                None => given.nesting,
            },
            wait: self.wait_seconds.map(Duration::from_secs).or(given.wait),
            timeout: given.timeout,
            lock: given.lock,
        })
    }

    /// Refuses impossible settings, without reading another file.
    pub(super) fn check(&self) -> Result<()> {
        for (key, path) in [
            ("neutron.clouds_file", &self.clouds_file),
            ("neutron.kuryr_conf", &self.kuryr_conf),
            ("neutron.bindir", &self.bindir),
        ] {
            path.as_ref().map_or(Ok(()), |path| absolute(key, path))?;
        }
        if let Some(host) = &self.host {
            HostId::try_from(host.clone()).map_err(|error| error.context("neutron.host"))?;
        }
        within("neutron.concurrency", self.concurrency.map(|n| n as u64), MOST_REQUESTS as u64)?;
        within("neutron.wait_seconds", self.wait_seconds, LONGEST_WAIT)?;
        self.nesting.as_ref().map_or(Ok(()), |nesting| nesting.nesting().map(drop))?;
        self.stock.as_ref().map_or(Ok(()), StockConfig::check)
    }
}

impl Account {
    /// The given options, by keystoneauth's names.
    fn given(&self) -> Vec<(&'static str, String)> {
        let texts = [
            ("auth_type", &self.auth_type),
            ("auth_url", &self.auth_url),
            ("username", &self.username),
            ("user_id", &self.user_id),
            ("user_domain_id", &self.user_domain_id),
            ("user_domain_name", &self.user_domain_name),
            ("password", &self.password),
            ("project_id", &self.project_id),
            ("project_name", &self.project_name),
            ("project_domain_id", &self.project_domain_id),
            ("project_domain_name", &self.project_domain_name),
            ("default_domain_id", &self.default_domain_id),
            ("default_domain_name", &self.default_domain_name),
            ("application_credential_id", &self.application_credential_id),
            ("application_credential_name", &self.application_credential_name),
            ("application_credential_secret", &self.application_credential_secret),
            ("token", &self.token),
            ("region_name", &self.region_name),
            ("interface", &self.interface),
            ("endpoint_override", &self.endpoint_override),
            ("cafile", &self.cafile),
        ];
        let texts = texts.into_iter().filter_map(|(key, text)| Some((key, text.clone()?)));
        let others = [
            ("insecure", self.insecure.map(|flag| flag.to_string())),
            ("timeout", self.timeout.map(|seconds| seconds.to_string())),
        ];
        texts.chain(others.into_iter().filter_map(|(key, text)| Some((key, text?)))).collect()
    }
}

impl NestingConfig {
    fn nesting(&self) -> Result<Nesting> {
        let Self { kind, parent, mode, trunk } = self;
        Nesting::named(kind, Some(parent.clone()), mode.as_deref(), trunk.clone())
            .map_err(|error| error.context("neutron.nesting"))
    }
}

impl StockConfig {
    fn settings(&self) -> StockSettings {
        let Self { minimum, maximum, batch, bulk, idle_seconds } = *self;
        StockSettings { minimum, maximum, batch, bulk, idle: Duration::from_secs(idle_seconds) }
    }

    fn check(&self) -> Result<()> {
        within("neutron.stock.maximum", Some(self.maximum as u64), MOST_PORTS as u64)?;
        within("neutron.stock.batch", Some(self.batch as u64), MOST_PORTS as u64)?;
        within("neutron.stock.idle_seconds", Some(self.idle_seconds), LONGEST_IDLE)?;
        match self.minimum <= self.maximum {
            true => Ok(()),
            false => Err(Error::invalid("neutron.stock.minimum is above neutron.stock.maximum")),
        }
    }
}

fn within(key: &str, value: Option<u64>, most: u64) -> Result<()> {
    match value {
        Some(value) if !(1..=most).contains(&value) => {
            Err(Error::invalid(format!("{key} is {value}; it must be between 1 and {most}")))
        }
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use neutron::config::{Identity, Named};

    use super::*;

    fn parse(text: &str) -> Result<NeutronConfig> {
        let config: NeutronConfig =
            toml::from_str(text).map_err(|error| Error::invalid(error.to_string()))?;
        config.check().map(|()| config)
    }

    fn settings(text: &str, environment: &[(&str, &str)]) -> Result<Settings> {
        let variable = |name: &str| {
            environment.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        };
        Ok(parse(text)?.settings(&KuryrConfig::default(), &variable)?.settings)
    }

    const ACCOUNT: &str = r#"
        auth_url = "https://keystone:5000/v3"
        username = "spoke"
        password = "secret"
        project_name = "containers"
        user_domain_name = "Default"
        project_domain_name = "Default"
    "#;

    #[test]
    fn says_who_we_are_and_how_ports_are_connected() {
        let text = format!(
            "{ACCOUNT}\nhost = \"node-1\"\novsdb = \"tcp:127.0.0.1:6640\"\nwait_seconds = 5\n\
             [nesting]\ntype = \"trunk\"\nparent = \"eth0\"\n[stock]\nmaximum = 8\n"
        );
        let other = [("OS_AUTH_URL", "http://other"), ("OS_USERNAME", "other")];
        let settings = settings(&text, &other).unwrap();
        let Identity::Password { url, user, .. } = &settings.access.identity else { panic!() };
        assert_eq!(url, "https://keystone:5000/v3");
        assert!(matches!(user, Named::Name { name, .. } if name == "spoke"));
        assert_eq!(settings.host.as_str(), "node-1");
        assert_eq!(settings.plugging.wait, Some(Duration::from_secs(5)));
        assert!(matches!(settings.plugging.nesting, Some(Nesting::Trunk { .. })));
        assert_eq!(settings.stock.unwrap().maximum, 8);
    }

    #[test]
    fn a_neutron_without_keystone_is_named_by_itself() {
        let settings =
            settings("auth_type = \"none\"\nendpoint = \"http://127.0.0.1:9696\"", &[]).unwrap();
        assert!(matches!(settings.access.identity, Identity::None { .. }));
        assert_eq!(settings.access.endpoint.as_deref(), Some("http://127.0.0.1:9696"));
    }

    #[test]
    fn refuses_what_cannot_be() {
        for (text, word) in [
            ("pasword = \"x\"", "pasword"),
            ("kuryr_conf = \"kuryr.conf\"", "absolute"),
            ("host = \"two words\"", "neutron.host"),
            ("concurrency = 0", "neutron.concurrency"),
            ("wait_seconds = 100000", "neutron.wait_seconds"),
            ("[nesting]\ntype = \"vxlan\"\nparent = \"eth0\"", "neutron.nesting"),
            ("[stock]\nminimum = 9\nmaximum = 3", "neutron.stock.minimum"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let config = parse(ACCOUNT).unwrap();
        assert!(!format!("{config:?}").contains("secret"));
    }
}
