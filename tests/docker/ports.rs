//! Published ports of a real engine's containers.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use serde_json::json;
use tests::{Cni, Release};

use crate::bed::Bed;
use crate::neighbours::{GET, NEIGHBOURS, NO_NEIGHBOURS};

#[track_caller]
fn published(release: Release) {
    let Some(bed) = Bed::new(release) else { return };
    bed.world().sh(NEIGHBOURS);
    bed.network("--ipv6 --subnet 10.80.0.0/24 --subnet fd80::/64 front");
    bed.serve(
        "--name web --network front -p 18080:80 -p 127.0.0.1:18081:80 -p 192.0.2.1:18082:80 \
         -p 18090-18092:80 -p 18053:53/udp",
    );
    bed.run("--name one --network front");

    // Containers reach what is outside, although Docker lets nothing through.
    for to in ["192.0.2.2", "198.51.100.2", "2001:db8:1::2", "2001:db8:2::2"] {
        bed.engine.ping("one", to);
    }
    // From elsewhere: the server sees who it is.
    assert_eq!(bed.asked("lan", "192.0.2.1", 18080), "192.0.2.2");
    assert_eq!(bed.asked("far", "192.0.2.1", 18080), "198.51.100.2");
    assert_eq!(bed.asked("lan", "2001:db8:1::1", 18080), "2001:db8:1::2");
    assert_eq!(bed.asked("far", "2001:db8:1::1", 18080), "2001:db8:2::2");
    assert_eq!(bed.asked("lan", "192.0.2.1", 18082), "192.0.2.2");
    assert_eq!(bed.ask("lan", "192.0.2.1", 18081), None, "on loopback only");
    // From the host: by any of its addresses.
    for host in ["127.0.0.1", "192.0.2.1", "10.80.0.1", "fd80::1", "2001:db8:1::1"] {
        bed.asked("", host, 18080);
    }
    bed.asked("", "127.0.0.1", 18081);
    // From the container itself and from its neighbour, by the host's address.
    for name in ["web", "one"] {
        for (host, port) in [("192.0.2.1", 18080), ("10.80.0.1", 18080), ("192.0.2.1", 18082)] {
            bed.inside(name, &format!("{GET} | nc -w 3 {host} {port} | grep -q page"));
        }
        bed.inside(name, &format!("{GET} | nc -w 3 2001:db8:1::1 18080 | grep -q page"));
    }

    let reported = bed.spoke("ports");
    for port in ["18080/tcp", "18081/tcp", "18082/tcp", "18090/tcp", "18053/udp"] {
        let (number, protocol) = port.split_once('/').expect("both");
        let is_it = |line: &str| line.contains(number) && line.contains(protocol);
        assert!(reported.lines().any(is_it), "{port}:\n{reported}");
    }
    let table = bed.world().sh("nft list table inet spoke");
    assert!(table.contains("udp . 18053 "), "{table}");

    bed.docker("stop -t 0 web");
    assert_eq!(bed.ask("lan", "192.0.2.1", 18080), None);
    assert!(!bed.spoke("ports").contains("18080"));
    bed.docker("start web");
    assert_eq!(bed.asked("lan", "192.0.2.1", 18080), "192.0.2.2");
    bed.remove("web one");
    bed.docker("network rm front");
    bed.world().sh(NO_NEIGHBOURS);
    bed.is_clean();
}

#[test]
fn published_20_10() {
    published(Release::V20_10);
}

#[test]
fn published_26_1() {
    published(Release::V26_1);
}

#[test]
fn published_28_5() {
    published(Release::V28_5);
}

