//! How the text of an option is read.

use std::fmt::Display;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use model::text::{choice, interfaces, question, truth};
use model::{
    AddressSpace, Fence, IfName, IngressPolicy, Mtu, NetworkName, Passage, Reach, Sources, Via,
    VlanId,
};

use crate::NetworkSpec;
use crate::words::listed;

/// Where a value goes.
pub type Slot<T> = fn(&mut NetworkSpec) -> &mut Option<T>;

/// Words and what they mean.
pub(crate) type Words<T> = &'static [(&'static str, T)];

/// The value of an option.
#[derive(Clone, Copy, Debug)]
pub enum Value {
    /// Each front end reads it by itself, because it means something else there.
    Own,
    /// `true` or `false`.
    Flag(Slot<bool>),
    /// `true` means that the other is false.
    Not(Slot<bool>),
    /// A number.
    Number(Slot<u32>),
    /// A number of bytes.
    Mtu(Slot<Mtu>),
    /// A VLAN's number.
    Vlan(Slot<VlanId>),
    /// A device's name.
    Device(Slot<IfName>),
    /// A network's name.
    Network(Slot<NetworkName>),
    /// The name of a tenant's address space.
    AddressSpace(Slot<AddressSpace>),
    /// An IPv4 address that packets leave with.
    SourceV4(Slot<Ipv4Addr>),
    /// An IPv6 address that packets leave with.
    SourceV6(Slot<Ipv6Addr>),
    /// Devices that are trusted, between colons.
    Trusted(Slot<Passage>),
    /// Where packets may go: rules between commas.
    Fence(Slot<Fence>),
    /// By what packets leave.
    Via(Slot<Via>),
    /// An address of either family that packets leave with.
    Source(fn(&mut NetworkSpec) -> &mut Sources),
    /// From where published ports are reached.
    Reach(Slot<Reach>, Words<Reach>),
    /// From where containers are reached.
    Ingress(Slot<IngressPolicy>, Words<IngressPolicy>),
}

impl Value {
    /// Reads `text`. False where another value was given before.
    ///
    /// # Errors
    /// Why `text` is not valid.
    pub fn put(&self, spec: &mut NetworkSpec, text: &str) -> Result<bool, String> {
        match *self {
            Value::Own => Ok(true),
            Value::Flag(slot) => keep(slot(spec), flag(text)?),
            Value::Not(slot) => keep(slot(spec), !flag(text)?),
            Value::Number(slot) => keep(slot(spec), parsed(text)?),
            Value::Mtu(slot) => {
                let mtu = text.parse().ok().and_then(Mtu::new);
                keep(slot(spec), mtu.ok_or("an MTU is a number from 68 to 65535")?)
            }
            Value::Vlan(slot) => {
                let vlan = text.parse().ok().and_then(VlanId::new);
                keep(slot(spec), vlan.ok_or("a VLAN is a number from 1 to 4094")?)
            }
            Value::Device(slot) => keep(slot(spec), parsed(text)?),
            Value::Network(slot) => keep(slot(spec), parsed(text)?),
            Value::AddressSpace(slot) => keep(slot(spec), parsed(text)?),
            Value::SourceV4(slot) => {
                let source = Sources::read_v4(text);
                keep(slot(spec), source.ok_or_else(|| format!("it is {}", Sources::V4))?)
            }
            Value::SourceV6(slot) => {
                let source = Sources::read_v6(text);
                keep(slot(spec), source.ok_or_else(|| format!("it is {}", Sources::V6))?)
            }
            Value::Trusted(slot) => {
                let devices = interfaces(text).map_err(
                    |_| "these are names of interfaces between colons, such as eth1:eth2",
                )?;
                keep(slot(spec), Passage::Trusted(devices))
            }
            Value::Fence(slot) => keep(slot(spec), parsed(text)?),
            Value::Via(slot) => keep(slot(spec), parsed(text)?),
            Value::Source(slot) => put_source(slot(spec), text),
            Value::Reach(slot, words) => keep(slot(spec), word(text, words)?),
            Value::Ingress(slot, words) => keep(slot(spec), word(text, words)?),
        }
    }

    /// The words that it can be; none where it is no word.
    pub fn words(&self) -> Vec<&'static str> {
        match *self {
            Value::Flag(_) | Value::Not(_) => vec!["true", "false"],
            Value::Reach(_, words) => words.iter().map(|(word, _)| *word).collect(),
            Value::Ingress(_, words) => words.iter().map(|(word, _)| *word).collect(),
            Value::Own
            | Value::Number(_)
            | Value::Mtu(_)
            | Value::Vlan(_)
            | Value::Device(_)
            | Value::Network(_)
            | Value::AddressSpace(_)
            | Value::SourceV4(_)
            | Value::SourceV6(_)
            | Value::Trusted(_)
            | Value::Fence(_)
            | Value::Via(_)
            | Value::Source(_) => Vec::new(),
        }
    }
}

fn keep<T: PartialEq>(slot: &mut Option<T>, value: T) -> Result<bool, String> {
    let agrees = slot.as_ref().is_none_or(|before| *before == value);
    if agrees {
        *slot = Some(value);
    }
    Ok(agrees)
}

/// Addresses between commas, at most one of each family.
fn put_source(sources: &mut Sources, text: &str) -> Result<bool, String> {
    let mut given = Sources::default();
    for text in text.split(',').map(str::trim) {
        let is_alone = match (Sources::read_v4(text), Sources::read_v6(text)) {
            (Some(v4), _) => given.v4.replace(v4).is_none(),
            (None, Some(v6)) => given.v6.replace(v6).is_none(),
            (None, None) => return Err(format!("it is {}", Sources::EITHER)),
        };
        if !is_alone {
            return Err(format!(
                "these are two addresses of one family, of which packets could leave with one only; it is {}",
                Sources::EITHER
            ));
        }
    }
    let v4 = given.v4.map_or(Ok(true), |it| keep(&mut sources.v4, it))?;
    let v6 = given.v6.map_or(Ok(true), |it| keep(&mut sources.v6, it))?;
    Ok(v4 && v6)
}

fn parsed<T: FromStr<Err: Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|why: T::Err| why.to_string())
}

fn flag(text: &str) -> Result<bool, String> {
    truth(text).ok_or_else(|| format!("it is true or false{}", question(text, ["true", "false"])))
}

fn word<T: Copy>(text: &str, words: Words<T>) -> Result<T, String> {
    choice(words)(text).ok_or_else(|| {
        let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        format!("it is {}{}", listed(&words), question(text, words.iter().copied()))
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_family_has_one_source() {
        let put = |texts: &[&str]| -> Result<bool, String> {
            let mut sources = Sources::default();
            let mut agrees = true;
            for text in texts {
                agrees &= put_source(&mut sources, text)?;
            }
            Ok(agrees)
        };
        assert_eq!(put(&["192.0.2.1,fd00::1", "fd00::1"]), Ok(true));
        assert_eq!(put(&["192.0.2.1", "192.0.2.2"]), Ok(false), "by two options");
        for two in ["192.0.2.1,192.0.2.2", "fd00::1, 192.0.2.1,fd00::1"] {
            assert!(put(&[two]).unwrap_err().contains("two addresses of one family"), "{two}");
        }
        for none in
            ["", "192.0.2.1,", "224.0.0.1", "255.255.255.255", "127.0.0.1", "0.0.0.0", "ff02::1"]
        {
            assert!(
                put(&[none]).unwrap_err().starts_with("it is an address of this host"),
                "{none}"
            );
        }
    }
}
