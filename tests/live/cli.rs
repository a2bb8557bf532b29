//! Containers of the command line.

use tests::{Remains, Serve};

use crate::bed::{Bed, HOST, Live, SPOKE};

/// A connection over one port goes on while another port comes and goes, with its connections.
const FLOW: &str = r#"
ip netns exec web busybox nc -ll -p 81 -e cat >/dev/null 2>&1 & server=$!
timeout 20 sh -c 'until ip netns exec web ss -Hltn sport = :81 | grep -q .; do sleep 0.05; done'
mkfifo /run/in /run/in2; : >/run/out; : >/run/out2
said() { timeout 10 sh -c "until grep -q $2 $1; do sleep 0.05; done"; }
ip netns exec lan busybox nc 192.0.2.1 8081 </run/in >/run/out & exec 5>/run/in
echo one >&5; said /run/out one
SPOKE port add web 8443:81; echo two >&5; said /run/out two
ip netns exec lan busybox nc 192.0.2.1 8443 </run/in2 >/run/out2 & client=$!; exec 6>/run/in2
echo one >&6; said /run/out2 one
SPOKE port rm web 8443; echo three >&5; said /run/out three
# The connection over the port that is gone ends: the host knows of none.
echo two >&6; timeout 10 tail --pid $client -f /dev/null; ! grep -q two /run/out2
exec 5>&- 6>&-; kill $server
"#;

fn a_port_comes_and_goes(config: &str) {
    let bed = Bed::with(config, &["web", "api"]);
    // What a network, and a port of it, leave in the kernel for the next one.
    bed.spoke("network connect --publish 8081:81 front web");
    bed.spoke("network connect --publish 8080:80 front api");
    bed.serve("web");
    bed.serve("api");
    let before = Remains::of(&bed.world);
    bed.no_page(8443);

    bed.spoke("port add web 8443:80");
    assert_eq!(bed.page(8443), "web");
    assert_eq!(bed.page(8080), "api");
    bed.spoke("port add web 8443:80");
    let shown = bed.spoke("port ls web");
    assert!(shown.contains("8443/tcp") && shown.contains("port add"), "{shown}");
    assert!(bed.spoke("ps").contains("8443->80/tcp"));
    assert!(bed.spoke("ports").contains("8443/tcp"));
    let ports = &bed.json("ps")[1]["ports"];
    assert_eq!((&ports[0]["added"], &ports[1]["added"]), (&false.into(), &true.into()), "{ports}");

    // Of others it is refused by name, and nothing changes.
    let had = Remains::of(&bed.world);
    bed.refuses("port add web 8080:80", 4, &["8080/tcp", "container api"]);
    bed.refuses("port add api 8443:80", 4, &["8443/tcp", "container web"]);
    bed.refuses("port add web 8443:81", 4, &["container web"]);
    bed.refuses("port add nobody 8444:80", 3, &["nobody", "spoke ps"]);
    bed.refuses("port rm web 8081", 2, &["its runtime"]);
    bed.refuses("port rm web 9", 3, &["no host port 9/tcp"]);
    bed.refuses("port add --ip fd00::1 web 8444:80", 2, &["family"]);
    for address in ["224.0.0.1", "255.255.255.255", "0.0.0.1", "192.0.2.2"] {
        bed.refuses(&format!("port add --ip {address} web 8444:80"), 2, &[address]);
    }
    bed.refuses("port add web +8444:80", 2, &["HOST:CONTAINER"]);
    bed.refuses("port rm web 8443:", 2, &["a port of the host is"]);
    bed.world.sh(&format!(
        "busybox nc -ll -p 8700 -e cat >/dev/null 2>&1 & echo $! >/run/rival
        timeout 20 sh -c 'until ss -Hltn sport = :8700 | grep -q .; do sleep 0.05; done'
        ! {SPOKE} port add web 8700:80 2>/run/said; grep -q busybox /run/said; kill $(cat /run/rival)"
    ));
    assert_eq!(Remains::of(&bed.world).changes(&had), Vec::<String>::new());

    // One address of the host, and the other protocol, are ports of their own.
    bed.spoke(&format!("port add --ip {HOST} web 8445:80"));
    bed.spoke("port add web 8445:80/udp");
    assert_eq!(bed.page(8445), "web");
    bed.world.sh("! curl -sS --max-time 2 http://127.0.0.1:8445/");
    bed.spoke("port rm web 8445/udp");
    assert_eq!(bed.page(8445), "web");
    bed.spoke("port rm web 8445");
    bed.spoke("port rm web 8443");
    bed.no_page(8443);
    bed.no_page(8445);
    bed.refuses("port rm web 8443", 3, &["no host port"]);
    assert_eq!(Remains::of(&bed.world).changes(&before), Vec::<String>::new());

    bed.world.sh(&FLOW.replace("SPOKE", SPOKE));
    bed.spoke("port add web 8443:80");
    bed.spoke("network disconnect front web");
    bed.no_page(8443);
    assert_eq!(bed.elements().iter().filter(|it| it.contains("8443")).count(), 0);
    assert!(bed.spoke("port ls").contains("waiting"));

    // By name it comes back, and not where another container has it by now.
    bed.spoke("network connect front web");
    assert_eq!(bed.page(8443), "web");
    bed.spoke("network disconnect front web");
    bed.spoke("network disconnect front api");
    bed.spoke("network connect --publish 8443:80 front api");
    bed.spoke("network connect front web");
    assert_eq!(bed.page(8443), "api");
    assert!(bed.spoke("port ls web").contains("waiting"));
    bed.spoke("port rm web 8443");
    assert_eq!(bed.page(8443), "api");
    bed.spoke("network disconnect front web");
    bed.spoke("network disconnect front api");
    assert_eq!(bed.spoke("port ls --quiet"), "");
    bed.spoke("network rm front");
    assert_eq!(bed.world.sh("find /run/spoke /var/lib/spoke -name '*8443*'"), "");
}

