//! The options of `docker network create --ipam-opt`.

use std::collections::BTreeMap;

use model::{AddressSpace, NetworkName, Order, Result, Sticky};

use spec::Texts;

const NETWORK: &[&str] = &["network"];
const STICKY: &[&str] = &["sticky"];
const ORDER: &[&str] = &["order"];
const SERIAL: &[&str] = &["com.docker.network.ipam.serial"];
const SPACE: &[&str] = &["address_space"];
const OVERLAP: &[&str] = &["overlap"];

const KEYS: &[&[&str]] = &[NETWORK, STICKY, ORDER, SERIAL, OVERLAP, SPACE];

/// The requested properties of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PoolSpec {
    pub(crate) network: Option<NetworkName>,
    pub(crate) sticky: Sticky,
    pub(crate) order: Order,
    pub(crate) despite_others: bool,
    /// The tenant's space in which the subnet is.
    pub(crate) address_space: Option<AddressSpace>,
}

impl PoolSpec {
    /// Reads them all; fails on the first that is unknown or senseless.
    pub(crate) fn read(options: &BTreeMap<String, String>) -> Result<Self> {
        let texts = Texts { flag: "--ipam-opt", map: options };
        texts.refuse_unknown(KEYS)?;
        Ok(Self {
            network: texts.parsed(NETWORK)?,
            sticky: texts
                .word(STICKY, &[("mac", Sticky::Mac), ("name", Sticky::Name)])?
                .unwrap_or(Sticky::No),
            order: order(&texts)?,
            despite_others: texts.word(OVERLAP, &[("allow", ())])?.is_some(),
            address_space: texts.parsed(SPACE)?,
        })
    }
}

fn order(texts: &Texts<'_>) -> Result<Order> {
    let words = [("lowest", Order::LowestFree), ("serial", Order::NextAfterLast)];
    let given = texts.word(ORDER, &words)?;
    let serial = texts.flag(SERIAL)?;
    let docker = serial.filter(|serial| *serial).map(|_| Order::NextAfterLast);
    match (given, docker) {
        (Some(given), Some(docker)) if given != docker => {
            Err(texts.contradiction(ORDER[0], SERIAL[0]))
        }
        (given, docker) => Ok(given.or(docker).unwrap_or(Order::LowestFree)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(options: &[(&str, &str)]) -> Result<PoolSpec> {
        let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        PoolSpec::read(&options.iter().map(own).collect())
    }

    #[test]
    fn understands_every_option() {
        let spec = read(&[]).unwrap();
        assert_eq!((spec.sticky, spec.order), (Sticky::No, Order::LowestFree));
        assert!(spec.network.is_none() && !spec.despite_others);
        let spec = read(&[
            ("network", "front"),
            ("sticky", "name"),
            ("order", "serial"),
            ("com.docker.network.ipam.serial", "true"),
            ("overlap", "allow"),
        ])
        .unwrap();
        assert_eq!((spec.sticky, spec.order), (Sticky::Name, Order::NextAfterLast));
        assert!(spec.network.is_some() && spec.despite_others);
        assert_eq!(read(&[("sticky", "mac")]).unwrap().sticky, Sticky::Mac);
    }

    #[test]
    fn names_what_is_wrong() {
        for (options, words) in [
            (vec![("stick", "mac")], vec!["stick", "sticky", "network", "overlap"]),
            (vec![("sticky", "yes")], vec!["sticky=yes", "mac or name"]),
            (vec![("network", "a/b")], vec!["network=a/b"]),
            (
                vec![("order", "lowest"), ("com.docker.network.ipam.serial", "true")],
                vec!["order=lowest", "serial=true"],
            ),
        ] {
            let error = read(&options).unwrap_err().to_string();
            assert!(words.iter().all(|word| error.contains(word)), "{error}");
        }
    }
}
