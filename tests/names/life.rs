//! What others do to it, and to the daemon.

use tests::{Managed, Plugins, Serve, World};

use crate::bed::{Bed, SPOKE, asking, prepare};

#[test]
fn a_flushed_packet_filter_is_put_back() {
    let bed = Bed::new(&["web"]);
    bed.spoke("network connect --ip 10.71.1.9 front web");
    for lost in
        ["flush ruleset", "delete table inet spoke_names", "flush chain inet spoke_names servers"]
    {
        bed.world.sh(&format!("nft {lost}"));
        let leads = "nft list chain inet spoke_names servers 2>/dev/null | grep -q iifname";
        bed.world.sh(&format!("timeout 60 sh -c 'until {leads}; do sleep 0.05; done'"));
        bed.until_answers("10.71.1.1");
        assert_eq!(bed.ask("web", "web"), "10.71.1.9", "{lost}");
    }
}

/// Nothing is kept that a restart would lose; and when it ends for good, queries go where they went before.
#[test]
fn names_are_there_again_after_a_crash() {
    let mut bed = Bed::new(&["web"]);
    bed.spoke("network connect --ip 10.71.1.9 front web");
    assert_eq!(bed.ask("web", "web"), "10.71.1.9");
    bed.serve.take().expect("it runs").kill();
    bed.world.netns("late");
    bed.spoke("network connect --ip 10.71.1.8 front late");
    bed.spoke("network disconnect front web");
    bed.serve = Some(Serve::start(&bed.world, &[]));
    bed.world.sh(
        "timeout 60 sh -c 'until ss -Hlun sport = :299 | grep -q 10.71.1.1; do sleep 0.05; done'",
    );
    assert_eq!(bed.ask("late", "late"), "10.71.1.8");
    assert_eq!(bed.ask("late", "web.front.spoke"), "NXDOMAIN");
    bed.serve.take().expect("it runs").stop();
    let tables = bed.world.sh("nft list tables");
    assert!(!tables.contains("spoke_names"), "{tables}");
}

/// What is asked meanwhile waits in sockets that the service manager keeps, and is answered without being asked
/// again.
#[test]
fn a_query_outlives_the_daemon() {
    let world = World::new(&Plugins::subject());
    prepare(&world);
    let manager = Managed::start(&world);
    let bed = Bed { world, serve: None };
    bed.spoke("network create --names --subnet 10.71.1.0/24 --subnet fd71::/64 front");
    bed.world.netns("web");
    bed.until_answers("10.71.1.1");
    bed.spoke("network connect --ip 10.71.1.9 front web");
    let waits = |kind: &str| {
        let queued =
            format!("ss -Hln{kind} sport = :299 | awk \"\\$2 > 0 {{ n++ }} END {{ exit n < 2 }}\"");
        bed.world.sh(&format!("timeout 60 sh -c 'until {queued}; do sleep 0.05; done'"));
    };
    for _ in 0..2 {
        assert_eq!(bed.ask("web", "web"), "10.71.1.9");
        assert!(manager.kill(), "{}", manager.log());
        let asked = [
            ("10.71.1.1", "web"),
            ("fd71::1", "web"),
            ("10.71.1.1", "--tcp web"),
            ("fd71::1", "--tcp web"),
        ];
        let asked = asked.map(|(server, name)| asking(&bed.world, "/run/netns/web", server, name));
        waits("u");
        waits("t");
        manager.again();
        for answer in asked {
            assert_eq!(answer(&bed.world), "10.71.1.9");
        }
    }
    // None is kept longer than its network. What entered the world for the daemon holds those that it had.
    bed.spoke("network disconnect front web");
    bed.spoke("network rm front");
    bed.world
        .sh("timeout 60 sh -c 'while nft list table inet spoke_names >/dev/null 2>&1; do sleep 0.05; done'");
    assert!(manager.kill(), "{}", manager.log());
    manager.again();
    bed.world
        .sh("timeout 60 sh -c 'while ss -Hltun sport = :299 | grep -q .; do sleep 0.05; done'");
}

/// Where another program has the port, queries are not led to it.
#[test]
fn no_query_is_led_to_another_program() {
    let bed = Bed::new(&[]);
    let holder = r#"python3 -c 'import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("0.0.0.0", 299))
time.sleep(1000)' >/dev/null 2>&1"#;
    bed.spoke("network rm front back");
    bed.world.sh("timeout 60 sh -c 'while ss -Hlun sport = :299 | grep -q .; do sleep 0.05; done'");
    bed.world.sh(&format!("({holder} & echo $! >/world/holder)"));
    bed.world.sh("timeout 60 sh -c 'until ss -Hlun sport = :299 | grep -q .; do sleep 0.05; done'");
    bed.spoke("network create --names --subnet 10.71.8.0/24 late");
    let says = format!("{SPOKE} events | grep -q \"listening at 10.71.8.1, port 299\"");
    bed.world.sh(&format!("timeout 60 sh -c 'until {{ {says}; }}; do sleep 0.05; done'"));
    let led = bed.world.try_sh("nft list map inet spoke_names servers4").stdout;
    assert!(!led.contains("10.71.8.1"), "{led}");
    bed.world.sh("kill $(cat /world/holder)");
    bed.until_answers("10.71.8.1");
}

/// With the last network the table goes, too.
#[test]
fn networks_come_and_go() {
    let bed = Bed::new(&["web"]);
    bed.spoke("network create --names --subnet 10.71.9.0/24 late");
    bed.until_answers("10.71.9.1");
    bed.spoke("network connect --ip 10.71.9.9 late web");
    assert_eq!(bed.ask("web", "web"), "10.71.9.9");
    bed.spoke("network disconnect late web");
    bed.spoke("network rm front back late");
    let gone = "! nft list table inet spoke_names >/dev/null 2>&1";
    bed.world.sh(&format!("timeout 60 sh -c 'until {gone}; do sleep 0.05; done'"));
}
