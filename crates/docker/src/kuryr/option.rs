//! The options in `-o`, `--ipam-opt` and `--driver-opt`: kuryr-libnetwork's keys, and Spoke's. Each
//! may be in any map in which it can have an effect; one is enough.

use std::collections::BTreeMap;

use model::text::{meant, shown, truth};
use model::{
    Error, Family, NEUTRON_PREFIX, PortSpec, ResourceId, ResourceName, ResourceRef, Result,
};

use spec::{NeutronOptions, Texts};

const NET_UUID: &[&str] = &["neutron.net.uuid"];
const NET_NAME: &[&str] = &["neutron.net.name"];
const SHARED: &[&str] = &["neutron.net.shared"];
const SUBNET_UUID: &[&str] = &["neutron.subnet.uuid"];
const SUBNET_NAME: &[&str] = &["neutron.subnet.name"];
const SUBNET_V6_UUID: &[&str] = &["neutron.subnet.v6.uuid"];
const SUBNET_V6_NAME: &[&str] = &["neutron.subnet.v6.name"];
const POOL_UUID: &[&str] = &["neutron.pool.uuid"];
const POOL_NAME: &[&str] = &["neutron.pool.name"];
const POOL_V6_UUID: &[&str] = &["neutron.pool.v6.uuid"];
const POOL_V6_NAME: &[&str] = &["neutron.pool.v6.name"];
const PUBLISH: &[&str] = &["neutron.publish"];
const ADDRESS_SCOPE: &[&str] = &["neutron.address_scope"];
/// As kuryr-libnetwork calls what exists already, and as every other front end does.
const PORT: &[&str] = &["neutron.port.uuid", "neutron.port"];

/// Of networks, subnets and pools: kuryr-libnetwork's, and the scope.
const OF_NETWORKS: &[&[&str]] = &[
    NET_UUID,
    NET_NAME,
    SHARED,
    SUBNET_UUID,
    SUBNET_NAME,
    SUBNET_V6_UUID,
    SUBNET_V6_NAME,
    POOL_UUID,
    POOL_NAME,
    POOL_V6_UUID,
    POOL_V6_NAME,
    ADDRESS_SCOPE,
];

/// Of the ports of a network's containers.
const OF_PORTS: &[&[&str]] = &[
    &["neutron.security_groups"],
    &["neutron.port_security"],
    &["neutron.qos_policy"],
    &["neutron.allowed_address_pairs"],
    &["neutron.floating_ip"],
    PUBLISH,
    &["neutron.nesting"],
    &["neutron.parent"],
    &["neutron.mode"],
    &["neutron.trunk"],
];

/// Of one container's port.
const OF_ONE_PORT: &[&[&str]] = &[&["neutron.dns_name"], PORT];

/// The options of a network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KuryrNetworkOptions {
    /// An existing network.
    pub(super) existing: Option<ResourceRef>,
    /// Whether other projects see it.
    pub(super) shared: Option<bool>,
    /// Existing subnets, IPv4's and IPv6's.
    subnets: [Option<ResourceRef>; 2],
    /// Existing subnet pools.
    pools: [Option<ResourceRef>; 2],
    /// The address scope of pools that are made.
    pub(super) address_scope: Option<ResourceRef>,
    /// The requested properties of its containers' ports.
    pub(super) spec: PortSpec,
}

impl KuryrNetworkOptions {
    /// Reads `-o`.
    pub(super) fn of_network(map: &BTreeMap<String, String>) -> Result<Self> {
        let texts = texts("-o", map)?;
        let elsewhere = texts.there(OF_ONE_PORT);
        refuse_elsewhere(&texts, elsewhere, "one container's; say it with --driver-opt")?;
        Ok(Self { spec: spec(&texts)?, ..Self::read(&texts)? })
    }

