//! A container's life on our networks, as its user sees it.

use serde_json::json;
use tests::Release;

use crate::bed::Bed;

const MAC: &str = "02:aa:bb:cc:dd:01";

#[track_caller]
fn whole_life(release: Release) {
    let Some(bed) = Bed::new(release) else { return };
    bed.network("front");
    bed.network("--subnet 10.70.0.0/24 --gateway 10.70.0.254 back");
    bed.run("--name one --network front --network-alias web");
    let end = json!({"IPAMConfig": {"IPv4Address": "10.70.0.77"}, "MacAddress": MAC});
    let with = json!({"NetworkingConfig": {"EndpointsConfig": {"back": end}}, "MacAddress": MAC});
    bed.engine.run("two", "back", with);
    assert_eq!(bed.truth("one", "front"), "eth0");
    assert_eq!(bed.truth("two", "back"), "eth0");
    assert_eq!(bed.address("two", "back"), "10.70.0.77");
    assert_eq!(bed.end("two", "back", "MacAddress"), MAC);
    assert_eq!(bed.end("two", "back", "Gateway"), "10.70.0.254");
    let routes = bed.inside("two", "ip route");
    assert!(routes.contains("default via 10.70.0.254 dev eth0"), "{routes}");
    bed.no_ping("one", "10.70.0.77");
    bed.engine.ping("two", "10.70.0.254");

    bed.until("/opt/cni/bin/spoke ps | grep -q ^one");
    bed.run("--name three --network front");
    bed.engine.ping("three", "one");
    bed.engine.ping("three", "web");
    bed.docker("network connect --alias api back one");
    assert_eq!(bed.truth("one", "back"), "eth1");
    bed.engine.ping("two", "api");
    bed.engine.ping("one", "two");
    bed.engine.ping("three", "web");
    bed.docker("network disconnect back one");
    assert_eq!(bed.inside("one", "ip -o link | wc -l"), "2");
    bed.no_ping("two", "10.70.0.1");
    bed.refused("network rm back", &["active endpoints"]);

    bed.docker("restart -t 0 one two");
    assert_eq!(bed.truth("two", "back"), "eth0");
    assert_eq!(bed.address("two", "back"), "10.70.0.77");
    assert_eq!(bed.end("two", "back", "MacAddress"), MAC);
    bed.engine.ping("one", "three");
    bed.docker("network connect --ip 10.70.0.88 back three");
    bed.docker("stop -t 0 three");
    bed.docker("network disconnect back three");
    bed.docker("network connect --ip 10.70.0.99 back three");
    bed.docker("start three");
    assert_eq!(bed.address("three", "back"), "10.70.0.99");
    bed.truth("three", "front");
    bed.engine.ping("two", "three");
    bed.docker("stop -t 0 one");
    bed.until("! /opt/cni/bin/spoke ps | grep -q ^one");
    bed.docker("start one");
    bed.engine.ping("three", "web");

    bed.remove("one two three");
    bed.docker("network rm front back");
    bed.is_clean();
}

#[test]
fn whole_life_20_10() {
    whole_life(Release::V20_10);
}

#[test]
fn whole_life_26_1() {
    whole_life(Release::V26_1);
}

#[test]
fn whole_life_28_5() {
    whole_life(Release::V28_5);
}

#[track_caller]
fn both_families(release: Release) {
    let Some(bed) = Bed::new(release) else { return };
    bed.network("--ipv6 --subnet 10.70.1.0/24 --subnet fd70:1::/64 both");
    bed.run("--name one --network both");
    bed.run("--name two --network both --ip 10.70.1.40 --ip6 fd70:1::40");
    bed.truth("one", "both");
    bed.truth("two", "both");
    assert_eq!(bed.address("two", "both"), "10.70.1.40");
    assert_eq!(bed.end("two", "both", "GlobalIPv6Address"), "fd70:1::40");
    assert_eq!(bed.end("two", "both", "IPv6Gateway"), "fd70:1::1");
    for to in ["10.70.1.40", "fd70:1::40", "10.70.1.1", "fd70:1::1"] {
        bed.engine.ping("one", to);
    }
    let routes = bed.inside("one", "ip -6 route");
    assert!(routes.contains("default via fd70:1::1 dev eth0"), "{routes}");
    bed.remove("one two");

    bed.network("--ipv6 chosen");
    bed.run("--name three --network chosen");
    bed.truth("three", "chosen");
    assert!(bed.end("three", "chosen", "GlobalIPv6Address").starts_with("fd"));
    bed.remove("three");
    bed.docker("network rm both chosen");
    bed.is_clean();
}

#[test]
fn both_families_20_10() {
    both_families(Release::V20_10);
}

#[test]
fn both_families_28_5() {
    both_families(Release::V28_5);
}

#[test]
fn ipv6_alone() {
    let Some(bed) = Bed::new(Release::V28_5) else { return };
    bed.network("--ipv4=false --ipv6 --subnet fd70:2::/64 six");
    bed.run("--name one --network six");
    bed.run("--name two --network six");
    bed.truth("one", "six");
    assert_eq!(bed.address("one", "six"), "");
    assert_eq!(bed.inside("one", "ip -4 -o address show dev eth0"), "");
    bed.engine.ping("one", "two");
    bed.engine.ping("two", "fd70:2::1");
    bed.remove("one two");
    bed.docker("network rm six");
    bed.is_clean();
}

#[track_caller]
fn link_local(release: Release) {
    let Some(bed) = Bed::new(release) else { return };
    bed.network("--subnet 10.70.3.0/24 front");
    bed.run("--name one --network front --link-local-ip 169.254.7.7");
    bed.run("--name two --network front");
    let has = bed.inside("one", "ip -o -4 address show dev eth0");
    assert!(has.contains(" 169.254.7.7/16 "), "{has}");
    bed.truth("one", "front");
    bed.remove("one two");
    bed.docker("network rm front");
    bed.is_clean();
}

