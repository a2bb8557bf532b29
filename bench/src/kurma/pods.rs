//! Whole pods.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use model::{Error, Result};
use serde_json::json;

use super::call::timed;
use super::runc::Runc;
use super::{OURS, RUNC, configure, sh, spoke, uuid};
use crate::args::Args;
use crate::docker::line::{remark, say};
use crate::samples::Figure;

/// The cases.
pub(super) const POD: &str = "a pod on a bridge";
pub(super) const CROWD: &str = "pods, 16 at once";
/// What is done, or counted.
pub(super) const ADD: &str = "add";
pub(super) const DEL: &str = "del";
pub(super) const FAILED: &str = "failed";
pub(super) const LEFT: &str = "left behind";
pub(super) const RATE: &str = "add per second";

/// How many at once.
const LANES: usize = 16;
const DIR: &str = "/run/bench-pods";
/// The reference plugin's network.
const THEIRS: &str = r#"{"cniVersion": "0.2.0", "name": "theirs", "type": "bridge", "bridge": "theirs0",
  "isGateway": true, "ipam": {"type": "host-local", "subnet": "10.71.0.0/16", "routes": [{"dst": "0.0.0.0/0"}]}}"#;

/// Measures.
pub(super) fn run(args: &Args) -> Result<()> {
    remark("kurma: pods")?;
    spoke(&["build-image", "--aci", "/images/spoke.aci"])?;
    configure(&json!([{"name": "ours", "aci": "file:///images/spoke.aci", "default": true,
        "privileged": true, "containerInterface": "eth0", "type": "bridge", "bridge": "ours0", "isGateway": true,
        "ipam": {"type": "host-local", "subnet": "10.72.0.0/16", "routes": [{"dst": "0.0.0.0/0"}]}}]))?;
    spoke(&["up"])?;
    one(args)?;
    many(args)?;
    spoke(&["down"]).map(drop)
}

fn one(args: &Args) -> Result<()> {
    sh(&format!("mkdir -p {DIR} && tar -xzf /images/cni.aci -C {DIR}"))?;
    let rootfs = Path::new(DIR).join("rootfs");
    crate::world::write(&rootfs.join("theirs.json"), THEIRS)?;
    let runc = Runc::start("bench-pods", &rootfs)?;
    let theirs = |verb: &str| {
        let environment = format!(
            "CNI_COMMAND={verb} CNI_CONTAINERID=c1 CNI_NETNS=/run/netns/c1 CNI_IFNAME=eth0 \
             CNI_PATH=/usr/bin"
        );
        runc.exec(&["/bin/sh", "-c", "exec /usr/bin/bridge </theirs.json"], &environment)
    };
    let add =
        || sh("ip netns add c1; ip -n c1 link set lo up").and_then(|_| theirs("ADD")).map(drop);
    let del = || theirs("DEL").and_then(|_| sh("ip netns del c1")).map(drop);
    let pod = uuid(1);
    for round in 0..2 + args.rounds {
        let measured = [
            (RUNC, ADD, timed(add)),
            (RUNC, DEL, timed(del)),
            (OURS, ADD, timed(|| spoke(&["provision", &pod]).map(drop))),
            (OURS, DEL, timed(|| spoke(&["deprovision", &pod]).map(drop))),
        ];
        let Some(round) = round.checked_sub(2) else { continue };
        for (who, verb, took) in measured {
            say(Figure { case: POD, verb, who, unit: "ms" }, round, took)?;
        }
    }
    Ok(())
}

fn many(args: &Args) -> Result<()> {
    let crowd = args.either(64, 200);
    for round in 0..args.either(1, 3) {
        let (failed, began) = (AtomicUsize::new(0), Instant::now());
        let each = |verb: &str| {
            let lane = |lane: usize| {
                for number in (lane..crowd).step_by(LANES) {
                    if let Err(error) = spoke(&[verb, &uuid(number)]) {
                        failed.fetch_add(1, Ordering::Relaxed);
                        let _ = remark(format!("{error}"));
                    }
                }
            };
            thread::scope(|scope| {
                for number in 0..LANES {
                    scope.spawn(move || lane(number));
                }
            });
        };
        each("provision");
        let rate = crowd as f64 / began.elapsed().as_secs_f64();
        each("deprovision");
        let left = sh("{ ip -o link show type veth; find /var/lib/kurma/netns -mindepth 1
            find /run/spoke/kurma/pods -name '*.json'; } | wc -l")?;
        let left = left.trim().parse().map_err(|_| Error::bug("no number of what is left"))?;
        let place = |verb, unit| Figure { case: CROWD, verb, who: OURS, unit };
        say(place(RATE, "1/s"), round, Ok(rate))?;
        say(place(FAILED, "calls"), round, Ok(failed.load(Ordering::Relaxed) as f64))?;
        say(place(LEFT, "things"), round, Ok(left))?;
    }
    Ok(())
}
