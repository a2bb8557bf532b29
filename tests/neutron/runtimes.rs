//! Other runtimes on a Neutron network, beside Docker.

use serde_json::{Value, json};
use tests::neutron::id;
use tests::neutron_lab::FullLab;
use tests::{Podman, Release};

use crate::bed::{Bed, Tenancy};

/// A Podman container on Neutron's network, with CNI; its address.
#[track_caller]
fn podman(bed: &Bed, network: &str, name: &str) -> String {
    let world = bed.world();
    Podman::set_up(world);
    let list = json!({
        "cniVersion": "1.0.0",
        "name": "cloud",
        "plugins": [{"type": "spoke", "driver": "neutron", "neutron": {"network": network}}],
    });
    world.sh(&format!("cat >/run/stage/net.d/cloud.conflist <<'CNI'\n{list}\nCNI"));
    let (cgroup, image) = (bed.engine.cgroup(), Podman::IMAGE);
    Podman::run(
        world,
        &format!("run -d --name {name} --cgroup-parent /{cgroup} --network cloud {image}"),
    );
    let said: Value =
        serde_json::from_str(&Podman::run(world, &format!("inspect {name}"))).unwrap();
    let end = &said[0]["NetworkSettings"]["Networks"]["cloud"];
    end["IPAddress"].as_str().unwrap_or_else(|| panic!("no address: {end}")).to_owned()
}

#[track_caller]
fn together(mut bed: Bed) {
    let project = bed.host.project.clone();
    let (network, _) = project.network("operators", "10.170.0.0/24");
    bed.host.start_from_here();
    bed.network(&format!(
        "--subnet 10.170.0.0/24 --gateway 10.170.0.1 -o neutron.net.uuid={network} net"
    ));
    bed.run("--name one --network net");
    let theirs = podman(&bed, &network, "two");
    let ours = bed.end("one", "net", "IPAddress");
    assert_ne!(ours, theirs);
    let port = project.only("ports", &format!("fixed_ips=ip_address%3D{theirs}"));
    assert_eq!(port["device_owner"], "compute:kuryr");
    project.until(&format!("/ports/{}", id(&port)), |port| port["port"]["status"] == "ACTIVE");
    let ping = |address: &str| {
        format!(
            "for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do ping -c 1 -W 1 {address} && exit 0; done; exit 1"
        )
    };
    bed.inside("one", &ping(&theirs));
    Podman::run(bed.world(), &format!("exec two /bin/sh -c '{}'", ping(&ours)));
    Podman::run(bed.world(), "rm -f -t 0 two");
    // A network of CNI's is known from its first container on, until `gc`.
    bed.world().sh("/opt/cni/bin/spoke gc");
    bed.remove("one");
    bed.docker("network rm net");
    bed.is_clean();
}

#[test]
fn docker_and_podman_share_a_network() {
    together(Bed::new(Release::V20_10).expect("Docker 20.10 is Debian 12's"));
}

#[test]
fn docker_and_podman_share_a_network_of_ovns() {
    let Some(lab) = FullLab::running() else { return };
    let account = lab.account();
    let name = format!("both-{}", &account.project.id()[..8]);
    let (project, ovn) = (&account.project, Some((&lab, &account)));
    let place = Tenancy { project, name: &name, extra: "", ovn };
    together(Bed::of(Release::V20_10, place).expect("Docker 20.10 is Debian 12's"));
}
