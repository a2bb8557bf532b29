//! The iptables back end on the kernel, beside the reference plugins, in namespaces of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod reference;

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Instant;

use linux::iptables::{Iptables, Variant};
use model::{
    Attachment, Backend, Firewall, IngressPolicy, Layer, Masquerade, Phase, PortMap, Process,
    Protocol, Publish, Runtime, Timestamp,
};

const CASE: &str = "IPTABLES_TEST_CASE";

/// Runs a case in a network namespace of its own, where it may do as it likes.
fn apart(case: &str) {
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount"]).arg(std::env::current_exe().unwrap());
    command.args(["--exact", "inside", "--ignored", "--nocapture"]).env(CASE, case);
    let output = command.output().expect("this test needs unshare");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{case}: {text}{errors}");
    println!("{text}");
}

/// Not a test: what the others run.
#[test]
#[ignore = "run by the other tests"]
fn inside() {
    let Ok(case) = std::env::var(CASE) else { return };
    run(&["mount", "-t", "tmpfs", "tmpfs", "/run"]);
    run(&["ip", "link", "set", "lo", "up"]);
    match case.as_str() {
        "life-nft" => life(Variant::Nft, "nft"),
        "life-legacy" => life(Variant::Legacy, "legacy"),
        "together-nft" => together(Variant::Nft, "nft"),
        "together-legacy" => together(Variant::Legacy, "legacy"),
        "errors" => errors(),
        "reference" => reference::beside_us(),
        "cost" => cost(),
        other => panic!("no case {other}"),
    }
}

#[test]
fn lives_on_nft() {
    apart("life-nft");
}

#[test]
fn lives_on_legacy() {
    apart("life-legacy");
}

#[test]
fn many_at_once_on_nft() {
    apart("together-nft");
}

#[test]
fn many_at_once_on_legacy() {
    apart("together-legacy");
}

#[test]
fn errors_name_what_was_refused() {
    apart("errors");
}

#[test]
fn the_reference_and_we_make_and_remove_the_same() {
    apart("reference");
}

#[test]
#[ignore = "measures"]
fn costs() {
    apart("cost");
}

