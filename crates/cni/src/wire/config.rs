//! The network configuration on standard input.

use std::io::{self, Read};

use model::{ContainerId, Error, IfName, Label, Labels, NetworkName};
use serde_json::{Map, Value};

use engine::Members;

use super::node::Object;
use super::{Failure, Node, Success, Version};

/// A configuration longer than this is refused, in bytes.
pub const LONGEST: u64 = 1 << 20;

/// A JSON object that was read, not yet known to be a configuration.
#[derive(Clone, Debug)]
pub struct Document {
    map: Map<String, Value>,
    text: String,
}

/// A configuration with the fields that every one must have.
#[derive(Clone, Debug)]
pub struct Configuration {
    document: Document,
    name: NetworkName,
    version: Version,
}

impl Document {
    /// Reads to the end of `input`, at most [`LONGEST`] bytes.
    pub fn read(input: &mut dyn Read) -> Result<Self, Failure> {
        let mut bytes = Vec::new();
        let read = |error: io::Error| {
            Failure::new(Failure::IO, format!("error reading from stdin: {error}"))
        };
        input.take(LONGEST + 1).read_to_end(&mut bytes).map_err(read)?;
        if bytes.len() as u64 > LONGEST {
            let msg = format!("the network configuration is longer than {LONGEST} bytes");
            return Err(Failure::new(Failure::IO, msg));
        }
        Self::parse(&bytes)
    }

    /// The object in `bytes`.
    pub fn parse(bytes: &[u8]) -> Result<Self, Failure> {
        let wrong = |why: &dyn std::fmt::Display| {
            Failure::new(Failure::DECODE, format!("error unmarshall network config: {why}"))
        };
        let text = std::str::from_utf8(bytes).map_err(|why| wrong(&why))?;
        let parsed = serde_json::from_str(text).map_err(|why| {
            let reference = super::syntax::complaint(bytes);
            reference.map_or_else(|| wrong(&file::no_json(bytes, why)), |what| wrong(&what))
        });
        match parsed? {
            Value::Object(map) => Ok(Self { map, text: text.to_owned() }),
            other => Err(wrong(&format!("{} is not an object", super::node::shown(&other)))),
        }
    }

    /// All fields, as they are.
    pub fn fields(&self) -> &Map<String, Value> {
        &self.map
    }

    /// The object itself.
    pub fn root(&self) -> Object<'_> {
        Object::new("", &self.map)
    }

    /// The field `name`, present and valid.
    pub fn name(&self) -> Result<NetworkName, Failure> {
        let decode = |error: Error| Failure::new(Failure::DECODE, error.to_string());
        let Some(name) = self.root().text("name").map_err(decode)? else {
            return Err(Failure::new(Failure::CONFIGURATION, "missing network name"));
        };
        name.parse().map_err(|_| {
            Failure::new(Failure::CONFIGURATION, "invalid characters found in network name")
                .details(name)
        })
    }

    /// The field `cniVersion` as it is written; empty where it is absent.
    pub fn version_text(&self) -> Result<&str, Failure> {
        let version = self.root().text("cniVersion").map_err(|error| {
            let msg = format!("decoding version from network config: {error}");
            Failure::new(Failure::DECODE, msg)
        })?;
        Ok(version.unwrap_or_default())
    }

    /// The field `cniVersion`, if it is one that is supported.
    pub fn version(&self) -> Result<Version, Failure> {
        let text = self.version_text()?;
        Version::parse(text).ok_or_else(|| {
            let supported: Vec<String> =
                Version::ALL.iter().map(|version| format!("{:?}", version.as_str())).collect();
            Failure::new(Failure::VERSION, "incompatible CNI versions")
                .details(format!("config is {text:?}, plugin supports [{}]", supported.join(" ")))
        })
    }
}

impl Configuration {
    /// The configuration in `bytes`, with a valid name and a supported version.
    pub fn parse(bytes: &[u8]) -> Result<Self, Failure> {
        Self::of(Document::parse(bytes)?)
    }

    /// The configuration that `document` is.
    pub fn of(document: Document) -> Result<Self, Failure> {
        let (name, version) = (document.name()?, document.version()?);
        Ok(Self { document, name, version })
    }

    /// The same under another name in the store.
    pub(crate) fn with_name(self, name: NetworkName) -> Self {
        Self { name, ..self }
    }

    /// The network's name in the store.
    pub fn name(&self) -> &NetworkName {
        &self.name
    }

    /// The network's name as the runtime says it.
    pub(crate) fn reported_name(&self) -> Result<NetworkName, Failure> {
        self.document.name()
    }

    /// The version in which the result is wanted.
    pub fn version(&self) -> Version {
        self.version
    }

