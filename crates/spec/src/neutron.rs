//! Options of Neutron's networks and ports. Every front end uses the same keys.

use std::collections::BTreeMap;
use std::str::FromStr;

use model::text::{shown, truth};
use model::{Error, Nesting, NeutronLink, PortSpec, ResourceId, ResourceRef, Result};

/// The keys of [`OPTIONS`], in the same order.
pub const NEUTRON_KEYS: &[&str] = &[
    NETWORK,
    NET_UUID,
    NET_NAME,
    SUBNET,
    SUBNET_UUID,
    SUBNET_NAME,
    SUBNET_V6_UUID,
    SUBNET_V6_NAME,
    SECURITY_GROUPS,
    PORT_SECURITY,
    QOS_POLICY,
    DNS_NAME,
    ADDRESS_PAIRS,
    PORT,
    FLOATING_IP,
    NESTING,
    PARENT,
    MODE,
    TRUNK,
];

const NETWORK: &str = "neutron.network";
const NET_UUID: &str = "neutron.net.uuid";
const NET_NAME: &str = "neutron.net.name";
const SUBNET: &str = "neutron.subnet";
const SUBNET_UUID: &str = "neutron.subnet.uuid";
const SUBNET_NAME: &str = "neutron.subnet.name";
const SUBNET_V6_UUID: &str = "neutron.subnet.v6.uuid";
const SUBNET_V6_NAME: &str = "neutron.subnet.v6.name";
const SECURITY_GROUPS: &str = "neutron.security_groups";
const PORT_SECURITY: &str = "neutron.port_security";
const QOS_POLICY: &str = "neutron.qos_policy";
const DNS_NAME: &str = "neutron.dns_name";
const ADDRESS_PAIRS: &str = "neutron.allowed_address_pairs";
const PORT: &str = "neutron.port";
const FLOATING_IP: &str = "neutron.floating_ip";
const NESTING: &str = "neutron.nesting";
const PARENT: &str = "neutron.parent";
const MODE: &str = "neutron.mode";
const TRUNK: &str = "neutron.trunk";

/// An option of a Neutron network, or of the ports of its containers.
#[derive(Clone, Copy, Debug)]
pub struct NeutronOption {
    /// The keys: Spoke's, then kuryr-libnetwork's.
    pub keys: &'static [&'static str],
    /// The field in CNI's object `neutron`; nothing for other names of the same.
    pub cni: &'static str,
    /// Whether it is a list, between commas.
    pub is_list: bool,
    /// Its effect, in Markdown.
    pub meaning: &'static str,
}

const fn option(
    keys: &'static [&'static str],
    cni: &'static str,
    meaning: &'static str,
) -> NeutronOption {
    NeutronOption { keys, cni, is_list: false, meaning }
}

const fn list(
    keys: &'static [&'static str],
    cni: &'static str,
    meaning: &'static str,
) -> NeutronOption {
    NeutronOption { keys, cni, is_list: true, meaning }
}

/// Every option, in the order in which the manual and errors list them.
pub const OPTIONS: &[NeutronOption] = &[
    option(&[NETWORK], "network", "id or name of the network. A UUID is an id"),
    option(&[NET_UUID, NET_NAME], "", "the same, as kuryr-libnetwork has it"),
    list(
        &[SUBNET],
        "subnets",
        "subnets, between commas: an address of each; Neutron's choice if none is named",
    ),
    option(
        &[SUBNET_UUID, SUBNET_NAME, SUBNET_V6_UUID, SUBNET_V6_NAME],
        "",
        "the same, as kuryr-libnetwork has it",
    ),
    list(
        &[SECURITY_GROUPS],
        "securityGroups",
        "between commas; `none` (CNI: `[]`): no group; without it: the project's default group",
    ),
    option(&[PORT_SECURITY], "portSecurity", "`false`: every sender, no security group"),
    option(&[QOS_POLICY], "qosPolicy", "limits and marks"),
    option(&[DNS_NAME], "dnsName", "name in Neutron's internal DNS"),
    list(
        &[ADDRESS_PAIRS],
        "allowedAddressPairs",
        "further addresses to send from: `ADDRESS[/LENGTH][@MAC]`, between commas",
    ),
    option(
        &[PORT],
        "port",
        "a port that is there: one container uses it, and it stays when that is gone",
    ),
    option(
        &[FLOATING_IP],
        "floatingIp",
        "a floating IP address of this external network for each container",
    ),
    option(
        &[NESTING],
        "nesting.type",
        "`macvlan`, `ipvlan` or `trunk`: this host is itself an instance",
    ),
    option(&[PARENT], "nesting.parent", "its interface"),
    option(&[MODE], "nesting.mode", "the mode of a macvlan or ipvlan"),
    option(&[TRUNK], "nesting.trunk", "the trunk, if not the one of the instance's port"),
];

