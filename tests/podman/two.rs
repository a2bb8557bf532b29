//! A container on two networks that both lead out.

use tests::Podman5;

/// Where a container's first default route leads, and how many it has.
fn ways_out(podman: &Podman5, name: &str) -> (String, usize) {
    let routes = podman.podman(&format!("exec {name} ip route"));
    let mut all: Vec<(u32, &str)> = routes
        .lines()
        .filter(|line| line.starts_with("default"))
        .map(|line| {
            let word = |key| {
                let mut words = line.split_whitespace().skip_while(move |word| *word != key);
                words.nth(1)
            };
            let metric = word("metric").map_or(0, |text| text.parse().expect("a metric"));
            (metric, word("dev").expect("a device"))
        })
        .collect();
    all.sort_unstable();
    let metrics: Vec<u32> = all.iter().map(|(metric, _)| *metric).collect();
    assert!(metrics.windows(2).all(|two| two[0] < two[1]), "one wins: {routes}");
    (all.first().map_or_else(String::new, |(_, device)| (*device).to_owned()), all.len())
}

fn one_way_out(podman: &Podman5) {
    podman.podman("network create -d spoke --ipv6 --subnet 10.89.7.0/24 front");
    podman.podman("network create -d spoke --ipv6 --subnet 10.89.8.0/24 back");
    podman.podman("network create -d spoke --subnet 10.89.9.0/24 -o metric=300 far");
    podman.podman("network create -d spoke --subnet 10.89.10.0/24 --internal vault");
    podman.run("one", "--network front --network back --network far --network vault", "");
    assert_eq!(ways_out(podman, "one").1, 3);
    // Podman numbers the interfaces and attaches them in any order.
    podman.run("two", "--network front:interface_name=eth0 --network back:interface_name=eth1", "");
    assert_eq!(ways_out(podman, "two"), ("eth0".into(), 2));
    let six = podman.podman("exec two ip -6 route");
    let ways: Vec<&str> = six.lines().filter(|line| line.starts_with("default")).collect();
    let of = |device: &str, metric: &str| {
        ways.iter().any(|way| {
            way.contains(&format!("dev {device} ")) && way.contains(&format!("metric {metric} "))
        })
    };
    assert!(ways.len() == 2 && of("eth0", "1024") && of("eth1", "1025"), "{six}");
    podman.podman("network disconnect front two");
    assert_eq!(ways_out(podman, "two"), ("eth1".into(), 1));
    podman.podman("exec two /bin/ping -c 1 -W 3 10.89.7.1");
    podman.podman("network connect front two");
    assert_eq!(ways_out(podman, "two"), ("eth0".into(), 2), "again");
    podman.podman("rm -f -t 0 one two");
    podman.podman("network rm front back far vault");
    podman.is_empty();
}

fn serves(podman: &Podman5, address: &str) {
    let page = podman.world.sh(&format!("busybox wget -T 5 -qO- http://{address}:18080/"));
    assert_eq!(page, "a page\n", "through {address}");
}

/// Podman names a container's ports to each of its networks.
fn ports_are_served_through_one_network(podman: &Podman5) {
    podman.podman("network create -d spoke --subnet 10.89.7.0/24 front");
    podman.podman("network create -d spoke --subnet 10.89.8.0/24 back");
    let both = "--network front --network back -p 18080:80";
    podman.serve("web", both);
    serves(podman, "127.0.0.1");
    serves(podman, "10.89.7.1");
    let said = podman.run_refused("--network back -p 18080:80");
    assert!(said.contains("18080"), "{said}");
    podman.podman("network disconnect front web");
    serves(podman, "10.89.8.1");
    podman.podman("network connect front web");
    podman.podman("network disconnect back web");
    serves(podman, "10.89.7.1");
    podman.podman("rm -f -t 0 web");
    podman.podman("network rm front back");
    podman.is_empty();
}

/// Podman tells an address that was asked for twice then: as asked for, and as had before.
fn a_reload_keeps_the_address(podman: &Podman5) {
    podman.podman("network create -d spoke --subnet 10.89.7.0/24 front");
    let options = "--network front --ip 10.89.7.77 -p 18080:80";
    podman.serve("web", options);
    podman.run("other", "--network front", "");
    podman.podman("network reload --all");
    serves(podman, "10.89.7.1");
    assert_eq!(podman.endpoint("web", "front")["IPAddress"], "10.89.7.77");
    podman.podman("exec other /bin/ping -c 1 -W 3 10.89.7.77");
    podman.podman("rm -f -t 0 web other");
    podman.podman("network rm front");
    podman.is_empty();
}

/// The plugin, and another container that wants the address as soon as one is taken down.
const WITH_A_THIEF: &str = r#"
rm /usr/local/lib/netavark/spoke
cat >/usr/local/lib/netavark/spoke <<'PLUGIN'
#!/bin/sh
/opt/cni/bin/spoke "$@"; status=$?
if [ "$1" = teardown ]; then
    /opt/cni/bin/spoke network connect --ip 10.89.7.77 front thief >/run/stage/thief 2>&1
    echo "exit $?" >>/run/stage/thief
fi
exit $status
PLUGIN
chmod 755 /usr/local/lib/netavark/spoke
ip netns add thief"#;

/// Between Podman's two calls no other container gets the address; of a container that ended it is free at once.
fn a_reload_frees_no_address(podman: &Podman5) {
    podman.podman("network create -d spoke --subnet 10.89.7.0/24 -o sticky=false front");
    podman.serve("web", "--network front --ip 10.89.7.77");
    podman.world.sh(WITH_A_THIEF);
    podman.podman("network reload web");
    assert_eq!(podman.endpoint("web", "front")["IPAddress"], "10.89.7.77");
    let thief = podman.world.sh("cat /run/stage/thief");
    assert!(thief.contains("kept for web") && thief.contains("exit 4"), "{thief}");
    // As Podman itself does at times: a process of the host visits the namespace.
    let path = podman.podman("inspect --format {{.NetworkSettings.SandboxKey}} web");
    podman.world.sh(&format!(
        "nsenter --net={} sleep 100000 >/dev/null 2>&1 & echo $! >/run/stage/visitor",
        path.trim()
    ));
    podman.podman("rm -f -t 0 web");
    podman.world.sh("kill $(cat /run/stage/visitor)");
    let thief = podman.world.sh("cat /run/stage/thief");
    assert!(thief.contains("exit 0"), "{thief}");
    podman.spoke("network disconnect front thief");
    podman.world.sh("ip netns del thief; rm /usr/local/lib/netavark/spoke");
    podman.world.sh("/opt/cni/bin/spoke podman install");
    podman.podman("network rm front");
    podman.is_empty();
}

with_each_podman!(
    one_way_out,
    ports_are_served_through_one_network,
    a_reload_keeps_the_address,
    a_reload_frees_no_address
);
