//! Hosts that lack something or refuse it, each test in namespaces of its own that end with its
//! threads.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc;
use std::thread;

use engine::port::{Driver, HostDataplane};
use linux::{Life, Linux};
use model::*;
use netlink::conntrack::{self, Flow};
use netlink::{At, Netns, Socket};
use rustix::thread::{UnshareFlags, unshare_unsafe};

fn isolated(test: impl FnOnce() + Send + 'static) {
    let thread = thread::spawn(|| {
        unshare(UnshareFlags::NEWNET | UnshareFlags::NEWNS);
        run("mount --make-rprivate /; ip link set lo up");
        test();
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

#[allow(unsafe_code)]
fn unshare(namespaces: UnshareFlags) {
    // SAFETY: new namespaces for this thread leave memory and descriptors alone.
    unsafe { unshare_unsafe(namespaces) }.expect("root may unshare");
}

/// From here on the thread's kernel has no nfnetlink.
#[allow(unsafe_code)]
fn without_nfnetlink() {
    let step = |code: u32, jt, jf, k: u32| libc::sock_filter {
        code: u16::try_from(code).unwrap(),
        jt,
        jf,
        k,
    };
    let load = |offset| step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, offset);
    let is = |value: i64, otherwise| {
        let code = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
        step(code, 0, otherwise, u32::try_from(value).unwrap())
    };
    let end = |result| step(libc::BPF_RET | libc::BPF_K, 0, 0, result);
    let absent = u32::try_from(libc::EPROTONOSUPPORT).unwrap();
    // The offsets are of `struct seccomp_data`: the number, and the low halves of two arguments.
    let mut steps = [
        load(0),
        is(libc::SYS_socket, 5),
        load(16),
        is(libc::AF_NETLINK.into(), 3),
        load(32),
        is(libc::NETLINK_NETFILTER.into(), 1),
        end(libc::SECCOMP_RET_ERRNO | absent),
        end(libc::SECCOMP_RET_ALLOW),
    ];
    let program =
        libc::sock_fprog { len: u16::try_from(steps.len()).unwrap(), filter: steps.as_mut_ptr() };
    // SAFETY: both calls concern this thread only; the program lives until the second returned.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_MODE_FILTER;
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program), 0);
    }
    assert!(Socket::netfilter().is_err());
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
            unshare(UnshareFlags::NEWNET);
            let id = rustix::thread::gettid().as_raw_nonzero();
            let path = PathBuf::from(format!("/proc/{}/task/{id}/ns/net", std::process::id()));
            report.send(Sandbox { path, inode: Netns::current().unwrap().inode() }).unwrap();
            let _ = ended.recv();
        });
        Self { sandbox: reported.recv().unwrap(), end: Some(end), thread: Some(thread) }
    }

    fn run(&self, command: &str) -> String {
        Netns::open(&self.sandbox.path).unwrap().enter(|| run(command)).unwrap()
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

fn run(command: &str) -> String {
    let output = Command::new("sh").args(["-ec", command]).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// On a bridge, with everything in nftables, and UDP port 53 of the host.
fn attachment(container: &str, address: &str, sandbox: &Sandbox) -> Attachment {
    let bridge: IfName = "br0".parse().unwrap();
    let kind = LinkKind::Bridge(Bridge {
        name: bridge.clone(),
        gateway: Gateway::Default,
        host_absent: model::Absence::default(),
        force_address: false,
        hairpin: false,
        promiscuous: false,
        port: model::BridgePort::default(),
    });
    let address = doubles::address(address);
    Attachment {
        sandbox: Some(sandbox.clone()),
        wiring: Wiring {
            link: Some(Link { kind, name: None, mac: None, mtu: None }),
            masquerade: Some(Masquerade::new(Backend::Nftables)),
            publish: Some(published(Backend::Nftables)),
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

fn published(backend: Backend) -> Publish {
    let port = NonZeroU16::new(53).unwrap();
    let map =
        PortMap { host: None, host_port: port, container_port: port, protocol: Protocol::Udp };
    Publish { ports: vec![map], ..Publish::new(backend) }
}

fn firewall() -> Firewall {
    Firewall::open(Backend::Nftables)
}

#[test]
fn a_backup_that_the_kernel_refuses_is_restored_as_far_as_it_goes() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        one.run("ip link add eth0 mtu 1300 type bridge");
        let directory = tempfile::tempdir().unwrap();
        let backup = directory.path().join("one_eth0.json");
        std::fs::write(&backup, r#"{"mac":"01:00:5e:00:00:01","mtu":1400}"#).unwrap();
        let tuning = Tuning { backup: Some(backup.clone()), ..Tuning::default() };
        let mut tuned = attachment("one", "10.88.0.2/24", &one.sandbox);
        tuned.layer = Layer::Tuning;
        tuned.wiring = Wiring { tuning: Some(tuning), ..Wiring::default() };
        linux.detach(&tuned).unwrap();
        assert!(one.run("ip link show eth0").contains("mtu 1400"));
        assert!(!backup.exists());
    });
}

#[test]
fn a_kernel_without_nftables_has_nothing_to_remove() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        let mut first = attachment("one", "10.88.0.2/24", &one.sandbox);
        first.wiring.firewall = Some(firewall());
        linux.attach(&first).unwrap();
        let host_end = linux::identity::Identity::of(&first.id).host_link().unwrap();
        without_nfnetlink();
        linux.detach(&first).unwrap();
        let linux = Linux::new(Life::Long);
        assert!(linux.attach(&first).is_err());
        linux.detach(&first).unwrap();
        assert!(Socket::route().unwrap().link(At::Name(&host_end)).unwrap().is_none());
        for layer in [Layer::Link, Layer::Publish, Layer::Firewall] {
            linux
                .detach(&Attachment { layer, runtime: Runtime::Reference, ..first.clone() })
                .unwrap();
        }
    });
}

