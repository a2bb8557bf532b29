//! Allocates and releases subnets.
//!
//! Two subnets that overlap have different keys, so the store alone does not exclude them.
//! Therefore a process that allocated one checks again afterwards, and the later of two yields.

use std::collections::BTreeSet;

use model::{
    Error, Family, IpNet, Kind, Network, NetworkName, Order, Pool, Result, Runtime, Space, Stage,
    Subnet, SubnetId, overlap,
};

use crate::Subnets;
use crate::addresses::free::{Occupancy, check_subnet};
use crate::port::{Expect, Key, Occupied, Outcome, Outline, Prefix, Record, Revision, Txn, spans};
use crate::records::book::{Read, unchanged};
use crate::records::neighbours::Neighbours;
use crate::subnets::{SubnetRequest, SubnetSpec};

/// How often a lost race is run again.
const RACES: usize = 200;

impl Subnets<'_> {
    /// Allocates a subnet.
    ///
    /// Where the request names a network that exists, its subnet is shared, and counted; one that
    /// only a configuration described is declared from then on. Otherwise the subnet must overlap
    /// nothing that is allocated, declared or in use: `Conflict` names the holder and proposes
    /// others. The same subnet may be allocated in parts that do not overlap.
    pub fn request_subnet(&self, request: &SubnetRequest) -> Result<Subnet> {
        for _ in 0..RACES {
            let tried = match self.shared(request)? {
                Some(offer) => self.share(request, offer)?,
                None => self.claim_subnet(request)?,
            };
            if let Some(subnet) = tried {
                return Ok(subnet);
            }
        }
        Err(Error::try_again(format!("requesting a subnet: lost {RACES} races in a row")))
    }

    /// The subnet that the request shares with others, if there is one.
    fn shared(&self, request: &SubnetRequest) -> Result<Option<Offer>> {
        let Some(name) = &request.network else { return Ok(None) };
        if request.space.has_networks()
            && let Some((key, read)) = self.made(name)?
        {
            return offer(request, key, read).map(Some);
        }
        let SubnetSpec::Exactly { net, part } = request.spec else { return Ok(None) };
        let id = SubnetId { space: request.space.clone(), net, part };
        let known = self.records.subnet_of(&id)?.filter(|read| read.value.network == *name);
        Ok(known.map(|read| Offer { id, order: read.value.order, network: None }))
    }

    /// The network of this name, and where it is written.
    fn made(&self, name: &NetworkName) -> Result<Option<(Key, Read<Box<Network>>)>> {
        for key in [Key::Network(name.clone()), Key::Configured(name.clone())] {
            if let Some(mut read) = self.records.network_under(&key)? {
                if !key.is_durable() {
                    read.value = self.records.refuse_closed(read.value)?;
                }
                return Ok(Some((key, read)));
            }
        }
        Ok(None)
    }

    fn share(&self, request: &SubnetRequest, offer: Offer) -> Result<Option<Subnet>> {
        let name = request.network.clone();
        let known = self.records.subnet_of(&offer.id)?;
        let subnet = match known.as_ref().map(|read| &read.value) {
            None => {
                let name = name.ok_or_else(|| Error::bug("a share without a network"))?;
                self.fresh(request, offer.id.clone(), name, offer.order)
            }
            Some(subnet) if Some(&subnet.network) == name.as_ref() => {
                self.refuse_repetition(request, subnet)?;
                let references = subnet.references.saturating_add(1);
                Subnet { references, since: self.host.now(), ..subnet.clone() }
            }
            Some(subnet) => return Err(taken(subnet)),
        };
        let key = Key::Subnet(offer.id);
        let mut txn = Txn::new().require(key.clone(), unchanged(known.as_ref()));
        if let Some((at, read)) = offer.network {
            txn = txn.require(at.clone(), Expect::At(read.revision));
            if !at.is_durable() {
                let declared = Key::Network(read.value.name.clone());
                let expect = Expect::Absent;
                txn = txn
                    .require(declared.clone(), expect)
                    .put(declared, Record::Network(read.value));
            }
        }
        Ok(match self.store.commit(&txn.put(key, Record::Subnet(subnet.clone())))? {
            Outcome::Done(_) => Some(subnet),
            Outcome::Lost(_) => None,
        })
    }

    /// A runtime that does not like a subnet of our choice keeps it and asks for another one
    /// (libnetwork does so, without an end, where this host has a route to it). Of a network that is
    /// shared there is no other one. A request that is older was not repeated: its network is gone, and its release
    /// was lost.
    fn refuse_repetition(&self, request: &SubnetRequest, subnet: &Subnet) -> Result<()> {
        let SubnetSpec::Any { .. } = request.spec else { return Ok(()) };
        let aliases = self.records.aliases_in(&Prefix::Aliases)?;
        let made = aliases.iter().filter(|read| read.value.network == subnet.network).count();
        let has_surplus = usize::try_from(subnet.references).unwrap_or(usize::MAX) > made;
        if !has_surplus || !self.is_young(subnet) {
            return Ok(());
        }
        Err(Error::conflict(format!(
            "subnet {} of network {} was requested before and no network was made of it: a runtime \
             may refuse a subnet that this host has a route to unless the subnet itself is given \
             (--subnet {})",
            subnet.id.net, subnet.network, subnet.id.net
        )))
    }

    fn claim_subnet(&self, request: &SubnetRequest) -> Result<Option<Subnet>> {
        let spec = match request.spec {
            SubnetSpec::Exactly { net, part } => {
                Some(SubnetId { space: request.space.clone(), net, part })
            }
            SubnetSpec::Any { .. } => None,
        };
        let taken = self.subnets_taken(&request.space, spec.as_ref(), request.despite_others)?;
        let (net, part) = match request.spec {
            SubnetSpec::Exactly { net, part } => {
                check_subnet(&net)?;
                check_part(&net, part.as_ref())?;
                taken.refuse_overlap(&net)?;
                (net, part)
            }
            SubnetSpec::Any { family, prefix_len } => (taken.choose(family, prefix_len)?, None),
        };
        let id = SubnetId { space: request.space.clone(), net, part };
        let name = match &request.network {
            Some(name) => name.clone(),
            None => self.minted(&id, request.runtime)?,
        };
        let subnet = self.fresh(request, id.clone(), name, request.order);
        let key = Key::Subnet(id.clone());
        let txn = Txn::new()
            .require(key.clone(), Expect::Absent)
            .put(key.clone(), Record::Subnet(subnet.clone()));
        let Outcome::Done(revision) = self.store.commit(&txn)? else { return Ok(None) };
        if !self.has_earlier(&id, revision)? {
            return Ok(Some(subnet));
        }
        self.store.commit(&Txn::new().require(key.clone(), Expect::At(revision)).delete(key))?;
        Ok(None)
    }

    fn fresh(
        &self,
        request: &SubnetRequest,
        id: SubnetId,
        network: NetworkName,
        order: Order,
    ) -> Subnet {
        Subnet {
            id,
            network,
            runtime: request.runtime,
            since: self.host.now(),
            references: 1,
            order,
            sticky: request.sticky,
            listed: false,
            lister: None,
        }
    }

    /// Whether something that overlaps was there before the subnet was written.
    fn has_earlier(&self, id: &SubnetId, revision: Revision) -> Result<bool> {
        let is_near = |space: &str, net: &IpNet| space == id.space.label() && overlap(net, &id.net);
        let Neighbours { networks, subnets: others } = self.records.neighbours(|it| match it {
            Outline::Subnet { space, net, .. } | Outline::Net { space, net, .. } => {
                is_near(space, net)
            }
            Outline::Bridge { .. } | Outline::Title { .. } => false,
        })?;
        let clashes = |other: &Read<Subnet>| {
            other.value.id != *id && other.revision < revision && !coexist(id, &other.value.id)
        };
        if others.iter().any(clashes) {
            return Ok(true);
        }
        if !id.space.has_networks() {
            return Ok(false);
        }
        let earlier = networks.iter().filter(|read| read.revision < revision);
        Ok(earlier
            .filter(|read| {
                !others.iter().any(|other| speaks_for(&other.value, id, &read.value.name))
            })
            .any(|read| nets(&read.value, &id.space).any(|net| overlap(&net, &id.net))))
    }

    /// The subnets in use on this host. Those in use outside the store are only avoided.
    pub fn occupancy(&self) -> Result<Occupancy> {
        self.occupancy_of(&Space::Host)
    }

    /// The subnets in use in a space.
    pub fn occupancy_of(&self, space: &Space) -> Result<Occupancy> {
        self.subnets_taken(space, None, true)
    }

    /// The subnets that others may not have in the space: all except parts beside the request.
    fn subnets_taken(
        &self,
        space: &Space,
        spec: Option<&SubnetId>,
        despite_others: bool,
    ) -> Result<Occupancy> {
        let mut occupancy = Occupancy { site: self.host.site(), ..Occupancy::default() };
        let mut declared = Vec::new();
        let mut spoken_for = BTreeSet::new();
        self.store.outline(&mut |outline| match *outline {
            Outline::Subnet { network, runtime, space: its, net, part } if its == space.label() => {
                let id = SubnetId { space: space.clone(), net, part };
                if spec.is_some_and(|spec| net == spec.net) {
                    spoken_for.insert(network.to_owned());
                }
                if !spec.is_some_and(|spec| coexist(spec, &id)) {
                    occupancy.refused.push(Occupied { net, by: holder(runtime, network) });
                }
            }
            Outline::Net { network, runtime, space: its, net } if its == space.label() => {
                declared.push((network.to_owned(), Occupied { net, by: holder(runtime, network) }));
            }
            Outline::Subnet { .. }
            | Outline::Net { .. }
            | Outline::Bridge { .. }
            | Outline::Title { .. } => {}
        })?;
        if !space.has_networks() {
            return Ok(occupancy);
        }
        let declared = declared.into_iter().filter(|(name, _)| !spoken_for.contains(name));
        occupancy.refused.extend(declared.map(|(_, occupied)| occupied));
        for network in self.configured_in_use(space)? {
            if !spoken_for.contains(network.name.as_str()) {
                let by = holder(network.runtime, network.name.as_str());
                let occupied = |net: IpNet| Occupied { net, by: by.clone() };
                occupancy.refused.extend(nets(&network, space).map(occupied));
            }
        }
        if *space != Space::Host {
            // The host's own routes are not in a tenant's space.
            return Ok(occupancy);
        }
        let others = self.host.occupied()?;
        match despite_others {
            false => occupancy.refused.extend(others),
            true => occupancy.avoided.extend(others.into_iter().map(|other| other.net)),
        }
        Ok(occupancy)
    }

    /// Networks of the space that only a configuration describes, and that have attachments.
    fn configured_in_use(&self, space: &Space) -> Result<Vec<Network>> {
        let mut networks = Vec::new();
        for Read { value: network, .. } in self.records.networks_in(&Prefix::Configured)? {
            let members = Prefix::AttachmentsOf(network.name.clone());
            if nets(&network, space).next().is_some()
                && !self.records.is_declared(&network.name)?
                && !self.records.attachments_in(&members)?.is_empty()
            {
                networks.push(*network);
            }
        }
        Ok(networks)
    }

    /// A name that nothing else has, made of the subnet.
    fn minted(&self, id: &SubnetId, runtime: Runtime) -> Result<NetworkName> {
        let short = name_of(&SubnetId { part: None, ..id.clone() }, runtime)?;
        let others = self.records.neighbours(|outline| match outline {
            Outline::Subnet { network, .. } => *network == short.as_str(),
            Outline::Net { .. } | Outline::Bridge { .. } | Outline::Title { .. } => false,
        })?;
        let is_taken = !others.subnets.is_empty() || self.made(&short)?.is_some();
        if is_taken { name_of(id, runtime) } else { Ok(short) }
    }

    /// Releases a subnet: one reference to it, and with the last one every requested address
    /// without a user. A subnet that is not allocated is no error.
    pub fn release_subnet(&self, id: &SubnetId) -> Result<()> {
        for _ in 0..RACES {
            let Some(read) = self.records.subnet_of(id)? else { return Ok(()) };
            let key = Key::Subnet(id.clone());
            let mut txn = Txn::new().require(key.clone(), unchanged(Some(&read)));
            txn = match read.value.references {
                0 | 1 => {
                    self.clear(&read.value)?;
                    txn.delete(key)
                }
                more => {
                    // The remaining user may not be the one that was asked.
                    let references = more - 1;
                    let fewer = Subnet { references, listed: false, lister: None, ..read.value };
                    txn.put(key, Record::Subnet(fewer))
                }
            };
            if let Outcome::Done(_) = self.store.commit(&txn)? {
                return Ok(());
            }
        }
        Err(Error::try_again(format!("releasing subnet {id}: lost {RACES} races in a row")))
    }
}

