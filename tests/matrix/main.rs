//! Every runtime on every back end: one test a cell, each with two containers that speak TCP.
//!
//! A network is made by `spoke network create`, and joined by the runtime's own means, by its name.
//! A cell looks at what its user would: addresses, the default route, an answer from far away, a
//! published port from there, the other container, a restart, a second network while the container
//! runs, and what is left afterwards. `cargo xtask matrix` writes what comes of it into the README.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod back;
mod cli;
mod cni;
mod docker;
mod kurma;
mod outside;
mod podman;

use back::Back;
use tests::World;

/// The two containers of a cell.
const NAMES: [&str; 2] = ["one", "two"];

/// The port of the host that leads to port 80 of the first one.
const PORT: u16 = 8080;

/// A bridge of ours, joined later.
const SIDE: &str = "10.78.0.0/24";

/// A script that says something to the client that connects first, and returns when one can.
fn listen(who: &str) -> String {
    format!(
        "(echo hello from {who} | nc -l -p 80) >/dev/null 2>&1 &
until grep -q ':0050 .* 0A ' /proc/net/tcp /proc/net/tcp6; do sleep 0.05; done"
    )
}

/// A runtime with both containers on the network.
trait Runtime {
    /// Its host.
    fn world(&self) -> &World;

    /// What a shell script in a container prints; busybox has it.
    fn inside(&self, name: &str, script: &str) -> String;

    /// What the program lists of the containers.
    fn listed(&self) -> String {
        self.world().sh("/opt/cni/bin/spoke ps")
    }

    /// What it has no call for, as the table says it.
    fn lacks(&self) -> &'static [Lack] {
        &[]
    }

    /// Ends a container and starts it anew, under its name.
    fn restart(&mut self, name: &str);

    /// Makes the network `side` the runtime's, and connects a container that runs.
    fn connect(&mut self, name: &str);

    /// The way back.
    fn disconnect(&mut self, name: &str);

    /// Removes the containers and its own notion of the network.
    fn leave(&mut self);
}

/// What a runtime's protocol has no call for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lack {
    Ports,
    SecondNetwork,
}

/// All that a cell promises. `row` is as the README's table says.
#[track_caller]
fn speak(runtime: &mut dyn Runtime, back: &Back, row: &str) {
    let has = |runtime: &dyn Runtime, what| !runtime.lacks().contains(&what);
    outside::set_up(runtime.world());
    back.route(runtime.world());
    works(runtime, back);
    runtime.restart("one");
    works(runtime, back);
    if has(runtime, Lack::SecondNetwork) {
        runtime.world().sh(&format!("/opt/cni/bin/spoke network create --subnet {SIDE} side"));
        runtime.connect("one");
        let shown = runtime.inside("one", "ip -4 -o addr");
        assert!(shown.contains(" 10.78.0."), "{shown}");
        works(runtime, back);
        runtime.disconnect("one");
        let shown = runtime.inside("one", "ip -4 -o addr");
        assert!(!shown.contains(" 10.78.0."), "{shown}");
        works(runtime, back);
        runtime.world().sh("/opt/cni/bin/spoke network rm side");
    }
    back.unroute(runtime.world());
    outside::tear_down(runtime.world());
    runtime.leave();
    back.leaves_nothing(runtime.world());
    println!("cell: {row} | {} | {}", back.column(), back.how());
}

/// That both containers have what they need, reach each other and another host, and are reached.
#[track_caller]
fn works(runtime: &dyn Runtime, back: &Back) {
    let addresses = NAMES.map(|name| address(runtime, name));
    let listed = runtime.listed();
    for address in &addresses {
        assert!(listed.contains(&format!("{address}/")), "{address}:\n{listed}");
    }
    back.knows(&addresses);
    let [first, second] = &addresses;
    runtime.inside("two", &listen("two"));
    let heard = runtime.inside("one", &format!("nc -w 5 {second} 80 </dev/null"));
    assert_eq!(heard.trim(), "hello from two", "{first} to {second}");
    for name in NAMES {
        let route = runtime.inside(name, &format!("ip -4 route get {}", outside::FAR));
        let wanted = format!("{} via {} dev eth0 ", outside::FAR, back.gateway());
        assert!(route.starts_with(&wanted), "{name}: {route}");
        outside::answers(runtime.world(), |script| runtime.inside(name, script));
    }
    if runtime.lacks().contains(&Lack::Ports) {
        return;
    }
    runtime.inside("one", &listen("one"));
    let heard = match back.is_routed() {
        true => outside::asks(runtime.world(), first, 80),
        false => outside::asks_host(runtime.world(), PORT),
    };
    assert_eq!(heard, "hello from one", "from another host");
}

#[track_caller]
fn address(runtime: &dyn Runtime, name: &str) -> String {
    let shown = runtime.inside(name, "ip -4 -o addr show dev eth0");
    let net = shown.split_whitespace().nth(3).unwrap_or_else(|| panic!("{name}: {shown}"));
    net.split('/').next().unwrap().to_owned()
}
