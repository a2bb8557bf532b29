//! A container's file system, made in a mount namespace of its own: nothing is mounted in the host's.

pub(crate) mod mask;

use std::fmt::Write as _;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, fstat, mkdir, open};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, UnmountFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen, mount,
    mount_change, move_mount, open_tree, unmount,
};
use rustix::process::{chdir, fchdir, pivot_root};
use rustix::thread::UnshareFlags;

use crate::fault::{Class, Doing, Fault};
use crate::inside::{Inside, Target};
use crate::spec::{Devices, Mount, Propagation};
use crate::sys::{self, MountAttributes};

/// Devices that every container has.
const DEVICES: [&str; 7] = ["null", "zero", "full", "random", "urandom", "tty", "net/tun"];
/// The targets of names in `/dev`.
const LINKS: [(&str, &str); 5] = [
    ("/dev/fd", "/proc/self/fd"),
    ("/dev/stdin", "/proc/self/fd/0"),
    ("/dev/stdout", "/proc/self/fd/1"),
    ("/dev/stderr", "/proc/self/fd/2"),
    ("/dev/ptmx", "pts/ptmx"),
];
/// Every file, however small, takes memory.
const BYTES_PER_INODE: u64 = 4096;
/// Files of the host that an image that lacks them gets.
pub(crate) const OF_HOST: [&str; 2] = ["/etc/resolv.conf", "/etc/hosts"];

/// The mounts to make.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The lowest first. One only, if it can be written: it is a copy.
    pub(crate) lowers: Vec<PathBuf>,
    /// Where changes go and where overlayfs works; `None` if the only layer takes them itself.
    pub(crate) upper: Option<(PathBuf, PathBuf)>,
    /// Where the changes are kept in memory instead, and how many bytes of them.
    pub(crate) room: Option<(PathBuf, u64)>,
    /// Where it is assembled.
    pub(crate) at: PathBuf,
    pub(crate) mounts: Vec<Mount>,
    pub(crate) devices: Devices,
    /// Whether `/sys` and all of `/proc` can be written.
    pub(crate) system: bool,
    pub(crate) read_only: bool,
}

impl Plan {
    /// A mount namespace of the calling process's own, with the root at [`Plan::at`].
    pub(crate) fn assemble(&self) -> Result<Inside, Fault> {
        sys::unshare(UnshareFlags::NEWNS).doing("making a mount namespace")?;
        let slave = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
        mount_change("/", slave).doing("keeping mounts from the host")?;
        match &self.upper {
            Some((upper, work)) => {
                if let Some((at, room)) = &self.room {
                    in_memory(at, *room, &[upper, work])?;
                }
                self.overlay(upper, work)?;
            }
            None => self.bind_only_layer()?,
        }
        directory(&self.at).map(Inside::new)
    }

    /// As [`Plan::assemble`], with everything else mounted, and as the calling process's root.
    pub(crate) fn enter(&self) -> Result<(), Fault> {
        let root = self.assemble()?;
        self.system_mounts(&root)?;
        match self.devices {
            Devices::Minimal => devices(&root)?,
            Devices::Host => bind(&root, Path::new("/dev"), Path::new("/dev"), &HOST_DEVICES)?,
        }
        OF_HOST.iter().try_for_each(|path| lend(&root, Path::new(path)))?;
        self.mounts.iter().try_for_each(|mount| add(&root, mount))?;
        if self.read_only {
            set(&root, false, sys::READ_ONLY, 0).doing("making the root read-only")?;
        }
        become_root(&root)
    }

