//! Driver `neutron`: the field of that name, and the port that it describes.

use std::fmt::Display;
use std::str::FromStr;

use model::{AddressPair, Error, Nesting, NeutronLink, PortSpec, Result};

use super::extras::object_of;
use crate::wire::{Node, Object};

/// The field.
pub(super) const FIELD: &str = "neutron";

/// A list is no longer than this.
const LONGEST_LIST: usize = 64;

/// The port of a network of Neutron that the configuration describes.
pub(super) fn link(root: &Object<'_>) -> Result<NeutronLink> {
    let node = root.get(FIELD).ok_or_else(|| {
        Error::invalid(
            "driver neutron needs \"neutron\", an object with at least \"network\": the id or \
             name of one of Neutron's",
        )
    })?;
    let object = object_of(&node, "which is not an object", &spec::neutron::fields())?;
    let network = object.parse("network")?;
    let spec = PortSpec {
        port: object.parse("port")?,
        security_groups: list(&object, "securityGroups")?,
        port_security: object.maybe("portSecurity")?,
        qos_policy: object.parse("qosPolicy")?,
        dns_name: object.parse("dnsName")?,
        allowed_address_pairs: pairs(&object)?,
        nesting: object.get("nesting").map(|node| nesting(&node)).transpose()?,
        floating_ip: object.parse("floatingIp")?,
    };
    let security = object.get("portSecurity").unwrap_or_else(|| node.clone());
    spec.agrees().map_err(|why| security.wrong(format!("but {why}")))?;
    Ok(NeutronLink {
        network: network.ok_or_else(|| {
            node.wrong("which has no \"network\": the id or name of one of Neutron's")
        })?,
        subnets: list(&object, "subnets")?.unwrap_or_default(),
        spec,
        binding: None,
    })
}

/// The items of a list; [`None`] where it is absent.
fn list<T: FromStr<Err: Display>>(object: &Object<'_>, key: &str) -> Result<Option<Vec<T>>> {
    let Some(node) = object.get(key) else { return Ok(None) };
    items(&node)?.iter().map(Node::parse).collect::<Result<_>>().map(Some)
}

fn items<'a>(node: &Node<'a>) -> Result<Vec<Node<'a>>> {
    let items = node.list()?;
    match items.len() > LONGEST_LIST {
        true => Err(node.wrong(format!("which has more than {LONGEST_LIST} items"))),
        false => Ok(items),
    }
}

fn pairs(object: &Object<'_>) -> Result<Vec<AddressPair>> {
    let Some(node) = object.get("allowedAddressPairs") else { return Ok(Vec::new()) };
    items(&node)?.iter().map(pair).collect()
}

/// An address or prefix, alone or in an object with a hardware address.
fn pair(node: &Node<'_>) -> Result<AddressPair> {
    if node.value().is_string() {
        return node.parse();
    }
    let pair = object_of(node, "which is neither an address nor an object", &["ip", "mac"])?;
    let ip = pair.get("ip").ok_or_else(|| node.wrong("which has no \"ip\""))?;
    let reported: AddressPair = ip.parse()?;
    match reported.mac {
        None => Ok(AddressPair { mac: pair.parse("mac")?, ..reported }),
        Some(_) => Err(ip.wrong("which is not an IP address")),
    }
}

/// How a container is connected in an instance of the cloud.
fn nesting(node: &Node<'_>) -> Result<Nesting> {
    let fields = ["type", "parent", "mode", "trunk"];
    let object = object_of(node, "which is not an object", &fields)?;
    let kind = object.text("type")?.ok_or_else(|| {
        node.wrong("which has no \"type\": macvlan, ipvlan or trunk, on an interface of this host")
    })?;
    let nesting =
        Nesting::named(kind, object.parse("parent")?, object.text("mode")?, object.parse("trunk")?);
    nesting.map_err(|why| node.wrong(format!("but {why}")))
}

#[cfg(test)]
mod tests {
    use model::{MacvlanMode, ResourceRef};
    use serde_json::{Value, json};

    use super::*;

    fn read(neutron: &Value) -> Result<NeutronLink> {
        let document = json!({"neutron": neutron});
        link(&Object::new("", document.as_object().unwrap()))
    }

    #[test]
    fn each_field_is_understood() {
        let id = "0f2c8d5e-6a1b-4c3d-9e8f-7a6b5c4d3e2f";
        let link = read(&json!({
            "network": id, "subnets": ["four", "six"], "securityGroups": ["web"],
            "portSecurity": true, "qosPolicy": "slow", "dnsName": "web",
            "allowedAddressPairs": [{"ip": "10.0.0.9", "mac": "02:00:00:00:00:01"},
                                    {"ip": "fd00::/64"}, "10.0.1.0/24"],
            "port": id, "floatingIp": "public",
            "nesting": {"type": "macvlan", "parent": "eth0"},
        }))
        .unwrap();
        assert_eq!(link.network, ResourceRef::Id(id.parse().unwrap()));
        assert_eq!((link.subnets.len(), link.binding), (2, None));
        let spec = link.spec;
        assert_eq!(spec.security_groups.unwrap().len(), 1);
        let nets: Vec<String> =
            spec.allowed_address_pairs.iter().map(|pair| pair.net.to_string()).collect();
        assert_eq!(nets, ["10.0.0.9/32", "fd00::/64", "10.0.1.0/24"]);
        assert!(spec.allowed_address_pairs[0].mac.is_some());
        let (parent, mode) = ("eth0".parse().unwrap(), MacvlanMode::Bridge);
        assert_eq!(spec.nesting, Some(Nesting::Macvlan { parent, mode }));
    }

    #[test]
    fn no_group_is_not_the_default_group() {
        let groups = |neutron| read(&neutron).unwrap().spec.security_groups;
        assert_eq!(groups(json!({"network": "n"})), None);
        assert_eq!(groups(json!({"network": "n", "securityGroups": []})), Some(Vec::new()));
    }

    #[test]
    fn what_cannot_be_is_named_with_its_place() {
        for (neutron, words) in [
            (json!({}), "no \"network\""),
            (json!("front"), "\"neutron\" is \"front\", which is not an object"),
            (
                json!({"network": "n", "subnet": "s"}),
                "\"neutron.subnet\" is \"s\", but there is no",
            ),
            (json!({"network": 5}), "\"neutron.network\" is 5"),
            (json!({"network": "n", "subnets": "s"}), "\"neutron.subnets\" is \"s\""),
            (json!({"network": "n", "subnets": vec!["s"; 65]}), "more than 64"),
            (json!({"network": "n", "port": "a/b"}), "\"neutron.port\" is \"a/b\""),
            (json!({"network": "n", "portSecurity": "no"}), "neither true nor false"),
            (
                json!({"network": "n", "portSecurity": false, "securityGroups": ["g"]}),
                "\"neutron.portSecurity\" is false, but security groups",
            ),
            (
                json!({"network": "n", "allowedAddressPairs": [{"mac": "02:00:00:00:00:01"}]}),
                "allowedAddressPairs[0]",
            ),
            (json!({"network": "n", "allowedAddressPairs": [{"ip": "x"}]}), "[0].ip"),
            (json!({"network": "n", "nesting": {"parent": "eth0"}}), "no \"type\""),
            (json!({"network": "n", "nesting": {"type": "trunk"}}), "needs a parent"),
            (
                json!({"network": "n", "nesting": {"type": "trunk", "vlan": 5, "parent": "e"}}),
                "\"neutron.nesting.vlan\"",
            ),
        ] {
            let error = read(&neutron).unwrap_err().to_string();
            assert!(error.contains(words), "{neutron}: {error}");
        }
    }
}
