//! A thread in a world. What it starts needs no nsenter(1) and no shell, and what it reads itself needs no program: a
//! program takes longer to start than to look.

use std::fs::{self, File};
use std::io::Write;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use nix::sched::{CloneFlags, setns, unshare};

use crate::World;
use crate::world::PATH;

/// Where a world's network namespaces have their names.
const SPACES: &str = "/run/netns";

/// This thread, which is in a world.
#[derive(Debug)]
pub(crate) struct Within(());

/// What a thread in the network namespace of `world` sees.
#[track_caller]
pub(crate) fn within<T: Send>(world: &World, see: impl FnOnce(&Within) -> T + Send) -> T {
    let pid = world.pid();
    thread::scope(|threads| {
        let seen = threads.spawn(move || {
            enter(pid);
            see(&Within(()))
        });
        seen.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

fn enter(pid: u32) {
    let open =
        |kind: &str| File::open(format!("/proc/{pid}/ns/{kind}")).expect("the world is there");
    let [mounts, processes, network] = ["mnt", "pid", "net"].map(open);
    // A thread that shares root and working directory with others cannot go elsewhere.
    unshare(CloneFlags::CLONE_FS).expect("a root of its own (root needed)");
    setns(processes, CloneFlags::CLONE_NEWPID).expect("the world's processes");
    setns(network, CloneFlags::CLONE_NEWNET).expect("the world's network");
    setns(mounts, CloneFlags::CLONE_NEWNS).expect("the world's files");
}

impl Within {
    /// The names of the world's network namespaces.
    pub(crate) fn spaces(&self) -> Vec<String> {
        let files = fs::read_dir(SPACES).into_iter().flatten().flatten();
        files.map(|file| file.file_name().to_string_lossy().into_owned()).collect()
    }

    /// Goes into one of them; whether it is one.
    pub(crate) fn go(&self, space: &str) -> bool {
        let file = File::open(Path::new(SPACES).join(space));
        file.is_ok_and(|file| setns(file, CloneFlags::CLONE_NEWNET).is_ok())
    }

    /// Where a program is; none where this world has none.
    pub(crate) fn find(&self, program: &str) -> Option<PathBuf> {
        let places = PATH.split(':').map(|folder| Path::new(folder).join(program));
        places.into_iter().find(|place| place.exists())
    }

    /// What a program prints that reads `input`, whether it fails or not. It has to be there: two worlds of which nothing
    /// was said would look alike.
    pub(crate) fn said(&self, program: &str, arguments: &[&str], input: &str) -> String {
        let program = self.find(program).unwrap_or_else(|| panic!("there is no {program}"));
        let mut command = Command::new(program);
        command.args(arguments).env_clear().env("PATH", PATH).env("LC_ALL", "C.UTF-8");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the program starts");
        // A program need not read what it is given: a broken pipe is no failure.
        let _ = child.stdin.take().expect("piped").write_all(input.as_bytes());
        let done = child.wait_with_output().expect("the program ends");
        String::from_utf8_lossy(&done.stdout).into_owned()
    }
}
