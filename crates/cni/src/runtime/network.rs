//! A network configuration list (CNI 1.1.0 §1, "Network configuration format").

use model::{Error, NetworkName, Result};
use serde_json::{Map, Value, json};

use crate::wire::{LONGEST, Version};

/// A network with the plugins that make it, as it is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkList {
    /// Its name.
    pub name: NetworkName,
    /// The version in which its plugins are called.
    pub version: Version,
    /// Whether CHECK succeeds without calling a plugin.
    pub disable_check: bool,
    /// Whether nothing is ever collected.
    pub disable_gc: bool,
    /// Whether files beside the list add no plugins to it.
    pub only_inlined: bool,
    /// In the order of ADD.
    pub plugins: Vec<PluginConfig>,
    /// The configuration as it was read.
    text: Vec<u8>,
}

/// One plugin of a list, with every field that it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginConfig {
    /// The name of its executable, not yet known to be one.
    pub kind: String,
    fields: Map<String, Value>,
}

impl NetworkList {
    /// The list in `text`, without what files beside it add. It may have no plugin yet.
    ///
    /// # Errors
    /// [`model::Kind::Invalid`] where it is none.
    pub fn parse(text: &[u8]) -> Result<Self> {
        if text.len() as u64 > LONGEST {
            return Err(Error::invalid(format!(
                "error parsing configuration list: it is longer than {LONGEST} bytes"
            )));
        }
        let fields = match serde_json::from_slice(text) {
            Ok(Value::Object(fields)) => fields,
            Ok(_) => return Err(wrong("it is not an object")),
            Err(why) => return Err(wrong(&file::no_json(text, why).to_string())),
        };
        let only_inlined = flag(&fields, "loadOnlyInlinedPlugins")?;
        let plugins = match fields.get("plugins") {
            Some(Value::Array(plugins)) if plugins.is_empty() => {
                return Err(wrong("no plugins in list"));
            }
            Some(Value::Array(plugins)) => plugins
                .iter()
                .enumerate()
                .map(|(place, plugin)| {
                    let failed = |error: Error| {
                        error.context(format!("failed to parse plugin config {place}"))
                    };
                    PluginConfig::of(plugin.clone()).map_err(failed)
                })
                .collect::<Result<_>>()?,
            Some(_) => return Err(wrong("invalid 'plugins' type")),
            None if only_inlined => {
                return Err(wrong("`loadOnlyInlinedPlugins` is true, and no 'plugins' key"));
            }
            None => Vec::new(),
        };
        Ok(Self {
            name: name(&fields)?,
            version: version(&fields)?,
            disable_check: flag(&fields, "disableCheck")?,
            disable_gc: flag(&fields, "disableGC")?,
            only_inlined,
            plugins,
            text: text.to_vec(),
        })
    }

    /// The list whose only plugin is in `text`: the configurations before 0.3.0.
    ///
    /// # Errors
    /// As [`NetworkList::parse`].
    pub fn parse_single(text: &[u8]) -> Result<Self> {
        let plugin = PluginConfig::parse(text)?;
        let list = json!({
            "name": plugin.fields.get("name").cloned().unwrap_or(Value::Null),
            "cniVersion": plugin.fields.get("cniVersion").cloned().unwrap_or_else(|| json!("")),
            "plugins": [Value::Object(plugin.fields)],
        });
        Self::parse(list.to_string().as_bytes())
    }

    /// The configuration as it was read.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// The list as one text, with what files beside it added.
    pub fn whole(&self) -> String {
        let mut fields: Map<String, Value> = serde_json::from_slice(&self.text).unwrap_or_default();
        let plugins = self.plugins.iter().map(|plugin| Value::Object(plugin.fields.clone()));
        fields.insert("plugins".into(), Value::Array(plugins.collect()));
        fields.insert("loadOnlyInlinedPlugins".into(), json!(true));
        Value::Object(fields).to_string()
    }
}

impl PluginConfig {
    /// The plugin in `text`.
    ///
    /// # Errors
    /// [`model::Kind::Invalid`] where it is none.
    pub fn parse(text: &[u8]) -> Result<Self> {
        let failed = |why: String| Error::invalid(format!("error parsing configuration: {why}"));
        if text.len() as u64 > LONGEST {
            return Err(failed(format!("it is longer than {LONGEST} bytes")));
        }
        let read = serde_json::from_slice(text);
        Self::of(read.map_err(|why| failed(file::no_json(text, why).to_string()))?)
    }

