//! What attaching and detaching cost a long-lived process, in a namespace of its own. Prints medians
//! in milliseconds; run it as root.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use engine::port::Driver;
use linux::{Life, Linux};
use model::*;
use netlink::Netns;
use rustix::thread::{UnshareFlags, unshare_unsafe};

const ROUNDS: usize = 200;

#[allow(unsafe_code)]
fn unshare() {
    // SAFETY: a new network namespace for this thread leaves memory and descriptors alone.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.unwrap();
}

fn attachment(sandbox: Sandbox, handoff: Handoff) -> Attachment {
    let bridge = Bridge {
        name: "br0".parse().unwrap(),
        gateway: Gateway::Default,
        host_absent: model::Absence::default(),
        force_address: false,
        hairpin: false,
        promiscuous: false,
        port: model::BridgePort::default(),
    };
    let link = Link { kind: LinkKind::Bridge(bridge), name: None, mac: None, mtu: None };
    let address = "10.88.0.2/24".parse().unwrap();
    Attachment {
        sandbox: Some(sandbox),
        handoff,
        wiring: Wiring {
            link: Some(link),
            masquerade: Some(Masquerade::new(Backend::Nftables)),
            ..Wiring::default()
        },
        addresses: vec![InterfaceAddress { address, gateway: None, interface: None }],
        ..Attachment::new(
            AttachmentId {
                network: "front".parse().unwrap(),
                container: "one".parse().unwrap(),
                ifname: "eth0".parse().unwrap(),
            },
            Layer::Link,
            Runtime::Docker,
            Timestamp(0),
            Phase::Reserved,
        )
    }
}

fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1000.0
}

fn main() {
    unshare();
    let container = std::thread::spawn(|| {
        unshare();
        Netns::current().unwrap()
    });
    let container = container.join().unwrap();
    let fd = std::os::fd::AsRawFd::as_raw_fd(&std::os::fd::AsFd::as_fd(&container));
    let path = PathBuf::from(format!("/proc/self/fd/{fd}"));
    for handoff in [Handoff::Finish, Handoff::Caller] {
        let linux = Linux::new(Life::Long);
        let one = attachment(Sandbox { path: path.clone(), inode: container.inode() }, handoff);
        let (mut made, mut undone) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            made.push(timed(|| drop(linux.attach(&one).unwrap())));
            undone.push(timed(|| linux.detach(&one).unwrap()));
        }
        let (made, undone) = (median(made), median(undone));
        println!("{handoff:?}: attach {made:.2} ms, detach {undone:.2} ms");
    }
}
