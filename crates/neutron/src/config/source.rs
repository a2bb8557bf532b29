//! Sources of settings: `kuryr.conf`, `clouds.yaml`, the environment, and Spoke's own
//! configuration.

use std::path::{Path, PathBuf};

use model::{Error, Result};
use serde_json::Value;

use super::options::{KNOWN, Options};
use super::{Access, KuryrConf, Proxies, kuryr};

/// A larger file is refused, in bytes.
const LARGEST: u64 = 1 << 20;

/// Options of the environment: `OS_` and these in capitals, then those of [`KNOWN`], then newer names.
const OLDER: [&str; 8] = [
    "tenant_id",
    "tenant_name",
    "auth_token",
    "region",
    "endpoint_type",
    "endpoint",
    "url",
    "ca_cert",
];
const NEWER: [&str; 5] = ["network_endpoint_override", "cacert", "cert", "key", "auth_plugin"];

/// Options of [`KNOWN`] that the environment has by other names, or not at all.
const OF_FILES: [&str; 4] = ["cafile", "timeout", "certfile", "keyfile"];

/// Which of the sources is meant, and what holds whatever they say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    /// A cloud of `clouds.yaml`; `OS_CLOUD` where none is named.
    pub cloud: Option<String>,
    /// That file; the usual places where none is named.
    pub clouds_file: Option<PathBuf>,
    /// `kuryr.conf`.
    pub kuryr_conf: Option<PathBuf>,
    /// In front of the source's, each with the key that says it: keystoneauth's names.
    pub instead: Vec<(&'static str, String)>,
}

/// The settings in the sources.
#[derive(Clone, Debug, PartialEq)]
pub struct SourcesRead {
    /// Where the cloud is, and the account there.
    pub access: Access,
    /// The rest of `kuryr.conf`, or what holds without it.
    pub conf: KuryrConf,
}

impl Sources {
    /// Reads them. A cloud that is named comes before what `kuryr.conf` says of one, that before
    /// the environment; `variable` gives the environment's.
    ///
    /// # Errors
    /// A file that cannot be read or understood, with the place of what is wrong.
    pub fn read(&self, variable: &dyn Fn(&str) -> Option<String>) -> Result<SourcesRead> {
        let (conf, given) = match &self.kuryr_conf {
            Some(path) => {
                let doing = || format!("reading {}", path.display());
                let text = file(path)?
                    .ok_or_else(|| Error::invalid("there is no such file").context(doing()))?;
                kuryr::read(&text, variable).map_err(|error| error.context(doing()))?
            }
            None => (KuryrConf::usual()?, Options::default()),
        };
        let from_environment = || variable("OS_CLOUD").filter(|cloud| !cloud.is_empty());
        let mut options = match (&self.cloud, given.is_given()) {
            (None, true) => given,
            (cloud, _) => match cloud.clone().or_else(from_environment) {
                Some(cloud) => self.cloud(&cloud, variable)?,
                None => environment(variable),
            },
        };
        for (name, value) in &self.instead {
            options.set(name, value, &format!("neutron.{name}"));
        }
        let access = options.access().map_err(|error| error.context("signing on to the cloud"))?;
        let proxies = Proxies::of_environment(variable);
        Ok(SourcesRead { access: Access { proxies, ..access }, conf })
    }

