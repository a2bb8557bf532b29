//! Where it happens: a mount and a network namespace of our own, hosts and containers in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use model::{Error, Result};
use netlink::wire::Batch;
use netlink::{At, Change, Netns, Socket};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl::set_child_subreaper;

/// Everything that we keep; in memory.
pub(crate) const DIR: &str = "/run/bench";

/// Takes the process out of the host's world. Only before it has threads.
pub(crate) fn enter() -> Result<()> {
    let apart = CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWNET;
    unshare(apart)
        .map_err(|errno| failed("leaving the host's namespaces (root is needed)", errno))?;
    attach(None, "/", None, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None)?;
    let none = MsFlags::empty();
    attach(Some("sysfs"), "/sys", Some("sysfs"), none, None)?;
    attach(Some("tmpfs"), "/run", Some("tmpfs"), none, Some("mode=755"))?;
    for dir in ["netns", "lock", "bench/upper", "bench/work"] {
        make(&Path::new("/run").join(dir))?;
    }
    let layers = format!("lowerdir=/var/lib,upperdir={DIR}/upper,workdir={DIR}/work");
    attach(Some("overlay"), "/var/lib", Some("overlay"), none, Some(&layers))?;
    for dir in ["/var/lib/cni", "/var/lib/spoke"] {
        make(Path::new(dir))?;
        attach(Some("tmpfs"), dir, Some("tmpfs"), none, Some("mode=755"))?;
    }
    Ok(())
}

/// Becomes the parent of what programs leave running, so that it can be accounted for. Not where
/// there are worlds within: their processes would wait for us to bury them, and we for their end.
pub(crate) fn adopt_orphans() -> Result<()> {
    set_child_subreaper(true).map_err(|errno| failed("becoming the parent of orphans", errno))
}

fn attach(
    source: Option<&str>,
    target: &str,
    kind: Option<&str>,
    flags: MsFlags,
    data: Option<&str>,
) -> Result<()> {
    mount(source, target, kind, flags, data)
        .map_err(|errno| failed(&format!("mounting {}", kind.unwrap_or(target)), errno))
}

fn failed(what: &str, errno: nix::errno::Errno) -> Error {
    Error::os(what, errno.into())
}

/// Makes a directory and those above.
pub(crate) fn make(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).map_err(|error| Error::os(format!("making {}", dir.display()), error))
}

/// Writes a file.
pub(crate) fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|error| Error::os(format!("writing {}", path.display()), error))
}

/// Makes the calling thread's namespace reach itself.
pub(crate) fn raise_loopback() -> Result<()> {
    let lo = "lo".parse()?;
    let mut batch = Batch::new();
    batch.change_link(At::Name(&lo), &[Change::Up(true)]);
    Socket::route()?.send(&mut batch)?.into_result()
}

/// A new network namespace with a name.
pub(crate) fn namespace(name: &str) -> Result<PathBuf> {
    let path = Path::new("/run/netns").join(name);
    write(&path, "")?;
    let target = path.clone();
    // A thread's namespace is its own: this one stays where it is.
    let made = thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNET).map_err(|errno| failed("making a namespace", errno))?;
        let own = Some("/proc/thread-self/ns/net");
        mount(own, &target, None::<&str>, MsFlags::MS_BIND, None::<&str>)
            .map_err(|errno| failed("keeping a namespace", errno))
    });
    made.join().map_err(|_| Error::bug("a thread ended early"))??;
    Ok(path)
}

/// A network namespace that plays a host, with the state of the program that works on it.
pub(crate) struct Host {
    /// Its directory; host-local's data is in `networks`, our book in `runtime` and `state`.
    pub(crate) dir: PathBuf,
    netns: Netns,
}

impl Host {
    /// A fresh host.
    pub(crate) fn new(name: &str) -> Result<Self> {
        let dir = Path::new(DIR).join("hosts").join(name);
        make(&dir.join("networks"))?;
        let (runtime, state) = (dir.join("runtime"), dir.join("state"));
        let config = format!("[store]\nruntime = {runtime:?}\nstate = {state:?}\n");
        write(&dir.join("config.toml"), &config)?;
        let netns = Netns::open(&namespace(&format!("host-{name}"))?)?;
        let host = Self { dir, netns };
        host.within(raise_loopback)?;
        Ok(host)
    }

    /// Does `work` with the calling thread in this host's network; programs that it starts are
    /// there, too.
    pub(crate) fn within<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.netns.enter(work)?
    }

    /// Runs a program here for its effect.
    pub(crate) fn run(&self, words: &[&str], input: &str) -> Result<String> {
        let Some((name, args)) = words.split_first() else { return Ok(String::new()) };
        let mut command: Command = crate::execute::program(name);
        command.args(args);
        self.within(|| Ok(crate::execute::succeed(&mut command, input)?.stdout))
    }

    /// Runs these lines here, in which NAME is the name of a network namespace.
    pub(crate) fn run_all(&self, netns: &Path, lines: &[&str]) -> Result<()> {
        let name = netns.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let named = |word| if word == "NAME" { name } else { word };
        lines.iter().try_for_each(|line| {
            self.run(&line.split(' ').map(named).collect::<Vec<_>>(), "").map(drop)
        })
    }

    /// Where host-local keeps its networks.
    pub(crate) fn networks(&self) -> PathBuf {
        self.dir.join("networks")
    }
}
