//! CNI, all versions: the plugins that runtimes execute, and third-party plugins that we execute.
//!
//! [`run`] is a plugin from its environment and standard input to its standard output and exit
//! code, with everything injected. [`Delegates`] is the engine's port to the address sources that
//! CNI knows beside the store. [`runtime`] is the other side: it executes the plugins of lists.
//! [`wire`] is the protocol, for both ends, and [`process`] how a plugin is executed within bounds. [`list`] and [`mod@reference`] read what others keep on
//! disk.

mod call;
mod capability;
pub mod chain;
mod delegate;
pub mod described;
pub mod dhcp;
mod execute;
pub mod list;
mod namespace;
mod output;
mod plugin;
mod plugin_type;
mod previous;
pub mod reference;
pub mod runtime;
mod skel;
mod source;
pub mod wire;
mod words;

pub use call::Context;
pub use chain::Chain;
pub use delegate::Delegates;
pub use execute::process;
pub use namespace::{Kernel, NamespaceKind, Namespaces};
pub use output::Output;
pub use plugin_type::Plugin;
pub use skel::{introduce, run};
pub use spec::ManyHosts;
