//! The users of a network namespace: processes that are in it or have it open, and mounts of it, in
//! all mount namespaces (proc(5), namespaces(7)).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use model::{Error, Result};
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

/// The inode of the first namespace of processes (`PID_NS_INIT_INO`, `linux/nsfs.h`): a process in
/// another one does not see all processes.
const ALL_PROCESSES: u64 = 0xefff_fffc;

/// Major and minor number.
type Device = (u32, u32);

/// The uses of network namespaces by processes and mounts, by their inodes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Users {
    /// Namespaces that processes are in or have open.
    held: BTreeSet<u64>,
    /// Where namespaces are mounted.
    mounts: BTreeMap<u64, BTreeSet<PathBuf>>,
    /// The file system of namespaces.
    device: Option<Device>,
    /// Whether there may be more, of processes that cannot be inspected.
    is_partial: bool,
}

/// Whether a namespace is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Used {
    /// It is in use.
    Yes,
    /// It is not in use.
    No,
    /// No process that can be inspected uses it.
    Unknown,
}

impl Users {
    /// Inspects every process below `proc`, a proc(5).
    ///
    /// # Errors
    /// Where that cannot be listed.
    pub(crate) fn gather(proc: &Path) -> Result<Self> {
        let own = link(&proc.join("self/ns/pid"))?.and_then(|text| inode(&text, "pid"));
        let is_partial = own != Some(ALL_PROCESSES) || hides(proc)?;
        let device = identity(&proc.join("self/ns/net"))?.map(|(device, _)| device);
        let mut users = Self { is_partial, device, ..Self::default() };
        let mut seen = BTreeSet::new();
        for process in numbered(proc)? {
            for task in numbered(&process.join("task"))? {
                users.gather_task(&task, &mut seen)?;
            }
        }
        Ok(users)
    }

    /// One thread. `seen` are the mount namespaces that were inspected, each from some root.
    fn gather_task(&mut self, task: &Path, seen: &mut BTreeSet<[String; 2]>) -> Result<()> {
        let net = self.visible(link(&task.join("ns/net")))?;
        self.held.extend(net.and_then(|text| inode(&text, "net")));
        let mounts = self.visible(link(&task.join("ns/mnt")))?;
        // Mounts above a process's own root are invisible to it.
        let root = self.visible(link(&task.join("root")))?;
        if let (Some(mounts), Some(root)) = (mounts, root)
            && !seen.contains(&[mounts.clone(), root.clone()])
            && self.mounted(&task.join("mountinfo"))?
        {
            seen.insert([mounts, root]);
        }
        for file in self.visible(entries(&task.join("fd")))?.unwrap_or_default() {
            // Its name does not show it: for an open mount of a namespace the kernel shows its
            // path.
            let open = self.visible(identity(&file))?.filter(|open| Some(open.0) == self.device);
            self.held.extend(open.map(|(_, inode)| inode));
        }
        Ok(())
    }

    /// Whether there was something to inspect.
    fn mounted(&mut self, mountinfo: &Path) -> Result<bool> {
        let text = match fs::read(mountinfo) {
            Ok(text) => Ok(Some(text)),
            Err(cause) => absent(mountinfo, cause),
        };
        let Some(text) = self.visible(text)? else { return Ok(false) };
        for line in String::from_utf8_lossy(&text).lines() {
            let mut fields = line.split(' ').skip(3);
            let (Some(root), Some(at)) = (fields.next(), fields.next()) else { continue };
            if let Some(inode) = inode(root, "net") {
                self.mounts.entry(inode).or_default().insert(at.into());
            }
        }
        Ok(true)
    }

    /// The value; `None` also where the process cannot be inspected, which is noted.
    fn visible<T>(&mut self, seen: Result<Option<T>>) -> Result<Option<T>> {
        match seen {
            Err(error) if error.kind() == model::Kind::Denied => {
                self.is_partial = true;
                Ok(None)
            }
            seen => seen,
        }
    }

    /// Whether the namespace is used otherwise than by mounts whose last part `is_ours`.
    pub(crate) fn of(&self, inode: u64, is_ours: fn(&str) -> bool) -> Used {
        let name = |at: &PathBuf| at.file_name().and_then(|name| name.to_str()).map(is_ours);
        let is_other = |at: &PathBuf| name(at) != Some(true);
        let mut mounts = self.mounts.get(&inode).into_iter().flatten();
        match self.held.contains(&inode) || mounts.any(is_other) {
            true => Used::Yes,
            false if self.is_partial => Used::Unknown,
            false => Used::No,
        }
    }

    /// Whether a namespace is mounted at a path whose last part is `name`, wherever that is seen.
    pub(crate) fn of_mounts(&self, name: &str) -> Used {
        match self.mounts.values().flatten().any(|at| at.ends_with(name)) {
            true => Used::Yes,
            false if self.is_partial => Used::Unknown,
            false => Used::No,
        }
    }
}

/// The device and the inode of a path's target; `None` where its process has ended.
fn identity(path: &Path) -> Result<Option<(Device, u64)>> {
    // The file system of an open file may not answer any more.
    match statx(CWD, path, AtFlags::STATX_DONT_SYNC, StatxFlags::INO) {
        Ok(data) => Ok(Some(((data.stx_dev_major, data.stx_dev_minor), data.stx_ino))),
        Err(errno) => absent(path, errno.into()),
    }
}

