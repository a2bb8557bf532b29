//! Options as people write them. An unknown key is an error that names the accepted ones.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use model::text::{shown, truth};
use model::{Error, NEUTRON_KEYS, NEUTRON_PREFIX, Result};

/// The options of a network (`-o KEY=VALUE`).
pub(crate) struct Texts<'a> {
    map: &'a BTreeMap<String, String>,
}

impl<'a> Texts<'a> {
    /// Fails on a key that is neither in `known` nor one of Neutron's.
    pub(crate) fn of(map: &'a BTreeMap<String, String>, known: &[&str]) -> Result<Self> {
        let is_known = |key: &str| known.contains(&key) || NEUTRON_KEYS.contains(&key);
        let Some(key) = map.keys().find(|key| !is_known(key)) else { return Ok(Self { map }) };
        let there = match key.starts_with(NEUTRON_PREFIX) {
            true => NEUTRON_KEYS.join(", "),
            false => format!("{}, and those of Neutron ({NEUTRON_PREFIX}…)", known.join(", ")),
        };
        Err(Error::unsupported(format!("-o {}: no such option; Spoke has {there}", shown(key))))
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