    /// All fields.
    pub fn root(&self) -> Object<'_> {
        self.document.root()
    }

    /// As it came.
    pub fn text(&self) -> &str {
        &self.document.text
    }

    /// `prevResult`, if there is one.
    pub fn previous(&self) -> Result<Option<Success>, Error> {
        let Some(result) = self.root().object("prevResult")? else { return Ok(None) };
        Success::parse(&result, self.version).map(Some)
    }

    /// The object `runtimeConfig`, the arguments that belong to the plugin's capabilities.
    pub fn runtime(&self) -> Result<Option<Object<'_>>, Error> {
        self.root().object("runtimeConfig")
    }

    /// Whether the plugin has this capability, whose argument the runtime gives with ADD.
    pub fn declares(&self, capability: &str) -> Result<bool, Error> {
        match self.root().object("capabilities")? {
            Some(capabilities) => capabilities.flag(capability),
            None => Ok(false),
        }
    }

    /// The object `args.cni`.
    pub fn args(&self) -> Result<Option<Object<'_>>, Error> {
        match self.root().object("args")? {
            Some(args) => args.object("cni"),
            None => Ok(None),
        }
    }

    /// The labels of the network: the object `labels`.
    pub fn labels(&self) -> Result<Labels, Error> {
        self.root().get("labels").map_or_else(|| Ok(Labels::default()), |node| labels_of(&node))
    }

    /// The runtime's labels of the container: the object `args.labels` (CNI 0.3.1), and the list
    /// `args.cni.labels` of keys and values (CNI's conventions).
    pub fn args_labels(&self) -> Result<Labels, Error> {
        let Some(args) = self.root().object("args")? else { return Ok(Labels::default()) };
        let given = args.get("labels");
        let listed = args.object("cni")?.and_then(|cni| cni.get("labels"));
        let given = [given, listed].into_iter().flatten().map(|node| each_label(&node));
        Labels::of(given.collect::<Result<Vec<_>, _>>()?.into_iter().flatten())
    }

    /// The attachments that GC must keep; `None` where the runtime does not say, which is not the
    /// same as none. The older key of libcni counts where the specified one is absent.
    pub fn valid_attachments(&self) -> Result<Option<Members>, Error> {
        let root = self.root();
        let key = ["cni.dev/valid-attachments", "cni.dev/attachments"];
        let Some(node) = key.iter().find_map(|key| root.get(key)) else { return Ok(None) };
        node.list()?.iter().map(member).collect::<Result<Members, Error>>().map(Some)
    }
}

fn labels_of(node: &Node<'_>) -> Result<Labels, Error> {
    Labels::of(each_label(node)?)
}

/// An object of texts, or a list of objects with `key` and `value`.
fn each_label(node: &Node<'_>) -> Result<Vec<Label>, Error> {
    let wrong = |error: Error| node.wrong(format!("but {error}"));
    if node.value().is_array() {
        let one = |node: &Node<'_>| {
            let object = node.object()?;
            let text = |key: &str| Ok(object.text(key)?.unwrap_or_default());
            Label::new(text("key")?, text("value")?).map_err(wrong)
        };
        return node.list()?.iter().map(one).collect();
    }
    let object = node.object()?;
    object.fields().map(|(key, value)| Label::new(key, value.text()?).map_err(wrong)).collect()
}

fn member(node: &Node<'_>) -> Result<(ContainerId, IfName), Error> {
    let object = node.object()?;
    let missing = |key: &str| node.wrong(format!("which has no {key:?}"));
    Ok((
        object.parse("containerID")?.ok_or_else(|| missing("containerID"))?,
        object.parse("ifname")?.ok_or_else(|| missing("ifname"))?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn refuses_in_the_order_and_words_of_the_reference() {
        let given = |text: &str| Configuration::parse(text.as_bytes()).unwrap_err();
        for (text, code, msg) in [
            ("x", 6, "error unmarshall network config:"),
            ("", 6, "error unmarshall network config:"),
            ("[]", 6, "error unmarshall network config: [] is not an object"),
            ("{}", 7, "missing network name"),
            (r#"{"name":"a/b"}"#, 7, "invalid characters found in network name"),
            (r#"{"name":5}"#, 6, "\"name\" is 5"),
            (r#"{"name":"n","cniVersion":"1.0"}"#, 1, "incompatible CNI versions"),
            (r#"{"name":"n","cniVersion":5}"#, 6, "decoding version from network config:"),
        ] {
            let failure = given(text);
            assert_eq!(failure.code, code, "{text}");
            assert!(failure.msg.starts_with(msg), "{text}: {}", failure.msg);
        }
        assert_eq!(
            given(r#"{"name":"n","cniVersion":"1.0"}"#).details,
            "config is \"1.0\", plugin supports [\"0.1.0\" \"0.2.0\" \"0.3.0\" \"0.3.1\" \
             \"0.4.0\" \"1.0.0\" \"1.1.0\"]"
        );
    }

    #[test]
    fn a_configuration_is_bounded() {
        let long = vec![b' '; LONGEST as usize + 1];
        assert_eq!(Document::read(&mut long.as_slice()).unwrap_err().code, Failure::IO);
        let deep = "[".repeat(100_000);
        assert_eq!(Document::parse(deep.as_bytes()).unwrap_err().code, Failure::DECODE);
    }

    #[test]
    fn no_list_is_not_an_empty_list() {
        let members = |fields: &str| {
            let text = format!(r#"{{"name":"n","cniVersion":"1.1.0"{fields}}}"#);
            Configuration::parse(text.as_bytes()).unwrap().valid_attachments()
        };
        assert_eq!(members("").unwrap(), None);
        assert_eq!(members(r#","cni.dev/valid-attachments":[]"#).unwrap(), Some(Members::new()));
        let one = r#","cni.dev/attachments":[{"containerID":"c","ifname":"eth0"}]"#;
        assert_eq!(members(one).unwrap().unwrap().len(), 1);
        assert!(members(r#","cni.dev/attachments":[{"containerID":"c"}]"#).is_err());
    }

    proptest! {
        #[test]
        fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Configuration::parse(&bytes);
        }

        #[test]
        fn never_panics_on_objects(value in "[\\[\\]{}\":,a-z0-9/.]{0,60}") {
            let text = format!(
                r#"{{"name":"n","prevResult":{value},"cni.dev/attachments":{value}}}"#
            );
            if let Ok(config) = Configuration::parse(text.as_bytes()) {
                let _ = (config.previous(), config.valid_attachments(), config.args());
            }
        }
    }
}