/// Ports of the engine's choice, and several containers for a range.
#[track_caller]
fn chosen(release: Release) {
    let Some(bed) = Bed::new(release) else { return };
    bed.network("--subnet 10.80.1.0/24 front");
    for name in ["one", "two", "three"] {
        bed.serve(&format!("--name {name} --network front -P --expose 80"));
    }
    let ports = bed.spoke("ports -o json");
    let ports: serde_json::Value = serde_json::from_str(&ports).expect("JSON");
    let mut numbers = Vec::new();
    for port in ports.as_array().expect("a list") {
        let number = port["host_port"].as_u64().and_then(|port| u16::try_from(port).ok());
        let number = number.unwrap_or_else(|| panic!("{port}"));
        bed.asked("", "127.0.0.1", number);
        numbers.push(number);
    }
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 3, "{ports}");
    bed.remove("one two three");

    for name in ["one", "two"] {
        bed.serve(&format!("--name {name} --network front -p 18100-18101:80"));
    }
    bed.asked("", "127.0.0.1", 18100);
    bed.asked("", "127.0.0.1", 18101);
    let third = "run --name three --network front -p 18100-18101:80 busybox true";
    bed.refused(third, &["18100-18101", "taken"]);
    bed.remove("one two three");
    bed.docker("network rm front");
    bed.is_clean();
}

#[test]
fn chosen_20_10() {
    chosen(Release::V20_10);
}

#[test]
fn chosen_28_5() {
    chosen(Release::V28_5);
}

/// A port of a protocol that the kernel does not speak leads nowhere; on Docker's own bridge it is
/// refused, too.
#[test]
fn unspoken() {
    let Some(bed) = Bed::new(Release::V28_5) else { return };
    bed.network("--subnet 10.80.8.0/24 front");
    let run = "run -d --name one -p 18099:99/sctp --network";
    let speaks = bed.world().try_sh("grep -qw SCTP /proc/net/protocols || modprobe sctp").status;
    if speaks == 0 {
        bed.docker(&format!("{run} front busybox sleep 3600"));
    } else {
        bed.refused(&format!("{run} front busybox true"), &["18099/sctp", "no sctp"]);
    }
    bed.docker("rm -f one");
    bed.docker("network rm front");
    bed.is_clean();
    if speaks != 0 {
        bed.refused(&format!("{run} bridge busybox true"), &["protocol not supported"]);
    }
}

