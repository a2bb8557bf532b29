//! Maps of options as people write them. An unknown key is an error that names the accepted ones;
//! so are two keys that say different things.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use model::text::shown;
use model::{Error, NEUTRON_PREFIX, Result};

/// A map of options, and how it is given on the command line.
pub(crate) struct Texts<'a> {
    pub(crate) flag: &'static str,
    pub(crate) map: &'a BTreeMap<String, String>,
}

impl Texts<'_> {
    /// Fails on a key that is in none of `known`.
    pub(crate) fn refuse_unknown(&self, known: &[&[&str]]) -> Result<()> {
        let is_known = |key: &str| known.iter().any(|keys| keys.contains(&key));
        let Some(key) = self.map.keys().find(|key| !is_known(key)) else { return Ok(()) };
        let known = known.iter().flat_map(|keys| keys.iter().copied());
        let of_neutron = |key: &str| key.starts_with(NEUTRON_PREFIX);
        let (neutron, own): (Vec<&str>, Vec<&str>) = known.partition(|key| of_neutron(key));
        let there = match (neutron.is_empty(), of_neutron(key)) {
            (true, _) => own.join(", "),
            (false, true) => neutron.join(", "),
            (false, false) => {
                format!("{}, and those of Neutron ({NEUTRON_PREFIX}…)", own.join(", "))
            }
        };
        Err(Error::unsupported(format!(
            "{} {}: no such option; Spoke has {there}",
            self.flag,
            shown(key)
        )))
    }

    /// What one of `keys` says, by `parse`; none if none is there. An empty value says nothing.
    pub(crate) fn one<T: PartialEq>(
        &self,
        keys: &[&'static str],
        expected: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>> {
        self.read(keys, |text| parse(text).ok_or_else(|| format!("is not {expected}")))
    }

    /// The same for a type that says by itself what it is.
    pub(crate) fn parsed<T: PartialEq + FromStr<Err: Display>>(
        &self,
        keys: &[&'static str],
    ) -> Result<Option<T>> {
        self.read(keys, |text| text.parse().map_err(|why: T::Err| format!("cannot be: {why}")))
    }

    fn read<T: PartialEq>(
        &self,
        keys: &[&'static str],
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>> {
        let mut said: Option<(&'static str, T)> = None;
        for key in keys.iter().copied() {
            let Some(text) = self.map.get(key).filter(|text| !text.is_empty()) else { continue };
            let value = parse(text).map_err(|why| {
                Error::invalid(format!(
                    "{} {key}={}: {} {why}",
                    self.flag,
                    shown(text),
                    shown(text)
                ))
            })?;
            match &said {
                Some((other, before)) if *before != value => {
                    return Err(self.contradiction(other, key));
                }
                Some(_) => {}
                None => said = Some((key, value)),
            }
        }
        Ok(said.map(|(_, value)| value))
    }

    /// The first of `keys` that is there.
    pub(crate) fn first(&self, keys: &[&'static str]) -> &'static str {
        let there = keys.iter().copied().find(|key| self.map.contains_key(*key));
        there.or(keys.first().copied()).unwrap_or("")
    }

    /// The first of these keys that says something.
    pub(crate) fn there(&self, keys: &[&[&'static str]]) -> Option<&'static str> {
        let says = |key: &&str| self.map.get(*key).is_some_and(|text| !text.is_empty());
        keys.iter().flat_map(|names| names.iter().copied()).find(says)
    }

    /// That two keys say different things.
    pub(crate) fn contradiction(&self, one: &str, other: &str) -> Error {
        let value = |key: &str| shown(self.map.get(key).map_or("", String::as_str));
        let flag = self.flag;
        Error::invalid(format!(
            "{flag} {one}={} and {flag} {other}={} contradict each other; leave one out",
            value(one),
            value(other)
        ))
    }
}
