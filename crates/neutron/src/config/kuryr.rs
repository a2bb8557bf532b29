//! `kuryr.conf`, as kuryr-libnetwork 18 reads it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use model::{Error, IfName, IpvlanMode, MacvlanMode, Nesting, Result};

use super::ini::{DEFAULT, Ini};
use super::options::{Options, flag};
use super::{Kuryr, Plugging};

/// Where kuryr listens, where none is given.
const URI: &str = "http://127.0.0.1:23750";

/// The address space of either kind, where none is given.
const SPACE: &str = "no_address_space";

/// The contents of kuryr.conf, with kuryr's defaults for the rest.
#[derive(Clone, Debug, PartialEq)]
pub struct KuryrConf {
    /// The treatment of Docker's requests.
    pub kuryr: Kuryr,
    /// How ports are connected on this host.
    pub plugging: Plugging,
    /// How Docker reaches the plugin.
    pub plugin: Plugin,
    /// What was skipped, and why: a sentence each.
    pub notes: Vec<String>,
}

/// How Docker reaches the plugin `kuryr`, and what that reports itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plugin {
    /// `kuryr_uri`: where it listens; `None` where it says 0.0.0.0 or a name that is no address.
    pub listen: Option<SocketAddr>,
    /// `capability_scope`: whether networks belong to a swarm rather than to one host.
    pub is_global: bool,
    /// `local_default_address_space` and `global_default_address_space`.
    pub spaces: [String; 2],
    /// `[binding] veth_dst_prefix`: what containers' interfaces are called, before a number.
    pub prefix: Option<IfName>,
    /// `ssl_cert_file` and `ssl_key_file`, where `enable_ssl` says so.
    pub tls: Option<[PathBuf; 2]>,
}

impl Default for Plugin {
    fn default() -> Self {
        Self {
            listen: listen(URI).ok().flatten(),
            is_global: false,
            spaces: [SPACE, SPACE].map(ToOwned::to_owned),
            prefix: None,
            tls: None,
        }
    }
}

impl KuryrConf {
    /// The settings where there is no such file.
    pub fn usual() -> Result<Self> {
        let (kuryr, plugin, notes) = (Kuryr::default(), Plugin::default(), Vec::new());
        Ok(Self { kuryr, plugging: Plugging::usual()?, plugin, notes })
    }
}

/// Keys of `[DEFAULT]` that are read.
const READ: [&str; 15] = [
    "kuryr_uri",
    "capability_scope",
    "local_default_address_space",
    "global_default_address_space",
    "default_port_driver",
    "enabled_port_drivers",
    "port_driver",
    "process_external_connectivity",
    "enable_ssl",
    "ssl_cert_file",
    "ssl_key_file",
    "bindir",
    "subnetpool_name_prefix",
    "pybasedir",
    "state_path",
];

/// Keys of `[neutron]` that are read besides keystoneauth's.
const NEUTRON: [&str; 8] = [
    "enable_dhcp",
    "default_subnetpool_v4",
    "default_subnetpool_v6",
    "vif_plugging_is_fatal",
    "vif_plugging_timeout",
    "auth_section",
    "enable_port_security",
    "service_type",
];

/// Keys of `[binding]` that are read.
const BINDING: [&str; 5] =
    ["default_driver", "driver", "enabled_drivers", "veth_dst_prefix", "link_iface"];

/// One file being read.
struct Reading<'a> {
    ini: &'a Ini,
    variable: &'a dyn Fn(&str) -> Option<String>,
    notes: Vec<String>,
}

