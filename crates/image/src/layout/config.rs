//! The program of an OCI image: its configuration (OCI image specification 1.1, config.md).

use std::collections::BTreeMap;

use model::{Error, Result};
use serde::Deserialize;
use serde_json::Value;

use crate::manifest::Platform;
use crate::{App, Digest, Isolators, MountPoint};

/// The label or annotation of an image that wants to do all that root may do: `true`.
pub const PRIVILEGED: &str = "io.spoke.privileged";

/// The label or annotation that says where an image wants something mounted:
/// `NAME:PATH[:ro][,NAME:PATH[:ro]]…`.
pub const MOUNTS: &str = "io.spoke.mounts";

/// An image's configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// For what it is.
    pub platform: Platform,
    /// The program.
    pub app: Option<App>,
    /// The digests of the unpacked layers, lowest first.
    pub layers: Vec<Digest>,
}

/// As it's written; Docker writes `null` for what is empty.
#[derive(Deserialize)]
struct Wire {
    #[serde(flatten)]
    platform: Platform,
    config: Option<Inner>,
    rootfs: Option<RootFs>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Inner {
    entrypoint: Option<Vec<String>>,
    cmd: Option<Vec<String>>,
    env: Option<Vec<String>>,
    user: Option<String>,
    working_dir: Option<String>,
    labels: Option<BTreeMap<String, String>>,
    volumes: Option<BTreeMap<String, Value>>,
}

#[derive(Deserialize)]
struct RootFs {
    diff_ids: Option<Vec<String>>,
}

impl Config {
    /// Reads one. `annotations` are those of the image's manifest; its own labels come first.
    ///
    /// # Errors
    /// [`Invalid`](model::Kind::Invalid) when it is none.
    pub fn read(bytes: &[u8], annotations: &BTreeMap<String, String>) -> Result<Self> {
        let wire: Wire = serde_json::from_slice(bytes).map_err(|error| {
            Error::invalid("the image's configuration is not valid")
                .because(file::no_json(bytes, error))
        })?;
        let layers = wire.rootfs.and_then(|root| root.diff_ids).unwrap_or_default();
        let app = app(wire.config.unwrap_or_default(), annotations)
            .map_err(|error| error.context("the image's configuration"))?;
        Ok(Self {
            platform: wire.platform,
            app,
            layers: layers.iter().map(|layer| layer.parse()).collect::<Result<_>>()?,
        })
    }
}

fn app(inner: Inner, annotations: &BTreeMap<String, String>) -> Result<Option<App>> {
    let labels = inner.labels.unwrap_or_default();
    let word = |name: &str| labels.get(name).or_else(|| annotations.get(name)).map(String::as_str);
    let privileged = match word(PRIVILEGED) {
        None | Some("false" | "") => false,
        Some("true") => true,
        Some(other) => {
            return Err(Error::invalid(format!("{PRIVILEGED} is {other:?}: give true or false")));
        }
    };
    let mut mount_points = mounts(word(MOUNTS).unwrap_or_default())?;
    for path in inner.volumes.unwrap_or_default().into_keys() {
        if !mount_points.iter().any(|mount| mount.path.as_os_str() == path.as_str()) {
            mount_points.push(mount(&format!("volume{}", path.replace('/', "-")), &path, false)?);
        }
    }
    let mut exec = inner.entrypoint.unwrap_or_default();
    exec.extend(inner.cmd.unwrap_or_default());
    let user = inner.user.unwrap_or_default();
    let (user, group) = user.split_once(':').unwrap_or((&user, ""));
    let environment = inner.env.unwrap_or_default();
    Ok(Some(App {
        exec,
        user: user.to_owned(),
        group: group.to_owned(),
        environment: environment.iter().map(|pair| variable(pair)).collect::<Result<_>>()?,
        working_directory: inner.working_dir.filter(|path| !path.is_empty()).map(Into::into),
        isolators: Isolators { privileged, ..Isolators::default() },
        mount_points,
        ..App::default()
    }))
}

fn variable(pair: &str) -> Result<(String, String)> {
    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
    match name.is_empty() || pair.contains('\0') {
        true => Err(Error::invalid(format!("{pair:?} is no NAME=VALUE of an environment"))),
        false => Ok((name.to_owned(), value.to_owned())),
    }
}

fn mounts(text: &str) -> Result<Vec<MountPoint>> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (whole, read_only) = match part.strip_suffix(":ro") {
                Some(whole) => (whole, true),
                None => (part, false),
            };
            let (name, path) = whole.split_once(':').ok_or_else(|| {
                Error::invalid(format!("{MOUNTS}: {part:?} is no NAME:PATH or NAME:PATH:ro"))
            })?;
            mount(name, path, read_only)
        })
        .collect()
}

