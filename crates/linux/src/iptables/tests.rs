//! The plans, without a kernel.

use model::{
    Attachment, Backend, Family, Firewall, IngressPolicy, Layer, Masquerade, Phase, PortMap,
    Process, Protocol, Publish, Runtime, Timestamp,
};

use super::change;
use super::rules::RuleSet;
use super::saved::Saved;
use super::{WiringPart, rules};

fn attachment(addresses: &[&str]) -> Attachment {
    let held = |net: &&str| doubles::address(net);
    Attachment {
        addresses: addresses.iter().map(held).collect(),
        ..Attachment::new(
            doubles::attachment_id("net1", "cont1"),
            Layer::Link,
            Runtime::Cni,
            Timestamp(0),
            Phase::Attaching { by: Process { pid: 1, start: 1 } },
        )
    }
}

fn port(host: Option<&str>, host_port: u16, container_port: u16, protocol: Protocol) -> PortMap {
    PortMap {
        host: host.map(|host| host.parse().unwrap()),
        host_port: host_port.try_into().unwrap(),
        container_port: container_port.try_into().unwrap(),
        protocol,
    }
}

fn publish(ports: Vec<PortMap>) -> Publish {
    Publish { ports, ..Publish::new(Backend::Iptables) }
}

fn firewall(ingress: IngressPolicy) -> Firewall {
    let bridge = Some("cni0".parse().unwrap());
    Firewall { ingress, bridge, ..Firewall::open(Backend::Iptables) }
}

fn plan(attachment: &Attachment, family: Family, saved: &str) -> String {
    let wanted = RuleSet::of(attachment, family).unwrap();
    change::install(Saved::parse(saved), &wanted).unwrap().render()
}

/// What `iptables-save` would print after commands that only create, append and insert.
fn printed(commands: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in commands.lines() {
        let rule = line.strip_prefix("-I ").and_then(|rest| rest.split_once(" 1 "));
        match (line.strip_prefix("-N "), rule) {
            (Some(chain), _) => lines.push(format!(":{chain} - [0:0]")),
            (_, Some((chain, rule))) => lines.push(format!("-A {chain} {rule}")),
            _ => lines.push(line.to_owned()),
        }
    }
    lines.join("\n")
}

#[test]
fn masquerades_as_the_reference_does() {
    let mut attachment = attachment(&["10.88.0.5/16", "fd00::5/64"]);
    attachment.wiring.masquerade = Some(Masquerade::new(Backend::Iptables));
    assert_eq!(
        plan(&attachment, Family::V4, ""),
        r#"*nat
-N CNI-01d424cb2a9303e21c6e971c
-A CNI-01d424cb2a9303e21c6e971c -d 10.88.0.0/16 -m comment --comment "name: \"net1\" id: \"cont1\"" -j ACCEPT
-A CNI-01d424cb2a9303e21c6e971c ! -d 224.0.0.0/4 -m comment --comment "name: \"net1\" id: \"cont1\"" -j MASQUERADE
-A POSTROUTING -s 10.88.0.5/32 -m comment --comment "name: \"net1\" id: \"cont1\"" -j CNI-01d424cb2a9303e21c6e971c
COMMIT
"#
    );
    assert!(plan(&attachment, Family::V6, "").contains("! -d ff00::/8"));
}

#[test]
fn publishes_as_the_reference_does() {
    let mut attachment = attachment(&["10.88.0.5/16"]);
    let ports = vec![
        port(None, 8080, 80, Protocol::Tcp),
        port(Some("10.1.1.1"), 53, 53, Protocol::Udp),
        port(Some("::"), 8081, 81, Protocol::Tcp),
    ];
    attachment.wiring.publish = Some(publish(ports));
    assert_eq!(
        plan(&attachment, Family::V4, ""),
        r#"*nat
-N CNI-HOSTPORT-SETMARK
-N CNI-HOSTPORT-MASQ
-N CNI-HOSTPORT-DNAT
-N CNI-DN-01d424cb2a9303e21c6e9
-A CNI-HOSTPORT-SETMARK -m comment --comment "CNI portfwd masquerade mark" -j MARK --set-xmark 0x2000/0x2000
-A CNI-HOSTPORT-MASQ -m mark --mark 0x2000/0x2000 -j MASQUERADE
-I POSTROUTING 1 -m comment --comment "CNI portfwd requiring masquerade" -j CNI-HOSTPORT-MASQ
-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A OUTPUT -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A CNI-DN-01d424cb2a9303e21c6e9 -s 10.88.0.0/16 -p tcp -m tcp --dport 8080 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-01d424cb2a9303e21c6e9 -s 127.0.0.1/32 -p tcp -m tcp --dport 8080 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-01d424cb2a9303e21c6e9 -p tcp -m tcp --dport 8080 -j DNAT --to-destination 10.88.0.5:80
-A CNI-DN-01d424cb2a9303e21c6e9 -s 10.88.0.0/16 -d 10.1.1.1/32 -p udp -m udp --dport 53 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-01d424cb2a9303e21c6e9 -s 127.0.0.1/32 -d 10.1.1.1/32 -p udp -m udp --dport 53 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-01d424cb2a9303e21c6e9 -d 10.1.1.1/32 -p udp -m udp --dport 53 -j DNAT --to-destination 10.88.0.5:53
-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \"net1\" id: \"cont1\"" -m multiport --dports 8080,8081 -j CNI-DN-01d424cb2a9303e21c6e9
-A CNI-HOSTPORT-DNAT -p udp -m comment --comment "dnat name: \"net1\" id: \"cont1\"" -m multiport --dports 53 -j CNI-DN-01d424cb2a9303e21c6e9
COMMIT
"#
    );
}

