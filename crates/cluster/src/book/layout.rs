//! Which layout a cluster has: the latest that every member's program knows.

use model::{Error, Result};

use crate::layout_version::{LATEST, OLDEST};
use crate::port::{Cluster, Expect, Txn};
use crate::record::{Key, Record};
use crate::view::View;

/// Fails with `Unsupported` where a program of a layout that this one does not know has written.
///
/// # Errors
/// As said.
pub fn refuse_other_layout(view: &View) -> Result<()> {
    match view.layout {
        None | Some(OLDEST..=LATEST) => Ok(()),
        Some(other) => Err(Error::unsupported(format!(
            "the cluster's records have layout {other}, and this Spoke knows {OLDEST} and {LATEST}: \
             install the version of the other hosts"
        ))),
    }
}

/// Gives the cluster the layout of this program where every member's program knows it. A member that is
/// not heard of could come back with an older one, so it is waited for, or removed.
///
/// # Errors
/// As the cluster's.
pub fn raise_layout(cluster: &impl Cluster, view: &View) -> Result<()> {
    let knows = |host| view.layouts.get(host).is_some_and(|layout| *layout >= LATEST);
    if view.layout.is_none_or(|layout| layout >= LATEST) || !view.hosts.keys().all(knows) {
        return Ok(());
    }
    let txn = Txn::default().require(Key::Layout, Expect::Present);
    cluster.commit(&txn.put(Key::Layout, Record::Layout(LATEST))).map(drop)
}
