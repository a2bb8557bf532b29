//! `podman network create -d spoke -o hosts=all NAME`: the network becomes one of many hosts, on each of which it is
//! in the named engines too (`-o in=docker,cni`), and in Podman.

use model::{ENGINE_LABEL, EgressPolicy, EngineKind, Error, Result};
use serde_json::{Value, json};
use spec::{FrontEnd, HOSTS, ManyHosts, ManyHostsSpec, NetworkSpec, refuse_others, take_rules};

use crate::wire::NetworkConfig;

/// The network of many hosts that the document asks for; `None` where that is one of this host.
pub(crate) fn read(document: &Value) -> Result<Option<ManyHosts>> {
    let config = NetworkConfig::read(document)?;
    let mut options = config.options.clone().unwrap_or_default();
    let Some(spec) = ManyHostsSpec::take(&mut options, EngineKind::Podman)? else {
        return Ok(None);
    };
    let egress = if config.internal { EgressPolicy::Internal } else { EgressPolicy::Open };
    let rules = take_rules(&mut options, FrontEnd::Podman)?;
    let rules = NetworkSpec { egress, ..rules }.shared_rules();
    let spec = ManyHostsSpec { rules, ..spec };
    refuse_others(&options, FrontEnd::Podman)?;
    for of in config.subnets() {
        if of.gateway.is_some() || of.lease_range.is_some() {
            return Err(Error::invalid(format!(
                "-o {HOSTS}: each host has a gateway and a part of {} of its own; leave out --gateway \
                 and --ip-range",
                of.subnet
            )));
        }
    }
    Ok(Some(ManyHosts {
        name: config.name.clone(),
        subnets: config.subnets().iter().map(|of| of.subnet).collect(),
        ipv6: config.ipv6_enabled,
        spec,
    }))
}

/// The document that joins it once it is there; the daemon knows Podman's file again, and removes it with the
/// network.
pub(crate) fn joined(many: &ManyHosts, mut document: Value) -> Value {
    document["options"] = json!({"network": many.name});
    // The network that it joins says so.
    document["internal"] = json!(false);
    document["labels"][ENGINE_LABEL] = json!(many.name);
    document["subnets"] = json!([]);
    document
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_with(options: Value, more: &[(&str, Value)]) -> Result<Option<ManyHosts>> {
        let mut document = json!({"name": "front", "driver": "spoke", "options": options});
        for (key, value) in more {
            document[*key] = value.clone();
        }
        read(&document)
    }

    #[test]
    fn options_say_where_and_in_what() {
        let read_options = |options| read_with(options, &[]);
        assert_eq!(read_options(json!({"network": "front"})).unwrap(), None);
        let many = read_options(json!({"hosts": "a,b", "in": "docker"})).unwrap().unwrap();
        assert_eq!(many.spec.engines, [EngineKind::Docker, EngineKind::Podman].into());
        let document = joined(&many, json!({"name": "front", "options": {"hosts": "a,b"}}));
        assert_eq!(document["options"], json!({"network": "front"}));
        assert_eq!(document["labels"][ENGINE_LABEL], "front");
    }

    #[test]
    fn rules_are_podman_s_own_words() {
        let more = [("internal", json!(true))];
        let many = read_with(json!({"hosts": "all", "isolate": "true"}), &more).unwrap().unwrap();
        assert!(many.spec.rules.internal);
        assert_eq!(many.spec.rules.ingress, model::IngressPolicy::SameBridge);
        let document = joined(&many, json!({"name": "front", "internal": true}));
        assert_eq!(document["internal"], false);
        let many = read_with(json!({"hosts": "all"}), &[]).unwrap().unwrap();
        assert!(many.spec.rules.is_open());
    }

    #[test]
    fn what_it_cannot_have_is_refused() {
        let subnet = json!([{"subnet": "10.8.0.0/16", "gateway": "10.8.0.1"}]);
        for (options, more, why) in [
            (json!({"hosts": "all", "mode": "dhcp"}), ("internal", json!(false)), "-o mode"),
            (
                json!({"hosts": "all", "in": "rkt"}),
                ("internal", json!(false)),
                "docker, podman or cni",
            ),
            (json!({"hosts": "all"}), ("subnets", subnet), "--gateway"),
        ] {
            let error = read_with(options, &[more]).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
