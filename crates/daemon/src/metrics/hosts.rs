//! The figures of a cluster of hosts, as this one sees them. A host of no cluster has none.

use host::cluster_health::Certificate;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::{Labels, Metrics, set};

/// How it is among the hosts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HostFigures {
    /// Hosts that take containers.
    pub(crate) up: usize,
    /// Hosts that take no more.
    pub(crate) draining: usize,
    /// Hosts whose daemon does not renew its lease.
    pub(crate) lost: usize,
    /// Hosts from which this one keeps its containers apart.
    pub(crate) isolated: usize,
    /// Networks of the cluster.
    pub(crate) networks: usize,
    /// What does not work on this host.
    pub(crate) failures: usize,
    /// Records of etcd that are not used.
    pub(crate) refused: usize,
    /// Whether the cluster is heard of.
    pub(crate) is_heard: bool,
}

/// The gauges.
#[derive(Clone, Debug, Default)]
pub(super) struct Hosts {
    members: Family<Labels, Gauge>,
    others: [Family<Labels, Gauge>; 5],
    pub(super) certificates: Family<Labels, Gauge>,
    etcd: Family<Labels, Gauge>,
}

/// Each of the others, and what it says.
const OTHERS: [(&str, &str); 5] = [
    ("host_cluster_heard", "Whether etcd answers"),
    (
        "host_isolated",
        "Hosts from which containers are kept apart, because they may have their addresses",
    ),
    ("host_networks", "Networks of the cluster"),
    ("host_failures", "What does not work with other hosts"),
    ("host_records_refused", "Records of etcd that are not used"),
];

impl Hosts {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let new = Self::default();
        registry.register("host_members", "Hosts of the cluster, by state", new.members.clone());
        for ((name, help), family) in OTHERS.into_iter().zip(&new.others) {
            registry.register(name, help, family.clone());
        }
        registry.register(
            "host_certificate_end_seconds",
            "When a certificate of this host in its cluster ends, in seconds since 1970",
            new.certificates.clone(),
        );
        registry.register(
            "host_etcd_up",
            "Whether this host's server of the cluster's etcd takes connections",
            new.etcd.clone(),
        );
        new
    }
}

impl Metrics {
    /// How it is among the hosts now.
    pub(crate) fn hosts(&self, figures: &HostFigures) {
        let states = [("up", figures.up), ("draining", figures.draining), ("lost", figures.lost)];
        for (state, count) in states {
            let labels = vec![("state", state.to_owned())];
            set(&self.hosts.members, &labels, u64::try_from(count).unwrap_or(u64::MAX));
        }
        let values = [
            usize::from(figures.is_heard),
            figures.isolated,
            figures.networks,
            figures.failures,
            figures.refused,
        ];
        for (family, value) in self.hosts.others.iter().zip(values) {
            set(family, &Vec::new(), u64::try_from(value).unwrap_or(u64::MAX));
        }
    }

    /// How its certificates and its server of etcd are; `None`: it has none.
    pub(crate) fn standing(&self, certificates: &[Certificate], etcd: Option<bool>) {
        self.hosts.certificates.clear();
        for certificate in certificates {
            let labels = vec![("certificate", certificate.of.to_owned())];
            set(&self.hosts.certificates, &labels, certificate.end().0);
        }
        match etcd {
            Some(serves) => set(&self.hosts.etcd, &Vec::new(), u64::from(serves)),
            None => self.hosts.etcd.clear(),
        }
    }

    /// This host is in no cluster any more.
    pub(crate) fn no_hosts(&self) {
        self.hosts.members.clear();
        self.hosts.others.iter().for_each(Family::clear);
    }
}
