//! The networking pod: the plugin containers of a host, each started when it is needed, started
//! again when it has ended, and called into.
//!
//! No process has to stay for that: a container is its directory, which any process finds again.
//!
//! ```text
//! <runtime>/plugins/<network>/state.json          the running container, or the last one
//!                             lock                held while it is started or stopped
//!                             volume/             the plugin's own files: its /var/lib/cni
//!                             <generation>/       the container's own records
//!                             <generation>.root/  its changes of its file system
//!                             <generation>.calls  locked by its callers
//! ```

mod call;
mod ensure;
mod fetch;
mod manual;
mod mounts;
mod plugin_spec;
mod retire;
mod rights;
mod spec;
mod state;
mod status;
mod why;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use container::Engine;
use image::{Image, ImageId, Locator};
use model::Result;

pub use call::Direct;
pub(crate) use ensure::Watched;
pub(crate) use plugin_spec::hex;
pub use plugin_spec::{Key, Main, PluginSpec};
pub use retire::UNUSED;
pub use status::{Standing, Status};

use crate::Directories;
use crate::call::LIMIT;

/// Where images come from.
pub trait Images: Send + Sync {
    /// The image, fetched if it is not here; one of `keys` must have signed it, where there are any.
    ///
    /// # Errors
    /// Where it is unknown, unreachable, not what it should be, or not signed so.
    fn get(&self, locator: &Locator, keys: &[PathBuf]) -> Result<Image>;

    /// The id of the image that a start would use without a request; `None` where it is not in the
    /// cache.
    ///
    /// # Errors
    /// Where the cache cannot be read.
    fn cached(&self, locator: &Locator, keys: &[PathBuf]) -> Result<Option<ImageId>>;

    /// Where they are kept, which no plugin sees; none where they are not kept.
    fn directory(&self) -> Option<&Path>;
}

impl Images for image::Images {
    fn get(&self, locator: &Locator, keys: &[PathBuf]) -> Result<Image> {
        match keys {
            [] => self.get(locator),
            keys => self.requiring(keys).get(locator),
        }
    }

    fn cached(&self, locator: &Locator, keys: &[PathBuf]) -> Result<Option<ImageId>> {
        let cached = match keys {
            [] => self.cached(locator)?,
            keys => self.requiring(keys).cached(locator)?,
        };
        Ok(cached.map(|image| image.id))
    }

    fn directory(&self) -> Option<&Path> {
        Some(self.directory())
    }
}

/// How long an image may take that a plugin needs: a large one over a slow line takes minutes.
const FETCH: Duration = Duration::from_secs(600);

/// How long callers wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// For one call of a plugin, if its network says nothing else.
    pub call: Duration,
    /// For a plugin to run, before each call.
    pub wait: Duration,
    /// For an image that is not in the cache, when a plugin is started.
    pub fetch: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { call: LIMIT, wait: Duration::from_secs(10), fetch: FETCH }
    }
}

/// The host's own store, for plugins of Spoke's that share it: mounted where an image has mount
/// points called `spoke-runtime`, `spoke-state` and `spoke-config`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreDirectories {
    /// The part that a reboot removes.
    pub runtime: PathBuf,
    /// The part that outlives it.
    pub state: PathBuf,
    /// The configuration's directory; read only in plugins.
    pub config: PathBuf,
}

/// The plugin containers of a host, and what they are made of.
pub struct NetworkingPod {
    /// Where everything is.
    pub directories: Directories,
    /// Where images come from.
    pub images: Arc<dyn Images>,
    /// The engine of containers, where a network names none.
    pub engine: Engine,
    /// The host's store, if plugins may have it.
    pub book: Option<StoreDirectories>,
    /// How long callers wait.
    pub limits: Limits,
}

impl fmt::Debug for NetworkingPod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NetworkingPod").field("directories", &self.directories).finish()
    }
}
