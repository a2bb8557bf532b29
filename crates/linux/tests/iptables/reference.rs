//! The reference plugins do and undo what we do.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use linux::iptables::{Iptables, Variant, WiringPart};
use model::{Attachment, Backend, IngressPolicy, Masquerade, Protocol, Wiring};

use super::{BOTH, attachment, firewall, flush, port, publish, rules, run};

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

/// The reference's input, and ours.
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
    let masquerade = Some(Masquerade::new(Backend::Iptables));
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

/// The one rule that the reference does not have: see docs/cni.md.
const OURS: &str = "ip6tables -A CNI-HOSTPORT-DNAT -d ::1/128 -j RETURN\n";

/// The rules that are the same, whichever program made them.
fn shared() -> String {
    rules("nft").replace(OURS, "")
}

pub(crate) fn beside_us() {
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
        let theirs = shared();
        iptables.check(&attachment).unwrap();
        iptables.install(&attachment).unwrap();
        assert_eq!(shared(), theirs, "ours after theirs changes nothing: {config}");
        reference("DEL", &container, &config);
        let left = shared();

        start();
        iptables.install(&attachment).unwrap();
        assert_eq!(shared(), theirs, "ours is theirs: {config}");
        let publishes = attachment.wiring.publish.is_some();
        assert_eq!(rules("nft").matches(OURS).count(), usize::from(publishes), "{config}");
        iptables.remove(&attachment).unwrap();
        assert_eq!(shared(), left, "ours removed is theirs removed: {config}");
        // The bridge plugin removes only what belongs to an interface that it finds.
        reference("ADD", &container, &config);
        start();
        iptables.install(&attachment).unwrap();
        reference("DEL", &container, &config);
        assert_eq!(shared(), left, "theirs removes ours: {config}");

        start();
        reference("ADD", &container, &config);
        iptables.remove(&attachment).unwrap();
        assert_eq!(shared(), left, "ours removes theirs: {config}");
        let parts = [WiringPart::Masquerade, WiringPart::Publish, WiringPart::Firewall];
        iptables.install(&attachment).unwrap();
        iptables.remove_parts(&attachment.id, &parts, &[]).unwrap();
        let named = shared();
        assert!(!named.contains("CNI-DN-") && !named.contains("POSTROUTING -s"), "{named}");
    }
}
