//! Commands that call networks the same at once, one of which is killed.

use std::collections::BTreeSet;

use tests::Trace;

use crate::bed::{Bed, Live, SPOKE};

/// What the networks are called; each name once.
#[track_caller]
fn names(bed: &Bed) -> BTreeSet<String> {
    let networks = bed.json("network ls");
    let all = networks.as_array().unwrap();
    let names: BTreeSet<String> =
        all.iter().map(|network| network["name"].as_str().unwrap().to_owned()).collect();
    assert_eq!(names.len(), all.len(), "{networks:#}");
    names
}

/// A name has one network, whichever of three commands gives it, and wherever one of them is killed.
#[test]
fn one_name_has_one_network() {
    let bed = Bed::new(&["web", "api"]);
    bed.spoke("network create --subnet 10.74.2.0/24 back");
    bed.spoke("network connect front web");
    bed.spoke("network connect back api");
    let there = "network rename front same";
    let trace = Trace::of_command(&bed.world, &format!("{SPOKE} {there}"));
    let changing = |name: &str| ["pwrite64", "renameat", "linkat", "sendto"].contains(&name);
    let (mut rounds, mut killed, mut seen) = (0, 0, BTreeSet::new());
    let moments = trace.moments();
    let moments = moments.iter().filter(|it| changing(&it.name));
    // The others begin with it, or as soon as it was killed.
    let rounds_of = moments.flat_map(|moment| [(moment, ":"), (moment, "wait $first || one=$?")]);
    for (round, (moment, before)) in rounds_of.enumerate() {
        bed.spoke(&format!("network rename front front{round}"));
        let race = format!(
            "{} {SPOKE} {there} & first=$!; one=0; {before}
             {SPOKE} network rename back same & second=$!
             {SPOKE} network create --subnet 10.74.9.0/24 same & third=$!
             wait $first || one=$?; wait $second || :; wait $third || :; exit $one",
            moment.kill().join(" ")
        );
        killed += usize::from(bed.world.try_sh(&race).status == 137);
        rounds += 1;
        let names = names(&bed);
        assert!(names.contains("same"), "{moment}: {names:?}");
        let shown = &bed.json("network inspect same")[0];
        let bridge = shown["bridge"].as_str().unwrap().to_owned();
        if names.len() == 3 {
            bed.spoke("network rm same");
        }
        seen.insert(bridge);
        // By their first names both are found still.
        assert_eq!(bed.json("network inspect front")[0]["bridge"], "sp-front", "{moment}");
        bed.spoke(&format!("network rename back back{round}"));
    }
    println!("{killed} kills in {rounds} rounds; it was called so: {seen:?}");
    assert!(rounds > 0 && killed > 0, "{killed} of {rounds}");
    bed.spoke("network rename front front");
    bed.refuses("network rename back front", 4, &["a network named front already exists"]);
}
