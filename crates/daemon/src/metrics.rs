//! Metrics for Prometheus. What only the daemon sees is counted when it happens; what is in the
//! store is counted at each request, so that it cannot be wrong.

#[cfg(test)]
mod documented;
mod fence;
mod hosts;
mod names;
mod traffic;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use engine::Engine;
use host::event::What;
use host::views::PoolUse;
use model::{Attachment, Error, Network, ResourceId, Result};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::fence::Counts;
pub(crate) use hosts::HostFigures;
pub(crate) use traffic::Traffic;

/// Upper bounds of the buckets of durations, in seconds: around what a call costs, and around
/// the fifteen seconds after which Docker gives up.
const BUCKETS: [f64; 12] =
    [0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0];

type Labels = Vec<(&'static str, String)>;

/// Makes a histogram for each set of labels.
#[derive(Clone, Copy, Debug)]
struct Buckets;

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(BUCKETS)
    }
}

/// The counters.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    operations: Family<Labels, Counter>,
    durations: Family<Labels, Histogram, Buckets>,
    findings: Family<Labels, Counter>,
    heals: Counter,
    clashes: Gauge,
    events: Family<Labels, Counter>,
    neutron: Neutron,
    pending: Gauge,
    settled: Counter,
    plugins: Family<Labels, Gauge>,
    names: Arc<::names::Counters>,
    fence: Arc<Counts>,
    hosts: hosts::Hosts,
}

/// The counters of a cloud.
#[derive(Debug)]
struct Neutron {
    calls: Family<Labels, Counter>,
    durations: Family<Labels, Histogram, Buckets>,
    stock: Family<Labels, Gauge>,
    stocked: Family<Labels, Counter>,
    orphans: Gauge,
}

/// The state of the store at a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct StoreState {
    /// Every network.
    pub(crate) networks: Vec<Network>,
    /// Every record of every attachment.
    pub(crate) attachments: Vec<Attachment>,
    /// How full each pool is.
    pub(crate) pools: Vec<PoolUse>,
    /// How many host ports are taken.
    pub(crate) ports: usize,
    /// What containers have received and sent.
    pub(crate) traffic: Traffic,
}

impl StoreState {
    /// The present state, with the pools as commands show them.
    ///
    /// # Errors
    /// Where the store cannot be read.
    pub(crate) fn read(
        engine: &Engine,
        pools: fn(&Engine, &[Network]) -> Result<Vec<PoolUse>>,
    ) -> Result<Self> {
        let (networks, attachments) = (engine.records.networks()?, engine.records.attachments()?);
        // Without the kernel's counters the others are right.
        let mut traffic = Traffic::read(&attachments).unwrap_or_default();
        for record in &attachments {
            if let (Some(quota), Ok(Some(used))) = (record.quota(), engine.links.used_of(record)) {
                traffic.add_quota(record, quota.bytes, used);
            }
        }
        let pools = pools(engine, &networks)?;
        Ok(Self { pools, attachments, ports: engine.records.ports()?.len(), networks, traffic })
    }
}

