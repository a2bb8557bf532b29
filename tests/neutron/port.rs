//! What a plugin of CNI makes of Neutron's ports: how often it asks, and what is left when it is killed
//! or when Neutron is away.

use std::process::Command;

use serde_json::{Value, json};
use tests::fault_proxy::{Fault, Gate};
use tests::neutron_lab::ApiLab;
use tests::{Answer, Cni, Plugins, Running, World};

use crate::bed::{Host, Tenancy, host_name, text, verbs};

/// A host without Docker, and a network with a subnet of each family.
struct Rig {
    // Before the world, in which its daemon is.
    host: Host,
    world: World,
}

impl Rig {
    #[track_caller]
    fn new() -> Self {
        let project = ApiLab::shared().project();
        let (front, _) = project.network("front", "10.160.0.0/24");
        project.subnet(&front, "six", "fd60::/64");
        let name = host_name(&project);
        let world = World::new(&Plugins::subject());
        let place = Tenancy { project: &project, name: &name, extra: "", ovn: None };
        Self { host: Host::on(&world, place), world }
    }

    #[track_caller]
    fn is_clean(&self) {
        assert_eq!(self.host.changes(), Vec::<String>::new());
        assert_eq!(self.host.switch.ports(), Vec::<String>::new());
        let listed = self.world.sh(&format!("{}/spoke ps -o json", Plugins::MOUNT));
        assert_eq!(listed.trim(), "[]");
        assert_eq!(self.world.sh("ip -o link | grep -c tap || true").trim(), "0");
    }
}

fn list(neutron: &Value) -> Value {
    json!({"name": "front", "cniVersion": "1.0.0",
        "plugins": [{"type": "spoke", "driver": "neutron", "neutron": neutron}]})
}

fn front() -> Value {
    list(&json!({"network": "front"}))
}

/// What the list's only plugin gets.
fn stdin() -> String {
    json!({"name": "front", "cniVersion": "1.0.0", "type": "spoke", "driver": "neutron",
        "neutron": {"network": "front"}})
    .to_string()
}

#[track_caller]
fn add(cni: &mut Cni<'_>) -> Value {
    let answer = cni.add(&front()).remove(0);
    assert!(answer.ok(), "{answer:?}");
    answer.json().expect("a result")
}

#[track_caller]
fn del(cni: &Cni<'_>) {
    let answer = cni.del(&front()).remove(0);
    assert!(answer.ok(), "{answer:?}");
}

#[test]
fn two_containers_reach_each_other_with_two_requests_each() {
    let rig = Rig::new();
    let mut ends = ["one", "two"].map(|id| Cni::container(&rig.world, id));
    add(&mut ends[0]);
    rig.host.named(&rig.world);
    rig.host.proxy.take();
    let result = add(&mut ends[1]);
    rig.host.named(&rig.world);
    assert_eq!(verbs(&rig.host.proxy.take()), ["POST ports", "PUT ports tags"]);
    let ips = result["ips"].as_array().expect("addresses");
    assert_eq!(ips.len(), 2, "{result}");
    assert!(rig.host.switch.ports().len() == 2, "{:?}", rig.host.switch.ports());
    for ip in ips {
        let address = text(ip, "address");
        let address = address.split('/').next().expect("an address");
        let ping =
            format!("timeout 20 sh -c 'until ping -c 1 -W 1 {address}; do sleep 0.05; done'");
        rig.world.sh(&format!("ip netns exec one {ping}"));
    }
    let routes = rig.world.sh("ip -n one route; ip -n one -6 route");
    assert_eq!(routes.matches("default via").count(), 2, "{routes}");
    let answer = ends[1].check(&front()).remove(0);
    assert!(answer.ok(), "{answer:?}");
    rig.host.proxy.take();
    del(&ends[1]);
    assert_eq!(verbs(&rig.host.proxy.take()), ["DELETE ports"]);
    // Again, and without its namespace.
    del(&ends[1]);
    rig.world.sh("ip netns delete one");
    del(&ends[0]);
    rig.is_clean();
}

