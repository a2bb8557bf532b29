//! `spoke endpoint`: the halves of connect and disconnect, apart.

use crate::bed::{Bed, SPOKE};

/// Another boot id, and everything of the kernel's gone.
const REBOOT: &str = "
    cat /proc/sys/kernel/random/uuid >/world/boot_id
    mount --bind /world/boot_id /proc/sys/kernel/random/boot_id
    for space in /run/netns/*; do ip netns del ${space##*/}; done
    for link in $(ip -o link show type bridge | cut -d : -f 2); do ip link del $link; done
    nft flush ruleset";

/// Exit code and what is printed.
#[track_caller]
fn fails(bed: &Bed, command: &str, status: i32, words: &[&str]) {
    let answer = bed.world.try_sh(&format!("{SPOKE} {command}"));
    assert_eq!(answer.status, status, "{command}: {answer:?}");
    for word in words {
        assert!(answer.stderr.contains(word), "{command}: no {word:?} in {answer:?}");
    }
}

fn mac(bed: &Bed, sandbox: &str, ifname: &str) -> String {
    bed.world.sh(&format!("ip netns exec {sandbox} cat /sys/class/net/{ifname}/address"))
}

#[test]
fn an_endpoint_has_its_addresses_before_and_after_its_sandboxes() {
    let bed = Bed::new(&["one", "two", "peer"]);
    bed.spoke("network connect --ip 10.71.1.7 front peer");
    let made = bed.spoke("endpoint create --ip 10.71.1.9 --alias www -p 8080:80 front web");
    assert_eq!(made, "web 10.71.1.9/24\n");
    // It is in every view, and nothing leads to it.
    let shown = bed.json("endpoint ls front -o json");
    assert_eq!((&shown[1]["container"], &shown[1]["state"]), (&"web".into(), &"reserved".into()));
    assert!(bed.spoke("ipam show 10.71.1.9").contains("web"));
    assert!(bed.spoke("network inspect front").contains("\"web\""));
    assert!(bed.spoke("ps front").contains("reserved"));
    assert_eq!(bed.json("ports -o json"), serde_json::json!([]));
    fails(&bed, "network connect --ip 10.71.1.9 front one", 4, &["10.71.1.9", "web"]);
    fails(&bed, "network connect --container web front one", 4, &["endpoint join front web"]);
    fails(&bed, "endpoint create front web", 4, &["there already"]);
    fails(&bed, "network rm front", 4, &["2 attachments"]);
    bed.spoke("gc");

    bed.spoke("endpoint join --ifname wan0 front web one");
    bed.spoke("endpoint join front web one");
    let first = mac(&bed, "one", "wan0");
    bed.world.sh("ip netns exec peer ping -c 1 -W 5 10.71.1.9");
    assert_eq!(bed.hosts("peer"), ["10.71.1.7 peer", "10.71.1.9 web www"]);
    assert!(bed.world.sh("ip -n one route").contains("default via 10.71.1.1 dev wan0"));
    assert!(bed.spoke("ports").contains("8080"));
    fails(&bed, "endpoint join front web two", 4, &["leave"]);
    fails(
        &bed,
        "endpoint rm front web",
        4,
        &["/run/netns/one", "endpoint leave front web", "--force"],
    );

    bed.spoke("endpoint leave front web");
    bed.spoke("endpoint leave front web");
    assert!(!bed.world.sh("ip -n one link").contains("wan0"));
    assert_eq!(bed.hosts("peer"), ["10.71.1.7 peer"]);
    assert_eq!(bed.json("ports -o json"), serde_json::json!([]));
    bed.spoke("endpoint join front web two");
    assert_eq!(mac(&bed, "two", "eth0"), first);
    bed.world.sh("ip netns exec peer ping -c 1 -W 5 10.71.1.9");
    // The sandbox ends without a word: the endpoint is there, until its user removes it.
    bed.world.sh(&format!("ip netns del two; while {SPOKE} endpoint ls front | grep -q attached.*netns/two; do {SPOKE} gc; done"));
    assert_eq!(bed.json("endpoint inspect front web")[0]["state"], "reserved");
    bed.spoke("endpoint rm front web");
    fails(&bed, "endpoint rm front web", 3, &["not there"]);
    bed.spoke("endpoint rm --force front web");
    bed.spoke("network disconnect front peer");
    assert_eq!(bed.spoke("ipam show front -o json").matches("\"held\"").count(), 0);
    assert_eq!(bed.json("gc -o json"), serde_json::json!([]));
    assert_eq!(bed.files(), "");
}

