//! What is freed, what is not, and what is reported.

use std::sync::Arc;
use std::time::Duration;

use docker::reconcile::Notice;
use engine::Garbage;
use serde_json::json;

use crate::fake::{Answer, Fake};
use crate::rig::World;
use crate::scene::*;

const SUBNET: &str = "10.1.0.0/24";
const LIVING: &str = "11111111aaaa";
const LEAKED: &str = "22222222bbbb";

fn is_reclaimed(notice: &Notice) -> bool {
    matches!(notice, Notice::Reclaimed { .. })
}

fn names(world: &World) -> Vec<String> {
    world.left().into_iter().filter(|left| !left.starts_with("link of")).collect()
}

fn is_subnet(notice: &Notice) -> bool {
    matches!(notice, Notice::Reclaimed { finding, .. } if matches!(finding.what, Garbage::Subnet(_)))
}

/// The kernel takes a container's interfaces away with its namespace.
fn end_containers(world: &World) {
    world.kernel.lock().unwrap().links.clear();
}

/// A network with two endpoints, one of which Docker has forgotten.
fn leak() -> (Arc<World>, Fake, serde_json::Value, [String; 2]) {
    let world = Arc::new(World::default());
    let pool = network(&world, "n1", SUBNET);
    let addresses = [LIVING, LEAKED].map(|id| endpoint(&world, "n1", id, &pool));
    let fake = Fake::new();
    let network = listed("n1", "front", "spoke", &[SUBNET]);
    list(&fake, &network, &[(LIVING, "web", &addresses[0])]);
    (world, fake, network, addresses)
}

#[test]
fn frees_what_the_engine_forgot_and_learns_the_names_of_the_rest() {
    let (world, fake, _, addresses) = leak();
    let reconciling = Reconciling::with(&world, &fake);
    let reported = reconciling.until(|notice| notice.to_string().contains(&addresses[1]));
    assert!(matches!(reported[0], Notice::Reached { .. }), "{:?}", reported[0]);
    assert!(reported[1].to_string().contains(LEAKED), "{}", reported[1]);
    drop(reconciling);
    let left = names(&world).join("\n");
    assert!(left.contains(LIVING) && left.contains(&addresses[0]), "{left}");
    assert!(!left.contains(LEAKED) && !left.contains(&addresses[1]), "{left}");
    let engine = world.engine();
    assert_eq!(engine.records.attachments().unwrap()[0].owner.as_ref().unwrap().as_str(), "web");
    assert_eq!(engine.records.aliases().unwrap()[0].title.as_ref().unwrap().as_str(), "front");
}

#[test]
fn frees_a_network_that_the_engine_forgot_with_everything_on_it() {
    let (world, fake, ..) = leak();
    let reconciling = Reconciling::with(&world, &fake);
    reconciling.until(is_reclaimed);
    end_containers(&world);
    fake.answer("/networks", Answer::Chunks("[]".into()));
    reconciling.until(is_subnet);
    drop(reconciling);
    assert_eq!(world.left(), Vec::<String>::new());
}

/// As an engine that has lost its own book would have it.
#[test]
fn a_network_stays_that_the_engine_forgot_and_a_container_has() {
    let (world, fake, ..) = leak();
    let reconciling = Reconciling::with(&world, &fake);
    reconciling.until(is_reclaimed);
    let before = world.left();
    fake.answer("/networks", Answer::Chunks("[]".into()));
    settle(&fake);
    assert!(names(&world).join("\n").contains(LIVING));
    assert_eq!(world.left(), before);
}

#[test]
fn takes_nothing_from_an_engine_that_is_not_asked() {
    let (world, fake, ..) = leak();
    fake.answer("/networks", Answer::Chunks("[]".into()));
    let before = world.left();
    let reconciling = Reconciling::with(&world, &fake);
    let reported = reconciling.until(|notice| matches!(notice, Notice::Unclaimed { .. }));
    let said = reported.last().unwrap().to_string();
    assert!(said.ends_with("in the configuration; containers are on it"), "{said}");
    settle(&fake);
    assert_eq!(reconciling.reported(), Vec::<String>::new());
    assert_eq!(world.left(), before);
}

