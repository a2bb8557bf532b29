//! Every runtime on every back end: one test a cell, each with two containers that speak TCP.
//!
//! A network is made by `spoke network create`, and joined by the runtime's own means, by its name.
//! `cargo xtask matrix` writes what comes of it into the README.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod back;
mod cli;
mod cni;
mod docker;
mod kurma;
mod podman;

use back::Back;
use tests::World;

/// The two containers of a cell.
const NAMES: [&str; 2] = ["one", "two"];

/// Says something to whoever connects first, and returns when somebody can.
const LISTEN: &str = "(echo hello from two | nc -l -p 80) >/dev/null 2>&1 &
until grep -q ':0050 .* 0A ' /proc/net/tcp /proc/net/tcp6; do :; done";

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

    /// Removes the containers and its own notion of the network.
    fn leave(&self);
}

/// That both containers speak to each other, each by the address that it has, and are listed with
/// it; and that nothing is left of them. `row` and `column` are as the README's table says.
fn speak(runtime: &dyn Runtime, back: &Back, row: &str) {
    let addresses = NAMES.map(|name| {
        let shown = runtime.inside(name, "ip -4 -o addr show dev eth0");
        let net = shown.split_whitespace().nth(3).unwrap_or_else(|| panic!("{name}: {shown}"));
        net.split('/').next().unwrap().to_owned()
    });
    let listed = runtime.listed();
    for address in &addresses {
        assert!(listed.contains(&format!("{address}/")), "{address}:\n{listed}");
    }
    back.knows(&addresses);
    let [first, second] = &addresses;
    runtime.inside("two", LISTEN);
    let heard = runtime.inside("one", &format!("nc -w 5 {second} 80 </dev/null"));
    assert_eq!(heard.trim(), "hello from two", "{first} to {second}");
    runtime.leave();
    back.leaves_nothing(runtime.world());
    println!("cell: {row} | {} | {}", back.column(), back.how());
}
