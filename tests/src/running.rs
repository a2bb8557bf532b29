//! A plugin that is watched while it works.

use std::fs;
use std::io::Write;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::world::finished;
use crate::{Answer, Cni};

/// More than anything takes: only a hanging test waits that long.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A plugin that has been started and not been waited for.
#[derive(Debug)]
pub struct Running {
    child: Child,
}

impl Running {
    /// Starts one plugin, as the argument of `over`.
    #[track_caller]
    pub fn start(cni: &Cni<'_>, over: &[&str], plugin: &str, verb: &str, stdin: &str) -> Self {
        let mut command = cni.command(over, plugin, verb);
        let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = pipes.spawn().expect("it starts");
        let mut input = child.stdin.take().expect("piped");
        input.write_all(stdin.as_bytes()).expect("a pipe takes as much");
        Self { child }
    }

    /// Waits until `is` says so of the plugin, whose number it gives back; `None` if the plugin
    /// has ended before.
    #[track_caller]
    pub fn when(&mut self, is: impl Fn(i32) -> bool) -> Option<i32> {
        let deadline = Instant::now() + TIMEOUT;
        while self.child.try_wait().expect("our child").is_none() {
            let pid = below(self.child.id());
            if let Some(pid) = pid.filter(|pid| is(*pid)) {
                return Some(pid);
            }
            assert!(Instant::now() < deadline, "neither ended nor came to where it was to come");
            std::thread::yield_now();
        }
        None
    }

    /// Waits for the end.
    pub fn end(self) -> Answer {
        Answer { output: finished(self.child.wait_with_output().expect("it ends")) }
    }
}

/// The first descendant that is neither `nsenter` nor `strace`.
fn below(pid: u32) -> Option<i32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    children.split_whitespace().find_map(|child| {
        let name = fs::read_to_string(format!("/proc/{child}/comm")).ok()?;
        match name.trim() {
            "nsenter" | "strace" => below(child.parse().ok()?),
            _ => child.parse().ok(),
        }
    })
}
