//! Maps of options as people write them. An unknown key is an error that names the accepted ones;
//! so are two keys that contradict each other.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use model::text::{choice, meant, question, shown, truth};
use model::{Error, Fence, NEUTRON_PREFIX, Result};

use crate::ovs::OVS_PREFIX;
use crate::words::{HOSTS, OF_MANY, listed, unknown};
use crate::{
    Driver, FrontEnd, NEUTRON_KEYS, NetworkSpec, OVS_KEYS, Value, foreign, of_routed, options,
};

/// A map of options, and how it is given on the command line.
#[derive(Clone, Copy, Debug)]
pub struct Texts<'a> {
    /// The flag, such as `-o`.
    pub flag: &'static str,
    /// Keys and values. An empty value counts as absent, but of options that keep a network less open.
    pub map: &'a BTreeMap<String, String>,
}

impl Texts<'_> {
    /// Fails on a key that is in none of `known`.
    ///
    /// # Errors
    /// [`model::Kind::Unsupported`], with the keys that there are.
    pub fn refuse_unknown(&self, known: &[&[&str]]) -> Result<()> {
        self.refuse_unknown_beside(known, &[])
    }

    /// The same where a caller may have meant one of `others`, too.
    fn refuse_unknown_beside(&self, known: &[&[&str]], others: &[&str]) -> Result<()> {
        let is_known = |key: &str| known.iter().any(|keys| keys.contains(&key));
        let Some((key, value)) = self.map.iter().find(|(key, _)| !is_known(key)) else {
            return Ok(());
        };
        let known = known.iter().flat_map(|keys| keys.iter().copied());
        let meant = meant(key, known.clone().chain(others.iter().copied()));
        let of_neutron = |key: &str| key.starts_with(NEUTRON_PREFIX);
        let of_ovs = |key: &str| key.starts_with(OVS_PREFIX);
        let (neutron, own): (Vec<&str>, Vec<&str>) = known.partition(|key| of_neutron(key));
        let (ovs, own): (Vec<&str>, Vec<&str>) = own.into_iter().partition(|key| of_ovs(key));
        let there = match (neutron.is_empty(), of_neutron(key)) {
            _ if of_ovs(key) && !ovs.is_empty() => ovs.join(", "),
            (true, _) => own.join(", "),
            (false, true) => neutron.join(", "),
            (false, false) => {
                let own = own.join(", ");
                format!(
                    "{own}, and those of Neutron ({NEUTRON_PREFIX}…) and Open vSwitch ({OVS_PREFIX}…)"
                )
            }
        };
        Err(Error::unsupported(format!(
            "{} {}: no such option; {meant}Spoke has {there}",
            self.flag,
            unknown(key, value)
        )))
    }

    /// Fails on an option of networks of many hosts, whose options are read before.
    fn refuse_lonely(&self, known: &[&[&str]]) -> Result<()> {
        let is_known = |key: &str| known.iter().any(|keys| keys.contains(&key));
        match OF_MANY.iter().find(|key| self.map.contains_key(**key) && !is_known(key)) {
            None => Ok(()),
            Some(key) => Err(Error::unsupported(format!(
                "{flag} {key} is of networks of many hosts; add {flag} {HOSTS}, or leave it out",
                flag = self.flag
            ))),
        }
    }

    /// The options of a front end that are not its own to read.
    ///
    /// # Errors
    /// [`model::Kind::Unsupported`] on a key that is none of the table's, Neutron's or Open vSwitch's,
    /// [`model::Kind::Invalid`] on a value that cannot be, or that contradicts another.
    pub fn network(&self, front: FrontEnd) -> Result<NetworkSpec> {
        self.read_network(front, true)
    }

    /// The same of a network that was made already, maybe by an earlier version: an empty option that says who reaches
    /// the network is the default, and a rule for a number in hexadecimal digits is one for that name. Neither is taken
    /// for a new one.
    ///
    /// # Errors
    /// As [`Texts::network`].
    pub fn recorded_network(&self, front: FrontEnd) -> Result<NetworkSpec> {
        self.read_network(front, false)
    }

    fn read_network(&self, front: FrontEnd, is_new: bool) -> Result<NetworkSpec> {
        let keys = options(front).map(|option| option.names(front));
        let keys: Vec<&[&str]> = keys.chain([NEUTRON_KEYS, OVS_KEYS]).collect();
        self.refuse_lonely(&keys)?;
        self.refuse_unknown_beside(&keys, &OF_MANY)?;
        let mut spec = NetworkSpec::default();
        for option in options(front) {
            let mut before = None;
            for name in option.names(front).iter().copied() {
                let is_there = self.map.contains_key(name);
                let Some(text) = self.text(name) else {
                    let is_default = !is_new && matches!(option.value, Value::Ingress(..));
                    if let Some(open) = option.keeps_from().filter(|_| is_there && !is_default) {
                        let why = format!(
                            "the value is empty; without it {open}: leave out the option where that is meant"
                        );
                        return Err(self.wrong(name, "", &why));
                    }
                    continue;
                };
                let put = match option.value {
                    Value::Fence(slot) if !is_new => Fence::recorded(text)
                        .map(|fence| slot(&mut spec).replace(fence).is_none())
                        .map_err(|error| error.to_string()),
                    _ => option.value.put(&mut spec, text),
                };
                let agrees = put.map_err(|why| self.wrong(name, text, &why))?;
                if !agrees {
                    return Err(self.contradiction(before.unwrap_or(name), name));
                }
                before = Some(name);
            }
        }
        Ok(spec)
    }

    /// The first given key that `driver` does not have.
    pub fn foreign(&self, front: FrontEnd, driver: Driver) -> Option<&'static str> {
        foreign(front, driver).find(|key| self.text(key).is_some())
    }

    /// The first given key that only networks have that this host routes.
    pub fn of_routed(&self, front: FrontEnd) -> Option<&'static str> {
        of_routed(front).find(|key| self.text(key).is_some())
    }

    /// The value of one of `keys`, by `parse`; `None` if none is given.
    ///
    /// # Errors
    /// [`model::Kind::Invalid`] on a value that is not `expected`, and on two that differ.
    pub fn one<T: PartialEq>(
        &self,
        keys: &[&'static str],
        expected: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>> {
        self.read(keys, |text| {
            parse(text).ok_or_else(|| format!("{} is not {expected}", shown(text)))
        })
    }

    /// The same for a few words.
    ///
    /// # Errors
    /// As [`Texts::one`].
    pub fn word<T: Copy + PartialEq>(
        &self,
        keys: &[&'static str],
        words: &[(&'static str, T)],
    ) -> Result<Option<T>> {
        let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        self.word_of(keys, &listed(&names), words)
    }

    /// The same, where the words need more explanation than a list of them.
    ///
    /// # Errors
    /// As [`Texts::one`].
    pub fn word_of<T: Copy + PartialEq>(
        &self,
        keys: &[&'static str],
        expected: &str,
        words: &[(&'static str, T)],
    ) -> Result<Option<T>> {
        let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        self.read(keys, |text| {
            choice(words)(text).ok_or_else(|| {
                format!(
                    "{} is not {expected}{}",
                    shown(text),
                    question(text, names.iter().copied())
                )
            })
        })
    }

    /// The same for a type whose error explains itself.
    ///
    /// # Errors
    /// As [`Texts::one`].
    pub fn parsed<T: PartialEq + FromStr<Err: Display>>(
        &self,
        keys: &[&'static str],
    ) -> Result<Option<T>> {
        self.read(keys, |text| {
            text.parse().map_err(|why: T::Err| format!("{} cannot be: {why}", shown(text)))
        })
    }

    /// True or false, as programs written in Go read it.
    ///
    /// # Errors
    /// As [`Texts::one`].
    pub fn flag(&self, keys: &[&'static str]) -> Result<Option<bool>> {
        self.read(keys, |text| {
            truth(text).ok_or_else(|| {
                let asked = question(text, ["true", "false"]);
                format!("{} is not true or false{asked}", shown(text))
            })
        })
    }

    fn read<T: PartialEq>(
        &self,
        keys: &[&'static str],
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>> {
        let mut given: Option<(&'static str, T)> = None;
        for key in keys.iter().copied() {
            let Some(text) = self.text(key) else { continue };
            let value = parse(text).map_err(|why| self.wrong(key, text, &why))?;
            match &given {
                Some((other, before)) if *before != value => {
                    return Err(self.contradiction(other, key));
                }
                Some(_) => {}
                None => given = Some((key, value)),
            }
        }
        Ok(given.map(|(_, value)| value))
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.map.get(key).map(String::as_str).filter(|text| !text.is_empty())
    }

    fn wrong(&self, key: &str, text: &str, why: &str) -> Error {
        Error::invalid(format!("{} {key}={}: {why}", self.flag, shown(text)))
    }

    /// The first of `keys` that is given.
    pub fn first(&self, keys: &[&'static str]) -> &'static str {
        let there = keys.iter().copied().find(|key| self.map.contains_key(*key));
        there.or(keys.first().copied()).unwrap_or("")
    }

    /// The first of these keys with a value.
    pub fn there(&self, keys: &[&[&'static str]]) -> Option<&'static str> {
        keys.iter().flat_map(|names| names.iter().copied()).find(|key| self.text(key).is_some())
    }

    /// The error that two keys contradict each other.
    pub fn contradiction(&self, one: &str, other: &str) -> Error {
        let value = |key: &str| shown(self.map.get(key).map_or("", String::as_str));
        let flag = self.flag;
        Error::invalid(format!(
            "{flag} {one}={} and {flag} {other}={} contradict each other; leave one out",
            value(one),
            value(other)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_option_or_value_names_the_nearest() {
        for front in [FrontEnd::Docker, FrontEnd::Podman] {
            let refused = |key: &str, value: &str| {
                let map = BTreeMap::from([(key.to_owned(), value.to_owned())]);
                Texts { flag: "-o", map: &map }.network(front).unwrap_err().to_string()
            };
            for (key, value, wanted) in [
                ("egres", "none", "-o egres=…: no such option; did you mean egress? Spoke has "),
                ("host", "all", "-o host=…: no such option; did you mean hosts? Spoke has "),
                (
                    "neutron.netwrk",
                    "x",
                    "-o neutron.netwrk=…: no such option; did you mean neutron.network? Spoke has ",
                ),
                ("colour", "red", "-o colour=…: no such option; Spoke has "),
                ("transport", "route", "-o transport is of networks of many hosts; add -o hosts"),
                ("publish", "lcal", "; did you mean local?"),
                ("names", "ture", "it is true or false; did you mean true?"),
                ("egress", "example.org:53/upd", "is none of tcp, udp, sctp; did you mean udp?"),
            ] {
                let error = refused(key, value);
                assert!(error.contains(wanted), "{front:?} {error}");
            }
        }
    }

    #[test]
    fn an_empty_value_opens_nothing() {
        for front in [FrontEnd::Docker, FrontEnd::Podman] {
            let read = |key: &str, value: &str| {
                let map = BTreeMap::from([(key.to_owned(), value.to_owned())]);
                Texts { flag: "-o", map: &map }.network(front)
            };
            for key in ["egress", "egress-strict", "via"] {
                let error = read(key, "").unwrap_err().to_string();
                assert!(error.starts_with(&format!("-o {key}=: the value is empty")), "{error}");
            }
            let ingress = if front == FrontEnd::Docker { "isolation" } else { "isolate" };
            let error = read(ingress, "").unwrap_err().to_string();
            assert!(error.starts_with(&format!("-o {ingress}=: the value is empty")), "{error}");
            assert!(error.contains("reached from everywhere"), "{error}");
            assert_eq!(read("names", "").unwrap(), NetworkSpec::default());
            assert!(read("egress", "none").unwrap().fence.is_some());
        }
    }
}