#[test]
fn a_reboot_takes_no_endpoint() {
    let bed = Bed::new(&["one"]);
    bed.spoke("endpoint create --label tier=db front web");
    bed.spoke("network connect back one");
    bed.spoke("endpoint join front web one");
    let had = bed.json("endpoint inspect front web")[0].clone();
    bed.world.sh(REBOOT);
    for name in ["one", "two"] {
        bed.world.netns(name);
    }
    // No repair has run yet, and no other container gets the address.
    bed.spoke("network connect front two");
    let shown = bed.json("endpoint ls -o json");
    assert_eq!(shown.as_array().unwrap().len(), 2, "what was connected is gone: {shown}");
    for key in ["container", "addresses", "mac", "labels"] {
        assert_eq!(shown[1][key], had[key], "{key}");
    }
    assert_eq!(shown[1]["state"], "reserved");
    fails(&bed, "network disconnect front two && /opt/cni/bin/spoke network rm front", 4, &["web"]);
    bed.spoke("endpoint join front web one");
    let again = bed.json("endpoint inspect front web")[0].clone();
    for key in ["container", "addresses", "mac", "labels"] {
        assert_eq!(again[key], had[key], "{key}");
    }
    bed.spoke("endpoint rm --force front web");
    bed.spoke("network rm front");
    assert_eq!(bed.files(), "");
    assert_eq!(
        bed.world.sh("find /var/lib/spoke/endpoints /var/lib/spoke/reservations -type f"),
        ""
    );
}

#[test]
fn what_is_connected_at_once_has_the_same_life() {
    let bed = Bed::new(&["web", "other"]);
    bed.spoke("network connect --ip 10.71.1.9 -p 8080:80 front web");
    let first = mac(&bed, "web", "eth0");
    bed.spoke("endpoint leave front web");
    assert_eq!(bed.json("endpoint inspect front web")[0]["state"], "reserved");
    fails(&bed, "network connect front web", 4, &["endpoint join front web"]);
    bed.spoke("endpoint join front web other");
    assert_eq!(mac(&bed, "other", "eth0"), first);
    assert!(bed.spoke("ports").contains("8080"));
    // What the sandbox is called is what disconnect takes.
    bed.spoke("network disconnect front other");
    assert_eq!(bed.json("endpoint ls -o json"), serde_json::json!([]));
    assert_eq!(bed.files(), "");
}

#[test]
fn endpoints_of_several_names_share_a_sandbox() {
    let bed = Bed::new(&["box"]);
    bed.spoke("endpoint create -p 8081:80 front a");
    bed.spoke("endpoint create -p 8082:80 back b");
    bed.spoke("endpoint join front a box");
    bed.spoke("endpoint join --gw-priority 5 back b box");
    let routes = bed.world.sh("ip -n box route");
    assert!(routes.contains("default via 10.71.2.1 dev eth1"), "{routes}");
    assert_eq!(bed.json("ports -o json").as_array().unwrap().len(), 2);
    bed.spoke("endpoint leave back b");
    let routes = bed.world.sh("ip -n box route");
    assert!(routes.contains("default via 10.71.1.1 dev eth0"), "{routes}");
    assert!(bed.spoke("ports").contains("8081") && !bed.spoke("ports").contains("8082"));
    bed.spoke("endpoint rm back b");
    bed.spoke("endpoint rm -f front a");
    assert_eq!(bed.files(), "");
}

