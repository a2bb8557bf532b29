//! Containers that come and go.

use std::env;

use tests::{Plugins, World};

use crate::bed::Bed;

/// They come and go while others ask: each is known to the first query after its start, with its own address,
/// and unknown to the first one after its end, although the next one has its address. Those that are there are
/// answered all the time.
///
/// How long an answer takes under the load of other tests says little, so it is printed; half of them take less
/// than the 100 ms that are promised also then.
#[test]
fn no_answer_is_wrong_or_missing() {
    let number =
        |name: &str, short: u32| env::var(name).map_or(short, |it| it.parse().expect("a number"));
    let (seconds, containers) = (number("NAMES_SECONDS", 20), number("NAMES_CONTAINERS", 40));
    let bed = Bed::of(World::new(&Plugins::subject()));
    bed.spoke("network create --names --subnet 10.71.0.0/20 front");
    bed.world.netns("asker");
    bed.spoke("network connect --ip 10.71.15.250 front asker");
    bed.until_answers("10.71.0.1");
    std::fs::write(bed.world.path("/world/churn.py"), include_str!("churn.py")).expect("written");
    bed.world.sh(&format!("for i in $(seq 0 {}); do ip netns add box$i; done", containers - 1));
    let said = bed.world.sh(&format!("python3 /world/churn.py {seconds} {containers} 10.71.0.1"));
    println!("{said}");
    let (problems, figures) = said.trim_end().rsplit_once('\n').expect("figures");
    assert_eq!(problems.trim(), "", "{figures}");
    let median = figures.split_once("p50 ").and_then(|(_, it)| it.split_once(" ms"));
    let median: f64 = median.expect("a median").0.parse().expect("a number");
    assert!(median < 100.0, "{figures}");
}
