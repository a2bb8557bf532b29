//! Runtimes, and which side of a call does what.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Which front end an attachment came through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Runtime {
    /// A CNI runtime that does not give its name.
    Cni,
    /// Podman.
    Podman,
    /// The reference plugins, before us.
    Reference,
    /// Our command line.
    Spoke,
    /// Docker Engine.
    Docker,
    /// Kurma's networking pod.
    Kurma,
}

impl fmt::Display for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Runtime::Cni => "cni",
            Runtime::Podman => "podman",
            Runtime::Reference => "reference",
            Runtime::Spoke => "spoke",
            Runtime::Docker => "docker",
            Runtime::Kurma => "kurma",
        })
    }
}

/// Which side completes an interface inside its sandbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Handoff {
    /// We do: it is made in the sandbox, with its name, addresses and routes.
    #[default]
    Finish,
    /// The runtime does: it is made in the host's namespace, and the runtime moves, names and
    /// addresses it.
    Caller,
}