    /// Reads `--ipam-opt`, which is about no port.
    pub(super) fn of_pool(map: &BTreeMap<String, String>) -> Result<Self> {
        let texts = texts("--ipam-opt", map)?;
        let elsewhere = texts.there(OF_PORTS).or(texts.there(OF_ONE_PORT));
        refuse_elsewhere(&texts, elsewhere, "a port's, not a pool's; say it with -o")?;
        Self::read(&texts)
    }

    fn read(texts: &Texts<'_>) -> Result<Self> {
        Ok(Self {
            existing: resource(texts, NET_UUID, NET_NAME)?,
            shared: texts.one(SHARED, "true or false", truth_in_any_case)?,
            subnets: [
                resource(texts, SUBNET_UUID, SUBNET_NAME)?,
                resource(texts, SUBNET_V6_UUID, SUBNET_V6_NAME)?,
            ],
            pools: [
                resource(texts, POOL_UUID, POOL_NAME)?,
                resource(texts, POOL_V6_UUID, POOL_V6_NAME)?,
            ],
            address_scope: texts.parsed(ADDRESS_SCOPE)?,
            spec: PortSpec::default(),
        })
    }

    /// The existing subnet of a family.
    pub(super) fn subnet(&self, family: Family) -> Option<&ResourceRef> {
        self.subnets[place(family)].as_ref()
    }

    /// The existing pool of a family.
    pub(super) fn pool(&self, family: Family) -> Option<&ResourceRef> {
        self.pools[place(family)].as_ref()
    }

    /// Adds the options of the other map. Fails where the two contradict each other.
    pub(super) fn with(self, other: Self) -> Result<Self> {
        let [subnet, subnet_v6] = self.subnets;
        let [other_subnet, other_subnet_v6] = other.subnets;
        let [pool, pool_v6] = self.pools;
        let [other_pool, other_pool_v6] = other.pools;
        Ok(Self {
            existing: both("neutron.net", self.existing, other.existing)?,
            shared: both(SHARED[0], self.shared, other.shared)?,
            subnets: [
                both("neutron.subnet", subnet, other_subnet)?,
                both("neutron.subnet.v6", subnet_v6, other_subnet_v6)?,
            ],
            pools: [
                both("neutron.pool", pool, other_pool)?,
                both("neutron.pool.v6", pool_v6, other_pool_v6)?,
            ],
            address_scope: both(ADDRESS_SCOPE[0], self.address_scope, other.address_scope)?,
            spec: self.spec,
        })
    }
}

/// Whether `-o` says that published ports are ports of this host.
pub(super) fn publishes(texts: &Texts<'_>) -> Result<Option<bool>> {
    texts.word(PUBLISH, &[("host", true), ("none", false)])
}

/// The requested properties of an endpoint's port: its `--driver-opt`, then those of its network.
pub(super) fn of_endpoint(map: &BTreeMap<String, String>, network: PortSpec) -> Result<PortSpec> {
    let texts = texts("--driver-opt", map)?;
    let elsewhere = texts.there(OF_NETWORKS).or(texts.there(&[PUBLISH]));
    refuse_elsewhere(&texts, elsewhere, "a network's; say it with docker network create -o")?;
    let given = spec(&texts)?;
    let pairs = texts.there(&[&["neutron.allowed_address_pairs"]]).is_some();
    let spec = PortSpec {
        port: given.port.or(network.port),
        security_groups: given.security_groups.or(network.security_groups),
        port_security: given.port_security.or(network.port_security),
        qos_policy: given.qos_policy.or(network.qos_policy),
        dns_name: given.dns_name.or(network.dns_name),
        allowed_address_pairs: match pairs {
            true => given.allowed_address_pairs,
            false => network.allowed_address_pairs,
        },
        nesting: given.nesting.or(network.nesting),
        floating_ip: given.floating_ip.or(network.floating_ip),
    };
    spec.agrees().map_err(|why| Error::invalid(format!("--driver-opt neutron.…: {why}")))?;
    Ok(spec)
}

