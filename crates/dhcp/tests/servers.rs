//! Against real servers, each test in namespaces of its own. Needs `dnsmasq` and `udhcpd`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "servers/bed.rs"]
mod bed;

use std::time::Duration;

use bed::{Bed, GROUP, dhcpd, dnsmasq, in_host, is_in_own_host, udhcpd};
use dhcp::News;
use model::Kind;

const RANGE: &str = "--dhcp-range=10.7.0.10,10.7.0.50,255.255.255.0,120s";

#[test]
fn a_whole_life() {
    let bed = Bed::new();
    let mut server = dnsmasq(
        &bed,
        &[
            RANGE,
            "--dhcp-option=option:router,10.7.0.1",
            "--dhcp-option=option:dns-server,10.7.0.53",
            "--dhcp-option=option:domain-search,one.test,two.test",
            "--dhcp-option=option:mtu,1400",
            "--dhcp-option=option:classless-static-route,0.0.0.0/0,10.7.0.1,10.8.0.0/16,10.7.0.2",
        ],
    );
    let keeper = bed.keeper();
    let terms = keeper.allocate(bed.subject("c1")).unwrap();
    assert!(terms.address.to_string().starts_with("10.7.0."), "{terms:?}");
    assert_eq!(terms.address.prefix_len(), 24);
    let routes: Vec<_> = terms.routes.iter().map(|(to, via)| format!("{to} {via}")).collect();
    assert_eq!(routes, ["0.0.0.0/0 10.7.0.1", "10.8.0.0/16 10.7.0.2"]);
    assert_eq!(terms.dns[0].to_string(), "10.7.0.53");
    assert_eq!((terms.search.join(" "), terms.mtu), ("one.test two.test".into(), Some(1400)));
    assert_eq!(keeper.allocate(bed.subject("c1")).unwrap(), terms, "asked twice, it is the same");
    let other = keeper.allocate(bed.subject("c2")).unwrap();
    assert_ne!(other.address, terms.address);
    assert_eq!(bed.lease_store().len(), 2);
    // The reference's identifier: type 0, then the names.
    server.hear("DHCPACK");
    let id: String = "\0c1/lan/eth0".bytes().map(|byte| format!("{byte:02x}")).collect();
    let id = id.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    assert!(
        bed.read("leases").contains(&id.collect::<Vec<_>>().join(":")),
        "{}",
        bed.read("leases")
    );
    keeper.release(&bed.subject("c1").id).unwrap();
    server.hear("DHCPRELEASE");
    assert_eq!(keeper.check(&bed.subject("c1").id).unwrap(), None);
    assert_eq!(keeper.check(&bed.subject("c2").id).unwrap(), Some(other));
    keeper.collect("lan".parse().unwrap(), Box::new(|_| false)).unwrap();
    server.hear("DHCPRELEASE");
    assert_eq!(bed.lease_store(), Vec::<String>::new());
}

#[test]
fn it_is_renewed_and_survives_its_keeper() {
    let bed = Bed::new();
    let mut server = udhcpd(&bed, 6);
    let keeper = bed.keeper();
    let terms = keeper.allocate(bed.subject("c1")).unwrap();
    bed.configure(&terms);
    assert!(matches!(bed.news(), News::Bound(..)));
    assert!(matches!(bed.news(), News::Renewed(..)));
    drop(keeper);
    bed.forget_news();
    server.hear("sending ACK");
    server.hear("sending ACK");
    let offers = server.heard().matches("sending OFFER").count();
    let keeper = bed.keeper();
    assert_eq!(keeper.allocate(bed.subject("c1")).unwrap().address, terms.address);
    assert!(matches!(bed.news(), News::Renewed(..)));
    server.hear("sending ACK");
    assert_eq!(server.heard().matches("sending OFFER").count(), offers, "nothing is begun anew");
}

#[test]
fn a_link_that_was_moved_is_found() {
    let bed = Bed::new();
    let _server = udhcpd(&bed, 4);
    let keeper = bed.keeper();
    let terms = keeper.allocate(bed.subject("c1")).unwrap();
    bed.move_to_sandbox();
    loop {
        match bed.news() {
            News::Renewed(..) => break,
            News::Lost(.., why) => panic!("{why}"),
            News::Bound(..) | News::Trouble(..) | News::Regained(..) | News::Unread(..) => {}
        }
    }
    assert_eq!(keeper.allocate(bed.subject("c1")).unwrap().address, terms.address);
}

