//! Spoke is killed at any moment of a container's life, and in the middle of Docker's calls.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tests::{Held, Release, Serve};

use crate::bed::Bed;

const RUNS: u64 = 30;
const KILLS: u64 = 12;

/// About as long as a container lives here.
const LIFE: u64 = 500;

/// A call may have come whose body the daemon had not read: it is unknown then. And of two calls of one
/// method that were lost within the 20 s in which an engine repeats them, one may have been answered
/// without the daemon's noting that: then a repetition may be of either, and is refused. Both are rare.
const UNDECIDED: u64 = 2;
/// What the user reads of that.
const UNREAD: &str = "try again: spoke serve was restarted while it worked on this call";

/// Docker makes about so many calls for it.
const CALLS: u64 = 7;

/// When the daemon is killed.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// So long after the start of a container.
    After(Duration),
    /// While it works on a container's call, so many calls after the first.
    Inside(u64),
}

/// The moments that a seed stands for (Steele, Lea, Flood: SplitMix).
struct Moments(u64);

impl Moments {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % below
    }

    /// Half of them are inside calls.
    fn moment(&mut self, kill: u64) -> Moment {
        match kill.is_multiple_of(2) {
            true => Moment::Inside(self.next(CALLS)),
            false => Moment::After(Duration::from_millis(self.next(LIFE))),
        }
    }
}

/// Kills the daemon at its moment, or when the container is `over`.
fn strike(held: &Held, calls: &Path, moment: Moment, over: &AtomicBool) {
    let daemon = loop {
        match held.pid() {
            Some(daemon) => break daemon,
            None => thread::yield_now(),
        }
    };
    match moment {
        Moment::After(time) => thread::sleep(time),
        Moment::Inside(call) => stop_inside(daemon, calls, call, over),
    }
    kill_process(daemon, Signal::KILL).expect("it runs");
}

/// Stops the daemon while it works on a call after so many others.
fn stop_inside(daemon: Pid, calls: &Path, mut call: u64, over: &AtomicBool) {
    let (mut was_busy, mut slots) = (false, Vec::new());
    while !over.load(Ordering::Relaxed) {
        if slots.is_empty() {
            slots = open(calls);
        }
        let busy = slots.iter().any(is_busy);
        if busy && !was_busy {
            if call == 0 && is_stopped_inside(daemon, &slots) {
                return;
            }
            call = call.saturating_sub(1);
        }
        was_busy = busy;
    }
}

/// Stops the daemon; it goes on where it is not at work on a call any more by then.
fn is_stopped_inside(daemon: Pid, slots: &[File]) -> bool {
    kill_process(daemon, Signal::STOP).expect("it runs");
    while !is_stopped(daemon) {
        thread::yield_now();
    }
    let is_inside = slots.iter().any(is_busy);
    if !is_inside {
        kill_process(daemon, Signal::CONT).expect("it is stopped");
    }
    is_inside
}

/// Whether no thread of the process runs.
fn is_stopped(daemon: Pid) -> bool {
    let tasks = format!("/proc/{}/task", daemon.as_raw_nonzero());
    let tasks = fs::read_dir(tasks).expect("it runs").filter_map(Result::ok);
    tasks.map(|task| fs::read_to_string(task.path().join("stat"))).all(|stat| {
        // The state follows the name, which is in brackets. A thread that has ended has none.
        stat.map_or(true, |stat| stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" T")))
    })
}

fn open(calls: &Path) -> Vec<File> {
    let slots = (0..4).map(|slot| File::open(calls.join(slot.to_string())));
    slots.map_while(Result::ok).collect()
}

/// Whether the daemon works on the call of a slot. One whose body is not read yet has the length zero
/// at the end of its slot's head: no thread works on it, and it is unknown afterwards. One that an
/// earlier life lost has the time of that in the middle.
fn is_busy(slot: &File) -> bool {
    let mut head = [0; 32];
    let is_whole = slot.read_at(&mut head, 0).is_ok_and(|read| read == head.len());
    is_whole && head[0] != 0 && head[16..24] == [0; 8] && head[28..] != [0; 4]
}

#[track_caller]
fn killed(release: Release, seed: u64) {
    let Some(mut bed) = Bed::new(release) else { return };
    bed.network("--subnet 10.84.0.0/24 front");
    bed.run("--name stays --network front");
    bed.serve.stop();
    let held = Held::start(bed.engine.world(), &[]);
    assert_eq!(held.call("Plugin.Activate", "").expect("an answer").status, 200);
    let calls: PathBuf = bed.engine.world().path("/run/spoke/calls");
    let mut moments = Moments(seed);
    let (mut killed, mut undecided) = (0, 0);
    for run in 0..RUNS {
        let moment = ((run + 1) * KILLS / RUNS > killed).then(|| moments.moment(killed));
        killed += u64::from(moment.is_some());
        let over = AtomicBool::new(false);
        let ran = thread::scope(|scope| {
            if let Some(moment) = moment {
                let (held, calls, over) = (&held, &calls, &over);
                scope.spawn(move || strike(held, calls, moment, over));
            }
            let run = "run --rm --network front busybox ping -c 1 -W 3 10.84.0.1";
            let ran = bed.engine.try_docker(run);
            over.store(true, Ordering::Relaxed);
            ran
        });
        let said = &ran.stderr;
        if moment.is_some() && said.contains(UNREAD) {
            undecided += 1;
            continue;
        }
        assert_eq!(ran.status, 0, "seed {seed}, run {run}, {moment:?}: {said}\n{}", held.log());
    }
    assert_eq!(killed, KILLS);
    assert!(undecided <= UNDECIDED, "{undecided} of {KILLS} kills met a call that is unknown");
    drop(held);
    bed.serve = Serve::start(bed.engine.world(), &[]);
    let endpoints = bed.engine.get("/networks/front")["Containers"].clone();
    assert_eq!(endpoints.as_object().map(serde_json::Map::len), Some(1), "{endpoints}");
    bed.engine.ping("stays", "10.84.0.1");
    bed.remove("stays");
    bed.docker("network rm front");
    bed.is_clean();
}

#[test]
fn killed_at_any_moment_20_10() {
    killed(Release::V20_10, 1);
}

#[test]
fn killed_at_any_moment_26_1() {
    killed(Release::V26_1, 2);
}

#[test]
fn killed_at_any_moment_28_5() {
    killed(Release::V28_5, 3);
}
