//! One network for the containers of every runtime: Docker's, Podman's, and CNI's.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::{Value, json};
use tests::{Cni, Podman, Release, World};

use crate::bed::Bed;

/// A network configuration that joins the network of a name.
fn joining(network: &str) -> Value {
    json!({"cniVersion": "1.0.0", "name": "pods", "plugins": [
        {"type": "spoke", "network": network, "capabilities": {"portMappings": true, "mac": true}},
    ]})
}

/// Everybody who is on one network: the way to each, and its address.
struct Crowd<'a> {
    bed: &'a Bed,
    members: Vec<(Member, String)>,
}

enum Member {
    Docker(String),
    Podman(String),
    Cni(String),
}

impl<'a> Crowd<'a> {
    fn new(bed: &'a Bed) -> Self {
        Self { bed, members: Vec::new() }
    }

    /// A container of Docker's.
    #[track_caller]
    fn docker(&mut self, name: &str, network: &str) {
        self.bed.run(&format!("--name {name} --network {network}"));
        self.bed.truth(name, network);
        self.members.push((Member::Docker(name.into()), self.bed.address(name, network)));
    }

    /// A container of Podman's, which knows the network as `network`.
    #[track_caller]
    fn podman(&mut self, name: &str, network: &str) {
        let (world, cgroup, image) = (self.bed.world(), self.bed.engine.cgroup(), Podman::IMAGE);
        let run = format!("run -d --name {name} --cgroup-parent /{cgroup} --network {network}");
        Podman::run(world, &format!("{run} {image}"));
        let format = format!("{{{{(index .NetworkSettings.Networks \"{network}\").IPAddress}}}}");
        let address = Podman::run(world, &format!("inspect {name} --format '{format}'"));
        self.members.push((Member::Podman(name.into()), address.trim().to_owned()));
    }

    /// A network namespace that joins by `list`.
    #[track_caller]
    fn cni(&mut self, name: &str, list: &Value) -> Cni<'a> {
        let mut cni = Cni::container(self.bed.world(), name);
        let answers = cni.add(list);
        assert!(answers.iter().all(tests::Answer::ok), "{answers:?}");
        let result = cni.result.clone().expect("a result");
        let address = result["ips"][0]["address"].as_str().expect("an address");
        let address = address.split('/').next().expect("an address").to_owned();
        self.members.push((Member::Cni(name.into()), address));
        cni
    }

    /// That everybody reaches everybody, and that each address was given once.
    #[track_caller]
    fn is_one_network(&self) {
        let addresses: BTreeSet<&String> =
            self.members.iter().map(|(_, address)| address).collect();
        assert_eq!(addresses.len(), self.members.len(), "{addresses:?}");
        for (from, own) in &self.members {
            for (_, to) in self.members.iter().filter(|(_, to)| to != own) {
                self.ping(from, to);
            }
        }
        let reported = self.bed.spoke("ps");
        for (_, address) in &self.members {
            assert!(reported.contains(&format!("{address}/")), "{address}:\n{reported}");
        }
    }

    #[track_caller]
    fn ping(&self, from: &Member, to: &str) {
        match from {
            Member::Docker(name) => self.bed.engine.ping(name, to),
            Member::Podman(name) => {
                Podman::run(self.bed.world(), &format!("exec {name} /bin/ping -c 1 -W 3 {to}"));
            }
            Member::Cni(name) => ping_from(self.bed.world(), name, to),
        }
    }
}

/// With this host's ping: not every world has one.
#[track_caller]
fn ping_from(world: &World, netns: &str, to: &str) {
    let netns = world.path(&format!("/run/netns/{netns}"));
    let mut ping = Command::new("nsenter");
    ping.arg(format!("--net={}", netns.display())).args(["ping", "-c", "1", "-W", "3", to]);
    let done = ping.output().expect("nsenter starts");
    assert!(done.status.success(), "{to}: {}", String::from_utf8_lossy(&done.stdout));
}

/// Makes `list` a network of Podman's.
#[track_caller]
fn tell_podman(world: &World, list: &Value) {
    let name = list["name"].as_str().expect("a name");
    world.sh(&format!("cat >/run/stage/net.d/{name}.conflist <<'LIST'\n{list}\nLIST"));
}

