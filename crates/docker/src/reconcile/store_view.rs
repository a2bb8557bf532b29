//! The store's records of Docker's networks, endpoints and addresses.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use engine::{Engine, Garbage, Live, Mode, Reconciled};
use model::{
    AliasId, AttachmentId, EngineId, Layer, LinkKind, NetworkName, OwnerName, Result, Runtime,
    Subnet, SubnetId, Tenant,
};

use crate::api::{Names, Network};
use crate::driver::Backstage;

/// No engine takes so long from a subnet's request to the next thing that depends on it.
const IDLE: Duration = Duration::from_secs(3600);

/// Docker's records in the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DockerRecords {
    pub(super) networks: Vec<HeldNetwork>,
    pub(super) subnets: Vec<HeldSubnet>,
    pub(super) endpoints: Vec<HeldEndpoint>,
    pub(super) leases: Vec<HeldLease>,
}

/// A network under Docker's id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HeldNetwork {
    pub(super) id: AliasId,
    pub(super) network: NetworkName,
    /// Known once an engine has listed it.
    pub(super) title: Option<NetworkName>,
    /// Which engine that was, where it is known.
    pub(super) lister: Option<EngineId>,
    /// Whether containers of any runtime are on it.
    pub(super) is_used: bool,
}

impl HeldNetwork {
    /// Whether it belongs to one of these engines. Where its lister is not known, the engine asked for its
    /// removal, or an earlier release saw it.
    pub(super) fn is_of(&self, engines: &BTreeSet<EngineId>) -> bool {
        self.title.is_some() && self.lister.as_ref().is_none_or(|lister| engines.contains(lister))
    }
}

/// A pool that was requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HeldSubnet {
    pub(super) id: SubnetId,
    pub(super) network: NetworkName,
    /// Whether an engine that was asked has listed a network of it.
    pub(super) listed: bool,
    /// Which engine that was, where it is known.
    pub(super) lister: Option<EngineId>,
    /// Whether it came to no network, and nothing depends on it.
    pub(super) idle: bool,
}

/// An endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HeldEndpoint {
    pub(super) id: AttachmentId,
    pub(super) network: Option<AliasId>,
    pub(super) owner: Option<OwnerName>,
}

/// An address that was requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HeldLease {
    pub(super) subnet: SubnetId,
    pub(super) address: IpAddr,
    pub(super) user: Option<AttachmentId>,
}

/// The reconciler's view of the store.
pub(super) trait StoreView {
    /// Docker's records.
    fn held(&self) -> Result<DockerRecords>;

    /// [`Repair::reclaim_unlisted`](engine::Repair::reclaim_unlisted).
    fn reclaim(&self, live: &Live, grace: Duration, mode: Mode) -> Result<Reconciled>;

    /// [`Subnets::lower_references`](engine::Subnets::lower_references).
    fn lower_references(&self, live: &Live, grace: Duration) -> Result<()>;

    /// Whether a network is Docker's, and its name for people is not known yet.
    fn is_untitled(&self, network: &AliasId) -> Result<bool>;

    /// Sets the name of a network for people.
    fn entitle(&self, network: &AliasId, title: &NetworkName, by: Option<&EngineId>) -> Result<()>;

    /// That an engine which is asked has a network of the subnet.
    fn enlist(&self, subnet: &SubnetId, by: Option<&EngineId>) -> Result<()>;

    /// Sets the name of an endpoint's container.
    fn name(&self, endpoint: &AttachmentId, owner: &OwnerName) -> Result<()>;

    /// What a container is called on a network whose names are answered for.
    fn call(&self, names: &Names) -> Result<()>;

    /// [`Backstage::see`].
    fn see(&self, networks: &[Network]);
}

/// The store behind an engine.
pub(super) struct EngineBook<'a, B> {
    pub(super) backstage: &'a B,
}

