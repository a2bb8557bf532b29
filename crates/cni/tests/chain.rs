//! Networks that are lists of the reference plugins, in a world of the test's own: its network
//! namespace, mounts and `/run`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod rig;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;

use cni::chain::plugin_chain;
use cni::runtime::NetworkList;
use cni::wire::{self, Failure};
use cni::{Chain, Delegates};
use doubles::Memory;
use engine::port::{Driver, HostDataplane, Offer, Presence, Stray};
use engine::{Engine, Joining, Request};
use model::{
    Alias, Attached, Attachment, AttachmentId, Handoff, IfName, InterfaceNamespace, Ipam, Kind,
    Link, LinkKind, Mac, Network, Phase, Publisher, Result, Runtime, Sandbox, Timestamp, Wiring,
};
use netlink::Netns;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use rig::ME;

/// The reference plugins of Debian 12, unpacked by `scripts/peers`.
const PLUGINS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../.cache/peers/cni-1.1");

/// What any of the tests reported to a person.
static REPORTED: Mutex<String> = Mutex::new(String::new());

/// A dataplane that is plugins of others and nothing else.
struct Plugins(Chain);

impl Driver for Plugins {
    fn attach(&self, attachment: &Attachment) -> Result<Attached> {
        self.0.join(attachment)
    }
    fn offer(&self, attachment: &Attachment) -> Result<Offer> {
        self.0.offer(attachment)
    }
    fn complete(&self, attachment: &Attachment) -> Result<Attached> {
        self.0.complete(attachment)
    }
    fn withdraw(&self, attachment: &Attachment) -> Result<()> {
        self.0.withdraw(attachment)
    }
    fn detach(&self, attachment: &Attachment) -> Result<()> {
        self.0.detach(attachment)
    }
    fn check(&self, attachment: &Attachment, _: &Attached) -> Result<()> {
        self.0.check(attachment)
    }
    fn presence(&self, attachment: &Attachment) -> Presence {
        self.0.presence(attachment)
    }
    fn restore(&self, _: &Attachment) -> Result<bool> {
        Ok(false)
    }
    fn hardware_address(&self, attachment: &Attachment) -> Option<Mac> {
        self.0.hardware_address(attachment)
    }
    fn up(&self, _: &Network) -> Result<()> {
        Ok(())
    }
    fn remove(&self, _: &Network) -> Result<()> {
        Ok(())
    }
}

impl HostDataplane for Plugins {
    fn strays(&self, all: &dyn Fn() -> Result<Vec<Attachment>>) -> Result<Vec<(Stray, Presence)>> {
        self.0.strays(all)
    }
    fn remove_stray(&self, stray: &Stray) -> Result<()> {
        let Stray::Parking(name) = stray else { panic!("{stray:?}") };
        self.0.remove_stray(name)
    }
}

fn waiting(id: &AttachmentId) -> Result<IfName> {
    format!("wait-{}", id.container).parse()
}

fn report(what: &str) {
    REPORTED.lock().unwrap().push_str(what);
}

/// Runs `test` on a thread with namespaces of its own, which end with it.
fn isolated(test: impl FnOnce(&Bench) + Send + 'static) {
    let inside = || {
        unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS).expect("root may unshare");
        let none: Option<&str> = None;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
        mount(Some("tmpfs"), "/run", Some("tmpfs"), MsFlags::empty(), none).unwrap();
        sh("mkdir /run/netns /run/spoke && touch /run/netns/here \
            && mount --bind /proc/self/ns/net /run/netns/here && ip link set lo up && ip link add up0 type veth peer up1 \
            && ip link set up0 up && ip link set up1 up");
        test(&Bench::new());
    };
    if let Err(panic) = thread::spawn(inside).join() {
        std::panic::resume_unwind(panic);
    }
}

/// In the namespaces of this thread.
#[track_caller]
fn sh(script: &str) -> String {
    let done = Command::new("bash").args(["-euc", script]).output().expect("bash");
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{script}: {said}{}", String::from_utf8_lossy(&done.stderr));
    said
}

struct Bench {
    driver: Plugins,
    store: Memory,
}

impl Bench {
    fn new() -> Self {
        let chain = Chain::new(Path::new("/run/spoke"), waiting, report);
        Self { driver: Plugins(chain), store: Memory::new() }
    }

