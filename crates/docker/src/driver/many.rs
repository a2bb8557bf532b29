//! `docker network create -d spoke --ipam-driver spoke -o hosts=all --subnet SUBNET NAME`: the network becomes one of
//! many hosts, on each of which it is in Docker, and in the other engines that `-o in=podman,cni` names.
//!
//! No call tells a driver what a network is called. So CreateNetwork only checks what can be checked and hands the
//! spec to the daemon, which asks the engine's API for the name a moment later and declares the network. Until then
//! no address of it is given to a container.

use std::collections::BTreeMap;

use engine::{CHOSEN_FIRST, Engine};
use model::{
    Alias, AliasId, EgressPolicy, EngineKind, Error, Handoff, IpNet, NetworkName, Publisher,
    Result, Runtime, SharedRules, Space, Subnet, Timestamp,
};
use spec::{FrontEnd, HOSTS, ManyHostsSpec, NetworkSpec, Texts, refuse_others, take_rules};

use super::block::{Block, blocks};
use super::network::alias_id;
use super::option::{ICC, ingress};
use super::template::INGRESS;
use libnetwork::Answer;

/// A network of many hosts that Docker was asked for, and whose name is not known yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnnamedManyHosts {
    /// Docker's id of it.
    pub id: AliasId,
    /// Its subnets: one of IPv4, and at most one of IPv6.
    pub subnets: Vec<IpNet>,
    /// Where and how it is to be, in Docker among others.
    pub spec: ManyHostsSpec,
}

impl UnnamedManyHosts {
    /// Docker's id as one of network `name`.
    #[must_use]
    pub fn alias(&self, name: &NetworkName, since: Timestamp) -> Alias {
        Alias {
            id: self.id.clone(),
            network: name.clone(),
            runtime: Runtime::Docker,
            since,
            title: Some(name.clone()),
            publisher: Publisher::Spoke,
            handoff: Handoff::Caller,
            publish_on: None,
            lister: None,
            prefix: None,
        }
    }
}

/// Whether a network is to be one of many hosts.
pub(super) fn is_asked(options: &libnetwork::NetworkOptions) -> bool {
    options.generic.contains_key(HOSTS)
}

/// CreateNetwork, for such a network: `share` takes note of it.
pub(super) fn create(
    engine: &Engine<'_>,
    call: &libnetwork::CreateNetwork,
    share: impl FnOnce(&UnnamedManyHosts) -> Result<()>,
) -> Result<Answer> {
    let spec = options(&call.options)?;
    let blocks = blocks(engine, call, None)?;
    let subnets = blocks.iter().map(|block| whole(block).map(|subnet| subnet.id.net));
    let subnets: Vec<IpNet> = subnets.collect::<Result<_>>()?;
    refuse_chosen_here(&subnets)?;
    share(&UnnamedManyHosts { id: alias_id(&call.id)?, subnets, spec })?;
    // Each host has a gateway of its own; this address may be another host's.
    for block in &blocks {
        if let (Some(subnet), Some(gateway)) = (&block.subnet, block.gateway) {
            engine.subnets.release_address(&subnet.id, gateway)?;
        }
    }
    Ok(Answer::Done {})
}

fn options(asked: &libnetwork::NetworkOptions) -> Result<ManyHostsSpec> {
    let mut options = asked.generic.clone();
    let spec = ManyHostsSpec::take(&mut options, EngineKind::Docker)?;
    let spec = spec.ok_or_else(|| Error::bug(format!("a network without -o {HOSTS}")))?;
    let rules = rules(&mut options, asked.internal)?;
    let spec = ManyHostsSpec { rules, ..spec };
    refuse_others(&options, FrontEnd::Docker).map(|()| spec)
}

/// As of a network of this host, it is kept from other networks unless the caller says otherwise.
fn rules(options: &mut BTreeMap<String, String>, internal: bool) -> Result<SharedRules> {
    let icc: BTreeMap<_, _> = ICC.iter().filter_map(|key| options.remove_entry(*key)).collect();
    let spec = take_rules(options, FrontEnd::Docker)?;
    let ingress = ingress(&Texts { flag: "-o", map: &icc }, spec.ingress)?;
    let egress = if internal { EgressPolicy::Internal } else { EgressPolicy::Open };
    Ok(NetworkSpec { ingress: Some(ingress.unwrap_or(INGRESS)), egress, ..spec }.shared_rules())
}