    fn cloud(&self, name: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<Options> {
        let (path, mut clouds) = match &self.clouds_file {
            Some(path) => (
                path.clone(),
                document(path)?.ok_or_else(|| {
                    Error::invalid(format!("reading {}: there is no such file", path.display()))
                })?,
            ),
            None => find("clouds", "OS_CLIENT_CONFIG_FILE", variable)?.ok_or_else(|| {
                Error::invalid(format!(
                    "cloud {name:?} is wanted, but there is no clouds.yaml in \
                     ~/.config/openstack or /etc/openstack; name it as clouds_file"
                ))
            })?,
        };
        let beside = self.clouds_file.as_ref().map(|path| path.with_file_name("secure.yaml"));
        let secure = match beside {
            Some(path) => document(&path)?,
            None => find("secure", "OS_CLIENT_SECURE_FILE", variable)?.map(|(_, secure)| secure),
        };
        if let Some(secure) = secure {
            merge(&mut clouds, secure, 0);
        }
        let cloud = clouds.get("clouds").and_then(|clouds| clouds.get(name));
        let cloud = cloud.and_then(Value::as_object).ok_or_else(|| {
            let names = clouds.get("clouds").and_then(Value::as_object);
            let names: Vec<&str> =
                names.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
            Error::invalid(format!(
                "{} has no cloud {name:?}; it has: {}",
                path.display(),
                names.join(", ")
            ))
        })?;
        let mut options = Options::default();
        let place = |key: &str| format!("{}: {name}: {key}", path.display());
        let regions = cloud.get("regions").and_then(|regions| regions.get(0));
        let region = regions.map(|region| region.get("name").unwrap_or(region));
        let auth = cloud.get("auth").and_then(Value::as_object);
        let first = region.map(|region| ("region_name", region)).into_iter();
        let all = first
            .chain(cloud.iter().map(|(key, value)| (key.as_str(), value)))
            .chain(auth.into_iter().flatten().map(|(key, value)| (key.as_str(), value)));
        for (key, value) in all {
            match value {
                Value::String(text) => options.set(key, text, &place(key)),
                Value::Bool(flag) => options.set(key, &flag.to_string(), &place(key)),
                _ => false,
            };
        }
        Ok(options)
    }
}

/// `OS_AUTH_URL`, `OS_USERNAME`, …
fn environment(variable: &dyn Fn(&str) -> Option<String>) -> Options {
    let mut options = Options::default();
    let known = KNOWN.into_iter().filter(|name| !OF_FILES.contains(name));
    for name in OLDER.into_iter().chain(known).chain(NEWER) {
        let name_there = format!("OS_{}", name.to_ascii_uppercase());
        if let Some(value) = variable(&name_there) {
            options.set(name, &value, &name_there);
        }
    }
    options
}

/// The first of the usual places that has the file. Not the working directory, which belongs to the
/// caller of a plugin.
fn find(
    stem: &str,
    named: &str,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<(PathBuf, Value)>> {
    let named = variable(named).filter(|path| !path.is_empty()).map(PathBuf::from);
    let home = variable("HOME").filter(|home| home.starts_with('/'));
    let below = |directory: PathBuf| {
        ["yaml", "yml"].map(|ending| directory.join(format!("{stem}.{ending}")))
    };
    let own = home.map(|home| below(Path::new(&home).join(".config/openstack")));
    let hosts = below("/etc/openstack".into());
    for path in named.into_iter().chain(own.into_iter().flatten()).chain(hosts) {
        if let Some(found) = document(&path)? {
            return Ok(Some((path, found)));
        }
    }
    Ok(None)
}

fn document(path: &Path) -> Result<Option<Value>> {
    let Some(text) = file(path)? else { return Ok(None) };
    yaml::read(&text)
        .map(Some)
        .map_err(|error| error.context(format!("reading {}", path.display())))
}

/// A file's text; none where there is none.
fn file(path: &Path) -> Result<Option<String>> {
    match file::text(path, LARGEST) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        text => text
            .map(Some)
            .map_err(|error| file::failed(format!("reading {}", path.display()), error)),
    }
}

/// Puts `more` over `whole`, mapping by mapping.
fn merge(whole: &mut Value, more: Value, depth: usize) {
    match (whole, more) {
        (Value::Object(whole), Value::Object(more)) if depth < 8 => {
            for (key, value) in more {
                merge(whole.entry(key).or_insert(Value::Null), value, depth + 1);
            }
        }
        (whole, more) => *whole = more,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Identity, Interface};
    use std::fs;

    const CLOUDS: &str = "
clouds:
  lab:
    auth:
      auth_url: http://k:5000/v3
      username: kuryr
      project_name: service
    regions: [R, S]
    interface: internal
    verify: false
  none:
    auth_type: none
    endpoint_override: http://n:9696
";

    fn nothing(_: &str) -> Option<String> {
        None
    }

    fn secret(access: &Access) -> &str {
        match &access.identity {
            Identity::Password { password, .. } => password,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_cloud_and_its_secret() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("clouds.yaml");
        fs::write(&file, CLOUDS).unwrap();
        let sources = |cloud: Option<&str>| Sources {
            cloud: cloud.map(ToOwned::to_owned),
            clouds_file: Some(file.clone()),
            ..Sources::default()
        };
        let error = sources(Some("lab")).read(&nothing).unwrap_err().to_string();
        assert!(error.contains("password is missing"), "{error}");
        fs::write(directory.path().join("secure.yaml"), "clouds: {lab: {auth: {password: s}}}")
            .unwrap();
        let access = sources(Some("lab")).read(&nothing).unwrap().access;
        assert_eq!((secret(&access), access.region.as_deref()), ("s", Some("R")));
        assert!(access.insecure && access.interface == Interface::Internal);
        let chosen = |name: &str| (name == "OS_CLOUD").then(|| "none".to_owned());
        let access = sources(None).read(&chosen).unwrap().access;
        assert_eq!(access.identity, Identity::None { project: None });
        let error = sources(Some("other")).read(&nothing).unwrap_err().to_string();
        assert!(error.contains("\"other\"; it has: lab, none"), "{error}");
        let usual = |name: &str| match name {
            "OS_CLIENT_CONFIG_FILE" => Some(file.display().to_string()),
            "OS_CLIENT_SECURE_FILE" => Some("/nowhere".to_owned()),
            _ => None,
        };
        let none = Sources { cloud: Some("none".to_owned()), ..Sources::default() };
        assert!(none.read(&usual).is_ok());
    }

    #[test]
    fn the_environment_comes_last() {
        let variable = |name: &str| {
            let value = match name {
                "OS_AUTH_URL" => "http://k",
                "OS_USERNAME" => "u",
                "OS_PASSWORD" => "of the environment",
                "OS_TENANT_NAME" => "older",
                "OS_PROJECT_NAME" => "newer",
                "http_proxy" => "http://p:3128",
                _ => return None,
            };
            Some(value.to_owned())
        };
        let directory = tempfile::tempdir().unwrap();
        let conf = directory.path().join("kuryr.conf");
        fs::write(&conf, "[neutron]\nenable_dhcp = False\n").unwrap();
        let instead = vec![("region_name", "R".to_owned())];
        let mut sources = Sources { kuryr_conf: Some(conf.clone()), instead, ..Sources::default() };
        let given = sources.read(&variable).unwrap();
        assert_eq!(secret(&given.access), "of the environment");
        assert_eq!(given.access.region.as_deref(), Some("R"));
        assert!(!given.conf.kuryr.enable_dhcp && given.access.proxies != Proxies::default());
        let own =
            "[neutron]\nauth_url=http://k\nusername=u\nproject_name=p\npassword=of the file\n";
        fs::write(&conf, own).unwrap();
        assert_eq!(secret(&sources.read(&variable).unwrap().access), "of the file");
        sources.kuryr_conf = Some(directory.path().join("none"));
        assert!(sources.read(&variable).unwrap_err().to_string().contains("no such file"));
    }
}
