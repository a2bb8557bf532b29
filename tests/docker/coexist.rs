//! Docker's own networks on the same host stay Docker's.

use tests::Release;

use crate::bed::Bed;
use crate::neighbours::{GET, NEIGHBOURS, NO_NEIGHBOURS};

/// A page at port 80, and another that is not published at port 81.
const PAGES: &str = "sh -c 'httpd -p 80 -h /www; httpd -p 81 -h /www; exec sleep 3600'";

/// Whether a container is answered with a page.
fn gets(bed: &Bed, from: &str, host: &str, port: u16) -> bool {
    let ask = format!("{GET} | timeout 2 nc {host} {port}");
    bed.engine.exec(from, &["sh", "-c", &ask]).stdout.contains("200 OK")
}

/// The same, where it must be: a busy machine may take longer than that over one.
fn reaches(bed: &Bed, from: &str, host: &str, port: u16) -> bool {
    (0..10).any(|_| gets(bed, from, host, port))
}

/// Waits until a container serves both pages.
#[track_caller]
fn listens(bed: &Bed, name: &str) {
    let listens = |port| (0..5).any(|_| reaches(bed, name, "127.0.0.1", port));
    assert!(listens(80) && listens(81), "{name} does not serve");
}

#[track_caller]
fn dockers_networks_stay_dockers(release: Release) {
    let Some(bed) = Bed::new(release) else { return };
    bed.world().sh("iptables -P FORWARD DROP");
    bed.docker("network create --internal --subnet 172.30.0.0/24 shut");
    bed.docker("network create --subnet 172.31.0.0/24 open");
    bed.network("--subnet 10.82.0.0/24 ours");
    bed.docker(&format!("run -d --name inside --network shut busybox {PAGES}"));
    bed.docker(&format!("run -d --name served --network open -p 18600:80 busybox {PAGES}"));
    bed.run("--name one --network ours");
    let from = |name: &str, host: &str, port| gets(&bed, name, host, port);
    let gets = |host: &str, port| from("one", host, port);
    let (inside, served) = (bed.address("inside", "shut"), bed.address("served", "open"));
    for name in ["served", "inside"] {
        listens(&bed, name);
    }
    let rules = || bed.world().sh("iptables-save; nft list table inet spoke");
    assert!(reaches(&bed, "one", "10.82.0.1", 18600), "what Docker publishes\n{}", rules());
    assert!(!gets(&served, 81), "what it does not");
    assert!(!gets(&inside, 80), "an internal network");
    // A network of Docker's that comes after ours.
    bed.docker("network create --internal --subnet 172.29.0.0/24 later");
    bed.docker(&format!("run -d --name late --network later busybox {PAGES}"));
    let late = bed.address("late", "later");
    listens(&bed, "late");
    assert!(!gets(&late, 80), "a later internal network");
    // Whatever the administrator appends later has the first word.
    bed.world().sh("iptables -D DOCKER-USER -j RETURN || true");
    bed.world().sh("iptables -A DOCKER-USER -p tcp -j DROP");
    assert!(!gets("10.82.0.1", 18600), "what the administrator drops");
    bed.world().sh("iptables -F DOCKER-USER; iptables -A DOCKER-USER -j RETURN");
    // Docker's containers have of ours what others have: what is published.
    bed.docker(&format!("run -d --name own --network ours -p 18601:80 busybox {PAGES}"));
    listens(&bed, "own");
    let own = bed.address("own", "ours");
    for host in ["172.31.0.1", "172.17.0.1", "10.82.0.1"] {
        assert!(reaches(&bed, "served", host, 18601), "at {host}\n{}", rules());
    }
    assert!(!from("served", &own, 81), "what is not published");
    assert!(!from("served", &own, 80), "around what is published");
    assert!(reaches(&bed, "one", &own, 81), "its own network");
    bed.remove("own");
    let ours = bed.world().sh("iptables -S | grep -cw spoke");
    assert!(ours.trim().parse::<u32>().expect("a number") <= 5, "{ours} rules for one network");
    bed.remove("one inside served late");
    bed.docker("network rm ours shut open later");
    bed.is_clean();
}

#[test]
fn dockers_networks_stay_dockers_20_10() {
    dockers_networks_stay_dockers(Release::V20_10);
}

#[test]
fn dockers_networks_stay_dockers_26_1() {
    dockers_networks_stay_dockers(Release::V26_1);
}

#[test]
fn dockers_networks_stay_dockers_28_5() {
    dockers_networks_stay_dockers(Release::V28_5);
}

/// Whichever program publishes, networks are apart, and both families leave.
#[track_caller]
fn both_modes_promise_the_same(release: Release) {
    let Some(bed) = Bed::new(release) else { return };
    bed.world().sh(NEIGHBOURS);
    let nets =
        |number: u8| format!("--ipv6 --subnet 10.83.{number}.0/24 --subnet fd83:{number}::/64");
    for (number, ports) in [(1, "docker"), (2, "docker"), (3, "spoke")] {
        bed.network(&format!("{} -o ports={ports} n{number}", nets(number)));
        bed.serve(&format!("--name c{number} --network n{number} -p 1870{number}:80"));
    }
    for from in [1, 2, 3] {
        let from_name = format!("c{from}");
        bed.inside(&from_name, "ping -c 1 -W 3 192.0.2.2; ping -c 1 -W 3 2001:db8:1::2");
        for to in [1, 2, 3].into_iter().filter(|to| *to != from) {
            let (name, network) = (format!("c{to}"), format!("n{to}"));
            bed.no_ping(&from_name, &bed.address(&name, &network));
            bed.no_ping(&from_name, &bed.end(&name, &network, "GlobalIPv6Address"));
            for host in ["192.0.2.1", "172.17.0.1", "10.83.3.1"] {
                let port = 18700 + to;
                assert!(reaches(&bed, &from_name, host, port), "{from_name} to {host}:{port}");
            }
        }
        bed.asked("lan", "192.0.2.1", 18700 + from);
    }
    bed.remove("c1 c2 c3");
    bed.docker("network rm n1 n2 n3 docker_gwbridge");
    bed.world().sh(NO_NEIGHBOURS);
    bed.is_clean();
}

#[test]
fn both_modes_promise_the_same_20_10() {
    both_modes_promise_the_same(Release::V20_10);
}

#[test]
fn both_modes_promise_the_same_28_5() {
    both_modes_promise_the_same(Release::V28_5);
}