    fn of(plugin: Value) -> Result<Self> {
        let Value::Object(fields) = plugin else {
            return Err(Error::invalid("error parsing configuration: it is not an object"));
        };
        match fields.get("type").and_then(Value::as_str).filter(|kind| !kind.is_empty()) {
            Some(kind) => Ok(Self { kind: kind.to_owned(), fields }),
            None => Err(Error::invalid("error parsing configuration: missing 'type'")),
        }
    }

    /// Every field.
    pub fn fields(&self) -> &Map<String, Value> {
        &self.fields
    }

    /// Its name, for errors.
    pub(super) fn described(&self) -> String {
        match self.fields.get("name").and_then(Value::as_str).filter(|name| !name.is_empty()) {
            Some(name) => format!("type={:?} name={name:?}", self.kind),
            None => format!("type={:?}", self.kind),
        }
    }

    /// The capabilities that it says it has.
    pub fn capabilities(&self) -> impl Iterator<Item = &str> {
        let capabilities = self.fields.get("capabilities").and_then(Value::as_object);
        let has = capabilities.into_iter().flatten().filter(|(_, has)| **has == Value::Bool(true));
        has.map(|(capability, _)| capability.as_str())
    }
}

fn wrong(why: &str) -> Error {
    Error::invalid(format!("error parsing configuration list: {why}"))
}

fn name(fields: &Map<String, Value>) -> Result<NetworkName> {
    match fields.get("name") {
        None | Some(Value::Null) => Err(wrong("no name")),
        Some(Value::String(name)) => name.parse().map_err(|why: Error| wrong(&why.to_string())),
        Some(_) => Err(wrong("invalid name type")),
    }
}

/// The highest of `cniVersion` and `cniVersions` that is not above our own.
fn version(fields: &Map<String, Value>) -> Result<Version> {
    let own = match fields.get("cniVersion") {
        None => "",
        Some(Value::String(version)) => version,
        Some(_) => return Err(wrong("invalid cniVersion type")),
    };
    let mut known = Vec::new();
    match fields.get("cniVersions") {
        None => return parse_version(own).ok_or_else(|| unknown(own)),
        Some(Value::Array(versions)) => {
            for (place, version) in versions.iter().enumerate() {
                let Some(text) = version.as_str() else {
                    return Err(wrong(&format!("invalid type for cniVersions index {place}")));
                };
                let numbers = numbers(text).ok_or_else(|| {
                    wrong(&format!("invalid cniVersions entry {text} at index {place}"))
                })?;
                known.extend(not_above_ours(text, numbers)?);
            }
        }
        Some(_) => return Err(wrong("invalid type for cniVersions")),
    }
    if !own.is_empty() {
        let numbers = numbers(own).ok_or_else(|| wrong(&format!("invalid cniVersion {own}")))?;
        known.extend(not_above_ours(own, numbers)?);
    }
    // Where every one is newer than Spoke's, the list's own version is used.
    known.into_iter().max().or_else(|| parse_version(own)).ok_or_else(|| unknown(own))
}

fn not_above_ours(text: &str, numbers: [u64; 3]) -> Result<Option<Version>> {
    match numbers > LATEST {
        true => Ok(None),
        false => parse_version(text).map(Some).ok_or_else(|| unknown(text)),
    }
}

/// [`Version::LATEST`] in numbers.
const LATEST: [u64; 3] = [1, 1, 0];

fn parse_version(text: &str) -> Option<Version> {
    Version::parse(text)
}

fn unknown(text: &str) -> Error {
    let supported: Vec<&str> = Version::ALL.iter().map(|version| version.as_str()).collect();
    Error::unsupported(format!(
        "error parsing configuration list: cniVersion {text:?} is none of {}",
        supported.join(", ")
    ))
}

fn numbers(text: &str) -> Option<[u64; 3]> {
    let mut numbers = [0; 3];
    let mut parts = text.splitn(3, '.');
    for number in &mut numbers {
        let Some(part) = parts.next() else { break };
        *number = part.parse().ok()?;
    }
    Some(numbers)
}

