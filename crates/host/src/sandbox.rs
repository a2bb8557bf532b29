//! Reads the interfaces of a container's network namespace.

use std::path::Path;

use docker::driver::Within;
use model::{Error, Kind, Namespace, Result, Sandbox};
use netlink::{Links, Netns, Socket};

/// The interfaces in the namespace at `path`; `None` if there is no namespace there.
///
/// # Errors
/// `Invalid` where it is that of this process.
pub fn inspect(path: &Path) -> Result<Option<Within>> {
    let sandbox = match Netns::open(path) {
        Ok(sandbox) => sandbox,
        Err(error) if error.kind() == Kind::Invalid => return Ok(None),
        Err(error) => return Err(error),
    };
    refuse_own(&sandbox, path)?;
    let links = sandbox.enter(|| Socket::route()?.links(Links::default()))??;
    let links = links.into_iter().map(|link| link.name).collect();
    Ok(Some(Within { inode: sandbox.inode(), links }))
}

/// The kernel's id of the sandbox's namespace; `None` where another one is at its path.
pub(crate) fn namespace(sandbox: &Sandbox) -> Result<Option<Namespace>> {
    let there = Netns::open(&sandbox.path)?;
    if there.inode() != sandbox.inode {
        return Ok(None);
    }
    let seen_from = Netns::current()?.inode();
    let number = Socket::route()?.namespace_id(&there)?;
    Ok(Some(Namespace { inode: sandbox.inode, seen_from, number }))
}

/// Whether the namespace is gone: the kernel takes its number away at its end and at no other time.
pub(crate) fn is_ended(namespace: &Namespace) -> Result<bool> {
    let is_seen_from_here = Netns::current()?.inode() == namespace.seen_from;
    Ok(is_seen_from_here && !Socket::route()?.namespace_ids()?.contains(&namespace.number))
}

/// A container's parameters must never be set in the host.
fn refuse_own(sandbox: &Netns, path: &Path) -> Result<()> {
    match sandbox.is_same(&Netns::current()?) {
        false => Ok(()),
        true => {
            let path = path.display();
            Err(Error::invalid(format!("{path} is this host's network namespace, no container's")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_no_sandbox() {
        let own = Path::new("/proc/self/ns/net");
        let refused = refuse_own(&Netns::open(own).unwrap(), own).unwrap_err();
        assert!(refused.to_string().contains("no container's"), "{refused}");
    }
}
