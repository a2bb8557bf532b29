//! Against the kernel, each test in namespaces of its own that end with its threads.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod host;
mod layer3;
mod link;
mod monitor;
mod packet;

use std::net::IpAddr;
use std::thread;

use model::{IfName, IpNet};
use netlink::wire::Batch;
use netlink::{At, Link, Netns, Peer, Socket, Veth};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Runs `test` on a thread in a new namespace, which ends with it.
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

/// Another new namespace.
fn elsewhere() -> Netns {
    thread::spawn(|| {
        unshare();
        Netns::current().unwrap()
    })
    .join()
    .unwrap()
}

fn name(text: &str) -> IfName {
    text.parse().unwrap()
}

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn find(socket: &mut Socket, link: &str) -> Option<Link> {
    socket.link(At::Name(&name(link))).unwrap()
}

fn simple<'a>(link: &'a IfName, peer: &'a IfName) -> Veth<'a> {
    Veth {
        name: link,
        index: None,
        mac: None,
        mtu: None,
        master: None,
        group: None,
        up: true,
        peer: Peer { name: peer, index: None, mac: None, netns: None },
    }
}

fn make_pair(socket: &mut Socket, link: &str, peer: &str) {
    let mut batch = Batch::new();
    batch.new_veth(&simple(&name(link), &name(peer)));
    socket.send(&mut batch).unwrap().into_result().unwrap();
}