/// The hosts share the subnet itself, and Spoke leases each host's part of it.
fn whole(block: &Block) -> Result<&Subnet> {
    let Some(subnet) = &block.subnet else {
        return Err(Error::invalid(format!(
            "-o {HOSTS}: Docker's own IPAM driver knows nothing of the other hosts' addresses; add \
             --ipam-driver spoke"
        )));
    };
    if subnet.id.space != Space::Host {
        return Err(Error::unsupported(format!(
            "-o {HOSTS}: a cluster of Spoke's is not that of swarm; leave out --scope swarm"
        )));
    }
    match subnet.id.part.is_none() && block.auxiliary.is_empty() {
        true => Ok(subnet),
        false => Err(Error::invalid(format!(
            "-o {HOSTS}: each host has a part of {} of its own; leave out --ip-range and --aux-address",
            block.net
        ))),
    }
}

/// Every host takes the same first subnet where none is named, so another one is likely to have it.
fn refuse_chosen_here(subnets: &[IpNet]) -> Result<()> {
    let is_chosen = |net: &&IpNet| matches!(net, IpNet::V4(net) if CHOSEN_FIRST.contains(net));
    match subnets.iter().find(is_chosen) {
        None => Ok(()),
        Some(net) => Err(Error::invalid(format!(
            "-o {HOSTS}: {net} is of {CHOSEN_FIRST}, from which each host takes subnets of its own first; name one that no \
             host has, such as --subnet 10.64.0.0/16"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use model::IngressPolicy;

    use super::*;

    fn read(all: &[(&str, &str)], internal: bool) -> Result<ManyHostsSpec> {
        let generic = all.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let generic = generic.collect();
        options(&libnetwork::NetworkOptions { generic, ipv4: None, ipv6: false, internal })
    }

    #[test]
    fn docker_is_one_of_its_engines() {
        let all = [("hosts", "all"), ("in", "cni"), ("transport", "route"), ("names", "true")];
        let spec = read(&all, false).unwrap();
        assert_eq!(spec.engines, [EngineKind::Docker, EngineKind::Cni].into());
        assert!(spec.names && spec.transport == model::TransportChoice::Route);
    }

    #[test]
    fn it_is_isolated_unless_the_caller_says_otherwise() {
        let ingress = |more: &[(&str, &str)], internal| {
            let all = [&[("hosts", "all")], more].concat();
            let rules = read(&all, internal).unwrap().rules;
            (rules.ingress, rules.internal)
        };
        let icc = "com.docker.network.bridge.enable_icc";
        assert_eq!(ingress(&[], false), (IngressPolicy::SameBridge, false));
        assert_eq!(ingress(&[("isolation", "none")], false).0, IngressPolicy::Open);
        assert_eq!(ingress(&[("isolation", "container")], false).0, IngressPolicy::Isolated);
        assert_eq!(ingress(&[(icc, "false")], false).0, IngressPolicy::Isolated);
        assert_eq!(ingress(&[(icc, "true")], true), (IngressPolicy::SameBridge, true));
        let fenced = [("hosts", "all"), ("egress", "github.com:443"), ("egress-strict", "true")];
        let fence = read(&fenced, false).unwrap().rules.egress.unwrap();
        assert!(fence.strict && fence.rules.len() == 1);
    }

    #[test]
    fn what_it_cannot_have_is_refused() {
        for (all, internal, why) in [
            (&[("hosts", "all"), ("mtu", "1400")][..], false, "-o mtu"),
            (&[("hosts", "all"), ("in", "rkt")], false, "docker, podman or cni"),
            (&[("hosts", "a b")], false, "a b"),
        ] {
            let error = read(all, internal).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn a_subnet_that_each_host_takes_is_refused() {
        let refused = |net: &str| refuse_chosen_here(&[net.parse().unwrap()]).is_err();
        assert!(refused("10.200.0.0/24") && refused("10.207.4.0/24"));
        assert!(!refused("10.64.0.0/16") && !refused("10.208.0.0/16") && !refused("fd00::/64"));
    }
}