#[test]
fn whenever_the_plugin_is_killed_one_del_leaves_nothing() {
    let rig = Rig::new();
    let mut cni = Cni::container(&rig.world, "c");
    add(&mut cni);
    del(&cni);
    rig.host.proxy.take();
    add(&mut cni);
    rig.host.named(&rig.world);
    let calls = rig.host.proxy.take().len();
    del(&cni);
    for nth in 1..=calls {
        for (what, deletes) in [("DEL", true), ("ADD and DEL", false)] {
            // Neutron has done it, and no caller will hear of it.
            let gate = Gate::default();
            rig.host.proxy.fail("", "/", nth, Fault::HoldReply(gate.clone()));
            let mut adding = Running::start(&cni, &[], "spoke", "ADD", &stdin());
            gate.reached();
            // Whose its port is the daemon says, while the plugin may have ended.
            if let Some(pid) = adding.when(|_| true) {
                let killed = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
                killed.expect("kill is there");
            }
            let was_added = adding.end().ok();
            gate.open();
            rig.host.proxy.heal();
            if !deletes {
                let again = (!was_added).then(|| cni.add(&front()).remove(0));
                // It was killed after its work was done.
                let is_whole = |answer: &Answer| answer.output.stdout.contains("already exists");
                assert!(again.is_none_or(|it| it.ok() || is_whole(&it)), "{what} after call {nth}");
                let ports = rig.host.project.list("ports", "device_owner=compute:kuryr");
                assert_eq!(ports.len(), 1, "{what} after call {nth}: {ports:#?}");
            }
            del(&cni);
            let changes = rig.host.changes();
            assert!(changes.is_empty(), "{what} after call {nth}: {changes:#?}");
            rig.is_clean();
        }
    }
}

#[test]
fn whatever_neutron_says_an_add_leaves_one_port_or_none() {
    let rig = Rig::new();
    let mut cni = Cni::container(&rig.world, "c");
    add(&mut cni);
    del(&cni);
    for fault in [Fault::DropReply, Fault::Cut, Fault::Answer(500), Fault::AnswerAfter(500)] {
        for nth in 1..=2 {
            rig.host.proxy.fail("", "/", nth, fault.clone());
            let answer = cni.add(&front()).remove(0);
            rig.host.proxy.heal();
            let ports = rig.host.project.list("ports", "device_owner=compute:kuryr").len();
            assert_eq!(ports, usize::from(answer.ok()), "{fault:?} at {nth}: {answer:?}");
            del(&cni);
            rig.is_clean();
        }
    }
}

#[test]
fn while_neutron_is_away_this_host_is_left_clean_and_the_record_stays() {
    let rig = Rig::new();
    let mut cni = Cni::container(&rig.world, "c");
    add(&mut cni);
    rig.host.proxy.fail_always("", "/", Fault::Answer(503));
    let answer = cni.del(&front()).remove(0);
    assert!(!answer.ok(), "{answer:?}");
    assert_eq!(rig.host.switch.ports(), Vec::<String>::new());
    assert_eq!(rig.world.sh("ip -o link | grep -c tap || true").trim(), "0");
    rig.host.proxy.heal();
    del(&cni);
    rig.is_clean();
}

#[test]
fn what_no_record_speaks_of_is_found_by_what_neutron_says() {
    let rig = Rig::new();
    let mut cni = Cni::container(&rig.world, "c");
    add(&mut cni);
    let forgotten = rig.world.sh("find /run/spoke -type f -path '*/attachments/*' -print -delete");
    assert!(!forgotten.is_empty());
    assert_eq!(rig.host.switch.ports().len(), 1);
    del(&cni);
    assert_eq!(rig.host.changes(), Vec::<String>::new());
    assert_eq!(rig.host.switch.ports(), Vec::<String>::new());
    assert_eq!(rig.world.sh("ip -o link | grep -c tap || true").trim(), "0");
}
