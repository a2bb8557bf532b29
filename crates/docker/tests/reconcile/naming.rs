//! How names of containers are learned from engines that answer late, or not.

use std::sync::Arc;
use std::time::{Duration, Instant};

use docker::reconcile::Notice;
use serde_json::{Value, json};

use crate::fake::{Answer, Fake};
use crate::rig::World;
use crate::scene::*;

const ENDPOINT: &str = "11111111aaaa";

/// A container on a network whose names Spoke answers for, and an engine that lists it.
fn scene() -> (Arc<World>, Fake) {
    let world = Arc::new(World::default());
    let pool = network_with(&world, "n1", "10.1.0.0/24", &json!({"names": "true"}));
    let address = endpoint(&world, "n1", ENDPOINT, &pool);
    let fake = Fake::new();
    list(&fake, &listed("n1", "front", "spoke", &["10.1.0.0/24"]), &[(ENDPOINT, "web", &address)]);
    (world, fake)
}

/// Looked at once, and then only when the engine reports something.
fn watch(world: &Arc<World>, fake: &Fake) -> Reconciling {
    let sockets = std::slice::from_ref(&fake.socket);
    let reconciling = Reconciling::begin(world, sockets, Duration::from_secs(3600));
    reconciling.until(|notice| matches!(notice, Notice::Reached { .. }));
    fake.wait_in_all("/networks/n1", 1);
    reconciling
}

fn inspect_of(container: &str) -> String {
    format!("/containers/{container}/json")
}

fn inspected() -> Answer {
    let front = json!({"EndpointID": ENDPOINT, "DNSNames": ["web", "www"]});
    let inspected = json!({"Name": "/web", "NetworkSettings": {"Networks": {"front": front}}});
    Answer::Length(inspected.to_string())
}

fn run(fake: &Fake, containers: &[&str]) {
    let listed: Vec<Value> = containers.iter().map(|id| json!({"Id": id})).collect();
    fake.answer("/containers/json", Answer::Chunks(Value::from(listed).to_string()));
}

fn started(container: &str, attributes: &Value) -> String {
    let actor = json!({"ID": container, "Attributes": attributes});
    json!({"Type": "container", "Action": "start", "Actor": actor}).to_string()
}

/// Waits until the reconciler has written down what it learned before.
fn names(world: &World, fake: &Fake) -> Vec<String> {
    let before = fake.times("/networks");
    fake.happen();
    fake.wait_in_all("/networks", before + 1);
    let record = world.engine().records.attachments().unwrap().remove(0);
    record.names.iter().map(ToString::to_string).collect()
}

#[test]
fn a_container_that_is_inspected_late_has_its_names() {
    let (world, fake) = scene();
    run(&fake, &["c1"]);
    let _reconciling = watch(&world, &fake);
    fake.answer(&inspect_of("c1"), Answer::Then(Box::new([Answer::Hang, inspected()])));
    let actor = json!({"ID": "n1", "Attributes": {"container": "c1"}});
    fake.report(&json!({"Type": "network", "Action": "connect", "Actor": actor}).to_string());
    fake.wait_in_all(&inspect_of("c1"), 2);
    assert_eq!(names(&world, &fake), ["www"]);
}

#[test]
fn a_container_with_many_labels_has_its_names() {
    let (world, fake) = scene();
    run(&fake, &["c1"]);
    let _reconciling = watch(&world, &fake);
    fake.answer(&inspect_of("c1"), inspected());
    fake.report(&started("c1", &json!({"label": "x".repeat(100_000)})));
    fake.wait_in_all(&inspect_of("c1"), 1);
    assert_eq!(names(&world, &fake), ["www"]);
}

/// One of them hangs; those after it are asked for first, and it is no engine that is lost.
#[test]
fn a_container_that_fails_keeps_no_other_without_names() {
    let (world, fake) = scene();
    run(&fake, &["c0", "c1"]);
    let reconciling = watch(&world, &fake);
    fake.answer(&inspect_of("c0"), Answer::Raw(Vec::new()));
    fake.answer(&inspect_of("c1"), inspected());
    fake.report(&format!("{}\n{}", started("c0", &json!({})), started("c1", &json!({}))));
    fake.wait_in_all(&inspect_of("c1"), 1);
    assert_eq!(names(&world, &fake), ["www"]);
    fake.wait_in_all(&inspect_of("c0"), 2);
    assert_eq!(reconciling.reported(), Vec::<String>::new());
}

/// An engine's list of one container that runs on the network.
fn running() -> Answer {
    let networks = json!({"front": {"NetworkID": "n1", "EndpointID": ENDPOINT}});
    let listed = json!([{"Id": "c1", "NetworkSettings": {"Networks": networks}}]);
    Answer::Chunks(listed.to_string())
}

#[test]
fn an_engine_that_does_not_answer_is_asked_once_and_again_when_it_is_back() {
    let (world, fake) = scene();
    run(&fake, &[]);
    let reconciling = watch(&world, &fake);
    fake.answer(&inspect_of("c1"), inspected());
    let broken = Answer::Raw(Vec::new());
    fake.answer("/containers/json", Answer::Then(Box::new([broken, running()])));
    let all = ["c1", "c2", "c3"].map(|container| started(container, &json!({})));
    fake.report(&all.join("\n"));
    reconciling.until(|notice| matches!(notice, Notice::Lost { .. }));
    fake.wait_in_all(&inspect_of("c1"), 1);
    assert_eq!(names(&world, &fake), ["www"]);
    let asked = fake.asked();
    let position = |path: &str| asked.iter().rposition(|asked| asked == path);
    let inspect = inspect_of("c1");
    assert!(asked.iter().position(|asked| *asked == inspect) > position("/events"), "{asked:?}");
}