/// The ports of a namespace on two networks lead over its default route, whichever network is named.
#[test]
fn the_ports_of_a_namespace_follow_its_default_route() {
    let bed = Bed::new(&["web"]);
    bed.spoke("network create --subnet 10.89.9.0/24 shop");
    bed.spoke("network connect front web");
    bed.spoke("network connect shop web");
    bed.serve("web");
    bed.refuses("port add --network shop web 8443:80", 2, &["default route", "network front"]);
    assert_eq!(bed.spoke("port ls --quiet"), "");
    bed.spoke("port add --network front web 8443:80");
    assert_eq!(bed.page(8443), "web");
    assert_eq!(bed.spoke("port ls --quiet"), "8443/tcp\n");
}

#[test]
fn a_port_comes_and_goes_in_nftables() {
    a_port_comes_and_goes("");
}

#[test]
fn a_port_comes_and_goes_in_iptables() {
    a_port_comes_and_goes("[firewall]\nbackend = \"iptables\"");
}

/// The packet filter, the book without what is kept under names, and what the bridges let pass.
const WHOLE: &str = "
nft -s list ruleset | grep '[^ ]'
{ iptables-save; ip6tables-save; } | grep ^- || true
find /run/spoke /var/lib/spoke -type f ! -name '.*.new' ! -path '*/amendments/*' | sort
cat /proc/sys/net/ipv4/conf/*/route_localnet
";

#[track_caller]
fn whole_of(bed: &Bed) -> Vec<String> {
    let mut lines: Vec<String> = bed.world.sh(WHOLE).lines().map(str::to_owned).collect();
    // In which order the old chains were made says nothing.
    lines.sort();
    lines
}

/// The kernel and the book have the same as of a container that was published from its start.
#[test]
fn it_is_as_if_it_had_been_there_from_the_start() {
    for config in ["", "[firewall]\nbackend = \"iptables\""] {
        let bed = Bed::with(config, &["web"]);
        for options in ["--publish lan", "--publish local", ""] {
            bed.spoke(&format!(
                "network create {options} --subnet 10.74.2.0/24 --subnet fd74::/64 two"
            ));
            if !config.is_empty() && !options.is_empty() {
                bed.spoke("network rm two");
                continue;
            }
            let ip = "--ip 10.74.2.9 --ip6 fd74::9";
            bed.spoke(&format!(
                "network connect {ip} --publish 8443:80 --publish 127.0.0.1:5353:53/udp two web"
            ));
            let whole = whole_of(&bed);
            bed.spoke("network disconnect two web");
            bed.spoke(&format!("network connect {ip} two web"));
            bed.spoke("port add web 8443:80");
            bed.spoke("port add web 127.0.0.1:5353:53/udp");
            assert_eq!(whole_of(&bed), whole, "{config} {options}");
            bed.spoke("port rm web 8443");
            bed.spoke("port rm web 5353/udp");
            bed.spoke("network disconnect two web");
            bed.spoke("network rm two");
        }
    }
}

/// A port is the sandbox's: it follows the default route from one network to the other.
#[test]
fn it_follows_the_default_route() {
    let bed = Bed::new(&["web"]);
    bed.spoke("network create --subnet 10.74.3.0/24 back");
    bed.spoke("network connect front web");
    bed.serve("web");
    bed.spoke("port add web 8443:80");
    bed.spoke("network connect --gw-priority 10 back web");
    assert_eq!(bed.page(8443), "web");
    let leads =
        |subnet: &str| bed.elements().iter().any(|it| it.contains("8443") && it.contains(subnet));
    assert!(leads("10.74.3.") && !leads("10.74.1."), "{:#?}", bed.elements());
    bed.spoke("network disconnect back web");
    assert!(leads("10.74.1."), "{:#?}", bed.elements());
    assert_eq!(bed.page(8443), "web");
    bed.spoke("network connect back web");
    bed.spoke("port rm web 8443");
    bed.no_page(8443);
    bed.spoke("network disconnect front web");
    bed.spoke("network disconnect back web");
    assert_eq!(bed.spoke("port ls --quiet"), "");
}

/// The daemon holds the port against others, heals it, and outlives its own end.
#[test]
fn the_daemon_follows() {
    let bed = Bed::new(&["web"]);
    let serve = Serve::start(&bed.world, &[]);
    bed.spoke("network connect front web");
    bed.serve("web");
    bed.spoke("port add web 8443:80");
    bed.spoke("port add web 8446:80/udp");
    bed.until_held(8446, 1);
    bed.until(&format!("{SPOKE} events | grep -q \"8443->80/tcp\""));
    bed.world.sh("nft flush ruleset");
    bed.until("nft list table inet spoke 2>/dev/null | grep -q \"8443\"");
    assert_eq!(bed.page(8443), "web");
    serve.kill();
    let serve = Serve::start(&bed.world, &[]);
    bed.until_held(8446, 1);
    bed.spoke("port rm web 8446/udp");
    bed.until_held(8446, 0);
    bed.spoke("port rm web 8443");
    bed.no_page(8443);
    serve.stop();
}

/// Ports that differ by address or protocol only are different ports.
#[test]
fn ports_differ_by_address_and_protocol() {
    let bed = Bed::new(&["web", "api"]);
    no_result_is_lost(&bed);
    bed.spoke("network connect --publish 192.0.2.1:9000:80 front web");
    bed.spoke("network connect front api");
    bed.serve("web");
    bed.serve("api");
    let here = || bed.world.sh("curl -sS --max-time 5 http://127.0.0.1:9000/").trim().to_owned();
    bed.spoke("port add api 127.0.0.1:9000:80");
    bed.spoke("port add web 9000:80/udp");
    assert_eq!((bed.page(9000), here()), ("web".to_owned(), "api".to_owned()));
    bed.refuses("port add api 9000:80", 4, &["9000/tcp", "container web"]);
    bed.refuses("port add web 9000:80", 4, &["9000/tcp"]);
    bed.refuses("port add web 127.0.0.1:9000:80/udp", 4, &["9000/udp", "container web"]);
    let rows = |bed: &Bed| bed.json("port ls").as_array().map_or(0, Vec::len);
    assert_eq!(rows(&bed), 3);
    bed.refuses("port rm api 9000/udp", 3, &["9000/udp"]);
    bed.spoke("port rm api 127.0.0.1:9000");
    assert_eq!(bed.page(9000), "web");
    assert_eq!(bed.world.try_sh("curl -sS --max-time 2 http://127.0.0.1:9000/").stdout, "");
    bed.spoke("port add web 127.0.0.1:9000:80");
    assert_eq!((bed.page(9000), here()), ("web".to_owned(), "web".to_owned()));
    bed.spoke("port rm web 9000");
    assert_eq!(bed.page(9000), "web");
    assert_eq!(rows(&bed), 2, "the one of the network, and that of UDP");
}

/// What cannot be written was not done well; a reader that has seen enough is no failure.
fn no_result_is_lost(bed: &Bed) {
    for command in ["ps", "ports -o json", "version", "port --help"] {
        bed.refuses(&format!("{command} >/dev/full"), 1, &["writing to standard output"]);
    }
    let plugin = "CNI_COMMAND=VERSION /opt/cni/bin/bridge </dev/null >/dev/full";
    assert_eq!(bed.world.try_sh(plugin).status, 1);
    assert_eq!(bed.world.try_sh(&format!("{SPOKE} ps | true")).status, 0);
}
