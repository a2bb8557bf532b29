//! From the store's changes to what happened: whichever process attached a container, the daemon
//! reports it.

mod unnamed;

use std::collections::{BTreeMap, BTreeSet};

use engine::port::{Key, Record};
use host::event::{Event, What};
use linux::meter;
use model::{
    Attachment, AttachmentId, Family, Handoff, IfName, Layer, Network, NetworkName, Phase, Runtime,
    Timestamp,
};
use store::Changed;

use unnamed::Unnamed;

/// What a runtime calls an interface that it names itself.
type Named = fn(&Attachment) -> Option<IfName>;

/// The attachments and networks that were reported.
#[derive(Debug)]
pub(super) struct EventLog {
    named: Named,
    /// What they are called, by their names in the book.
    networks: BTreeMap<NetworkName, ReportedNetwork>,
    attachments: BTreeMap<AttachmentId, Reported>,
    unnamed: Unnamed,
}

impl Default for EventLog {
    fn default() -> Self {
        Self::new(named_by_runtime)
    }
}

/// The reported state of a network.
#[derive(Clone, Debug)]
struct ReportedNetwork {
    called: NetworkName,
    runtime: Runtime,
    /// The network's former names.
    former: Vec<NetworkName>,
}

/// The reported state of an attachment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Reported {
    runtime: Option<Runtime>,
    /// What its network is called.
    network: Option<NetworkName>,
    name: Option<String>,
    /// What the interface is called in the container; `None` while only its runtime knows.
    interface: Option<IfName>,
    /// The layers that give it its interface or addresses and are complete.
    layers: BTreeSet<Layer>,
    addresses: Vec<String>,
    /// The ports of each layer that publishes some.
    ports: BTreeMap<Layer, Vec<String>>,
    /// Those that lead nowhere, and the family that the container lacks.
    lacking: BTreeMap<String, Family>,
}

impl EventLog {
    fn new(named: Named) -> Self {
        let (networks, attachments) = (BTreeMap::new(), BTreeMap::new());
        Self { named, networks, attachments, unnamed: Unnamed::default() }
    }

    /// Whether events wait for what a runtime calls an interface.
    pub(super) fn is_waiting(&self) -> bool {
        !self.unnamed.is_empty()
    }

    /// What waits is not reported: it happened before the daemon's start.
    pub(super) fn forget_waiting(&mut self) {
        self.unnamed.clear();
    }

    /// The events that have waited, and whose interfaces have their names.
    pub(super) fn report_waiting(&mut self) -> Vec<Event> {
        let mut all = Vec::new();
        for (id, name, events) in self.unnamed.due(self.named) {
            if let Some(known) = self.attachments.get_mut(&id) {
                known.interface = name;
            }
            all.extend(events);
        }
        all
    }

    /// The events of a change; empty where they were reported.
    pub(super) fn report(&mut self, change: &Changed, now: Timestamp) -> Vec<Event> {
        let record = change.now.as_ref().map(|versioned| &versioned.record);
        match (&change.key, record) {
            (Key::Network(_), Some(Record::Network(network))) => self.network(network, now),
            (Key::Network(name), _) => self.no_network(name, now),
            (Key::Attachment(id, layer), Some(Record::Attachment(attachment))) => {
                self.attachment(id, *layer, Some(attachment), now)
            }
            (Key::Attachment(id, layer), _) => self.attachment(id, *layer, None, now),
            _ => Vec::new(),
        }
    }

    fn network(&mut self, network: &Network, now: Timestamp) -> Vec<Event> {
        let (called, runtime) = (network.called(), network.runtime);
        let former = network.former_names().into_iter().cloned().collect();
        let known = ReportedNetwork { called: called.clone(), runtime, former };
        let Some(before) = self.networks.insert(network.name.clone(), known) else {
            let message = format!("network {called} was made");
            return vec![Event::new(What::NetworkCreated, now, message).on(called, runtime)];
        };
        let is_gone = |it: &NetworkName| it != called && network.order_of(it).is_none();
        let gone = before.former.into_iter().filter(is_gone);
        let event = |name: NetworkName| {
            let message = format!(
                "network {called} is found by the name {name} no more: it had too many names since; what says \
                 network={name} has to say {called}"
            );
            Event::new(What::NetworkNameGone, now, message).on(called, runtime)
        };
        gone.map(event).collect()
    }

