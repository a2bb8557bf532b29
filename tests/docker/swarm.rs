//! A swarm of one node, which asks twice for everything: as the manager, and as the node.

use std::collections::BTreeSet;

use tests::{Release, skipped};

use crate::managed::{CREATE, Managed};

const CONFIG: &str = "[docker]\nscope = \"global\"\n[log]\nlevel = \"debug\"";

/// Virtual addresses of services are the kernel's IPVS; tasks are found by DNS without it.
fn endpoint_mode(managed: &Managed) -> &'static str {
    if managed.sh("[ -e /proc/net/ip_vs ] && echo there || true").is_empty() {
        skipped("virtual addresses of swarm services", "this kernel has no ip_vs");
        return "--endpoint-mode dnsrr";
    }
    "--endpoint-mode vip"
}

#[track_caller]
fn swarm(release: Release) {
    let Some(managed) = Managed::new(release, CONFIG) else { return };
    managed
        .sh("ip link add up0 type bridge; ip address add 192.0.2.1/24 dev up0; ip link set up0 up");
    let said = managed.engine.log();
    assert!(said.contains("containers of different nodes do not reach each other"), "{said}");
    managed.docker("swarm init --advertise-addr 192.0.2.1 --task-history-limit 0");
    managed.docker(&format!("{CREATE} --attachable --subnet 10.86.0.0/24 front"));
    // The manager does it after it has answered.
    managed.until_called("IpamDriver.RequestPool pool=spoke-global");
    managed.until_called("NetworkDriver.AllocateNetwork network=[a-z0-9]*");
    let log = managed.engine.log();
    assert!(!log.contains("RequestPool pool=spoke-local"), "no node needs it yet: {log}");

    managed.docker("run -d --name one --network front busybox /bin/sleep 3600");
    managed.until_called("IpamDriver.RequestPool pool=spoke-local");
    let endpoint = managed.engine.endpoint("one", "front");
    assert_eq!(endpoint["IPAddress"], "10.86.0.2", "what the manager gave");
    managed.engine.ping("one", "10.86.0.1");
    let mode = endpoint_mode(&managed);
    managed.docker(&format!(
        "service create --detach --name web --replicas 3 --stop-grace-period 0s {mode} --network front busybox /bin/sleep 3600"
    ));
    managed.until("[ $(docker ps -q --filter name=web. | wc -l) = 3 ]");
    managed.engine.ping("one", "tasks.web");
    let tasks = managed.docker("ps -q --filter name=web.");
    let mut addresses: BTreeSet<String> = BTreeSet::from(["10.86.0.2".to_owned()]);
    for task in tasks.lines() {
        let address = managed.engine.endpoint(task, "front")["IPAddress"].clone();
        let address = address.as_str().expect("an address").to_owned();
        managed.engine.ping("one", &address);
        addresses.insert(address);
    }
    assert_eq!(addresses.len(), 4, "{addresses:?}");

    managed.docker("service rm web");
    managed.until("[ $(docker ps -q --filter name=web. | wc -l) = 0 ]");
    managed.docker("rm -f one");
    managed.docker("network rm front");
    managed.until("[ -z \"$(/opt/cni/bin/spoke network ls -q)\" ]");
    managed.until("[ -z \"$(find /var/lib/spoke -type f ! -name lock)\" ]");
    managed.until_called("NetworkDriver.FreeNetwork network=[a-z0-9]*");
    managed.until_called("IpamDriver.ReleasePool pool=global/10.86.0.0/24");
    managed.docker("swarm leave --force");
    managed.end();
}

#[test]
fn swarm_20_10() {
    swarm(Release::V20_10);
}

#[test]
fn swarm_28_5() {
    swarm(Release::V28_5);
}
