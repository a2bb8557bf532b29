//! What is named for packets that call no port, or one of a protocol that the firewall has no word for.

use super::*;
use crate::packet::Device;

const FROM: [&str; 2] = ["192.0.2.2", "2001:db8:1::2"];
const TO: [&str; 2] = ["10.70.1.2", "fd70:1::2"];

fn packet(family: usize, carried: Carried) -> Packet {
    let device = |name: &str| Some(Device { name: name.to_owned(), ..Device::default() });
    let of = |all: [&str; 2]| all[family].parse().unwrap();
    let packet = Packet::new(of(FROM), of(TO), carried);
    Packet { input: device("up0"), output: device("sp-front"), ..packet }
}

fn named(packet: &Packet, by: Author) -> String {
    named_to(packet, by, true)
}

fn named_to(packet: &Packet, by: Author, is_certain: bool) -> String {
    let place = RuleLocation {
        filter: Filter::Nftables,
        family: 1,
        table: "firewalld".to_owned(),
        chain: "filter_FORWARD".to_owned(),
        path: Vec::new(),
        rule: Some(7),
        comment: None,
        rejects: true,
        unclear: None,
    };
    let refused = Refused { packet, source: Some(packet.source), is_certain, place: &place };
    fix(&refused, by).unwrap()
}

/// A rule of Spoke's says what a network is: taken out, it opens that.
#[test]
fn no_rule_of_spokes_is_deleted_and_panic_is_ended() {
    let packet = packet(0, Carried::Tcp(80));
    let named = |table: &str, by| {
        let place = RuleLocation {
            filter: Filter::Nftables,
            family: 7,
            table: table.to_owned(),
            chain: "postrouting".to_owned(),
            path: Vec::new(),
            rule: Some(6),
            comment: None,
            rejects: false,
            unclear: None,
        };
        fix(&Refused { packet: &packet, source: None, is_certain: true, place: &place }, by)
    };
    for table in ["spoke", "spoke_quota", "spoke_later"] {
        assert_eq!(named(table, Author::Spoke).unwrap(), "spoke doctor");
    }
    assert_eq!(
        named("firewalld_policy_drop", Author::Firewalld).unwrap(),
        "firewall-cmd --panic-off"
    );
    assert!(named("spokes", Author::Operator).unwrap().starts_with("nft delete rule"));
}

#[test]
fn an_echo_is_let_through_alone() {
    let of = |family, by| named(&packet(family, Carried::Echo), by);
    for (family, rule) in [
        (
            0,
            "family=ipv4 source address=192.0.2.2 destination address=10.70.1.2 protocol value=icmp",
        ),
        (
            1,
            "family=ipv6 source address=2001:db8:1::2 destination address=fd70:1::2 protocol value=ipv6-icmp",
        ),
    ] {
        let fix = of(family, Author::Firewalld);
        assert!(fix.contains(&format!("--add-rich-rule='rule {rule} accept'")), "{fix}");
        assert!(!fix.contains("interface") && !fix.contains("up0"), "{fix}");
    }
    assert_eq!(
        of(0, Author::Ufw),
        "sed -i '/^\\*filter/,/^COMMIT/s|^COMMIT|-A ufw-before-forward -p icmp -s 192.0.2.2 -d 10.70.1.2 \
         -j ACCEPT\\nCOMMIT|' /etc/ufw/before.rules && ufw reload"
    );
    assert_eq!(
        of(1, Author::Ufw),
        "sed -i '/^\\*filter/,/^COMMIT/s|^COMMIT|-A ufw6-before-forward -p ipv6-icmp -s 2001:db8:1::2 \
         -d fd70:1::2 -j ACCEPT\\nCOMMIT|' /etc/ufw/before6.rules && ufw reload"
    );
}

/// The command writes the rule as the last one of the table of filters, where `ufw` has other tables in the file.
#[test]
fn the_rule_is_written_into_the_table_of_filters() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(
        &file,
        "*nat\n-A POSTROUTING -j ACCEPT\nCOMMIT\n*filter\n-A x -j DROP\nCOMMIT\n",
    )
    .unwrap();
    let fix = named(&packet(0, Carried::Echo), Author::Ufw);
    let script = fix.strip_suffix(" && ufw reload").unwrap();
    let script = script.replace("/etc/ufw/before.rules", &file.path().display().to_string());
    assert!(std::process::Command::new("sh").args(["-c", &script]).status().unwrap().success());
    let rule = "-A ufw-before-forward -p icmp -s 192.0.2.2 -d 10.70.1.2 -j ACCEPT";
    assert_eq!(
        std::fs::read_to_string(&file).unwrap(),
        format!("*nat\n-A POSTROUTING -j ACCEPT\nCOMMIT\n*filter\n-A x -j DROP\n{rule}\nCOMMIT\n")
    );
}

