//! Metrics of the traffic of containers, read from the kernel at each request.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use linux::filter::counted::{self, Counted};
use linux::identity::Identity;
use linux::meter::{self, Meter};
use model::{Attachment, Result};
use netlink::{Counters, Socket};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use traffic::rate::sum;

/// More containers on networks than this are left out, and counted. Each has six lines.
const MOST: usize = 5_000;

/// The counters of every container on every network. Two interfaces of one container on one network are
/// one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    by_container: BTreeMap<Key, Counters>,
    /// Of published ports, by the container's key and the port.
    by_port: BTreeMap<(Key, String), Counted>,
    /// Bytes that may pass in a period, and that have.
    quotas: BTreeMap<Key, (u64, u64)>,
    omitted: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    runtime: String,
    network: String,
    container: String,
}

impl Key {
    fn labels(&self) -> [(&str, &str); 3] {
        [
            ("runtime", self.runtime.as_str()),
            ("network", self.network.as_str()),
            ("container", self.container.as_str()),
        ]
    }
}

impl Traffic {
    /// What the kernel says now.
    ///
    /// # Errors
    /// As [`Meter::new`] and [`Meter::read`].
    pub(crate) fn read(attachments: &[Attachment]) -> Result<Self> {
        let links = meter::links(attachments);
        let counted = Meter::new(&links)?.read()?;
        let each = links.iter().zip(counted);
        let each = each.filter_map(|(link, counters)| Some((key(link), counters?)));
        Ok(Self { by_port: ports(&meter::published(attachments)), ..Self::of(each, MOST) })
    }

    /// Adds a container's quota, and what of it is used.
    pub(crate) fn add_quota(&mut self, record: &Attachment, bytes: u64, used: u64) {
        self.add_quota_of(key(record), (bytes, used), MOST);
    }

    /// One that is left out has as many before it, and is counted where its counters are left out.
    fn add_quota_of(&mut self, key: Key, (bytes, used): (u64, u64), most: usize) {
        if self.quotas.len() >= most && !self.quotas.contains_key(&key) {
            return;
        }
        let held = self.quotas.entry(key).or_default();
        *held = (held.0.saturating_add(bytes), held.1.saturating_add(used));
    }

    fn of(each: impl Iterator<Item = (Key, Counters)>, most: usize) -> Self {
        let mut traffic = Self::default();
        for (key, counters) in each {
            let is_known = traffic.by_container.contains_key(&key);
            if !is_known && traffic.by_container.len() == most {
                traffic.omitted += 1;
                continue;
            }
            let held = traffic.by_container.entry(key).or_default();
            *held = sum(*held, counters);
        }
        traffic
    }
}

/// Those of published ports, at most so many. A kernel without nftables has none.
fn ports(records: &[&Attachment]) -> BTreeMap<(Key, String), Counted> {
    let all = Socket::netfilter().and_then(|mut socket| counted::read(&mut socket));
    let digits: HashMap<String, &Attachment> =
        records.iter().map(|record| (Identity::of(&record.id).digits(), *record)).collect();
    let own = all.unwrap_or_default().into_iter().filter_map(|counted| {
        let port = format!("{}/{}", counted.port, counted.protocol);
        Some(((key(digits.get(&counted.digits)?), port), counted))
    });
    own.take(MOST).collect()
}

fn key(record: &Attachment) -> Key {
    Key {
        runtime: record.runtime.to_string(),
        network: record.network().to_string(),
        container: record.container_name(),
    }
}

type CounterField = fn(Counters) -> u64;

/// The families: name, help, and which number of the counters.
fn families() -> [(&'static str, &'static str, CounterField); 6] {
    [
        ("container_receive_bytes", "Bytes that containers received", |it| it.receive.bytes),
        ("container_receive_packets", "Packets that containers received", |it| it.receive.packets),
        ("container_receive_drops", "Packets to containers, dropped at their link", |it| {
            it.receive.drops
        }),
        ("container_transmit_bytes", "Bytes that containers sent", |it| it.transmit.bytes),
        ("container_transmit_packets", "Packets that containers sent", |it| it.transmit.packets),
        ("container_transmit_drops", "Packets of containers, dropped at their link", |it| {
            it.transmit.drops
        }),
    ]
}

