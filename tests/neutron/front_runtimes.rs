//! Networks of Neutron with Docker's driver `spoke` and with Podman 5.

use serde_json::json;
use tests::neutron::id;
use tests::neutron_lab::{Account, ApiLab, FullLab};
use tests::{Podman5, PodmanRelease, Release};

use crate::bed::{Bed, Host, Tenancy, host_name, text};

/// Pings until that comes through: OVN carries out changes soon.
fn ping(address: &str) -> String {
    format!("for n in 1 2 3 4 5 6 7 8 9 10; do ping -c 1 -W 2 {address} && exit 0; done; exit 1")
}

#[test]
fn docker_leaves_addresses_to_neutron() {
    let mut bed = Bed::new(Release::V20_10).expect("Docker 20.10 is Debian 12's");
    let project = bed.host.project.clone();
    project.network("front", "10.150.0.0/24");
    bed.host.start_from_here();
    bed.refused(
        "network create -d spoke -o driver=neutron -o neutron.network=front net",
        &["--ipam-driver null"],
    );
    bed.docker(
        "network create -d spoke --ipam-driver null -o driver=neutron -o neutron.net.name=front net",
    );
    for name in ["one", "two"] {
        bed.run(&format!("--name {name} --network net"));
    }
    let addresses = ["one", "two"].map(|name| {
        let shown = bed.inside(name, "ip -4 -o addr show eth0");
        let net = shown.split_whitespace().nth(3).expect("an address").to_owned();
        net.split('/').next().unwrap().to_owned()
    });
    for address in &addresses {
        let port = project.only("ports", &format!("fixed_ips=ip_address%3D{address}"));
        assert_eq!(text(&port, "binding:host_id"), bed.host.name);
    }
    bed.inside("one", &ping(&addresses[1]));
    let routes = bed.inside("one", "ip route");
    assert!(routes.contains("default via 10.150.0.1 dev eth0"), "{routes}");
    let listed = bed.world().sh("/opt/cni/bin/spoke ps");
    assert_eq!(listed.matches("neutron:").count(), 2, "{listed}");
    bed.docker("restart -t 0 two");
    bed.remove("one two");
    bed.docker("network rm net");
    bed.is_clean();
}

/// A host with a Podman.
struct Pods {
    // Before the world, in which its daemons are.
    host: Host,
    podman: Podman5,
}

impl Pods {
    #[track_caller]
    fn new(release: PodmanRelease, place: Tenancy<'_>) -> Option<Self> {
        let podman = Podman5::new(release)?;
        let host = Host::on(&podman.world, place);
        Some(Self { host, podman })
    }

    #[track_caller]
    fn is_clean(&self) {
        self.podman.spoke("gc");
        self.host.is_clean(&self.podman.world);
    }
}

#[track_caller]
fn podman_on_neutron(release: PodmanRelease) {
    let project = ApiLab::shared().project();
    let name = host_name(&project);
    let place = Tenancy { project: &project, name: &name, extra: "", ovn: None };
    let Some(mut pods) = Pods::new(release, place) else { return };
    project.network("front", "10.151.0.0/24");
    project.network("back", "10.152.0.0/24");
    pods.host.start_from_here();
    let podman = &pods.podman;
    let said = podman.refused("network create -d spoke -o driver=neutron net");
    assert!(said.contains("neutron.network="), "{said}");
    podman.podman(
        "network create -d spoke -o driver=neutron -o neutron.network=front \
         --subnet 10.151.0.0/24 net",
    );
    podman.podman("network create -d spoke -o neutron.network=back other");
    podman.run("one", "--network net --ip 10.151.0.77 --mac-address 02:00:00:00:00:77", "");
    podman.run("two", "--network net:interface_name=eth0 --network other:interface_name=eth1", "");
    assert_eq!(podman.endpoint("one", "net")["IPAddress"], "10.151.0.77");
    let port = project.only("ports", "fixed_ips=ip_address%3D10.151.0.77");
    assert_eq!(port["mac_address"], "02:00:00:00:00:77");
    podman.podman(&format!("exec two /bin/sh -c '{}'", ping("10.151.0.77")));
    let routes = podman.podman("exec two ip route");
    let ways: Vec<&str> = routes.lines().filter(|line| line.starts_with("default")).collect();
    assert!(ways.len() == 2 && ways.iter().any(|way| way.contains("metric 1")), "{routes}");
    let said = podman.run_refused("--network net --ip 10.151.0.77");
    assert!(said.contains("10.151.0.77 is held by"), "{said}");
    podman.podman("restart -t 0 one");
    assert_eq!(podman.endpoint("one", "net")["IPAddress"], "10.151.0.77");
    podman.podman("rm -f -t 0 one two");
    podman.podman("network rm net other");
    pods.is_clean();
}

#[test]
fn podman_5_4() {
    podman_on_neutron(PodmanRelease::V5_4);
}

#[test]
fn podman_5_8() {
    podman_on_neutron(PodmanRelease::V5_8);
}

/// One host with Docker, another with Podman 5, and OVN between them.
#[track_caller]
fn together(lab: &FullLab, account: &Account) {
    let project = &account.project;
    let (network, _) = project.network("shared", "10.153.0.0/24");
    let names = ["dock", "pods"].map(|host| format!("{host}-{}", &project.id()[..8]));
    let place =
        |n: usize| Tenancy { project, name: &names[n], extra: "", ovn: Some((lab, account)) };
    let Some(mut pods) = Pods::new(PodmanRelease::V5_4, place(1)) else { return };
    let mut bed = Bed::of(Release::V20_10, place(0)).expect("Docker 20.10 is Debian 12's");
    bed.host.start_from_here();
    pods.host.start_from_here();
    let asking = "-o driver=neutron -o neutron.network";
    bed.docker(&format!("network create -d spoke --ipam-driver null {asking}={network} net"));
    pods.podman.podman(&format!("network create -d spoke {asking}={network} net"));
    bed.run("--name one --network net");
    pods.podman.run("two", "--network net", "");
    let theirs = text(&pods.podman.endpoint("two", "net"), "IPAddress");
    bed.inside("one", &ping(&theirs));
    let port = project.only("ports", &format!("fixed_ips=ip_address%3D{theirs}"));
    project.until(&format!("/ports/{}", id(&port)), |port| port["port"]["status"] == "ACTIVE");
    let serve = "/bin/busybox nc -l -p 80 </www/index.html";
    pods.podman.podman(&format!("exec -d two /bin/sh -c '{serve}'"));
    let read = format!(
        "for n in 1 2 3 4 5 6 7 8 9 10; do
             page=$(nc -w 5 {theirs} 80 </dev/null) && echo $page && exit 0; sleep 1
         done; exit 1"
    );
    assert_eq!(bed.inside("one", &read), "a page");
    // Each has another hardware address, and is answered at once.
    for name in ["three", "four"] {
        pods.podman.run(name, "--network net --ip 10.153.0.60", "");
        pods.podman.podman(&format!("exec {name} ping -c 1 -W 1 {theirs}"));
        pods.podman.podman(&format!("rm -f -t 0 {name}"));
    }
    pods.podman.podman("rm -f -t 0 two");
    pods.podman.podman("network rm net");
    bed.remove("one");
    bed.docker("network rm net");
    let query = format!("network_id={network}&device_owner=compute:kuryr");
    assert_eq!(project.list("ports", &query), [json!(null); 0]);
    pods.is_clean();
    bed.is_clean();
}

#[test]
fn docker_and_podman_5_on_two_hosts_of_ovn() {
    let Some(lab) = FullLab::running() else { return };
    let account = lab.account();
    together(&lab, &account);
}
