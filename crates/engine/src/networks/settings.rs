//! Settings of networks that change while containers are on them.
//!
//! The network's record says what shall hold ([`model::Settings`]); it is committed first. Then each
//! attachment follows ([`crate::links::settings`]), and the devices that they share.

use model::{
    AttachmentId, Backend, Error, Family, LinkKind, Network, NetworkChange, NetworkName, Phase,
    Publish, Publisher, Reach, Result, Runtime, Settings,
};

use crate::Networks;
use crate::contention::RACES;
use crate::failures::all_of;
use crate::links::settings::{Following, is_changed};
use crate::port::{AttachmentLock, Key, Outcome, Prefix, Record, Txn};
use crate::records::book::unchanged;

/// The least MTU of a device with IPv6 addresses, in bytes (RFC 8200 section 5). The kernel takes the
/// addresses away from a device with less.
const LEAST_V6: u32 = 1280;

impl Networks<'_> {
    /// Changes a network that is in use, with what its containers have of it. Repeating it is no error.
    ///
    /// Where a container does not follow, the others do; the first failure is returned, and
    /// [`Repair::restore`](crate::Repair::restore) and [`Repair::reconcile`](crate::Repair::reconcile)
    /// try again.
    ///
    /// # Errors
    /// [`model::Kind::Unsupported`] where the network does not have such a setting, or where its runtime
    /// describes it anew with each container; [`model::Kind::Invalid`] where the value is none for it.
    pub fn set_network(&self, name: &NetworkName, change: &NetworkChange) -> Result<Network> {
        for _ in 0..RACES {
            let network = self.records.network(name)?;
            let key = Key::Network(network.name.clone());
            let Some(read) = self.records.network_under(&key)? else {
                return Err(described(&network));
            };
            self.refuse_settings(&read.value, &change.settings)?;
            let changed = self.with_reach(change.of(&read.value)?);
            if change.settings.way.is_some() {
                self.refuse_way(&changed)?;
            }
            let record = Record::Network(Box::new(changed.clone()));
            let txn = Txn::new().require(key.clone(), unchanged(Some(&read))).put(key, record);
            if let Outcome::Done(_) = self.store.commit(&txn)? {
                let led = match change.settings.way {
                    Some(_) => self.links.lead(&changed),
                    None => Ok(()),
                };
                let lock = |id: &_| Some(self.host.lock_attachment(id));
                let followed = self.follow_settings(&changed, Following::Whole, &lock);
                return led.and(followed).map(|()| changed);
            }
        }
        Err(Error::try_again(format!("network {name} keeps being changed")))
    }

    /// Lets every attachment have what commands set of its network. One on which another thread works is
    /// left to the next call.
    pub(crate) fn follow_all_settings(&self, following: Following) -> Result<()> {
        let mut networks = self.records.networks_in(&Prefix::Networks)?;
        networks.retain(|read| is_changed(&read.value) && read.value.stage.is_whole());
        let lock = |id: &_| self.host.try_lock_attachment(id);
        let followed =
            networks.iter().map(|read| self.follow_settings(&read.value, following, &lock));
        all_of(followed.filter_map(Result::err).collect())
    }

    /// `lock`: none for an attachment that is left out.
    pub(super) fn follow_settings(
        &self,
        network: &Network,
        following: Following,
        lock: &dyn Fn(&AttachmentId) -> Option<AttachmentLock>,
    ) -> Result<()> {
        if !is_changed(network) {
            return Ok(());
        }
        let mut failures = Vec::new();
        if network.settings.mtu.is_some() {
            failures.extend(self.links.retune(network).err());
        }
        for listed in self.records.attachments_in(&Prefix::AttachmentsOf(network.name.clone()))? {
            let (id, layer) = (&listed.value.id, listed.value.layer);
            // What is being made or removed is not waited for: it follows when it is complete.
            let is_settled = matches!(listed.value.phase, Phase::Attached(_) | Phase::Reserved);
            if !is_settled || !following.concerns(&listed.value, network) {
                continue;
            }
            let Some(_lock) = lock(id) else { continue };
            let done = self.links.follow_settings(id, layer, following);
            failures.extend(done.err().map(|error| error.context(format!("changing {id}"))));
        }
        all_of(failures)
    }

    /// From where the ports of its next containers are reached.
    fn with_reach(&self, mut network: Network) -> Network {
        if let Some(reach) = network.settings.reach {
            let usual = || Publish::new(self.host.backend());
            let publish = network.wiring.publish.take().unwrap_or_else(usual);
            let is_usual = reach == Reach::default();
            network.wiring.publish = (!is_usual).then_some(Publish { reach, ..publish });
        }
        network
    }

    fn refuse_settings(&self, network: &Network, settings: &Settings) -> Result<()> {
        if !network.stage.is_whole() {
            return Err(Error::unsupported(format!(
                "network {} is a template, or half made: `spoke network rm` it and make it again",
                network.name
            )));
        }
        if let Some(mtu) = settings.mtu {
            refuse_mtu(network, mtu.bytes())?;
        }
        match settings.reach {
            Some(reach) => self.refuse_reach(network, reach),
            None => Ok(()),
        }
    }

    /// Refuses a way that the network, or what others made of it, would lead past.
    fn refuse_way(&self, network: &Network) -> Result<()> {
        network.refuse_via()?;
        let Some(via) = &network.wiring.via else { return Ok(()) };
        let aliases = self.records.aliases_of(&network.name)?;
        if let Some(alias) = aliases.iter().find(|alias| alias.publisher == Publisher::Runtime) {
            return Err(Error::unsupported(format!(
                "--via {via}: network {}: {}'s own bridge, which publishes its ports, would lead past the way; \
                 make the network without -o ports=docker",
                network.called(),
                alias.runtime
            )));
        }
        self.records.refuse_own_container(network)?;
        self.addresses.refuse_rivals(network)?;
        self.driver.refuse_way(network)
    }

    fn refuse_reach(&self, network: &Network, reach: Reach) -> Result<()> {
        let unsupported = |why: &str| {
            Err(Error::unsupported(format!("--publish: network {}: {why}", network.name)))
        };
        let wiring = &network.wiring;
        if wiring.is_internal() || wiring.address_space.is_some() {
            return unsupported("no port of this host leads to its containers");
        }
        if !wiring.link.as_ref().is_some_and(|link| link.kind.has_ports()) {
            return unsupported("its containers are reached past this host's packet filter");
        }
        if self.host.backend() == Backend::Iptables && reach != Reach::Any {
            return unsupported("ports for the LAN or this host only need the nftables back end");
        }
        let aliases = self.records.aliases_of(&network.name)?;
        match aliases.iter().find(|alias| alias.publisher != Publisher::Spoke) {
            Some(alias) => Err(Error::unsupported(format!(
                "--publish: {} publishes the ports of network {} itself, or none: say at each port of a \
                 container from where it is reached (-p 127.0.0.1:8080:80)",
                alias.runtime, network.name
            ))),
            None => Ok(()),
        }
    }
}

