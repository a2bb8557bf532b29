//! Bridges on which the host has no address of IPv6.

use super::*;

const DISABLE: &str = "sysctl net/ipv6/conf/cni0/disable_ipv6 = ";

/// Of the host's steps, those that switch IPv6 on or off, and those that add addresses.
fn shown(plan: &Plan) -> Vec<String> {
    let steps = plan.host.iter().map(show);
    steps.filter(|step| step.starts_with(DISABLE) || step.starts_with("address ")).collect()
}

fn isolated() -> LinkKind {
    let LinkKind::Bridge(made) = bridge(Gateway::Address) else { unreachable!() };
    LinkKind::Bridge(Bridge { host_absent: model::Absence::only(Family::V6), ..made })
}

fn facts(is_ours: bool, addresses: &[&str]) -> Facts {
    let mut facts = there(addresses);
    facts.bridge.as_mut().unwrap().is_ours = is_ours;
    facts
}

#[test]
fn only_a_bridge_of_spokes_loses_ipv6() {
    let wanted = attachment(isolated(), vec![address("10.1.0.2/24", None)]);
    let of = |facts: &Facts| shown(&attach(&wanted, facts).unwrap());
    let off = format!("{DISABLE}1");
    assert_eq!(of(&Facts::default())[0], off);
    assert_eq!(of(&facts(true, &["10.1.0.1/24", "fe80::1/64"])), [off.as_str()]);
    for addresses in [&["10.1.0.1/24"][..], &["10.1.0.1/24", "fe80::1/64"]] {
        assert_eq!(of(&facts(false, addresses)), [""; 0]);
    }
}

#[test]
fn a_bridge_of_spokes_has_ipv6_before_its_gateway() {
    let wanted = attachment(bridge(Gateway::Address), vec![address("fd00:1::2/64", None)]);
    let of = |facts: &Facts| shown(&attach(&wanted, facts).unwrap());
    let on = format!("{DISABLE}0");
    assert_eq!(of(&facts(true, &[])), [on.as_str(), "address fd00:1::1/64 on cni0"]);
    assert_eq!(of(&facts(true, &["fd00:1::1/64"])), [""; 0]);
    assert_eq!(of(&facts(false, &[])), ["address fd00:1::1/64 on cni0"]);
}
