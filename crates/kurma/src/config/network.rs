//! One network.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::{Component, PathBuf};
use std::time::Duration;

use image::Locator;
use model::{Error, Result, text};
use serde_json::Value;

use super::Grant;
use crate::Name;
use crate::template::Template;

/// The values of `on_error`.
const ON_ERROR: [&str; 2] = ["fail", "skip"];

/// The values of `engine`.
const ENGINES: [&str; 3] = ["native", "runc", "crun"];

/// A call may be given longer than usual, but not for ever, in seconds.
const LONGEST_LIMIT: u64 = 3600;

/// A network that pods can be connected to: what Kurma itself reads of its object, and the object.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkConfig {
    /// Unique among them (`name`).
    pub name: Name,
    /// Where its plugin's image is (`aci`, with `digest` as its pin).
    pub image: Locator,
    /// OpenPGP keys of which one must have signed that (`keys`), where there are any.
    pub keys: Vec<PathBuf>,
    /// Whether pods that name no networks get it (`default`).
    pub is_default: bool,
    /// The interface to make in the pod (`containerInterface`).
    pub interface: Template,
    /// What becomes of a pod that it cannot connect (`on_error`).
    pub on_error: OnError,
    /// The rights of its plugin.
    pub sandboxing: Sandboxing,
    /// How long one call may take, where it says so (`limit`, in seconds).
    pub limit: Option<Duration>,
    /// All of its object, for the plugin.
    document: Value,
}

/// What becomes of a pod when one of its networks cannot be added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// Everything is undone: a pod has all of its networks, or does not start.
    #[default]
    Fail,
    /// It goes without, as in the original.
    Skip,
}

/// The rights of a plugin container beyond the common ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sandboxing {
    /// All that root may (`privileged`).
    pub privileged: bool,
    /// The rights that its image gets of those it asks for (`grant`); all of them, where it is
    /// privileged.
    pub grant: BTreeSet<Grant>,
    /// Parts of the host in it (`mounts`).
    pub mounts: Vec<Mount>,
    /// The engine that runs it (`engine`: `native`, `runc`, `crun`), if it is not the usual one.
    pub engine: Option<String>,
}

/// A part of the host's file system in a plugin container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// On the host.
    pub host: PathBuf,
    /// In the container.
    pub container: PathBuf,
    /// Whether it cannot be written.
    pub read_only: bool,
}

impl NetworkConfig {
    /// Reads one object; `at` is its place.
    ///
    /// # Errors
    /// [`model::Kind::Invalid`] or [`model::Kind::Unsupported`] with the place, the field, its
    /// value, and what is wrong with it.
    pub fn read(value: &Value, at: &str) -> Result<Self> {
        if !value.is_object() {
            return Err(wrong(at, value, "it should be an object"));
        }
        let field = |name: &'static str| Field::of(value, name, at);
        let on_error = field("on_error").word(&ON_ERROR)?;
        Ok(Self {
            name: field("name").parsed()?.ok_or_else(|| missing(at, "name"))?,
            image: image(&field("aci"), &field("digest"))?.ok_or_else(|| missing(at, "aci"))?,
            keys: keys(value, at)?,
            is_default: field("default").flag()?,
            interface: interface(&field("containerInterface"))?,
            on_error: if on_error == Some("skip") { OnError::Skip } else { OnError::Fail },
            sandboxing: Sandboxing::read(value, at)?,
            limit: limit(&field("limit"))?,
            document: value.clone(),
        })
    }

    /// Every mistake of an object, where [`NetworkConfig::read`] has the first one.
    pub(super) fn mistakes(value: &Value, at: &str) -> Vec<Error> {
        if !value.is_object() {
            return Self::read(value, at).err().into_iter().collect();
        }
        let field = |name: &'static str| Field::of(value, name, at);
        let name = field("name").parsed::<Name>();
        let aci = image(&field("aci"), &field("digest"));
        let checked = [
            name.and_then(|name| name.map(drop).ok_or_else(|| missing(at, "name"))),
            aci.and_then(|aci| aci.map(drop).ok_or_else(|| missing(at, "aci"))),
            keys(value, at).map(drop),
            field("default").flag().map(drop),
            interface(&field("containerInterface")).map(drop),
            field("on_error").word(&ON_ERROR).map(drop),
            field("privileged").flag().map(drop),
            grant(&field("grant")).map(drop),
            mounts(&field("mounts")).map(drop),
            field("engine").word(&ENGINES).map(drop),
            limit(&field("limit")).map(drop),
        ];
        checked.into_iter().filter_map(Result::err).collect()
    }

    /// All of the object as it was written, with every key that only the plugin knows.
    pub fn document(&self) -> &Value {
        &self.document
    }

    /// The standard input of a plugin.
    pub fn input(&self) -> Vec<u8> {
        self.document.to_string().into_bytes()
    }
}

impl Sandboxing {
    /// Reads `privileged`, `grant`, `mounts` and `engine` of an object that stands at `at`.
    ///
    /// # Errors
    /// As [`NetworkConfig::read`].
    pub fn read(value: &Value, at: &str) -> Result<Self> {
        let field = |name: &'static str| Field::of(value, name, at);
        let engine = field("engine").word(&ENGINES)?;
        Ok(Self {
            privileged: field("privileged").flag()?,
            grant: grant(&field("grant"))?,
            mounts: mounts(&field("mounts"))?,
            engine: engine.map(str::to_owned),
        })
    }
}

/// A field of an object, and its place.
struct Field<'a> {
    at: String,
    value: Option<&'a Value>,
}

