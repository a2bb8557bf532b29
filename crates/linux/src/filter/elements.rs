//! A container's elements: adding, removing and finding them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU16;

use model::{
    Error, Family, IfName, IngressPolicy, Kind, Passage, PortMap, Protocol, Reach, Result,
};
use netlink::nft::{self, Comment, Element, Transaction};
use netlink::{Errno, Socket};

use super::entry::Entry;
use super::owner::Owner;
use super::ruleset::{self, OWNED, TABLE};
use super::shared::{self, Shared};

/// In each attempt but the last one another process had changed an element in between.
const ATTEMPTS: usize = 16;

/// Everything that the table knows about one owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elements {
    owner: Owner,
    entries: BTreeSet<Entry>,
    /// The bridge, where its network is internal.
    internal: Option<IfName>,
    /// The bridge, and who reaches its network by routes, where that is decided.
    judged: Option<(IfName, Passage)>,
}

impl Elements {
    /// Nothing yet.
    pub fn new(owner: Owner) -> Self {
        Self { owner, entries: BTreeSet::new(), internal: None, judged: None }
    }

    /// Those that the other ones are not.
    #[must_use]
    pub fn without(&self, others: &Self) -> Self {
        let entries = self.entries.difference(&others.entries).cloned().collect();
        let internal = self.internal.clone().filter(|_| self.internal != others.internal);
        let judged = self.judged.clone().filter(|_| self.judged != others.judged);
        Self { owner: self.owner.clone(), entries, internal, judged }
    }

    /// The owner of the elements.
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// The entries.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.internal.is_none() && self.judged.is_none()
    }

    /// Adds a port of the host that leads to `container`. A port on an address of the other family
    /// does not concern this address and is left out; the unspecified address stands for every one.
    /// Of a port that is named twice the first counts, as with the reference plugin's rules.
    pub fn publish(&mut self, port: &PortMap, container: IpAddr) -> &mut Self {
        if port.host.is_some_and(|host| host.is_ipv4() != container.is_ipv4()) {
            return self;
        }
        let entry = |to, to_port| Entry::Port {
            host: port.host.filter(|host| !host.is_unspecified()),
            protocol: port.protocol,
            host_port: port.host_port.get(),
            to,
            to_port,
        };
        let nowhere = Family::of(&model::host_net(container)).unspecified();
        let next = self.entries.range(entry(nowhere, 0)..).next();
        match next.is_some_and(|next| next.is_same_port(&entry(container, 0))) {
            true => self,
            false => self.add(entry(container, port.container_port.get())),
        }
    }

    /// The container's neighbours, and itself, reach its published ports too.
    pub fn hairpin(&mut self, behind: &IfName, container: IpAddr) -> &mut Self {
        self.add(Entry::Hairpin(behind.clone(), container))
    }

    /// All clients of the container's published ports appear as the host.
    pub fn masquerade_all(&mut self, container: IpAddr) -> &mut Self {
        self.add(Entry::MasqueradeAll(container))
    }

    /// From where the container's published ports are reached, besides its own network.
    pub fn reach(&mut self, reach: Reach, container: IpAddr) -> &mut Self {
        match reach {
            Reach::Any => self,
            Reach::Lan => self.add(Entry::LanOnly(container)),
            Reach::Local => self.add(Entry::LocalOnly(container)),
        }
    }

    /// Nothing passes between the containers behind this interface and anything else.
    pub fn internal(&mut self, behind: &IfName) -> &mut Self {
        self.internal = Some(behind.clone());
        self
    }

    /// Restricts routes to the addresses behind this interface to served ports, for the clients of
    /// the passage.
    pub fn judge(&mut self, behind: &IfName, passage: &Passage) -> &mut Self {
        self.judged = (!passage.is_unjudged()).then(|| (behind.clone(), passage.clone()));
        self
    }

    /// Opens the container's port at its own address for the clients of its network's passage.
    pub fn serve(
        &mut self,
        container: IpAddr,
        (protocol, port): (Protocol, NonZeroU16),
    ) -> &mut Self {
        self.add(Entry::Served(container, protocol, port.get()))
    }

    /// The container's network is behind this interface, a bridge.
    pub fn home(&mut self, behind: &IfName, container: IpAddr) -> &mut Self {
        self.add(Entry::Home(behind.clone(), container))
    }

    /// The container's gateway is another interface than this, its bridge.
    pub fn switched(&mut self, bridge: &IfName, container: IpAddr) -> &mut Self {
        self.add(Entry::Switched(bridge.clone(), container))
    }

    /// The container is behind an interface of its own, and reaches its network by routes.
    pub fn routed(&mut self, container: IpAddr) -> &mut Self {
        self.add(Entry::Routed(container))
    }

    /// Translates the source of what the container sends out of its network to the host's address.
    pub fn masquerade(&mut self, container: IpAddr) -> &mut Self {
        self.add(Entry::Masquerade(container))
    }

    /// Translates the source of what the container sends out of its network to this address of the
    /// host.
    pub fn masquerade_as(&mut self, container: IpAddr, host: IpAddr) -> &mut Self {
        self.add(Entry::Source(container, host))
    }

    /// From where the container is reached. Of `isolated` this is what passes the host; that
    /// neighbours on the same bridge do not reach each other is an attribute of their ports
    /// (`IFLA_BRPORT_ISOLATED`).
    pub fn ingress(
        &mut self,
        policy: IngressPolicy,
        bridge: &IfName,
        container: IpAddr,
    ) -> &mut Self {
        match policy {
            IngressPolicy::Open => self,
            IngressPolicy::SameBridge => self.add(Entry::Guarded(bridge.clone(), container)),
            IngressPolicy::Isolated => self.add(Entry::Isolated(bridge.clone(), container)),
        }
    }

    /// Others do not reach the container, or only its published ports: no connection begins elsewhere with its address.
    pub fn apart(&mut self, container: IpAddr) -> &mut Self {
        self.add(Entry::Apart(container))
    }

    /// The container has a port at the host's loopback addresses.
    pub fn at_loopback(&mut self, behind: &IfName, container: Ipv4Addr) -> &mut Self {
        self.add(Entry::AtLoopback(behind.clone(), container))
    }

    fn add(&mut self, entry: Entry) -> &mut Self {
        self.entries.insert(entry);
        self
    }

    /// The entries with their sets and elements, in the order of the entries.
    fn listed(&self) -> Vec<Listed<'_>> {
        self.entries
            .iter()
            .map(|entry| {
                let (set, element) = entry.element(&self.owner.0);
                Listed { entry, set, element }
            })
            .collect()
    }

    /// The elements that are not the owner's alone.
    fn shared(&self) -> BTreeSet<Shared> {
        let mut policed: BTreeSet<Shared> =
            self.entries.iter().filter_map(Entry::policed).map(Shared::policed).collect();
        if !policed.is_empty() {
            policed.extend(Shared::dockers_way_out());
        }
        policed.extend(self.internal.iter().flat_map(Shared::internal));
        if let Some((bridge, passage)) = &self.judged {
            policed.extend(Shared::judged(bridge, passage));
        }
        policed
    }
}

