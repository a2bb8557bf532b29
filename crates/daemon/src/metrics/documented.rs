//! The page of metrics has what the daemon answers, with its type, and nothing else.

use std::collections::BTreeSet;

use model::{Layer, Phase, Runtime, Timestamp};

use super::*;

const PAGE: &str = include_str!("../../../../docs/metrics.md");

/// Each metric as its samples are called: a counter with `_total`.
fn answered() -> BTreeSet<(String, String)> {
    let metrics = Metrics::new();
    // A family without a sample is not written.
    metrics.operation("docker", "Join", "ok", Duration::ZERO);
    metrics.finding("attachment", "free");
    metrics.event(What::Started);
    metrics.neutron("POST", "ports", "409", Duration::ZERO);
    metrics.stock(&BTreeMap::from([("n".parse().unwrap(), 1)]));
    metrics.stocked("made", 1);
    metrics.plugin("mynet", true);
    metrics.hosts(&HostFigures::default());
    metrics.standing(&[], Some(true));
    metrics.hosts.certificates.get_or_create(&Labels::new()).set(1);
    let pool = PoolUse { network: "n".into(), pool: "10.0.0.0/24".into(), used: 1, free: 1 };
    let id = doubles::attachment_id("n", "c");
    let phase = Phase::Reserved;
    let attachment = Attachment::new(id, Layer::Link, Runtime::Cni, Timestamp(0), phase);
    let book =
        StoreState { pools: vec![pool], attachments: vec![attachment], ..StoreState::default() };
    let text = metrics.text(&book).unwrap();
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let called = |(name, kind): (&str, &str)| {
        let end = if kind == "counter" { "_total" } else { "" };
        (format!("{name}{end}"), kind.to_owned())
    };
    types.map(called).collect()
}

fn on_the_page() -> BTreeSet<(String, String)> {
    let rows = PAGE.lines().filter(|line| line.starts_with("| `spoke_"));
    let cells = rows.map(|row| row.split(" | ").collect::<Vec<_>>());
    let named = cells.flat_map(|cells| {
        let names: Vec<&str> = cells[0].split('`').skip(1).step_by(2).collect();
        let kind = cells[1].to_owned();
        names.into_iter().map(move |name| (name.to_owned(), kind.clone())).collect::<Vec<_>>()
    });
    named.collect()
}

#[test]
fn the_page_has_every_metric() {
    let (answered, page) = (answered(), on_the_page());
    let lacks: Vec<_> = answered.difference(&page).collect();
    let unknown: Vec<_> = page.difference(&answered).collect();
    assert!(lacks.is_empty() && unknown.is_empty(), "lacks {lacks:?}; unknown {unknown:?}");
}