/// Other programs' options are passed over, as kuryr-libnetwork does.
fn texts<'a>(flag: &'static str, map: &'a BTreeMap<String, String>) -> Result<Texts<'a>> {
    let known = [OF_NETWORKS, OF_PORTS, OF_ONE_PORT].concat().concat();
    let is_unknown =
        |key: &&String| key.starts_with(NEUTRON_PREFIX) && !known.contains(&key.as_str());
    match map.keys().find(is_unknown) {
        None => Ok(Texts { flag, map }),
        Some(key) => Err(Error::invalid(format!(
            "{flag} {}: no such option; {}there are {}",
            shown(key),
            meant(key, known.iter().copied()),
            known.join(", ")
        ))),
    }
}

fn refuse_elsewhere(texts: &Texts<'_>, key: Option<&str>, whose: &str) -> Result<()> {
    match key {
        None => Ok(()),
        Some(key) => Err(Error::invalid(format!("{} {key}: this option is {whose}", texts.flag))),
    }
}

fn spec(texts: &Texts<'_>) -> Result<PortSpec> {
    let is_of_port = |key: &str| {
        [OF_PORTS, OF_ONE_PORT].iter().any(|all| all.iter().any(|keys| keys.contains(&key)))
    };
    let of_port = texts.map.iter().filter(|(key, _)| is_of_port(key) && !PORT.contains(&&key[..]));
    let of_port = of_port.map(|(key, text)| (key.clone(), text.clone())).collect();
    let given = NeutronOptions::read(texts.flag, &of_port)?;
    Ok(PortSpec { port: texts.parsed(PORT)?, ..given.spec })
}