/// A subnet that exists to be shared.
struct Offer {
    id: SubnetId,
    order: Order,
    /// The network that has it, if that is made.
    network: Option<(Key, Read<Box<Network>>)>,
}

fn offer(request: &SubnetRequest, key: Key, read: Read<Box<Network>>) -> Result<Offer> {
    let network = &read.value;
    let name = &network.name;
    let pools = network.ipam.pools();
    if let Some(pool) = pools.iter().find(|pool| pool.space != request.space) {
        return Err(elsewhere(name, pool));
    }
    let family = match request.spec {
        SubnetSpec::Exactly { net, .. } => Family::of(&net),
        SubnetSpec::Any { family, .. } => family,
    };
    let mut ranges = pools.iter().flat_map(|pool| pool.ranges.iter().map(move |r| (pool, r)));
    let fits = ranges.find(|(_, range)| match request.spec {
        SubnetSpec::Exactly { net, part } => {
            range.subnet.trunc() == net && part.is_none_or(|part| range.clipped(&part).is_some())
        }
        SubnetSpec::Any { prefix_len, .. } => {
            Family::of(&range.subnet) == family
                && prefix_len.is_none_or(|size| size == range.subnet.prefix_len())
        }
    });
    let Some((pool, range)) = fits else { return Err(unfit(request, network)) };
    let part = match request.spec {
        SubnetSpec::Exactly { part, .. } => part,
        SubnetSpec::Any { .. } => None,
    };
    let id = SubnetId { space: request.space.clone(), net: range.subnet.trunc(), part };
    // The order of a pool is one for all who lease from it.
    let order = match pool.order {
        Order::NextAfterLast => Order::NextAfterLast,
        Order::LowestFree => request.order,
    };
    Ok(Offer { id, order, network: Some((key, read)) })
}

