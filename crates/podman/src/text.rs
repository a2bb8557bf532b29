//! Options as people write them. An unknown key is an error that names the accepted ones.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use model::text::{shown, truth};
use model::{Error, Result};

/// The options of a network (`-o KEY=VALUE`).
pub(crate) struct Texts<'a> {
    map: &'a BTreeMap<String, String>,
}

impl<'a> Texts<'a> {
    /// Fails on a key that is not in `known`.
    pub(crate) fn of(map: &'a BTreeMap<String, String>, known: &[&str]) -> Result<Self> {
        match map.keys().find(|key| !known.contains(&key.as_str())) {
            None => Ok(Self { map }),
            Some(key) => Err(Error::unsupported(format!(
                "-o {}: no such option; Spoke has {}",
                shown(key),
                known.join(", ")
            ))),
        }
    }

    /// Whether something is said under this key. An empty value says nothing.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.text(key).is_some()
    }

    /// What is said under a key, by `parse`.
    pub(crate) fn one<T>(
        &self,
        key: &str,
        expected: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(text) = self.text(key) else { return Ok(None) };
        parse(text).map(Some).ok_or_else(|| {
            let text = shown(text);
            Error::invalid(format!("-o {key}={text}: {text} is not {expected}"))
        })
    }

    /// The same for a type that says by itself what it is.
    pub(crate) fn parsed<T: FromStr<Err: Display>>(&self, key: &str) -> Result<Option<T>> {
        let Some(text) = self.text(key) else { return Ok(None) };
        text.parse().map(Some).map_err(|why: T::Err| {
            let text = shown(text);
            Error::invalid(format!("-o {key}={text}: {why}"))
        })
    }

    /// True or false, as Podman reads it (Go's `strconv.ParseBool`).
    pub(crate) fn flag(&self, key: &str) -> Result<Option<bool>> {
        self.one(key, "true or false", truth)
    }

    /// The first of these keys under which something is said.
    pub(crate) fn first_of<'k>(&self, keys: &[&'k str]) -> Option<&'k str> {
        keys.iter().copied().find(|key| self.has(key))
    }

    fn text(&self, key: &str) -> Option<&'a str> {
        self.map.get(key).map(String::as_str).filter(|text| !text.is_empty())
    }
}