impl Metrics {
    /// Nothing has happened yet.
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix("spoke");
        let operations = Family::default();
        let durations = Family::new_with_constructor(Buckets);
        let (findings, events) = (Family::default(), Family::default());
        let (heals, clashes) = (Counter::default(), Gauge::default());
        let build = Family::<Labels, Gauge>::default();
        build.get_or_create(&vec![("version", env!("CARGO_PKG_VERSION").to_owned())]).set(1);
        registry.register("build_info", "The version that runs", build);
        registry.register("operations", "Calls of runtimes, by how they went", operations.clone());
        registry.register(
            "operation_seconds",
            "How long calls took, in seconds",
            durations.clone(),
        );
        registry.register(
            "findings",
            "Objects without an owner that were found, by kind and remedy",
            findings.clone(),
        );
        registry.register("heals", "Repairs of the packet filter", heals.clone());
        registry.register("clashes", "Pairs of networks with the same addresses", clashes.clone());
        registry.register("events", "Events, by kind", events.clone());
        let neutron = Neutron::new(&mut registry);
        let hosts = hosts::Hosts::new(&mut registry);
        let (pending, settled) = (Gauge::default(), Counter::default());
        registry.register(
            "remote_cleanups_pending",
            "Cleanup calls to Docker plugins that have not got through",
            pending.clone(),
        );
        registry.register(
            "remote_cleanups_done",
            "Such calls that got through later",
            settled.clone(),
        );
        let plugins = Family::default();
        registry.register(
            "kurma_plugin_up",
            "Whether its plugin runs, by network",
            plugins.clone(),
        );
        let names = Arc::<::names::Counters>::default();
        registry.register_collector(Box::new(names::Queries(Arc::clone(&names))));
        let fence = Arc::<Counts>::default();
        registry.register_collector(Box::new(fence::Refused(Arc::clone(&fence))));
        Self {
            registry,
            operations,
            durations,
            findings,
            heals,
            clashes,
            events,
            neutron,
            pending,
            settled,
            plugins,
            names,
            fence,
            hosts,
        }
    }

    /// What becomes of queries for names.
    pub(super) fn names(&self) -> Arc<::names::Counters> {
        Arc::clone(&self.names)
    }

    /// What fences refuse.
    pub(super) fn fence(&self) -> Arc<Counts> {
        Arc::clone(&self.fence)
    }

    /// Neutron answered a request, or did not.
    pub(crate) fn neutron(&self, verb: &str, collection: &str, result: &str, took: Duration) {
        let which = vec![("verb", verb.to_owned()), ("collection", collection.to_owned())];
        self.neutron.durations.get_or_create(&which).observe(took.as_secs_f64());
        let mut how = which;
        how.push(("result", result.to_owned()));
        self.neutron.calls.get_or_create(&how).inc();
    }

    /// So many ports of each network are ready.
    pub(crate) fn stock(&self, levels: &BTreeMap<ResourceId, usize>) {
        self.neutron.stock.clear();
        for (network, level) in levels {
            let labels = vec![("network", network.to_string())];
            set(&self.neutron.stock, &labels, u64::try_from(*level).unwrap_or(u64::MAX));
        }
    }

    /// So many ports of the stock were made, or made like new, or deleted.
    pub(crate) fn stocked(&self, what: &'static str, count: usize) {
        let labels = vec![("what", what.to_owned())];
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        self.neutron.stocked.get_or_create(&labels).inc_by(count);
    }

    /// The number of Neutron's resources without an owner.
    pub(crate) fn orphans(&self, count: usize) {
        self.neutron.orphans.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// The number of pending calls to Docker plugins.
    pub(crate) fn pending(&self, count: usize) {
        self.pending.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// So many of them were made now.
    pub(crate) fn settled(&self, count: usize) {
        self.settled.inc_by(u64::try_from(count).unwrap_or(u64::MAX));
    }

    /// A call was answered.
    pub(crate) fn operation(
        &self,
        frontend: &'static str,
        operation: &str,
        result: &str,
        took: Duration,
    ) {
        let which = vec![("frontend", frontend.to_owned()), ("operation", operation.to_owned())];
        self.durations.get_or_create(&which).observe(took.as_secs_f64());
        let mut how = which;
        how.push(("result", result.to_owned()));
        self.operations.get_or_create(&how).inc();
    }

    /// The reconciler found something.
    pub(crate) fn finding(&self, kind: &str, remedy: &str) {
        let labels = vec![("kind", kind.to_owned()), ("remedy", remedy.to_owned())];
        self.findings.get_or_create(&labels).inc();
    }

    /// The packet filter was restored.
    pub(crate) fn heal(&self) {
        self.heals.inc();
    }

    /// So many pairs of networks have the same addresses now.
    pub(crate) fn clashes(&self, pairs: usize) {
        self.clashes.set(i64::try_from(pairs).unwrap_or(i64::MAX));
    }

    /// Something happened.
    pub(crate) fn event(&self, what: What) {
        self.events.get_or_create(&vec![("event", what.name())]).inc();
    }

    /// The plugin of a network of Kurma's was seen to run, or not to.
    pub(crate) fn plugin(&self, network: &str, is_up: bool) {
        let labels = vec![("network", network.to_owned())];
        self.plugins.get_or_create(&labels).set(i64::from(is_up));
    }

    /// Everything, as Prometheus reads it (OpenMetrics 1.0.0).
    pub(crate) fn text(&self, book: &StoreState) -> Result<String> {
        let failed = |cause| Error::bug("writing figures").because(cause);
        let mut text = String::new();
        encode(&mut text, &registry_of(book)).map_err(failed)?;
        // The end mark of the first part would hide the second.
        let end = text.strip_suffix("# EOF\n").map_or(text.len(), str::len);
        text.truncate(end);
        encode(&mut text, &self.registry).map_err(failed)?;
        Ok(text)
    }
}

impl Neutron {
    fn new(registry: &mut Registry) -> Self {
        let new = Self {
            calls: Family::default(),
            durations: Family::new_with_constructor(Buckets),
            stock: Family::default(),
            stocked: Family::default(),
            orphans: Gauge::default(),
        };
        registry.register(
            "neutron_calls",
            "Requests to Neutron, by how they went",
            new.calls.clone(),
        );
        let durations = new.durations.clone();
        registry.register("neutron_call_seconds", "How long they took, in seconds", durations);
        registry.register("neutron_stock", "Ports that are ready, by network", new.stock.clone());
        let stocked = new.stocked.clone();
        let help = "Ports made ahead of need, by what was done";
        registry.register("neutron_stock_changes", help, stocked);
        let orphans = new.orphans.clone();
        let help = "Neutron ports of this host without an owner";
        registry.register("neutron_orphans", help, orphans);
        new
    }
}

/// The counters from the store.
fn registry_of(book: &StoreState) -> Registry {
    let mut registry = Registry::with_prefix("spoke");
    let (used, free) = (Family::default(), Family::default());
    for pool in &book.pools {
        let labels: Labels = vec![("network", pool.network.clone()), ("pool", pool.pool.clone())];
        set(&used, &labels, pool.used);
        set(&free, &labels, pool.free);
    }
    registry.register("pool_used", "Addresses of the pool that are held", used);
    registry.register("pool_free", "Addresses of the pool that can be allocated", free);
    let attachments = Family::default();
    for (runtime, count) in by_runtime(&book.attachments) {
        set(&attachments, &vec![("runtime", runtime)], count);
    }
    registry.register("attachments", "Interfaces of containers, by runtime", attachments);
    let single = |value: usize| {
        let gauge: Gauge = Gauge::default();
        gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        gauge
    };
    registry.register("networks", "Networks that are known", single(book.networks.len()));
    registry.register("ports", "Ports of the host that are published", single(book.ports));
    registry.register_collector(Box::new(book.traffic.clone()));
    registry
}

fn set(family: &Family<Labels, Gauge>, labels: &Labels, value: u64) {
    family.get_or_create(labels).set(i64::try_from(value).unwrap_or(i64::MAX));
}

/// Attachments, however many records each has.
fn by_runtime(attachments: &[Attachment]) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for layers in attachments.chunk_by(|one, other| one.id == other.id) {
        *counts.entry(layers[0].runtime.to_string()).or_default() += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_reads() {
        let metrics = Metrics::new();
        metrics.operation("docker", "Join", "ok", Duration::from_millis(3));
        metrics.operation("docker", "Join", "conflict", Duration::from_secs(60));
        metrics.finding("attachment", "free");
        metrics.heal();
        metrics.clashes(2);
        metrics.neutron("POST", "ports", "409", Duration::from_millis(300));
        metrics.stock(&BTreeMap::from([("gone".parse().unwrap(), 1)]));
        metrics.stock(&BTreeMap::from([("n".parse().unwrap(), 5)]));
        metrics.stocked("made", 7);
        metrics.orphans(3);
        metrics.plugin("mynet", true);
        let pool = PoolUse { network: "n".into(), pool: "10.0.0.0/24".into(), used: 3, free: 250 };
        let text =
            metrics.text(&StoreState { pools: vec![pool], ..StoreState::default() }).unwrap();
        for line in [
            r#"spoke_operations_total{frontend="docker",operation="Join",result="ok"} 1"#,
            r#"spoke_operation_seconds_count{frontend="docker",operation="Join"} 2"#,
            r#"spoke_operation_seconds_bucket{le="0.005",frontend="docker",operation="Join"} 1"#,
            r#"spoke_findings_total{kind="attachment",remedy="free"} 1"#,
            "spoke_heals_total 1",
            "spoke_clashes 2",
            r#"spoke_pool_free{network="n",pool="10.0.0.0/24"} 250"#,
            "spoke_networks 0",
            r#"spoke_neutron_calls_total{verb="POST",collection="ports",result="409"} 1"#,
            r#"spoke_neutron_call_seconds_count{verb="POST",collection="ports"} 1"#,
            r#"spoke_neutron_stock{network="n"} 5"#,
            r#"spoke_neutron_stock_changes_total{what="made"} 7"#,
            "spoke_neutron_orphans 3",
            r#"spoke_kurma_plugin_up{network="mynet"} 1"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n---\n{text}");
        }
        assert!(!text.contains("gone") && text.matches("# EOF").count() == 1);
        assert!(text.ends_with("# EOF\n"));
        let mut types: Vec<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
            .collect();
        let count = types.len();
        types.sort_unstable();
        types.dedup();
        assert_eq!(types.len(), count, "a name has two types:\n{text}");
    }
}