/// A network that is of another space than the one in which its subnet was asked for.
fn elsewhere(name: &NetworkName, pool: &Pool) -> Error {
    match &pool.space {
        Space::Named(space) => Error::invalid(format!(
            "network {name} is of address space {space}; name that to share its subnet"
        )),
        Space::Host => Error::invalid(format!(
            "network {name} is of this host's own address space; name no other to share its subnet"
        )),
        Space::Global | Space::Network(_) => Error::unsupported(format!(
            "network {name} is not routed by this host (pool {}); its subnet cannot be shared",
            pool.id.index
        )),
    }
}

fn unfit(request: &SubnetRequest, network: &Network) -> Error {
    let wanted = match request.spec {
        SubnetSpec::Exactly { net, part: None } => net.to_string(),
        SubnetSpec::Exactly { net, part: Some(part) } => format!("{net} with addresses in {part}"),
        SubnetSpec::Any { family: Family::V4, prefix_len: None } => "for IPv4".to_owned(),
        SubnetSpec::Any { family: Family::V6, prefix_len: None } => "for IPv6".to_owned(),
        SubnetSpec::Any { prefix_len: Some(size), .. } => format!("of size /{size}"),
    };
    let has: Vec<String> = nets(network, &request.space).map(|net| net.to_string()).collect();
    let has = match has.is_empty() {
        true => "none: its addresses come from elsewhere".to_owned(),
        false => format!("these: {}", has.join(", ")),
    };
    Error::invalid(format!("network {} has no subnet {wanted}; it has {has}", network.name))
}

