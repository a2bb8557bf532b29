//! A tunnel as the way: whatever becomes of it, of what holds the network to it, and of the daemon.

use tests::{Serve, World};

use crate::bed::{
    SPOKE, Seen, TUNNEL_UP, count, outside, prepare, reading, remains, run, seen, send, subject,
    until, until_more,
};

const BOTH: &[&str] = &["four", "six"];
/// What an operator may do, and puts back what is not Spoke's.
const RULES_FLUSHED: &str = "ip rule flush; ip rule add priority 32766 lookup main
    ip -6 rule flush; ip -6 rule add priority 32766 lookup main";
const SERVER: &str = "
import socketserver
class Answers(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall(b'here\\n')
socketserver.ThreadingTCPServer.allow_reuse_address = True
socketserver.ThreadingTCPServer(('', 80), Answers).serve_forever()
";
/// A query for x.example, over each transport.
pub(crate) const ASKS: &str = "
import secrets, socket, struct, sys
# Another name each time: equal questions that wait go out once.
name = b'\\x08' + secrets.token_hex(4).encode() + b'\\x07example\\0'
query = bytes.fromhex('123401000001000000000000') + name + bytes.fromhex('00010001')
if sys.argv[1] == 'tcp':
    one = socket.create_connection(('10.80.0.1', 53), 20)
    one.sendall(struct.pack('>H', len(query)) + query)
    answer = one.recv(2048)[2:]
else:
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    one.settimeout(20)
    one.sendto(query, ('10.80.0.1', 53))
    answer = one.recv(2048)
print(answer[3] & 15)
";

fn spoke(world: &World, command: &str) -> String {
    world.sh(&format!("{SPOKE} {command}"))
}

fn called(world: &World, netns: &str, address: &str) -> String {
    let call = format!(
        "ip netns exec {netns} timeout 20 bash -c 'exec 3<>/dev/tcp/{address}/8080; read -r line <&3; \
         echo $line'"
    );
    world.try_sh(&call).stdout.trim().to_owned()
}

/// Everything is there that holds the network to its way.
const HELD: &str = "test \"$(/opt/cni/bin/spoke network inspect vpn -f '{{.via.held}}')\" = true";

#[test]
fn nothing_leaves_by_another_way() {
    let world = World::new(&subject());
    prepare(&world);
    outside(&world, "vpn");
    ["box", "plain"].iter().for_each(|name| drop(world.netns(name)));
    let before = remains(&world);
    let serve = Serve::start(&world, &[]);
    spoke(&world, "network create --via wg0 --names --subnet 10.80.0.0/24 --subnet fd80::/64 vpn");
    spoke(&world, "network create --subnet 10.81.0.0/24 --subnet fd81::/64 plain");
    spoke(&world, "network connect --dns 198.51.100.53 --publish 8080:80 vpn box");
    spoke(&world, "network connect --ip 10.81.0.9 plain plain");
    send(&world, "/run/netns/box");
    run(&world, "/run/netns/box", &["python3", "-c", SERVER]);
    // What comes to the uplink is counted there: another network's packets are.
    for to in ["198.51.100.7", "2001:db8:77::7"] {
        world.try_sh(&format!("ip netns exec plain ping -c1 -W1 {to}"));
    }
    let start = seen(&world, "uplink");
    assert!(start.0 > 0 && start.1 > 0, "{start:?}");

    says_what_is_missing(&world);
    world.sh(TUNNEL_UP);
    until_more(&world, "vpn", BOTH);
    says_where_it_leads(&world);
    answers_find_back(&world);
    sends_what_fits_and_asks_there(&world);
    goes_and_comes(&world);
    is_held_again(&world);
    assert_eq!(seen(&world, "uplink"), start, "{}", world.logs());
    let serve = is_held_without_the_daemon(&world, serve, start);
    let _serve = is_held_without_a_record(&world, serve);

    // Nothing is left.
    spoke(&world, "network disconnect vpn box");
    spoke(&world, "network rm vpn");
    until(&world, "! ip rule | grep -q '^15[345]:'");
    until(&world, "! nft list tables | grep -q spoke_via");
    assert_eq!(remains(&world), before);
}

fn inspect(world: &World, what: &str) -> String {
    spoke(world, &format!("network inspect vpn -f '{{{{.via.{what}}}}}'"))
}

fn says_what_is_missing(world: &World) {
    assert!(inspect(world, "ipv4").contains("device wg0 is not there"));
    let doctor = world.try_sh(&format!("{SPOKE} doctor"));
    assert!(doctor.stdout.contains("no packet leaves network vpn"), "{}", doctor.stdout);
    assert!(spoke(world, "network ls").contains("wg0 (missing)"));
    let explained = world.try_sh(&format!("{SPOKE} explain spoke/box 198.51.100.7 80"));
    assert!(explained.stdout.contains("leaves this host by wg0 only"), "{explained:?}");
}

fn says_where_it_leads(world: &World) {
    assert_eq!(inspect(world, "ipv4").trim(), "by wg0");
    assert_eq!(inspect(world, "held").trim(), "true");
    assert_eq!(inspect(world, "mtu").trim(), "1400");
    assert!(spoke(world, "doctor || true").contains("network vpn leaves by wg0 only"));
}

/// Ports answer where they are called from: by the uplink, by the way, by the host; a neighbour is reached.
fn answers_find_back(world: &World) {
    until(world, "ip netns exec box ss -Hltn | grep -q ':80 '");
    assert_eq!(called(world, "uplink", "203.0.113.254"), "here");
    assert_eq!(called(world, "vpn", "10.99.0.2"), "here");
    world.sh("timeout 20 bash -c 'exec 3<>/dev/tcp/203.0.113.254/8080; read -r line <&3; test $line = here'");
    world.sh("ip netns exec box ping -c1 -W5 10.81.0.1; ip netns exec box ping -c1 -W5 10.80.0.1");
    world.sh("ip netns exec box ping -c1 -W5 10.81.0.9");
    // The same by a tunnel of the kernel, which gives its packets the mark of what they carry.
    world.sh(
        "ip link add vx0 type vxlan id 7 local 203.0.113.254 remote 203.0.113.1 dstport 4789 dev up0
        ip address add 10.97.0.2/24 dev vx0; ip link set vx0 up
        ip -n uplink link add vx0 type vxlan id 7 local 203.0.113.1 remote 203.0.113.254 dstport 4789 dev out0
        ip -n uplink address add 10.97.0.1/24 dev vx0; ip -n uplink link set vx0 up",
    );
    assert_eq!(called(world, "uplink", "10.97.0.2"), "here");
    world.sh("ip link delete vx0");
}

fn sends_what_fits_and_asks_there(world: &World) {
    // TCP announces what fits.
    world.try_sh("ip netns exec box timeout 1 bash -c 'exec 3<>/dev/tcp/198.51.100.7/80'");
    until(world, "ip netns exec vpn nft list counter inet seen fits | grep -q 'packets [1-9]'");
    assert_eq!(count(world, "vpn", "large"), 0);

    // What others are asked goes by the way.
    for by in ["udp", "tcp"] {
        let asked = count(world, "vpn", "asked");
        run(world, "/run/netns/box", &["python3", "-c", ASKS, by]);
        until(world, &format!("test $({}) -gt {asked}", reading("vpn", "asked")));
    }
}

fn goes_and_comes(world: &World) {
    for _ in 0..20 {
        world.sh("ip link delete wg0");
        world.sh(TUNNEL_UP);
        until_more(world, "vpn", BOTH);
    }
    world.sh("ip link set wg0 down; ip link set wg0 up; ip address add fd99::2/128 nodad dev wg0");
    until_more(world, "vpn", BOTH);
    // Without an address of a family that family does not leave.
    world.sh("ip address delete fd99::2/128 dev wg0");
    until(world, "! ip -6 route show table all | grep -q 'default dev wg0'");
    until_more(world, "vpn", &["four"]);
    let six = count(world, "vpn", "six");
    until_more(world, "vpn", &["four"]);
    assert_eq!(count(world, "vpn", "six"), six);
    assert!(inspect(world, "ipv6").contains("has no IPv6 address"));
    world.sh("ip address add fd99::2/128 nodad dev wg0");
    until_more(world, "vpn", BOTH);
}

/// What holds it is taken away, and put back.
fn is_held_again(world: &World) {
    let table = inspect(world, "table");
    let table = table.trim();
    for taken in [
        RULES_FLUSHED.to_owned(),
        format!("ip route flush table {table}; ip -6 route flush table {table}"),
        "nft flush ruleset".to_owned(),
        "nft delete table inet spoke_via".to_owned(),
        "nft flush chain inet spoke_via leaving".to_owned(),
        "nft flush set inet spoke_via links".to_owned(),
        "ip rule delete priority 155 iif sp-vpn; ip rule delete priority 154 iif sp-vpn".to_owned(),
    ] {
        world.sh(&taken);
        until(world, HELD);
        until_more(world, "vpn", BOTH);
    }
    until(world, &format!("{SPOKE} events | grep -q 'removed the rules of table spoke_via'"));
}

/// A record that cannot be read is no proof that the network is gone. Another one's rule is back when the daemon
/// has cleared what is gone.
fn is_held_without_a_record(world: &World, serve: Serve) -> Serve {
    const RECORD: &str = "/var/lib/spoke/networks/vpn";
    spoke(world, "network create --via wg0 --subnet 10.86.0.0/24 more");
    until(world, "ip rule | grep -q '^155:.* iif sp-more '");
    serve.kill();
    world.sh(&format!(
        "cp {RECORD} /tmp/vpn; echo damaged >{RECORD}; ip rule delete priority 155 iif sp-more"
    ));
    let serve = Serve::start(world, &[]);
    until(world, "ip rule | grep -q '^155:.* iif sp-more '");
    world.sh("ip rule | grep '^155:.* iif sp-vpn '");
    serve.kill();
    world.sh(&format!("cp /tmp/vpn {RECORD}"));
    let serve = Serve::start(world, &[]);
    until(world, HELD);
    spoke(world, "network rm more");
    serve
}

/// Each of what holds it does so alone while the daemon is dead.
fn is_held_without_the_daemon(world: &World, serve: Serve, start: Seen) -> Serve {
    serve.kill();
    world.sh(RULES_FLUSHED);
    world.sh("ip link delete wg0");
    world.sh("ip netns exec box ping -c2 -i0.2 -W1 198.51.100.7 || true");
    assert_eq!(seen(world, "uplink"), start);
    let serve = Serve::start(world, &[]);
    world.sh(TUNNEL_UP);
    until_more(world, "vpn", BOTH);
    serve.kill();
    world.sh("nft flush ruleset; ip link delete wg0");
    world.sh("ip netns exec box ping -c2 -i0.2 -W1 198.51.100.7 || true");
    assert_eq!(seen(world, "uplink"), start);
    let serve = Serve::start(world, &[]);
    until(world, HELD);
    until(world, "nft list table inet spoke_names 2>/dev/null | grep -q ' 10.80.0.1 '");
    let asked = count(world, "uplink", "asked");
    for by in ["udp", "tcp"] {
        let asks = ASKS.replace('\'', "\"");
        let answer = world.sh(&format!("ip netns exec box python3 -c '{asks}' {by}"));
        assert_eq!(answer.trim(), "2", "SERVFAIL");
    }
    assert_eq!(count(world, "uplink", "asked"), asked);
    assert_eq!(seen(world, "uplink"), start);
    serve
}
