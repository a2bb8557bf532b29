//! The iptables back end on the kernel, beside the reference plugins, in namespaces of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use linux::iptables::{Iptables, Part, Variant};
use model::{
    Attachment, AttachmentId, Backend, Dns, Firewall, IngressPolicy, InterfaceAddress, Ipam,
    IptablesPublish, Layer, Masquerade, Phase, PortMap, Process, Protocol, Publish, Runtime,
    Timestamp, Wiring,
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
        "reference" => beside_the_reference(),
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
    let held = |net: &&str| InterfaceAddress {
        address: net.parse().unwrap(),
        gateway: None,
        interface: None,
    };
    Attachment {
        id: AttachmentId {
            network: "net1".parse().unwrap(),
            container: container.parse().unwrap(),
            ifname: "eth0".parse().unwrap(),
        },
        layer: Layer::Link,
        runtime: Runtime::Cni,
        owner: None,
        since: Timestamp(0),
        sandbox: None,
        wiring: Wiring::default(),
        ipam: Ipam::None,
        leases: Vec::new(),
        addresses: addresses.iter().map(held).collect(),
        routes: Vec::new(),
        dns: Dns::default(),
        phase: Phase::Attaching { by: Process { pid: 1, start: 1 } },
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
    Publish {
        backend: Backend::Iptables,
        ports,
        snat: true,
        masquerade_all: false,
        behind: None,
        iptables: IptablesPublish::default(),
    }
}

fn firewall(ingress: IngressPolicy) -> Firewall {
    let bridge = Some("cni0".parse().unwrap());
    Firewall { backend: Backend::Iptables, ingress, bridge, admin_chain: None }
}

fn everything(container: &str, addresses: &[&str], host_port: u16) -> Attachment {
    let mut attachment = attachment(container, addresses);
    attachment.wiring.masquerade = Some(Masquerade { backend: Backend::Iptables });
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
    each(&|iptables, attachment| iptables.install(attachment).unwrap());
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

/// Where the reference plugins are: scripts/peers puts them there.
fn plugins() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/peers/cni-1.9");
    assert!(folder.join("portmap").exists(), "this test needs scripts/peers to have run");
    folder.canonicalize().unwrap()
}

/// A container's namespace, for as long as its process lives.
struct Container(Child);

impl Container {
    fn new() -> Self {
        let child = Command::new("unshare").args(["--net", "sleep", "600"]).spawn().unwrap();
        let path = format!("/proc/{}/ns/net", child.id());
        let own = std::fs::read_link("/proc/self/ns/net").unwrap();
        while std::fs::read_link(&path).unwrap() == own {
            std::thread::yield_now();
        }
        Self(child)
    }
    fn path(&self) -> String {
        format!("/proc/{}/ns/net", self.0.id())
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn reference(verb: &str, container: &Container, config: &str) {
    let plugin = config.split("\"type\":\"").nth(1).unwrap().split('"').next().unwrap();
    let mut child = Command::new(plugins().join(plugin))
        .env("CNI_COMMAND", verb)
        .env("CNI_CONTAINERID", "cont1")
        .env("CNI_NETNS", container.path())
        .env("CNI_IFNAME", "eth0")
        .env("CNI_PATH", plugins())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(config.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{verb} {config}: {text}");
}

const PREVIOUS: &str = r#""prevResult":{"cniVersion":"1.0.0","interfaces":[{"name":"cni0"},
    {"name":"eth0","sandbox":"/x"}],"ips":[{"address":"10.88.0.5/16","interface":1},
    {"address":"fd00::5/64","interface":1}]}"#;

fn portmap(options: &str, ports: &str) -> String {
    format!(
        r#"{{"name":"net1","type":"portmap","cniVersion":"1.0.0","backend":"iptables",{options}
        "capabilities":{{"portMappings":true}},"runtimeConfig":{{"portMappings":[{ports}]}},{PREVIOUS}}}"#
    )
}

fn filter(options: &str) -> String {
    format!(
        r#"{{"name":"net1","type":"firewall","cniVersion":"1.0.0","backend":"iptables",{options}{PREVIOUS}}}"#
    )
}