fn check_part(net: &IpNet, part: Option<&IpNet>) -> Result<()> {
    match part {
        Some(part) if *part != part.trunc() => Err(Error::invalid(format!(
            "IP range {part} has host bits set; the range is {}",
            part.trunc()
        ))),
        Some(part) if !net.contains(part) => {
            Err(Error::invalid(format!("IP range {part} is not in subnet {net}")))
        }
        Some(_) | None => Ok(()),
    }
}

/// Whether both can be allocated: parts of one subnet that share no address (libnetwork allows it),
/// or nothing in common at all.
fn coexist(one: &SubnetId, other: &SubnetId) -> bool {
    if one.space != other.space || !overlap(&one.net, &other.net) {
        return true;
    }
    match (&one.part, &other.part) {
        (Some(a), Some(b)) => one.net == other.net && !overlap(a, b),
        (_, _) => false,
    }
}

/// Whether the network has the requested subnet because another part of it was allocated for it:
/// the subnet's own record then has what is taken.
fn speaks_for(subnet: &Subnet, spec: &SubnetId, network: &NetworkName) -> bool {
    subnet.network == *network && subnet.id.net == spec.net && subnet.id.space == spec.space
}

/// The holder of a subnet, for a message.
fn holder(runtime: Runtime, network: &str) -> String {
    format!("{runtime} network {network}")
}

/// The subnets of a network in a space.
fn nets<'a>(network: &Network, within: &'a Space) -> impl Iterator<Item = IpNet> + 'a {
    let used = if network.stage == Stage::Template { Vec::new() } else { spans(network) };
    let here = used.into_iter().filter(move |(space, _)| space == within);
    here.map(|(_, range)| range.subnet.trunc())
}

/// The name of a network of one subnet that has no given name: `docker-10.1.0.0-16`.
pub fn name_of(id: &SubnetId, runtime: Runtime) -> Result<NetworkName> {
    let space = match &id.space {
        Space::Global => "-global".to_owned(),
        Space::Named(name) => format!("-{name}"),
        Space::Host | Space::Network(_) => String::new(),
    };
    let part = id.part.map(|part| format!("-{part}")).unwrap_or_default();
    let name = format!("{runtime}{space}-{}{part}", id.net);
    name.replace([':', '/'], "-").parse()
}

fn taken(subnet: &Subnet) -> Error {
    Error::new(
        Kind::Conflict,
        format!("subnet {} is that of {} network {}", subnet.id, subnet.runtime, subnet.network),
    )
}