impl<'a> Field<'a> {
    /// `null` counts as absent.
    fn of(object: &'a Value, name: &str, at: &str) -> Self {
        let value = object.get(name).filter(|value| !value.is_null());
        Self { at: format!("{at}.{name}"), value }
    }

    fn text(&self) -> Result<Option<&'a str>> {
        let Some(value) = self.value else { return Ok(None) };
        let text = value.as_str();
        text.map(Some).ok_or_else(|| wrong(&self.at, value, "it should be a string"))
    }

    fn parsed<T: std::str::FromStr<Err = Error>>(&self) -> Result<Option<T>> {
        let parse = |text: &str| text.parse().map_err(|error: Error| error.context(&self.at));
        self.text()?.map(parse).transpose()
    }

    fn flag(&self) -> Result<bool> {
        let Some(value) = self.value else { return Ok(false) };
        value.as_bool().ok_or_else(|| wrong(&self.at, value, "it should be true or false"))
    }

    fn word(&self, words: &[&str]) -> Result<Option<&'a str>> {
        match (self.text()?, self.value) {
            (Some(word), Some(value)) if !words.contains(&word) => {
                Err(wrong(&self.at, value, format!("it should be one of {}", words.join(", "))))
            }
            (word, _) => Ok(word),
        }
    }
}

fn wrong(at: &str, value: &Value, why: impl Display) -> Error {
    Error::invalid(format!("{at} is {}: {why}", text::shown(&value.to_string())))
}

fn missing(at: &str, name: &str) -> Error {
    Error::invalid(format!("{at} has no {name}"))
}

fn image(aci: &Field<'_>, digest: &Field<'_>) -> Result<Option<Locator>> {
    let Some(locator): Option<Locator> = aci.parsed()? else { return Ok(None) };
    match (digest.text()?, locator.pin()) {
        (None, _) => Ok(Some(locator)),
        (Some(digest), None) => {
            let pinned = format!("{locator}@{digest}").parse::<Locator>();
            let pinned = pinned.ok().filter(|pinned| pinned.pin().is_some());
            let bad = || Error::invalid("it should be sha256:… or sha512:…");
            Ok(Some(pinned.ok_or_else(bad).map_err(|error| {
                error.context(format!(
                    "{} is {:?}",
                    aci.at.replace(".aci", ".digest"),
                    text::shown(digest)
                ))
            })?))
        }
        (Some(_), Some(_)) => {
            Err(Error::invalid(format!("{} has a digest already: leave one", aci.at)))
        }
    }
}

fn interface(field: &Field<'_>) -> Result<Template> {
    let source = field.text()?.unwrap_or_default();
    Template::read(source)
        .map_err(|error| error.context(format!("{} is {:?}", field.at, text::shown(source))))
}

fn limit(field: &Field<'_>) -> Result<Option<Duration>> {
    let Some(value) = field.value else { return Ok(None) };
    let fits = |seconds: &u64| (1..=LONGEST_LIMIT).contains(seconds);
    let seconds = value.as_u64().filter(fits).ok_or_else(|| {
        wrong(&field.at, value, format!("it should be whole seconds, from 1 to {LONGEST_LIMIT}"))
    })?;
    Ok(Some(Duration::from_secs(seconds)))
}

fn grant(field: &Field<'_>) -> Result<BTreeSet<Grant>> {
    let Some(value) = field.value else { return Ok(BTreeSet::new()) };
    let list = value.as_array().ok_or_else(|| wrong(&field.at, value, "it should be a list"))?;
    let read = |(place, value): (usize, &Value)| {
        let item = Field { at: format!("{}[{place}]", field.at), value: Some(value) };
        item.parsed()?.ok_or_else(|| wrong(&item.at, value, "it should be a string"))
    };
    list.iter().enumerate().map(read).collect()
}

fn mounts(field: &Field<'_>) -> Result<Vec<Mount>> {
    let Some(value) = field.value else { return Ok(Vec::new()) };
    let list = value.as_array().ok_or_else(|| wrong(&field.at, value, "it should be a list"))?;
    let read = |(place, value): (usize, &Value)| {
        let at = format!("{}[{place}]", field.at);
        if !value.is_object() {
            return Err(wrong(&at, value, "it should be an object"));
        }
        let host = Field::of(value, "host", &at);
        let container = Field::of(value, "container", &at);
        let read_only = Field::of(value, "readOnly", &at).flag()?;
        Ok(Mount { host: path(&host)?, container: path(&container)?, read_only })
    };
    list.iter().enumerate().map(read).collect()
}

/// The files of `keys` of an object that stands at `at`.
///
/// # Errors
/// As [`NetworkConfig::read`].
pub fn keys(object: &Value, at: &str) -> Result<Vec<PathBuf>> {
    let field = Field::of(object, "keys", at);
    let Some(value) = field.value else { return Ok(Vec::new()) };
    let list = value.as_array().ok_or_else(|| wrong(&field.at, value, "it should be a list"))?;
    let read =
        |(place, value)| path(&Field { at: format!("{}[{place}]", field.at), value: Some(value) });
    list.iter().enumerate().map(read).collect()
}

/// A whole path without surprises.
fn path(field: &Field<'_>) -> Result<PathBuf> {
    let text = field.text()?.unwrap_or_default();
    let path = PathBuf::from(text);
    let is_plain = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
    if path.is_absolute() && path.components().all(is_plain) && !text.contains('\0') {
        return Ok(path);
    }
    let what = format!(
        "{} is {:?}: it should be a whole path without \"..\"",
        field.at,
        text::shown(text)
    );
    Err(Error::invalid(what))
}