#[test]
fn link_local_20_10() {
    link_local(Release::V20_10);
}

#[test]
fn link_local_26_1() {
    link_local(Release::V26_1);
}

#[test]
fn link_local_28_5() {
    link_local(Release::V28_5);
}

#[track_caller]
fn others_addresses(release: Release) {
    let Some(bed) = Bed::new(release) else { return };
    bed.docker("network create -d spoke theirs");
    bed.run("--name one --network theirs");
    bed.run("--name two --network theirs");
    bed.truth("one", "theirs");
    bed.engine.ping("one", "two");
    let gateway = bed.end("one", "theirs", "Gateway");
    bed.engine.ping("one", &gateway);

    bed.docker("network create -d spoke --ipam-driver null bare");
    bed.run("--name nine --network bare --cap-add NET_ADMIN");
    bed.run("--name ten --network bare --cap-add NET_ADMIN");
    assert_eq!(bed.inside("nine", "ip -o -4 address show dev eth0"), "");
    bed.inside("nine", "ip address add 10.70.4.1/24 dev eth0");
    bed.inside("ten", "ip address add 10.70.4.2/24 dev eth0");
    bed.engine.ping("nine", "10.70.4.2");

    bed.docker("network create -d bridge --ipam-driver spoke --subnet 10.70.5.0/24 ours");
    bed.run("--name three --network ours");
    bed.run("--name four --network ours --ip 10.70.5.44");
    bed.engine.ping("three", "four");
    assert_eq!(bed.address("three", "ours"), "10.70.5.2");
    bed.no_network("--subnet 10.70.5.0/24 again", &["10.70.5.0/24", "docker"]);

    bed.remove("one two nine ten three four");
    bed.docker("network rm theirs bare ours");
    bed.is_clean();
}

#[test]
fn others_addresses_20_10() {
    others_addresses(Release::V20_10);
}

#[test]
fn others_addresses_28_5() {
    others_addresses(Release::V28_5);
}

/// The engine gives the container's network namespace at Join.
#[test]
fn interfaces_are_exact() {
    let Some(bed) = Bed::new(Release::V28_5) else { return };
    bed.network("--subnet 10.70.6.0/24 -o mtu=1400 front");
    bed.network("--subnet 10.70.7.0/24 back");
    let ifname = "driver-opt=com.docker.network.endpoint.ifname=web7";
    let sysctls =
        "driver-opt=com.docker.network.endpoint.sysctls=net.ipv4.conf.IFNAME.log_martians=1";
    bed.run(&format!(
        "--name one --network name=front,{ifname} \
         --network \"name=back,{sysctls},ip=10.70.7.9,mac-address=02:aa:00:00:00:09\""
    ));
    assert_eq!(bed.truth("one", "front"), "web7");
    let back = bed.truth("one", "back");
    assert_eq!(bed.inside("one", "cat /sys/class/net/web7/mtu"), "1400");
    let martians = format!("cat /proc/sys/net/ipv4/conf/{back}/log_martians");
    assert_eq!(bed.inside("one", &martians), "1");
    assert_eq!(bed.end("one", "back", "MacAddress"), "02:aa:00:00:00:09");
    assert_eq!(bed.address("one", "back"), "10.70.7.9");
    bed.docker("restart -t 0 one");
    assert_eq!(bed.truth("one", "front"), "web7");
    bed.run("--name two --network front");
    bed.engine.ping("two", "one");
    bed.remove("one two");
    bed.docker("network rm front back");
    bed.is_clean();
}

/// What Compose calls: labels, aliases, a container recreated beside its successor, all of it down.
#[track_caller]
fn project(release: Release) {
    let Some(bed) = Bed::new(release) else { return };
    let label = "--label com.docker.compose.project=shop";
    bed.network(&format!("{label} --label com.docker.compose.network=default shop_default"));
    bed.network(&format!("{label} --internal shop_data"));
    bed.docker(&format!("create --name shop_db_1 {label} --network shop_data --network-alias db busybox /bin/sleep 3600"));
    bed.docker(&format!("create --name shop_web_1 {label} --network shop_default --network-alias web busybox /bin/sleep 3600"));
    bed.docker("network connect --alias web shop_data shop_web_1");
    bed.docker("start shop_db_1 shop_web_1");
    bed.engine.ping("shop_web_1", "db");
    bed.engine.ping("shop_db_1", "web");
    bed.truth("shop_web_1", "shop_default");
    bed.truth("shop_web_1", "shop_data");

    bed.docker("stop -t 0 shop_db_1");
    bed.docker("rename shop_db_1 old_shop_db_1");
    bed.docker(&format!("create --name shop_db_1 {label} --network shop_data --network-alias db busybox /bin/sleep 3600"));
    bed.docker("start shop_db_1");
    bed.remove("old_shop_db_1");
    bed.engine.ping("shop_web_1", "db");

    bed.docker("network create -d spoke --ipam-driver spoke unused");
    let pruned = bed.docker("network prune -f");
    assert!(pruned.contains("unused") && !pruned.contains("shop"), "{pruned}");
    bed.docker("stop -t 0 shop_web_1 shop_db_1");
    bed.remove("shop_web_1 shop_db_1");
    bed.docker("network rm shop_default shop_data");
    bed.is_clean();
}

#[test]
fn project_20_10() {
    project(Release::V20_10);
}

#[test]
fn project_28_5() {
    project(Release::V28_5);
}
