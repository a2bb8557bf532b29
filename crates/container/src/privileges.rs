//! The privileges of a process in a container, from its first instruction.

use rustix::io::Errno;
use rustix::process::{Gid, Uid, umask};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set,
    clear_ambient_capability_set, configure_capability_in_ambient_set,
    remove_capability_from_bounding_set, set_capabilities, set_keep_capabilities, set_no_new_privs,
    set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

use crate::fault::{Doing, Fault};
use crate::seccomp;
use crate::spec::Process;
use crate::sys;

/// The privileges of all processes of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Privileges {
    /// Capabilities as a mask, beside which system calls are filtered; `None` for all that the
    /// caller has.
    pub(crate) capabilities: Option<u64>,
    pub(crate) no_new_privileges: bool,
}

/// The user of a process.
#[derive(Clone, Debug)]
pub(crate) struct User {
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
}

impl User {
    pub(crate) fn of(process: &Process) -> Self {
        Self { uid: process.uid, gid: process.gid, groups: process.groups.clone() }
    }
}

/// Makes the calling process `user` with `privileges`, and with nothing else.
pub(crate) fn assume(user: &User, privileges: Privileges) -> Result<(), Fault> {
    // While it may: without the right to do this one would have to give up all others permanently.
    if let Some(mask) = privileges.capabilities {
        sys::filter(&seccomp::filter(mask)).doing("filtering system calls")?;
    }
    let all = capabilities(None).doing("reading capabilities")?.permitted;
    let set = privileges.capabilities.map_or(all, CapabilitySet::from_bits_retain);
    umask(rustix::fs::Mode::from_raw_mode(0o022));
    bound(set)?;
    become_user(user)?;
    let sets = CapabilitySets { effective: set, permitted: set, inheritable: set };
    set_capabilities(None, sets).doing("setting capabilities; the caller lacks some of them")?;
    clear_ambient_capability_set().doing("clearing ambient capabilities")?;
    for one in each(set) {
        let raised = configure_capability_in_ambient_set(one, true);
        raised.doing("setting ambient capabilities")?;
    }
    if privileges.no_new_privileges {
        set_no_new_privs(true).doing("setting no_new_privs")?;
    }
    Ok(())
}

fn bound(set: CapabilitySet) -> Result<(), Fault> {
    for one in each(CapabilitySet::from_bits_retain(u64::MAX)) {
        match capability_is_in_bounding_set(one) {
            Ok(true) if !set.contains(one) => {
                let removed = remove_capability_from_bounding_set(one);
                removed.doing("bounding capabilities")?;
            }
            Ok(_) => {}
            // The kernel knows no more.
            Err(_) => break,
        }
    }
    Ok(())
}

fn each(set: CapabilitySet) -> impl Iterator<Item = CapabilitySet> {
    let bits = set.bits();
    (0..64)
        .map(|number| 1 << number)
        .filter(move |bit| bits & bit != 0)
        .map(CapabilitySet::from_bits_retain)
}

fn become_user(user: &User) -> Result<(), Fault> {
    let groups: Vec<_> = user.groups.iter().map(|gid| Gid::from_raw(*gid)).collect();
    match set_thread_groups(&groups) {
        // In a user namespace of an unprivileged user the groups cannot be changed.
        Err(Errno::PERM) if groups.is_empty() => {}
        result => result.doing("setting groups")?,
    }
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    set_thread_res_gid(gid, gid, gid).wanted(format_args!("becoming group {}", user.gid))?;
    set_keep_capabilities(true).doing("keeping capabilities")?;
    set_thread_res_uid(uid, uid, uid).wanted(format_args!("becoming user {}", user.uid))?;
    set_keep_capabilities(false).doing("keeping capabilities")
}
