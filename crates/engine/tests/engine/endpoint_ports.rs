//! Published ports: who serves them in each family, who is refused, and which number is free.

use super::common::request;
use super::endpoint_world::*;
use engine::{Engine, OpenPort, Publishing, Siblings};
use model::*;

fn back() -> Network {
    docker("back", "10.1.0.0/29", "fd01::/125")
}

fn show(ports: &[PortMap]) -> Vec<String> {
    ports.iter().map(ToString::to_string).collect()
}

fn served(rig: &Rig) -> Vec<String> {
    let of = |((_, port, host), id): ((Protocol, u16, std::net::IpAddr), AttachmentId)| {
        format!("{host} {port} {}", id.container)
    };
    rig.kernel().ports.into_iter().map(of).collect()
}

/// An endpoint with an IPv4 address only.
fn v4_only(engine: &Engine<'_>, sandbox: &str) -> AttachmentId {
    let network = front();
    engine.networks.enroll(&alias("n", &network), &network).unwrap();
    let made =
        engine.attachments.reserve(&endpoint(&network, "a", &["10.0.0.2/29"]), &id("n")).unwrap();
    engine.attachments.join(&made.id, &joining(sandbox, Handoff::Finish)).unwrap();
    made.id
}

#[test]
fn docker_29_programs_two_endpoints_of_one_container() {
    let rig = Rig::new();
    rig.with(|engine| {
        let wanted = vec![map(Some("127.0.0.1"), 18080), map(None, 18081)];
        let (a, b) = (v4_only(engine, "s"), up(engine, &back(), "b", "s"));
        let plain = publishing(wanted.clone(), Siblings::TakeOver);
        // The order of the recorded calls: the gateway of IPv4 again, then that of IPv6, marked.
        engine.attachments.publish(&a, &plain).unwrap();
        engine.attachments.publish(&a, &plain).unwrap();
        let reported =
            engine.attachments.publish(&b, &publishing(wanted, Siblings::GiveWay)).unwrap();
        assert_eq!(show(&reported), ["[::]:18081->80/tcp"]);
        assert_eq!(served(&rig), ["127.0.0.1 18080 a", "0.0.0.0 18081 a", ":: 18081 b"]);
        engine.attachments.unpublish(&b).unwrap();
        engine.attachments.publish(&a, &plain).unwrap();
        assert_eq!(served(&rig), ["127.0.0.1 18080 a", "0.0.0.0 18081 a"]);
    });
}

#[test]
fn the_last_call_wins_and_takes_exactly_what_it_serves() {
    let rig = Rig::new();
    rig.with(|engine| {
        let (a, b) = (up(engine, &front(), "a", "s"), up(engine, &back(), "b", "s"));
        let two = publishing(vec![map(None, 80), map(None, 90)], Siblings::TakeOver);
        let one = publishing(vec![map(None, 80)], Siblings::TakeOver);
        engine.attachments.publish(&a, &two).unwrap();
        rig.calls();
        engine.attachments.publish(&b, &one).unwrap();
        let lost = "publish of a 0.0.0.0:80->80/tcp [::]:80->80/tcp";
        let gained = "publish of b 0.0.0.0:80->80/tcp [::]:80->80/tcp";
        // What limits all ports of the loser stays with the other one.
        assert_eq!(rig.calls(), [format!("withdraw_ports {lost}"), format!("attach {gained}")]);
        assert_eq!(served(&rig), ["0.0.0.0 80 b", ":: 80 b", "0.0.0.0 90 a", ":: 90 a"]);
        assert_eq!(engine.attachments.published(&a).unwrap().len(), 2);
        // What it had taken over is not given back: Docker programs the other one again.
        engine.attachments.unpublish(&b).unwrap();
        assert_eq!(served(&rig), ["0.0.0.0 90 a", ":: 90 a"]);
        engine.attachments.publish(&a, &two).unwrap();
        assert_eq!(served(&rig).len(), 4);
        assert_eq!(engine.records.ports().unwrap().len(), 2);
    });
}