    fn no_network(&mut self, name: &NetworkName, now: Timestamp) -> Vec<Event> {
        let known = self.networks.remove(name);
        let event = |ReportedNetwork { called, runtime, .. }: ReportedNetwork| {
            Event::new(What::NetworkRemoved, now, format!("network {called} was removed"))
                .on(&called, runtime)
        };
        known.map(event).into_iter().collect()
    }

    fn attachment(
        &mut self,
        id: &AttachmentId,
        layer: Layer,
        record: Option<&Attachment>,
        now: Timestamp,
    ) -> Vec<Event> {
        let before = self.attachments.get(id).cloned().unwrap_or_default();
        let mut after = before.clone();
        after.learn(layer, record, self.named);
        let events = compare(id, &before, &after, now);
        let named = (id, after.interface.as_ref());
        let events = self.unnamed.pass(named, record, events);
        match after.layers.is_empty() && after.ports.is_empty() {
            true => self.attachments.remove(id),
            false => self.attachments.insert(id.clone(), after),
        };
        events
    }
}

impl Reported {
    fn learn(&mut self, layer: Layer, record: Option<&Attachment>, named: Named) {
        let complete = record.filter(|record| matches!(record.phase, Phase::Attached(_)));
        let ports = complete.and_then(|record| record.wiring.publish.as_ref());
        let ports: Vec<String> = ports
            .map(|publish| publish.ports.iter().map(ToString::to_string).collect())
            .unwrap_or_default();
        if let Some(record) = complete {
            for map in record.published() {
                match record.lacks(map) {
                    Some(family) => self.lacking.insert(map.to_string(), family),
                    None => self.lacking.remove(&map.to_string()),
                };
            }
        }
        match ports.is_empty() {
            true => self.ports.remove(&layer),
            false => self.ports.insert(layer, ports),
        };
        if let Some(record) = complete {
            self.runtime = Some(record.runtime);
            self.network = Some(record.network().clone());
            self.name = record.owner.as_ref().map(ToString::to_string).or(self.name.take());
            self.interface = match record.handoff {
                Handoff::Finish => Some(record.id.ifname.clone()),
                Handoff::Caller => named(record).or(self.interface.take()),
            };
        }
        if !matches!(layer, Layer::Link | Layer::Address) {
            return;
        }
        match complete {
            Some(record) => {
                self.layers.insert(layer);
                self.addresses =
                    record.addresses.iter().map(|held| held.address.to_string()).collect();
            }
            None => drop(self.layers.remove(&layer)),
        }
    }

    /// A port, as people read it.
    fn shown(&self, port: &str) -> String {
        match self.lacking.get(port) {
            Some(family) => format!("{port} (leads nowhere: it has no {family} address)"),
            None => port.to_owned(),
        }
    }

    fn all_ports(&self) -> Vec<String> {
        self.ports.values().flatten().cloned().collect()
    }
}