/// `true`, `false`, or the same in quotes in whatever case.
fn flag(fields: &Map<String, Value>, key: &str) -> Result<bool> {
    match fields.get(key) {
        None => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(Value::String(text)) if text.eq_ignore_ascii_case("true") => Ok(true),
        Some(Value::String(text)) if text.eq_ignore_ascii_case("false") => Ok(false),
        Some(Value::String(text)) => {
            Err(wrong(&format!("invalid value {:?} for {key}", text.to_ascii_lowercase())))
        }
        Some(_) => Err(wrong(&format!("invalid type for {key}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(fields: &str) -> Result<NetworkList> {
        let text = format!(r#"{{"name":"n","plugins":[{{"type":"x","k":1}}]{fields}}}"#);
        NetworkList::parse(text.as_bytes())
    }

    #[test]
    fn the_highest_version_that_is_known_counts() {
        let version = |fields: &str| parse(fields).unwrap().version.as_str();
        assert_eq!(version(""), "0.1.0");
        assert_eq!(version(r#","cniVersion":"0.4.0""#), "0.4.0");
        assert_eq!(version(r#","cniVersion":"0.4.0","cniVersions":["1.0.0","0.3.1"]"#), "1.0.0");
        assert_eq!(version(r#","cniVersion":"1.0.0","cniVersions":["1.2.0","7.0"]"#), "1.0.0");
        assert_eq!(version(r#","cniVersions":["1.1.0","9.9.9"]"#), "1.1.0");
        let shown = |fields: &str| parse(fields).unwrap_err().to_string();
        assert!(shown(r#","cniVersions":["x"]"#).contains("cniVersions entry x at index 0"));
        assert!(shown(r#","cniVersions":5"#).contains("invalid type for cniVersions"));
        assert!(shown(r#","cniVersions":[5]"#).contains("cniVersions index 0"));
        assert!(shown(r#","cniVersion":5"#).contains("invalid cniVersion type"));
        assert!(shown(r#","cniVersion":"0.9.0""#).contains("is none of 0.1.0"));
    }

    #[test]
    fn truth_may_be_in_quotes() {
        assert!(parse(r#","disableCheck":"TRUE""#).unwrap().disable_check);
        assert!(!parse(r#","disableGC":"False""#).unwrap().disable_gc);
        assert!(parse(r#","loadOnlyInlinedPlugins":true"#).unwrap().only_inlined);
        let shown = parse(r#","disableGC":"yes""#).unwrap_err().to_string();
        assert!(shown.ends_with("invalid value \"yes\" for disableGC"), "{shown}");
        assert!(parse(r#","disableCheck":1"#).is_err());
    }

    #[test]
    fn refuses_what_is_no_list() {
        let shown = |text: &str| NetworkList::parse(text.as_bytes()).unwrap_err().to_string();
        for (text, end) in [
            (r#"{"plugins":[{"type":"x"}]}"#, "no name"),
            (r#"{"name":5,"plugins":[{"type":"x"}]}"#, "invalid name type"),
            (r#"{"name":"n","plugins":[]}"#, "no plugins in list"),
            (r#"{"name":"n","plugins":{}}"#, "invalid 'plugins' type"),
            (
                r#"{"name":"n","loadOnlyInlinedPlugins":true}"#,
                "`loadOnlyInlinedPlugins` is true, and no 'plugins' key",
            ),
            (
                r#"{"name":"n","plugins":[{"type":"x"},{}]}"#,
                "failed to parse plugin config 1: error parsing configuration: missing 'type'",
            ),
        ] {
            assert!(shown(text).ends_with(end), "{text}: {}", shown(text));
        }
        assert!(NetworkList::parse(br#"{"name":"../n","plugins":[{"type":"x"}]}"#).is_err());
        assert!(NetworkList::parse(br#"{"name":"n"}"#).unwrap().plugins.is_empty());
    }

    #[test]
    fn one_plugin_makes_a_list() {
        let list =
            NetworkList::parse_single(br#"{"name":"n","cniVersion":"0.2.0","type":"x","a":{}}"#);
        let list = list.unwrap();
        assert_eq!((list.version, list.plugins[0].kind.as_str()), (Version::V020, "x"));
        assert_eq!(list.plugins[0].fields()["a"], json!({}));
        assert_eq!(list.plugins[0].described(), "type=\"x\" name=\"n\"");
        assert!(NetworkList::parse_single(br#"{"type":"x"}"#).is_err());
    }

    proptest! {
        #[test]
        fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = (NetworkList::parse(&bytes), NetworkList::parse_single(&bytes));
        }

        #[test]
        fn versions_never_panic(version in ".{0,12}") {
            let _ = parse(&format!(",\"cniVersions\":[{}]", json!(version)));
        }
    }
}