    fn overlay(&self, upper: &Path, work: &Path) -> Result<(), Fault> {
        // Numbers are short, and hold no character that options are parted by.
        let mut held = Vec::new();
        let mut options = String::from("lowerdir=");
        for (index, lower) in self.lowers.iter().rev().enumerate() {
            let colon = if index == 0 { "" } else { ":" };
            let _ = write!(options, "{colon}{}", through(&mut held, lower)?);
        }
        let upper = through(&mut held, upper)?;
        let _ = write!(options, ",upperdir={upper},workdir={}", through(&mut held, work)?);
        for more in ["", ",userxattr"] {
            match mount_overlay(&self.at, &format!("{options}{more}")) {
                Ok(()) => return Ok(()),
                // In a user namespace it needs other attributes.
                Err(Errno::PERM | Errno::INVAL) if more.is_empty() => {}
                Err(errno) => {
                    let what = format!("mounting overlayfs on {}", self.at.display());
                    return Err(Fault::new(Class::Overlay, what, errno));
                }
            }
        }
        Ok(())
    }

    fn bind_only_layer(&self) -> Result<(), Fault> {
        let layer = self.lowers.first().map_or(Path::new("/"), PathBuf::as_path);
        let about = || format!("mounting {}", layer.display());
        let tree = tree(layer).doing(about())?;
        set(&tree, true, 0, sys::PRIVATE).doing(about())?;
        attach(&tree, directory(&self.at)?).doing(about())
    }

    fn system_mounts(&self, root: &Inside) -> Result<(), Fault> {
        let target = root.make(Path::new("/proc"), Target::Directory)?;
        let proc = processes().doing("mounting /proc")?;
        attach(&proc, target).doing("mounting /proc")?;
        if !self.system {
            mask::settings(root)?;
        }
        // What the host mounts there later could be written.
        let propagation = if self.system { Propagation::Slave } else { Propagation::Private };
        let how = Bind { read_only: !self.system, propagation };
        bind(root, Path::new("/sys"), Path::new("/sys"), &how)?;
        if !self.system {
            mask::hide(root)?;
        }
        Ok(())
    }
}

/// A file system in memory at `at` with the directories `below` in it.
fn in_memory(at: &Path, room: u64, below: &[&Path]) -> Result<(), Fault> {
    let about = || format!("mounting a file system in memory on {}", at.display());
    let (size, inodes) = (room.to_string(), (room / BYTES_PER_INODE).to_string());
    let options = [("mode", "755"), ("size", size.as_str()), ("nr_inodes", inodes.as_str())];
    let how = MountAttrFlags::empty();
    let made = fresh("tmpfs", &options, how).doing(about())?;
    attach(&made, directory(at)?).doing(about())?;
    for path in below {
        mkdir(*path, Mode::from_raw_mode(0o755)).doing(about())?;
    }
    Ok(())
}

struct Bind {
    read_only: bool,
    propagation: Propagation,
}

const HOST_DEVICES: Bind = Bind { read_only: false, propagation: Propagation::Slave };

fn mount_overlay(at: &Path, options: &str) -> Result<(), Errno> {
    let options = std::ffi::CString::new(options).map_err(|_| Errno::INVAL)?;
    mount("overlay", at, "overlay", MountFlags::empty(), Some(options.as_c_str()))
}

/// A short path to `directory`, for as long as it is held.
fn through(held: &mut Vec<OwnedFd>, path: &Path) -> Result<String, Fault> {
    let fd = directory(path)?;
    let short = format!("/proc/self/fd/{}", fd.as_raw_fd());
    held.push(fd);
    Ok(short)
}

fn directory(path: &Path) -> Result<OwnedFd, Fault> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    open(path, flags, Mode::empty()).wanted(format_args!("directory {}", path.display()))
}

fn tree(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    open_tree(CWD, path, flags)
}

fn attach(mount: &OwnedFd, target: OwnedFd) -> Result<(), Errno> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(mount, "", target, "", flags)
}

fn set(mount: impl AsFd, all: bool, set: u64, propagation: u64) -> Result<(), Errno> {
    let attributes = MountAttributes { set, clear: 0, propagation, user_namespace: 0 };
    sys::set_mount(mount, all, &attributes)
}