/// What the reference, or an earlier Spoke, published is complete without the rule, which is added.
#[test]
fn loopback_of_ipv6_is_not_translated() {
    let mut attachment = attachment(&["10.88.0.5/16", "fd00::5/64"]);
    attachment.wiring.publish = Some(publish(vec![port(None, 8080, 80, Protocol::Tcp)]));
    let rule = "-I CNI-HOSTPORT-DNAT 1 -d ::1/128 -j RETURN\n";
    assert!(!plan(&attachment, Family::V4, "").contains("RETURN"));
    let commands = plan(&attachment, Family::V6, "");
    assert!(commands.contains(rule), "{commands}");
    let there = printed(&commands.replace(rule, ""));
    let wanted = RuleSet::of(&attachment, Family::V6).unwrap();
    assert_eq!(change::missing(&Saved::parse(&there), &wanted), None);
    assert_eq!(plan(&attachment, Family::V6, &there), format!("*nat\n{rule}COMMIT\n"));
    assert_eq!(plan(&attachment, Family::V6, &printed(&commands)), "");
}

/// What is of no connection is dropped before anything accepts it, and the rule goes with the container.
#[test]
fn what_is_of_no_connection_is_dropped() {
    const DROP: &str =
        "-s 10.88.0.5/32 ! -d 10.88.0.0/16 -i cni0 -m conntrack --ctstate INVALID -j DROP";
    let mut attachment = attachment(&["10.88.0.5/16"]);
    attachment.wiring.firewall = Some(firewall(IngressPolicy::SameBridge));
    let bridge = "cni0".parse().unwrap();
    let wanted = |attachment: &Attachment| {
        let mut wanted = RuleSet::of(attachment, Family::V4).unwrap();
        wanted.drop_unknown(attachment, (Family::V4, &bridge)).unwrap();
        wanted
    };
    let made = |wanted: &RuleSet, saved: &str| {
        change::install(Saved::parse(saved), wanted).unwrap().render()
    };
    assert!(!made(&wanted(&attachment), "").contains("INVALID"), "it has its own address outside");
    attachment.wiring.masquerade = Some(Masquerade::new(Backend::Iptables));
    let wanted = wanted(&attachment);
    let commands = made(&wanted, "");
    let last_of_forward = commands.lines().rfind(|line| line.starts_with("-I FORWARD 1 "));
    assert_eq!(last_of_forward, Some(format!("-I FORWARD 1 {DROP}").as_str()));
    // What an earlier Spoke made is complete without it.
    let before = printed(&commands.replace(&format!("-I FORWARD 1 {DROP}\n"), ""));
    assert_eq!(change::missing(&Saved::parse(&before), &wanted), None);
    assert_eq!(made(&wanted, &printed(&commands)), "");
    let held = [attachment.addresses[0].address];
    let saved = Saved::parse(&printed(&commands));
    let removed = change::remove(saved, &attachment.id, &[WiringPart::Masquerade], &held).render();
    assert!(removed.contains(&format!("-D FORWARD {DROP}\n")), "{removed}");
}

