//! Addresses that names keep, where a host has the last release's program, which does not know of that.

use super::{LS, detach, programs};
use crate::bed::{SPOKE, Segment, init, join, until, until_reached};
use crate::sticky::until_kept;

/// An address of that host's block follows its name between the two others, and no other container gets it as one of the block.
#[test]
fn an_address_of_the_last_release_s_block_follows_its_name() {
    let Some([last, this]) = programs() else { return };
    let segment = Segment::new();
    let [mut a, b, c] = [(&last, ("a", 1)), (&this, ("b", 2)), (&this, ("c", 3))]
        .map(|(plugins, which)| segment.host_of(plugins, "", which));
    drop(init(&a.world, "a"));
    join(&a.world, &b.world, "b");
    join(&a.world, &c.world, "c");
    b.spoke("network create --hosts all --sticky front");
    until(&a.world, &format!("{SPOKE} network inspect front >/dev/null 2>&1"));
    let one = a.attach("front", "one");
    drop(b.attach("front", "two"));
    let own = [a.attach("front", "own")];
    detach(&a, "front", "own");
    b.world.netns("db");
    until(&b.world, &format!("{SPOKE} network connect --ip {} front db 2>/world/refused", own[0]));
    for (from, to) in [(&b, &c), (&c, &b), (&b, &c)] {
        until_kept(&segment, &own, "db", from.name);
        detach(from, "front", "db");
        assert_eq!(to.attach("front", "db"), own[0], "on {}", to.name);
        until_reached(&a.world, "one", &own[0]);
        to.sh(&format!("ip netns exec db ping -q -c 1 -W 3 {one}"));
    }
    until_kept(&segment, &own, "db", "c");
    detach(&c, "front", "db");
    // It gives it to none of its own.
    a.world.netns("other");
    let said = a.refused(&format!("network connect --ip {} front other", own[0]));
    assert!(said.contains("host c"), "{said}");
    let others = ["x", "y", "z"].map(|name| a.attach("front", name));
    assert!(!others.contains(&own[0]), "{others:?}");
    assert!(!a.sh(LS).contains("cannot be read"));
    // With this program it follows there, too.
    a.change_to(&this);
    until(&a.world, &format!("! {LS} | grep -q 'not heard of'"));
    assert_eq!(a.attach("front", "db"), own[0]);
    until_kept(&segment, &own, "db", "a");
    until_reached(&b.world, "two", &own[0]);
}
