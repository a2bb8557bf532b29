//! What no call asks for again: Docker forgets a network whatever is answered, and dockerd dies between
//! any two calls. What this host made and marked goes by itself; what others made stays.

use serde_json::{Value, json};
use tests::Release;
use tests::fault_proxy::Fault;
use tests::neutron::id;

use crate::bed::{Bed, tags};
use crate::calls::{Calls, docker_id};

/// What may become of the only attempt to delete something.
fn faults() -> [Fault; 2] {
    [Fault::Cut, Fault::Answer(403)]
}

/// The network is in the book and on no list: the process that removed it will not come back.
#[test]
fn a_network_that_neutron_kept_goes_with_the_next_collection() {
    let calls = Calls::new();
    for kind in ["networks", "subnets", "subnetpools"] {
        for fault in faults() {
            let (network, pool) = calls.network("10.210.0.0/24", &json!({}));
            calls.host.proxy.fail_always("DELETE", &format!("/v2.0/{kind}"), fault.clone());
            let left = [calls.release_pool(&pool), calls.delete_network(&network)];
            assert!(left.iter().any(|said| said.status != 200), "{kind} {fault:?}: {left:?}");
            calls.host.proxy.heal();
            calls.gc();
            let changes = calls.host.changes();
            assert!(changes.is_empty(), "{kind} {fault:?}: {changes:#?}");
        }
    }
    calls.is_clean();
}

/// Not one call of the removal reached Neutron.
#[test]
fn a_network_that_was_removed_while_neutron_was_away_goes_once_it_is_back() {
    let mut calls = Calls::new();
    let (network, pool) = calls.network("10.211.0.0/24", &json!({}));
    calls.host.proxy.fail_always("", "/", Fault::Cut);
    calls.release_pool(&pool).error();
    calls.delete_network(&network).error();
    calls.host.proxy.heal();
    // The daemon looks as soon as it is there, and needs no call.
    calls.crash();
    calls.host.project.until("/networks", |all| !has(all, "networks", &network));
    calls.gc();
    calls.is_clean();
}

fn has(all: &Value, kind: &str, docker: &str) -> bool {
    let half = format!("kuryr.net.uuid.lh:{}", &docker[..32]);
    all[kind].as_array().is_some_and(|all| all.iter().any(|one| tags(one).contains(&half)))
}

/// Made and removed within a second: no list of Docker's ever had it.
#[test]
fn a_network_of_a_second_goes_although_its_removal_failed() {
    let Some(bed) = Bed::new(Release::V20_10) else { return };
    bed.host.proxy.fail("DELETE", "/v2.0/networks", 1, Fault::Answer(500));
    let docker = bed.network("--subnet 10.212.0.0/24 --gateway 10.212.0.1 net");
    bed.docker("network rm net");
    assert!(bed.host.has_network(&docker), "Neutron has kept it");
    bed.spoke("gc");
    bed.is_clean();
}

/// As if dockerd had died before it wrote down what it was answered.
#[test]
fn a_network_that_docker_never_wrote_down_can_be_removed() {
    let Some(bed) = Bed::new(Release::V20_10) else { return };
    let docker = unlisted(&bed);
    let name = format!("kuryr-{}", &docker[..12]);
    bed.spoke(&format!("network rm {name}"));
    assert!(!bed.host.has_network(&docker));
    assert!(!bed.spoke("network ls").contains(&name));
    // Its pool was never released, and serves no network.
    bed.spoke("gc");
    bed.is_clean();
}

/// A network that the plugin made for a Docker that never heard of it; Docker's id of it.
#[track_caller]
fn unlisted(bed: &Bed) -> String {
    let world = bed.world();
    let ask = |method: &str, body: Value| -> Value {
        let socket = world.path("/run/docker/plugins/kuryr.sock");
        let said =
            tests::http::call(&socket, "POST", &format!("/{method}"), body.to_string().as_bytes());
        let said = said.expect("an answer");
        assert_eq!(said.status, 200, "{method}: {:?}", String::from_utf8_lossy(&said.body));
        said.json()
    };
    let docker = docker_id();
    let pool = ask(
        "IpamDriver.RequestPool",
        json!({"AddressSpace": "no_address_space",
        "Pool": "10.213.0.0/24", "SubPool": "", "Options": {}, "V6": false}),
    );
    let data = json!({"AddressSpace": "no_address_space", "Pool": pool["Pool"],
        "Gateway": "10.213.0.1/24"});
    ask(
        "NetworkDriver.CreateNetwork",
        json!({"NetworkID": docker, "Options": {},
        "IPv4Data": [data], "IPv6Data": []}),
    );
    docker
}

/// The book is gone, and Docker's list is all that tells what is whose.
#[test]
fn what_the_book_forgot_goes_where_docker_does_not_list_it() {
    let Some(mut bed) = Bed::new(Release::V20_10) else { return };
    let kept = bed.network("--subnet 10.214.0.0/24 --gateway 10.214.0.1 kept");
    let lost = unlisted(&bed);
    bed.host.serve.take().expect("it runs").kill();
    bed.world().sh("rm -rf /var/lib/spoke/* /run/spoke/*/[a-z]* 2>/dev/null || true");
    bed.spoke("gc");
    assert!(!bed.host.has_network(&lost), "no engine lists it");
    assert!(bed.host.has_network(&kept), "Docker lists it");
    bed.spoke("gc --force");
    assert!(bed.host.has_network(&kept), "Docker still lists it");
    bed.host.serve = Some(tests::Serve::start(bed.world(), &[]));
    bed.docker("network rm kept");
    bed.spoke("gc");
    let changes = bed.host.changes();
    assert!(changes.is_empty(), "{changes:#?}");
}

/// In a subnet that stays, too.
#[test]
fn addresses_that_are_kept_back_are_free_once_the_network_is_gone() {
    let Some(mut bed) = Bed::new(Release::V20_10) else { return };
    let (network, _) = bed.host.project.network("operators", "10.215.0.0/24");
    bed.host.start_from_here();
    let options = format!("--aux-address a=10.215.0.7 -o neutron.net.uuid={network}");
    bed.network(&format!("--subnet 10.215.0.0/24 --gateway 10.215.0.1 {options} net"));
    let port = bed.host.project.only("ports", "fixed_ips=ip_address%3D10.215.0.7");
    bed.spoke("gc --force");
    let again = bed.host.project.only("ports", "fixed_ips=ip_address%3D10.215.0.7");
    assert_eq!(id(&again), id(&port), "its network is there");
    // Docker gives such an address back once, whatever it is answered.
    bed.host.proxy.fail("DELETE", "/v2.0/ports", 1, Fault::Answer(500));
    bed.docker("network rm net");
    bed.spoke("gc");
    bed.is_clean();
}