#[test]
fn one_filter_that_fails_does_not_spare_the_other() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        let mut first = attachment("one", "10.88.0.2/24", &one.sandbox);
        first.wiring.publish = Some(published(Backend::Iptables));
        linux.attach(&first).unwrap();
        assert!(run("nft list set inet spoke masq4").contains("10.88.0.2"));
        run("mount --bind /bin/false $(readlink -f $(command -v iptables-save))");
        let error = linux.detach(&first).unwrap_err();
        assert!(error.to_string().contains("iptables"), "{error}");
        assert!(!run("nft list set inet spoke masq4").contains("10.88.0.2"));
    });
}

#[test]
fn what_is_removed_needs_no_route() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        let mut ports = attachment("one", "10.88.0.2/24", &one.sandbox);
        ports.layer = Layer::Publish;
        ports.wiring.link = None;
        ports.wiring.masquerade = None;
        run("ip link add br0 up type bridge; ip address add 10.88.0.1/24 dev br0");
        linux.attach(&ports).unwrap();
        run("ip link delete br0; ip route add prohibit 10.88.0.0/24");
        linux.detach(&ports).unwrap();
        assert!(linux.strays(&|| Ok(Vec::new())).unwrap().is_empty());
    });
}

#[test]
fn parameters_that_are_right_need_not_be_written() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        let first = attachment("one", "10.88.0.2/24", &one.sandbox);
        run("mount --bind /proc/sys /proc/sys; mount -o remount,bind,ro /proc/sys");
        let error = linux.attach(&first).unwrap_err();
        assert!(error.to_string().contains("net/ipv4/ip_forward"), "{error}");
        linux.detach(&first).unwrap();

        run("umount /proc/sys; sysctl -qw net.ipv4.ip_forward=1");
        run("mount --bind /proc/sys /proc/sys; mount -o remount,bind,ro /proc/sys");
        let error = linux.attach(&first).unwrap_err();
        assert!(error.to_string().contains("br0/route_localnet"), "{error}");
        linux.detach(&first).unwrap();

        run("umount /proc/sys; sysctl -qw net.ipv4.conf.all.route_localnet=1");
        run("mount --bind /proc/sys /proc/sys; mount -o remount,bind,ro /proc/sys");
        linux.attach(&first).unwrap();
        linux.detach(&first).unwrap();
    });
}

#[test]
fn old_tables_without_their_programs_are_left_alone() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        run("iptables-legacy -P FORWARD DROP");
        run("mount -t tmpfs none $(dirname $(readlink -f $(command -v iptables-legacy)))");
        let mut first = attachment("one", "10.88.0.2/24", &one.sandbox);
        first.wiring.firewall = Some(firewall());
        linux.attach(&first).unwrap();
        linux.detach(&first).unwrap();
    });
}

/// Where the tracked flows to UDP port 53 go, and where they are led instead.
fn flows() -> Vec<String> {
    let found = RefCell::new(Vec::new());
    let mut socket = Socket::netfilter().unwrap();
    let see = |flow: &Flow| {
        let led_to = flow.led_to.map(|to| format!(" led to {to}")).unwrap_or_default();
        found.borrow_mut().push(format!("{}{led_to}", flow.to.ip()));
        false
    };
    conntrack::flush_udp(&mut socket, &BTreeSet::from([53]), see).unwrap();
    let mut found = found.into_inner();
    found.sort();
    found
}

#[test]
fn a_published_port_forgets_its_own_flows_only() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        run("ip link add out0 up type bridge; ip address add 192.0.2.1/24 dev out0");
        run("nft 'table ip t { chain c { type filter hook output priority 0; ct state new; }; }'");
        let ask = |address: &str| {
            let _ = UdpSocket::bind("0.0.0.0:0").unwrap().send_to(b"x", (address, 53));
        };
        ask("192.0.2.53");
        ask("192.0.2.1");
        assert_eq!(flows(), ["192.0.2.1", "192.0.2.53"]);

        let first = attachment("one", "10.88.0.2/24", &one.sandbox);
        linux.attach(&first).unwrap();
        assert_eq!(flows(), ["192.0.2.53"]);
        ask("192.0.2.1");
        assert_eq!(flows(), ["192.0.2.1 led to 10.88.0.2", "192.0.2.53"]);
        linux.detach(&first).unwrap();
        assert_eq!(flows(), ["192.0.2.53"]);
    });
}

#[test]
fn the_living_keep_an_address_and_the_dead_do_not() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let (mut one, other) = (Container::new(), Container::new());
        let first = attachment("one", "10.88.0.2/24", &one.sandbox);
        let mut second = attachment("other", "10.88.0.2/24", &other.sandbox);
        second.wiring.publish = None;
        let became = linux.attach(&first).unwrap();
        let error = linux.attach(&second).unwrap_err();
        assert_eq!(error.kind(), Kind::Conflict, "{error}");
        linux.detach(&second).unwrap();
        linux.check(&first, &became).unwrap();

        let host_end = linux::identity::Identity::of(&first.id).host_link().unwrap();
        let mut socket = Socket::route().unwrap();
        one.die();
        // The kernel removes the link some milliseconds after the namespace's last user.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while socket.link(At::Name(&host_end)).unwrap().is_some() {
            assert!(std::time::Instant::now() < deadline, "{host_end} outlives its namespace");
            thread::yield_now();
        }
        let became = linux.attach(&second).unwrap();
        linux.detach(&first).unwrap();
        linux.check(&second, &became).unwrap();
        linux.detach(&second).unwrap();
    });
}