type PortPart = fn(&Counted) -> u64;

fn port_families() -> [(&'static str, &'static str, PortPart); 4] {
    [
        ("port_receive_bytes", "Bytes that came by published ports", |it| it.received.1),
        ("port_receive_packets", "Packets that came by published ports", |it| it.received.0),
        ("port_transmit_bytes", "Bytes of answers by published ports", |it| it.sent.1),
        ("port_transmit_packets", "Packets of answers by published ports", |it| it.sent.0),
    ]
}

impl Collector for Traffic {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for (name, help, part) in families() {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (key, counters) in &self.by_container {
                let counter = ConstCounter::new(part(*counters));
                counter.encode(family.encode_family(&key.labels())?)?;
            }
        }
        for (name, help, part) in port_families() {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for ((key, port), counted) in &self.by_port {
                let [runtime, network, container] = key.labels();
                let labels = [runtime, network, container, ("port", port.as_str())];
                ConstCounter::new(part(counted)).encode(family.encode_family(&labels)?)?;
            }
        }
        for (name, help, is_used) in [
            ("quota_bytes", "Bytes that containers may carry in a period", false),
            ("quota_used_bytes", "Bytes of it that are used", true),
        ] {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (key, (bytes, used)) in &self.quotas {
                let value = i64::try_from(if is_used { *used } else { *bytes });
                let gauge = ConstGauge::new(value.unwrap_or(i64::MAX));
                gauge.encode(family.encode_family(&key.labels())?)?;
            }
        }
        let help = "Containers whose counters are left out, because there are too many";
        let omitted = ConstGauge::new(i64::try_from(self.omitted).unwrap_or(i64::MAX));
        let name = "containers_omitted";
        omitted.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    use netlink::Count;

    use super::*;

    fn key(container: &str) -> Key {
        let (runtime, network) = ("docker".to_owned(), "front".to_owned());
        Key { runtime, network, container: container.to_owned() }
    }

    fn received(bytes: u64) -> Counters {
        Counters { receive: Count { bytes, ..Count::default() }, ..Counters::default() }
    }

    #[test]
    fn names_of_others_stay_inside_their_quotes() {
        let hostile = "x\"} 1\nspoke_up 1\\";
        let all = [(key("a"), received(1)), (key("a"), received(2)), (key(hostile), received(7))];
        let mut registry = Registry::with_prefix("spoke");
        registry.register_collector(Box::new(Traffic::of(all.into_iter(), 9)));
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let labels = r#"runtime="docker",network="front""#;
        for line in [
            format!(r#"spoke_container_receive_bytes_total{{{labels},container="a"}} 3"#),
            format!(
                r#"spoke_container_receive_bytes_total{{{labels},container="x\"}} 1\nspoke_up 1\\"}} 7"#
            ),
            "spoke_containers_omitted 0".to_owned(),
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n---\n{text}");
        }
        assert!(!text.lines().any(|line| line.starts_with("spoke_up")), "{text}");
    }

    #[test]
    fn quotas_of_two_interfaces_are_one() {
        let mut traffic = Traffic::default();
        for (name, used) in [("a", 1), ("b", 2), ("a", 4), ("c", 8), ("a", u64::MAX)] {
            traffic.add_quota_of(key(name), (10, used), 2);
        }
        let held = [(key("a"), (30, u64::MAX)), (key("b"), (10, 2))];
        assert_eq!(traffic.quotas, BTreeMap::from(held));
    }

    #[test]
    fn too_many_are_left_out_and_counted() {
        let all = ["a", "b", "c", "a", "d"].map(|name| (key(name), received(1)));
        let traffic = Traffic::of(all.into_iter(), 2);
        assert_eq!((traffic.by_container.len(), traffic.omitted), (2, 2));
        assert_eq!(traffic.by_container[&key("a")], received(2));
    }
}
