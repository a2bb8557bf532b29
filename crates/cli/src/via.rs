//! The way out of a network, as commands show it.

use linux::way::{self, Candidate, Hop, WayOut};
use model::{Attachment, Family, Network, Runtime, Via};
use netlink::Socket;
use netlink::sysctl::{self, Parameter};
use serde::Serialize;

use crate::check::Check;

/// The way out of a network, where it has one of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ViaView {
    /// As it was given.
    pub(crate) way: String,
    /// How IPv4 leaves, or why it does not.
    pub(crate) ipv4: String,
    /// The same of IPv6.
    pub(crate) ipv6: String,
    /// Whether packets of either family leave.
    pub(crate) leads: bool,
    /// Whether everything is there that holds packets to the way.
    pub(crate) held: bool,
    /// The largest packet that leaves by it, in bytes.
    pub(crate) mtu: Option<u32>,
    /// The routing table, which is also the mark of what this host asks for the network.
    pub(crate) table: u32,
}

impl ViaView {
    /// Of a network, with the attachments of all. `None` where it has no way of its own.
    pub(crate) fn of(network: &Network, attachments: &[Attachment]) -> Option<Self> {
        let table = model::way_table(&network.wiring.link.as_ref()?.kind.bridge()?.name);
        let given = network.wiring.via.as_ref()?;
        let mut view = Self {
            way: given.to_string(),
            ipv4: String::new(),
            ipv6: String::new(),
            leads: false,
            held: false,
            mtu: None,
            table,
        };
        if let Err(error) = view.ask(network, attachments) {
            let unknown = format!("not known: {error}");
            (view.ipv4, view.ipv6) = (unknown.clone(), unknown);
        }
        Some(view)
    }

    fn ask(&mut self, network: &Network, attachments: &[Attachment]) -> model::Result<()> {
        let Some(way) = WayOut::of_network(network)? else { return Ok(()) };
        let candidates: Vec<Candidate> = attachments.iter().filter_map(Candidate::of).collect();
        let hops = way::find(&way, way.peer(candidates.iter()))?;
        let shown = |family| match hops.why(family) {
            Ok(hop) => leads(hop),
            Err(why) => format!("nothing leaves: {why}"),
        };
        (self.ipv4, self.ipv6) = (shown(Family::V4), shown(Family::V6));
        self.leads = hops.all().next().is_some();
        self.mtu = hops.all().map(|(_, hop)| hop.mtu).min();
        self.held = way::is_kept(&mut Socket::netfilter()?, &way, &hops)?;
        Ok(())
    }

    /// Whether nothing leaves by it.
    pub(crate) fn is_missing(&self) -> bool {
        !self.leads
    }

    /// In a word, for a column.
    pub(crate) fn short(&self) -> String {
        match self.leads {
            true => self.way.clone(),
            false => format!("{} (missing)", self.way),
        }
    }
}

fn leads(hop: &Hop) -> String {
    match hop.gateway {
        Some(gateway) => format!("by {gateway} on {}", hop.device),
        None => format!("by {}", hop.device),
    }
}

/// What is wrong with the ways out of networks.
pub(crate) fn checks(networks: &[Network], attachments: &[Attachment], start: &str) -> Vec<Check> {
    let mut checks = Vec::new();
    for network in networks {
        let Some(view) = ViaView::of(network, attachments) else { continue };
        let name = network.called();
        if !view.leads {
            let what = format!(
                "no packet leaves network {name}, whose way is {}: {}",
                view.way, view.ipv4
            );
            checks.push(Check::fail(what, mended(network, &view.way)));
        } else if !view.held {
            let what =
                format!("network {name} is not held to its way {}, or not led there", view.way);
            checks.push(Check::fail(what, start));
        } else {
            checks.push(Check::ok(format!("network {name} leaves by {} only", view.way)));
        }
        checks.extend(strict(network));
    }
    checks
}

/// What has packets leave such a network again. A runtime that describes its network with each container would undo what
/// a command set.
fn mended(network: &Network, way: &str) -> String {
    let first = match &network.wiring.via {
        Some(Via::Device(_)) => format!("bring {way} up"),
        Some(Via::Gateways(_)) => format!("see that {way} is a neighbour of this host"),
        _ => format!("start {way}"),
    };
    let name = network.in_commands();
    match network.runtime {
        Runtime::Spoke | Runtime::Docker => {
            format!("{first}, or give it another way: spoke network set --via WAY {name}")
        }
        Runtime::Podman | Runtime::Cni | Runtime::Reference | Runtime::Kurma => {
            format!("{first}, or give the network another way where its runtime describes it")
        }
    }
}

/// Answers come in by a device that the host itself does not use for their senders.
fn strict(network: &Network) -> Option<Check> {
    let model::Via::Device(device) = network.wiring.via.as_ref()? else { return None };
    let mode = |name: &str| sysctl::read(Parameter::rp_filter(name).path()).ok();
    let is_strict = |name: &str| mode(name).is_some_and(|mode| mode.trim() == "1");
    let is_loose = mode(device.as_str()).is_none_or(|mode| mode.trim() == "2");
    if is_loose || !(is_strict("all") || is_strict(device.as_str())) {
        return None;
    }
    let what = format!(
        "rp_filter is strict on {device}: answers to network {} are dropped, unless the host itself leaves \
         by {device}",
        network.called()
    );
    Some(Check::warn(what, Parameter::rp_filter(device.as_str()).command("2")))
}
