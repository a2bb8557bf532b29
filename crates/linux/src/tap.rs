//! Devices for programs in a container.

use model::{Error, Result};
use netlink::{At, Change, Socket};

use crate::plan::Tap;

/// Makes the device in the calling thread's namespace, to stay without a program.
pub(crate) fn make(socket: &mut Socket, tap: &Tap) -> Result<()> {
    let _ = (socket, At::Index(0), Change::Group(0));
    Err(Error::unsupported(format!("making tap {}", tap.name)))
}
