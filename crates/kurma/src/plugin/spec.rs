//! A container, from an image and what was configured.

use container::{Devices, Process, Resources, Root, Spec};
use image::{App, Image};
use model::{Error, Result};

use super::mounts::mounts;
use super::{Main, NetworkingPod, PluginSpec, rights};
use crate::call;

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
    wanted: &PluginSpec,
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
    let rights = rights::of(image, app, &wanted.sandboxing, pod.book.is_some())?;
    let is_privileged = rights.is_privileged;
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
        mounts: mounts(pod, wanted, app, &directory.join("volume"))?,
        process,
        capabilities: rights.capabilities,
        no_new_privileges: rights.no_new_privileges,
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
