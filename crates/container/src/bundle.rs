//! A container as an OCI runtime wants it: a directory with `config.json` (OCI runtime-spec 1.0).

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use model::{Error, Result};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::thread::capabilities;
use serde_json::{Value, json};

use crate::capability::Capability;
use crate::cgroup;
use crate::copy;
use crate::directory::Directory;
use crate::idle;
use crate::inside::Inside;
use crate::rootfs::OF_HOST;
use crate::rootfs::mask::{MASKED, READ_ONLY};
use crate::seccomp;
use crate::spec::{Devices, Mount, Process, Propagation, Root, Spec};

/// Writes the bundle of `spec` into `directory`. Layers are copied, because an overlay would have
/// to be mounted on the host.
pub(crate) fn write(directory: &Directory, spec: &Spec) -> Result<()> {
    let Root::Layers { lowers, upper, .. } = &spec.root;
    if lowers.is_empty() {
        let what = format!("container {} has no layer to be made of", spec.name);
        return Err(Error::invalid(what));
    }
    if spec.cgroup.is_some() {
        return Err(Error::unsupported("a cgroup of one's own with an OCI runtime"));
    }
    let root = copy::copied(lowers, upper)?;
    let idle = Process::new([idle::PATH]);
    if spec.process.is_none() {
        bring(&root.join(idle::PATH.trim_start_matches('/')))?;
    }
    let process = spec.process.as_ref().unwrap_or(&idle);
    let mounts = mounts(spec, &root)?;
    let mut document = json!({
        "ociVersion": "1.0.2",
        "process": self::process(process, spec)?,
        "root": {"path": text(root.as_os_str())?, "readonly": spec.read_only},
        "mounts": mounts,
        "linux": {
            // The others are the caller's.
            "namespaces": [{"type": "pid"}, {"type": "mount"}],
            "rootfsPropagation": "rslave",
            "resources": {"devices": [{"allow": true, "access": "rwm"}]},
        },
    });
    if let Some(mask) = spec.capabilities.mask() {
        confine(&mut document["linux"], mask);
    }
    let limits = spec.limits.as_ref();
    let (path, limited, lacking) = cgroup::of_oci(directory, spec.name.as_str(), limits)?;
    directory.log(&lacking)?;
    if let Some(path) = path {
        document["linux"]["cgroupsPath"] = json!(path);
    }
    for (key, value) in limited.as_object().into_iter().flatten() {
        document["linux"]["resources"][key] = value.clone();
    }
    let path = directory.path("config.json");
    let written = fs::write(&path, document.to_string());
    written.map_err(|error| Error::os(format!("writing {}", path.display()), error))
}

/// The same as [`crate::rootfs`] and [`crate::seccomp`] do without a runtime. Of `/proc/sys`, each
/// part but `net` is named: runtimes cannot mount over a directory that they made read-only.
fn confine(linux: &mut Value, mask: u64) {
    let below = ["abi", "debug", "dev", "fs", "kernel", "user", "vm"];
    let below = below.iter().map(|name| format!("/proc/sys/{name}"));
    let others = READ_ONLY.iter().filter(|path| **path != "/proc/sys").map(ToString::to_string);
    let read_only: Vec<_> = others.chain(below).collect();
    linux["maskedPaths"] = json!(MASKED);
    linux["readonlyPaths"] = json!(read_only);
    linux["seccomp"] = seccomp::of_oci(mask);
}

/// Puts the idle program there, whatever a container has left in its place.
fn bring(path: &Path) -> Result<()> {
    let failed = |error| Error::os(format!("writing {}", path.display()), error);
    let program = idle::program()?;
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o755).open(path);
    opened.and_then(|mut file| file.write_all(&program)).map_err(failed)
}

