//! The limits on the traffic of a container.

use model::{Attachment, Bandwidth};
use serde::Serialize;

/// In bits per second; null: unlimited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct RatesView {
    /// What it may receive.
    ingress: Option<u64>,
    /// What it may send.
    egress: Option<u64>,
}

/// In both directions together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct QuotaView {
    bytes: u64,
    /// `day`, `week` or `month`.
    period: String,
}

pub(super) fn rates(layers: &[&Attachment]) -> Option<RatesView> {
    let limits = all(layers).find(|it| it.has_rates())?;
    let rate = |rate: Option<model::Rate>| rate.map(|rate| rate.rate);
    Some(RatesView { ingress: rate(limits.ingress), egress: rate(limits.egress) })
}

pub(super) fn quota(layers: &[&Attachment]) -> Option<QuotaView> {
    let quota = all(layers).find_map(|limits| limits.quota)?;
    Some(QuotaView { bytes: quota.bytes, period: quota.period.to_string() })
}

/// Of a chain of plugins another layer than the link's has the limits.
fn all<'a>(layers: &'a [&'a Attachment]) -> impl Iterator<Item = &'a Bandwidth> {
    layers.iter().filter_map(|layer| layer.wiring.bandwidth.as_ref())
}
