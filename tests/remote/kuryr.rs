//! kuryr-libnetwork in front of a real Neutron, called by Spoke as Docker calls it.

use std::fs;
use std::path::PathBuf;

use serde_json::json;
use tests::fault_proxy::FaultProxy;
use tests::neutron::Project;
use tests::neutron_lab::ApiLab;
use tests::neutron_switch::Switch;
use tests::remote_driver::Kuryr;
use tests::{Answer, Cni, Plugins, World};

const PORT: u16 = 9696;

struct Host {
    // Before the world, in which they are.
    kuryr: Kuryr,
    switch: Switch,
    _proxy: FaultProxy,
    world: World,
    project: Project,
}

impl Host {
    #[track_caller]
    fn new() -> Self {
        let project = ApiLab::shared().project();
        let world = World::new(&Plugins::subject());
        let netns = PathBuf::from(format!("/proc/{}/ns/net", world.pid()));
        let proxy = FaultProxy::inside(&netns, PORT, ApiLab::shared().upstream(&project));
        let switch = Switch::start(&world);
        let host = format!("ovs-{}", &project.id()[..8]);
        let kuryr = Kuryr::start(&world, &format!("http://127.0.0.1:{PORT}"), &host);
        fs::create_dir_all(world.path("/etc/spoke")).unwrap();
        Self { kuryr, switch, _proxy: proxy, world, project }
    }
}

#[test]
fn kuryr_libnetwork_by_spoke() {
    let host = Host::new();
    let (world, project) = (&host.world, &host.project);
    let spoke = |arguments: &str| {
        let done = world.try_sh(&format!("{}/spoke {arguments}", Plugins::MOUNT));
        let said = format!("spoke {arguments}\n{}{}", done.stdout, done.stderr);
        assert_eq!(done.status, 0, "{said}\n{}", host.kuryr.log());
        done.stdout
    };
    let before = project.everything();
    spoke(
        "network create --driver upstream --ipam-driver upstream --subnet 10.190.0.0/24 --gateway 10.190.0.1 net",
    );
    assert_eq!(project.list("networks", "").len(), 1);
    let addresses = ["one", "two"].map(|name| {
        world.netns(name);
        spoke(&format!("network connect net {name}"));
        let shown = world.sh(&format!("ip -n {name} -4 -o address show dev eth0"));
        let net = shown.split_whitespace().nth(3).expect("an address").to_owned();
        net.split('/').next().unwrap().to_owned()
    });
    for address in &addresses {
        let port = project.only("ports", &format!("fixed_ips=ip_address%3D{address}"));
        assert_eq!(port["status"], "ACTIVE", "{port}");
        let mac = port["mac_address"].as_str().unwrap();
        assert!(spoke("ps").contains(mac), "{port}");
    }
    assert_eq!(host.switch.ports().len(), 2);
    world.sh(&format!("ip netns exec one busybox ping -c 1 -W 5 {}", addresses[1]));
    let routes = world.sh("ip -n one route");
    assert!(routes.contains("default via 10.190.0.1 dev eth0"), "{routes}");
    // It takes only such sandboxes as Docker names.
    assert_eq!(world.sh("ls /run/docker/netns").lines().count(), 2);
    spoke("network disconnect net one");
    spoke("network disconnect net two");
    spoke("network rm net");
    assert_eq!(world.sh("ls /run/docker/netns"), "");
    assert_eq!(spoke("gc --dry-run -o json").trim(), "[]");
    assert_eq!(host.switch.ports(), Vec::<String>::new());
    let changes = project.everything().changes(&before);
    assert!(changes.is_empty(), "in Neutron:\n{}\n{}", changes.join("\n"), host.kuryr.log());
    host.kuryr.stop();
}

/// A CNI runtime's pod on the network of a driver that takes only Docker's sandboxes.
#[test]
fn kuryr_libnetwork_by_cni() {
    let host = Host::new();
    let (world, project) = (&host.world, &host.project);
    let before = project.everything();
    let spoke = |arguments: &str| world.sh(&format!("{}/spoke {arguments}", Plugins::MOUNT));
    spoke(
        "network create --driver upstream --ipam-driver upstream --subnet 10.191.0.0/24 --gateway 10.191.0.1 net",
    );
    let list = json!({"cniVersion": "1.1.0", "name": "pods", "plugins":
        [{"type": "spoke", "network": "net"}]});
    let mut pod = Cni::container(world, "pod");
    let answers = pod.add(&list);
    assert!(answers.iter().all(Answer::ok), "{answers:?}\n{}", host.kuryr.log());
    let routes = world.sh("ip -n pod route");
    assert!(routes.contains("default via 10.191.0.1 dev eth0"), "{routes}");
    assert!(pod.check(&list).iter().all(Answer::ok));
    // Before its namespace goes: it refuses DeleteEndpoint for ever where its interface is gone.
    assert!(pod.del(&list).iter().all(Answer::ok));
    assert_eq!(world.sh("ls /run/docker/netns"), "");
    spoke("network rm net");
    let changes = project.everything().changes(&before);
    assert!(changes.is_empty(), "in Neutron:\n{}\n{}", changes.join("\n"), host.kuryr.log());
    host.kuryr.stop();
}
