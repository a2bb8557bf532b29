//! Containers on OVN's switches: only with the lab of `make test-neutron`.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tests::Release;
use tests::neutron::id;
use tests::neutron_lab::{Account, FullLab};

use crate::bed::{Bed, Tenancy, text};

/// An engine that is a host of the lab's.
#[track_caller]
fn bed(lab: &FullLab, account: &Account, host: &str) -> Bed {
    let name = format!("{host}-{}", &account.project.id()[..8]);
    let project = &account.project;
    let place = Tenancy { project, name: &name, extra: "", ovn: Some((lab, account)) };
    Bed::of(Release::V20_10, place).expect("Docker 20.10 is Debian 12's")
}

/// That all that one says comes to the other, over TCP.
#[track_caller]
fn speaks(from: (&Bed, &str), to: (&Bed, &str), address: &str) {
    to.0.inside(
        to.1,
        "head -c 100000 /dev/zero >/tmp/page; (nc -l -p 80 </tmp/page >/dev/null 2>&1 &)",
    );
    // The server stops when its client sends nothing more.
    let read = format!("sleep 5 | nc -w 5 {address} 80 | wc -c");
    assert_eq!(from.0.inside(from.1, &read), "100000");
}

/// That a ping comes through within some seconds: OVN carries out changes soon.
#[track_caller]
fn reaches(bed: &Bed, name: &str, address: &str) {
    bed.inside(
        name,
        &format!("for n in $(seq 20); do ping -c 1 -W 1 {address} && exit 0; done; exit 1"),
    );
}

#[track_caller]
fn reaches_no_more(bed: &Bed, name: &str, address: &str) {
    bed.inside(
        name,
        &format!("for n in $(seq 20); do ping -c 1 -W 1 {address} || exit 0; done; exit 1"),
    );
}

#[test]
fn two_containers_speak_through_ovn_and_nothing_is_left() {
    let Some(lab) = FullLab::running() else { return };
    let account = lab.account();
    let bed = bed(&lab, &account, "one");
    let docker = bed.network("--subnet 10.130.0.0/24 --gateway 10.130.0.1 net");
    for name in ["one", "two"] {
        bed.run(&format!("--name {name} --network net"));
    }
    let project = &account.project;
    for name in ["one", "two"] {
        let port = id(&bed.port(name, "net"));
        project.until(&format!("/ports/{port}"), |port| port["port"]["status"] == "ACTIVE");
    }
    let address = bed.end("two", "net", "IPAddress");
    reaches(&bed, "one", &address);
    speaks((&bed, "one"), (&bed, "two"), &address);
    bed.remove("one two");
    bed.docker("network rm net");
    assert!(!bed.host.has_network(&docker));
    bed.is_clean();
}

#[test]
fn a_rule_of_a_security_group_blocks_and_allows() {
    let Some(lab) = FullLab::running() else { return };
    let account = lab.account();
    let mut bed = bed(&lab, &account, "one");
    let project = account.project.clone();
    let group = id(&project.create("security_group", json!({"name": "closed"})));
    bed.host.start_from_here();
    bed.network(&format!(
        "--subnet 10.131.0.0/24 --gateway 10.131.0.1 -o neutron.security_groups={group} net"
    ));
    for name in ["one", "two"] {
        bed.run(&format!("--name {name} --network net"));
    }
    let address = bed.end("two", "net", "IPAddress");
    bed.engine.exec("one", &["true"]);
    let blocked = bed.engine.exec("one", &["ping", "-c", "1", "-W", "1", &address]);
    assert_ne!(blocked.status, 0, "there is no rule yet");
    let rule = json!({
        "security_group_id": group,
        "direction": "ingress",
        "ethertype": "IPv4",
        "protocol": "icmp",
    });
    let rule = id(&project.create("security_group_rule", rule));
    reaches(&bed, "one", &address);
    project.delete(&format!("/security-group-rules/{rule}"));
    reaches_no_more(&bed, "one", &address);
    bed.remove("one two");
    bed.docker("network rm net");
    bed.is_clean();
}

#[test]
fn two_hosts_share_a_network_over_geneve() {
    let Some(lab) = FullLab::running() else { return };
    let account = lab.account();
    let (network, _) = account.project.network("operators", "10.132.0.0/24");
    let mut beds = ["one", "two"].map(|host| bed(&lab, &account, host));
    let options = format!("-o neutron.net.uuid={network}");
    for bed in &mut beds {
        bed.host.start_from_here();
        bed.network(&format!("--subnet 10.132.0.0/24 --gateway 10.132.0.1 {options} net"));
        bed.run("--name it --network net");
    }
    let address = beds[1].end("it", "net", "IPAddress");
    assert_ne!(beds[0].end("it", "net", "IPAddress"), address);
    reaches(&beds[0], "it", &address);
    speaks((&beds[0], "it"), (&beds[1], "it"), &address);
    beds[0].remove("it");
    beds[0].docker("network rm net");
    beds[1].run("--name again --network net");
    beds[1].remove("it again");
    beds[1].docker("network rm net");
    beds[0].is_clean();
}