/// Whether an option with this key may be given several times, as an item of a list each.
pub fn is_list(key: &str) -> bool {
    OPTIONS.iter().any(|option| option.is_list && option.keys.contains(&key))
}

/// The fields of CNI's object `neutron`.
pub fn fields() -> Vec<&'static str> {
    let mut fields: Vec<&str> =
        OPTIONS.iter().filter_map(|option| option.cni.split('.').next()).collect();
    fields.retain(|field| !field.is_empty());
    fields.dedup();
    fields
}

/// A list is no longer than this.
const LONGEST_LIST: usize = 64;

/// The word for an empty list.
const NOTHING: &str = "none";

/// The options of a Neutron network and of its containers' ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NeutronOptions {
    /// The network.
    pub network: Option<ResourceRef>,
    /// The subnets that addresses come from.
    pub subnets: Vec<ResourceRef>,
    /// The requested properties of the ports.
    pub spec: PortSpec,
}

/// The texts of options, and how they are given on the command line, for errors.
struct Texts<'a> {
    flag: &'a str,
    map: &'a BTreeMap<String, String>,
}

impl NeutronOptions {
    /// Reads the options under [`NEUTRON_KEYS`]; an empty text counts as absent. `flag` is how
    /// options are given, such as `-o`.
    ///
    /// # Errors
    /// [`model::Kind::Invalid`] on the first that is not valid, or that contradicts another.
    pub fn read(flag: &str, map: &BTreeMap<String, String>) -> Result<Self> {
        let texts = Texts { flag, map };
        let given = Self {
            network: texts.resource(NETWORK, NET_UUID, NET_NAME)?,
            subnets: texts.subnets()?,
            spec: PortSpec {
                port: texts.parsed(PORT)?,
                security_groups: texts.list(SECURITY_GROUPS)?,
                port_security: texts.flag(PORT_SECURITY)?,
                qos_policy: texts.parsed(QOS_POLICY)?,
                dns_name: texts.parsed(DNS_NAME)?,
                allowed_address_pairs: texts.list(ADDRESS_PAIRS)?.unwrap_or_default(),
                nesting: texts.nesting()?,
                floating_ip: texts.parsed(FLOATING_IP)?,
            },
        };
        given
            .spec
            .agrees()
            .map_err(|why| Error::invalid(format!("{flag} {PORT_SECURITY}: {why}")))?;
        Ok(given)
    }

    /// The link of containers on the network.
    ///
    /// # Errors
    /// [`model::Kind::Invalid`] where no network is named.
    pub fn link(self, flag: &str) -> Result<NeutronLink> {
        let network = self.network.ok_or_else(|| {
            Error::invalid(format!(
                "a network of Neutron is named by {flag} {NETWORK}=NETWORK, its id or name; it \
                 must be there already"
            ))
        })?;
        Ok(NeutronLink { network, subnets: self.subnets, spec: self.spec, binding: None })
    }
}

