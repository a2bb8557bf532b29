//! A cgroup for each container (cgroups(7), versions 1 and 2, and both at once): how many processes and
//! how much memory it may have, where it is not privileged; and out of that of the service that starts it,
//! with which the service manager would end it.

use std::fs::{self, DirEntry, OpenOptions};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use model::{Error, Result};
use rustix::fs::{FsWord, statfs};
use rustix::io::{Errno, write};
use rustix::rand::{GetRandomFlags, getrandom};
use serde_json::{Value, json};

use crate::directory::Directory;
use crate::fault::{Doing, Fault};
use crate::privileges::Privileges;
use crate::spec::Resources;

/// Where all of them are, in each hierarchy.
const ABOVE: &str = "spoke";
/// The file of a container's directory that names its cgroups.
const NAMES: &str = "cgroups";

/// That of all processes which run OCI runtimes: a runtime wants that of its container empty.
const KEEPERS: &str = "spoke/keepers";

/// How long the kernel may take to see that the last process has left a cgroup.
const TIMEOUT: Duration = Duration::from_secs(2);
/// How often it is asked meanwhile.
const BETWEEN: Duration = Duration::from_millis(2);

/// One controller, and what to write where.
struct Controller {
    name: &'static str,
    /// The file of version 1, that of version 2, and what is written to either.
    files: (&'static str, &'static str),
    value: u64,
}

/// A hierarchy that is mounted.
#[derive(Debug, PartialEq, Eq)]
struct Hierarchy {
    at: PathBuf,
    /// `None` in version 2, where all may be in one.
    controllers: Option<Vec<String>>,
}

impl Hierarchy {
    /// Whether it is what is at its place: another one may be mounted over it.
    fn is_seen(&self) -> bool {
        /// `CGROUP_SUPER_MAGIC` and `CGROUP2_SUPER_MAGIC` (`linux/magic.h`).
        const MAGIC: [FsWord; 2] = [0x0027_e0eb, 0x6367_7270];
        let [first, second] = MAGIC;
        let magic = if self.controllers.is_some() { first } else { second };
        statfs(&self.at).is_ok_and(|there| there.f_type == magic)
    }

    /// Whether a service manager finds the processes of its services by it.
    fn is_of_services(&self) -> bool {
        self.controllers.as_ref().is_none_or(|all| all.iter().any(|one| one == "name=systemd"))
    }
}

/// The cgroups of one container, open for processes to enter.
#[derive(Debug)]
pub(crate) struct Cgroups {
    files: Vec<OwnedFd>,
    /// Whether a process must be in them.
    bind: bool,
}

impl Cgroups {
    /// None.
    pub(crate) fn none() -> Self {
        Self { files: Vec::new(), bind: true }
    }

    /// New ones, with `limits` if there are any, for the container in `directory`, which remembers them;
    /// and in words what cannot be limited or made here.
    pub(crate) fn make(
        directory: &Directory,
        name: &str,
        limits: Option<&Resources>,
    ) -> Result<(Self, Vec<String>)> {
        let chosen = choose(directory, name, limits)?;
        let mut lacking = chosen.lacking.clone();
        for (path, controller) in &chosen.paths {
            if let Err(error) = limit(path, controller) {
                lacking.push(format!("no limit of {}: {error}", controller.name));
            }
        }
        for path in &chosen.apart {
            lacking.extend(made(path));
        }
        let mut files = Vec::new();
        for path in chosen.all() {
            files.extend(opened(path)?);
        }
        Ok((Self { files, bind: limits.is_some() }, lacking))
    }

    /// Those of the processes that run OCI runtimes, and in words what cannot be made here.
    pub(crate) fn of_keepers() -> Result<(Self, Vec<String>)> {
        let (mut files, mut lacking) = (Vec::new(), Vec::new());
        for hierarchy in seen().iter().filter(|one| one.is_of_services()) {
            let path = hierarchy.at.join(KEEPERS);
            lacking.extend(made(&path));
            files.extend(opened(&path)?);
        }
        Ok((Self { files, bind: true }, lacking))
    }

