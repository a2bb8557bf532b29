//! What a name stands for where several have it, and which subnet a part of one is.

use serde_json::json;
use tests::Release;
use tests::neutron::id;
use tests::neutron_lab::ApiLab;

use crate::bed::{Bed, Tenancy, host_name};
use crate::calls::Calls;
use crate::stock::listed;

/// Another project shares a network of the same name, and its subnet and pool have the same names.
#[test]
fn a_name_is_first_one_of_the_own_project() {
    let lab = ApiLab::shared();
    let (project, other) = (lab.project(), lab.project());
    let name = format!("front-{}", &project.id()[..8]);
    let shared = other.create("network", json!({"name": name, "shared": true}));
    other.subnet(&id(&shared), &name, "10.231.0.0/24");
    other.create(
        "subnetpool",
        json!({"name": name, "prefixes": ["10.231.0.0/24"],
        "default_prefixlen": 24, "shared": true}),
    );
    let host = host_name(&project);
    let place = Tenancy { project: &project, name: &host, extra: "", ovn: None };
    let mut calls = Calls::at(place);
    calls.world.sh(&format!(
        "sed -i 's/^auth_type.*/&\\nproject_id = \"{}\"/' /etc/spoke/config.toml",
        project.id()
    ));
    calls.crash();
    let (own, _) = project.network(&name, "10.230.0.0/24");
    project.create(
        "subnetpool",
        json!({"name": name, "prefixes": ["10.232.0.0/24"],
        "default_prefixlen": 24}),
    );
    calls.host.start_from_here();
    let options = json!({"neutron.net.name": name, "neutron.subnet.name": name});
    let (network, pool) = calls.network("10.230.0.0/24", &options);
    assert_eq!(id(&calls.host.network(&network)), own);
    calls.remove_network(&network, &pool);
    let pool = calls.request_pool("10.232.0.0/24", &json!({"neutron.pool.name": name})).ok();
    calls.release_pool(&pool).ok();
    // What only others have is found, too.
    project.delete(&format!("/networks/{own}"));
    calls.host.start_from_here();
    calls.spoke(&format!("network create --driver neutron --opt network={name} cloud"));
    calls.spoke("network rm cloud");
    calls.gc();
    calls.is_clean();
    other.delete(&format!("/networks/{}", id(&shared)));
}

/// As kuryr-libnetwork has it: the part is the subnet, whichever map names the network.
#[test]
fn a_range_that_is_a_subnet_of_the_network_is_meant_by_that() {
    for map in ["--ipam-opt", "-o"] {
        let Some(mut bed) = Bed::new(Release::V20_10) else { return };
        let (network, subnet) = bed.host.project.network("operators", "10.233.7.0/24");
        bed.host.start_from_here();
        bed.network(&format!(
            "--subnet 10.233.0.0/16 --ip-range 10.233.7.0/24 --gateway 10.233.7.1 \
             {map} neutron.net.uuid={network} net"
        ));
        let subnets = bed.host.project.list("subnets", &format!("network_id={network}"));
        assert_eq!(subnets.len(), 1, "{map}: {subnets:#?}");
        for name in ["one", "two"] {
            bed.run(&format!("--name {name} --network net"));
        }
        let port = bed.port("one", "net");
        assert_eq!(port["fixed_ips"][0]["subnet_id"], subnet, "{map}");
        assert!(bed.inside("one", "ip route").contains("default via 10.233.7.1"), "{map}");
        bed.engine.ping("one", &bed.end("two", "net", "IPAddress"));
        bed.remove("one two");
        bed.docker("network rm net");
        bed.is_clean();
    }
}

/// The stock of a network that is named is drained by that name.
#[test]
fn a_stock_is_drained_by_the_networks_name() {
    let extra = "[neutron.stock]\nminimum = 2\nmaximum = 4\n";
    let (calls, list, path) = listed("10.234.0.0/24", extra);
    let mut one = tests::Cni::container(&calls.world, "one");
    assert!(one.add(&list).remove(0).ok());
    crate::stock::until_ports(&calls, &path, |count| count >= 3);
    calls.named();
    calls.spoke("neutron stock drain front");
    crate::stock::until_ports(&calls, &path, |count| count == 1);
    assert!(one.del(&list).remove(0).ok());
    calls.spoke("neutron stock drain");
    calls.gc();
    calls.is_clean();
}
