//! From Neutron's JSON to resources. Plugins and versions differ in what they leave out and in what
//! they say `null` of: both is absence.

use model::{Error, Result};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The value under this key of an answer.
///
/// # Errors
/// `TryAgain`: it is not there, or not of the right type.
pub(super) fn field<T: DeserializeOwned>(mut answer: Value, key: &str) -> Result<T> {
    let found = answer.get_mut(key).map(Value::take).unwrap_or_default();
    serde_json::from_value(without_nulls(found)).map_err(|cause| {
        Error::try_again(format!("Neutron's answer about {key} cannot be understood"))
            .because(cause)
    })
}

/// Without the fields that are `null`. JSON that was parsed is not nested deeper than 128.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .filter(|(_, field)| !field.is_null())
            .map(|(name, field)| (name, without_nulls(field)))
            .collect(),
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        FloatingIp, NetworkResource, PortResource, SecurityGroup, SubnetPool, SubnetResource, Trunk,
    };
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    const ID: &str = "0f2c8d5e-6a1b-4c3d-9e8f-7a6b5c4d3e2f";

    /// Any resource, with all that it may have.
    fn whole() -> Value {
        json!({
            "id": ID, "name": "n", "network_id": ID, "port_id": ID, "mac_address": "fa:16:3e:00:00:01",
            "fixed_ips": [{"subnet_id": ID, "ip_address": "10.0.0.5"}], "device_id": "", "tags": ["t"],
            "device_owner": "compute:kuryr", "status": "DOWN", "admin_state_up": true, "mtu": 1442,
            "description": "d", "security_groups": [ID], "project_id": "p", "revision_number": 3,
            "allowed_address_pairs": [{"ip_address": "10.0.0.0/24", "mac_address": "fa:16:3e:00:00:01"}],
            "binding:host_id": "h", "binding:vif_type": "ovs", "binding:vif_details": {"a": true},
            "binding:profile": {"pci_slot": "0000:00:01.0"}, "binding:vnic_type": "normal",
            "shared": false, "subnets": [ID], "port_security_enabled": true, "cidr": "10.0.0.0/24",
            "gateway_ip": "10.0.0.1", "subnetpool_id": ID, "dns_nameservers": ["10.0.0.2"],
            "host_routes": [{"destination": "10.9.0.0/16", "nexthop": "10.0.0.3"}],
            "prefixes": ["10.0.0.0/16"], "default_prefixlen": "24", "security_group_rules": [],
            "floating_ip_address": "192.0.2.7", "sub_ports": [
                {"port_id": ID, "segmentation_type": "vlan", "segmentation_id": 7}
            ],
        })
    }

    fn decode(value: &Value) -> [bool; 7] {
        fn is<T: DeserializeOwned>(value: &Value) -> bool {
            field::<T>(json!({ "x": value }), "x").is_ok()
        }
        [
            is::<PortResource>(value),
            is::<NetworkResource>(value),
            is::<SubnetResource>(value),
            is::<SubnetPool>(value),
            is::<SecurityGroup>(value),
            is::<FloatingIp>(value),
            is::<Trunk>(value),
        ]
    }

    /// The fields that these resources cannot be without.
    const NEEDED: [&[&str]; 7] = [
        &["id", "network_id", "mac_address"],
        &["id"],
        &["id", "network_id", "cidr"],
        &["id"],
        &["id"],
        &["id", "floating_ip_address"],
        &["id", "port_id"],
    ];

    #[test]
    fn null_and_absent_are_one() {
        assert_eq!(decode(&whole()), [true; 7]);
        let names: Vec<String> = whole().as_object().unwrap().keys().cloned().collect();
        for name in names {
            let (mut null, mut absent) = (whole(), whole());
            null[&name] = Value::Null;
            absent.as_object_mut().unwrap().remove(&name);
            let expected = NEEDED.map(|needed| !needed.contains(&name.as_str()));
            assert_eq!(decode(&null), expected, "{name}");
            assert_eq!(decode(&absent), expected, "{name}");
        }
    }

    #[test]
    fn what_is_not_there_is_reported() {
        for answer in [json!(null), json!("x"), json!([1]), json!({"port": null})] {
            let error = field::<PortResource>(answer, "port").unwrap_err();
            assert!(error.to_string().starts_with("Neutron's answer about port"), "{error}");
        }
    }

    fn odd() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(json!(null)),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".{0,40}".prop_map(Value::from),
            Just(json!([])),
            Just(json!({})),
            Just(json!([null])),
            Just(json!([{"ip_address": null}])),
        ]
    }

    proptest! {
        #[test]
        fn nothing_that_is_sent_breaks_us(at in 0..whole().as_object().unwrap().len(), odd in odd()) {
            let mut value = whole();
            let name = value.as_object().unwrap().keys().nth(at).unwrap().clone();
            value[&name] = odd;
            let _ = decode(&value);
        }
    }
}