fn compare(id: &AttachmentId, before: &Reported, after: &Reported, now: Timestamp) -> Vec<Event> {
    let reported = if after.layers.is_empty() { before } else { after };
    let network = reported.network.as_ref().unwrap_or(&id.network);
    let event = |what, message: String| Event {
        network: Some(network.to_string()),
        name: reported.name.clone(),
        runtime: reported.runtime.map(|runtime| runtime.to_string()),
        interface: reported.interface.as_ref().map(ToString::to_string),
        ..Event::new(what, now, message).to(id)
    };
    let who = reported.name.clone().unwrap_or_else(|| id.container.to_string());
    let mut events = Vec::new();
    let (had, has) = (before.all_ports(), after.all_ports());
    if has != had && has.is_empty() {
        let message = format!("{who} no longer publishes {}", had.join(", "));
        events.push(Event { ports: had, ..event(What::Unpublished, message) });
    }
    match (before.layers.is_empty(), after.layers.is_empty()) {
        (true, false) => {
            let addresses = after.addresses.clone();
            let message = format!("{who} is on network {network} with {}", addresses.join(", "));
            events.push(Event { addresses, ..event(What::Attached, message) });
        }
        (false, true) => {
            let message = format!("{who} left network {network}");
            let addresses = before.addresses.clone();
            events.push(Event { addresses, ..event(What::Detached, message) });
        }
        (true, true) | (false, false) => {}
    }
    if has != before.all_ports() && !has.is_empty() {
        let shown: Vec<String> = has.iter().map(|port| after.shown(port)).collect();
        let message = format!("{who} publishes {}", shown.join(", "));
        events.push(Event { ports: has, ..event(What::Published, message) });
    }
    events
}

/// The name that an interface has in the container, and not that with which it comes there.
fn named_by_runtime(record: &Attachment) -> Option<IfName> {
    let Phase::Attached(attached) = &record.phase else { return None };
    let is_made_so = |name: &IfName| attached.interfaces.iter().any(|it| it.name == *name);
    meter::named_by_runtime(record).filter(|name| !is_made_so(name))
}

#[cfg(test)]
mod tests {
    use engine::port::{Revision, Versioned};
    use model::Attached;

    use super::*;

    fn id() -> AttachmentId {
        doubles::attachment_id("front", "c1")
    }

    fn record(layer: Layer, phase: Phase, port: Option<u16>) -> Changed {
        let ports = port.map(|port| {
            serde_json::json!([{
                "host": null, "host_port": port, "container_port": 80, "protocol": "tcp"
            }])
        });
        let publish = ports.map(|ports| {
            serde_json::json!({
                "backend": "nftables", "ports": ports, "snat": true, "masquerade_all": false,
                "behind": null,
                "iptables": {"conditions_v4": [], "conditions_v6": [], "mark_bit": null,
                             "set_mark_chain": null},
            })
        });
        let record: Attachment = serde_json::from_value(serde_json::json!({
            "id": id(), "layer": layer, "runtime": "cni", "owner": null, "since": 1,
            "sandbox": null, "wiring": {"publish": publish}, "ipam": "none", "leases": [],
            "addresses": [{"address": "10.0.0.2/24", "gateway": null, "interface": null}],
            "routes": [], "phase": phase,
            "dns": {"nameservers": [], "domain": null, "search": [], "options": []},
        }))
        .unwrap();
        let now = Versioned { record: Record::Attachment(record.into()), revision: Revision(1) };
        Changed { key: Key::Attachment(id(), layer), now: Some(now) }
    }

    fn gone(layer: Layer) -> Changed {
        Changed { key: Key::Attachment(id(), layer), now: None }
    }

    fn reported(event_log: &mut EventLog, change: &Changed) -> Vec<String> {
        event_log.report(change, Timestamp(9)).iter().map(|event| event.event.name()).collect()
    }

    #[test]
    fn a_container_comes_and_goes() {
        let mut event_log = EventLog::default();
        let done = || Phase::Attached(Attached::default());
        assert!(reported(&mut event_log, &record(Layer::Link, Phase::Reserved, None)).is_empty());
        let events = event_log.report(&record(Layer::Link, done(), None), Timestamp(9));
        assert_eq!(events[0].message, "c1 is on network front with 10.0.0.2/24");
        assert_eq!(events[0].runtime.as_deref(), Some("cni"));
        assert!(reported(&mut event_log, &record(Layer::Link, done(), None)).is_empty());
        assert_eq!(
            reported(&mut event_log, &record(Layer::Publish, done(), Some(8080))),
            ["published"]
        );
        assert!(reported(&mut event_log, &record(Layer::Firewall, done(), None)).is_empty());
        assert_eq!(reported(&mut event_log, &gone(Layer::Publish)), ["unpublished"]);
        assert_eq!(
            reported(&mut event_log, &record(Layer::Link, Phase::Reserved, None)),
            ["detached"]
        );
        assert!(reported(&mut event_log, &gone(Layer::Link)).is_empty());
        assert!(event_log.attachments.is_empty());
    }

