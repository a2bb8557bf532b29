use super::space::Space;
use super::table::listed;
use crate::filter::sandbox_names::{SandboxNames, lead, unlead};

const TRUTH: &str = include_str!("../sandbox_names.nft");
const LIST: &str = "nft list table inet spoke_names";

#[test]
fn is_what_the_file_says() {
    let truth = listed(TRUTH, LIST);
    let space = Space::new();
    let mut socket = space.socket();
    let names = SandboxNames { udp: 4001, tcp: 4002, mark: Some(42) };
    lead(&mut socket, &names).unwrap();
    space.run("nft flush set inet spoke_names answered");
    space.run("nft flush map inet spoke_names servers");
    assert_eq!(space.run(LIST), truth);
}

#[test]
fn it_has_the_sockets_of_now_and_goes() {
    let space = Space::new();
    let mut socket = space.socket();
    for (udp, mark) in [(4001, Some(42)), (4003, None), (4003, Some(43))] {
        lead(&mut socket, &SandboxNames { udp, tcp: 4002, mark }).unwrap();
        let listed = space.run(LIST);
        assert!(listed.contains(&format!("udp . 53 : 127.0.0.11 . {udp}")), "{listed}");
        assert!(listed.contains("tcp . 53 : 127.0.0.11 . 4002"), "{listed}");
        assert_eq!(listed.contains("!= @answered drop"), mark.is_none(), "{listed}");
        assert_eq!(listed.contains("meta mark"), mark.is_some(), "{listed}");
    }
    for _ in 0..2 {
        unlead(&mut socket).unwrap();
    }
    assert_eq!(space.run("nft list tables"), "");
}

/// A container that has filled the table itself makes it take no second attempt, and none of it stays.
#[test]
fn whatever_a_container_has_put_there_is_gone() {
    let space = Space::new();
    let mut socket = space.socket();
    let names = SandboxNames { udp: 4001, tcp: 4002, mark: None };
    lead(&mut socket, &names).unwrap();
    let expected = space.run(LIST);
    space.run("nft add chain inet spoke_names own");
    space.run("nft add rule inet spoke_names own drop");
    space.run("nft add rule inet spoke_names others jump own");
    space.run("nft 'add set inet spoke_names more { type ipv4_addr; elements = { 1.2.3.4 }; }'");
    space.run("nft 'add chain inet spoke_names before { type nat hook output priority -150; }'");
    space.run("nft 'add element inet spoke_names answered { udp . 53 }'");
    lead(&mut socket, &names).unwrap();
    assert_eq!(space.run(LIST), expected);
    space.run("nft flush ruleset");
    space.run("nft 'add table inet spoke_names; add chain inet spoke_names sandbox_names_1'");
    lead(&mut socket, &names).unwrap();
    assert_eq!(space.run(LIST), expected);
}
