//! Ports of containers that a reboot has ended: the switch's database outlasts it, and neither the device nor
//! the record does.

use std::collections::BTreeSet;

use engine::port::{Presence, Stray};
use model::{Attachment, IfName, Network, NetworkName, Result};
use neutron::ovsdb::{Listed, Ovsdb};

use super::{TIMEOUT, has_device, is_port, of, owner};

/// Ports without a device and without a record, in every database that a network names. `records` is called
/// after the databases. A database that does not answer has none.
pub(in crate::dataplane) fn strays(
    networks: &[Network],
    records: &dyn Fn() -> Result<Vec<Attachment>>,
) -> Result<Vec<(Stray, Presence)>> {
    let segments = networks.iter().filter_map(|network| of(network.wiring.link.as_ref()));
    let databases: BTreeSet<&str> = segments.map(|ovs| ovs.database.as_str()).collect();
    let dead = |database: &str| -> Vec<Stray> {
        let dead = Ovsdb::connect_within(database, TIMEOUT).and_then(|mut it| dead(&mut it));
        let stray = |Listed { end: name, owner, .. }| Stray::SwitchPort {
            database: database.to_owned(),
            name,
            owner,
        };
        dead.unwrap_or_default().into_iter().map(stray).collect()
    };
    let dead: Vec<Stray> = databases.into_iter().flat_map(dead).collect();
    if dead.is_empty() {
        return Ok(Vec::new());
    }
    let known: BTreeSet<String> =
        records()?.iter().filter(|it| is_port(it)).map(|it| owner(&it.id)).collect();
    let mut strays = Vec::new();
    for stray in dead {
        let Stray::SwitchPort { name, owner, .. } = &stray else { continue };
        if !known.contains(owner) && !has_device(name)? {
            strays.push((stray, Presence::Gone));
        }
    }
    Ok(strays)
}

/// Whether a port of this owner is the record's.
pub(in crate::dataplane) fn is_of(owner_of_port: &str, record: &Attachment) -> bool {
    is_port(record) && owner(&record.id) == owner_of_port
}

/// Removes one that is still there, and still without a device.
pub(in crate::dataplane) fn remove_stray(database: &str, name: &IfName, owner: &str) -> Result<()> {
    match has_device(name)? {
        true => Ok(()),
        false => Ovsdb::connect_within(database, TIMEOUT)?.remove_dead(name, owner).map(drop),
    }
}

/// Removes those of a network.
pub(super) fn remove_of(network: &NetworkName, database: &str) -> Result<()> {
    let mut database = Ovsdb::connect_within(database, TIMEOUT)?;
    let prefix = format!("{network}/");
    let of_network = |it: &Listed| it.owner.starts_with(&prefix);
    for Listed { end, owner, .. } in dead(&mut database)?.into_iter().filter(of_network) {
        database.remove_dead(&end, &owner)?;
    }
    Ok(())
}

fn dead(database: &mut Ovsdb) -> Result<Vec<Listed>> {
    let mut listed = database.listed()?;
    listed.retain(|it| it.is_dead && !it.is_tunnel());
    Ok(listed)
}
