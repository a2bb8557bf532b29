use super::space::Space;
use super::table::listed;
use crate::filter::transit::{self, Entry, ensure, forget, has};

const TRUTH: &str = include_str!("../transit.nft");
const LIST: &str = "nft list table inet spoke_transit";

#[test]
fn is_what_the_file_says() {
    let truth = listed(TRUTH, LIST);
    let space = Space::new();
    ensure(&mut space.socket(), &[]).unwrap();
    assert_eq!(space.run(LIST), truth);
}

#[test]
fn what_is_set_is_known_until_it_is_forgotten() {
    let space = Space::new();
    let mut socket = space.socket();
    let br = "br0".parse().unwrap();
    let entries = [
        Entry::Family(model::Family::V4),
        Entry::Family(model::Family::V6),
        Entry::Before("eth0".parse().unwrap()),
        Entry::Bridge("br0".parse().unwrap()),
        Entry::Direct("br0".parse().unwrap()),
    ];
    for _ in 0..2 {
        ensure(&mut socket, &entries).unwrap();
    }
    let listed = space.run(LIST);
    for reported in ["{ ipv4, ipv6 }", "{ \"eth0\" }", "{ \"br0\" }"] {
        assert!(listed.contains(reported), "{reported}: {listed}");
    }
    for _ in 0..2 {
        forget(&mut socket, &br).unwrap();
    }
    let known: Vec<bool> = entries.iter().map(|entry| has(&mut socket, entry).unwrap()).collect();
    assert_eq!(known, [true, true, true, false, false]);
    for _ in 0..2 {
        transit::forget_family(&mut socket, model::Family::V6).unwrap();
    }
    let remaining = [0, 1].map(|at| has(&mut socket, &entries[at]).unwrap());
    assert_eq!(remaining, [true, false]);
    for _ in 0..2 {
        transit::unload(&mut socket).unwrap();
    }
    forget(&mut socket, &br).unwrap();
    assert!(!transit::is_there(&mut socket).unwrap());
}