fn run(words: &[&str]) {
    let output = Command::new(words[0]).args(&words[1..]).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The rules of both families, without what counts or dates them.
fn rules(variant: &str) -> String {
    let mut text = String::new();
    for family in ["iptables", "ip6tables"] {
        let output = Command::new(format!("{family}-{variant}-save")).output().unwrap();
        assert!(output.status.success());
        for line in String::from_utf8(output.stdout).unwrap().lines() {
            let builtin = line.starts_with(':') && !line.contains(" - ");
            if !(line.starts_with(['#', '*']) || builtin || line == "COMMIT") {
                text.push_str(&format!("{family} {line}\n"));
            }
        }
    }
    text
}

fn flush(variant: &str) {
    for family in ["iptables", "ip6tables"] {
        let mut child = Command::new(format!("{family}-{variant}-restore"))
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(b"*nat\nCOMMIT\n*filter\nCOMMIT\n").unwrap();
        assert!(child.wait().unwrap().success());
    }
}

fn attachment(container: &str, addresses: &[&str]) -> Attachment {
    let held = |net: &&str| doubles::address(net);
    Attachment {
        addresses: addresses.iter().map(held).collect(),
        ..Attachment::new(
            doubles::attachment_id("net1", container),
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

fn everything(container: &str, addresses: &[&str], host_port: u16) -> Attachment {
    let mut attachment = attachment(container, addresses);
    attachment.wiring.masquerade = Some(Masquerade::new(Backend::Iptables));
    attachment.wiring.publish = Some(publish(vec![
        port(None, host_port, 80, Protocol::Tcp),
        port(Some("10.1.1.1"), host_port, 53, Protocol::Udp),
    ]));
    attachment.wiring.firewall = Some(firewall(IngressPolicy::Isolated));
    attachment
}

const BOTH: [&str; 2] = ["10.88.0.5/16", "fd00::5/64"];

/// Install, repeat, check, remove, repeat.
fn life(variant: Variant, name: &str) {
    let iptables = Iptables::new(variant);
    let attachment = everything("cont1", &BOTH, 8080);
    iptables.remove(&attachment).unwrap();
    assert_eq!(rules(name), "", "removing what is not there makes nothing");
    assert_eq!(iptables.check(&attachment).unwrap_err().kind(), model::Kind::NotFound);
    iptables.install(&attachment).unwrap();
    let there = rules(name);
    assert!(there.contains("ip6tables -A CNI-DN-") && there.contains("iptables -A CNI-FORWARD"));
    iptables.check(&attachment).unwrap();
    iptables.install(&attachment).unwrap();
    assert_eq!(rules(name), there, "repeating it changes nothing");
    let other = everything("cont2", &["10.88.0.6/16", "fd00::6/64"], 9090);
    iptables.install(&other).unwrap();
    iptables.remove(&other).unwrap();
    assert_eq!(rules(name), there, "another one leaves no trace");
    one_rule_is_missed(&iptables, &attachment, name);
    iptables.remove(&attachment).unwrap();
    let left = rules(name);
    assert!(!left.contains("10.88.") && !left.contains("fd00::") && !left.contains("cont1"));
    assert!(left.contains("CNI-ISOLATION-STAGE-1 -i cni0"), "the bridge's are shared");
    iptables.remove(&attachment).unwrap();
    iptables.remove_bridge(&"cni0".parse().unwrap()).unwrap();
    assert!(!rules(name).contains("cni0"));
}

fn one_rule_is_missed(iptables: &Iptables, attachment: &Attachment, name: &str) {
    let there = rules(name);
    let wanted = there.lines().filter(|line| line.starts_with("iptables -A "));
    for rule in wanted {
        let command = rule.replacen("-A", "-D", 1);
        let table = if is_filter(rule) { "filter" } else { "nat" };
        let command = command.replacen("iptables", &format!("iptables-{name} -t {table}"), 1);
        run(&["sh", "-c", &command]);
        let error = iptables.check(attachment).expect_err(rule).to_string();
        assert!(error.contains("has no rule"), "{error}");
        iptables.install(attachment).unwrap();
        iptables.check(attachment).unwrap();
    }
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&rules(name)), sorted(&there));
}

fn is_filter(rule: &str) -> bool {
    ["-A FORWARD", "-A CNI-FORWARD", "-A CNI-ISOLATION"].iter().any(|chain| rule.contains(chain))
}

/// Nothing of one container's is lost to another's, and nothing is left of any.
fn together(variant: Variant, name: &str) {
    let all: Vec<Attachment> = (0..12u16)
        .map(|at| everything(&format!("c{at}"), &[&format!("10.88.1.{at}/16")], 8000 + at))
        .collect();
    let each = |act: &(dyn Fn(&Iptables, &Attachment) + Sync)| {
        std::thread::scope(|scope| {
            for attachment in &all {
                scope.spawn(|| act(&Iptables::new(variant), attachment));
            }
        });
    };
    each(&|iptables, attachment| {
        iptables.install(attachment).unwrap();
    });
    each(&|iptables, attachment| iptables.check(attachment).unwrap());
    assert_eq!(rules(name).matches("-j CNI-HOSTPORT-MASQ").count(), 1);
    each(&|iptables, attachment| iptables.remove(attachment).unwrap());
    let left = rules(name);
    assert!(!left.contains("10.88.") && !left.contains("CNI-DN-"), "{left}");
}

fn errors() {
    let iptables = Iptables::new(Variant::Host);
    let mut attachment = attachment("cont1", &BOTH[..1]);
    let mut ports = publish(vec![port(None, 80, 80, Protocol::Tcp)]);
    ports.iptables.set_mark_chain = Some("NOBODYS".into());
    attachment.wiring.publish = Some(ports);
    let error = iptables.install(&attachment).unwrap_err();
    assert!(error.to_string().starts_with("iptables-restore refused: "), "{error}");
    assert!(!rules("nft").contains("CNI-"), "all or nothing");
    // No programs at all.
    for folder in ["/usr/sbin", "/usr/local/sbin"] {
        run(&["mount", "-t", "tmpfs", "tmpfs", folder]);
    }
    let error = iptables.install(&attachment).unwrap_err();
    assert_eq!(error.kind(), model::Kind::Unsupported, "{error}");
    iptables.remove(&attachment).unwrap();
}

fn cost() {
    for (variant, name) in [(Variant::Nft, "nft"), (Variant::Legacy, "legacy")] {
        let iptables = Iptables::new(variant);
        let attachment = everything("cont1", &BOTH[..1], 8080);
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..40 {
            let begun = Instant::now();
            iptables.install(&attachment).unwrap();
            times[0].push(begun.elapsed());
            let begun = Instant::now();
            iptables.remove(&attachment).unwrap();
            times[1].push(begun.elapsed());
        }
        times.iter_mut().for_each(|times| times.sort());
        println!("{name}: install {:?}, remove {:?}", times[0][20], times[1][20]);
    }
}
