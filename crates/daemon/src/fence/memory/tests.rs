use std::collections::HashSet;
use std::sync::Arc;

use ::names::Holder;
use model::{Protocol, Timestamp};

use super::room::{MOST, MOST_OF_ONE};
use super::*;

const OPEN: Duration = Duration::from_secs(60);

fn opening(source: u8, number: usize) -> Opening {
    let [.., high, low] = number.to_be_bytes();
    Opening {
        bridge: "br0".parse().unwrap(),
        source: [10, 0, 0, source].into(),
        destination: [203, 0, high, low].into(),
        protocol: Protocol::Tcp,
        port: 443,
    }
}

fn holder(container: &str, since: u64) -> Holder {
    let id = doubles::attachment_id("net", container);
    Holder { id, since: Timestamp(since) }
}

fn name(text: &str) -> DomainName {
    text.parse().unwrap()
}

/// Memory in which containers have so many, all of them by one address each.
fn filled(all: &[(&str, u8, usize, Duration)]) -> Memory {
    let mut memory = Memory::default();
    for (container, source, count, limit) in all {
        for number in 0..*count {
            let names = (vec![name("a.example")], *limit);
            memory.add(opening(*source, number), names, Some(holder(container, 1)));
        }
    }
    memory
}

/// What goes for `more` ways of a container from an address.
fn room(memory: &Memory, container: &str, source: u8, more: usize) -> Option<Vec<Opening>> {
    room_beside(memory, container, (source, more), &[])
}

fn room_beside(
    memory: &Memory,
    container: &str,
    (source, more): (u8, usize),
    flows: &[Opening],
) -> Option<Vec<Opening>> {
    let wanted: Vec<Opening> = (0..more).map(|it| opening(source, 60000 + it)).collect();
    let sent = |it: &Opening| (it.source, it.destination, it.protocol, it.port);
    let flows = || Arc::new(flows.iter().map(sent).collect());
    memory.room(&container.parse().unwrap(), &wanted.iter().collect(), flows)
}

/// Makes what is shut shut for longer than flows may be unknown.
fn long_shut(mut memory: Memory) -> Memory {
    for known in memory.known.values_mut().filter(|known| known.until <= Instant::now()) {
        known.until -= 2 * FRESH;
    }
    memory
}

#[test]
fn one_container_cannot_take_all_room() {
    let mut memory = filled(&[("web", 2, MOST_OF_ONE, OPEN)]);
    assert_eq!(room(&memory, "web", 2, 1), None);
    assert_eq!(room(&memory, "web", 4, 1), None, "another address of the same container");
    assert_eq!(room(&memory, "db", 3, 512), Some(Vec::new()));
    let known = opening(2, 7);
    let again = memory.room(&"web".parse().unwrap(), &HashSet::from([&known]), Arc::default);
    assert_eq!(again, Some(Vec::new()), "it is open, and takes no more room");
    memory.forget(|it, _| *it != known);
    assert_eq!(room(&memory, "web", 2, 1), Some(Vec::new()));
    assert!(!memory.knows(&known) && memory.knows(&opening(2, 8)));
}

#[test]
fn what_is_shut_gives_its_room() {
    let mut memory = long_shut(filled(&[("web", 2, MOST_OF_ONE, Duration::ZERO)]));
    let gone = room(&memory, "web", 2, 1).unwrap();
    assert_eq!(gone.len(), MOST_OF_ONE);
    memory.remove(&gone);
    assert!(memory.known.is_empty() && memory.of_one.is_empty());
}

/// What is forgotten and stays in the kernel is a stray, and ends flows.
#[test]
fn nothing_is_forgotten_where_that_does_not_suffice() {
    let open = ("web", 2, MOST_OF_ONE - 10, OPEN);
    let mut memory = filled(&[open]);
    for number in 0..10 {
        let names = (vec![name("b.example")], Duration::ZERO);
        memory.add(opening(4, number), names, Some(holder("web", 1)));
    }
    let memory = long_shut(memory);
    assert_eq!(room(&memory, "web", 2, 11), None);
    assert!((0..10).all(|number| memory.knows(&opening(4, number))));
    assert_eq!(room(&memory, "web", 2, 10).unwrap().len(), 10);
}

#[test]
fn what_has_a_flow_is_forgotten_last() {
    let memory = long_shut(filled(&[("web", 2, MOST_OF_ONE, Duration::ZERO)]));
    let flows: Vec<Opening> = (0..MOST_OF_ONE - 1).map(|number| opening(2, number)).collect();
    let gone = room_beside(&memory, "web", (2, 1), &flows).unwrap();
    assert_eq!(gone, [opening(2, MOST_OF_ONE - 1)]);
    let gone = room_beside(&memory, "web", (2, 3), &flows).unwrap();
    assert_eq!(gone.len(), 3);
}

/// However many some have opened, the others open theirs.
#[test]
fn who_has_most_gives_to_who_has_less() {
    let names = ["c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8"];
    let all: Vec<_> = (1..).zip(names).map(|(at, it)| (it, at, MOST_OF_ONE, OPEN)).collect();
    let mut memory = filled(&all);
    assert_eq!(memory.known.len(), MOST);
    let gone = room(&memory, "db", 20, 512).unwrap();
    assert_eq!(gone.len(), 512);
    let first = gone[0].source;
    assert!(gone.iter().all(|it| it.source == first), "all of one");
    memory.remove(&gone);
    assert_eq!(room(&memory, names[0], 1, 1), None);
}

#[test]
fn the_latest_name_is_first() {
    let mut memory = Memory::default();
    let (a, b) = (name("a.example"), name("b.example"));
    memory.add(opening(2, 1), (vec![a.clone()], OPEN), None);
    memory.add(opening(2, 2), (vec![a.clone()], OPEN), Some(holder("web", 1)));
    assert!(memory.is_led(&opening(2, 2), &a, &holder("web", 1)));
    assert!(!memory.is_led(&opening(2, 2), &b, &holder("web", 1)), "another name");
    assert!(!memory.is_led(&opening(2, 2), &a, &holder("web", 2)), "another container");
    assert_eq!(memory.names(&opening(2, 1), &b), [b, a.clone()]);
    memory.led([10, 0, 0, 2].into(), [203, 0, 0, 1].into(), &a);
    assert_eq!(memory.name_of([10, 0, 0, 2].into(), [203, 0, 0, 1].into()), Some(&a));
    memory.forget_led(&[[10, 0, 0, 2].into()]);
    assert_eq!(memory.name_of([10, 0, 0, 2].into(), [203, 0, 0, 1].into()), None);
}

/// What is opened again lasts as the kernel says, so that it is no stray at the next look.
#[test]
fn what_is_opened_again_lasts_from_then_on() {
    let mut memory = filled(&[("web", 2, 1, Duration::ZERO)]);
    assert!(memory.open().is_empty());
    memory.extend(&opening(2, 0), OPEN);
    assert!(memory.remaining(&opening(2, 0)) > OPEN / 2);
    assert_eq!(memory.still_open(&[opening(2, 0), opening(2, 1)]).len(), 1);
}