impl<B: Backstage> StoreView for EngineBook<'_, B> {
    fn held(&self) -> Result<DockerRecords> {
        self.backstage.with_engine(held)
    }

    fn reclaim(&self, live: &Live, grace: Duration, mode: Mode) -> Result<Reconciled> {
        self.backstage.with_engine(|engine| match mode {
            Mode::DryRun => engine.repair.reclaim_unlisted(Runtime::Docker, live, grace, mode),
            Mode::Mend => self.mend(engine, live, grace),
        })
    }

    fn lower_references(&self, live: &Live, grace: Duration) -> Result<()> {
        self.backstage
            .with_engine(|engine| engine.subnets.lower_references(Runtime::Docker, live, grace))
    }

    fn is_untitled(&self, network: &AliasId) -> Result<bool> {
        let alias = self.backstage.with_engine(|engine| engine.records.alias(network))?;
        Ok(alias.is_some_and(|it| it.runtime == Runtime::Docker && it.title.is_none()))
    }

    fn entitle(&self, network: &AliasId, title: &NetworkName, by: Option<&EngineId>) -> Result<()> {
        self.backstage.with_engine(|engine| engine.networks.set_title(network, title, by))
    }

    fn enlist(&self, subnet: &SubnetId, by: Option<&EngineId>) -> Result<()> {
        self.backstage.with_engine(|engine| engine.subnets.set_listed(subnet, by))
    }

    fn name(&self, endpoint: &AttachmentId, owner: &OwnerName) -> Result<()> {
        self.backstage.with_engine(|engine| engine.attachments.set_owner(endpoint, owner))
    }

    fn call(&self, names: &Names) -> Result<()> {
        self.backstage.with_engine(|engine| {
            let records = engine.records.attachments_of(&names.endpoint)?;
            let of_docker = records.iter().filter(|record| record.runtime == Runtime::Docker);
            let called = of_docker.map(|record| {
                engine.attachments.set_names(&record.id, names.owner.as_ref(), &names.names)
            });
            called.collect::<Vec<_>>().into_iter().collect()
        })
    }

    fn see(&self, networks: &[Network]) {
        self.backstage.see(networks);
    }
}

impl<B: Backstage> EngineBook<'_, B> {
    /// Networks of a cloud stay in the store until the cloud has deleted them: while it does not
    /// answer, the store is the only place that has them.
    fn mend(&self, engine: &Engine<'_>, live: &Live, grace: Duration) -> Result<Reconciled> {
        let mut known = live.clone();
        let (mut clouds, mut failures) = (Vec::new(), Vec::new());
        for found in
            engine.repair.reclaim_unlisted(Runtime::Docker, live, grace, Mode::DryRun)?.findings
        {
            let Garbage::Alias(id) = &found.what else { continue };
            match is_of_cloud(engine, id) {
                Ok(false) => continue,
                Ok(true) => clouds.push((id.clone(), found.clone())),
                Err(error) => failures.push(error.context(format!("reading network {id}"))),
            }
            known.networks.insert(id.clone(), Some(BTreeSet::new()));
        }
        let mut mended =
            engine.repair.reclaim_unlisted(Runtime::Docker, &known, grace, Mode::Mend)?;
        for (id, found) in clouds {
            let deleted = self.backstage.abandon(&id).and_then(|()| engine.networks.withdraw(&id));
            mended.add(
                found,
                deleted.map_err(|error| error.context(format!("deleting network {id}"))),
            );
        }
        mended.failures.append(&mut failures);
        Ok(mended)
    }
}

fn is_of_cloud(engine: &Engine<'_>, id: &AliasId) -> Result<bool> {
    let Some(alias) = engine.records.alias(id)? else { return Ok(false) };
    let network = engine.records.declared(&alias.network)?;
    let link = network.as_ref().and_then(|network| network.wiring.link.as_ref());
    Ok(matches!(link.map(|link| &link.kind), Some(LinkKind::Neutron(_))))
}

fn held(engine: &Engine<'_>) -> Result<DockerRecords> {
    let mut held = DockerRecords::default();
    let attachments = engine.records.attachments()?;
    let used: BTreeSet<&NetworkName> = attachments.iter().map(|it| &it.id.network).collect();
    for alias in
        engine.records.aliases()?.into_iter().filter(|alias| alias.runtime == Runtime::Docker)
    {
        held.networks.push(HeldNetwork {
            id: alias.id,
            is_used: used.contains(&alias.network),
            network: alias.network,
            title: alias.title,
            lister: alias.lister,
        });
    }
    let idle = engine.subnets.idle_subnets(IDLE)?;
    for subnet in engine.records.subnets()?.into_iter().filter(|s| s.runtime == Runtime::Docker) {
        let Subnet { id, network, listed, lister, .. } = subnet;
        let idle = idle.contains(&id);
        held.subnets.push(HeldSubnet { id, network, listed, lister, idle });
    }
    for record in attachments {
        if record.runtime == Runtime::Docker && record.layer == Layer::Link {
            let (id, network, owner) = (record.id, record.alias, record.owner);
            held.endpoints.push(HeldEndpoint { id, network, owner });
        }
    }
    for holder in engine.records.holders()? {
        if let (Tenant::Request { subnet, user }, Runtime::Docker) = (holder.tenant, holder.runtime)
        {
            let address = holder.lease.address.addr();
            held.leases.push(HeldLease { subnet, address, user });
        }
    }
    Ok(held)
}
