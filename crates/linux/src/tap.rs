//! Devices for programs in a container.

use std::fs;
use std::path::Path;

use model::{Error, Fact, IfName, Result};
use netlink::wire::Batch;
use netlink::{At, Change, NewTap, Socket};

use crate::plan::Tap;

/// The SELinux context of the calling thread (proc_pid_attr(5)).
const CONTEXT: &str = "/proc/thread-self/attr/current";
/// There where SELinux is.
const SELINUX: &str = "/sys/fs/selinux";

/// Makes the device in the calling thread's namespace, to stay without a program; it stays only
/// when it is complete.
pub(crate) fn make(socket: &mut Socket, new: &Tap) -> Result<()> {
    let (name, tap) = (&new.name, &new.tap);
    let master = tap.bridge.as_ref().map(|bridge| bridge_index(socket, bridge)).transpose()?;
    let wanted = NewTap { name, multi_queue: tap.multi_queue, owner: tap.owner, group: tap.group };
    let device = match &tap.selinux_context {
        None => netlink::Tap::make(&wanted)?,
        Some(context) => labelled(context, || netlink::Tap::make(&wanted))?,
    };
    let mut changes = vec![Change::Group(new.group), Change::Mac(new.mac)];
    changes.extend(new.mtu.map(Change::Mtu));
    changes.extend(master.map(|master| Change::Master(Some(master))));
    let mut batch = Batch::new();
    batch.change_link(At::Name(name), &changes);
    socket.send(&mut batch)?.into_result()?;
    device.stay()
}

fn bridge_index(socket: &mut Socket, bridge: &IfName) -> Result<u32> {
    match socket.link(At::Name(bridge))? {
        Some(link) if link.kind.as_deref() == Some("bridge") => Ok(link.index),
        Some(_) => Err(Error::invalid(format!("{bridge} in the container is not a bridge"))),
        None => {
            let words = format!("failed to get bridge {bridge}: Link not found");
            Err(Error::not_found(format!("there is no bridge {bridge} in the container"))
                .about(Fact::Words(words)))
        }
    }
}

/// Does `work` in this SELinux context: a device has that of the thread which makes it.
fn labelled<T>(context: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    if !Path::new(SELINUX).exists() {
        return Err(Error::unsupported(format!(
            "SELinux context {context:?}: this host has no SELinux"
        )));
    }
    let origin_alias =
        fs::read(CONTEXT).map_err(|error| Error::os("reading the own SELinux context", error))?;
    let enter = |context: &[u8]| fs::write(CONTEXT, context);
    enter(context.as_bytes())
        .map_err(|error| Error::os(format!("taking SELinux context {context:?}"), error))?;
    let worked = work();
    enter(&origin_alias)
        .map_err(|error| Error::os("taking the own SELinux context back", error))?;
    worked
}

#[cfg(test)]
mod tests {
    use model::Kind;

    use super::*;

    #[test]
    fn without_selinux_a_context_is_refused() {
        if Path::new(SELINUX).exists() {
            return;
        }
        let refused = labelled("system_u:system_r:container_t:s0", || Ok(())).unwrap_err();
        assert_eq!(refused.kind(), Kind::Unsupported);
    }
}