/// What the reference is told, and what we are.
fn cases() -> Vec<(String, Attachment)> {
    const TCP: &str = r#"{"hostPort":8080,"containerPort":80,"protocol":"tcp"}"#;
    const MANY: &str = r#"{"hostPort":8080,"containerPort":80,"protocol":"tcp"},
        {"hostPort":53,"containerPort":54,"protocol":"udp","hostIP":"10.1.1.1"},
        {"hostPort":8081,"containerPort":81,"protocol":"tcp","hostIP":"::"},
        {"hostPort":8083,"containerPort":83,"protocol":"tcp","hostIP":"2001:db8::1"},
        {"hostPort":8082,"containerPort":82,"protocol":"sctp"}"#;
    let tcp = || vec![port(None, 8080, 80, Protocol::Tcp)];
    let many = vec![
        port(None, 8080, 80, Protocol::Tcp),
        port(Some("10.1.1.1"), 53, 54, Protocol::Udp),
        port(Some("::"), 8081, 81, Protocol::Tcp),
        port(Some("2001:db8::1"), 8083, 83, Protocol::Tcp),
        port(None, 8082, 82, Protocol::Sctp),
    ];
    let with = |wiring: Wiring| Attachment { wiring, ..attachment("cont1", &BOTH) };
    let published = |publish| with(Wiring { publish: Some(publish), ..Wiring::default() });
    let filtered = |firewall| with(Wiring { firewall: Some(firewall), ..Wiring::default() });
    let mut bit = publish(tcp());
    bit.masquerade_all = true;
    bit.iptables.mark_bit = Some(5);
    bit.iptables.conditions_v4 = ["!", "-d", "1.2.3.0/24"].map(str::to_owned).to_vec();
    bit.iptables.conditions_v6 = ["!", "-d", "2001:db8::/32"].map(str::to_owned).to_vec();
    let mut plain = publish(tcp());
    plain.snat = false;
    let mut theirs = publish(tcp());
    theirs.iptables.set_mark_chain = Some("THEIR-MARK".into());
    let mut admin = firewall(IngressPolicy::SameBridge);
    admin.admin_chain = Some("MY-ADMIN".into());
    let masquerade = Some(Masquerade { backend: Backend::Iptables });
    vec![
        (portmap("", MANY), published(publish(many))),
        (
            portmap(
                r#""masqAll":true,"markMasqBit":5,"conditionsV4":["!","-d","1.2.3.0/24"],
                "conditionsV6":["!","-d","2001:db8::/32"],"#,
                TCP,
            ),
            published(bit),
        ),
        (portmap(r#""snat":false,"#, TCP), published(plain)),
        (portmap(r#""externalSetMarkChain":"THEIR-MARK","#, TCP), published(theirs)),
        (filter(""), filtered(firewall(IngressPolicy::Open))),
        (
            filter(r#""ingressPolicy":"same-bridge","iptablesAdminChainName":"MY-ADMIN","#),
            filtered(admin),
        ),
        (filter(r#""ingressPolicy":"isolated","#), filtered(firewall(IngressPolicy::Isolated))),
        (
            r#"{"name":"net1","type":"bridge","cniVersion":"1.0.0","bridge":"cni0","ipMasq":true,
            "isGateway":true,"ipMasqBackend":"iptables","ipam":{"type":"static","addresses":
            [{"address":"10.88.0.5/16","gateway":"10.88.0.1"},{"address":"fd00::5/64"}]}}"#
                .to_owned(),
            with(Wiring { masquerade, ..Wiring::default() }),
        ),
    ]
}

fn beside_the_reference() {
    let iptables = Iptables::new(Variant::Host);
    for (config, attachment) in cases() {
        let container = Container::new();
        let start = || {
            flush("nft");
            for family in ["iptables", "ip6tables"] {
                run(&[family, "-t", "nat", "-N", "THEIR-MARK"]);
            }
        };
        start();
        reference("ADD", &container, &config);
        let theirs = rules("nft");
        iptables.check(&attachment).unwrap();
        iptables.install(&attachment).unwrap();
        assert_eq!(rules("nft"), theirs, "ours after theirs changes nothing: {config}");
        reference("DEL", &container, &config);
        let left = rules("nft");

        start();
        iptables.install(&attachment).unwrap();
        assert_eq!(rules("nft"), theirs, "ours is theirs: {config}");
        iptables.remove(&attachment).unwrap();
        assert_eq!(rules("nft"), left, "ours removed is theirs removed: {config}");
        // The bridge plugin removes only what belongs to an interface that it finds.
        reference("ADD", &container, &config);
        start();
        iptables.install(&attachment).unwrap();
        reference("DEL", &container, &config);
        assert_eq!(rules("nft"), left, "theirs removes ours: {config}");

        start();
        reference("ADD", &container, &config);
        iptables.remove(&attachment).unwrap();
        assert_eq!(rules("nft"), left, "ours removes theirs: {config}");
        let parts = [Part::Masquerade, Part::Publish, Part::Firewall];
        iptables.install(&attachment).unwrap();
        iptables.remove_parts(&attachment.id, &parts, &[]).unwrap();
        let named = rules("nft");
        assert!(!named.contains("CNI-DN-") && !named.contains("POSTROUTING -s"), "{named}");
    }
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
