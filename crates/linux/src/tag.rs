//! What Spoke keeps in an interface's parameter `tag`, a number that is free for any use (the kernel's
//! `ip-sysctl`): it outlives this process and a flushed packet filter, and ends with the interface. The caller
//! holds the lock on the namespace between reading and writing.

use model::{IfName, Result};
use netlink::{At, Parameters, Socket, sysctl};

use crate::identity::GROUP;

/// What is kept of an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tag {
    /// Of `route_localnet`.
    pub(crate) localnet: Localnet,
    /// Whether we set `accept_ra` of IPv6, which was 1, to 2.
    pub(crate) keeps_routers: bool,
}

/// What was done to the interface's `route_localnet`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Localnet {
    /// Nothing.
    #[default]
    Unused,
    /// We set the parameter, which was 0.
    Ours,
    /// As before, and a process is about to set it back.
    Leaving,
}

impl Tag {
    /// Every state with its number.
    const ALL: [(u32, Self); 6] = [
        (0, Self { localnet: Localnet::Unused, keeps_routers: false }),
        (GROUP, Self { localnet: Localnet::Ours, keeps_routers: false }),
        (GROUP + 1, Self { localnet: Localnet::Leaving, keeps_routers: false }),
        (GROUP + 2, Self { localnet: Localnet::Unused, keeps_routers: true }),
        (GROUP + 3, Self { localnet: Localnet::Ours, keeps_routers: true }),
        (GROUP + 4, Self { localnet: Localnet::Leaving, keeps_routers: true }),
    ];

    /// `None` where another program uses the number. An interface that is gone has the first state.
    pub(crate) fn read(interface: &IfName) -> Option<Self> {
        Self::of(&read(interface).unwrap_or_default())
    }

    /// The same of parameters that were read.
    pub(crate) fn of(parameters: &Parameters) -> Option<Self> {
        Self::ALL.iter().find(|(its, _)| *its == parameters.tag).map(|(_, tag)| *tag)
    }

    /// Another program's number is not replaced: the caller has read this interface's tag.
    ///
    /// # Errors
    /// Where the process may not, or the interface is gone.
    pub(crate) fn write(self, interface: &IfName) -> Result<()> {
        let found = Self::ALL.iter().find(|(_, tag)| *tag == self);
        let number = found.map_or(0, |(number, _)| *number);
        sysctl::write(parameter(interface), &number.to_string())
    }
}

/// The interface's parameters; `None` where it is gone, or has none.
pub(crate) fn read(interface: &IfName) -> Option<Parameters> {
    Socket::route().and_then(|mut socket| socket.parameters(At::Name(interface))).ok().flatten()
}

fn parameter(interface: &IfName) -> String {
    format!("net/ipv4/conf/{interface}/tag")
}