#[test]
fn an_echo_to_this_host_is_let_in_alone() {
    let to_host = |family| Packet { output: None, ..packet(family, Carried::Echo) };
    let fix = named(&to_host(1), Author::Firewalld);
    assert!(fix.contains("source address=2001:db8:1::2 protocol value=ipv6-icmp accept"), "{fix}");
    let fix = named(&to_host(0), Author::Ufw);
    assert!(
        fix.contains("-A ufw-before-input -p icmp -s 192.0.2.2 -d 10.70.1.2 -j ACCEPT"),
        "{fix}"
    );
}

#[test]
fn what_ufw_has_no_word_for_stands_in_its_file() {
    let call = packet(0, Carried::Sctp(5000));
    let fix = named(&call, Author::Ufw);
    assert!(fix.contains("-p sctp -s 192.0.2.2 -d 10.70.1.2 --dport 5000 -j ACCEPT"), "{fix}");
    let fix = named(&packet(0, Carried::Tcp(80)), Author::Ufw);
    let wanted =
        "ufw route allow in on up0 out on sp-front proto tcp from 192.0.2.2 to 10.70.1.2 port 80";
    assert_eq!(fix, wanted);
}

#[test]
fn an_answer_is_let_through_by_the_port_that_it_comes_from() {
    let answer = Packet { is_reply: true, ..packet(0, Carried::Tcp(80)) };
    let fix = named(&answer, Author::Firewalld);
    assert!(fix.contains("source-port port=80 protocol=tcp accept"), "{fix}");
    let fix = named(&answer, Author::Ufw);
    assert!(fix.contains("-p tcp -s 192.0.2.2 -d 10.70.1.2 --sport 80 -j ACCEPT"), "{fix}");
}

/// A table that refuses everything has no chain of the firewall's, which would say whose it is.
#[test]
fn the_followed_firewall_is_named_by_what_was_chosen() {
    let packet = packet(0, Carried::Tcp(80));
    let place = RuleLocation {
        filter: Filter::Nftables,
        family: 1,
        table: "spoke_follow".to_owned(),
        chain: "v4".to_owned(),
        path: Vec::new(),
        rule: Some(2),
        comment: None,
        rejects: false,
        unclear: None,
    };
    let refused = Refused { packet: &packet, source: None, is_certain: true, place: &place };
    let of = |unknown: Option<&str>| {
        let unknown = unknown.map(str::to_owned);
        let follows = Follows { name: "firewalld".to_owned(), unknown };
        let (_, what, fix) = followed(&refused, Some(&follows)).unwrap();
        (what, fix.unwrap())
    };
    let (what, fix) = of(Some("its rules are not there"));
    assert!(what.contains("obey firewalld") && what.contains("not there"), "{what}");
    assert!(!fix.contains("ufw"), "{fix}");
    let (what, fix) = of(None);
    assert!(what.contains("obey firewalld") && fix.starts_with("firewall-cmd"), "{what}: {fix}");
    assert!(followed(&refused, None).unwrap().2.unwrap().starts_with("ufw"));
}

#[test]
fn docker_is_named_for_one_packet_and_not_for_two_devices() {
    let of = |packet: &Packet| named(packet, Author::Docker);
    let call = packet(0, Carried::Tcp(80));
    let start = "iptables -I DOCKER-USER -i up0 -o sp-front";
    let ends = "-s 192.0.2.2 -d 10.70.1.2";
    assert_eq!(of(&call), format!("{start} -p tcp {ends} --dport 80 -j ACCEPT"));
    let answer = Packet { is_reply: true, ..packet(0, Carried::Tcp(80)) };
    assert_eq!(of(&answer), format!("{start} -p tcp {ends} --sport 80 -j ACCEPT"));
    assert_eq!(of(&packet(0, Carried::Echo)), format!("{start} -p icmp {ends} -j ACCEPT"));
    assert_eq!(
        of(&packet(1, Carried::Udp(53))),
        "ip6tables -I DOCKER-USER -i up0 -o sp-front -p udp -s 2001:db8:1::2 -d fd70:1::2 --dport 53 -j ACCEPT"
    );
}

/// The address of `outside` is unknown.
#[test]
fn a_destination_that_is_only_supposed_is_any() {
    let of = |by| named_to(&packet(0, Carried::Tcp(80)), by, false);
    let start = "iptables -I DOCKER-USER -i up0 -o sp-front -p tcp -s 192.0.2.2";
    assert_eq!(of(Author::Docker), format!("{start} --dport 80 -j ACCEPT"));
    assert!(of(Author::Ufw).contains("from 192.0.2.2 to any port 80"), "{}", of(Author::Ufw));
    let fix = of(Author::Firewalld);
    assert!(fix.contains("source address=192.0.2.2 port port=80"), "{fix}");
}
