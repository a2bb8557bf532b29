use super::space::Space;
use super::table::listed;
use crate::filter::names::{NameServer, keep, unload};

const TRUTH: &str = include_str!("../names.nft");
const LIST: &str = "nft list table inet spoke_names";

fn server(bridge: &str, address: &str) -> NameServer {
    NameServer { bridge: bridge.parse().unwrap(), address: address.parse().unwrap() }
}

#[test]
fn is_what_the_file_says() {
    let truth = listed(TRUTH, LIST);
    let space = Space::new();
    let mut socket = space.socket();
    keep(&mut socket, &[server("br0", "10.1.2.1/24")], 299).unwrap();
    for set in ["asked", "answered", "sockets4", "within4"] {
        space.run(&format!("nft flush set inet spoke_names {set}"));
    }
    space.run("nft flush map inet spoke_names servers4");
    assert_eq!(space.run(LIST), truth);
}

#[test]
fn it_has_the_networks_of_now_and_goes_with_the_last() {
    let space = Space::new();
    let mut socket = space.socket();
    let all =
        [server("br0", "10.1.2.1/24"), server("br0", "fd00::1/64"), server("br1", "10.1.3.1/24")];
    for servers in [&all[..], &all[..], &all[..2], &all[2..]] {
        keep(&mut socket, servers, 299).unwrap();
        let listed = space.run(LIST);
        for one in &all {
            let is_there =
                listed.contains(&format!("\"{}\" : {} . 299", one.bridge, one.address.addr()));
            assert_eq!(is_there, servers.contains(one), "{one:?}: {listed}");
        }
    }
    // Whatever another program removes is put back.
    for lost in [
        "flush ruleset",
        "flush chain inet spoke_names servers",
        "flush map inet spoke_names servers4",
    ] {
        let before = space.run(LIST);
        space.run(&format!("nft {lost}"));
        keep(&mut socket, &all[2..], 299).unwrap();
        assert_eq!(space.run(LIST), before, "{lost}");
    }
    for _ in 0..2 {
        keep(&mut socket, &[], 299).unwrap();
        unload(&mut socket).unwrap();
    }
    assert_eq!(space.run("nft list tables"), "");
}