fn mount(name: &str, path: &str, read_only: bool) -> Result<MountPoint> {
    let is_plain = path.starts_with('/')
        && !path.contains('\0')
        && !path.split('/').any(|part| part == "..")
        && path.len() > 1;
    match is_plain && !name.is_empty() {
        true => Ok(MountPoint { name: name.to_owned(), path: path.into(), read_only }),
        false => Err(Error::invalid(format!("{path:?} is no absolute path to mount something at"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(config: Value) -> Result<Config> {
        let mut whole = json!({"os": "linux", "architecture": "amd64",
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", "0".repeat(64))]}});
        whole["config"] = config;
        Config::read(whole.to_string().as_bytes(), &BTreeMap::new())
    }

    #[test]
    fn says_what_runs() {
        let config = read(json!({
            "Entrypoint": ["/bin/a", "b"], "Cmd": ["c"], "Env": ["PATH=/bin", "E=", "X=y=z"],
            "User": "1000:net", "WorkingDir": "/w", "Volumes": {"/data/x": {}},
            "Labels": {PRIVILEGED: "true", MOUNTS: "spoke-runtime:/run/spoke, etc:/etc/spoke:ro"},
        }));
        let config = config.unwrap();
        let app = config.app.unwrap();
        assert_eq!(app.exec, ["/bin/a", "b", "c"]);
        assert_eq!((app.user.as_str(), app.group.as_str()), ("1000", "net"));
        assert_eq!(app.environment.len(), 3);
        assert_eq!(app.environment[2], ("X".to_owned(), "y=z".to_owned()));
        assert_eq!(app.working_directory, Some("/w".into()));
        assert!(app.isolators.privileged);
        let mount = |name: &str, path: &str, read_only| MountPoint {
            name: name.to_owned(),
            path: path.into(),
            read_only,
        };
        assert_eq!(
            app.mount_points,
            [
                mount("spoke-runtime", "/run/spoke", false),
                mount("etc", "/etc/spoke", true),
                mount("volume-data-x", "/data/x", false),
            ]
        );
        assert_eq!(config.layers.len(), 1);
    }

    #[test]
    fn nulls_are_nothing() {
        let nulls = json!({"Entrypoint": null, "Cmd": null, "Env": null, "User": "",
            "WorkingDir": "", "Labels": null, "Volumes": null});
        for config in [nulls, json!(null), json!({})] {
            let app = read(config).unwrap().app.unwrap();
            assert_eq!(app, App::default());
        }
    }

    #[test]
    fn annotations_count_where_labels_say_nothing() {
        let annotations = [(PRIVILEGED.to_owned(), "true".to_owned())].into();
        let plain = json!({"os": "linux", "architecture": "amd64"}).to_string();
        let app = Config::read(plain.as_bytes(), &annotations).unwrap().app.unwrap();
        assert!(app.isolators.privileged);
        let own = json!({"os": "linux", "architecture": "amd64",
            "config": {"Labels": {PRIVILEGED: "false"}}});
        let app = Config::read(own.to_string().as_bytes(), &annotations).unwrap().app.unwrap();
        assert!(!app.isolators.privileged);
    }

    #[test]
    fn mistakes_are_named() {
        for config in [
            json!({"Env": ["=x"]}),
            json!({"Labels": {PRIVILEGED: "yes"}}),
            json!({"Labels": {MOUNTS: "a"}}),
            json!({"Labels": {MOUNTS: "a:b"}}),
            json!({"Labels": {MOUNTS: "a:/../b"}}),
            json!({"Volumes": {"x": {}}}),
            json!({"Cmd": "sh"}),
        ] {
            assert_eq!(read(config.clone()).unwrap_err().kind(), model::Kind::Invalid, "{config}");
        }
        assert_eq!(Config::read(b"{}", &BTreeMap::new()).unwrap_err().kind(), model::Kind::Invalid);
    }
}