#[test]
fn a_sibling_that_loses_everything_has_no_record_left() {
    let rig = Rig::new();
    rig.with(|engine| {
        let (a, b) = (up(engine, &front(), "a", "s"), up(engine, &back(), "b", "s"));
        let one = publishing(vec![map(None, 80)], Siblings::TakeOver);
        engine.attachments.publish(&a, &one).unwrap();
        engine.attachments.publish(&b, &one).unwrap();
        assert!(engine.attachments.published(&a).unwrap().is_empty());
        assert_eq!(engine.records.attachments().unwrap().len(), 3);
        for id in [&b, &a] {
            engine.attachments.leave(id).unwrap();
            engine.links.remove(id).unwrap();
        }
        assert!(engine.records.ports().unwrap().is_empty() && served(&rig).is_empty());
    });
}

#[test]
fn siblings_that_take_from_each_other_do_not_wait_for_each_other() {
    let rig = Rig::new();
    let (a, b) = rig.with(|engine| (up(engine, &front(), "a", "s"), up(engine, &back(), "b", "s")));
    let one = publishing(vec![map(None, 80)], Siblings::TakeOver);
    std::thread::scope(|scope| {
        for id in [&a, &b, &a, &b] {
            let (rig, one) = (&rig, &one);
            scope.spawn(move || {
                rig.with(|engine| {
                    for _ in 0..100 {
                        assert_eq!(engine.attachments.publish(id, one).unwrap().len(), 2);
                    }
                });
            });
        }
    });
    rig.with(|engine| {
        let claims: usize =
            engine.records.ports().unwrap().iter().map(|(.., claims)| claims.len()).sum();
        assert_eq!((claims, served(&rig).len()), (2, 2));
    });
}

#[test]
fn a_port_of_another_container_is_refused_until_that_is_dead() {
    let rig = Rig::new();
    rig.with(|engine| {
        let a = up(engine, &front(), "a", "s");
        // A pod of another runtime has it.
        let mut pod = request(&back(), "pod");
        pod.network.runtime = Runtime::Podman;
        pod.wiring.publish =
            Some(publishing(vec![map(Some("0.0.0.0"), 80)], Siblings::TakeOver).publish);
        let pod = engine.attachments.attach(&pod).unwrap();
        let wanted = publishing(vec![map(None, 80)], Siblings::TakeOver);
        let error = engine.attachments.publish(&a, &wanted).unwrap_err();
        assert_eq!(error.kind(), Kind::Conflict);
        let said = error.to_string();
        assert!(
            said.contains("held by container pod") && said.contains("runtime podman"),
            "{said}"
        );
        assert!(engine.attachments.published(&a).unwrap().is_empty());
        rig.gone.lock().unwrap().insert(pod.id);
        engine.attachments.publish(&a, &wanted).unwrap();
        assert_eq!(served(&rig), ["0.0.0.0 80 a", ":: 80 a"]);
    });
}

#[test]
fn another_sandbox_is_no_sibling() {
    let rig = Rig::new();
    rig.with(|engine| {
        let (a, b) = (up(engine, &front(), "a", "s"), up(engine, &back(), "b", "t"));
        let one = publishing(vec![map(None, 80)], Siblings::TakeOver);
        engine.attachments.publish(&a, &one).unwrap();
        let error = engine.attachments.publish(&b, &one).unwrap_err();
        assert!(error.to_string().contains("container a"), "{error}");
        // Another address of the host is another port.
        let one = |host| publishing(vec![map(Some(host), 81)], Siblings::TakeOver);
        engine.attachments.publish(&a, &one("127.0.0.1")).unwrap();
        engine.attachments.publish(&b, &one("127.0.0.2")).unwrap();
        assert_eq!(served(&rig), ["127.0.0.1 81 a", "127.0.0.2 81 b"]);
    });
}

#[test]
fn what_replaces_keeps_what_stays_and_fails_whole() {
    let rig = Rig::new();
    rig.with(|engine| {
        let a = up(engine, &front(), "a", "s");
        let of = |ports: &[u16]| {
            let ports = ports.iter().map(|port| map(Some("0.0.0.0"), *port)).collect();
            publishing(ports, Siblings::TakeOver)
        };
        engine.attachments.publish(&a, &of(&[80, 81])).unwrap();
        rig.calls();
        engine.attachments.publish(&a, &of(&[81, 82])).unwrap();
        assert_eq!(rig.calls()[0], "withdraw_ports publish of a 0.0.0.0:80->80/tcp");
        assert_eq!(served(&rig), ["0.0.0.0 81 a", "0.0.0.0 82 a"]);
        rig.listens.lock().unwrap().insert(83);
        let error = engine.attachments.publish(&a, &of(&[82, 83])).unwrap_err();
        assert!(error.to_string().contains("listens"), "{error}");
        assert_eq!(served(&rig), ["0.0.0.0 81 a", "0.0.0.0 82 a"]);
        assert_eq!(engine.records.ports().unwrap().len(), 2);
        engine.attachments.publish(&a, &of(&[])).unwrap();
        assert!(served(&rig).is_empty() && engine.records.ports().unwrap().is_empty());
        assert_eq!(engine.records.attachments().unwrap().len(), 1);
        let twice = publishing(vec![map(None, 80), map(Some("127.0.0.1"), 80)], Siblings::TakeOver);
        assert_eq!(engine.attachments.publish(&a, &twice).unwrap_err().kind(), Kind::Conflict);
    });
}

