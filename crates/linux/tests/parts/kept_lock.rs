//! A process without privileges keeps the lock that any process in a network namespace can take.

use std::fs::File;
use std::time::{Duration, Instant};

use engine::port::Driver;
use linux::iptables::{Iptables, Variant};
use linux::{Life, Linux};
use model::{Backend, Firewall, Kind, Masquerade};
use netlink::HostLock;

use crate::bed::{Container, attachment, bridge, firewall, isolated, network, published, run};

#[test]
fn a_kept_lock_is_not_waited_for_without_end() {
    isolated(|| {
        let container = Container::new();
        let mut attachment = attachment("c1", bridge(), "10.77.0.2/24", &container.sandbox);
        attachment.wiring.firewall = Some(Firewall { backend: Backend::Iptables, ..firewall() });
        let linux = Linux::new(Life::Long);
        linux.attach(&attachment).unwrap();

        let namespace = File::open("/proc/thread-self/ns/net").unwrap();
        namespace.lock().unwrap();
        run("nft delete table inet spoke");
        let iptables = Iptables::new(Variant::Host).waiting(Duration::ZERO);
        let refused = iptables.install(&attachment).unwrap_err();
        assert_eq!(refused.kind(), Kind::TryAgain, "{refused}");
        assert!(refused.to_string().contains("/proc/locks"), "{refused}");

        // Healing goes on with what needs no lock, and waits once for all attachments.
        assert_eq!(linux.restore(&attachment).unwrap_err().kind(), Kind::TryAgain);
        let listed = run("nft list ruleset");
        assert!(listed.contains("10.77.0.2"), "{listed}");
        let before = Instant::now();
        for _ in 0..100 {
            assert_eq!(linux.restore(&attachment).unwrap_err().kind(), Kind::TryAgain);
        }
        assert!(before.elapsed() < Duration::from_secs(100), "each waits anew");

        drop(namespace);
        run("iptables -F FORWARD");
        assert!(linux.restore(&attachment).unwrap());
        assert!(!linux.restore(&attachment).unwrap());
        linux.detach(&attachment).unwrap();
    });
}

#[test]
fn what_anyone_can_keep_blocks_no_process() {
    for backend in [Backend::Nftables, Backend::Iptables] {
        isolated(move || {
            run("sysctl -qw net.ipv4.ip_forward=0");
            let namespace = File::open("/proc/thread-self/ns/net").unwrap();
            namespace.lock().unwrap();
            let runtime = tempfile::tempdir().unwrap();
            let linux = Linux::locked_by(HostLock::below(runtime.path()), Life::Long);
            let container = Container::new();
            let mut made = attachment("c1", bridge(), "10.77.0.2/24", &container.sandbox);
            made.wiring.firewall = Some(Firewall { backend, ..firewall() });
            made.wiring.masquerade = Some(Masquerade::new(backend));
            made.wiring.publish = Some(model::Publish { backend, ..published(8001) });
            linux.attach(&made).unwrap();
            assert_eq!(run("cat /proc/sys/net/ipv4/ip_forward").trim(), "1");
            run("nft flush ruleset");
            assert!(linux.mend().unwrap(), "the guard of what forwards");
            assert!(linux.restore(&made).unwrap());
            linux.detach(&made).unwrap();
            linux.remove(&network(bridge())).unwrap();
            assert_eq!(run("cat /proc/sys/net/ipv4/ip_forward").trim(), "0");
            drop(namespace);
        });
    }
}
