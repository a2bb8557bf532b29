//! What an attachment costs the kernel: makes and reaps veths between two new namespaces.
//!
//! `cargo run --release -p netlink --example measure -- [ROUNDS] [make|reap|delete]`; counted
//! with `strace -f -c` where one round is enough.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::env;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use model::{IfName, IpNet, Mac};
use netlink::wire::Batch;
use netlink::{At, Change, Existing, Netns, NewAddress, NewBridge, Peer, Route, Socket, Veth};
use rustix::thread::{UnshareFlags, unshare_unsafe};

fn main() -> model::Result<()> {
    let mut arguments = env::args().skip(1);
    let rounds = arguments.next().map_or(200, |text| text.parse().unwrap());
    let mode = arguments.next().unwrap_or_else(|| "reap".to_owned());
    let container = std::thread::spawn(new_namespace).join().unwrap()?;
    let _host = new_namespace()?;
    let bridge = make_bridge()?;
    let (mut made, mut gone) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        made.push(timed(|| attach(&container, bridge))?);
        match mode.as_str() {
            "make" => {}
            "delete" => gone.push(timed(delete)?),
            _ => gone.push(timed(|| netlink::reap(&["vethmeasure".parse()?], None))?),
        }
    }
    println!("{rounds} rounds, median and 99th percentile in microseconds");
    report("attach (link, lo, address, route)", &mut made);
    report(&mode, &mut gone);
    Ok(())
}

#[allow(unsafe_code)]
fn new_namespace() -> model::Result<Netns> {
    // SAFETY: a new network namespace for this thread leaves memory and descriptors alone.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.unwrap();
    Netns::current()
}

fn make_bridge() -> model::Result<u32> {
    let name: IfName = "br0".parse()?;
    let mut socket = Socket::route()?;
    let mut batch = Batch::new();
    let new = NewBridge { name: &name, mac: None, mtu: None, vlan_filtering: false, up: true };
    batch.new_bridge(&new);
    socket.send(&mut batch)?.into_result()?;
    Ok(socket.link(At::Name(&name))?.unwrap().index)
}

fn attach(container: &Netns, bridge: u32) -> model::Result<()> {
    let (host, inner): (IfName, IfName) = ("vethmeasure".parse()?, "eth0".parse()?);
    let mut batch = Batch::new();
    batch.new_veth(&Veth {
        name: &host,
        index: Some(1000),
        mac: None,
        mtu: None,
        master: Some(bridge),
        group: None,
        up: true,
        peer: Peer {
            name: &inner,
            index: Some(2),
            mac: Some(Mac::local([1, 2, 3, 4, 5, 6])),
            netns: Some(container.as_fd()),
        },
    });
    batch.change_link(At::Index(1000), &[Change::NoIpv6Addresses]);
    Socket::route()?.send(&mut batch)?.into_result()?;

    let address: IpNet = "10.1.0.2/24".parse().unwrap();
    let mut batch = Batch::new();
    batch.change_link(At::Index(1), &[Change::Up(true)]);
    batch.change_link(At::Index(2), &[Change::Up(true)]);
    batch.add_address(&NewAddress::new(2, address));
    let gateway = Some("10.1.0.1".parse().unwrap());
    batch.add_route(&Route::new("0.0.0.0/0".parse().unwrap(), gateway, Some(2)), Existing::Refuse);
    container.enter(Socket::route)??.send(&mut batch)?.into_result()
}

fn delete() -> model::Result<()> {
    let name: IfName = "vethmeasure".parse()?;
    let mut batch = Batch::new();
    batch.delete_link(At::Name(&name));
    Socket::route()?.send(&mut batch)?.into_result()
}

fn timed(work: impl FnOnce() -> model::Result<()>) -> model::Result<Duration> {
    let begin = Instant::now();
    work()?;
    Ok(begin.elapsed())
}

fn report(what: &str, times: &mut [Duration]) {
    times.sort_unstable();
    let Some(last) = times.len().checked_sub(1) else { return };
    let (median, late) = (times[last / 2], times[last * 99 / 100]);
    println!("{what}: {} {}", median.as_micros(), late.as_micros());
}
