//! Hosts of one project, behind a proxy that counts and disturbs.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};

use engine::port::{AddressSpec, AddressUse, Cloud, CloudNetwork, CloudPool, PoolSpec, SubnetPlan};
use model::{AliasId, Attachment, Family, IpNet, Mac, Network, PortSpec, ResourceId, Result};
use neutron::Neutron;
use neutron::config::{Access, Identity, Settings};
use neutron::contract::HostId;
use serde_json::Value;
use tempfile::TempDir;
use tests::fault_proxy::FaultProxy;
use tests::neutron::{Everything, Project};
use tests::neutron_lab::ApiLab;

/// One host of a project of its own.
pub(crate) struct Bed {
    pub(crate) project: Project,
    pub(crate) proxy: FaultProxy,
    pub(crate) cloud: Neutron,
    /// What Neutron calls it.
    pub(crate) host: String,
    directory: TempDir,
    before: Everything,
}

impl Bed {
    pub(crate) fn new() -> Self {
        let project = ApiLab::shared().project();
        let host = format!("ovs-{}", &project.id()[..8]);
        Self::of(project, &host)
    }

    /// Another host of a project.
    pub(crate) fn of(project: Project, host: &str) -> Self {
        Self::with(project, host, &|_| {})
    }

    /// A host whose ports need no switch, with these changes of the default settings.
    pub(crate) fn tapped(change: &dyn Fn(&mut Settings)) -> Self {
        let project = ApiLab::shared().project();
        let host = format!("tap-{}", &project.id()[..8]);
        Self::with(project, &host, change)
    }

    fn with(project: Project, host: &str, change: &dyn Fn(&mut Settings)) -> Self {
        let proxy = FaultProxy::start(ApiLab::shared().upstream(&project));
        let directory = tempfile::tempdir().unwrap();
        let cloud = connect(&proxy, &project, host, &directory, change);
        let before = project.everything();
        Self { project, proxy, cloud, host: host.to_owned(), directory, before }
    }

    /// The daemon's next life.
    pub(crate) fn restart(&mut self) {
        self.cloud = connect(&self.proxy, &self.project, &self.host, &self.directory, &|_| {});
    }

    /// Counts as there before what is there now.
    pub(crate) fn start_from_here(&mut self) {
        self.before = self.project.everything();
    }

    #[track_caller]
    pub(crate) fn is_clean(&self) {
        let changes = self.project.everything().changes(&self.before);
        assert!(changes.is_empty(), "{changes:#?}");
    }

    #[track_caller]
    pub(crate) fn pool(&self, net: &str) -> ResourceId {
        self.cloud.request_pool(&pool(net)).unwrap().id
    }

    /// The requests of `work`: method and path without ids.
    pub(crate) fn calls<T>(&self, work: impl FnOnce() -> T) -> (T, Vec<String>) {
        self.proxy.take();
        let done = work();
        let calls = self.proxy.take();
        let short = |path: &str| path.split('/').nth(2).unwrap_or_default().to_owned();
        (done, calls.iter().map(|call| format!("{} {}", call.method, short(call.path()))).collect())
    }

    pub(crate) fn gateway(&self, pool: &ResourceId, address: Option<&str>) -> Result<IpNet> {
        self.address(pool, address, None, AddressUse::Gateway)
    }

    /// For a container.
    pub(crate) fn any(&self, pool: &ResourceId, mac: Option<Mac>) -> Result<IpNet> {
        self.address(pool, None, mac, AddressUse::Container)
    }

    /// For a container.
    pub(crate) fn exactly(
        &self,
        pool: &ResourceId,
        address: &str,
        mac: Option<Mac>,
    ) -> Result<IpNet> {
        self.address(pool, Some(address), mac, AddressUse::Container)
    }

    fn address(
        &self,
        pool: &ResourceId,
        address: Option<&str>,
        mac: Option<Mac>,
        purpose: AddressUse,
    ) -> Result<IpNet> {
        let address = address.map(|address| address.parse().unwrap());
        self.cloud.request_address(&AddressSpec { pool: pool.clone(), address, mac, purpose })
    }