/// As Docker does it: a macvlan beside its parent gets the address, and goes into the container with
/// another name. What is lost there is put there again.
#[test]
fn a_macvlan_that_was_moved_is_found() {
    let bed = Bed::new();
    let server = udhcpd(&bed, 4);
    let mac = bed.add_macvlan("c1");
    let keeper = bed.keeper();
    let subject = dhcp::Subject { mac: Some(mac), ..bed.subject("c1") };
    let subject = dhcp::Subject {
        id: model::AttachmentId { ifname: "mv0".parse().unwrap(), ..subject.id },
        ..subject
    };
    let terms = keeper.allocate(subject.clone()).unwrap();
    assert!(matches!(bed.news(), News::Bound(..)));
    bed.move_macvlan(&terms);
    assert!(matches!(bed.news(), News::Renewed(..)));
    drop(server);
    while !matches!(bed.news(), News::Lost(..)) {}
    assert!(!bed.in_sandbox("ip -4 address show dev lan0").contains("10.7.0."));
    let _server = udhcpd(&bed, 60);
    while !matches!(bed.news(), News::Regained(..)) {}
    assert!(bed.in_sandbox("ip -4 address show dev lan0").contains("10.7.0."));
    assert!(bed.in_sandbox("ip -4 route").contains("default via 10.7.0.1"));
    keeper.release(&subject.id).unwrap();
}

/// A container's link may have its parent's hardware address. When the container is gone, its lease
/// is not continued on the host's own link, which gets no address of it either.
#[test]
fn a_parent_with_the_same_hardware_address_is_left_alone() {
    if !is_in_own_host("a_parent_with_the_same_hardware_address_is_left_alone") {
        return;
    }
    let mut bed = Bed::new();
    bed.put_on_parent();
    let _server = udhcpd(&bed, 4);
    let keeper = bed.keeper();
    keeper.allocate(bed.subject("c1")).unwrap();
    assert!(matches!(bed.news(), News::Bound(..)));
    bed.end_container();
    bed.forget_news();
    let mut renewals = 0;
    loop {
        match bed.news() {
            News::Lost(..) => break,
            // An answer may have been on its way.
            News::Renewed(..) if renewals == 0 => renewals += 1,
            News::Trouble(..) => {}
            other => panic!("{other:?}"),
        }
    }
    bed.wait(|| bed.lease_store().is_empty());
    assert!(!in_host("ip -4 address show dev par0").contains("10.7.0."));
}

/// Docker takes a link back from a container: it is found in the host's namespace by the hardware
/// address that was given for it, if its group says that it is the container's.
#[test]
fn a_link_in_the_hosts_namespace_is_found_if_it_is_marked() {
    if !is_in_own_host("a_link_in_the_hosts_namespace_is_found_if_it_is_marked") {
        return;
    }
    let bed = Bed::new();
    let mut server = dnsmasq(&bed, &[RANGE]);
    let mac = bed.add_macvlan("c1");
    bed.take_back_macvlan();
    let keeper = bed.keeper();
    let subject = dhcp::Subject { mac: Some(mac), netns: "".into(), ..bed.subject("c1") };
    let error = keeper.allocate(subject.clone()).unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid, "{error}");
    in_host(&format!("ip link set mv0 group {GROUP}"));
    keeper.allocate(subject.clone()).unwrap();
    keeper.release(&subject.id).unwrap();
    server.hear("DHCPRELEASE");
}

/// Two VLANs of one parent have its hardware address: a link that is gone is not taken for the other
/// one in its container.
#[test]
fn a_link_of_the_same_hardware_address_is_left_alone() {
    let bed = Bed::new();
    let server = udhcpd(&bed, 4);
    let keeper = bed.keeper();
    let terms = keeper.allocate(bed.subject("c1")).unwrap();
    bed.configure(&terms);
    bed.rename("eth0", "eth1");
    assert!(matches!(bed.news(), News::Bound(..)));
    drop(server);
    while !matches!(bed.news(), News::Lost(..)) {}
    assert!(bed.addresses_of("eth1").contains("10.7.0."), "it is another link's address now");
}