fn process(process: &Process, spec: &Spec) -> Result<Value> {
    let all = |_| Error::os("reading capabilities", std::io::Error::last_os_error());
    let mask = match spec.capabilities.mask() {
        Some(mask) => mask,
        None => capabilities(None).map_err(all)?.permitted.bits(),
    };
    let names: Vec<_> = Capability::all_of(mask).map(|one| one.to_string()).collect();
    let args = process.args.iter().map(|arg| text(arg)).collect::<Result<Vec<_>>>()?;
    let env = process.env.iter().map(|(name, value)| {
        let (name, value) = (text(name)?, text(value)?);
        Ok(format!("{name}={value}"))
    });
    Ok(json!({
        "terminal": false,
        "user": {"uid": process.uid, "gid": process.gid, "additionalGids": process.groups,
            "umask": 0o022},
        "args": args,
        "env": env.collect::<Result<Vec<_>>>()?,
        "cwd": text(process.cwd.as_os_str())?,
        "capabilities": {"bounding": names, "effective": names, "inheritable": names,
            "permitted": names, "ambient": names},
        "noNewPrivileges": spec.no_new_privileges,
    }))
}

fn mounts(spec: &Spec, root: &Path) -> Result<Vec<Value>> {
    // What the host mounts there later could be written.
    let (propagation, system) = match spec.capabilities.mask() {
        Some(_) => ("rprivate", "rro"),
        None => ("rslave", "rw"),
    };
    let mut mounts = vec![
        json!({"destination": "/proc", "type": "proc", "source": "proc",
            "options": ["nosuid", "noexec", "nodev"]}),
        json!({"destination": "/sys", "type": "none", "source": "/sys",
            "options": ["rbind", propagation, system]}),
    ];
    match spec.devices {
        Devices::Minimal => mounts.extend(devices()),
        Devices::Host => mounts.push(json!({"destination": "/dev", "type": "none",
            "source": "/dev", "options": ["rbind", "rslave"]})),
    }
    let lent = OF_HOST.iter().filter(|path| lacks(root, Path::new(path)));
    mounts.extend(lent.map(|path| {
        json!({"destination": path, "type": "none", "source": path,
            "options": ["bind", "private", "ro"]})
    }));
    for mount in &spec.mounts {
        mounts.push(self::mount(mount)?);
    }
    Ok(mounts)
}

fn devices() -> Vec<Value> {
    let mut mounts = vec![
        json!({"destination": "/dev", "type": "tmpfs", "source": "tmpfs",
            "options": ["nosuid", "noexec", "mode=755", "size=65536"]}),
        json!({"destination": "/dev/pts", "type": "devpts", "source": "devpts",
            "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"]}),
        json!({"destination": "/dev/shm", "type": "tmpfs", "source": "shm",
            "options": ["nosuid", "noexec", "mode=1777", "size=67108864"]}),
    ];
    let tun = "/dev/net/tun";
    if Path::new(tun).exists() {
        mounts.push(json!({"destination": tun, "type": "none", "source": tun,
            "options": ["bind"]}));
    }
    mounts
}

fn mount(mount: &Mount) -> Result<Value> {
    Ok(match mount {
        Mount::Bind { source, target, read_only, propagation } => {
            fs::metadata(source).map_err(|error| {
                let what = format!("mounting {} in the container", source.display());
                Error::invalid(what).because(error)
            })?;
            let access = if *read_only { "rro" } else { "rw" };
            let propagation = match propagation {
                Propagation::Private => "rprivate",
                Propagation::Slave => "rslave",
            };
            json!({"destination": text(target.as_os_str())?, "type": "none",
                "source": text(source.as_os_str())?, "options": ["rbind", propagation, access]})
        }
        Mount::Tmpfs { target, size } => json!({"destination": text(target.as_os_str())?,
            "type": "tmpfs", "source": "tmpfs",
            "options": ["nosuid", "nodev", "mode=755", format!("size={size}")]}),
    })
}

/// Whether the host's file is to be seen, because the image's is missing or empty.
fn lacks(root: &Path, path: &Path) -> bool {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(root) = open(root, flags, Mode::empty()) else { return false };
    let is_empty = match Inside::new(root).find(path) {
        Ok(there) => rustix::fs::fstat(&there).is_ok_and(|stat| stat.st_size == 0),
        Err(errno) => errno == Errno::NOENT,
    };
    is_empty && path.exists()
}

fn text(part: &OsStr) -> Result<&str> {
    let lost =
        || Error::invalid(format!("OCI runtimes take UTF-8 only, and this is not: {part:?}"));
    part.to_str().ok_or_else(lost)
}

/// Where the runtime keeps its own state.
pub(crate) fn state(directory: &Directory) -> PathBuf {
    directory.path("runtime")
}
