//! The other side of CNI: what container runtimes do with configurations and plugins (CNI 1.1.0 §3
//! and §4), in the words and files of the reference library libcni, so that either can continue
//! where the other stopped.
//!
//! [`NetworkList`] is a configuration, [`Runtime`] executes it for a [`Target`], and [`Cache`]
//! keeps the results.

mod cache;
mod call;
mod load;
mod network;
mod request;
mod target;
mod verbs;

pub use cache::{Cache, CachedAttachment};
pub use call::{Native, Programs, Trace};
pub use load::{configured, load};
pub use network::{NetworkList, PluginConfig};
pub use target::{Target, container_of, parse_args};
pub use verbs::{Runtime, Valid};

/// Where libcni keeps what it remembers.
pub const CACHE: &str = "/var/lib/cni";

/// The directory of configurations.
pub const CONFIGURATIONS: &str = "/etc/cni/net.d";