#[test]
fn an_address_that_is_in_use_is_declined() {
    let bed = Bed::new();
    let mut server = dnsmasq(
        &bed,
        &["--dhcp-range=10.7.0.10,10.7.0.11,255.255.255.0,120s", "--dhcp-sequential-ip"],
    );
    bed.in_server("ip address add 10.7.0.10/32 dev lo");
    let terms = bed.keeper().allocate(bed.subject("c1")).unwrap();
    assert_eq!(terms.address.to_string(), "10.7.0.11/24");
    server.hear("DHCPDECLINE");
}

#[test]
fn an_exhausted_server_is_reported() {
    let bed = Bed::new();
    let _server = dnsmasq(&bed, &["--dhcp-range=10.7.0.10,10.7.0.10,255.255.255.0,120s"]);
    let keeper = bed.hasty();
    keeper.allocate(bed.subject("c1")).unwrap();
    let error = keeper.allocate(bed.subject("c2")).unwrap_err();
    assert_eq!(error.kind(), Kind::TryAgain);
    assert!(error.to_string().contains("none has an address left"), "{error}");
    assert!(error.to_string().contains("c2"), "{error}");
    let gone = dhcp::Subject { netns: "/nowhere".into(), ..bed.subject("c3") };
    assert_eq!(keeper.allocate(gone).unwrap_err().kind(), Kind::Invalid);
}

#[test]
fn a_server_that_knows_better_takes_the_address() {
    let bed = Bed::new();
    let server = dnsmasq(&bed, &[RANGE]);
    let keeper = bed.keeper();
    let terms = keeper.allocate(bed.subject("c1")).unwrap();
    bed.configure(&terms);
    drop((keeper, server));
    assert!(matches!(bed.news(), News::Bound(..)));
    bed.in_server("ip address replace 10.9.0.1/24 dev srv");
    let other = ["--dhcp-range=10.9.0.10,10.9.0.50,255.255.255.0,120s", "--dhcp-authoritative"];
    bed.in_server("ip address delete 10.7.0.1/24 dev srv");
    let mut server = dnsmasq(&bed, &other);
    let keeper = bed.keeper();
    server.hear("DHCPNAK");
    assert!(matches!(bed.news(), News::Lost(..)));
    let News::Regained(_, now, first) = bed.news() else { panic!("nothing was sought") };
    assert_eq!(first, terms.address);
    assert!(now.address.to_string().starts_with("10.9.0."), "{now:?}");
    assert_eq!(keeper.check(&bed.subject("c1").id).unwrap(), Some(now.clone()));
    let addresses = bed.addresses();
    assert!(!addresses.contains("10.7.0."), "{addresses}");
    assert!(addresses.contains(&now.address.to_string()), "{addresses}");
    assert!(bed.routes().contains("default via 10.9.0.1"), "{}", bed.routes());
}

