//! Two hundred hosts with fifty containers each: a real etcd and a real daemon among hosts that are threads of
//! this process. These do with etcd what a daemon does, by the same code, and have no data plane.

mod crowd;

use std::time::{Duration, Instant};

use model::{Error, Result};
use netlink::Netns;
use tests::{Etcd, Plugins, Serve, World};

use crate::args::Args;
use crate::docker::line::{remark, say};
use crate::samples::Figure;
use crowd::Crowd;

/// Addresses of each host, besides its bridge's.
pub(super) const CONTAINERS: usize = 50;
/// Where etcd answers.
const SERVER: &str = "192.0.2.100";
/// Ours, in a world.
const SPOKE: &str = "/opt/cni/bin/spoke";
/// The simulated hosts.
pub(super) const SIMULATED: &str = "a host's code";
/// The real one.
pub(super) const DAEMON: &str = "the daemon";
const ETCD: &str = "etcd";

/// What is measured.
pub(super) const RESYNC: &str = "reads everything again";
pub(super) const EQUAL: &str = "start to equal entries";
/// The same on a machine that does something else, too.
pub(super) const RESYNC_ETCD: &str = "processor of reading everything";
pub(super) const EQUAL_WORK: &str = "processor from start to equal entries";
pub(super) const MEMORY: &str = "resident";
pub(super) const WORK: &str = "processor of a change elsewhere";
pub(super) const SPREAD: &str = "a change to all hosts";
pub(super) const SPREAD_WORST: &str = "a change to all hosts, p99";
pub(super) const DELIVERY: &str = "processor of a delivery";
pub(super) const WRITES: &str = "writes of an attach";
pub(super) const STORED: &str = "on disk for a record";
pub(super) const RENEWAL: &str = "processor of a renewal";

/// The case of so many hosts.
pub(super) fn name(hosts: usize) -> String {
    format!("{hosts} hosts x {CONTAINERS} containers")
}

/// As many as there are simulated at a time.
pub(super) fn levels(quick: bool) -> &'static [usize] {
    if quick { &[10, 20] } else { &[25, 50, 100, 200] }
}

/// Measures.
pub(crate) fn run(args: &Args) -> Result<()> {
    let lab = World::new(&Plugins::subject());
    lab.sh(&format!(
        "ip link add seg0 address 02:00:00:00:00:64 type bridge
         ip address add {SERVER}/16 dev seg0; ip link set seg0 up"
    ));
    // The world ends after what is in it.
    let _etcd = Etcd::start(&lab, SERVER);
    let mut real = Real::new(&lab)?;
    let segment = Netns::open(format!("/proc/{}/ns/net", lab.pid()).as_ref())?;
    let url = format!("http://{SERVER}:2379");
    let mut crowd = segment.enter(|| Crowd::new(&url))??;
    for level in levels(args.quick) {
        remark(format!("scale: {level} hosts"))?;
        segment.enter(|| crowd.grow(*level))??;
        measure(&segment, &lab, &crowd, (&mut real, *level), args)?;
    }
    Ok(())
}

fn measure(
    segment: &Netns,
    lab: &World,
    crowd: &Crowd,
    (real, level): (&mut Real, usize),
    args: &Args,
) -> Result<()> {
    let case = name(level);
    let place = |verb, who, unit| Figure { case: &case, verb, who, unit };
    let (before, rounds) = (processor(lab, "etcd")?, args.either(3, 5));
    for round in 0..rounds {
        let took = segment.enter(|| crowd.resync(round))??;
        say(place(RESYNC, SIMULATED, "ms"), round, Ok(took))?;
    }
    let read = (processor(lab, "etcd")? - before) * 1e3 / rounds as f64;
    say(place(RESYNC_ETCD, ETCD, "ms"), 0, Ok(read))?;
    for round in 0..args.either(1, 3) {
        real.restart();
        let took = real.until_equal(level * (CONTAINERS + 1))?;
        say(place(EQUAL, DAEMON, "ms"), round, Ok(took))?;
        say(place(EQUAL_WORK, DAEMON, "ms"), round, real.processor().map(|it| it * 1e3))?;
        say(place(MEMORY, DAEMON, "KiB"), round, real.resident())?;
    }
    let (before, work) = (processor(lab, "etcd")?, real.processor()?);
    let spread = segment.enter(|| crowd.spread(args.either(10, 40)))??;
    let changes = spread.took.len() as f64;
    let deliveries = changes * level as f64;
    let etcd = (processor(lab, "etcd")? - before) * 1e6;
    say(place(DELIVERY, ETCD, "µs"), 0, Ok(etcd / deliveries))?;
    say(place(WORK, DAEMON, "ms"), 0, Ok((real.processor()? - work) * 1e3 / changes))?;
    say(place(WRITES, SIMULATED, ""), 0, Ok(spread.writes / changes))?;
    for (round, took) in spread.took.iter().enumerate() {
        say(place(SPREAD, ETCD, "ms"), round, Ok(*took))?;
    }
    let mut sorted = spread.took;
    sorted.sort_by(f64::total_cmp);
    let worst = sorted.get((sorted.len() * 99 / 100).min(sorted.len() - 1));
    say(place(SPREAD_WORST, ETCD, "ms"), 0, Ok(worst.copied().unwrap_or_default()))?;
    let before = processor(lab, "etcd")?;
    let renewals = segment.enter(|| crowd.renew())??;
    let took = (processor(lab, "etcd")? - before) * 1e6 / renewals as f64;
    say(place(RENEWAL, ETCD, "µs"), 0, Ok(took))?;
    let stored = stored(lab)? / crowd.records(level) as f64;
    say(place(STORED, ETCD, "byte"), 0, Ok(stored))
}