/// Whether processes that this one may not inspect are hidden from it (proc(5), `hidepid`).
fn hides(proc: &Path) -> Result<bool> {
    let path = proc.join("self/mountinfo");
    let text = fs::read_to_string(&path);
    let text = text.map_err(|cause| Error::os(format!("reading {}", path.display()), cause))?;
    let is_it = |line: &&str| line.split(' ').nth(4).map(Path::new) == Some(proc);
    let options = |line: &str| line.rsplit(' ').next().unwrap_or_default().to_owned();
    let hides = |options: String| {
        let mut values = options.split(',').filter_map(|one| one.strip_prefix("hidepid="));
        values.any(|value| !matches!(value, "0" | "off"))
    };
    Ok(text.lines().filter(is_it).map(options).any(hides))
}

/// The inode in what the kernel calls a namespace of this kind: `net:[4026531840]`.
fn inode(text: &str, kind: &str) -> Option<u64> {
    text.strip_prefix(kind)?.strip_prefix(":[")?.strip_suffix(']')?.parse().ok()
}

/// The target of a symbolic link; `None` where its process has ended.
fn link(path: &Path) -> Result<Option<String>> {
    match fs::read_link(path) {
        Ok(target) => Ok(Some(target.to_string_lossy().into_owned())),
        Err(cause) => absent(path, cause),
    }
}

fn numbered(directory: &Path) -> Result<Vec<PathBuf>> {
    let is_number = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit())
    };
    let all = entries(directory)?.unwrap_or_default();
    Ok(all.into_iter().filter(is_number).collect())
}

fn entries(directory: &Path) -> Result<Option<Vec<PathBuf>>> {
    let read = || fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect();
    match read() {
        Ok(paths) => Ok(Some(paths)),
        Err(cause) => absent(directory, cause),
    }
}

/// `None` for a process that ends during the inspection.
fn absent<T>(path: &Path, cause: std::io::Error) -> Result<Option<T>> {
    let has_ended = cause.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error());
    match has_ended || matches!(cause.kind(), ErrorKind::NotFound | ErrorKind::InvalidInput) {
        true => Ok(None),
        false => Err(Error::os(format!("looking at {}", path.display()), cause)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    /// A proc(5) with these processes: id, network namespace, open file, mounts.
    fn proc(processes: &[(&str, &str, &str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let own = root.path().join("self/ns");
        fs::create_dir_all(&own).unwrap();
        symlink("pid:[4026531836]", own.join("pid")).unwrap();
        fs::write(root.path().join("self/mountinfo"), "").unwrap();
        symlink("/proc/self/ns/net", own.join("net")).unwrap();
        for (id, net, open, mounts) in processes {
            let task = root.path().join(id).join("task").join(id);
            fs::create_dir_all(task.join("ns")).unwrap();
            fs::create_dir_all(task.join("fd")).unwrap();
            symlink(net, task.join("ns/net")).unwrap();
            symlink(format!("mnt:[{id}]"), task.join("ns/mnt")).unwrap();
            symlink("/", task.join("root")).unwrap();
            symlink(open, task.join("fd/0")).unwrap();
            fs::write(task.join("mountinfo"), mounts).unwrap();
        }
        root
    }

    fn is_ours(name: &str) -> bool {
        name.starts_with("cni-")
    }

    #[test]
    fn processes_open_files_and_mounts_are_uses() {
        let line = |inode: u64, at: &str| {
            format!("36 35 0:4 net:[{inode}] {at} rw shared:1 - nsfs nsfs rw\n")
        };
        let copies = [line(10, "/n/cni-a"), line(10, "/host/n/cni-c"), line(11, "/n/cni-b")];
        let other = format!("1 0 8:1 / / rw - ext4 /dev/sda rw\n{}", line(11, "/run/netns/b"));
        let proc = proc(&[
            ("1", "net:[1]", "/dev/null", &copies.concat()),
            ("7", "net:[12]", "/proc/self/ns/net", &other),
        ]);
        let own = fs::metadata("/proc/self/ns/net").unwrap().ino();
        let users = Users::gather(proc.path()).unwrap();
        let uses = [10, 11, 12, own, 99].map(|inode| users.of(inode, is_ours));
        assert_eq!(uses, [Used::No, Used::Yes, Used::Yes, Used::Yes, Used::No]);
        assert_eq!(users.of(11, is_ours), Used::Yes, "it is mounted elsewhere, too");
        assert_eq!((users.of_mounts("cni-a"), users.of_mounts("a")), (Used::Yes, Used::No));
    }

    #[test]
    fn who_does_not_see_all_processes_knows_nothing() {
        let proc = proc(&[]);
        assert_eq!(Users::gather(proc.path()).unwrap().of(1, is_ours), Used::No);
        let mounts = proc.path().join("self/mountinfo");
        let line = |option: &str| {
            format!("22 1 0:20 / {} rw - proc proc rw,{option}\n", proc.path().display())
        };
        for (option, used) in [("gid=7", Used::No), ("hidepid=invisible", Used::Unknown)] {
            fs::write(&mounts, line(option)).unwrap();
            assert_eq!(Users::gather(proc.path()).unwrap().of(1, is_ours), used, "{option}");
        }
        fs::write(&mounts, "").unwrap();
        let own = proc.path().join("self/ns/pid");
        fs::remove_file(&own).unwrap();
        symlink("pid:[4026532000]", &own).unwrap();
        assert_eq!(Users::gather(proc.path()).unwrap().of(1, is_ours), Used::Unknown);
    }
}
