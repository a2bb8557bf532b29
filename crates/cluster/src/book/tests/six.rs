//! Networks of IPv6 alone, and hosts that reach each other by IPv6.

use model::{Mtu, Placement, Transport};

use super::super::{Declared, Subnet6, Subnets, claim_block, declare, form};
use super::*;

/// Hosts a and b, which have addresses of IPv6 and no networks.
fn cluster() -> Records {
    let records = Records::default();
    for (last, name) in [(1, "a"), (2, "b")] {
        let address = format!("2001:db8::{last}").parse().unwrap();
        let it = ClusterHost::new(address, Timestamp(1));
        records.write(&put(Key::Host(host(name)), Record::Host(it.into())));
    }
    records
}

fn declared(name: &str, subnets: Subnets) -> Declared {
    Declared {
        name: name.parse().unwrap(),
        subnets,
        block: None,
        mtu: Mtu::new(1430).unwrap(),
        hosts: Placement::All,
        encrypted: false,
        transport: Transport::Vxlan,
        engines: BTreeSet::new(),
        names: false,
        sticky: false,
        rules: model::SharedRules::OPEN,
        since: Timestamp(1),
    }
}

fn six(subnet: &str) -> Subnets {
    Subnets::V6(Subnet6::Named(subnet.parse().unwrap()))
}

#[test]
fn each_host_has_a_block_of_ipv6() {
    let records = cluster();
    let network = declare(&records, &declared("front", six("fd00:8::/64"))).unwrap();
    assert_eq!((network.block, network.subnet6), (72, None));
    for (name, wanted) in [("a", "fd00:8::/72"), ("b", "fd00:8:0:0:100::/72")] {
        let view = records.read().unwrap();
        let (block, _) = claim_block(&records, &view, &front(), &host(name), None).unwrap();
        assert_eq!(block, wanted.parse().unwrap());
    }
    let view = records.read().unwrap();
    assert_eq!(view.blocks.len(), 2);
    assert!(view.may_have(&front(), &host("b"), "fd00:8::100:0:0:2".parse().unwrap()));
    assert!(!view.may_have(&front(), &host("a"), "fd00:8::100:0:0:2".parse().unwrap()));
    // A version that does not know it does not find its claim.
    assert_eq!((view.vnis.len(), view.encrypted_vnis.len()), (0, 1));
}

#[test]
fn subnets_of_ipv6_do_not_overlap() {
    let records = cluster();
    declare(&records, &declared("front", six("fd00:8::/64"))).unwrap();
    let both = Subnets::Both(None, Subnet6::Named("fd00:8:0:0:1::/80".parse().unwrap()));
    for (subnets, why) in [
        (six("fd00:8::/48"), "overlaps fd00:8::/64 of network front"),
        (both, "overlaps fd00:8::/64 of network front"),
        (six("2001:db8::/64"), "has the address 2001:db8::1 of host a"),
    ] {
        let error = declare(&records, &declared("back", subnets)).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    let chosen = Subnets::V6(Subnet6::Chosen([0, 0, 0, 8, 0]));
    assert!(declare(&records, &declared("back", chosen)).is_ok());
    let host_of = |address: &str| ClusterHost::new(address.parse().unwrap(), Timestamp(1));
    for (address, why) in [
        ("192.0.2.9", "by IPv6, not by IPv4; choose an address as that of host a"),
        ("fd00:8::9", "is an address of network front (fd00:8::/64)"),
        ("fe80::9", "no address at which others reach"),
        ("2001:db8::1", "host a has the address"),
    ] {
        let error = form(&records, &host("c"), &host_of(address)).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}
