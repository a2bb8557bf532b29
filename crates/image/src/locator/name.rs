//! The name of an image that is discovered.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use model::{Error, Result};

/// The parameters of a discovery: a name, and labels that select one of the images with that name
/// (App Container specification 0.8, "App Container Image Discovery").
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppName {
    name: String,
    labels: BTreeMap<String, String>,
}

impl AppName {
    /// `name` with `labels`; the operating system and the architecture are always this host's.
    pub(crate) fn new(name: &str, labels: BTreeMap<String, String>) -> Result<Self> {
        check_identifier(name)?;
        let mut labels = labels;
        labels.insert("os".to_owned(), "linux".to_owned());
        labels.insert("arch".to_owned(), architecture().to_owned());
        Ok(Self { name: name.to_owned(), labels })
    }

    /// `example.com/reduce-worker`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The version that is wanted, if it matters.
    pub fn version(&self) -> Option<&str> {
        self.labels.get("version").map(String::as_str)
    }

    /// All labels that are wanted, `version`, `os` and `arch` among them.
    pub fn labels(&self) -> &BTreeMap<String, String> {
        &self.labels
    }

    /// The labels that select among the images for this host.
    fn selecting(&self) -> impl Iterator<Item = (&str, &str)> {
        let labels = self.labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        labels.filter(|(key, _)| !matches!(*key, "os" | "arch"))
    }

    /// Whether an image with `labels` says of itself that it is one that is asked for.
    pub(crate) fn is_stated_by(&self, labels: &BTreeMap<String, String>) -> bool {
        let says = |(key, value)| labels.get(key).is_some_and(|given| given == value);
        self.fits(labels) && self.selecting().all(says)
    }

    /// Whether an image with `labels` is one that is asked for: what it says does not differ.
    pub(crate) fn fits(&self, labels: &BTreeMap<String, String>) -> bool {
        let differs = |(key, value)| labels.get(key).is_some_and(|given| given != value);
        !self.labels.iter().any(differs)
    }
}

impl FromStr for AppName {
    type Err = Error;

    /// Reads `name[:version][,label=value…]`.
    fn from_str(text: &str) -> Result<Self> {
        let mut parts = text.split(',');
        let first = parts.next().unwrap_or_default();
        let mut labels = BTreeMap::new();
        let name = match first.split_once(':') {
            Some((name, version)) => {
                add(&mut labels, text, "version", version)?;
                name
            }
            None => first,
        };
        for part in parts {
            let wrong = || Error::invalid(format!("image {text:?}: {part:?} is no label=value"));
            let (key, value) = part.split_once('=').ok_or_else(wrong)?;
            add(&mut labels, text, key, value)?;
        }
        Self::new(name, labels)
    }
}

fn add(labels: &mut BTreeMap<String, String>, text: &str, key: &str, value: &str) -> Result<()> {
    let wrong = |why: &str| Error::invalid(format!("image {text:?}: label {key:?} {why}"));
    check_identifier(key).map_err(|error| error.context(format!("image {text:?}")))?;
    let value = decoded(value).ok_or_else(|| wrong("has a value that is no text"))?;
    if value.is_empty() || value.contains(['/', '\0', ':']) || value.starts_with('.') {
        return Err(wrong("has a value that cannot stand in a file's name"));
    }
    if labels.insert(key.to_owned(), value).is_some() {
        return Err(wrong("is there twice"));
    }
    Ok(())
}

/// As it is read, in one way for one name and its labels: what it gave is remembered under this.
impl fmt::Display for AppName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if let Some(version) = self.version() {
            write!(f, ":{}", encoded(version))?;
        }
        let mut selecting = self.selecting().filter(|(key, _)| *key != "version");
        selecting.try_for_each(|(key, value)| write!(f, ",{key}={}", encoded(value)))
    }
}

/// An AC Identifier: `^[a-z0-9]+([-._~/][a-z0-9]+)*$` ("AC Identifier Type").
pub(crate) fn check_identifier(text: &str) -> Result<()> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let separates = |byte: u8| matches!(byte, b'-' | b'.' | b'_' | b'~' | b'/');
    if text.is_empty() {
        return Err(Error::invalid("ACIdentifier cannot be empty"));
    }
    let ends = [text.bytes().next(), text.bytes().next_back()];
    if !ends.into_iter().all(|end| end.is_some_and(plain)) {
        return Err(Error::invalid(format!(
            "ACIdentifier must start and end with only lower case letters or numbers, not as \
             {text:?}; the path of a file needs file:// in front"
        )));
    }
    let single = |pair: &[u8]| !(separates(pair[0]) && separates(pair[1]));
    let known = text.bytes().all(|byte| plain(byte) || separates(byte));
    if !known || !text.as_bytes().windows(2).all(single) || text.len() > 1024 {
        return Err(Error::invalid(format!(
            "ACIdentifier must contain only lower case letters, numbers and single \"-\", \".\", \
             \"_\", \"~\" and \"/\" between them, unlike {text:?}"
        )));
    }
    Ok(())
}

/// This host's architecture in the words of the App Container specification.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "x86" => "i386",
        "arm" => "armv7l",
        other => other,
    }
}

/// `text` with what may mean something else in a name as `%XX`.
fn encoded(text: &str) -> String {
    let plain =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    let one = |byte| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02x}"),
    };
    text.bytes().map(one).collect()
}

/// `text` with its `%XX` resolved.
pub(super) fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'%' {
            bytes.push(*byte);
            continue;
        }
        let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_and_labels_are_read() {
        let name: AppName = "krm.test/sub/spy:1.0,channel=al%70ha".parse().unwrap();
        assert_eq!((name.name(), name.version()), ("krm.test/sub/spy", Some("1.0")));
        assert_eq!(name.labels()["channel"], "alpha");
        assert_eq!(name.labels()["os"], "linux");
        assert!(name.fits(&BTreeMap::new()));
        assert!(!name.fits(&[("os".to_owned(), "freebsd".to_owned())].into()));
    }

    #[test]
    fn it_is_written_in_one_way() {
        for (text, written) in [
            ("krm.test/spy", "krm.test/spy"),
            ("krm.test/spy,os=linux", "krm.test/spy"),
            ("krm.test/spy,channel=al%70ha,version=1", "krm.test/spy:1,channel=alpha"),
            ("krm.test/spy:1+b,a=%2c%20,z=%25", "krm.test/spy:1%2bb,a=%2c%20,z=%25"),
        ] {
            let name: AppName = text.parse().unwrap();
            assert_eq!(name.to_string(), written);
            assert_eq!(written.parse::<AppName>().unwrap(), name);
        }
    }

    #[test]
    fn an_image_says_every_label_that_selects() {
        let name: AppName = "krm.test/spy,channel=beta".parse().unwrap();
        let labels = |channel: &str| [("channel".to_owned(), channel.to_owned())].into();
        assert!(name.fits(&BTreeMap::new()) && !name.is_stated_by(&BTreeMap::new()));
        assert!(name.is_stated_by(&labels("beta")) && !name.is_stated_by(&labels("alpha")));
    }

    #[test]
    fn what_is_none_is_refused() {
        for (text, why) in [
            ("", "ACIdentifier cannot be empty"),
            (":1", "ACIdentifier cannot be empty"),
            ("/tmp/x.aci", "ACIdentifier must start"),
            ("a..b", "ACIdentifier must contain"),
            ("a:1,version=2", "is there twice"),
            ("a:1:2", "cannot stand"),
            ("a:", "cannot stand"),
            ("a:../x", "cannot stand"),
            ("a,b", "no label=value"),
        ] {
            let error = text.parse::<AppName>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