/// By its id, or by its name; by both where the text can be either.
fn resource(
    texts: &Texts<'_>,
    id: &[&'static str],
    name: &[&'static str],
) -> Result<Option<ResourceRef>> {
    let by_id: Option<ResourceId> = texts.parsed(id)?;
    let by_name: Option<ResourceName> = texts.parsed(name)?;
    match (by_id, by_name) {
        (Some(_), Some(_)) => Err(texts.contradiction(id[0], name[0])),
        (Some(id), None) => Ok(Some(ResourceRef::Id(id))),
        (None, name) => Ok(name.map(ResourceRef::Name)),
    }
}

/// Python's words, too (oslo `strutils.bool_from_string`).
fn truth_in_any_case(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "yes" | "y" | "on" => Some(true),
        "no" | "n" | "off" => Some(false),
        _ => truth(text),
    }
}

fn both<T: PartialEq>(key: &str, one: Option<T>, other: Option<T>) -> Result<Option<T>> {
    match (one, other) {
        (Some(one), Some(other)) if one != other => Err(Error::invalid(format!(
            "-o {key} and --ipam-opt {key} contradict each other; leave one out"
        ))),
        (one, other) => Ok(one.or(other)),
    }
}

fn place(family: Family) -> usize {
    match family {
        Family::V4 => 0,
        Family::V6 => 1,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ID: &str = "0f2c8d5e-6a1b-4c3d-9e8f-7a6b5c4d3e2f";

    fn map(given: &[(&str, &str)]) -> BTreeMap<String, String> {
        given.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect()
    }

    fn name(text: &str) -> ResourceRef {
        ResourceRef::Name(text.parse().unwrap())
    }

    #[test]
    fn networks_are_described_as_kuryr_does() {
        let given = KuryrNetworkOptions::of_network(&map(&[
            ("neutron.net.uuid", ID),
            ("neutron.net.shared", "True"),
            ("neutron.subnet.name", "four"),
            ("neutron.subnet.v6.uuid", ID),
            ("neutron.pool.name", "kuryr"),
            ("neutron.pool.v6.name", "kuryr6"),
            ("neutron.security_groups", "web"),
            ("com.docker.network.driver.mtu", "9000"),
            ("some.other", "thing"),
        ]))
        .unwrap();
        let id = ResourceRef::Id(ID.parse().unwrap());
        assert_eq!((given.existing.as_ref(), given.shared), (Some(&id), Some(true)));
        assert_eq!(
            (given.subnet(Family::V4), given.subnet(Family::V6)),
            (Some(&name("four")), Some(&id))
        );
        assert_eq!(given.pool(Family::V6), Some(&name("kuryr6")));
        assert_eq!(given.spec.security_groups, Some(vec![name("web")]));
    }

    #[test]
    fn what_is_said_once_is_enough() {
        let pool = || KuryrNetworkOptions::of_pool(&map(&[("neutron.net.name", "n")])).unwrap();
        let network = KuryrNetworkOptions::of_network(&map(&[("neutron.pool.name", "p")])).unwrap();
        let both = network.with(pool()).unwrap();
        assert_eq!((both.existing, both.pools[0].clone()), (Some(name("n")), Some(name("p"))));
        let other = KuryrNetworkOptions::of_network(&map(&[("neutron.net.name", "m")])).unwrap();
        let refused = other.with(pool()).unwrap_err().to_string();
        assert!(refused.contains("contradict"), "{refused}");
    }

    #[test]
    fn an_endpoint_asks_for_more() {
        let network = PortSpec { security_groups: Some(vec![name("a")]), ..PortSpec::default() };
        let given = map(&[("neutron.port.uuid", ID), ("neutron.dns_name", "web")]);
        let spec = of_endpoint(&given, network.clone()).unwrap();
        assert_eq!((spec.port, spec.dns_name), (ID.parse().ok(), "web".parse().ok()));
        assert_eq!(spec.security_groups, network.security_groups);
        let own = of_endpoint(&map(&[("neutron.security_groups", "b")]), network).unwrap();
        assert_eq!(own.security_groups, Some(vec![name("b")]));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let network = |given| KuryrNetworkOptions::of_network(&map(given)).unwrap_err().to_string();
        let pool = |given| KuryrNetworkOptions::of_pool(&map(given)).unwrap_err().to_string();
        let endpoint =
            |given| of_endpoint(&map(given), PortSpec::default()).unwrap_err().to_string();
        for (error, words) in [
            (network(&[("neutron.net.id", "x")]), ["-o neutron.net.id", "neutron.net.uuid"]),
            (network(&[("neutron.net.uuid", "a b")]), ["neutron.net.uuid=a b", "id"]),
            (network(&[("neutron.net.shared", "maybe")]), ["shared=maybe", "true or false"]),
            (
                network(&[("neutron.net.uuid", ID), ("neutron.net.name", "n")]),
                ["neutron.net.name=n", "contradict"],
            ),
            (network(&[("neutron.port.uuid", ID)]), ["neutron.port.uuid", "--driver-opt"]),
            (network(&[("neutron.port_security", "so")]), ["-o neutron.port_security=so", "true"]),
            (pool(&[("neutron.security_groups", "g")]), ["neutron.security_groups", "-o"]),
            (pool(&[("neutron.pool", "p")]), ["--ipam-opt neutron.pool:", "neutron.pool.name"]),
            (endpoint(&[("neutron.net.uuid", ID)]), ["--driver-opt neutron.net.uuid", "-o"]),
            (endpoint(&[("neutron.port.uuid", "/")]), ["--driver-opt", "port"]),
        ] {
            assert!(words.iter().all(|word| error.contains(word)), "{words:?}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(
            key in prop::sample::select(
                [OF_NETWORKS, OF_PORTS, OF_ONE_PORT].concat().concat()
            ),
            text in ".{0,80}",
        ) {
            let map = map(&[(key, &text)]);
            let _ = KuryrNetworkOptions::of_network(&map);
            let _ = KuryrNetworkOptions::of_pool(&map);
            let _ = of_endpoint(&map, PortSpec::default());
        }
    }
}
