//! Ports that send nothing: of their containers no record can be read, and no rules are there.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use model::{IfName, Result};
use netlink::Socket;
use netlink::nft::{self, Element, Transaction, Tuple};

use super::{
    ATTEMPTS, BOUND, LINKED, MACHINES, SHUT, SOURCES, STAMP, Sender, TABLE, install, ruleset,
};
use crate::filter::fence::{bridge as port_of, bridge_and_address as port_and_address};
use crate::filter::ruleset::{is_raced, settled};

/// Which ports send nothing.
pub(crate) fn ports(socket: &mut Socket) -> Result<BTreeSet<IfName>> {
    of_set(socket, SHUT.name)
}

fn of_set(socket: &mut Socket, set: &str) -> Result<BTreeSet<IfName>> {
    let there = nft::elements(socket, TABLE, set)?;
    Ok(there.iter().filter_map(|element| port_of(&element.key)).collect())
}

/// What the table says of ports.
pub(crate) struct Known {
    /// Those that send from their containers' addresses only.
    pub(crate) bound: BTreeSet<IfName>,
    /// Those of them whose containers have their network's rules.
    pub(crate) linked: BTreeSet<IfName>,
    /// These addresses.
    pub(crate) sources: BTreeMap<IfName, Vec<IpAddr>>,
    /// Those that send nothing.
    pub(crate) shut: BTreeSet<IfName>,
    /// Those of virtual machines.
    pub(crate) machines: BTreeSet<IfName>,
    /// Whether there is the table.
    pub(crate) is_there: bool,
    /// Whether another version made it.
    pub(crate) is_older: bool,
}

impl Known {
    pub(crate) fn read(socket: &mut Socket) -> Result<Self> {
        let mut sources: BTreeMap<IfName, Vec<IpAddr>> = BTreeMap::new();
        for set in SOURCES {
            for element in nft::elements(socket, TABLE, set.name)? {
                if let Some((port, address)) = port_and_address(&element.key) {
                    sources.entry(port).or_default().push(address);
                }
            }
        }
        let is_there = nft::table_handle(socket, TABLE)?.is_some();
        let is_older = is_there && !nft::chain_exists(socket, TABLE, STAMP)?;
        Ok(Self {
            bound: of_set(socket, BOUND.name)?,
            linked: of_set(socket, LINKED.name)?,
            sources,
            shut: ports(socket)?,
            machines: of_set(socket, MACHINES.name)?,
            is_there,
            is_older,
        })
    }
}

fn element(port: &IfName) -> Element {
    Element::of(Tuple::new().interface(port))
}

fn about(doing: &str, port: &IfName) -> String {
    format!("{doing} port {port}, of whose container no record can be read ({TABLE})")
}

/// Has these send nothing from now on.
pub(crate) fn shut<'a>(
    socket: &mut Socket,
    all: impl Iterator<Item = &'a IfName> + Clone,
) -> Result<()> {
    for _ in 0..ATTEMPTS {
        if !nft::chain_exists(socket, TABLE, STAMP)? {
            crate::filter::ensure(socket)?;
            ruleset().ensure(socket)?;
        }
        let mut transaction = Transaction::of_generation(nft::generation(socket)?);
        for port in all.clone() {
            for set in [SHUT.name, BOUND.name] {
                transaction.ensure_element(TABLE, set, &element(port), about("shutting", port));
            }
        }
        if settled(transaction.commit(socket), is_raced)? {
            return Ok(());
        }
    }
    Err(model::Error::try_again(format!("{TABLE} keeps being changed by others")))
}

/// Has these, which are bound, be those of containers with their network's rules.
pub(crate) fn link(socket: &mut Socket, all: &BTreeSet<&IfName>) -> Result<()> {
    for _ in 0..ATTEMPTS {
        let mut transaction = Transaction::of_generation(nft::generation(socket)?);
        for bound in nft::elements(socket, TABLE, BOUND.name)? {
            if let Some(port) = port_of(&bound.key).filter(|port| all.contains(port)) {
                let about = about("keeping the check of", &port);
                transaction.ensure_element(TABLE, LINKED.name, &bound, about);
            }
        }
        if transaction.is_empty() || settled(transaction.commit(socket), is_raced)? {
            return Ok(());
        }
    }
    Err(model::Error::try_again(format!("{TABLE} keeps being changed by others")))
}

/// Lets a port send again what its container may, of which a record can be read by now (`sender`), or which is gone.
pub(crate) fn open(socket: &mut Socket, port: &IfName, sender: Option<&Sender>) -> Result<()> {
    if let Some(sender) = sender {
        install(socket, sender)?;
    }
    let bound = sender.map(Sender::elements).transpose()?.unwrap_or_default();
    let bound = bound.into_iter().find(|(set, _)| *set == BOUND.name).map(|(_, element)| element);
    for _ in 0..ATTEMPTS {
        let mut transaction = Transaction::of_generation(nft::generation(socket)?);
        let key = element(port);
        for (index, there) in nft::find(socket, TABLE, &[(SHUT.name, &key), (BOUND.name, &key)])? {
            // What a container has of its own bears its mark.
            let set = [SHUT.name, BOUND.name].get(index).copied().unwrap_or(SHUT.name);
            if there.comment.is_none() {
                transaction.delete_element(TABLE, set, &there, about("opening", port));
                if let Some(own) = bound.as_ref().filter(|_| set == BOUND.name) {
                    transaction.add_element(TABLE, set, own, about("opening", port));
                }
            }
        }
        if transaction.is_empty() || settled(transaction.commit(socket), is_raced)? {
            return Ok(());
        }
    }
    Err(model::Error::try_again(format!("{TABLE} keeps being changed by others")))
}
