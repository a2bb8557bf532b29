//! One call of a plugin, and what it works with.

use std::path::{Path, PathBuf};

use engine::Engine;
use model::{Backend, ContainerId, IfName, Network, Result, Sandbox, Timestamp};
use spec::ManyHosts;

use crate::namespace::Namespaces;
use crate::plugin_type::Plugin;
use crate::wire::{Args, Command, Configuration, Environment, Success};

/// The context of a plugin.
pub struct Context<'a> {
    /// The one door.
    pub engine: &'a Engine<'a>,
    /// Where packet filter rules go if the configuration does not say.
    pub backend: Backend,
    /// Opens `CNI_NETNS`.
    pub namespaces: &'a dyn Namespaces,
    /// The time, for showing only.
    pub now: Timestamp,
    /// The sysctls that may be set, one regular expression per line; all where there is no such
    /// file. The reference has it at `/etc/cni/tuning/allowlist.conf`.
    pub allowlist: &'a Path,
    /// A network of many hosts as this host has it, once a daemon has declared and made it where it is not there yet;
    /// `None` where it is on other hosts only.
    pub share: &'a dyn Fn(&ManyHosts) -> Result<Option<Network>>,
}

/// A call whose form is right.
pub(crate) struct Call<'a> {
    pub(crate) plugin: Plugin,
    pub(crate) command: Command,
    pub(crate) environment: &'a Environment,
    pub(crate) config: &'a Configuration,
    /// The container and its interface; none in GC and STATUS.
    pub(crate) subject: Option<(ContainerId, IfName)>,
    pub(crate) sandbox: Option<Sandbox>,
    pub(crate) previous: Option<Success>,
    pub(crate) context: &'a Context<'a>,
}

impl Call<'_> {
    /// `CNI_ARGS` without unknown keys.
    pub(crate) fn args(&self) -> Result<Args> {
        Args::parse(&self.environment.args)?.strict()
    }

    /// `CNI_PATH`.
    pub(crate) fn path(&self) -> Vec<PathBuf> {
        let directories = self.environment.path.split(':');
        directories.filter(|directory| !directory.is_empty()).map(PathBuf::from).collect()
    }
}