#[test]
fn labels_are_found() {
    let bed = Bed::new(&["one", "two"]);
    bed.spoke("network create --label tier=db --label team --subnet 10.71.3.0/24 third");
    let names = |command: &str| bed.spoke(command).lines().map(str::to_owned).collect::<Vec<_>>();
    for (filter, found) in
        [("tier", &["third"][..]), ("tier=db", &["third"]), ("tier=x", &[]), ("team=", &["third"])]
    {
        assert_eq!(names(&format!("network ls -q --filter label={filter}")), found, "{filter}");
    }
    let network = bed.json("network inspect third");
    assert_eq!(network[0]["labels"], serde_json::json!({"team": "", "tier": "db"}));
    bed.spoke("network connect --label app=web -p 8080:80 front one");
    bed.spoke("network connect -p 8081:80 front two");
    bed.spoke("endpoint create --label app=db front three");
    assert_eq!(names("ps -q --filter label=app"), ["one", "three"]);
    assert_eq!(names("ps -q --filter label=app=db"), ["three"]);
    assert_eq!(names("endpoint ls -q --filter label=app=web --filter state=attached"), ["one"]);
    assert_eq!(names("ports -q --filter label=app"), ["8080/tcp"]);
    assert_eq!(bed.json("endpoint inspect front one")[0]["labels"]["app"], "web");
    for wrong in
        ["network create --label =x fourth", "network ls --filter label=", "ps --filter x=y"]
    {
        bed.refused(wrong);
    }
    bed.spoke("endpoint rm front three");
    for name in ["one", "two"] {
        bed.spoke(&format!("network disconnect front {name}"));
    }
}

#[test]
fn what_a_driver_cannot_do_is_refused() {
    let bed = Bed::new(&["web"]);
    bed.world.sh(
        r#"printf '{"cniVersion":"1.0.0","name":"chain","plugins":[{"type":"ptp","ipam":{"type":"host-local","subnet":"10.73.0.0/24"}}]}' >/world/chain.conflist"#,
    );
    bed.spoke(
        "network create -d cni --conflist /world/chain.conflist --cni-path /opt/cni/bin chain",
    );
    fails(&bed, "endpoint create chain web", 2, &["driver cni", "network connect"]);
    bed.spoke("network connect chain web");
    fails(&bed, "endpoint leave chain web", 2, &["driver cni", "network disconnect"]);
    assert_eq!(bed.json("endpoint ls -o json")[0]["state"], "attached");
    bed.spoke("network disconnect chain web");
    bed.world.sh("ip link add lan0 type veth peer name far0; ip link set lan0 up");
    bed.spoke("network create -d macvlan --parent lan0 --dhcp lan");
    fails(&bed, "endpoint create lan web", 2, &["DHCP"]);
    bed.spoke("network create -d macvlan --parent lan0 --subnet 10.74.0.0/24 seg");
    bed.spoke("endpoint create seg web");
    bed.spoke("endpoint join seg web web");
    assert!(bed.world.sh("ip -n web -o address").contains("10.74.0.2/24"));
    bed.spoke("endpoint leave seg web");
    bed.spoke("endpoint rm seg web");
    fails(&bed, "endpoint join front nobody web", 3, &["nobody", "endpoint ls"]);
    fails(&bed, "endpoint leave front nobody", 3, &["nobody"]);
    bed.spoke("endpoint create front web");
    fails(&bed, "endpoint join front web nowhere", 3, &["nowhere", "/run/netns"]);
    bed.spoke("endpoint rm front web");
    assert_eq!(bed.json("gc -o json"), serde_json::json!([]));
}

/// On a sticky network a container or a virtual machine that returns gets its address again.
#[test]
fn a_name_that_returns_has_its_address() {
    let bed = Bed::new(&["one", "two"]);
    bed.spoke("network set front --sticky true");
    for (more, name) in [("", "one"), ("--tap", "vm")] {
        let connect = format!("network connect {more} front {name}");
        let first = bed.spoke(&connect);
        bed.spoke(&format!("network disconnect front {name}"));
        bed.spoke("network connect front two");
        assert_eq!(bed.spoke(&connect), first);
        bed.spoke("network disconnect front two");
    }
}