    /// Those of the container in `directory`. One with all `privileges` may write them, so they bind it to
    /// nothing.
    pub(crate) fn of(directory: &Directory, privileges: Privileges) -> Result<Self> {
        let mut files = Vec::new();
        for path in directory.list(NAMES)? {
            files.extend(opened(&path)?);
        }
        Ok(Self { files, bind: privileges.capabilities.is_some() })
    }

    /// One that the caller has made.
    pub(crate) fn given(path: &Path) -> Result<OwnedFd> {
        let file = opened(path)?;
        file.ok_or_else(|| Error::invalid(format!("{} is no cgroup", path.display())))
    }

    /// Adds one.
    pub(crate) fn with(mut self, more: Option<OwnedFd>) -> Self {
        self.bind |= more.is_some();
        self.files.extend(more);
        self
    }

    /// Their files.
    pub(crate) fn files(&self) -> &[OwnedFd] {
        &self.files
    }

    /// Moves the calling process, which has one thread, into all of them.
    pub(crate) fn enter(&self) -> Result<(), Fault> {
        self.files.iter().try_for_each(|file| match write(file, b"0") {
            // The container has controllers for cgroups of its own: in version 2, no process is beside those.
            Err(Errno::BUSY) if !self.bind => Ok(()),
            written => written.map(drop).doing("entering the cgroup"),
        })
    }
}

/// Where the cgroups of a container are to be.
struct Chosen {
    /// Below each hierarchy's top.
    name: String,
    /// Those that limit it.
    paths: Vec<(PathBuf, Controller)>,
    /// Those that keep it apart from the service that starts it.
    apart: Vec<PathBuf>,
    /// The resources that cannot be limited here, in words.
    lacking: Vec<String>,
}

impl Chosen {
    /// Each once: in version 2, all are one.
    fn all(&self) -> Vec<&Path> {
        let mut all: Vec<&Path> = Vec::new();
        for path in self.paths.iter().map(|(path, _)| path).chain(&self.apart) {
            if !all.contains(&path.as_path()) {
                all.push(path);
            }
        }
        all
    }
}

/// Chooses new ones for the container in `directory`, which remembers them.
fn choose(directory: &Directory, name: &str, limits: Option<&Resources>) -> Result<Chosen> {
    remove(directory)?;
    let name = format!("{ABOVE}/{name}-{:016x}", random()?);
    let hierarchies = seen();
    let (mut paths, mut lacking) = (Vec::new(), Vec::new());
    for controller in limits.into_iter().flat_map(controllers) {
        match find(&hierarchies, controller.name) {
            Some(hierarchy) => paths.push((hierarchy.at.join(&name), controller)),
            None => lacking.push(format!("no limit of {}: no such cgroup", controller.name)),
        }
    }
    let apart = hierarchies.iter().filter(|one| one.is_of_services());
    let apart = apart.map(|hierarchy| hierarchy.at.join(&name)).collect();
    let chosen = Chosen { name, paths, apart, lacking };
    // If this process dies now, the next one finds the list.
    directory.write_list(NAMES, chosen.all().into_iter())?;
    Ok(chosen)
}

/// The hierarchies that are mounted and seen.
fn seen() -> Vec<Hierarchy> {
    // The calling thread's: another than the first may be in a mount namespace of its own.
    let info = fs::read_to_string("/proc/thread-self/mountinfo").unwrap_or_default();
    let mut hierarchies = hierarchies(&info);
    hierarchies.retain(Hierarchy::is_seen);
    hierarchies
}

/// Makes the cgroup `path` if it is missing; why not, in words.
fn made(path: &Path) -> Option<String> {
    let made = fs::create_dir_all(path);
    made.err().map(|error| format!("no cgroup {}: {error}", path.display()))
}

