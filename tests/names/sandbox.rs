//! Namespaces that the command line connects.

use crate::bed::Bed;

#[test]
fn sandboxes_of_a_network_resolve_each_other() {
    let bed = Bed::new(&["web", "db", "lone"]);
    bed.spoke("network connect --ip 10.71.1.9 --alias www --alias all front web");
    bed.spoke("network connect --ip 10.71.1.7 --alias all front db");
    bed.spoke("network connect --ip 10.71.2.7 --ip6 fd71::7 --alias sql back db");
    bed.spoke("network connect --ip 10.71.2.8 --ip6 fd71::8 back lone");
    let read = bed.world.sh("ip netns exec web cat /etc/resolv.conf | grep -v '^#'");
    assert_eq!(read, "search front.spoke corp.example\nnameserver 10.71.1.1\n");
    for (from, name, expected) in [
        ("web", "db", "10.71.1.7"),
        ("web", "DB.Front.Spoke", "10.71.1.7"),
        ("web", "all", "10.71.1.7 10.71.1.9"),
        ("web", "--tcp all", "10.71.1.7 10.71.1.9"),
        ("web", "db AAAA", ""),
        // Networks that it is not on are none of its business.
        ("web", "lone.back.spoke", "NXDOMAIN"),
        ("web", "db.back.spoke", "NXDOMAIN"),
        ("db", "lone AAAA", "fd71::8"),
        ("db", "web", "10.71.1.9"),
        ("lone", "sql", "10.71.2.7"),
        ("lone", "db", "10.71.2.7"),
        ("lone", "www.front.spoke", "NXDOMAIN"),
        ("web", "7.1.71.10.in-addr.arpa PTR", "db.front.spoke"),
        // The rest is asked elsewhere.
        ("web", "outside.example", "192.0.2.7"),
        ("web", "outside.example AAAA", "2001:db8::7"),
        ("web", "--tcp outside.example", "192.0.2.7"),
        ("web", "missing.example", "NXDOMAIN"),
    ] {
        assert_eq!(bed.ask(from, name), expected, "{from} asks {name}");
    }
    assert_eq!(bed.ask_at("lone", "fd71::1", "sql AAAA"), "fd71::7", "over IPv6");
    // As programs do it; the host's search domain still counts.
    let found = bed
        .world
        .sh("ip netns exec lone getent ahostsv4 sql; ip netns exec web getent ahostsv4 big");
    assert!(found.contains("10.71.2.7") && found.contains("192.0.2.8"), "{found}");
    assert!(!bed.was_asked("sql.back.spoke") && bed.was_asked("big.corp.example"));

    bed.spoke("network disconnect front db");
    assert_eq!(bed.ask("web", "all"), "10.71.1.9");
    assert_eq!(bed.ask("web", "db.front.spoke"), "NXDOMAIN");
    bed.spoke("network disconnect back db");
    assert_eq!(bed.ask("lone", "sql.back.spoke"), "NXDOMAIN");
}

#[test]
fn a_network_asks_whom_it_was_given() {
    let bed = Bed::new(&["web", "inner", "server"]);
    bed.spoke("network connect --ip 10.71.3.53 plain server");
    bed.world.sh(
        "ip netns exec server /usr/sbin/dnsmasq --user=root --pid-file= --no-resolv --no-hosts \
        --host-record=outside.example,192.0.2.99",
    );
    bed.spoke("network connect --dns 10.71.3.53 front web");
    let read = bed.world.sh("ip netns exec web cat /etc/resolv.conf | grep nameserver");
    assert_eq!(read, "nameserver 10.71.1.1\n");
    assert_eq!(bed.ask("web", "outside.example"), "192.0.2.99");
    // Nothing leaves an internal network, not even as a question.
    bed.spoke("network create --names --internal --subnet 10.71.4.0/24 vault");
    bed.until_answers("10.71.4.1");
    bed.spoke("network connect --ip 10.71.4.4 vault inner");
    assert_eq!(bed.ask("inner", "inner"), "10.71.4.4");
    assert_eq!(bed.ask("inner", "secret.outside.example"), "REFUSED");
    assert!(!bed.was_asked("secret.outside.example"));
}

/// No container gets at names by another way than the bridge of the network, and containers may still serve
/// names to each other.
#[test]
fn the_way_by_which_a_query_comes_decides() {
    let bed = Bed::new(&["web", "plain", "server"]);
    bed.spoke("network connect --ip 10.71.1.9 front web");
    bed.spoke("network connect --ip 10.71.3.9 plain plain");
    bed.spoke("network connect --ip 10.71.1.5 front server");
    assert_eq!(bed.ask_at("web", "10.71.1.1", "web"), "10.71.1.9");
    // The host's own server is still where it was for networks without names.
    assert_eq!(bed.ask_at("plain", "10.71.3.1", "outside.example"), "192.0.2.7");
    assert_eq!(bed.ask_at("plain", "10.71.1.1", "web"), "REFUSED", "by the host's own server");
    // The socket itself is out of reach.
    let direct =
        "python3 -c 'import socket; s = socket.create_connection((\"10.71.1.1\", 299), 1)'";
    for from in ["web", "plain"] {
        let answer = bed.world.try_sh(&format!("ip netns exec {from} {direct}"));
        assert!(answer.stderr.contains("timed out"), "{from}: {answer:?}");
    }
    // Whatever server elsewhere is asked, names of the network are known.
    assert_eq!(bed.ask_at("web", "192.0.2.200", "web"), "10.71.1.9");
    // A container's own server is asked itself.
    bed.world.sh(
        "ip netns exec server /usr/sbin/dnsmasq --user=root --pid-file= --no-resolv --no-hosts \
        --host-record=web,192.0.2.55",
    );
    assert_eq!(bed.ask_at("web", "10.71.1.5", "web"), "192.0.2.55");
}
