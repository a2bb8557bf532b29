//! Figures of queries for names, which are counted where they are answered.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;

/// Reads the counters.
#[derive(Debug)]
pub(super) struct Queries(pub(super) Arc<::names::Counters>);

impl Collector for Queries {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "Queries for names, by what became of them";
        let mut family =
            encoder.encode_descriptor("names_queries", help, None, MetricType::Counter)?;
        let outcome = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        for (result, counter) in [
            ("answered", &self.0.answered),
            ("forwarded", &self.0.forwarded),
            ("refused", &self.0.refused),
            ("failed", &self.0.failed),
        ] {
            let counter = ConstCounter::new(outcome(counter));
            let labels = [("result", result)];
            counter.encode(family.encode_family(&labels)?)?;
        }
        let help = "How often containers took away what leads their queries to Spoke";
        let encoder =
            encoder.encode_descriptor("names_restored", help, None, MetricType::Counter)?;
        ConstCounter::new(outcome(&self.0.restored)).encode(encoder)
    }
}
