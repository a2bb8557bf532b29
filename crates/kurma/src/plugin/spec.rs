//! A container, from an image and what was configured.

use std::collections::BTreeSet;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use container::{
    Capabilities, Capability, Devices, Mount, Process, Propagation, Resources, Root, Spec,
};
use image::{App, CapabilityChange, Image, MountPoint};
use model::{Error, Result};

use super::{Book, Main, NetworkingPod, Wanted};
use crate::{call, volume};

/// Where what a plugin keeps is mounted.
const STATE: &str = "/var/lib/cni";

/// How much a plugin that is not privileged can write where nothing is mounted, in bytes.
const ROOM: u64 = 64 << 20;

/// A container that can be started.
pub(super) struct Plan {
    pub(super) spec: Spec,
    pub(super) stdin: Vec<u8>,
    /// Whether its one-time setup has to be called: there is no main executable.
    pub(super) needs_setup: bool,
}

/// Plans the container of `generation` in the plugin's directory.
pub(super) fn plan(
    pod: &NetworkingPod,
    wanted: &Wanted,
    image: &Image,
    generation: &str,
) -> Result<Plan> {
    let no_app = || {
        Error::invalid(format!("image {} has no app: nothing in it is meant to run", image.name))
    };
    let app = image.app.as_ref().ok_or_else(no_app)?;
    let directory = pod.plugin(&wanted.key);
    let (process, stdin) = match &wanted.main {
        Main::OfImage(input) if !app.exec.is_empty() => (Some(process(image, app)?), input.clone()),
        _ => (None, Vec::new()),
    };
    let is_privileged = wanted.sandboxing.privileged || app.isolators.privileged;
    let no_new = app.isolators.no_new_privileges.unwrap_or(!is_privileged);
    let short: String = generation.chars().take(8).collect();
    let name = format!("{}-{short}", wanted.key);
    let spec = Spec {
        name: name.parse()?,
        root: Root::Layers {
            lowers: image.layers.clone(),
            upper: directory.join(format!("{generation}.root")),
            room: (!is_privileged).then_some(ROOM),
        },
        read_only: false,
        mounts: mounts(pod, wanted, app, &directory.join("volume")),
        process,
        capabilities: capabilities(app, is_privileged)?,
        no_new_privileges: no_new,
        devices: if is_privileged { Devices::Host } else { Devices::Minimal },
        cgroup: None,
        limits: (!is_privileged).then_some(Resources::OF_NETWORK_PLUGIN),
    };
    let needs_setup = spec.process.is_none() && matches!(wanted.main, Main::OfImage(_));
    Ok(Plan { spec, stdin, needs_setup })
}

/// The main executable, with the image's environment.
fn process(image: &Image, app: &App) -> Result<Process> {
    let owner = image.owner(app)?;
    let mut env: Vec<_> = app.environment.iter().map(|(k, v)| (k.into(), v.into())).collect();
    for (key, value) in call::ENVIRONMENT {
        if !app.environment.iter().any(|(given, _)| given == key) {
            env.push((key.into(), value.into()));
        }
    }
    Ok(Process {
        env,
        cwd: app.working_directory.clone().unwrap_or_else(|| "/".into()),
        uid: owner.uid,
        gid: owner.gid,
        groups: owner.groups,
        ..Process::new(&app.exec)
    })
}

/// What its processes may do: an image that is not privileged can ask for less or other things.
fn capabilities(app: &App, is_privileged: bool) -> Result<Capabilities> {
    let parse = |names: &[String]| -> Result<BTreeSet<Capability>> {
        names.iter().map(|name| name.parse()).collect()
    };
    let usual = match is_privileged {
        true => Capabilities::All,
        false => Capabilities::of_network_plugin(),
    };
    match (&app.isolators.capabilities, usual) {
        (Some(CapabilityChange::Retain(names)), _) if !is_privileged => {
            parse(names).map(Capabilities::Set)
        }
        (Some(CapabilityChange::Remove(names)), Capabilities::Set(set)) => {
            Ok(Capabilities::Set(&set - &parse(names)?))
        }
        (_, usual) => Ok(usual),
    }
}

/// The mount point that the configuration is given at.
const CONFIG: &str = "spoke-config";

impl Book {
    /// What is shared at a mount point, and whether only to be read. The book is there from now on:
    /// a plugin that came first must not begin one of its own.
    fn shared(&self, point: &MountPoint) -> Option<(&PathBuf, bool)> {
        let (source, read_only) = match point.name.as_str() {
            "spoke-runtime" => (&self.runtime, point.read_only),
            "spoke-state" => (&self.state, point.read_only),
            CONFIG => return self.config.exists().then_some((&self.config, true)),
            _ => return None,
        };
        let _ = DirBuilder::new().recursive(true).mode(0o755).create(source);
        Some((source, read_only))
    }
}

fn mounts(pod: &NetworkingPod, wanted: &Wanted, app: &App, state: &Path) -> Vec<Mount> {
    let bind = |source: &Path, target: &Path, read_only| Mount::Bind {
        source: source.to_owned(),
        target: target.to_owned(),
        read_only,
        propagation: Propagation::Private,
    };
    let mut mounts = vec![bind(state, Path::new(STATE), false)];
    for point in &app.mount_points {
        let Some((source, read_only)) = pod.book.as_ref().and_then(|book| book.shared(point))
        else {
            continue;
        };
        mounts.push(bind(source, &point.path, read_only));
        // The configuration that is shared with it names the book's own places.
        if *source != point.path && point.name != CONFIG {
            mounts.push(bind(source, source, read_only));
        }
    }
    let given = wanted.sandboxing.mounts.iter();
    mounts.extend(given.map(|mount| bind(&mount.host, &mount.container, mount.read_only)));
    // The last, so that nothing can lie over it.
    mounts.push(Mount::Bind {
        source: pod.directories.netns.clone(),
        target: volume::INSIDE.into(),
        read_only: false,
        propagation: Propagation::Slave,
    });
    mounts
}