/// The engine has been back since then, and what ran before is not reported again.
#[test]
fn an_engine_that_is_back_is_asked_while_another_is_silent() {
    let (world, fake) = scene();
    fake.answer("/containers/json", running());
    fake.answer(&inspect_of("c1"), inspected());
    let sockets = [fake.socket.with_file_name("absent.sock"), fake.socket.clone()];
    let _reconciling = Reconciling::begin(&world, &sockets, Duration::from_secs(3600));
    fake.wait_in_all(&inspect_of("c1"), 1);
}

/// It is lost then, and asked again when it is back.
#[test]
fn an_engine_that_lists_no_containers_when_it_is_back_is_asked_again() {
    let (world, fake) = scene();
    let broken = Answer::Raw(Vec::new());
    fake.answer("/containers/json", Answer::Then(Box::new([broken, running()])));
    fake.answer(&inspect_of("c1"), inspected());
    let sockets = std::slice::from_ref(&fake.socket);
    let _reconciling = Reconciling::begin(&world, sockets, Duration::from_secs(3600));
    fake.wait_in_all(&inspect_of("c1"), 1);
}

/// Its socket is there long before it answers.
#[test]
fn an_engine_that_was_starting_is_looked_at_as_soon_as_something_happens() {
    let (world, fake) = scene();
    let about = Answer::Length(r#"{"LiveRestoreEnabled":false}"#.into());
    fake.answer("/info", Answer::Late(Duration::from_secs(1), Box::new(about)));
    let _reconciling = watch(&world, &fake);
    let begin = Instant::now();
    names(&world, &fake);
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
}

/// Nothing is compared while one engine is silent: what the other one calls its networks is known all the same, from
/// when it makes one, and at the latest when a container runs on it.
#[test]
fn a_network_has_its_title_as_soon_as_it_is_made_or_used() {
    let actor = json!({"ID": "n1", "Attributes": {"name": "front", "type": "spoke"}});
    let made = json!({"Type": "network", "Action": "create", "Actor": actor}).to_string();
    for event in [made, started("c1", &json!({}))] {
        let (world, fake) = scene();
        run(&fake, &["c1", "c2"]);
        let member = json!({"EndpointID": ENDPOINT, "NetworkID": "n1", "DNSNames": ["web"]});
        let inspected = json!({"Name": "/web", "NetworkSettings": {"Networks": {"front": member}}});
        fake.answer(&inspect_of("c1"), Answer::Length(inspected.to_string()));
        let sockets = [fake.socket.with_file_name("absent.sock"), fake.socket.clone()];
        let reconciling = Reconciling::begin(&world, &sockets, Duration::from_secs(3600));
        reconciling.until(|notice| matches!(notice, Notice::Reached { .. }));
        let title = || world.engine().records.aliases().unwrap().remove(0).title;
        assert_eq!(title(), None);
        fake.report(&event);
        // What it hears later is done later.
        for later in ["c2", "c3"] {
            fake.report(&started(later, &json!({})));
            fake.wait_in_all(&inspect_of(later), 1);
        }
        assert_eq!(title(), "front".parse().ok(), "{event}");
    }
}

/// An engine that fails is asked for one title, and one that has none is asked for it once.
#[test]
fn no_engine_is_asked_for_titles_in_vain_more_than_once() {
    let made = |id: &str| {
        let actor = json!({"ID": id, "Attributes": {"type": "spoke"}});
        json!({"Type": "network", "Action": "create", "Actor": actor}).to_string()
    };
    let mut of_swarm = listed("n1", "front", "spoke", &["10.1.0.0/24"]);
    of_swarm["Scope"] = "swarm".into();
    let both = format!("{}\n{}", made("n1"), made("n2"));
    for (answer, reports) in [
        (Answer::Raw(Vec::new()), vec![both]),
        (Answer::Length(of_swarm.to_string()), vec![made("n1"), made("n1")]),
    ] {
        let (world, fake) = scene();
        network(&world, "n2", "10.2.0.0/24");
        for id in ["n1", "n2"] {
            fake.answer(&format!("/networks/{id}"), answer.clone());
        }
        run(&fake, &["c0", "c1", "c2"]);
        let sockets = [fake.socket.with_file_name("absent.sock"), fake.socket.clone()];
        let reconciling = Reconciling::begin(&world, &sockets, Duration::from_secs(3600));
        reconciling.until(|notice| matches!(notice, Notice::Reached { .. }));
        for (place, report) in reports.iter().enumerate() {
            fake.report(report);
            // What it hears later is done later.
            for later in [place, place + 1] {
                fake.report(&started(&format!("c{later}"), &json!({})));
                fake.wait_in_all(&inspect_of(&format!("c{later}")), 1);
            }
        }
        let asked = fake.asked();
        let titles = asked.iter().filter(|path| path.starts_with("/networks/")).count();
        assert_eq!(titles, 1, "{asked:?}");
    }
}