#[track_caller]
fn left(cni: &Cni<'_>, list: &Value) {
    let answers = cni.del(list);
    assert!(answers.iter().all(tests::Answer::ok), "{answers:?}");
}

#[test]
fn made_by_spoke() {
    let Some(bed) = Bed::new(Release::V20_10) else { return };
    Podman::set_up(bed.world());
    bed.spoke("network create --subnet 10.80.0.0/24 front");
    let list = joining("front");
    tell_podman(bed.world(), &list);
    bed.network("--ipam-opt network=front front");
    let mut crowd = Crowd::new(&bed);
    crowd.docker("one", "front");
    crowd.podman("two", "pods");
    let three = crowd.cni("three", &list);
    crowd.docker("four", "front");
    crowd.is_one_network();
    assert_eq!(bed.end("one", "front", "Gateway"), "10.80.0.1");
    let refused = bed.world().try_sh("/opt/cni/bin/spoke network rm front");
    assert_ne!(refused.status, 0, "a container is on it");

    left(&three, &list);
    Podman::run(bed.world(), "rm -f -t 0 two");
    bed.engine.ping("one", "four");
    bed.remove("one four");
    bed.docker("network rm front");
    let listed = bed.spoke("network ls");
    assert!(listed.contains("front"), "it is Spoke's: {listed}");
    bed.spoke("network rm front");
    bed.is_clean();
}

/// The others find it by the name that Docker's user gave to it.
#[track_caller]
fn made_by_docker(release: Release) {
    let Some(bed) = Bed::new(release) else { return };
    bed.network("--subnet 10.80.1.0/24 front");
    bed.until("/opt/cni/bin/spoke network inspect front >/dev/null 2>&1");
    let list = joining("front");
    let mut crowd = Crowd::new(&bed);
    crowd.docker("one", "front");
    if release == Release::V20_10 {
        Podman::set_up(bed.world());
        tell_podman(bed.world(), &list);
        crowd.podman("two", "pods");
    }
    let three = crowd.cni("three", &list);
    crowd.docker("four", "front");
    crowd.is_one_network();

    // Docker forgets it, and another network gets the name: who is on it stays, and leaves it.
    bed.remove("one four");
    bed.docker("network rm front");
    bed.network("--subnet 10.80.2.0/24 front");
    bed.until("/opt/cni/bin/spoke network inspect front | grep -q 10.80.2.0");
    ping_from(bed.world(), "three", "10.80.1.1");
    left(&three, &list);
    assert!(!bed.spoke("ps").contains("three"), "{}", bed.spoke("ps"));
    if release == Release::V20_10 {
        Podman::run(bed.world(), "rm -f -t 0 two");
    }
    bed.docker("network rm front");
    bed.spoke("network rm docker-10.80.1.0-24");
    bed.world().sh("ip netns del three");
    bed.is_clean();
}

#[test]
fn made_by_docker_20_10() {
    made_by_docker(Release::V20_10);
}

#[test]
fn made_by_docker_28_5() {
    made_by_docker(Release::V28_5);
}

#[test]
fn made_by_cni() {
    let Some(bed) = Bed::new(Release::V20_10) else { return };
    Podman::set_up(bed.world());
    let made = json!({"cniVersion": "1.0.0", "name": "front", "plugins": [
        {"type": "spoke", "ipam": {"ranges": [[{"subnet": "10.80.3.0/24"}]]},
         "capabilities": {"portMappings": true}},
    ]});
    tell_podman(bed.world(), &made);
    let mut crowd = Crowd::new(&bed);
    let one = crowd.cni("one", &made);
    // Docker refuses a subnet that it did not name and that this host has a route to.
    let wrong = "network create -d spoke --ipam-driver spoke --ipam-opt network=front front";
    bed.refused(wrong, &["--subnet 10.80.3.0/24"]);
    bed.network("--ipam-opt network=front --subnet 10.80.3.0/24 front");
    crowd.docker("two", "front");
    crowd.podman("three", "front");
    let four = crowd.cni("four", &joining("front"));
    crowd.is_one_network();

    left(&one, &made);
    Podman::run(bed.world(), "rm -f -t 0 three");
    bed.engine.ping("two", "10.80.3.1");
    left(&four, &joining("front"));
    bed.remove("two");
    bed.docker("network rm front");
    bed.spoke("network rm front");
    bed.is_clean();
}