/// One that was asked, and is not in the configuration any more, or has another engine's data.
#[test]
fn takes_nothing_from_an_engine_that_is_asked_no_more() {
    let info = |id: &str| Answer::Length(json!({"ID": id}).to_string());
    let (world, fake, ..) = leak();
    gateway(&world, &pool(&world, "10.2.0.0/24"));
    let both = json!([
        listed("n1", "front", "spoke", &[SUBNET]),
        listed("b1", "ours", "bridge", &["10.2.0.0/24"])
    ]);
    fake.answer("/networks", Answer::Chunks(both.to_string()));
    fake.answer("/info", info("one"));
    let reconciling = Reconciling::with(&world, &fake);
    reconciling.until(is_reclaimed);
    settle(&fake);
    drop(reconciling);
    end_containers(&world);
    let before = world.left();
    fake.answer("/networks", Answer::Chunks("[]".into()));
    fake.answer("/info", info("two"));
    let reconciling = Reconciling::with(&world, &fake);
    let reported = reconciling.until(|notice| matches!(notice, Notice::Unlisted { .. }));
    settle(&fake);
    let is_reported = reported.iter().any(|notice| matches!(notice, Notice::Unclaimed { .. }));
    assert!(is_reported, "{reported:?}");
    assert_eq!(reconciling.reported(), Vec::<String>::new());
    assert_eq!(world.left(), before);
    drop(reconciling);

    fake.answer("/info", info("one"));
    let reconciling = Reconciling::with(&world, &fake);
    let is_of = |notice: &Notice, net: &str| is_subnet(notice) && notice.to_string().contains(net);
    let reported = reconciling.until(|notice| is_of(notice, "10.2.0.0/24"));
    if !reported.iter().any(|notice| is_of(notice, SUBNET)) {
        reconciling.until(|notice| is_of(notice, SUBNET));
    }
    drop(reconciling);
    assert_eq!(world.left(), Vec::<String>::new());
}

#[test]
fn believes_a_container_that_still_says_it_is_there() {
    let (world, fake, ..) = leak();
    let networks = json!({"front": {"NetworkID": "n1", "EndpointID": LEAKED}});
    let running = json!([{"Names": ["/late"], "NetworkSettings": {"Networks": networks}}]);
    fake.answer("/containers/json", Answer::Chunks(running.to_string()));
    let before = world.left();
    let reconciling = Reconciling::with(&world, &fake);
    fake.wait("/containers/json", 2);
    drop(reconciling);
    assert_eq!(world.left(), before);
}

#[test]
fn believes_only_what_is_missing_all_the_time() {
    let (world, fake, network, addresses) = leak();
    let before = world.left();
    let reconciling = Reconciling::with(&world, &fake);
    let both = [(LIVING, "web", &*addresses[0]), (LEAKED, "late", &*addresses[1])];
    let begin = std::time::Instant::now();
    while begin.elapsed() < GRACE * 4 {
        list(&fake, &network, &both[..1]);
        fake.wait("/networks/n1", 1);
        list(&fake, &network, &both);
        fake.wait("/networks/n1", 2);
    }
    drop(reconciling);
    assert_eq!(world.left(), before);
}

#[test]
fn frees_nothing_while_an_engine_does_not_answer_completely() {
    let (world, fake, network, addresses) = leak();
    let garbage = Answer::Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{\"Id\":".to_vec());
    fake.answer("/networks/n1", garbage);
    let before = world.left();
    let reconciling = Reconciling::with(&world, &fake);
    reconciling.until(|notice| matches!(notice, Notice::Lost { .. }));
    fake.wait("/networks/n1", 2);
    assert_eq!(world.left(), before);
    list(&fake, &network, &[(LIVING, "web", &addresses[0])]);
    let reported = reconciling.until(is_reclaimed);
    assert!(reported.iter().any(|notice| matches!(notice, Notice::Reached { .. })));
}