/// Reads `kuryr.conf`; `variable` gives the environment's. Besides, the account in the cloud.
pub(super) fn read(
    text: &str,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<(KuryrConf, Options)> {
    let ini = Ini::read(text)?;
    let mut reading = Reading { ini: &ini, variable, notes: Vec::new() };
    let kuryr = reading.kuryr()?;
    let plugging = reading.plugging()?;
    let plugin = reading.plugin()?;
    let options = reading.options();
    reading.pass_over();
    Ok((KuryrConf { kuryr, plugging, plugin, notes: reading.notes }, options))
}

impl Reading<'_> {
    fn text(&self, section: &str, key: &str) -> Option<String> {
        self.ini.get(section, key)
    }

    fn flag(&self, section: &str, key: &str, usual: bool) -> Result<bool> {
        let Some(text) = self.text(section, key) else { return Ok(usual) };
        flag(&text).ok_or_else(|| bad(section, key, &text, "give True or False"))
    }

    fn note(&mut self, what: String) {
        self.notes.push(what);
    }

    fn kuryr(&self) -> Result<Kuryr> {
        let usual = Kuryr::default();
        let [v4, v6] = usual.default_pools;
        Ok(Kuryr {
            pool_prefix: self.text(DEFAULT, "subnetpool_name_prefix").unwrap_or(usual.pool_prefix),
            default_pools: [
                self.text("neutron", "default_subnetpool_v4").unwrap_or(v4),
                self.text("neutron", "default_subnetpool_v6").unwrap_or(v6),
            ],
            enable_dhcp: self.flag("neutron", "enable_dhcp", usual.enable_dhcp)?,
            exposes: self.flag(DEFAULT, "process_external_connectivity", usual.exposes)?,
            is_swarm: usual.is_swarm,
        })
    }

    fn plugging(&mut self) -> Result<Plugging> {
        let bindir = self.text(DEFAULT, "bindir").map(PathBuf::from);
        if let Some(bindir) = bindir.as_ref().filter(|path| !path.is_absolute()) {
            let text = bindir.display().to_string();
            return Err(bad(DEFAULT, "bindir", &text, "give an absolute path"));
        }
        let (nesting, wait) = (self.nesting()?, self.wait()?);
        Ok(Plugging { bindir, nesting, wait, ..Plugging::usual()? })
    }

    /// `vif_plugging_timeout` 0 means for ever. Spoke does not wait then.
    fn wait(&self) -> Result<Option<Duration>> {
        let is_fatal = self.flag("neutron", "vif_plugging_is_fatal", false)?;
        let text = self.text("neutron", "vif_plugging_timeout").unwrap_or_else(|| "0".to_owned());
        let seconds: u64 = text.trim().parse().map_err(|_| {
            bad("neutron", "vif_plugging_timeout", &text, "give a number of seconds")
        })?;
        let seconds = if seconds == 0 { super::LONGEST_WAIT } else { seconds };
        Ok(is_fatal.then(|| Duration::from_secs(seconds.min(super::LONGEST_WAIT))))
    }

    /// By the port driver; by the binding driver, its older form, where there is no port driver.
    fn nesting(&mut self) -> Result<Option<Nesting>> {
        let first = |reading: &Self, keys: &[(&str, &'static str)]| {
            keys.iter().find_map(|(section, key)| {
                reading.text(section, key).map(|value| (section.to_string(), *key, value))
            })
        };
        let port = first(self, &[(DEFAULT, "default_port_driver"), (DEFAULT, "port_driver")]);
        let link = first(self, &[("binding", "default_driver"), ("binding", "driver")]);
        for (section, old, new) in [
            (DEFAULT, "port_driver", "default_port_driver"),
            ("binding", "driver", "default_driver"),
        ] {
            if self.text(section, old).is_some() {
                self.note(format!("[{section}] {old} is deprecated; it is called {new}"));
            }
        }
        let last = |value: &str| value.rsplit('.').next().unwrap_or(value).to_ascii_lowercase();
        let link_name = link.as_ref().map(|(.., value)| last(value));
        let name = match &port {
            Some((.., value)) if last(value) == "nested" => {
                link_name.filter(|name| name == "ipvlan").unwrap_or_else(|| "macvlan".to_owned())
            }
            Some((.., value)) => last(value),
            None => link_name.unwrap_or_else(|| "veth".to_owned()),
        };
        match name.as_str() {
            "veth" | "sriov" | "hw_veb" => Ok(None),
            "macvlan" => {
                Ok(Some(Nesting::Macvlan { parent: self.parent()?, mode: MacvlanMode::Bridge }))
            }
            "ipvlan" => Ok(Some(Nesting::Ipvlan { parent: self.parent()?, mode: IpvlanMode::L2 })),
            "vlan" => Ok(Some(Nesting::Trunk { parent: self.parent()?, trunk: None })),
            _ => {
                let given = port.or(link);
                let (section, key, value) = given.unwrap_or_default();
                Err(bad(&section, key, &value, "the drivers are veth, nested, vlan and sriov"))
            }
        }
    }

    fn parent(&self) -> Result<IfName> {
        let text = self.text("binding", "link_iface").ok_or_else(|| {
            Error::invalid("[binding] link_iface is missing: name the instance's interface")
        })?;
        text.parse().map_err(|error: Error| error.context("[binding] link_iface"))
    }

    fn plugin(&self) -> Result<Plugin> {
        let uri = (self.variable)("OS_KURYR_URI").filter(|uri| !uri.is_empty());
        let uri = self.text(DEFAULT, "kuryr_uri").or(uri).unwrap_or_else(|| URI.to_owned());
        let scope = (self.variable)("CAPABILITY_SCOPE").filter(|scope| !scope.is_empty());
        let scope = self.text(DEFAULT, "capability_scope").or(scope);
        let space = |key: &str| self.text(DEFAULT, key).unwrap_or_else(|| SPACE.to_owned());
        let file = |key: &str| {
            let path = self.text(DEFAULT, key).map(PathBuf::from);
            path.ok_or_else(|| {
                Error::invalid(format!("[DEFAULT] {key} is missing: enable_ssl is set"))
            })
        };
        let tls = match self.flag(DEFAULT, "enable_ssl", false)? {
            true => Some([file("ssl_cert_file")?, file("ssl_key_file")?]),
            false => None,
        };
        Ok(Plugin {
            listen: listen(&uri)?,
            is_global: match scope.as_deref().unwrap_or("local") {
                "local" => false,
                "global" => true,
                other => {
                    return Err(bad(DEFAULT, "capability_scope", other, "give local or global"));
                }
            },
            spaces: [space("local_default_address_space"), space("global_default_address_space")],
            prefix: self
                .text("binding", "veth_dst_prefix")
                .map(|prefix| prefix.parse())
                .transpose()
                .map_err(|error: Error| error.context("[binding] veth_dst_prefix"))?,
            tls,
        })
    }

    /// keystoneauth's options, of the section that `auth_section` names where it does.
    fn options(&mut self) -> Options {
        let mut options = Options::default();
        let other = self.text("neutron", "auth_section");
        for section in other.as_deref().into_iter().chain(["neutron"]) {
            for key in self.ini.keys(section) {
                let Some(value) = self.ini.get(section, key) else { continue };
                options.set(key, &value, &format!("[{section}] {key}"));
            }
        }
        options
    }

    /// Reports what is not read. oslo.log's and oslo.service's keys are many and mean nothing here.
    fn pass_over(&mut self) {
        let auth = self.text("neutron", "auth_section");
        let mut unknown = Vec::new();
        for section in self.ini.sections() {
            let known: &[&str] = match section {
                DEFAULT => &READ,
                "neutron" => &NEUTRON,
                "binding" => &BINDING,
                _ if auth.as_deref() == Some(section) => &[],
                _ => {
                    unknown.push(format!("[{section}] is not read"));
                    continue;
                }
            };
            let is_auth = section == "neutron" || auth.as_deref() == Some(section);
            let is_option = |key: &str| is_auth && Options::default().set(key, "", "");
            let keys = self.ini.keys(section).filter(|key| !known.contains(key) && !is_option(key));
            unknown.extend(keys.map(|key| format!("[{section}] {key} is not read")));
        }
        self.notes.extend(unknown);
    }
}

fn bad(section: &str, key: &str, value: &str, why: &str) -> Error {
    Error::invalid(format!("[{section}] {key} is {value:?}: {why}"))
}

/// `http://127.0.0.1:23750`; none where the host is no address.
fn listen(uri: &str) -> Result<Option<SocketAddr>> {
    let wrong = || bad(DEFAULT, "kuryr_uri", uri, "give http://ADDRESS:PORT");
    let rest = uri.split_once("://").map_or(uri, |(_, rest)| rest).trim_end_matches('/');
    let (host, port) = rest.rsplit_once(':').ok_or_else(wrong)?;
    let port = port.parse().map_err(|_| wrong())?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let host = if host == "localhost" { "127.0.0.1" } else { host };
    Ok(host.parse().ok().map(|host| SocketAddr::new(host, port)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Identity;

    const CONF: &str = "
[DEFAULT]
kuryr_uri = http://127.0.0.2:23750
capability_scope = global
bindir = $pybasedir/libexec/kuryr
pybasedir = /usr/local
debug = True
port_driver = kuryr_libnetwork.port_driver.drivers.nested
[neutron]
auth_url = http://k:5000/v3
auth_type = password
username = kuryr
user_domain_name = Default
project_name = service
password = a$$b
enable_dhcp = False
endpoint_type = internal
max_retries = 3
vif_plugging_is_fatal = True
[binding]
link_iface = eth0
veth_dst_prefix = net
[oslo_concurrency]
lock_path = /x
";

    #[test]
    fn reads_what_kuryr_reads() {
        let (conf, options) = read(CONF, &|_| None).unwrap();
        assert_eq!(conf.plugin.listen, Some("127.0.0.2:23750".parse().unwrap()));
        assert_eq!(conf.plugin.prefix, Some("net".parse().unwrap()));
        assert!(conf.plugin.is_global && !conf.kuryr.enable_dhcp && conf.kuryr.exposes);
        assert_eq!(conf.plugging.bindir, Some("/usr/local/libexec/kuryr".into()));
        let parent = "eth0".parse().unwrap();
        let nesting = Nesting::Macvlan { parent, mode: MacvlanMode::Bridge };
        assert_eq!(conf.plugging.nesting, Some(nesting));
        assert_eq!(conf.plugging.wait, Some(Duration::from_secs(300)));
        assert_eq!(
            conf.notes,
            [
                "[DEFAULT] port_driver is deprecated; it is called default_port_driver",
                "[DEFAULT] debug is not read",
                "[neutron] max_retries is not read",
                "[oslo_concurrency] is not read",
            ]
        );
        let access = options.access().unwrap();
        let Identity::Password { password, .. } = access.identity else { panic!("{access:?}") };
        assert_eq!(password, "a$b");
    }

    #[test]
    fn an_empty_file_is_kuryrs_defaults() {
        let (conf, options) = read("", &|_| None).unwrap();
        assert_eq!(conf, KuryrConf::usual().unwrap());
        assert!(!options.is_given());
        let variable = |name: &str| match name {
            "OS_KURYR_URI" => Some("http://0.0.0.0:1".to_owned()),
            "CAPABILITY_SCOPE" => Some("global".to_owned()),
            _ => None,
        };
        let (conf, _) = read("", &variable).unwrap();
        assert!(conf.plugin.is_global);
        assert_eq!(conf.plugin.listen, Some("0.0.0.0:1".parse().unwrap()));
    }

    #[test]
    fn names_key_and_value() {
        for (text, words) in [
            ("[DEFAULT]\ncapability_scope = world", ["capability_scope", "world"]),
            ("[DEFAULT]\nkuryr_uri = here", ["kuryr_uri", "here"]),
            ("[DEFAULT]\nbindir = libexec", ["bindir", "libexec"]),
            ("[DEFAULT]\nenable_ssl = 1", ["ssl_cert_file", "missing"]),
            ("[DEFAULT]\ndefault_port_driver = x.y.magic", ["default_port_driver", "magic"]),
            ("[DEFAULT]\ndefault_port_driver = a.vlan", ["link_iface", "missing"]),
            ("[binding]\ndriver = a.ipvlan\nlink_iface = a/b", ["link_iface", "a/b"]),
            ("[neutron]\nenable_dhcp = perhaps", ["enable_dhcp", "perhaps"]),
            ("[neutron]\nvif_plugging_timeout = soon", ["vif_plugging_timeout", "soon"]),
        ] {
            let error = read(text, &|_| None).unwrap_err().to_string();
            assert!(words.iter().all(|word| error.contains(word)), "{error}");
        }
    }

    #[test]
    fn another_section_may_say_who_we_are() {
        let text =
            "[neutron]\nauth_section = k\nregion_name = R\n[k]\nauth_url = http://k\nodd = 1\n";
        let (conf, options) = read(text, &|_| None).unwrap();
        assert!(options.is_given());
        assert_eq!(conf.notes, ["[k] odd is not read"]);
    }
}