impl<'a> Texts<'a> {
    fn given(&self, key: &str) -> Option<&'a str> {
        self.map.get(key).map(String::as_str).filter(|text| !text.is_empty())
    }

    fn wrong(&self, key: &str, why: impl std::fmt::Display) -> Error {
        let text = shown(self.given(key).unwrap_or_default());
        Error::invalid(format!("{} {key}={text}: {why}", self.flag))
    }

    fn parsed<T: FromStr<Err = Error>>(&self, key: &str) -> Result<Option<T>> {
        let Some(text) = self.given(key) else { return Ok(None) };
        text.parse().map(Some).map_err(|why| self.wrong(key, why))
    }

    fn flag(&self, key: &str) -> Result<Option<bool>> {
        let Some(text) = self.given(key) else { return Ok(None) };
        truth(text).map(Some).ok_or_else(|| self.wrong(key, "that is neither true nor false"))
    }

    /// Between commas; `none` is an empty list.
    fn list<T: FromStr<Err = Error>>(&self, key: &str) -> Result<Option<Vec<T>>> {
        match self.given(key) {
            None => Ok(None),
            Some(NOTHING) => Ok(Some(Vec::new())),
            Some(text) if text.split(',').count() > LONGEST_LIST => {
                Err(self.wrong(key, format!("these are more than {LONGEST_LIST}")))
            }
            Some(text) => {
                let each = text.split(',').map(|one| one.trim().parse());
                each.collect::<Result<_>>().map(Some).map_err(|why| self.wrong(key, why))
            }
        }
    }

    /// A resource that three keys may name; two of them only if they name the same.
    fn resource(&self, key: &str, by_id: &str, by_name: &str) -> Result<Option<ResourceRef>> {
        let id = self.parsed::<ResourceId>(by_id)?.map(ResourceRef::Id);
        let name = self.parsed(by_name)?.map(ResourceRef::Name);
        let given = [(key, self.parsed(key)?), (by_id, id), (by_name, name)];
        let mut given = given.into_iter().filter_map(|(key, resource)| Some((key, resource?)));
        let Some((first, resource)) = given.next() else { return Ok(None) };
        match given.find(|(_, other)| *other != resource) {
            None => Ok(Some(resource)),
            Some((other, _)) => {
                Err(self
                    .wrong(first, format!("{} {other} names another; leave one out", self.flag)))
            }
        }
    }

    fn subnets(&self) -> Result<Vec<ResourceRef>> {
        let listed: Option<Vec<ResourceRef>> = self.list(SUBNET)?;
        let mut subnets = listed.unwrap_or_default();
        for (by_id, by_name) in [(SUBNET_UUID, SUBNET_NAME), (SUBNET_V6_UUID, SUBNET_V6_NAME)] {
            let subnet = self.resource("", by_id, by_name)?;
            subnets.extend(subnet.filter(|subnet| !subnets.contains(subnet)));
        }
        Ok(subnets)
    }

    fn nesting(&self) -> Result<Option<Nesting>> {
        let Some(kind) = self.given(NESTING) else {
            let alone = [PARENT, MODE, TRUNK].into_iter().find(|key| self.given(key).is_some());
            return match alone {
                None => Ok(None),
                Some(key) => Err(self.wrong(
                    key,
                    format!("it says how containers are nested; add {} {NESTING}=…", self.flag),
                )),
            };
        };
        let (parent, trunk) = (self.parsed(PARENT)?, self.parsed(TRUNK)?);
        let nesting = Nesting::named(kind, parent, self.given(MODE), trunk);
        nesting.map(Some).map_err(|why| self.wrong(NESTING, why))
    }
}

#[cfg(test)]
mod tests {
    use model::{MacvlanMode, NEUTRON_PREFIX};
    use proptest::prelude::*;

    use super::*;

    const ID: &str = "0f2c8d5e-6a1b-4c3d-9e8f-7a6b5c4d3e2f";