fn any(first: u16, last: u16) -> Publishing {
    Publishing { open: vec![open(first, last)], ..publishing(Vec::new(), Siblings::TakeOver) }
}

#[test]
fn a_number_is_chosen_and_kept() {
    let rig = Rig::new();
    rig.with(|engine| {
        let (a, b) = (up(engine, &front(), "a", "s"), up(engine, &back(), "b", "t"));
        rig.listens.lock().unwrap().insert(32768);
        let reported = engine.attachments.publish(&a, &any(32768, 32770)).unwrap();
        assert_eq!(show(&reported), ["0.0.0.0:32769->80/tcp", "[::]:32769->80/tcp"]);
        let reported = engine.attachments.publish(&b, &any(32768, 32770)).unwrap();
        assert_eq!(show(&reported), ["0.0.0.0:32770->80/tcp", "[::]:32770->80/tcp"]);
        rig.listens.lock().unwrap().clear();
        let again = engine.attachments.publish(&b, &any(32768, 32770)).unwrap();
        assert_eq!(again, reported, "the same call gives the same number");
        let two = Publishing {
            open: vec![open(32768, 32769), open(32768, 32769)],
            ..publishing(vec![map(None, 7)], Siblings::TakeOver)
        };
        assert_eq!(engine.attachments.publish(&b, &two).unwrap_err().kind(), Kind::Exhausted);
        assert_eq!(engine.attachments.published(&b).unwrap(), reported, "what it had it has");
    });
}

/// An image that exposes a range of media ports, with `docker run -P`.
#[test]
fn thousands_of_ports_are_chosen_in_one_go() {
    let rig = Rig::new();
    rig.with(|engine| {
        let a = v4_only(engine, "s");
        let ports = 1..=2_000u16;
        let open = |port: u16| OpenPort {
            container_port: port.try_into().unwrap(),
            ..open(32_768, 60_999)
        };
        let wanted = Publishing {
            open: ports.clone().map(open).collect(),
            ..publishing(Vec::new(), Siblings::TakeOver)
        };
        let first = engine.attachments.publish(&a, &wanted).unwrap();
        let numbers: Vec<u16> = first.iter().map(|map| map.host_port.get()).collect();
        assert_eq!(numbers, ports.map(|port| 32_767 + port).collect::<Vec<_>>());
        assert_eq!(
            engine.attachments.publish(&a, &wanted).unwrap(),
            first,
            "each keeps its number"
        );
    });
}

#[test]
fn what_is_in_the_way_is_called_by_its_container_s_name() {
    let rig = Rig::new();
    rig.with(|engine| {
        let (a, b) = (up(engine, &front(), "a", "s"), up(engine, &back(), "b", "t"));
        let port = publishing(vec![map(None, 80)], Siblings::TakeOver);
        engine.attachments.publish(&a, &port).unwrap();
        engine.attachments.set_owner(&a, &"web".parse().unwrap()).unwrap();
        let said = |error: Error| error.to_string();
        let error = said(engine.attachments.publish(&b, &port).unwrap_err());
        assert!(
            error.contains("held by container web (eth0) on network front (runtime"),
            "{error}"
        );
        let other = endpoint(&front(), "c", &["10.0.0.2/29"]);
        let error = said(engine.attachments.reserve(&other, &id("id-front")).unwrap_err());
        assert!(
            error.contains("held by container web (eth0) on network front (runtime"),
            "{error}"
        );
        let error = said(engine.networks.remove(&front().name, false).unwrap_err());
        assert!(error.contains("still has an attachment, container web (eth0)"), "{error}");
    });
}
