//! A call of a program that does nothing, in a container that runs.

use std::path::Path;
use std::time::{Duration, Instant};

use container::{Bounds, Capabilities, Devices, Ending, Engine, Process, Root, Spec};
use model::{Error, Result};

use super::runc::Runc;
use super::{OURS, RUNC, sh};
use crate::args::Args;
use crate::docker::line::{remark, say};
use crate::samples::Figure;

/// The case.
pub(super) const CALL: &str = "a call into a running plugin";
/// What is called.
pub(super) const NOTHING: &str = "/bin/true";

const DIR: &str = "/run/bench-call";
/// Those that do not count.
const WARMUP: usize = 3;

/// Measures.
pub(super) fn run(args: &Args) -> Result<()> {
    remark("kurma: calls")?;
    sh(&format!("mkdir -p {DIR}/rootfs && tar -xzf /images/large.aci -C {DIR} rootfs/bin"))?;
    let rootfs = Path::new(DIR).join("rootfs");
    let runc = Runc::start("bench-call", &rootfs)?;
    let upper = Path::new(DIR).join("upper");
    let root = Root::Layers { lowers: vec![rootfs], upper, room: None };
    let spec = Spec {
        name: "call".parse()?,
        root,
        read_only: false,
        mounts: Vec::new(),
        process: Some(Process::new(["/bin/sleep", "2147483647"])),
        capabilities: Capabilities::All,
        no_new_privileges: true,
        devices: Devices::Minimal,
        cgroup: None,
        limits: None,
    };
    let ours = Engine::Native.start(&Path::new(DIR).join("ours"), &spec, b"")?;
    let bounds = Bounds { limit: Duration::from_secs(10), stdout: 4096, stderr: 4096 };
    let place = |who| Figure { case: CALL, verb: NOTHING, who, unit: "ms" };
    for round in 0..WARMUP + args.either(40, 200) {
        let theirs = timed(|| runc.exec(&[NOTHING], "").map(drop));
        let call = || match ours.exec(&Process::new([NOTHING]), b"", &bounds)?.status {
            Ending::Exited(0) => Ok(()),
            other => Err(Error::bug(format!("{NOTHING} ended with {other:?}"))),
        };
        let own = timed(call);
        if let Some(round) = round.checked_sub(WARMUP) {
            say(place(RUNC), round, theirs)?;
            say(place(OURS), round, own)?;
        }
    }
    ours.stop(Duration::from_secs(1))
}

/// Milliseconds.
pub(super) fn timed(work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let began = Instant::now();
    work()?;
    Ok(began.elapsed().as_secs_f64() * 1e3)
}