#[test]
fn isolates_as_the_reference_does() {
    let mut attachment = attachment(&["10.88.0.5/16"]);
    attachment.wiring.firewall = Some(firewall(IngressPolicy::Isolated));
    assert_eq!(
        plan(&attachment, Family::V4, ""),
        r#"*filter
-N CNI-FORWARD
-N CNI-ADMIN
-N CNI-ISOLATION-STAGE-1
-N CNI-ISOLATION-STAGE-2
-I FORWARD 1 -m comment --comment "CNI firewall plugin rules" -j CNI-FORWARD
-I CNI-FORWARD 1 -m comment --comment "CNI firewall plugin admin overrides" -j CNI-ADMIN
-A CNI-FORWARD -d 10.88.0.5/32 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A CNI-FORWARD -s 10.88.0.5/32 -j ACCEPT
-I FORWARD 1 -m comment --comment "CNI firewall plugin rules (ingressPolicy: same-bridge|isolated)" -j CNI-ISOLATION-STAGE-1
-I CNI-ISOLATION-STAGE-1 1 -i cni0 ! -o cni0 -m comment --comment "CNI firewall plugin rules (ingressPolicy: isolated)" -j CNI-ISOLATION-STAGE-2
-I CNI-ISOLATION-STAGE-1 1 -i cni0 -o cni0 -m comment --comment "CNI firewall plugin rules (ingressPolicy: isolated)" -j DROP
-A CNI-ISOLATION-STAGE-1 -m comment --comment "CNI firewall plugin rules (ingressPolicy: same-bridge|isolated)" -j RETURN
-I CNI-ISOLATION-STAGE-2 1 -o cni0 -m comment --comment "CNI firewall plugin rules (ingressPolicy: same-bridge|isolated)" -j DROP
-A CNI-ISOLATION-STAGE-2 -m comment --comment "CNI firewall plugin rules (ingressPolicy: same-bridge|isolated)" -j RETURN
COMMIT
"#
    );
}

#[test]
fn what_is_there_is_not_made_again() {
    let mut attachment = attachment(&["10.88.0.5/16"]);
    attachment.wiring.masquerade = Some(Masquerade::new(Backend::Iptables));
    attachment.wiring.publish = Some(publish(vec![port(None, 8080, 80, Protocol::Tcp)]));
    attachment.wiring.firewall = Some(firewall(IngressPolicy::SameBridge));
    let there = printed(&plan(&attachment, Family::V4, ""));
    assert_eq!(plan(&attachment, Family::V4, &there), "");
    let older = there.replace("same-bridge|isolated", "same-bridge");
    assert_eq!(plan(&attachment, Family::V4, &older), "", "the words of release 1.1");
}

#[test]
fn ports_that_are_gone_are_taken_back() {
    let mut attachment = attachment(&["10.88.0.5/16"]);
    attachment.wiring.publish = Some(publish(vec![port(None, 8080, 80, Protocol::Tcp)]));
    let there = printed(&plan(&attachment, Family::V4, ""));
    attachment.wiring.publish = Some(publish(vec![port(None, 9090, 80, Protocol::Tcp)]));
    let commands = plan(&attachment, Family::V4, &there);
    assert!(commands.contains("-D CNI-HOSTPORT-DNAT -p tcp") && commands.contains("-F CNI-DN-"));
    assert!(commands.contains("--dport 9090") && !commands.contains("-N "), "{commands}");
}

#[test]
fn removing_leaves_what_others_share() {
    let mut attachment = attachment(&["10.88.0.5/16"]);
    attachment.wiring.masquerade = Some(Masquerade::new(Backend::Iptables));
    attachment.wiring.publish = Some(publish(vec![port(None, 8080, 80, Protocol::Tcp)]));
    attachment.wiring.firewall = Some(firewall(IngressPolicy::Open));
    let there = printed(&plan(&attachment, Family::V4, ""));
    let addresses = rules::of_family(&attachment.addresses, Family::V4);
    let parts = [WiringPart::Masquerade, WiringPart::Publish, WiringPart::Firewall];
    let commands = change::remove(Saved::parse(&there), &attachment.id, &parts, &addresses);
    assert_eq!(
        commands.render(),
        r#"*filter
-D CNI-FORWARD -d 10.88.0.5/32 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-D CNI-FORWARD -s 10.88.0.5/32 -j ACCEPT
COMMIT
*nat
-D POSTROUTING -s 10.88.0.5/32 -m comment --comment "name: \"net1\" id: \"cont1\"" -j CNI-01d424cb2a9303e21c6e971c
-F CNI-01d424cb2a9303e21c6e971c
-X CNI-01d424cb2a9303e21c6e971c
-D CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \"net1\" id: \"cont1\"" -m multiport --dports 8080 -j CNI-DN-01d424cb2a9303e21c6e9
-F CNI-DN-01d424cb2a9303e21c6e9
-X CNI-DN-01d424cb2a9303e21c6e9
COMMIT
"#
    );
    let nothing = change::remove(Saved::parse(""), &attachment.id, &parts, &addresses);
    assert_eq!(nothing.render(), "");
}