fn attributes() -> MountAttrFlags {
    MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NOEXEC
        | MountAttrFlags::MOUNT_ATTR_NODEV
}

/// A file system that is mounted nowhere yet.
fn fresh(kind: &str, options: &[(&str, &str)], how: MountAttrFlags) -> Result<OwnedFd, Errno> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    options.iter().try_for_each(|(key, value)| fsconfig_set_string(&context, *key, *value))?;
    fsconfig_create(&context)?;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, how)
}

/// The processes of the calling one's namespace, as a file system that is mounted nowhere.
pub(crate) fn processes() -> Result<OwnedFd, Errno> {
    fresh("proc", &[], attributes())
}

fn devices(root: &Inside) -> Result<(), Fault> {
    let nosuid = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let small = [("mode", "755"), ("size", "65536")];
    let shared = [("mode", "1777"), ("size", "67108864")];
    let terminals = [("ptmxmode", "0666"), ("mode", "0620")];
    for (kind, path, options) in [
        ("tmpfs", "/dev", &small[..]),
        ("devpts", "/dev/pts", &terminals),
        ("tmpfs", "/dev/shm", &shared),
    ] {
        let target = root.make(Path::new(path), Target::Directory)?;
        let made = fresh(kind, options, nosuid).and_then(|made| attach(&made, target));
        made.doing(format_args!("mounting {path}"))?;
    }
    for name in DEVICES {
        let path = Path::new("/dev").join(name);
        match bind(root, &path, &path, &HOST_DEVICES) {
            Err(fault) if fault.class == Class::Request && name == "net/tun" => {}
            result => result?,
        }
    }
    LINKS.iter().try_for_each(|(path, to)| root.link(path, to))
}

fn add(root: &Inside, mount: &Mount) -> Result<(), Fault> {
    match mount {
        Mount::Bind { source, target, read_only, propagation } => {
            let how = Bind { read_only: *read_only, propagation: *propagation };
            bind(root, source, target, &how)
        }
        Mount::Tmpfs { target, size } => {
            let about = format!("mounting {} in the container", target.display());
            let at = root.make(target, Target::Directory)?;
            let size = size.to_string();
            let how = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
            let made = fresh("tmpfs", &[("mode", "755"), ("size", &size)], how);
            made.and_then(|made| attach(&made, at)).doing(about)
        }
    }
}

fn bind(root: &Inside, source: &Path, target: &Path, how: &Bind) -> Result<(), Fault> {
    let about = || format!("mounting {} in the container", source.display());
    let tree = tree(source).wanted(about())?;
    let stat = fstat(&tree).doing(about())?;
    let is_directory =
        rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Directory;
    let kind = if is_directory { Target::Directory } else { Target::File };
    if how.propagation == Propagation::Private {
        set(&tree, true, 0, sys::PRIVATE).doing(about())?;
    }
    if how.read_only {
        set(&tree, true, sys::READ_ONLY, 0).doing(about())?;
    }
    attach(&tree, root.make(target, kind)?).doing(about())
}

/// Shows the host's file where the image has none, or an empty one: that is the target of a mount
/// that was made before.
fn lend(root: &Inside, path: &Path) -> Result<(), Fault> {
    let lacks = match root.find(path) {
        Ok(there) => fstat(&there).doing(path.display())?.st_size == 0,
        Err(errno) => errno == Errno::NOENT,
    };
    if !lacks || !path.exists() {
        return Ok(());
    }
    let how = Bind { read_only: true, propagation: Propagation::Private };
    match bind(root, path, path, &how) {
        // An image may have a link without a target on purpose.
        Err(fault) if fault.class == Class::Request => Ok(()),
        result => result,
    }
}

fn become_root(root: &Inside) -> Result<(), Fault> {
    let about = "changing the root";
    fchdir(root).doing(about)?;
    pivot_root(".", ".").doing(about)?;
    unmount(".", UnmountFlags::DETACH).doing(about)?;
    chdir("/").doing(about)
}
