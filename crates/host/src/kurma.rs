//! This host's networking pod, as it is configured.

mod by_cni;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use config::{Config, KurmaConfig};
use container::Engine;
use container::rootless::Stay;
use image::Proxies;
use kurma::plugin::{Limits, StoreDirectories};
use kurma::{Directories, NetworkingPod, PodNetworks};
use model::{Error, Result};
use rustix::process::geteuid;

pub use by_cni::{TYPE, image, named_by_cni, text};

/// The configuration that plugins of Spoke's share.
const CONFIGURATION: &str = "/etc/spoke";

/// The networking pod of this host, or of a user. Nothing is opened before it is asked for.
#[derive(Clone, Debug)]
pub struct Host {
    config: KurmaConfig,
    /// None of a user's: what plugins share is root's.
    book: Option<StoreDirectories>,
    directories: Directories,
    cache: PathBuf,
}

impl Host {
    /// As the configuration says. For a user who is not root, what it does not say is in the user's
    /// own directories, by the variables of the XDG Base Directory Specification in `variable`.
    pub fn new(config: &Config, variable: &dyn Fn(&str) -> Option<PathBuf>) -> Self {
        let store = &config.store;
        let host = Self {
            book: Some(StoreDirectories {
                runtime: store.runtime.clone(),
                state: store.state.clone(),
                config: CONFIGURATION.into(),
            }),
            directories: config.kurma.directories(store),
            cache: config.kurma.cache(store),
            config: config.kurma.clone(),
        };
        match geteuid().is_root() {
            true => host,
            false => host.of_user(variable),
        }
    }

    fn of_user(self, variable: &dyn Fn(&str) -> Option<PathBuf>) -> Self {
        let runtime = || variable("XDG_RUNTIME_DIR").map(|path| path.join("spoke/kurma"));
        let data = || {
            let data = variable("XDG_DATA_HOME");
            data.or_else(|| Some(variable("HOME")?.join(".local/share")))
        };
        let runtime = self.config.runtime.clone().or_else(runtime);
        let runtime = runtime.unwrap_or_else(|| self.directories.runtime.clone());
        let netns = self.config.netns.clone().unwrap_or_else(|| runtime.join("netns"));
        let cache = self.config.images.clone();
        let cache = cache.or_else(|| data().map(|data| data.join("spoke/images")));
        let cache = cache.unwrap_or_else(|| self.cache.clone());
        Self { book: None, directories: Directories { runtime, netns }, cache, ..self }
    }

    /// Moves this process to where plugin containers belong: root into the host's network and mount
    /// namespace, another user into namespaces of that user's own. To be called while there is one thread.
    /// A user is in these namespaces for as long as the result is held; of root's there is none.
    pub fn enter(&self) -> Result<Option<Stay>> {
        match geteuid().is_root() {
            true => container::host::enter().map(|()| None),
            false => container::rootless::enter(&self.directories.runtime).map(Some),
        }
    }

    /// Ends who keeps a user's namespaces, where neither plugins nor pods are in them any more.
    pub fn leave(&self, stay: Option<Stay>) -> Result<()> {
        match stay {
            Some(stay) if self.pod()?.is_idle()? => stay.leave().map(drop),
            Some(_) | None => Ok(()),
        }
    }

    /// Whether plugins of Spoke's use this host's store, rather than one of the user's own.
    pub fn has_book(&self) -> bool {
        self.book.is_some()
    }

    /// Where everything is.
    pub fn directories(&self) -> &Directories {
        &self.directories
    }

    /// The engine of plugin containers, where a network names none.
    pub fn engine(&self) -> Engine {
        self.config.engine.engine()
    }

    /// The file of networks.
    pub fn file(&self) -> &Path {
        &self.config.networks
    }

    /// The networks of that file.
    pub fn networks(&self) -> Result<PodNetworks> {
        PodNetworks::load(&self.config.networks)
    }

    /// The cache of images.
    pub fn images(&self) -> Result<image::Images> {
        let opening = |error: Error| error.context("opening the cache of images");
        let proxies = Proxies::of_environment(|name| std::env::var(name).ok());
        image::Images::new(&self.cache, self.config.policy(proxies)).map_err(opening)
    }

    /// The networking pod.
    pub fn pod(&self) -> Result<NetworkingPod> {
        Ok(NetworkingPod {
            directories: self.directories.clone(),
            images: Arc::new(self.images()?),
            engine: self.engine(),
            book: self.book.clone(),
            limits: Limits {
                call: self.config.limit(),
                wait: self.config.timeout(),
                ..Limits::default()
            },
        })
    }
}