/// What an OCI runtime's container in `directory` is to have: `cgroupsPath`, of a cgroup that the runtime
/// will make and the directory remembers, and the limits as `resources` (OCI runtime-spec,
/// config-linux.md); and in words what cannot be limited or made here.
pub(crate) fn of_oci(
    directory: &Directory,
    name: &str,
    limits: Option<&Resources>,
) -> Result<(Option<String>, Value, Vec<String>)> {
    let Chosen { name, paths, apart, mut lacking } = choose(directory, name, limits)?;
    let mut resources = json!({});
    // A runtime makes them, or refuses to start: that it may is tried before.
    let above = |path: &Path| fs::create_dir_all(path.parent().unwrap_or(path));
    for (path, controller) in &paths {
        if let Err(error) = above(path) {
            lacking.push(format!("no limit of {}: {error}", controller.name));
            continue;
        }
        let key = if controller.name == "pids" { "pids" } else { "memory" };
        resources[key] = json!({"limit": controller.value});
    }
    let is_limited = resources.as_object().is_some_and(|limited| !limited.is_empty());
    let is_any = is_limited || apart.iter().any(|path| above(path).is_ok());
    Ok((is_any.then(|| format!("/{name}")), resources, lacking))
}

/// Whether the kernel has ended processes of the container in `directory` because its memory was used up.
pub(crate) fn was_short(directory: &Directory) -> Result<bool> {
    // That of version 1, which has had it since Linux 4.13, and that of version 2.
    let files = ["memory.oom_control", "memory.events"];
    let ended = |text: String| {
        let mut counts = text.lines().filter_map(|line| line.strip_prefix("oom_kill "));
        counts.any(|count| count.trim() != "0")
    };
    let paths = directory.list(NAMES)?;
    let mut texts = paths.iter().flat_map(|path| files.map(|file| path.join(file)));
    Ok(texts.any(|file| fs::read_to_string(file).is_ok_and(ended)))
}

/// Removes the cgroups of a container that has ended.
pub(crate) fn remove(directory: &Directory) -> Result<()> {
    if was_short(directory)? {
        directory.was_short()?;
    }
    directory.list(NAMES)?.iter().try_for_each(|path| remove_one(path))?;
    directory.remove(NAMES)
}

fn remove_one(path: &Path) -> Result<()> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        match fs::remove_dir(path) {
            // Its last process is leaving, or the container has made cgroups in it.
            Err(error) if error.kind() == ErrorKind::ResourceBusy && Instant::now() < deadline => {
                remove_below(path, deadline);
                sleep(BETWEEN);
            }
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(Error::os(format!("removing {}", path.display()), error));
            }
            _ => return Ok(()),
        }
    }
}

/// Removes the cgroups in `path`, the innermost first. The caller, who removes `path` itself next, sees what
/// stays.
fn remove_below(path: &Path, deadline: Instant) {
    let Ok(entries) = fs::read_dir(path) else { return };
    let is_directory = |entry: &DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    // None stays open while those in it are read.
    let below: Vec<DirEntry> = entries.flatten().filter(is_directory).collect();
    for path in below.iter().map(DirEntry::path).take_while(|_| Instant::now() < deadline) {
        if fs::remove_dir(&path).is_err() {
            remove_below(&path, deadline);
            // As above.
            let _ = fs::remove_dir(&path);
        }
    }
}

/// Processes that share the hierarchies need not share process ids: a pod with a PID namespace of
/// its own has the host's cgroups, so a process's number does not distinguish containers.
fn random() -> Result<u64> {
    let mut bytes = [0; 8];
    let read = getrandom(&mut bytes, GetRandomFlags::empty());
    read.map_err(|errno| Error::os("choosing the name of a cgroup", errno.into()))?;
    Ok(u64::from_ne_bytes(bytes))
}

