//! Kurma here: this program as a plugin's executables, as the engine of the networking pod, and as
//! the CNI plugin that runs other plugins out of their images.

mod executable;
mod wrapped;

pub(crate) use executable::{called, run};