#[test]
fn frees_nothing_while_one_of_two_engines_is_silent() {
    let (world, fake, ..) = leak();
    let second = fake.socket.with_file_name("second.sock");
    let sockets = [fake.socket.clone(), second.clone()];
    let before = world.left();
    let reconciling = Reconciling::begin(&world, &sockets, Duration::from_millis(50));
    reconciling.until(|notice| matches!(notice, Notice::Lost { engine, .. } if *engine == second));
    let other = Fake::at(&second);
    reconciling
        .until(|notice| matches!(notice, Notice::Reached { engine, .. } if *engine == second));
    assert_eq!(world.left(), before);
    reconciling.until(is_reclaimed);
    drop(other);
    reconciling.until(|notice| matches!(notice, Notice::Lost { engine, .. } if *engine == second));
}

#[test]
fn knows_addresses_on_bridges_of_dockers() {
    let world = Arc::new(World::default());
    let pool = pool(&world, SUBNET);
    let [used, leaked] = [(); 2].map(|()| address(&world, &pool));
    let fake = Fake::new();
    list(&fake, &listed("b1", "ours", "bridge", &[SUBNET]), &[("e1", "web", &used)]);
    let reconciling = Reconciling::with(&world, &fake);
    let reported = reconciling.until(is_reclaimed);
    assert!(reported.last().unwrap().to_string().contains(&leaked));
    settle(&fake);
    assert!(names(&world).join("\n").contains(&used));
    fake.answer("/networks", Answer::Chunks("[]".into()));
    reconciling.until(is_subnet);
    assert_eq!(world.left(), Vec::<String>::new());
}

#[test]
fn a_pool_that_came_to_no_network_is_freed() {
    let world = Arc::new(World::default());
    pool(&world, SUBNET);
    let fake = Fake::new();
    let reconciling = Reconciling::with(&world, &fake);
    reconciling.until(is_reclaimed);
    assert_eq!(world.left(), Vec::<String>::new());
}

#[test]
fn leaves_swarms_networks_to_swarm() {
    let (world, fake, mut network, _) = leak();
    network["Scope"] = json!("swarm");
    fake.answer("/networks", Answer::Chunks(json!([network]).to_string()));
    let before = world.left();
    let reconciling = Reconciling::with(&world, &fake);
    settle(&fake);
    fake.answer("/networks", Answer::Chunks("[]".into()));
    reconciling.until(|notice| matches!(notice, Notice::Unclaimed { .. }));
    settle(&fake);
    assert_eq!(world.left(), before);
}

#[test]
fn tells_of_networks_that_it_does_not_know_once() {
    let world = Arc::new(World::default());
    let fake = Fake::new();
    list(&fake, &listed("n9", "lost", "spoke:latest", &["10.9.0.0/24"]), &[]);
    let reconciling = Reconciling::with(&world, &fake);
    let reported = reconciling.until(|notice| matches!(notice, Notice::Unknown { .. }));
    assert!(reported.last().unwrap().to_string().contains("lost"));
    settle(&fake);
    assert_eq!(reconciling.reported(), Vec::<String>::new());
}

#[test]
fn looks_when_something_happens() {
    let (world, fake, ..) = leak();
    let sockets = std::slice::from_ref(&fake.socket);
    let reconciling = Reconciling::begin(&world, sockets, Duration::from_secs(3600));
    reconciling.until(is_reclaimed);
    let title = || world.engine().records.aliases().unwrap()[0].title.clone().unwrap().to_string();
    assert_eq!(title(), "front");
    let renamed = listed("n1", "back", "spoke", &[SUBNET]);
    list(&fake, &renamed, &[]);
    fake.happen();
    fake.wait("/networks/n1", 1);
    fake.happen();
    fake.wait("/networks", 1);
    assert_eq!(title(), "back");
}