    fn with(mut change: Changed, edit: impl FnOnce(&mut Attachment)) -> Changed {
        if let Some(Versioned { record: Record::Attachment(record), .. }) = &mut change.now {
            edit(record);
        }
        change
    }

    /// Docker asks for `eth`, and its ports come before the interface is in the container.
    #[test]
    fn an_interface_is_called_as_its_runtime_calls_it() {
        let named: Named = |record| record.owner.as_ref().and("eth0".parse().ok());
        let dockers = |layer, port| {
            let change = record(layer, Phase::Attached(Attached::default()), port);
            with(change, |record| record.handoff = Handoff::Caller)
        };
        let shown = |events: &[Event]| -> Vec<(String, Option<String>)> {
            events.iter().map(|it| (it.event.name(), it.interface.clone())).collect()
        };
        let eth0 = |what: &str| (what.to_owned(), Some("eth0".to_owned()));
        for comes in [false, true] {
            let mut event_log = EventLog::new(named);
            assert!(reported(&mut event_log, &dockers(Layer::Link, None)).is_empty());
            assert!(reported(&mut event_log, &dockers(Layer::Publish, Some(80))).is_empty());
            assert!(event_log.is_waiting() && event_log.report_waiting().is_empty());
            if !comes {
                let events = event_log.report(&gone(Layer::Link), Timestamp(9));
                let nameless = |what: &str| (what.to_owned(), None);
                assert_eq!(shown(&events), ["attached", "published", "detached"].map(nameless));
                assert!(!event_log.is_waiting());
                continue;
            }
            let known = with(dockers(Layer::Link, None), |it| it.owner = "web".parse().ok());
            let events = event_log.report(&known, Timestamp(9));
            assert_eq!(shown(&events), ["attached", "published"].map(eth0));
            let events = event_log.report(&gone(Layer::Link), Timestamp(9));
            assert_eq!(shown(&events), [eth0("detached")]);
        }
        let mut event_log = EventLog::new(|_| None);
        assert!(reported(&mut event_log, &dockers(Layer::Link, None)).is_empty());
        event_log.named = |_| "eth0".parse().ok();
        assert_eq!(shown(&event_log.report_waiting()), [eth0("attached")]);
        let events = event_log.report(&gone(Layer::Link), Timestamp(9));
        assert_eq!(shown(&events), [eth0("detached")]);
    }

    #[test]
    fn a_former_name_that_is_too_many() {
        let mut event_log = EventLog::default();
        let mut network = Network::new(
            "front".parse().unwrap(),
            Runtime::Spoke,
            Timestamp(1),
            model::Wiring::default(),
            model::Ipam::None,
        );
        let mut events = Vec::new();
        for number in 0..=18 {
            network.entitle(format!("n{number}").parse().unwrap(), 1);
            let record = Record::Network(Box::new(network.clone()));
            let now = Versioned { record, revision: Revision(number) };
            let change = Changed { key: Key::Network(network.name.clone()), now: Some(now) };
            events.extend(event_log.report(&change, Timestamp(9)));
        }
        let reported: Vec<_> =
            events.iter().map(|it| (it.event.name(), it.network.clone())).collect();
        assert_eq!(reported[1..].len(), 2, "n0 and n1: {events:?}");
        assert_eq!(reported[1], ("network-name-gone".into(), Some("n17".into())));
        assert!(events[1].message.contains("by the name n0 no more"), "{events:?}");
    }

    #[test]
    fn one_record_for_all() {
        let mut event_log = EventLog::default();
        let all = record(Layer::Link, Phase::Attached(Attached::default()), Some(1));
        assert_eq!(reported(&mut event_log, &all), ["attached", "published"]);
        assert_eq!(reported(&mut event_log, &gone(Layer::Link)), ["unpublished", "detached"]);
    }
}