    fn read(given: &[(&str, &str)]) -> Result<NeutronOptions> {
        let given = given.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned()));
        NeutronOptions::read("-o", &given.collect())
    }

    #[test]
    fn each_option_is_understood() {
        let given = read(&[
            ("neutron.network", "front"),
            ("neutron.subnet", &format!("{ID}, v6")),
            ("neutron.security_groups", "web,ssh"),
            ("neutron.port_security", "true"),
            ("neutron.qos_policy", "slow"),
            ("neutron.dns_name", "web"),
            ("neutron.allowed_address_pairs", "10.0.0.0/24,10.1.0.5@02:00:00:00:00:05"),
            ("neutron.port", ID),
            ("neutron.floating_ip", "public"),
            ("neutron.nesting", "macvlan"),
            ("neutron.parent", "eth0"),
            ("neutron.mode", "private"),
        ])
        .unwrap();
        let by_id = ResourceRef::Id(ID.parse().unwrap());
        let name = |text: &str| ResourceRef::Name(text.parse().unwrap());
        assert_eq!(given.subnets, [by_id, name("v6")]);
        assert_eq!(given.spec.security_groups, Some(vec![name("web"), name("ssh")]));
        assert_eq!(given.spec.allowed_address_pairs[1].net, "10.1.0.5/32".parse().unwrap());
        assert!(given.spec.allowed_address_pairs[1].mac.is_some());
        let (parent, mode) = ("eth0".parse().unwrap(), MacvlanMode::Private);
        assert_eq!(given.spec.nesting, Some(Nesting::Macvlan { parent, mode }));
        assert_eq!(given.link("-o").unwrap().network, name("front"));
    }

    #[test]
    fn words_of_kuryr_name_the_same() {
        let by_id = read(&[("neutron.net.uuid", ID)]).unwrap();
        assert_eq!(by_id, read(&[("neutron.network", ID)]).unwrap());
        assert_eq!(by_id, read(&[("neutron.network", ID), ("neutron.net.uuid", ID)]).unwrap());
        let named = read(&[("neutron.net.name", ID), ("neutron.subnet.v6.name", "six")]).unwrap();
        assert_eq!(named.network, Some(ResourceRef::Name(ID.parse().unwrap())));
        assert_eq!(named.subnets, [ResourceRef::Name("six".parse().unwrap())]);
        assert_eq!(read(&[("neutron.network", "")]).unwrap(), NeutronOptions::default());
    }

    #[test]
    fn the_table_has_every_key() {
        let keys: Vec<&str> = OPTIONS.iter().flat_map(|option| option.keys).copied().collect();
        assert_eq!(keys, NEUTRON_KEYS);
        assert!(keys.iter().all(|key| key.starts_with(NEUTRON_PREFIX)));
        assert_eq!(
            fields().first().copied().zip(fields().last().copied()),
            Some(("network", "nesting"))
        );
    }

    #[test]
    fn a_list_may_be_empty() {
        let none = read(&[("neutron.security_groups", "none"), ("neutron.port_security", "0")]);
        assert_eq!(none.unwrap().spec.security_groups, Some(Vec::new()));
    }

    #[test]
    fn what_cannot_be_is_named() {
        let long = ["a"; LONGEST_LIST + 1].join(",");
        for (given, word) in [
            (&[("neutron.network", "a"), ("neutron.net.name", "b")][..], "neutron.net.name names"),
            (&[("neutron.net.uuid", "a b")], "-o neutron.net.uuid=a b"),
            (&[("neutron.subnet", "a,,b")], "neutron.subnet"),
            (&[("neutron.subnet", &long)], "more than 64"),
            (&[("neutron.port_security", "maybe")], "neither true nor false"),
            (&[("neutron.port_security", "false"), ("neutron.security_groups", "a")], "no effect"),
            (
                &[("neutron.port_security", "no"), ("neutron.allowed_address_pairs", "::1")],
                "neutron.port_security=no",
            ),
            (&[("neutron.allowed_address_pairs", "ten")], "neither an IP address"),
            (&[("neutron.allowed_address_pairs", "::1@x")], "neutron.allowed_address_pairs"),
            (&[("neutron.parent", "eth0")], "add -o neutron.nesting"),
            (&[("neutron.nesting", "trunk")], "needs a parent"),
            (&[("neutron.nesting", "vxlan"), ("neutron.parent", "eth0")], "none of macvlan"),
            (
                &[("neutron.nesting", "ipvlan"), ("neutron.parent", "e"), ("neutron.mode", "vepa")],
                "l2, l3 or l3s",
            ),
            (
                &[("neutron.nesting", "ipvlan"), ("neutron.parent", "e"), ("neutron.trunk", "t")],
                "of no trunk",
            ),
        ] {
            let error = read(given).unwrap_err().to_string();
            assert!(error.contains(word), "{given:?}: {error}");
        }
        let nameless = read(&[]).unwrap().link("-o").unwrap_err().to_string();
        assert!(nameless.contains("-o neutron.network="), "{nameless}");
    }

    proptest! {
        #[test]
        fn never_panics(key in 0..NEUTRON_KEYS.len(), value in ".*") {
            let map = BTreeMap::from([(NEUTRON_KEYS[key].to_owned(), value)]);
            if let Err(error) = NeutronOptions::read("-o", &map) {
                prop_assert!(error.to_string().len() < 2000);
            }
        }
    }
}