    fn engine<T>(&self, work: impl FnOnce(&Engine<'_>) -> T) -> T {
        let delegates = Delegates::default();
        work(&Engine::new(&self.store, &self.driver, &delegates, &ME))
    }

    /// A declared network with an id of its own, and its list.
    fn network(&self, name: &str, main: &str) -> Network {
        let text = format!(
            r#"{{"cniVersion":"1.0.0","name":"{name}","plugins":[{{{main},"ipam":{{"type":"host-local",
            "subnet":"10.66.0.0/24","dataDir":"/run/{name}","routes":[{{"dst":"0.0.0.0/0"}}]}}}},
            {{"type":"tuning","mtu":1400}}]}}"#
        );
        let list = NetworkList::parse(text.as_bytes()).unwrap();
        let kind = LinkKind::Chain(plugin_chain(&list, vec![PathBuf::from(PLUGINS)]).unwrap());
        let link = Link { kind, name: None, mac: None, mtu: None };
        let network = Network::new(
            name.parse().unwrap(),
            Runtime::Docker,
            Timestamp(0),
            Wiring { link: Some(link), ..Wiring::default() },
            Ipam::None,
        );
        let alias = Alias {
            publisher: Publisher::None,
            handoff: Handoff::Caller,
            ..doubles::alias(&format!("id-{name}"), &network)
        };
        self.engine(|engine| engine.networks.enroll(&alias, &network)).unwrap();
        network
    }
}

fn request(network: &Network, container: &str, sandbox: Option<Sandbox>) -> Request {
    Request {
        ifname: "eth".parse().unwrap(),
        sandbox,
        ipam: Ipam::None,
        ..doubles::request(network, container)
    }
}

fn sandbox(name: &str) -> Sandbox {
    sh(&format!("ip netns add {name}"));
    let path = PathBuf::from(format!("/run/netns/{name}"));
    let inode = Netns::open(&path).unwrap().inode();
    Sandbox { path, inode }
}

