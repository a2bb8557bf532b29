//! A container with nothing but busybox in it.
#![allow(dead_code, unreachable_pub)]

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use container::{
    Bounds, Capabilities, Devices, Ended, Ending, Engine, Mount, Process, Propagation, Root,
    Running, Spec,
};
use nix::mount::{MsFlags, mount};
use nix::unistd::{ForkResult, fork};
use tempfile::TempDir;

pub const BOUNDS: Bounds =
    Bounds { limit: Duration::from_secs(30), stdout: 1 << 20, stderr: 1 << 20 };

/// A rootfs, a directory for the engine, a volume; the container ends with it.
pub struct Lab {
    pub home: TempDir,
    pub engine: Engine,
}

impl Lab {
    pub fn new() -> Self {
        Self::with(Engine::Native)
    }

    pub fn with(engine: Engine) -> Self {
        let home = tempfile::Builder::new().prefix("spoke-container-").tempdir().unwrap();
        let bin = home.path().join("layer/bin");
        fs::create_dir_all(&bin).unwrap();
        fs::create_dir(home.path().join("volume")).unwrap();
        fs::copy("/usr/bin/busybox", bin.join("busybox")).expect("busybox-static is installed");
        let list = Command::new("/usr/bin/busybox").arg("--list").output().unwrap();
        for name in String::from_utf8(list.stdout).unwrap().lines() {
            if name != "busybox" {
                symlink("busybox", bin.join(name)).unwrap();
            }
        }
        Self { home, engine }
    }

    pub fn directory(&self) -> PathBuf {
        self.home.path().join("run")
    }

    pub fn volume(&self) -> PathBuf {
        self.home.path().join("volume")
    }

    /// With a main process that waits for a signal, and the volume at `/volume`.
    pub fn spec(&self) -> Spec {
        Spec {
            name: "test".parse().unwrap(),
            root: Root::Layers {
                lowers: vec![self.home.path().join("layer")],
                upper: self.home.path().join("upper"),
                room: None,
            },
            read_only: false,
            mounts: vec![Mount::Bind {
                source: self.volume(),
                target: "/volume".into(),
                read_only: false,
                propagation: Propagation::Slave,
            }],
            process: Some(sh("cat > /volume/stdin; trap 'exit 0' TERM; sleep 1000 & wait")),
            capabilities: Capabilities::of_network_plugin(),
            no_new_privileges: true,
            devices: Devices::Minimal,
            cgroup: None,
            limits: None,
        }
    }

    /// How the last container ended.
    pub fn last_end(&self) -> Option<container::Ending> {
        self.engine.last_end(&self.directory()).unwrap().map(|end| end.ending)
    }

    pub fn start(&self) -> Running {
        self.engine.start(&self.directory(), &self.spec(), b"{}").unwrap()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if let Ok(Some(running)) = self.engine.adopt(&self.directory()) {
            let _ = running.stop(Duration::ZERO);
        }
    }
}

pub fn sh(script: &str) -> Process {
    let path: (OsString, OsString) = ("PATH".into(), "/bin".into());
    Process { env: vec![path], ..Process::new(["/bin/sh", "-c", script]) }
}

/// What `script` writes; it succeeds and is silent otherwise.
#[track_caller]
pub fn said(running: &Running, script: &str) -> String {
    let ended = call(running, script);
    let errors = String::from_utf8_lossy(&ended.stderr);
    assert_eq!((ended.status, &*errors), (Ending::Exited(0), ""), "{script}");
    String::from_utf8(ended.stdout).unwrap()
}

pub fn call(running: &Running, script: &str) -> Ended {
    running.exec(&sh(script), b"", &BOUNDS).unwrap()
}

/// Waits for something that others do, until it is true.
#[track_caller]
pub fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Processes whose command line holds `mark`.
pub fn marked(mark: &str) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
        if let Some(pid) = pid
            && pid != std::process::id()
            && String::from_utf8_lossy(&line).contains(mark)
        {
            found.push(pid);
        }
    }
    found
}

/// What is mounted below `path` in this thread's namespace.
pub fn mounted(path: &Path) -> Vec<String> {
    let all = fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
    let path = path.to_str().unwrap();
    all.lines().filter(|line| line.contains(path)).map(str::to_owned).collect()
}

/// Runs a command of the host's.
#[track_caller]
pub fn shell(command: &str) {
    let done = Command::new("sh").args(["-ec", command]).output().unwrap();
    assert!(done.status.success(), "{command}: {}", String::from_utf8_lossy(&done.stderr));
}

/// Gives the calling thread, and what it starts, mounts of its own.
pub fn own_mounts() {
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS).unwrap();
    let flags = MsFlags::MS_PRIVATE | MsFlags::MS_REC;
    mount(None::<&str>, "/", None::<&str>, flags, None::<&str>).unwrap();
}

/// Does `work` in a child that has a mount namespace of its own.
#[allow(unsafe_code)]
pub fn in_own_mounts(work: impl FnOnce()) {
    // SAFETY: the child does its work and ends.
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                own_mounts();
                work();
            }));
            // SAFETY: ends the child, and nothing of the parent with it.
            unsafe { nix::libc::_exit(i32::from(done.is_err())) }
        }
        ForkResult::Parent { child } => {
            let status = nix::sys::wait::waitpid(child, None).unwrap();
            assert_eq!(status, nix::sys::wait::WaitStatus::Exited(child, 0));
        }
    }
}
