//! `spoke_egress_denied_total`: what fences refuse, which is counted where it is refused.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;

use crate::fence::Counts;

/// Reads the counters.
#[derive(Debug)]
pub(super) struct Refused(pub(super) Arc<Counts>);

impl Collector for Refused {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "Refused for names, by what became of them";
        let mut family =
            encoder.encode_descriptor("egress_denied", help, None, MetricType::Counter)?;
        let outcome = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        // What `spoke denied` calls `name-refused`, `address-dropped`, `packet-dropped` and `learned`.
        let counters = [
            ("name", &self.0.names),
            ("address", &self.0.addresses),
            ("packet", &self.0.packets),
            ("learned", &self.0.learned),
        ];
        for (what, counter) in counters {
            let counter = ConstCounter::new(outcome(counter));
            let labels = [("what", what)];
            counter.encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}
