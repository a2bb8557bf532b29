//! What the Debian package's `postrm purge` leaves of Spoke in the kernel, in a host of its own.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::process::Command;

const SPOKE: &str = env!("CARGO_BIN_EXE_spoke");
const POSTRM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/debian/postrm");

/// The places that a purge empties are the namespace's own. The host forwards nothing, and drops by policy
/// what it would forward, as Docker has it.
const HOST: &str = r"
mount -t tmpfs none /run
mkdir /run/upper /run/work
mount -t overlay overlay -o lowerdir=/etc,upperdir=/run/upper,workdir=/run/work /etc
mount -t tmpfs none /var/lib
echo 0 >/proc/sys/net/ipv4/ip_forward
echo 0 >/proc/sys/net/ipv6/conf/all/forwarding
ip link set lo up
ip link add eth0 type veth peer name far0
iptables-nft -P FORWARD DROP
iptables-nft -N DOCKER-USER
iptables-nft -I FORWARD -j DOCKER-USER
ip netns add one
$SPOKE network create --subnet 10.9.0.0/24 --subnet fd00:9::/64 front >/dev/null
$SPOKE network connect --publish 8080:80 front /run/netns/one >/dev/null
test $(cat /proc/sys/net/ipv4/ip_forward) = 1
test $(cat /proc/sys/net/ipv6/conf/all/forwarding) = 1
nft list table inet spoke_transit >/dev/null
nft list table inet spoke_ports >/dev/null
iptables-nft -S | grep -q SPOKE-FORWARD
";

/// A script after the purge of a host with a network; its output, and what the purge says.
fn purged(before: &str, after: &str) -> (String, String) {
    let script = format!("{HOST}{before}\nsh -e $POSTRM purge >&2\n{after}");
    let mut command = Command::new("unshare");
    command.args(["-n", "-m", "--propagation", "private", "sh", "-euc", &script]);
    command.env("SPOKE", SPOKE).env("POSTRM", POSTRM).env("MARK", model::ENGINE_LABEL);
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    (String::from_utf8(output.stdout).unwrap(), said)
}

const FORWARDING: &str = "cat /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv6/conf/all/forwarding /proc/sys/net/ipv4/conf/lo/tag";

/// An interface that heard of its route from a router of IPv6 when Spoke turned forwarding on.
const HEARS_ROUTERS: &str = "echo 2 >/proc/sys/net/ipv6/conf/eth0/accept_ra
    echo 1936748397 >/proc/sys/net/ipv4/conf/eth0/tag";

const ROUTERS: &str = "cat /proc/sys/net/ipv6/conf/eth0/accept_ra /proc/sys/net/ipv4/conf/eth0/tag";

#[test]
fn a_purged_host_does_not_forward() {
    let others = "nft add table inet spoke_routes; nft add table ip spoke_overlay
        ip link add spokewg0 group 1936747383 type bridge";
    let (state, said) = purged(others, FORWARDING);
    assert_eq!(state, "0\n0\n0\n", "{said}");
    let (state, said) = purged(HEARS_ROUTERS, ROUTERS);
    assert_eq!(state, "1\n0\n", "{said}");
    let (left, said) = purged(
        others,
        "nft list tables | grep spoke || true; iptables-save | grep SPOKE || true
         ip -o link | grep -v -e ' lo:' -e eth0 -e far0 || true",
    );
    assert_eq!(left, "", "{said}");
}

/// What a network of many hosts leaves, as this host has it: devices, tables of both families, and the files by
/// which Podman and CNI know it. Beside it, what only looks like that.
const CLUSTER: &str = r#"
ip link add spokevx4097 type vxlan id 4097 local 192.0.2.1 dstport 4789
ip link set spokevx4097 alias "spoke network 4097 from 192.0.2.1 port 4789"
ip link add spokewg0 group 1936747383 type bridge
ip link set eth0 up
ip address add 192.0.2.1/24 dev eth0
ip address add 2001:db8::1/64 dev eth0 nodad
ip route add 10.66.0.0/24 via 192.0.2.9 proto 83
ip route add fd66::/64 via 2001:db8::9 proto 83
ip route add 10.67.0.0/24 via 192.0.2.9
nft add table ip spoke_overlay
nft add table ip6 spoke_overlay
nft add table inet spoke_routes
rm -rf /etc/cni /etc/containers
mkdir -p /etc/cni/net.d /etc/containers/networks /run/networks
echo "network_config_dir = \"/run/networks\"" >/etc/containers/containers.conf
put() { printf "%s\n" "$2" >$1; }
put /etc/cni/net.d/wide.conflist "{
  \"name\": \"wide\",
  \"$MARK\": \"wide\"
}"
put /etc/cni/net.d/other.conflist "{
  \"name\": \"other\",
  \"$MARK\": \"wide\"
}"
for directory in /etc/containers/networks /run/networks; do
    put $directory/wide.json "{
  \"labels\": {
    \"$MARK\": \"wide\"
  }
}"
done
put /etc/containers/networks/mine.json "{\"driver\": \"spoke\", \"options\": {\"network\": \"wide\"}}"
"#;

#[test]
fn a_purged_host_of_a_cluster_has_nothing_of_it() {
    let see = "nft list tables | grep spoke || true; ip -o link | grep -o ' spoke[a-z0-9]*' || true
        ip route show proto 83; ip -6 route show proto 83; ip route show 10.67.0.0/24 | cut -d' ' -f1
        cd /; find etc/cni etc/containers run/networks -type f | sort";
    let others = "etc/cni/net.d/other.conflist\netc/containers/containers.conf\n\
        etc/containers/networks/mine.json\n";
    let (left, said) = purged(CLUSTER, &format!("{FORWARDING}\n{see}"));
    assert_eq!(left, format!("0\n0\n0\n10.67.0.0/24\n{others}"), "{said}");
    let anothers = "ip link add spokevx4098 type vxlan id 4098 local 192.0.2.1 dstport 4790";
    let (left, said) =
        purged(&format!("{CLUSTER}{anothers}"), "ip -o link | grep -o ' spoke[a-z0-9]*'");
    assert_eq!(left, " spokevx4098\n", "{said}");
}

#[test]
fn what_another_program_counts_on_stays_with_its_guard() {
    let others = "ip link add docker0 type bridge";
    let (state, said) = purged(others, FORWARDING);
    assert!(state.starts_with("1\n1\n"), "{state}");
    assert!(said.contains("which these may count: docker0"), "{said}");
    let hears = format!("{others}\n{HEARS_ROUTERS}");
    assert_eq!(purged(&hears, ROUTERS).0, "2\n0\n", "it would hear no more of its routes");
    let guard = "nft list chain inet spoke_transit forward | grep -c @before";
    assert_eq!(purged(others, guard).0, "1\n");
}

/// The administrator turned it off and on again after Spoke had turned it on.
#[test]
fn what_the_administrator_turned_on_again_stays_on() {
    let others = "echo 0 >/proc/sys/net/ipv4/ip_forward; echo 1 >/proc/sys/net/ipv4/ip_forward
        echo 0 >/proc/sys/net/ipv6/conf/all/forwarding; echo 1 >/proc/sys/net/ipv6/conf/all/forwarding";
    let (state, said) =
        purged(others, &format!("{FORWARDING}; nft list tables | grep -c spoke || true"));
    assert_eq!(state, "1\n1\n0\n0\n", "{said}");
}