#[test]
fn a_container_has_the_ports_mtu_and_both_families() {
    let Some(lab) = FullLab::running() else { return };
    let account = lab.account();
    let bed = bed(&lab, &account, "one");
    bed.network(
        "--ipv6 --subnet 10.133.0.0/24 --gateway 10.133.0.1 --subnet 2001:db8:133::/64 \
         --gateway 2001:db8:133::1 net",
    );
    for name in ["one", "two"] {
        bed.run(&format!("--name {name} --network net"));
    }
    assert!(bed.inside("one", "ip link show eth0").contains("mtu 1442"));
    reaches(&bed, "one", &bed.end("two", "net", "GlobalIPv6Address"));
    let address = bed.end("two", "net", "IPAddress");
    // A whole frame: 28 of it are headers.
    bed.inside("one", &format!("ping -c 1 -W 3 -s 1414 {address}"));
    bed.remove("one two");
    bed.docker("network rm net");
    bed.is_clean();
}

/// Tokens of the lab live for some seconds only: after this long none of the first is valid.
#[test]
fn a_token_that_has_expired_is_renewed() {
    let Some(lab) = FullLab::running() else { return };
    let account = lab.account();
    let bed = bed(&lab, &account, "one");
    bed.network("--subnet 10.134.0.0/24 --gateway 10.134.0.1 net");
    bed.host.proxy.take();
    let life: u64 = lab.setting("NEUTRON_LAB_TOKEN_TTL").parse().expect("seconds");
    assert!(life < 60, "too long to wait for");
    std::thread::sleep(std::time::Duration::from_secs(life + 1));
    bed.run("--name one --network net");
    let port = bed.port("one", "net");
    assert_eq!(text(&port, "binding:vif_type"), "ovs");
    bed.remove("one");
    bed.docker("network rm net");
    let refused = bed.host.proxy.take().into_iter().filter(|call| call.status == Some(401)).count();
    assert!(refused <= 2, "{refused} calls with an old token");
    bed.is_clean();
}

#[test]
fn a_port_that_is_asked_for_by_its_options_has_them() {
    let Some(lab) = FullLab::running() else { return };
    let account = lab.account();
    let mut bed = bed(&lab, &account, "one");
    let project = account.project.clone();
    let policy = id(&project
        .call("POST", "/qos/policies", &json!({"policy": {"name": "slow"}}))
        .ok()["policy"]);
    bed.host.start_from_here();
    bed.network(&format!(
        "--subnet 10.135.0.0/24 --gateway 10.135.0.1 -o neutron.qos_policy={policy} \
         -o neutron.port_security=false -o neutron.security_groups=none net"
    ));
    bed.run("--name one --network net");
    let port = bed.port("one", "net");
    assert_eq!(port["qos_policy_id"], policy);
    assert_eq!(port["port_security_enabled"], false);
    assert_eq!(port["security_groups"], Value::Array(Vec::new()));
    bed.remove("one");
    bed.docker("network rm net");
    bed.is_clean();
}

/// No container's first packet is lost: a container starts once the flows of its port are there.
#[test]
fn the_first_packet_of_each_container_is_answered() {
    let Some(lab) = FullLab::running() else { return };
    let account = lab.account();
    let bed = bed(&lab, &account, "one");
    bed.network("--subnet 10.136.0.0/24 --gateway 10.136.0.1 net");
    bed.run("--name server --network net");
    let address = bed.end("server", "net", "IPAddress");
    bed.inside("server", "true");
    let ping = format!("run --rm --network net busybox /bin/ping -c 1 -W 1 {address}");
    let mut took = Vec::new();
    let mut lost = 0;
    for _ in 0..10 {
        let begun = std::time::Instant::now();
        lost += usize::from(bed.engine.try_docker(&ping).status != 0);
        took.push(begun.elapsed());
    }
    took.sort();
    // For a comparison of what waiting costs.
    eprintln!("docker run --rm: median {:?}, {lost} of {} lost", took[took.len() / 2], took.len());
    assert_eq!(lost, 0, "of {} first packets", took.len());
    bed.remove("server");
    bed.docker("network rm net");
    bed.is_clean();
}

/// OVN answers who asks for an address, so the others do not hear of its new holder: it announces itself.
#[test]
fn an_address_that_another_port_had_is_reached_at_once() {
    let Some(lab) = FullLab::running() else { return };
    let account = lab.account();
    let bed = bed(&lab, &account, "one");
    bed.network("--subnet 10.137.0.0/24 --gateway 10.137.0.1 net");
    bed.run("--name server --network net");
    let address = bed.end("server", "net", "IPAddress");
    let ping = format!(
        "run --rm --network net --ip 10.137.0.50 busybox /bin/sh -c \
         'cat /sys/class/net/eth0/address; ping -c 1 -W 1 {address}'"
    );
    let answered: Vec<_> = (0..3).map(|_| bed.engine.try_docker(&ping)).collect();
    let macs: BTreeSet<_> = answered.iter().map(|it| it.stdout.lines().next()).collect();
    assert_eq!(macs.len(), answered.len(), "each has a hardware address of its own");
    let lost: Vec<_> = answered.iter().map(|it| it.status).collect();
    assert_eq!(lost, [0; 3]);
    bed.remove("server");
    bed.docker("network rm net");
    bed.is_clean();
}
