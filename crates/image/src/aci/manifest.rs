//! The manifest of an App Container image ("Image Manifest Schema").

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use model::{Error, Result};
use serde::Deserialize;
use serde_json::Value;

use super::isolator;
use crate::locator::check_identifier;
use crate::{App, AppName, ImageId, MountPoint};

/// The manifest of an image.
#[derive(Clone, Debug)]
pub(crate) struct Manifest {
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) app: Option<App>,
    pub(crate) dependencies: Vec<Dependency>,
    /// The only paths that the assembled image has; a slash at the end is a directory without content.
    pub(crate) whitelist: Vec<String>,
}

/// An image below another one.
#[derive(Clone, Debug)]
pub(crate) struct Dependency {
    pub(crate) name: AppName,
    pub(crate) id: Option<ImageId>,
}

/// Lists that may be missing, or be `null` in what programs in Go write.
type List<T> = Option<Vec<T>>;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw {
    ac_kind: String,
    ac_version: String,
    name: String,
    labels: List<Pair>,
    app: Option<RawApp>,
    dependencies: List<RawDependency>,
    path_whitelist: List<String>,
}

#[derive(Deserialize)]
struct Pair {
    name: String,
    #[serde(default)]
    value: Value,
}

#[derive(Deserialize)]
struct RawDependency {
    #[serde(rename = "imageName", alias = "app")]
    name: String,
    #[serde(rename = "imageID")]
    id: Option<String>,
    labels: List<Pair>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawApp {
    exec: List<String>,
    #[serde(default)]
    user: String,
    #[serde(default)]
    group: String,
    #[serde(rename = "supplementaryGIDs")]
    supplementary_gids: List<u32>,
    environment: List<Pair>,
    working_directory: Option<String>,
    isolators: List<Pair>,
    mount_points: List<RawMountPoint>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawMountPoint {
    name: String,
    path: String,
    #[serde(default)]
    read_only: bool,
}

impl Manifest {
    /// Reads and checks it.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self> {
        let raw: Raw = serde_json::from_slice(bytes)
            .map_err(|error| wrong("is no image manifest").because(file::no_json(bytes, error)))?;
        if raw.ac_kind != "ImageManifest" || raw.ac_version.is_empty() {
            return Err(wrong(&format!("is of the kind {:?}, not ImageManifest", raw.ac_kind)));
        }
        check_identifier(&raw.name).map_err(|error| error.context("its manifest"))?;
        let dependencies = raw.dependencies.unwrap_or_default().into_iter();
        let app = raw.app.map(app).transpose();
        Ok(Self {
            name: raw.name,
            labels: labels(raw.labels)?,
            app: app.map_err(|error| error.context("its manifest: app"))?,
            dependencies: dependencies.map(dependency).collect::<Result<_>>()?,
            whitelist: raw.path_whitelist.unwrap_or_default(),
        })
    }
}

fn dependency(raw: RawDependency) -> Result<Dependency> {
    let at = |error: Error| error.context(format!("its manifest: dependency {:?}", raw.name));
    let id = raw.id.filter(|id| !id.is_empty()).map(|id| id.parse()).transpose().map_err(at)?;
    let name = AppName::new(&raw.name, labels(raw.labels)?).map_err(at)?;
    Ok(Dependency { name, id })
}

fn labels(pairs: List<Pair>) -> Result<BTreeMap<String, String>> {
    let mut labels = BTreeMap::new();
    for Pair { name, value } in pairs.unwrap_or_default() {
        check_identifier(&name).map_err(|error| error.context("its manifest: label"))?;
        let value = string(&value, &name)?;
        if labels.insert(name.clone(), value).is_some() {
            return Err(wrong(&format!("has the label {name:?} twice")));
        }
    }
    Ok(labels)
}

fn app(raw: RawApp) -> Result<App> {
    let mut environment = Vec::new();
    for Pair { name, value } in raw.environment.unwrap_or_default() {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(Error::invalid(format!("{name:?} is no name of a variable")));
        }
        environment.push((name.clone(), string(&value, &name)?));
    }
    let exec = raw.exec.unwrap_or_default();
    if exec.iter().any(|argument| argument.contains('\0')) {
        return Err(Error::invalid("exec holds an argument with a zero byte"));
    }
    let isolators = raw.isolators.unwrap_or_default();
    let isolators = isolators.iter().map(|isolator| (isolator.name.as_str(), &isolator.value));
    let directory = raw.working_directory.filter(|path| !path.is_empty());
    let mount_points = raw.mount_points.unwrap_or_default().into_iter();
    Ok(App {
        exec,
        user: raw.user,
        group: raw.group,
        supplementary_groups: raw.supplementary_gids.unwrap_or_default(),
        environment,
        working_directory: directory.map(|path| absolute(&path)).transpose()?,
        isolators: isolator::read(isolators)?,
        mount_points: mount_points.map(mount_point).collect::<Result<_>>()?,
    })
}

fn mount_point(raw: RawMountPoint) -> Result<MountPoint> {
    let at = |error: Error| error.context(format!("mount point {:?}", raw.name));
    let path = absolute(&raw.path).map_err(at)?;
    if path == Path::new("/") {
        return Err(at(Error::invalid("it would hide the whole image")));
    }
    Ok(MountPoint { name: raw.name, path, read_only: raw.read_only })
}

fn absolute(text: &str) -> Result<PathBuf> {
    let path = PathBuf::from(text);
    let plain = |part| matches!(part, Component::RootDir | Component::Normal(_));
    match path.is_absolute() && path.components().all(plain) && !text.contains('\0') {
        true => Ok(path),
        false => Err(Error::invalid(format!("{text:?} is no absolute path without .."))),
    }
}

fn string(value: &Value, name: &str) -> Result<String> {
    let text = value.as_str().filter(|text| !text.contains('\0'));
    text.map(str::to_owned).ok_or_else(|| wrong(&format!("has a {name:?} whose value is no text")))
}

fn wrong(why: &str) -> Error {
    Error::invalid(format!("its manifest {why}"))
}
