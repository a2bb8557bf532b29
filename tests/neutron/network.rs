//! What becomes of a Docker network in Neutron.

use serde_json::json;
use tests::Release;
use tests::neutron::id;

use crate::bed::{Bed, tags, text};

#[track_caller]
fn come_and_go(release: Release) {
    let Some(bed) = Bed::new(release) else { return };
    let docker =
        bed.network("--subnet 10.60.0.0/16 --ip-range 10.60.0.0/24 --gateway 10.60.0.1 net");
    let network = bed.host.network(&docker);
    assert_eq!(network["name"], format!("kuryr-net-{}", &docker[..8]));
    assert_eq!((&network["admin_state_up"], &network["shared"]), (&json!(true), &json!(false)));
    assert!(text(&network, "description").starts_with("spoke:"), "it is marked as ours");
    let subnet = bed.host.project.only("subnets", &format!("network_id={}", id(&network)));
    assert_eq!(subnet["name"], "kuryr-subnet-10.60.0.0/16");
    assert_eq!(subnet["cidr"], "10.60.0.0/16");
    let part = json!([{"start": "10.60.0.2", "end": "10.60.0.255"}]);
    assert_eq!(subnet["allocation_pools"], part, "containers are in the range");
    assert_eq!(subnet["gateway_ip"], "10.60.0.1");
    assert_eq!(subnet["enable_dhcp"], true);
    let pool = bed.host.project.only("subnetpools", "name=kuryrPool-10.60.0.0/16");
    assert_eq!(subnet["subnetpool_id"], pool["id"]);
    assert_eq!(pool["prefixes"], json!(["10.60.0.0/16"]));
    assert!(tags(&subnet).contains(&id(&pool)), "{subnet}");
    assert!(bed.docker("network ls").contains("net"));

    bed.docker("network create -d bridge another");
    assert_eq!(bed.host.project.list("networks", "").len(), 1, "Docker's own is not Neutron's");
    bed.docker("network rm net another");
    assert!(!bed.host.has_network(&docker));
    bed.is_clean();
}

#[test]
fn a_network_comes_with_its_names_and_tags_and_goes_20_10() {
    come_and_go(Release::V20_10);
}

#[test]
fn a_network_comes_with_its_names_and_tags_and_goes_28_5() {
    come_and_go(Release::V28_5);
}

#[test]
fn a_network_of_both_families_has_two_subnets() {
    let Some(bed) = Bed::new(Release::V20_10) else { return };
    let docker = bed.network(
        "--ipv6 --subnet 10.61.0.0/16 --ip-range 10.61.0.0/24 --gateway 10.61.0.1 \
         --subnet 2001:db8:61::/64 --gateway 2001:db8:61::1 net",
    );
    let network = id(&bed.host.network(&docker));
    let subnets = bed.host.project.list("subnets", &format!("network_id={network}"));
    let mut names: Vec<_> = subnets.iter().map(|subnet| text(subnet, "name")).collect();
    names.sort();
    assert_eq!(names, ["kuryr-subnet-10.61.0.0/16", "kuryr-subnet-2001:db8:61::/64"]);
    bed.docker("network rm net");
    bed.is_clean();
}

#[track_caller]
fn existing(by: &str) {
    let Some(mut bed) = Bed::new(Release::V20_10) else { return };
    let (network, subnet) = bed.host.project.network("operators", "10.62.0.0/24");
    bed.host.start_from_here();
    let option = match by {
        "uuid" => format!("neutron.net.uuid={network}"),
        by => format!("neutron.net.{by}=operators"),
    };
    let docker = bed.network(&format!("--subnet 10.62.0.0/24 --gateway 10.62.0.1 -o {option} net"));
    let now = bed.host.network(&docker);
    assert_eq!(id(&now), network);
    assert_eq!(now["name"], "operators");
    assert!(tags(&now).contains(&format!("kuryr.net.existing:{}", &docker[..12])), "{now}");
    bed.run("--name one --network net");
    let port = bed.port("one", "net");
    assert_eq!(port["fixed_ips"][0]["subnet_id"], subnet);
    bed.remove("one");
    bed.docker("network rm net");
    bed.is_clean();
}

#[test]
fn an_existing_network_is_used_by_id_and_stays_as_it_was() {
    existing("uuid");
}

#[test]
fn an_existing_network_is_used_by_name_and_stays_as_it_was() {
    existing("name");
}

#[test]
fn a_shared_network_is_shared() {
    let Some(bed) = Bed::new(Release::V20_10) else { return };
    let options = "-o neutron.net.shared=true --ipam-opt neutron.net.shared=true";
    let docker = bed.network(&format!("--subnet 10.63.0.0/24 --gateway 10.63.0.1 {options} net"));
    assert_eq!(bed.host.network(&docker)["shared"], true);
    let pool = bed.host.project.only("subnetpools", "name=kuryrPool-10.63.0.0/24");
    assert_eq!(pool["shared"], true);
    bed.docker("network rm net");
    bed.is_clean();
}