fn controllers(limits: &Resources) -> [Controller; 2] {
    [
        Controller {
            name: "pids",
            files: ("pids.max", "pids.max"),
            value: limits.processes.into(),
        },
        Controller {
            name: "memory",
            files: ("memory.limit_in_bytes", "memory.max"),
            value: limits.memory,
        },
    ]
}

/// Makes the cgroup `path` if it is missing, and has `controller` limit it.
fn limit(path: &Path, controller: &Controller) -> std::io::Result<()> {
    let above = path.parent().unwrap_or(path);
    let top = above.parent().unwrap_or(above);
    fs::create_dir_all(above)?;
    let is_second = top.join("cgroup.controllers").exists();
    if is_second {
        for place in [top, above] {
            fs::write(place.join("cgroup.subtree_control"), format!("+{}", controller.name))?;
        }
    }
    match fs::create_dir(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let (first, second) = controller.files;
    let file = if is_second { second } else { first };
    fs::write(path.join(file), controller.value.to_string())?;
    if controller.name == "memory" {
        // Without swap, or the limit is none. Not every kernel counts it.
        let (file, value) = match is_second {
            true => ("memory.swap.max", 0),
            false => ("memory.memsw.limit_in_bytes", controller.value),
        };
        let _ = fs::write(path.join(file), value.to_string());
    }
    Ok(())
}

/// The file through which processes enter; none where there is no such cgroup.
fn opened(path: &Path) -> Result<Option<OwnedFd>> {
    let path = path.join("cgroup.procs");
    match OpenOptions::new().write(true).open(&path) {
        Ok(file) => Ok(Some(file.into())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::os(format!("opening {}", path.display()), error)),
    }
}

fn find<'h>(hierarchies: &'h [Hierarchy], controller: &str) -> Option<&'h Hierarchy> {
    let of_first = hierarchies.iter().find(|one| {
        one.controllers.as_ref().is_some_and(|all| all.iter().any(|one| one == controller))
    });
    of_first.or_else(|| {
        hierarchies.iter().filter(|one| one.controllers.is_none()).find(|one| {
            let all = fs::read_to_string(one.at.join("cgroup.controllers")).unwrap_or_default();
            all.split_ascii_whitespace().any(|one| one == controller)
        })
    })
}

/// The mounted hierarchies, by proc_pid_mountinfo(5).
fn hierarchies(info: &str) -> Vec<Hierarchy> {
    info.lines().filter_map(hierarchy).collect()
}

fn hierarchy(line: &str) -> Option<Hierarchy> {
    let (mount, file_system) = line.split_once(" - ")?;
    let at = mount.split(' ').nth(4)?;
    let mut fields = file_system.split(' ');
    let (kind, options) = (fields.next()?, fields.nth(1)?);
    let controllers = match kind {
        "cgroup" => Some(options.split(',').map(str::to_owned).collect()),
        "cgroup2" => None,
        _ => return None,
    };
    // Blanks in paths are written as octal numbers: no hierarchy is there.
    Some(Hierarchy { at: PathBuf::from(at), controllers })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hierarchies_of_both_versions_are_found() {
        let info = "33 32 0:29 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids\n\
                    34 32 0:30 / /sys/fs/cgroup/cpu rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
                    35 32 0:31 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
                    36 32 0:32 / /proc rw - proc proc rw\n";
        let found = hierarchies(info);
        assert_eq!(found.len(), 3);
        let at = |name: &str| find(&found, name).map(|one| one.at.to_str().unwrap().to_owned());
        assert_eq!(at("pids").as_deref(), Some("/sys/fs/cgroup/pids"));
        assert_eq!(at("cpuacct").as_deref(), Some("/sys/fs/cgroup/cpu"));
        assert_eq!(at("nothing"), None);
        assert_eq!(found[2].controllers, None);
        assert_eq!(found.iter().filter(|one| one.is_of_services()).count(), 1);
        let named = "37 32 0:33 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n";
        assert!(hierarchies(named)[0].is_of_services());
    }
}