#[test]
fn a_second_interface_keeps_its_masquerading() {
    let mut both = attachment(&["10.88.0.5/16", "10.88.0.6/16"]);
    both.wiring.masquerade = Some(Masquerade::new(Backend::Iptables));
    let there = printed(&plan(&both, Family::V4, ""));
    let one = ["10.88.0.5/16".parse().unwrap()];
    let commands = change::remove(Saved::parse(&there), &both.id, &[WiringPart::Masquerade], &one);
    assert_eq!(commands.render().lines().count(), 3, "{}", commands.render());
    let all = change::remove(Saved::parse(&there), &both.id, &[WiringPart::Masquerade], &[]);
    assert!(all.render().contains("-X CNI-01d424cb2a9303e21c6e971c"));
}

#[test]
fn nothing_written_by_others_becomes_a_command() {
    let mut attachment = attachment(&["10.88.0.5/16"]);
    let mut ports = publish(vec![port(None, 8080, 80, Protocol::Tcp)]);
    ports.iptables.conditions_v4 =
        vec!["-m".into(), "comment".into(), "--comment".into(), "a \"b\\".into()];
    attachment.wiring.publish = Some(ports.clone());
    let commands = plan(&attachment, Family::V4, "");
    assert!(commands.contains(r#"-m comment --comment "a \"b\\" -j CNI-DN-"#), "{commands}");
    let refused = |change: &dyn Fn(&mut Publish)| {
        let mut bad = ports.clone();
        change(&mut bad);
        let mut attachment = attachment.clone();
        attachment.wiring.publish = Some(bad);
        RuleSet::of(&attachment, Family::V4).unwrap_err()
    };
    refused(&|bad| bad.iptables.conditions_v4 = vec!["x\nCOMMIT".into()]);
    refused(&|bad| bad.iptables.set_mark_chain = Some("a b".into()));
    refused(&|bad| bad.iptables.set_mark_chain = Some("--x".into()));
    refused(&|bad| bad.iptables.mark_bit = Some(32));
    for bridge in ["br+", "a\"b", "!x"] {
        let mut firewall = firewall(IngressPolicy::SameBridge);
        firewall.bridge = Some(bridge.parse().unwrap());
        attachment.wiring.firewall = Some(firewall);
        assert!(RuleSet::of(&attachment, Family::V4).is_err(), "{bridge}");
    }
}

#[test]
fn many_ports_take_several_entries() {
    let mut attachment = attachment(&["fd00::5/64"]);
    let ports = (1..=40).map(|at| port(None, 8000 + at, at, Protocol::Tcp)).collect();
    attachment.wiring.publish = Some(publish(ports));
    let commands = plan(&attachment, Family::V6, "");
    assert_eq!(commands.matches("-m multiport").count(), 3);
    assert!(commands.contains("--to-destination [fd00::5]:40"));
}

#[test]
fn of_a_shared_rule_that_is_there_twice_one_goes() {
    let mut attachment = attachment(&["10.88.0.5/16"]);
    attachment.wiring.firewall = Some(firewall(IngressPolicy::SameBridge));
    let once = printed(&plan(&attachment, Family::V4, ""));
    let rules = once.lines().filter(|line| line.starts_with("-A"));
    let twice = format!("{}\n", rules.collect::<Vec<_>>().join("\n"));
    let there = once.replace("COMMIT", &format!("{twice}COMMIT"));
    let commands = plan(&attachment, Family::V4, &there);
    // The container's own two rules are not worth an execution.
    assert_eq!(commands.matches("\n-D ").count(), 7, "{commands}");
    assert_eq!(commands.lines().count(), 9, "{commands}");
}

#[test]
fn the_bridge_of_many_hosts_is_isolated_before_its_first_container() {
    let of = |is_guarded| {
        let wanted = RuleSet::of_bridge(&"sp-front".parse().unwrap(), is_guarded).unwrap();
        let change = change::install(Saved::parse(""), &wanted).unwrap();
        (wanted, change.render())
    };
    let (_, text) = of(true);
    let at = |words: &str| text.find(words).unwrap_or_else(|| panic!("no {words} in {text}"));
    // What is inserted later stands in front of what accepts.
    assert!(at("-j CNI-FORWARD") < at("-j CNI-ISOLATION-STAGE-1"), "{text}");
    at("-I CNI-ISOLATION-STAGE-1 1 -i sp-front ! -o sp-front -m comment");
    at("-I CNI-ISOLATION-STAGE-2 1 -o sp-front ");
    let (open, text) = of(false);
    assert!(!text.contains("DROP"), "{text}");
    let judged = "-i sp-front ! -o sp-front -m conntrack --ctstate NEW -m conntrack ! --ctstate DNAT -m comment";
    assert!(text.contains(judged), "{text}");
    assert!(change::missing(&Saved::parse(""), &open).is_some());
}
