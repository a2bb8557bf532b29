//! The same configuration given to the reference plugins and to Spoke's, each in a fresh world:
//! exit code, result and the state of the world after every step have to be the same.
//!
//! `SPOKE_TEST_PLUGINS=reference` compares the reference with itself (the table's own proof),
//! `=previous` with the release before (what a real difference looks like), `SPOKE_TEST_ROW=text`
//! only the rows whose name contains the text.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod row;
mod run;
mod sandbox;
mod table;
mod taken;

use row::Row;
use tests::{Feature, Plugins};

/// Compares every row and tells all differences at once.
fn compare(rows: &[Row]) {
    let (reference, subject) = (Plugins::reference(), Plugins::subject());
    let wanted = std::env::var("SPOKE_TEST_ROW").unwrap_or_default();
    let mut failures = Vec::new();
    for row in rows.iter().filter(|row| row.name.contains(&wanted)) {
        let differences = run::differences(row, &reference, &subject);
        if !differences.is_empty() {
            failures.push(format!("{}\n    {}", row.name, differences.join("\n    ")));
        }
    }
    assert!(failures.is_empty(), "{} rows differ\n{}", failures.len(), failures.join("\n"));
}

/// The same for what a kernel may lack.
fn compare_with(feature: Feature, rows: &[Row]) {
    if !feature.is_missing() {
        compare(rows);
    }
}

#[test]
fn loopback() {
    compare(&table::loopback::rows());
}

#[test]
fn bridge() {
    compare(&table::bridge::rows());
}

#[test]
fn bridge_masquerade() {
    compare(&table::bridge::masquerade());
}

#[test]
fn ptp() {
    compare(&table::ptp::rows());
}

#[test]
fn host_local() {
    compare(&table::ipam::host_local());
}

#[test]
fn static_addresses() {
    compare(&table::ipam::fixed());
}

#[test]
fn portmap() {
    compare(&table::chained::portmap());
}

#[test]
fn firewall() {
    compare(&table::chained::firewall());
}

#[test]
fn tuning() {
    compare(&table::chained::tuning());
}

#[test]
fn macvlan() {
    compare(&table::macvlan::rows());
}

#[test]
fn ipvlan() {
    compare_with(Feature::Ipvlan, &table::ipvlan::rows());
}

#[test]
fn vlan() {
    compare_with(Feature::Vlan, &table::vlan::rows());
}

#[test]
fn dummy() {
    compare_with(Feature::Dummy, &table::dummy::rows());
}

#[test]
fn vrf() {
    compare_with(Feature::Vrf, &table::routing::vrf());
}

#[test]
fn refusals_that_need_no_kernel() {
    compare(&table::vlan::refusals());
    compare(&table::dummy::refusals());
    compare(&table::routing::vrf_refusals());
}

#[test]
fn host_device() {
    compare(&table::device::rows());
}

#[test]
fn tap() {
    compare(&table::tap::rows());
}

#[test]
fn bridge_ports() {
    compare(&table::ports::rows());
}

#[test]
fn bridge_vlans() {
    compare_with(Feature::BridgeVlan, &table::ports::vlans());
}

#[test]
fn bandwidth() {
    compare(&table::bandwidth::rows());
}

#[test]
fn sbr() {
    compare(&table::routing::sbr());
}

#[test]
fn dhcp() {
    compare(&table::dhcp::rows());
}

#[test]
fn delegated() {
    compare(&table::delegated::rows());
}

#[test]
fn delegated_lacking() {
    for feature in Feature::ALL {
        compare_with(feature, &table::delegated::lacking(feature));
    }
}

#[test]
fn each_ipvlan() {
    compare_with(Feature::Ipvlan, &table::each::lacking(Feature::Ipvlan));
}

#[test]
fn each_vlan() {
    compare_with(Feature::Vlan, &table::each::lacking(Feature::Vlan));
}

#[test]
fn each_dummy() {
    compare_with(Feature::Dummy, &table::each::lacking(Feature::Dummy));
}

#[test]
fn each_vrf() {
    compare_with(Feature::Vrf, &table::each::lacking(Feature::Vrf));
}

#[test]
fn versions() {
    compare(&table::protocol::versions());
}

#[test]
fn bad_input() {
    compare(&table::protocol::bad_input());
}

#[test]
fn each_version() {
    compare(&table::each::versions());
}

#[test]
fn each_deletion() {
    compare(&table::each::deletions());
}

#[test]
fn failing_checks() {
    compare(&table::each::checks());
}

#[test]
fn gc_and_status() {
    compare(&table::each::gc_and_status());
}

#[test]
fn says_host_local() {
    compare(&table::texts::host_local());
}

#[test]
fn says_fixed_addresses() {
    compare(&table::texts::fixed_addresses());
}

#[test]
fn says_pairs() {
    compare(&table::texts::pairs());
}

#[test]
fn says_parents() {
    compare(&table::texts::parents());
}

#[test]
fn says_chained() {
    compare(&table::texts::chained());
}

#[test]
fn says_envelope() {
    compare(&table::texts::envelope());
}

#[test]
fn says_lacking() {
    compare(&table::texts::lacking());
}

#[test]
fn says_of_unreadable_results() {
    compare(&table::texts::unreadable());
}

#[test]
fn says_of_missing_interfaces() {
    compare(&table::texts::missing_interface());
}

#[test]
fn the_table_is_large_and_its_names_are_unique() {
    let names: Vec<_> = table::all().into_iter().map(|row| row.name).collect();
    let unique: std::collections::BTreeSet<_> = names.iter().collect();
    assert!(names.len() >= 400, "{} rows", names.len());
    assert_eq!(unique.len(), names.len());
}
