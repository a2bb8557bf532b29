//! What has come to the world outside.

use std::fs;

use tests::World;

/// Whether it was asked for a name, or anything below it.
pub(crate) fn was_asked(world: &World, name: &str) -> bool {
    let asked = fs::read_to_string(world.path("/world/asked")).unwrap_or_default();
    asked.lines().any(|line| line.contains(name))
}

/// The queries that it was asked, as they came, in which these bytes are. Small letters stand for all letters.
pub(crate) fn queries(world: &World, with: &[u8]) -> Vec<Vec<u8>> {
    let lines = fs::read_to_string(world.path("/world/asked.raw")).unwrap_or_default();
    let bytes = |line: &str| -> Vec<u8> {
        let digits = line.as_bytes().chunks(2).map(|two| str::from_utf8(two).unwrap());
        digits.map(|two| u8::from_str_radix(two, 16).expect("digits")).collect()
    };
    let has =
        |query: &Vec<u8>| query.windows(with.len()).any(|part| part.eq_ignore_ascii_case(with));
    lines.lines().map(bytes).filter(has).collect()
}

/// Every packet, as `address . protocol . port`.
#[track_caller]
pub(crate) fn seen(world: &World) -> String {
    world.sh("ip netns exec world nft list table inet seen")
}

/// The elements of one of its sets.
pub(crate) fn elements(seen: &str, name: &str) -> Vec<String> {
    let from = seen.split(&format!("set {name} {{")).nth(1).expect("a set");
    let elements = from.split("chain in").next().unwrap().split("set ").next().unwrap();
    let elements = elements.split_once("elements = {").map(|(_, it)| it.split('}').next().unwrap());
    let mut all: Vec<String> = elements
        .map(|it| it.split(',').map(|one| one.trim().to_owned()).collect())
        .unwrap_or_default();
    all.sort();
    all
}

/// What came before this is forgotten.
#[track_caller]
pub(crate) fn forget(world: &World) {
    world.sh("for set in four six odd odd_six hidden; do ip netns exec world nft flush set inet seen $set; done");
}