/// A bridge of Docker's own whose addresses we hand out, with no container on it, as far as the
/// book knows.
#[test]
fn a_subnet_with_a_gateway_that_no_engine_listed_stays() {
    let (world, fake) = (Arc::new(World::default()), Fake::new());
    gateway(&world, &pool(&world, SUBNET));
    fake.answer("/networks", Answer::Chunks("[]".into()));
    let before = world.left();
    let reconciling = Reconciling::with(&world, &fake);
    let reported = reconciling.until(|notice| matches!(notice, Notice::Unlisted { .. }));
    assert!(reported.last().unwrap().to_string().contains(SUBNET));
    settle(&fake);
    assert_eq!(reconciling.reported(), Vec::<String>::new());
    assert_eq!(world.left(), before);
}

/// The daemon that saw it is not the one that misses it.
#[test]
fn a_subnet_that_was_listed_is_freed_after_a_restart() {
    let (world, fake) = (Arc::new(World::default()), Fake::new());
    gateway(&world, &pool(&world, SUBNET));
    list(&fake, &listed("b1", "ours", "bridge", &[SUBNET]), &[]);
    let reconciling = Reconciling::with(&world, &fake);
    settle(&fake);
    drop(reconciling);
    fake.answer("/networks", Answer::Chunks("[]".into()));
    Reconciling::with(&world, &fake).until(is_subnet);
    assert_eq!(world.left(), Vec::<String>::new());
}

/// The second time it is an engine's that is not asked, for a bridge of Docker's own.
#[test]
fn a_subnet_that_came_back_is_not_the_one_that_was_listed() {
    let (world, fake) = (Arc::new(World::default()), Fake::new());
    let first = pool(&world, SUBNET);
    list(&fake, &listed("n1", "front", "bridge", &[SUBNET]), &[]);
    let reconciling = Reconciling::with(&world, &fake);
    reconciling.until(|notice| matches!(notice, Notice::Reached { .. }));
    settle(&fake);
    fake.answer("/networks", Answer::Chunks("[]".into()));
    world.call("IpamDriver.ReleasePool", &json!({"PoolID": first})).unwrap();
    settle(&fake);
    // To the test's clock all is old: no round may come between the two requests.
    fake.answer("/networks", Answer::Raw(Vec::new()));
    fake.wait("/networks", 2);
    let second = pool(&world, SUBNET);
    let address = address(&world, &second);
    fake.answer("/networks", Answer::Chunks("[]".into()));
    settle(&fake);
    drop(reconciling);
    let left = names(&world).join("\n");
    assert!(left.contains(&address) && left.contains(&format!("subnet {SUBNET}")), "{left}");
}

#[test]
fn networks_of_others_are_reported_until_they_are_removed() {
    let (world, fake, ours, _) = leak();
    let foreign = |id: &str, name: &str, driver: &str, subnets: &[&str]| {
        let mut network = listed(id, name, driver, subnets);
        network["IPAM"]["Driver"] = json!("default");
        network
    };
    let template = foreign("n6", "template", "", &["10.6.0.0/24"]);
    let all = json!([
        ours,
        foreign("n2", "shop", "bridge", &["10.2.0.0/24"]),
        foreign("n3", "lan", "macvlan", &["10.3.0.0/24"]),
        foreign("n4", "host", "host", &[]),
        listed("n5", "asks-us", "bridge", &["10.5.0.0/24"]),
        { "ConfigOnly": true, "Id": "n6", "Name": "template", "IPAM": template["IPAM"] },
    ]);
    fake.answer("/networks", Answer::Chunks(all.to_string()));
    let reconciling = Reconciling::with(&world, &fake);
    assert_eq!(reconciling.neighbours(), ["shop", "lan"]);
    // Before it looks again.
    fake.report(
        &json!({"Type": "network", "Action": "destroy", "Actor": {"ID": "n2"}}).to_string(),
    );
    assert_eq!(reconciling.neighbours(), ["lan"]);
}