fn refuse_mtu(network: &Network, mtu: u32) -> Result<()> {
    let name = &network.name;
    let unsupported = |why: &str| Err(Error::unsupported(format!("--mtu: network {name}: {why}")));
    match network.wiring.link.as_ref().map(|link| &link.kind) {
        Some(LinkKind::Bridge(_) | LinkKind::Ptp(_)) => {}
        Some(LinkKind::Macvlan(_) | LinkKind::Ipvlan(_)) => {
            return unsupported(
                "its containers are on a segment of others, and have the MTU of the parent device: \
                 make another network with `spoke network create --mtu`",
            );
        }
        Some(LinkKind::Neutron(_)) => {
            return unsupported("Neutron says its MTU: `openstack network set --mtu`");
        }
        Some(_) | None => {
            return unsupported(
                "what makes its links chose their MTU: change that there, and connect its containers \
                 anew",
            );
        }
    }
    if mtu < LEAST_V6 && network.ipam.families().contains(&Family::V6) {
        return Err(Error::invalid(format!(
            "--mtu {mtu}: network {name} has IPv6 addresses, for which {LEAST_V6} is least"
        )));
    }
    Ok(())
}

/// A network whose runtime describes it with each call: what a command set would be undone by the next
/// one.
fn described(network: &Network) -> Error {
    let name = &network.name;
    let instead = match network.runtime {
        Runtime::Podman => {
            "Podman keeps its options and sends them with each container: make another network with \
             `podman network create -d spoke -o mtu=…` and connect the containers to it with \
             `podman network connect`"
        }
        _ => {
            "change its configuration file, such as \"mtu\" in /etc/cni/net.d; containers that start \
             afterwards have it"
        }
    };
    Error::unsupported(format!(
        "network {name} is described by its runtime ({}) and not by Spoke's book: {instead}. A network of \
         `spoke network create` that it joins (network=NAME) can change",
        network.runtime
    ))
}
