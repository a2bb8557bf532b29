//! Podman 4 and Podman 5 on one host.

use serde_json::json;
use tests::{Cgroup, Podman, Podman5, PodmanRelease, Serve};

use crate::bed::{SPOKE, ask, prepare, until_answers};

/// Everybody's name, and address.
const MEMBERS: [(&str, &str); 3] =
    [("four", "10.75.1.14"), ("five", "10.75.1.15"), ("line", "10.75.1.16")];

/// Podman 4 knows the network by CNI's list, Podman 5 by itself, and both find each other's containers by name, alias
/// and full name.
#[test]
fn podman_4_and_podman_5_find_each_other() {
    let Some(podman) = Podman5::new(PodmanRelease::V5_4) else { return };
    let (world, cgroup) = (&podman.world, Cgroup::new());
    prepare(world);
    let serve = Serve::start(world, &[]);
    podman.spoke("network create --names --subnet 10.75.1.0/24 front");
    podman.podman("network create -d spoke -o network=front --subnet 10.75.1.0/24 front");
    podman.run("five", "--network front:ip=10.75.1.15,alias=five-alias", "");
    Podman::set_up_beside(world);
    let list = json!({"cniVersion": "1.0.0", "name": "pods", "plugins": [
        {"type": "spoke", "network": "front", "capabilities": {"aliases": true, "ips": true}},
    ]});
    world.sh(&format!("cat >{}/net.d/pods.conflist <<'LIST'\n{list}\nLIST", Podman::BESIDE));
    let own =
        format!("--cgroup-parent /{} --network pods:ip=10.75.1.14,alias=four-alias", cgroup.name());
    Podman::run_beside(world, &format!("run -d --name four {own} {}", Podman::IMAGE));
    world.netns("line");
    world.sh(&format!("{SPOKE} network connect --ip 10.75.1.16 --alias line-alias front line"));
    until_answers(world, "10.75.1.1");

    let key = "inspect --format {{.NetworkSettings.SandboxKey}}";
    let namespaces = [
        Podman::run_beside(world, &format!("{key} four")),
        podman.podman(&format!("{key} five")),
        "/run/netns/line".to_owned(),
    ];
    let asked = |place: usize, name: &str| ask(world, namespaces[place].trim(), "10.75.1.1", name);
    for (place, (from, _)) in MEMBERS.iter().enumerate() {
        for (to, address) in MEMBERS {
            for name in [to.to_owned(), format!("{to}-alias"), format!("{to}.front.spoke")] {
                let said = asked(place, &name);
                assert!(said.contains(address), "{from} asks {name}: {said}\n{}", serve.log());
            }
        }
        let said = asked(place, "outside.example");
        assert!(said.contains("192.0.2.7"), "{from} asks elsewhere: {said}");
    }
    podman.podman("rm -f -t 0 five");
    let said = asked(0, "five.front.spoke");
    assert!(!said.contains("10.75.1.15"), "Podman 4 asks for what is gone: {said}");
    Podman::run_beside(world, "rm -f -t 0 four");
    let said = asked(2, "four.front.spoke");
    assert!(!said.contains("10.75.1.14"), "the command line asks for what is gone: {said}");
}