/// An entry, and where it is.
struct Listed<'a> {
    entry: &'a Entry,
    set: &'static str,
    element: Element,
}

impl Listed<'_> {
    fn about(&self, doing: &str) -> String {
        format!("{doing} {} ({} of {TABLE})", self.entry, self.set)
    }
}

/// Adds the elements, all or none, and makes the table if it is missing. An existing one with the
/// same owner and meaning stays; one of an earlier holder of the container's address is replaced,
/// if that holder `is_gone`.
///
/// # Errors
/// [`Kind::Conflict`] if a port leads to another container, or a holder that is not gone has the
/// container's address, naming the element and the owner; the errors of `is_gone`.
pub fn install(
    socket: &mut Socket,
    elements: &Elements,
    is_gone: impl Fn(&Owner) -> Result<bool>,
) -> Result<()> {
    if elements.is_empty() {
        return Ok(());
    }
    install_beside(socket, (elements, &elements.listed()), BTreeMap::new(), is_gone)
}

/// As [`install`], where the wanted elements with these indexes seem to be `present`. A transaction that meets one
/// unexpectedly costs a grace period of RCU when the kernel takes it back.
fn install_beside(
    socket: &mut Socket,
    (elements, wanted): (&Elements, &[Listed<'_>]),
    mut present: BTreeMap<usize, Element>,
    is_gone: impl Fn(&Owner) -> Result<bool>,
) -> Result<()> {
    for _ in 0..ATTEMPTS {
        ruleset::ensure(socket)?;
        let outcome = installing(elements, wanted, &present, &is_gone)?.commit(socket);
        // EEXIST: an element that was not expected. ENOENT: an expected one is gone, or the table.
        if ruleset::settled(outcome, |failure| {
            matches!(failure.errno, Errno::EXIST | Errno::NOENT)
        })? {
            return Ok(());
        }
        present = found(socket, wanted)?;
    }
    Err(Error::try_again(format!("the elements of {} in {TABLE} keep changing", elements.owner)))
}

/// The changes where the wanted elements with these indexes are `present`.
fn installing(
    elements: &Elements,
    wanted: &[Listed<'_>],
    present: &BTreeMap<usize, Element>,
    is_gone: &dyn Fn(&Owner) -> Result<bool>,
) -> Result<Transaction> {
    let mut transaction = Transaction::new();
    elements.shared().iter().for_each(|shared| shared.add(&mut transaction));
    for (index, listed) in wanted.iter().enumerate() {
        match present.get(&index) {
            Some(there) if *there == listed.element => continue,
            Some(there) => {
                yields(listed, there, elements.owner(), is_gone)?;
                let about = listed.about("replacing");
                transaction.delete_element(TABLE, listed.set, there, about);
            }
            None => {}
        }
        if let Some(counter) = &listed.element.counter {
            transaction.ensure_counter(TABLE, counter);
        }
        transaction.add_element(TABLE, listed.set, &listed.element, listed.about("adding"));
    }
    Ok(transaction)
}

/// Whether the element that is `there` may be replaced: by its owner, and by the holder of the
/// address once its owner is gone. Without an owner's comment it has no owner.
fn yields(
    listed: &Listed<'_>,
    there: &Element,
    owner: &Owner,
    is_gone: &dyn Fn(&Owner) -> Result<bool>,
) -> Result<()> {
    if there.comment.as_ref() == Some(&owner.0) {
        return Ok(());
    }
    let set = OWNED.into_iter().flatten().find(|set| set.name == listed.set);
    let meant = set.and_then(|set| Entry::read(set, there));
    let same_address = meant.as_ref().is_some_and(|m| m.address() == listed.entry.address());
    let other = there.comment.clone().map(Owner);
    if same_address && other.as_ref().map_or(Ok(true), is_gone)? {
        return Ok(());
    }
    let by = other.as_ref().map_or("another program", Owner::as_str);
    let what = meant.map_or_else(|| listed.entry.to_string(), |meant| meant.to_string());
    Err(Error::conflict(format!("{} is taken by {by}, which has {what}", listed.entry)))
}

/// Takes the elements out that exist and have this owner. A missing table is done.
///
/// # Errors
/// Where the process may not change the table; [`Kind::TryAgain`] if others keep changing it.
pub fn remove(socket: &mut Socket, elements: &Elements) -> Result<()> {
    take_out(socket, elements, is_owned(elements))
}

/// Adds what [`remove`] does to a transaction. ENOENT: another process is removing them too.
pub(super) fn plan_removal(
    socket: &mut Socket,
    elements: &Elements,
    transaction: &mut Transaction,
) -> Result<()> {
    plan(socket, &elements.listed(), is_owned(elements), transaction)
}

fn is_owned(elements: &Elements) -> impl Fn(&Element, &Listed<'_>) -> bool {
    |there, _| there.comment.as_ref() == Some(&elements.owner.0)
}

/// As [`remove`], of those alone that lead where these do.
///
/// # Errors
/// As [`remove`].
pub(crate) fn remove_same(socket: &mut Socket, elements: &Elements) -> Result<()> {
    take_out(socket, elements, |there, listed| *there == listed.element)
}

fn take_out(
    socket: &mut Socket,
    elements: &Elements,
    is_one: impl Fn(&Element, &Listed<'_>) -> bool,
) -> Result<()> {
    let unwanted = elements.listed();
    for _ in 0..ATTEMPTS {
        let mut transaction = Transaction::new();
        plan(socket, &unwanted, &is_one, &mut transaction)?;
        // ENOENT: another process is removing them too.
        if ruleset::settled(transaction.commit(socket), |failure| failure.errno == Errno::NOENT)? {
            return Ok(());
        }
    }
    Err(Error::try_again(format!("the elements of {} in {TABLE} keep changing", elements.owner)))
}

fn plan(
    socket: &mut Socket,
    unwanted: &[Listed<'_>],
    is_one: impl Fn(&Element, &Listed<'_>) -> bool,
    transaction: &mut Transaction,
) -> Result<()> {
    for (index, there) in found(socket, unwanted)? {
        let Some(listed) = unwanted.get(index) else { continue };
        if is_one(&there, listed) {
            transaction.delete_element(TABLE, listed.set, &there, listed.about("removing"));
        }
    }
    Ok(())
}

/// Whether all elements are present, with their owner, and the table is complete.
///
/// # Errors
/// [`Kind::NotFound`] naming the first one that is missing, [`Kind::Conflict`] one with another
/// owner.
pub fn verify(socket: &mut Socket, elements: &Elements) -> Result<()> {
    let wanted = elements.listed();
    if elements.is_empty() {
        return Ok(());
    }
    ruleset::verify(socket)?;
    let present = found(socket, &wanted)?;
    for (index, listed) in wanted.iter().enumerate() {
        match present.get(&index) {
            None => return Err(Error::not_found(listed.about("missing:"))),
            Some(there) if *there != listed.element => {
                let what = listed.about("belongs to another program:");
                return Err(Error::new(Kind::Conflict, what));
            }
            Some(_) => {}
        }
    }
    shared::verify(socket, &elements.shared())
}

/// As [`install`], for elements that are mostly present: reads first, and returns whether any was
/// missing.
///
/// # Errors
/// As [`install`].
pub fn restore(
    socket: &mut Socket,
    elements: &Elements,
    is_gone: impl Fn(&Owner) -> Result<bool>,
) -> Result<bool> {
    let wanted = elements.listed();
    let present = found(socket, &wanted)?;
    let all =
        (0..).zip(&wanted).all(|(index, listed)| present.get(&index) == Some(&listed.element));
    if all && shared::missing(socket, &elements.shared())?.is_none() {
        return Ok(false);
    }
    if !elements.is_empty() {
        install_beside(socket, (elements, &wanted), present, is_gone)?;
    }
    Ok(true)
}

/// Everything that the table knows about `owner`, for when its record was lost. It reads the
/// whole table.
///
/// # Errors
/// As [`nft::elements`].
pub fn find_owned(socket: &mut Socket, owner: &Owner) -> Result<Elements> {
    let mut elements = Elements::new(owner.clone());
    each(socket, |entry, comment| {
        if comment == Some(&owner.0) {
            elements.entries.insert(entry);
        }
    })?;
    Ok(elements)
}

/// Every owner, with the number of its elements. It reads the whole table.
///
/// # Errors
/// As [`nft::elements`].
pub fn list_owners(socket: &mut Socket) -> Result<BTreeMap<Owner, usize>> {
    let mut owners = BTreeMap::new();
    each(socket, |_, comment| {
        if let Some(owner) = comment.and_then(|comment| comment.as_str().parse().ok()) {
            *owners.entry(owner).or_default() += 1;
        }
    })?;
    Ok(owners)
}

/// The owner of a port of the host, on exactly this address or on every one.
///
/// # Errors
/// As [`nft::find`].
pub fn holder(socket: &mut Socket, port: &PortMap) -> Result<Option<Owner>> {
    let nowhere: [IpAddr; 2] = [[0; 4].into(), [0; 16].into()];
    let owner: Owner = "-".parse()?;
    for container in nowhere {
        let mut asked = Elements::new(owner.clone());
        let listed = asked.publish(port, container).listed();
        if let Some((_, there)) = found(socket, &listed)?.into_iter().next() {
            return Ok(there.comment.map(Owner));
        }
    }
    Ok(None)
}

/// The elements that have the keys of `listed`, by their index.
fn found(socket: &mut Socket, listed: &[Listed<'_>]) -> Result<BTreeMap<usize, Element>> {
    let keys: Vec<_> = listed.iter().map(|listed| (listed.set, &listed.element)).collect();
    Ok(nft::find(socket, TABLE, &keys)?.into_iter().collect())
}

fn each(socket: &mut Socket, mut see: impl FnMut(Entry, Option<&Comment>)) -> Result<()> {
    for set in OWNED.into_iter().flatten() {
        for element in nft::elements(socket, TABLE, set.name)? {
            if let Some(entry) = Entry::read(set, &element) {
                see(entry, element.comment.as_ref());
            }
        }
    }
    Ok(())
}