/// A port has one holder, whichever runtime started it.
#[test]
fn conflicts() {
    let Some(bed) = Bed::new(Release::V20_10) else { return };
    bed.network("--subnet 10.80.2.0/24 front");
    bed.network("--subnet 10.80.3.0/24 back");
    bed.run("--name one --network front -p 18200:80");
    bed.until("/opt/cni/bin/spoke ps | grep -q ^one");
    let again = "run --name two --network back -p 18200:80 busybox true";
    bed.refused(again, &["18200", "docker", "one"]);
    bed.remove("two");

    let list = json!({"cniVersion": "1.0.0", "name": "podnet", "plugins": [
        {"type": "bridge", "bridge": "cni-pod0", "isGateway": true, "ipMasq": true,
         "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.80.4.0/24"}]]}},
        {"type": "portmap", "capabilities": {"portMappings": true}, "snat": true},
    ]});
    let mut pod = Cni::container(bed.world(), "pod1");
    let wants = |port: u16| json!({"portMappings": [{"hostPort": port, "containerPort": 80, "protocol": "tcp"}]});
    pod.runtime = wants(18200);
    let refused = pod.add(&list).pop().expect("an answer");
    assert!(!refused.ok());
    let said = refused.output.stdout;
    assert!(["18200", "docker", "one"].iter().all(|word| said.contains(word)), "{said}");
    assert!(pod.del(&list).iter().all(tests::Answer::ok));
    pod.runtime = wants(18201);
    assert!(pod.add(&list).iter().all(tests::Answer::ok));
    let taken = "run --name two --network back -p 18201:80 busybox true";
    bed.refused(taken, &["18201", "cni", "pod1"]);
    bed.remove("two");
    assert!(pod.del(&list).iter().all(tests::Answer::ok));
    bed.run("--name two --network back -p 18201:80");

    // Another protocol or address of the host is another port.
    bed.run("--name three --network back -p 18200:80/udp -p 18201:80/udp");
    bed.run("--name four --network front -p 127.0.0.1:18202:80");
    bed.world().sh("ip address add 192.0.2.9/32 dev lo");
    bed.run("--name five --network front -p 192.0.2.9:18202:80");
    bed.refused("run --name six --network front -p 18202:80 busybox true", &["18202"]);
    bed.remove("one two three four five six");
    bed.docker("network rm front back");
    // A network of CNI goes with its configuration, which is the runtime's.
    bed.world().sh("ip address del 192.0.2.9/32 dev lo; ip link del cni-pod0; ip netns del pod1
         rm /run/spoke/*/cursors/podnet:0");
    bed.is_clean();
}

/// A server of UDP in a container's network, that answers with what it is called.
struct Udp(Child);

const UDP_SERVER: &str = "use IO::Socket::INET; $| = 1;
my $s = IO::Socket::INET->new(Proto => 'udp', LocalPort => 53) or die; print qq(ready\\n);
while (defined(my $who = $s->recv(my $data, 99))) { $s->send($ARGV[0], 0, $who) }";

const UDP_CLIENT: &str = "use IO::Socket::INET; alarm 5;
my $s = IO::Socket::INET->new(Proto => 'udp', LocalPort => 4000, PeerAddr => $ARGV[0], PeerPort => $ARGV[1]) or die;
$s->send('who'); $s->recv(my $data, 99); print $data";

impl Udp {
    #[track_caller]
    fn start(bed: &Bed, name: &str) -> Self {
        let pid = bed.engine.container(name)["State"]["Pid"].clone();
        let mut command = bed.world().command("/usr/bin/nsenter");
        command.arg(format!("--net=/proc/{pid}/ns/net")).args(["perl", "-e", UDP_SERVER, name]);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("nsenter");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n");
        Self(child)
    }
}

impl Drop for Udp {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A client that goes on from the same port reaches the container that has the port now.
#[track_caller]
fn replaced(release: Release) {
    let Some(bed) = Bed::new(release) else { return };
    let world = bed.world();
    world.sh(NEIGHBOURS);
    bed.network("--subnet 10.80.5.0/24 front");
    let ask = |from: &str, host: &str| {
        let over = if from.is_empty() { String::new() } else { format!("ip netns exec {from}") };
        world.sh(&format!("{over} perl -e '{}' {host} 18300", UDP_CLIENT.replace('\'', "'\\''")))
    };
    bed.run("--name one --network front --ip 10.80.5.11 -p 18300:53/udp");
    let first = Udp::start(&bed, "one");
    assert_eq!(ask("lan", "192.0.2.1"), "one");
    assert_eq!(ask("", "127.0.0.1"), "one");
    drop(first);
    bed.remove("one");
    bed.run("--name two --network front --ip 10.80.5.12 -p 18300:53/udp");
    let _second = Udp::start(&bed, "two");
    assert_eq!(ask("lan", "192.0.2.1"), "two");
    assert_eq!(ask("", "127.0.0.1"), "two");
    bed.remove("two");
    bed.docker("network rm front");
    world.sh(NO_NEIGHBOURS);
    bed.is_clean();
}

#[test]
fn replaced_20_10() {
    replaced(Release::V20_10);
}

#[test]
fn replaced_28_5() {
    replaced(Release::V28_5);
}

/// Docker publishes by itself, through its own bridge, and shows what it published.
#[track_caller]
fn by_docker(release: Release) {
    let Some(bed) = Bed::new(release) else { return };
    bed.network("--subnet 10.80.6.0/24 -o ports=docker theirs");
    bed.network("--subnet 10.80.7.0/24 ours");
    bed.serve("--name one --network theirs -p 18400:80");
    bed.serve("--name two --network ours -p 18401:80");
    let reported = bed.docker("ps --format '{{.Names}} {{.Ports}}'");
    assert!(reported.contains("one 0.0.0.0:18400->80/tcp"), "{reported}");
    bed.asked("", "127.0.0.1", 18401);
    bed.asked("", "127.0.0.1", 18400);
    // Both are shown, whichever program maps them, by the names that are learned from Docker.
    for command in ["ports", "ps"] {
        for (name, port) in [("one", "18400"), ("two", "18401")] {
            bed.until(&format!("/opt/cni/bin/spoke {command} | grep {name} | grep -q {port}"));
        }
    }
    bed.remove("one two");
    assert!(!bed.spoke("ports").contains("184"));
    bed.docker("network rm theirs ours docker_gwbridge");
    bed.is_clean();
}

#[test]
fn by_docker_20_10() {
    by_docker(Release::V20_10);
}

#[test]
fn by_docker_28_5() {
    by_docker(Release::V28_5);
}

#[track_caller]
fn reach(release: Release) {
    let Some(bed) = Bed::new(release) else { return };
    bed.world().sh(NEIGHBOURS);
    for (number, reach) in ["any", "lan", "local"].iter().enumerate() {
        let nets = format!("--ipv6 --subnet 10.81.{number}.0/24 --subnet fd81:{number}::/64");
        bed.network(&format!("{nets} -o publish={reach} {reach}"));
        bed.serve(&format!("--name {reach} --network {reach} -p 1850{number}:80"));
    }
    bed.until("nft list set inet spoke lan4 | grep -q 192.0.2.0/24");
    bed.until("nft list set inet spoke lan6 | grep -q 2001:db8:1::/64");
    for host in ["192.0.2.1", "2001:db8:1::1"] {
        bed.asked("far", host, 18500);
        bed.asked("lan", host, 18501);
        assert_eq!(bed.ask("far", host, 18501), None, "{host}");
        bed.asked("", host, 18502);
        assert_eq!(bed.ask("lan", host, 18502), None, "{host}");
        assert_eq!(bed.ask("far", host, 18502), None, "{host}");
    }
    bed.asked("", "127.0.0.1", 18502);
    bed.remove("any lan local");
    bed.docker("network rm any lan local");
    bed.world().sh(NO_NEIGHBOURS);
    bed.is_clean();
}

#[test]
fn reach_20_10() {
    reach(Release::V20_10);
}

#[test]
fn reach_28_5() {
    reach(Release::V28_5);
}

/// A container on an IPv4 and an IPv6 network has two ways out, and its ports come by both.
#[test]
fn two_gateways() {
    let Some(bed) = Bed::new(Release::V28_5) else { return };
    bed.network("--subnet 10.82.0.0/24 four");
    bed.network("--ipv4=false --ipv6 --subnet fd82::/64 six");
    bed.network("--subnet 10.82.1.0/24 later");
    bed.serve("--name one --network four --network six -p 18600:80");
    bed.asked("", "10.82.0.1", 18600);
    bed.asked("", "fd82::1", 18600);
    bed.docker("network disconnect four one");
    bed.asked("", "fd82::1", 18600);
    bed.docker("network connect later one");
    bed.asked("", "10.82.1.1", 18600);
    bed.docker("network disconnect six one");
    bed.asked("", "10.82.1.1", 18600);
    bed.remove("one");
    assert!(!bed.spoke("ports").contains("18600"));
    bed.docker("network rm four six later");
    bed.is_clean();
}

/// An engine that was restarted forgets what it had us publish.
#[track_caller]
fn restarted(release: Release) {
    let live = ["--live-restore"];
    let Some(mut bed) = Bed::with(release, "", &live) else { return };
    bed.network("--subnet 10.82.2.0/24 front");
    bed.serve("--name one --network front -p 18700:80");
    bed.asked("", "127.0.0.1", 18700);
    bed.engine.kill();
    bed.asked("", "127.0.0.1", 18700);
    bed.engine.start(&live);
    bed.asked("", "127.0.0.1", 18700);
    bed.remove("one");
    assert!(!bed.spoke("ports").contains("18700"));
    bed.run("--name two --network front -p 18700:80");
    bed.remove("two");
    bed.docker("network rm front");
    bed.is_clean();
}

#[test]
fn restarted_20_10() {
    restarted(Release::V20_10);
}

#[test]
fn restarted_28_5() {
    restarted(Release::V28_5);
}