/// What plugins, the cache and the parking leave in the host's namespace and in `/run`, once the
/// kernel has removed the other ends of what was in a namespace that ended.
fn remains() -> String {
    sh("for i in $(seq 100); do ip -o link | grep -q 'link-netnsid\\|link-netns' || break; sleep 0.02; done
        ip -o link | grep -vE ': (lo|up0@|up1@|up0:|up1:|cbr0:)' || true
        ls /run/spoke/cni/results /run/spoke/parked 2>/dev/null | grep -v : || true
        find /run/a /run/b -name '10.*' 2>/dev/null || true")
    .trim()
    .to_owned()
}

const KINDS: [&str; 3] = [
    r#""type":"macvlan","master":"up0","mode":"bridge""#,
    r#""type":"ptp","ipMasq":false"#,
    r#""type":"bridge","bridge":"cbr0","isGateway":true"#,
];

/// Docker: the addresses are reported before there is a sandbox, Docker moves the interface in and back.
#[test]
fn a_container_of_docker() {
    for main in KINDS {
        isolated(move |bench| {
            let network = bench.network("a", main);
            let alias = "id-a".parse().unwrap();
            let asked = request(&network, "c1", None);
            let reserved =
                bench.engine(|engine| engine.attachments.reserve(&asked, &alias)).unwrap();
            assert_eq!(reserved.addresses[0].address.to_string(), "10.66.0.2/24", "{main}");
            assert_eq!(reserved.leases.len(), 1);
            let mac = reserved.wiring.link.as_ref().unwrap().mac.expect("its hardware address");
            let again = bench.engine(|engine| engine.attachments.reserve(&asked, &alias)).unwrap();
            assert_eq!(again, reserved);
            let at = sandbox("box");
            let joining = Joining {
                sandbox: Sandbox { inode: 0, ..at },
                handoff: Handoff::Caller,
                name: None,
                sysctls: Vec::new(),
            };
            let joined =
                bench.engine(|engine| engine.attachments.join(&asked.id(), &joining)).unwrap();
            let Phase::Attached(attached) = &joined.phase else { panic!("attached") };
            let last = attached.interfaces.last().unwrap();
            assert_eq!((last.name.as_str(), last.place), ("wait-c1", InterfaceNamespace::Host));
            let reported = sh("ip -o link show wait-c1");
            assert!(
                reported.contains(&mac.to_string()) && reported.contains("mtu 1400"),
                "{reported}"
            );
            sh("ip link set wait-c1 netns box name eth0 && ip -n box link set eth0 up \
                && ip -n box address add 10.66.0.2/24 dev eth0");
            assert_eq!(bench.driver.presence(&joined), Presence::Alive, "{main}");
            if !main.contains("macvlan") {
                sh("ip netns exec box ping -q -c 1 -W 5 10.66.0.1");
            }
            bench.engine(|engine| engine.attachments.leave(&asked.id())).unwrap();
            sh("ip -n box link set eth0 down && ip -n box link set eth0 netns here name wait-c1");
            sh("ip link show wait-c1");
            bench.engine(|engine| engine.links.remove(&asked.id())).unwrap();
            assert_eq!(remains(), "", "{main}");
            bench.engine(|engine| engine.links.remove(&asked.id())).unwrap();
        });
    }
}

/// A sandbox dies with the interface in it, and another joins: that cannot be, and leaves nothing.
#[test]
fn a_sandbox_that_died() {
    isolated(|bench| {
        let network = bench.network("a", KINDS[2]);
        let asked = request(&network, "c1", None);
        bench
            .engine(|engine| engine.attachments.reserve(&asked, &"id-a".parse().unwrap()))
            .unwrap();
        let joining = |at: Sandbox| Joining {
            sandbox: at,
            handoff: Handoff::Finish,
            name: Some("net7".parse().unwrap()),
            sysctls: Vec::new(),
        };
        let first = joining(sandbox("box"));
        bench.engine(|engine| engine.attachments.join(&asked.id(), &first)).unwrap();
        let reported = sh("ip -n box address show dev net7; ip -n box route");
        assert!(
            reported.contains("10.66.0.2/24") && reported.contains("default via 10.66.0.1"),
            "{reported}"
        );
        sh("ip netns exec box ping -q -c 1 -W 5 10.66.0.1");
        // Leaving parks it, so that it can be joined again.
        bench.engine(|engine| engine.attachments.leave(&asked.id())).unwrap();
        bench.engine(|engine| engine.attachments.join(&asked.id(), &first)).unwrap();
        sh("ip netns exec box ping -q -c 1 -W 5 10.66.0.1");
        // The kernel takes its time, and no longer than this.
        sh("end=$(ip -o link show type veth | grep -o 'veth[0-9a-f]*'); ip netns del box
            for i in $(seq 500); do ip link show $end || break; sleep 0.02; done >/dev/null 2>&1");
        let second = joining(sandbox("two"));
        let refused =
            bench.engine(|engine| engine.attachments.join(&asked.id(), &second)).unwrap_err();
        assert_eq!(refused.kind(), Kind::NotFound, "{refused}");
        bench.engine(|engine| engine.links.remove(&asked.id())).unwrap();
        assert_eq!(remains(), "");
    });
}

/// A CNI runtime or the command line: straight in the container's namespace.
#[test]
fn a_container_with_a_sandbox() {
    for main in KINDS {
        isolated(move |bench| {
            let network = bench.network("a", main);
            let asked = request(&network, "c1", Some(sandbox("box")));
            let made = bench.engine(|engine| engine.attachments.attach(&asked)).unwrap();
            let Phase::Attached(attached) = &made.phase else { panic!("attached") };
            bench.engine(|engine| engine.attachments.check(&asked, attached)).unwrap();
            sh("ip -n box address show dev eth | grep -q 10.66.0.2");
            let twice = bench.engine(|engine| engine.attachments.attach(&asked)).unwrap_err();
            assert_eq!(twice.kind(), Kind::Conflict);
            sh("ip netns del box");
            bench.engine(|engine| engine.links.detach(&asked)).unwrap();
            bench.engine(|engine| engine.links.detach(&asked)).unwrap();
            assert_eq!(remains(), "", "{main}");
        });
    }
}

/// What others hold is refused, and nothing stays of what the plugins made.
#[test]
fn an_address_that_is_in_use() {
    isolated(|bench| {
        let (a, b) = (bench.network("a", KINDS[2]), bench.network("b", KINDS[1]));
        let first = request(&a, "c1", Some(sandbox("one")));
        bench.engine(|engine| engine.attachments.attach(&first)).unwrap();
        let before = remains();
        let second = request(&b, "c2", Some(sandbox("two")));
        let refused = bench.engine(|engine| engine.attachments.attach(&second)).unwrap_err();
        assert_eq!(refused.kind(), Kind::Conflict);
        assert!(refused.to_string().contains("container c1 (eth) on network a"), "{refused}");
        assert_eq!(remains(), before);
        assert_eq!(sh("ip -n two -o link | wc -l").trim(), "1");
        bench.engine(|engine| engine.links.detach(&first)).unwrap();
        assert_eq!(remains(), "");
    });
}

/// The next process after a death anywhere has only the record.
#[test]
fn a_death_on_the_way() {
    isolated(|bench| {
        let network = bench.network("a", KINDS[1]);
        let alias = "id-a".parse().unwrap();
        for step in 0..3 {
            let asked = request(&network, "c1", None);
            let reserved =
                bench.engine(|engine| engine.attachments.reserve(&asked, &alias)).unwrap();
            if step == 1 {
                // Moved, and no process wrote that down.
                let handed = Attachment { handoff: Handoff::Caller, ..reserved.clone() };
                bench.driver.attach(&handed).unwrap();
            }
            if step == 2 {
                // The cache is gone too, and the namespace is empty.
                sh(
                    "rm -r /run/spoke/cni && ip link delete $(ip -o link | grep -o 'veth[0-9a-f]*')",
                );
            }
            let later = Chain::new(Path::new("/run/spoke"), waiting, report);
            later.detach(&reserved).unwrap();
            later.detach(&reserved).unwrap();
            bench.engine(|engine| engine.links.remove(&asked.id())).unwrap();
            assert_eq!(remains(), "", "{step}");
        }
    });
}

/// The record is gone: what is parked has no owner, and goes with what its plugins hold.
#[test]
fn a_parking_without_a_record() {
    isolated(|bench| {
        let network = bench.network("a", KINDS[1]);
        let alias = "id-a".parse().unwrap();
        for container in ["c1", "c2"] {
            let asked = request(&network, container, None);
            bench.engine(|engine| engine.attachments.reserve(&asked, &alias)).unwrap();
        }
        let strays = |of: &[Attachment]| bench.driver.strays(&|| Ok(of.to_vec())).unwrap();
        let records = bench.engine(|engine| engine.records.attachments()).unwrap();
        assert!(strays(&records).is_empty());
        let found = strays(&records[1..]);
        let [(stray, Presence::Gone)] = found.as_slice() else { panic!("{found:?}") };
        bench.driver.remove_stray(stray).unwrap();
        bench.driver.remove_stray(stray).unwrap();
        assert_eq!(sh("ls /run/spoke/parked /run/spoke/turns | grep -c '^[0-9a-f]'").trim(), "2");
        assert_eq!(sh("find /run/a -name '10.*'").lines().count(), 1);
        for record in records {
            bench.engine(|engine| engine.links.remove(&record.id)).unwrap();
        }
        assert_eq!(remains(), "");
    });
}

/// A plugin's own code and words are what a runtime that speaks CNI gets.
#[test]
fn a_plugin_that_refuses() {
    isolated(|bench| {
        sh(&format!("mkdir /run/bin && cp {PLUGINS}/tuning /run/bin"));
        let refusal = r#"{"code":123,"msg":"no lease","details":"192.0.2.1 is silent"}"#;
        std::fs::write("/run/bin/ptp", format!("#!/bin/sh\necho '{refusal}'\nexit 1\n")).unwrap();
        sh("chmod 755 /run/bin/ptp");
        let mut network = bench.network("a", KINDS[1]);
        if let Some(Link { kind: LinkKind::Chain(chain), .. }) = &mut network.wiring.link {
            chain.path = vec![PathBuf::from("/run/bin")];
        }
        let asked = request(&network, "c1", Some(sandbox("box")));
        let refused = bench.engine(|engine| engine.attachments.attach(&asked)).unwrap_err();
        let words = r#"plugin type="ptp" failed (add): no lease"#;
        assert!(
            refused.to_string().contains(&format!("{words}; 192.0.2.1 is silent")),
            "{refused}"
        );
        let failure = Failure::of(&refused, wire::Command::Add);
        assert_eq!((failure.code, failure.msg.as_str()), (123, words));
    });
}

/// The plugins were uninstalled: that is reported, and keeps nothing.
#[test]
fn plugins_that_are_gone() {
    isolated(|bench| {
        sh(&format!("mkdir /run/bin && cp {PLUGINS}/{{ptp,host-local,tuning}} /run/bin"));
        let mut network = bench.network("a", KINDS[1]);
        if let Some(Link { kind: LinkKind::Chain(chain), .. }) = &mut network.wiring.link {
            chain.path = vec![PathBuf::from("/run/bin")];
        }
        let asked = request(&network, "gone1", Some(sandbox("box")));
        bench.engine(|engine| engine.attachments.attach(&asked)).unwrap();
        sh("rm /run/bin/ptp");
        let status = bench.driver.0.status(&network).unwrap_err();
        assert!(status.to_string().contains("containernetworking-plugins"), "{status}");
        bench.engine(|engine| engine.links.detach(&asked)).unwrap();
        assert!(REPORTED.lock().unwrap().contains("the CNI plugins ptp are not in /run/bin"));
        assert_eq!(sh("ip -n box -o link | wc -l").trim(), "1");
        assert!(bench.engine(|engine| engine.records.attachments()).unwrap().is_empty());
    });
}
