//! Ports connected to a real Open vSwitch and to Linux bridges, each test in namespaces of its own that
//! end with its threads.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bed;
mod bridges;
mod database;
mod switch;

use model::{Mac, ResourceId, Vif};
use neutron::config::Plugging;
use neutron::plug::SwitchPort;

/// Neutron's ports of the tests, and their network.
const PORTS: [&str; 2] =
    ["31b4f5a6-1c2d-4e3f-8a9b-0c1d2e3f4a5b", "92cd0e77-41aa-4b0b-9c0c-d5e6f7081920"];
const NETWORK: &str = "0f2c8d5e-6a1b-4c3d-9e8f-7a6b5c4d3e2f";

fn id(text: &str) -> ResourceId {
    text.parse().unwrap()
}

fn mac(last: u8) -> Mac {
    Mac::new([0xfa, 0x16, 0x3e, 0, 0, last])
}

fn plugging(ovsdb: String) -> Plugging {
    Plugging { ovsdb, ..Plugging::usual().unwrap() }
}

/// One of [`PORTS`], connected so.
fn switch_port<'a>(vif: &'a Vif, port: &'a ResourceId, network: &'a ResourceId) -> SwitchPort<'a> {
    SwitchPort { vif, port, network, mac: mac(2), device: "d3v1c3", project: "" }
}
