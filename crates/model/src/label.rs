//! Labels: what users say of their networks and containers for themselves and their programs. Nothing
//! here acts on them.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Error, Result, text};

/// Nothing has more labels.
const MOST: usize = 128;

/// No key is longer, in bytes.
const LONGEST_KEY: usize = 256;

/// No value is longer, in bytes.
const LONGEST_VALUE: usize = 4096;

/// How the key of an option begins that is a label, where a runtime passes only options on: `-o
/// label.KEY=VALUE`.
pub const LABEL_PREFIX: &str = "label.";

/// One label: a key of 1 to 256 bytes without white space, control characters and `=`, and a value of up
/// to 4096 bytes without control characters, which may be empty. As text `KEY=VALUE`, or `KEY` alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    key: String,
    value: String,
}

impl Label {
    /// Fails with `Invalid` where the key or the value is none.
    pub fn new(key: &str, value: &str) -> Result<Self> {
        let refused = |why: &str| {
            Err(Error::invalid(format!(
                "label {}: {why}; a label is KEY=VALUE, with a key of at most {LONGEST_KEY} bytes and a \
                 value of at most {LONGEST_VALUE}",
                text::shown(key)
            )))
        };
        let forbidden = |c: char| c.is_whitespace() || c.is_control() || c == '=';
        if key.is_empty() || key.len() > LONGEST_KEY {
            return refused("its key is empty or too long");
        }
        if key.contains(forbidden) {
            return refused("its key holds white space or control characters");
        }
        if value.len() > LONGEST_VALUE || value.chars().any(char::is_control) {
            return refused("its value is too long or holds control characters");
        }
        Ok(Self { key: key.to_owned(), value: value.to_owned() })
    }
}

impl FromStr for Label {
    type Err = Error;
    fn from_str(source: &str) -> Result<Self> {
        let (key, value) = source.split_once('=').unwrap_or((source, ""));
        Self::new(key, value)
    }
}

/// The labels of one thing, by key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Labels(BTreeMap<String, String>);

impl Labels {
    /// Of these; of two with one key the later one. Fails with `Invalid` where there are too many.
    pub fn of(labels: impl IntoIterator<Item = Label>) -> Result<Self> {
        let labels: BTreeMap<_, _> =
            labels.into_iter().map(|label| (label.key, label.value)).collect();
        match labels.len() {
            0..=MOST => Ok(Self(labels)),
            many => Err(Error::invalid(format!("{many} labels are too many; {MOST} are most"))),
        }
    }

    /// Of keys and their values. Fails with `Invalid` where one is none, or there are too many.
    pub fn of_pairs<'p>(pairs: impl IntoIterator<Item = (&'p str, &'p str)>) -> Result<Self> {
        let labels = pairs.into_iter().map(|(key, value)| Label::new(key, value));
        Self::of(labels.collect::<Result<Vec<_>>>()?)
    }

    /// Splits options into labels, whose keys begin with [`LABEL_PREFIX`], and the other options.
    /// Fails with `Invalid` on a label that is not valid.
    pub fn split(options: &BTreeMap<String, String>) -> Result<(Self, BTreeMap<String, String>)> {
        let mut rest = options.clone();
        let mut labels = Vec::new();
        for (option, value) in options {
            if let Some(key) = option.strip_prefix(LABEL_PREFIX) {
                rest.remove(option);
                labels.push(Label::new(key, value)?);
            }
        }
        Ok((Self::of(labels)?, rest))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Their keys with their values, in the order of the keys.
    pub fn pairs(&self) -> &BTreeMap<String, String> {
        &self.0
    }
}

/// A condition on labels: that there is one of this key, or one of this key and value. As text `KEY`, or
/// `KEY=VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelFilter {
    key: String,
    value: Option<String>,
}

impl LabelFilter {
    /// Whether it holds for things with these.
    pub fn holds(&self, labels: &BTreeMap<String, String>) -> bool {
        match (labels.get(&self.key), &self.value) {
            (Some(value), Some(wanted)) => value == wanted,
            (Some(_), None) => true,
            (None, _) => false,
        }
    }
}

impl FromStr for LabelFilter {
    type Err = Error;
    fn from_str(source: &str) -> Result<Self> {
        let Label { key, value } = source.parse()?;
        Ok(Self { key, value: source.contains('=').then_some(value) })
    }
}

impl fmt::Display for LabelFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(f, "{}={value}", self.key),
            None => f.write_str(&self.key),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn labels(source: &[&str]) -> Result<Labels> {
        Labels::of(source.iter().map(|source| source.parse()).collect::<Result<Vec<_>>>()?)
    }

    #[test]
    fn a_label_is_a_key_with_or_without_a_value() {
        let some = labels(&["a=1", "b", "c=", "d=x=y", "a=2"]).unwrap();
        let shown: Vec<_> =
            some.pairs().iter().map(|(key, value)| format!("{key}:{value}")).collect();
        assert_eq!(shown, ["a:2", "b:", "c:", "d:x=y"]);
        for (filter, holds) in [
            ("a", true),
            ("a=2", true),
            ("a=1", false),
            ("b=", true),
            ("b=1", false),
            ("d=x=y", true),
            ("e", false),
        ] {
            let parsed: LabelFilter = filter.parse().unwrap();
            assert_eq!(parsed.holds(some.pairs()), holds, "{filter}");
            assert_eq!(parsed.to_string(), filter);
        }
    }

    #[test]
    fn what_is_no_label_is_refused() {
        let long = "k".repeat(257);
        for wrong in ["", "=", "=v", "a b=1", "a\u{1b}=1", "a=\u{1b}[2J", "a=1\n2", long.as_str()] {
            assert_eq!(
                wrong.parse::<Label>().unwrap_err().kind(),
                crate::Kind::Invalid,
                "{wrong:?}"
            );
            assert_eq!(
                wrong.parse::<LabelFilter>().unwrap_err().kind(),
                crate::Kind::Invalid,
                "{wrong:?}"
            );
        }
        let many: Vec<String> = (0..=MOST).map(|number| format!("k{number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(labels(&many).unwrap_err().kind(), crate::Kind::Invalid);
        assert!(labels(&many[1..]).is_ok());
    }

    proptest! {
        #[test]
        fn never_panics(source in ".*") {
            let _ = source.parse::<Label>();
            let _ = source.parse::<LabelFilter>();
        }
    }
}
