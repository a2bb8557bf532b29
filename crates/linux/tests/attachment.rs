//! Attachments on the kernel, each test in namespaces of its own that end with its threads.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc;
use std::thread;

use engine::port::{Driver, HostDataplane, Presence, Stray};
use linux::{Life, Linux};
use model::*;
use netlink::{At, Netns, Socket};
use rustix::thread::{UnshareFlags, unshare_unsafe};

fn isolated(test: impl FnOnce() + Send + 'static) {
    let thread = thread::spawn(|| {
        unshare();
        test();
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

#[allow(unsafe_code)]
fn unshare() {
    // SAFETY: a new network namespace for this thread leaves memory and descriptors alone.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.expect("root may unshare");
}

/// A container: a thread that keeps a namespace until it is stopped.
struct Container {
    sandbox: Sandbox,
    end: Option<mpsc::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Container {
    fn new() -> Self {
        let (report, reported) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let thread = thread::spawn(move || {
            unshare();
            let id = rustix::thread::gettid().as_raw_nonzero();
            let path = PathBuf::from(format!("/proc/{}/task/{id}/ns/net", std::process::id()));
            report.send(Sandbox { path, inode: Netns::current().unwrap().inode() }).unwrap();
            let _ = ended.recv();
        });
        Self { sandbox: reported.recv().unwrap(), end: Some(end), thread: Some(thread) }
    }

    fn run(&self, program: &str, args: &[&str]) -> String {
        let netns = Netns::open(&self.sandbox.path).unwrap();
        netns.enter(|| run(program, args)).unwrap()
    }

    fn die(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        self.die();
    }
}

fn run(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{program} {args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn attachment(container: &str, kind: LinkKind, address: &str, sandbox: &Sandbox) -> Attachment {
    let address = doubles::address(address);
    Attachment {
        sandbox: Some(sandbox.clone()),
        wiring: Wiring {
            link: Some(Link { kind, name: None, mac: None, mtu: None }),
            masquerade: Some(Masquerade::new(Backend::Nftables)),
            ..Wiring::default()
        },
        addresses: vec![address],
        ..Attachment::new(
            doubles::attachment_id("front", container),
            Layer::Link,
            Runtime::Cni,
            Timestamp(0),
            Phase::Attaching { by: Process { pid: 1, start: 1 } },
        )
    }
}

fn bridge() -> LinkKind {
    doubles::bridge("br0", Gateway::Default)
}

fn links() -> Vec<String> {
    let links = Socket::route().unwrap().links(netlink::Links::default()).unwrap();
    links.into_iter().map(|link| link.name.to_string()).filter(|name| name != "lo").collect()
}

fn network(kind: LinkKind) -> Network {
    Network::new(
        "front".parse().unwrap(),
        Runtime::Cni,
        Timestamp(0),
        Wiring { link: Some(Link { kind, name: None, mac: None, mtu: None }), ..Wiring::default() },
        Ipam::None,
    )
}

#[test]
fn containers_on_a_bridge_reach_each_other_and_leave_nothing() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let (one, other) = (Container::new(), Container::new());
        let first = attachment("one", bridge(), "10.88.0.2/24", &one.sandbox);
        let second = attachment("other", bridge(), "10.88.0.3/24", &other.sandbox);
        let became = linux.attach(&first).unwrap();
        linux.attach(&second).unwrap();
        linux.check(&first, &became).unwrap();
        one.run("ping", &["-c1", "-W2", "10.88.0.3"]);
        one.run("ping", &["-c1", "-W2", "10.88.0.1"]);
        assert_eq!(linux.presence(&first), Presence::Alive);
        for _ in 0..2 {
            linux.detach(&first).unwrap();
            linux.detach(&second).unwrap();
        }
        assert!(linux.check(&first, &became).is_err());
        assert_eq!(links(), ["br0"]);
        assert!(linux.strays(&|| Ok(Vec::new())).unwrap().is_empty());
        linux.remove(&network(bridge())).unwrap();
        linux.remove(&network(bridge())).unwrap();
        assert!(links().is_empty());
    });
}

#[test]
fn ptp_reaches_the_host_and_nothing_is_left() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        let ptp = attachment("one", LinkKind::Ptp(Ptp::default()), "10.88.0.2/24", &one.sandbox);
        let became = linux.attach(&ptp).unwrap();
        linux.check(&ptp, &became).unwrap();
        one.run("ping", &["-c1", "-W2", "10.88.0.1"]);
        linux.detach(&ptp).unwrap();
        assert!(links().is_empty());
    });
}

#[test]
fn a_dead_container_is_known_by_its_link() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let mut one = Container::new();
        let first = attachment("one", bridge(), "10.88.0.2/24", &one.sandbox);
        let became = linux.attach(&first).unwrap();
        let name = became.interfaces[1].name.clone();
        let mut socket = Socket::route().unwrap();
        one.die();
        // The kernel removes the link some milliseconds after the namespace's last user.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while socket.link(At::Name(&name)).unwrap().is_some() {
            assert!(std::time::Instant::now() < deadline, "{name} outlives its namespace");
            thread::yield_now();
        }
        assert_eq!(linux.presence(&first), Presence::Gone);
        linux.detach(&first).unwrap();
    });
}

#[test]
fn a_link_without_a_record_is_a_stray_and_makes_way() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        let first = attachment("one", bridge(), "10.88.0.2/24", &one.sandbox);
        let became = linux.attach(&first).unwrap();
        assert!(linux.strays(&|| Ok(vec![first.clone()])).unwrap().is_empty());
        let strays = linux.strays(&|| Ok(Vec::new())).unwrap();
        let link = Stray::Link(became.interfaces[1].name.clone());
        assert!(strays.contains(&(link.clone(), Presence::Alive)), "{strays:?}");
        let lives = |(_, presence): &(Stray, Presence)| *presence == Presence::Alive;
        assert!(strays.iter().all(lives), "a link proves that its container lives: {strays:?}");
        linux.attach(&first).unwrap();
        linux.remove_stray(&link).unwrap();
        for (stray, presence) in linux.strays(&|| Ok(Vec::new())).unwrap() {
            assert_eq!(presence, Presence::Gone, "{stray:?}");
            linux.remove_stray(&stray).unwrap();
        }
        assert_eq!(links(), ["br0"]);
        assert!(linux.strays(&|| Ok(Vec::new())).unwrap().is_empty());
    });
}

#[test]
fn a_foreign_interface_is_not_taken() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        one.run("ip", &["link", "add", "eth0", "type", "bridge"]);
        let first = attachment("one", bridge(), "10.88.0.2/24", &one.sandbox);
        assert_eq!(linux.attach(&first).unwrap_err().kind(), Kind::Conflict);
        linux.detach(&first).unwrap();
        assert!(one.run("ip", &["-br", "link"]).contains("eth0"));
    });
}

#[test]
fn a_full_bridge_says_so() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        run("ip", &["link", "add", "br0", "up", "type", "bridge"]);
        let ports: String = (0..1023)
            .map(|n| format!("link add p{n} type veth peer name q{n}\nlink set p{n} master br0\n"))
            .collect();
        let script = std::env::temp_dir().join(format!("spoke-ports-{}", std::process::id()));
        std::fs::write(&script, ports).unwrap();
        run("ip", &["-batch", script.to_str().unwrap()]);
        std::fs::remove_file(&script).unwrap();
        let first = attachment("one", bridge(), "10.88.0.2/24", &one.sandbox);
        let error = linux.attach(&first).unwrap_err();
        assert_eq!(error.kind(), Kind::Exhausted, "{error}");
        linux.detach(&first).unwrap();
    });
}