    #[track_caller]
    pub(crate) fn release(&self, pool: &ResourceId, address: &str) {
        self.cloud.release_address(pool, address.parse().unwrap(), &none).unwrap();
    }

    /// A network with one subnet, as an engine makes it.
    #[track_caller]
    pub(crate) fn network(&self, net: &str) -> CreatedNetwork {
        let pool = self.pool(net);
        let gateway = self.gateway(&pool, None).unwrap();
        let id = id();
        let plan = CloudNetwork { subnets: vec![subnet(net, gateway.addr())], ..plan(&id) };
        let network = self.cloud.create_network(&plan).unwrap();
        CreatedNetwork { id, pool, gateway: gateway.addr(), plan, network }
    }

    /// As an engine removes it.
    #[track_caller]
    pub(crate) fn remove(&self, made: &CreatedNetwork) {
        self.cloud.release_address(&made.pool, made.gateway, &none).unwrap();
        self.cloud.release_pool(&made.pool, &none).unwrap();
        self.cloud.delete_network(&made.id, &none).unwrap();
    }

    /// The ports that containers have.
    pub(crate) fn ports(&self) -> Vec<Value> {
        let all = self.project.list("ports", "");
        all.into_iter().filter(|port| port["device_owner"] != "network:dhcp").collect()
    }
}

/// A network, and what was requested for it.
pub(crate) struct CreatedNetwork {
    pub(crate) id: AliasId,
    pub(crate) pool: ResourceId,
    pub(crate) gateway: IpAddr,
    pub(crate) plan: CloudNetwork,
    pub(crate) network: Network,
}

fn connect(
    proxy: &FaultProxy,
    project: &Project,
    host: &str,
    directory: &TempDir,
    change: &dyn Fn(&mut Settings),
) -> Neutron {
    let identity = Identity::None { project: Some(project.id().to_owned()) };
    let mut access = Access::of(identity);
    access.endpoint = Some(format!("http://{}", proxy.address()));
    let host = HostId::try_from(host.to_owned()).unwrap();
    let mut settings = Settings::new(access, host).unwrap();
    let short = &project.id()[..8];
    settings.kuryr.default_pools = [format!("four-{short}"), format!("six-{short}")];
    change(&mut settings);
    Neutron::connect(settings, directory.path().to_owned()).unwrap()
}

fn unique() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// An unused id of Docker's.
pub(crate) fn id() -> AliasId {
    let half = format!("{:08x}{:024x}", unique(), std::process::id());
    format!("{half}{half}").parse().unwrap()
}

/// An unused hardware address.
pub(crate) fn mac() -> Mac {
    let [a, b, c, d] = unique().to_be_bytes();
    format!("02:42:{a:02x}:{b:02x}:{c:02x}:{d:02x}").parse().unwrap()
}

pub(crate) fn pool(net: &str) -> PoolSpec {
    let net: IpNet = net.parse().unwrap();
    PoolSpec { net: Some(net), ..no_pool(Family::of(&net)) }
}

/// Without a subnet.
pub(crate) fn no_pool(family: Family) -> PoolSpec {
    PoolSpec {
        net: None,
        part: None,
        family,
        subnet: None,
        pool: None,
        network: None,
        address_scope: None,
        shared: None,
    }
}

/// A host without attachments.
pub(crate) fn none() -> Result<Vec<Attachment>> {
    Ok(Vec::new())
}

/// Without subnets.
pub(crate) fn plan(id: &AliasId) -> CloudNetwork {
    CloudNetwork {
        id: id.clone(),
        existing: None,
        shared: None,
        subnets: Vec::new(),
        foreign_addresses: false,
        ports: PortSpec::default(),
    }
}

pub(crate) fn subnet(net: &str, gateway: IpAddr) -> SubnetPlan {
    SubnetPlan {
        net: net.parse().unwrap(),
        gateway: Some(gateway),
        auxiliary: Vec::new(),
        subnet: None,
        pool: None,
    }
}

/// The requested pool, named as it is reported to an engine.
pub(crate) fn reported(pool: &CloudPool) -> String {
    pool.net.to_string()
}
