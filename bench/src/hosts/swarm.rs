//! Docker Swarm's overlay between the same two hosts.

use std::net::Ipv4Addr;

use model::{Error, Kind, Result};
use netlink::Netns;
use serde_json::json;
use tests::Engine;

use super::bed::{Bed, Host};

/// Swarm's network; its own port of UDP, as ours has the usual one.
pub(super) const NETWORK: &str = "swarm";
const PORT: u16 = 7789;

/// The two engines as a swarm, with a container on each that has Swarm's network.
pub(super) struct Swarm {
    pub(super) a: Netns,
    pub(super) b: Netns,
    /// Of the container on `b`.
    pub(super) address: Ipv4Addr,
}

impl Swarm {
    /// Fails with what an engine says where it cannot do it on this kernel.
    pub(super) fn new(bed: &Bed) -> Result<Self> {
        let [a, b] = bed.hosts();
        docker(
            &a.engine,
            &format!("swarm init --advertise-addr {} --data-path-port {PORT}", a.address),
        )?;
        let token = docker(&a.engine, "swarm join-token -q worker")?;
        docker(
            &b.engine,
            &format!(
                "swarm join --advertise-addr {} --token {} {}:2377",
                b.address,
                token.trim(),
                a.address
            ),
        )?;
        docker(&a.engine, &format!("network create -d overlay --attachable {NETWORK}"))?;
        for host in [a, b] {
            docker(
                &host.engine,
                &format!("run -d --name resident --network {NETWORK} busybox /bin/sleep 3600"),
            )
            .map_err(|error| error.context("Swarm's overlay on this kernel"))?;
        }
        let address = address(b, "resident")?;
        Ok(Self { a: a.sandbox("resident")?, b: b.sandbox("resident")?, address })
    }
}

/// The address that a container has on Swarm's network.
fn address(host: &Host, container: &str) -> Result<Ipv4Addr> {
    let said = host.engine.get(&format!("/containers/{container}/json"));
    let address = said["NetworkSettings"]["Networks"][NETWORK]["IPAddress"].as_str();
    let address = address.and_then(|address| address.parse().ok());
    address.ok_or_else(|| Error::not_found(format!("{container} has no address of Swarm's")))
}

fn docker(engine: &Engine, words: &str) -> Result<String> {
    let done = engine.try_docker(words);
    match done.status {
        0 => Ok(done.stdout),
        _ => Err(Error::new(Kind::Kernel, format!("docker {words}: {}", done.stderr.trim()))),
    }
}

/// One call that has to succeed.
pub(super) fn post(engine: &Engine, target: &str, body: &serde_json::Value) -> Result<()> {
    let reply = engine.call("POST", target, body);
    match (200..300).contains(&reply.status) {
        true => Ok(()),
        false => Err(Error::new(
            Kind::Kernel,
            format!("POST {target}: {}: {}", reply.status, reply.text().trim()),
        )),
    }
}

/// A container that joins networks later: on a network without a way out.
pub(super) fn lodger(host: &Host, name: &str) -> Result<Netns> {
    let inner = json!({ "Driver": "bridge", "Internal": true });
    if host.engine.call("GET", "/networks/inner", &json!(null)).status != 200 {
        host.engine.create_network("inner", inner);
    }
    host.engine.run(name, "inner", json!({}));
    host.sandbox(name)
}