/// The size of etcd's file that is in use, in bytes, after its history is gone.
fn stored(lab: &World) -> Result<f64> {
    let said = lab.sh(&format!(
        "export ETCDCTL_API=3; ctl='etcdctl --endpoints http://{SERVER}:2379'
         revision=$($ctl get --limit 1 --prefix / -w json | grep -o '\"revision\":[0-9]*' | cut -d : -f 2)
         $ctl compact --physical $revision >/dev/null; $ctl defrag >/dev/null
         $ctl endpoint status -w json | grep -o '\"dbSize\":[0-9]*' | cut -d : -f 2"
    ));
    said.trim().parse().map_err(|_| Error::invalid(format!("{said:?} is no size")))
}

/// Seconds of processor time of the only program of this name in a world.
fn processor(world: &World, name: &str) -> Result<f64> {
    let ticks = world.sh(&format!("awk '{{print $14 + $15}}' /proc/$(pidof {name})/stat"));
    let ticks: f64 = ticks.trim().parse().map_err(|_| Error::invalid("no processor time"))?;
    // USER_HZ.
    Ok(ticks / 100.0)
}

/// A host with a daemon and a kernel.
struct Real {
    serve: Option<Serve>,
    world: World,
    begin: Instant,
}

impl Real {
    fn new(lab: &World) -> Result<Self> {
        let world = World::new(&Plugins::subject());
        let (here, there) = (lab.pid().to_string(), world.pid().to_string());
        let wired = std::process::Command::new("nsenter")
            .args(["-t", &here, "-n", "ip", "link", "add", "to-real", "type", "veth", "peer"])
            .args(["name", "eth0", "netns", &there])
            .status();
        if !wired.is_ok_and(|status| status.success()) {
            return Err(Error::not_found("a wire to the real host"));
        }
        lab.sh("ip link set to-real master seg0 up");
        world.sh("ip address add 192.0.2.1/16 dev eth0; ip link set eth0 up; mkdir -p /etc/spoke
            : >/etc/spoke/config.toml
            sysctl -q -w net.ipv4.neigh.default.gc_thresh3=65536 || true");
        let mut real = Self { serve: None, world, begin: Instant::now() };
        real.restart();
        real.world.sh(&format!(
            "timeout 60 sh -c 'while {SPOKE} host ls 2>&1 | grep -q \"is not running\"; do sleep 0.05; done'
             {SPOKE} host init --name real --etcd http://{SERVER}:2379
             {SPOKE} network create --hosts all --subnet 10.64.0.0/12 --block 24 front"
        ));
        Ok(real)
    }

    fn restart(&mut self) {
        if let Some(serve) = self.serve.take() {
            serve.kill();
        }
        self.begin = Instant::now();
        // What the kernel has is to be made anew.
        self.world.sh("for it in $(ls /sys/class/net | grep spokevx); do ip link del $it; done
            [ ! -e /sys/class/net/sp-front ] || ip neigh flush dev sp-front nud permanent");
        self.serve = Some(Serve::start(&self.world, &[]));
    }

    /// From the start until the kernel has so many neighbours, in milliseconds.
    fn until_equal(&self, count: usize) -> Result<f64> {
        let pid = self.world.pid().to_string();
        let script = "ip -4 neigh show dev sp-front nud permanent | wc -l";
        let deadline = Instant::now() + Duration::from_secs(120);
        while Instant::now() < deadline {
            let said = std::process::Command::new("nsenter")
                .args(["-t", &pid, "-n", "sh", "-c", script])
                .output()
                .map_err(|cause| Error::os("counting neighbours", cause))?;
            if String::from_utf8_lossy(&said.stdout).trim() == count.to_string() {
                return Ok(self.begin.elapsed().as_secs_f64() * 1e3);
            }
        }
        Err(Error::try_again(format!("the kernel never has {count} neighbours")))
    }

    fn pid(&self) -> Result<i32> {
        let pid = self.serve.as_ref().and_then(Serve::pid);
        pid.map(|pid| pid.as_raw_nonzero().get()).ok_or_else(|| Error::not_found("no daemon"))
    }

    /// KiB.
    fn resident(&self) -> Result<f64> {
        let path = format!("/proc/{}/status", self.pid()?);
        let said = std::fs::read_to_string(path).map_err(|cause| Error::os("reading", cause))?;
        let line = said.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        number.ok_or_else(|| Error::invalid("no size"))
    }

    fn processor(&self) -> Result<f64> {
        let path = format!("/proc/{}/stat", self.pid()?);
        let said = std::fs::read_to_string(path).map_err(|cause| Error::os("reading", cause))?;
        let behind = said.rsplit(')').next().unwrap_or_default();
        let ticks =
            behind.split_whitespace().skip(11).take(2).filter_map(|it| it.parse::<f64>().ok());
        Ok(ticks.sum::<f64>() / 100.0)
    }
}