#[test]
fn a_short_lease_is_renewed_and_ends_with_its_server() {
    let bed = Bed::new();
    let server = udhcpd(&bed, 4);
    let keeper = bed.keeper();
    let terms = keeper.allocate(bed.subject("c1")).unwrap();
    assert_eq!((terms.lease, terms.renewal, terms.routers.len()), (4, 2, 1));
    bed.configure(&terms);
    assert!(matches!(bed.news(), News::Bound(..)));
    assert!(matches!(bed.news(), News::Renewed(..)));
    drop(server);
    loop {
        match bed.news() {
            News::Lost(_, lost, _) => break assert_eq!(lost.address, terms.address),
            News::Bound(..) | News::Renewed(..) | News::Regained(..) => {}
            News::Trouble(..) | News::Unread(..) => {}
        }
    }
    assert!(!bed.addresses().contains("10.7.0."), "{}", bed.addresses());
    assert_eq!(keeper.check(&bed.subject("c1").id).unwrap(), None);
    // Nor does a restart forget that another is sought.
    drop(keeper);
    let keeper = bed.keeper();
    let _server = udhcpd(&bed, 60);
    let terms = loop {
        match bed.news() {
            News::Regained(_, terms, _) => break terms,
            News::Trouble(..) => {}
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(terms.lease, 60);
    assert!(bed.addresses().contains(&terms.address.to_string()), "{}", bed.addresses());
    assert!(bed.routes().contains("default via 10.7.0.1"), "{}", bed.routes());
    assert_eq!(keeper.check(&bed.subject("c1").id).unwrap(), Some(terms));
    keeper.release(&bed.subject("c1").id).unwrap();
    assert_eq!(bed.lease_store(), Vec::<String>::new());
}

/// Who asks again for what was lost is answered as the first time; and what no client can have any more
/// is not sought for ever.
#[test]
fn a_lost_lease_is_asked_for_anew_or_forgotten_with_its_link() {
    let bed = Bed::new();
    let server = udhcpd(&bed, 2);
    let keeper = bed.keeper();
    keeper.allocate(bed.subject("c1")).unwrap();
    drop(server);
    while !matches!(bed.news(), News::Lost(..)) {}
    drop(keeper);
    let keeper = bed.hasty();
    let error = keeper.allocate(bed.subject("c1")).unwrap_err();
    assert!(error.to_string().contains("no DHCP server answered within 2 s"), "{error}");
    assert_eq!(bed.lease_store(), Vec::<String>::new());
    drop(keeper);
    let server = udhcpd(&bed, 2);
    let keeper = bed.keeper();
    keeper.allocate(bed.subject("c1")).unwrap();
    drop(server);
    while !matches!(bed.news(), News::Lost(..)) {}
    // Two files for a moment: the loss is reported while the lease is being written anew.
    bed.wait(|| bed.lease_store().len() == 1);
    bed.in_server("ip link delete srv");
    bed.wait(|| bed.lease_store().is_empty());
}

/// The server that gave the lease is gone; another one has its leases and another address.
#[test]
fn another_server_goes_on_with_the_lease() {
    let bed = Bed::new();
    let mut first =
        dnsmasq(&bed, &[RANGE, "--dhcp-option=option:T1,3", "--dhcp-option=option:T2,4"]);
    let keeper = bed.keeper();
    let terms = keeper.allocate(bed.subject("c1")).unwrap();
    assert_eq!((terms.renewal, terms.rebinding), (3, 4));
    bed.configure(&terms);
    assert!(matches!(bed.news(), News::Bound(..)));
    first.hear("DHCPACK");
    drop(first);
    bed.in_server("ip address delete 10.7.0.1/24 dev srv");
    bed.in_server("ip address add 10.7.0.2/24 dev srv");
    let mut second = dhcpd(&bed, &terms);
    let News::Renewed(_, renewed) = bed.news() else { panic!("it is not renewed") };
    assert_eq!(renewed.address, terms.address);
    assert_eq!((renewed.server.to_string(), renewed.lease), ("10.7.0.2".into(), 600));
    second.hear("DHCPACK");
    assert!(!second.heard().contains("DHCPDISCOVER"), "{}", second.heard());
}

/// A lease that cannot be removed from disk would be there again after a restart: its release fails
/// until it can.
#[test]
fn a_lease_that_stays_on_disk_is_not_given_back() {
    let bed = Bed::new();
    let mut server = dnsmasq(&bed, &[RANGE]);
    let keeper = bed.keeper();
    let id = bed.subject("c1").id;
    let terms = keeper.allocate(bed.subject("c1")).unwrap();
    let undo = bed.block_lease();
    keeper.release(&id).unwrap_err();
    keeper.release(&id).unwrap_err();
    assert_eq!(keeper.check(&id).unwrap(), Some(terms));
    assert!(!server.heard().contains("DHCPRELEASE"), "{}", server.heard());
    undo();
    keeper.release(&id).unwrap();
    server.hear("DHCPRELEASE");
    assert_eq!(bed.lease_store(), Vec::<String>::new());
}

/// The same where the container is gone without a release.
#[test]
fn a_lease_that_stays_on_disk_is_not_forgotten() {
    let bed = Bed::new();
    let server = udhcpd(&bed, 2);
    let keeper = bed.keeper();
    keeper.allocate(bed.subject("c1")).unwrap();
    drop(server);
    while !matches!(bed.news(), News::Lost(..)) {}
    // The loss is reported before it is written down.
    bed.wait(|| bed.has_lost_lease());
    let undo = bed.block_lease();
    bed.in_server("ip link delete srv");
    while !matches!(bed.news(), News::Trouble(_, what) if what.contains("keeping leases")) {}
    undo();
    bed.wait(|| bed.lease_store().is_empty());
}

#[test]
fn no_server_is_an_error_in_time() {
    let bed = Bed::new();
    let begun = std::time::Instant::now();
    let error = bed.hasty().allocate(bed.subject("c1")).unwrap_err();
    assert!(begun.elapsed() >= Duration::from_secs(2));
    assert!(error.to_string().contains("no DHCP server answered within 2 s"), "{error}");
}
