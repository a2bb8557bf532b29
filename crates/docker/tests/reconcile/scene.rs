//! A reconciler at work.

use std::io::PipeWriter;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use docker::driver::{Backstage, Sandboxes, Within};
use docker::reconcile::{Notice, Settings, run};
use doubles::{BookOnly, OneProcess};
use engine::Engine;
use model::*;
use serde_json::{Value, json};

use crate::fake::{Answer, Fake};
use crate::rig::World;

/// Short, and yet several looks long.
pub(crate) const GRACE: Duration = Duration::from_millis(300);

/// The same host as the rig's, an hour later: everything is old.
struct Later {
    world: Arc<World>,
    seen: Sender<Vec<docker::api::Network>>,
}

const HOUR: OneProcess = OneProcess(Timestamp(4_600));

impl Sandboxes for Later {
    fn inspect(&self, _: &Path) -> Result<Option<Within>> {
        Ok(None)
    }
}

impl Backstage for Later {
    fn with_engine<T>(&self, work: impl FnOnce(&Engine<'_>) -> Result<T>) -> Result<T> {
        work(&Engine::new(&self.world.store, &*self.world, &BookOnly, &HOUR))
    }
    fn now(&self) -> Timestamp {
        HOUR.0
    }
    fn see(&self, networks: &[docker::api::Network]) {
        let _ = self.seen.send(networks.to_vec());
    }
}

/// A reconciler, until it is dropped.
pub(crate) struct Reconciling {
    notices: Receiver<Notice>,
    seen: Receiver<Vec<docker::api::Network>>,
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

impl Reconciling {
    pub(crate) fn begin(world: &Arc<World>, engines: &[PathBuf], period: Duration) -> Self {
        let settings =
            Settings { engines: engines.to_vec(), grace: GRACE, period, ..Settings::default() };
        let (reported, notices) = channel();
        let (stopped, stop) = std::io::pipe().unwrap();
        let (see, seen) = channel();
        let later = Later { world: Arc::clone(world), seen: see };
        let thread = std::thread::spawn(move || {
            let reported: Sender<Notice> = reported;
            let report = |notice: Notice| drop(reported.send(notice));
            run(&settings, &later, &report, stopped.as_fd());
        });
        Self { notices, seen, stop: Some(stop), thread: Some(thread) }
    }

    /// One engine, looked at all the time.
    pub(crate) fn with(world: &Arc<World>, fake: &Fake) -> Self {
        Self::begin(world, std::slice::from_ref(&fake.socket), Duration::from_millis(50))
    }

    /// Waits for the next list of networks of others, and gives their names.
    pub(crate) fn neighbours(&self) -> Vec<String> {
        let networks = self.seen.recv_timeout(Duration::from_secs(30)).unwrap();
        networks.into_iter().map(|network| network.name.unwrap().to_string()).collect()
    }

    /// Waits for a notice, and gives those before it, too.
    pub(crate) fn until(&self, is_it: impl Fn(&Notice) -> bool) -> Vec<Notice> {
        let mut reported = Vec::new();
        while !reported.last().is_some_and(&is_it) {
            reported.push(self.notices.recv_timeout(Duration::from_secs(30)).unwrap());
        }
        reported
    }

    /// Everything that was reported and not read yet.
    pub(crate) fn reported(&self) -> Vec<String> {
        self.notices.try_iter().map(|notice| notice.to_string()).collect()
    }
}

impl Drop for Reconciling {
    fn drop(&mut self) {
        drop(self.stop.take());
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking());
    }
}

/// Looks enough for everything that will ever be believed to be believed.
pub(crate) fn settle(fake: &Fake) {
    let begin = std::time::Instant::now();
    while begin.elapsed() < GRACE * 4 {
        fake.wait("/networks", 1);
    }
}

/// An entry of an engine's list of networks.
pub(crate) fn listed(id: &str, name: &str, driver: &str, subnets: &[&str]) -> Value {
    let configs: Vec<Value> = subnets.iter().map(|net| json!({"Subnet": net})).collect();
    json!({"Id": id, "Name": name, "Driver": driver, "Scope": "local", "Containers": {},
        "IPAM": {"Driver": "spoke", "Config": configs}})
}

/// Lets the engine list a network, with these endpoints: id, container's name and address.
pub(crate) fn list(fake: &Fake, network: &Value, endpoints: &[(&str, &str, &str)]) {
    let mut detail = network.clone();
    for (id, name, address) in endpoints {
        detail["Containers"][format!("container-{id}")] =
            json!({"EndpointID": id, "Name": name, "IPv4Address": address, "IPv6Address": ""});
    }
    let id = network["Id"].as_str().unwrap();
    fake.answer(&format!("/networks/{id}"), Answer::Length(detail.to_string()));
    fake.answer("/networks", Answer::Chunks(json!([network]).to_string()));
}

/// Makes a network of one subnet as an engine does.
pub(crate) fn network(world: &Arc<World>, id: &str, subnet: &str) -> Value {
    network_with(world, id, subnet, &json!({}))
}

/// The same with options of the driver's.
pub(crate) fn network_with(world: &Arc<World>, id: &str, subnet: &str, generic: &Value) -> Value {
    let pool = pool(world, subnet);
    let gateway = gateway(world, &pool);
    let data = json!([{"AddressSpace": "spoke-local", "Pool": subnet, "Gateway": gateway}]);
    let create = json!({"NetworkID": id, "IPv4Data": data, "IPv6Data": [],
        "Options": {"com.docker.network.generic": generic}});
    world.call("NetworkDriver.CreateNetwork", &create).unwrap();
    pool
}

pub(crate) fn pool(world: &Arc<World>, subnet: &str) -> Value {
    let pool = json!({"AddressSpace": "spoke-local", "Pool": subnet, "Options": {}, "V6": false});
    world.call("IpamDriver.RequestPool", &pool).unwrap()["PoolID"].clone()
}

pub(crate) fn gateway(world: &Arc<World>, pool: &Value) -> Value {
    let gateway = json!({"PoolID": pool, "Address": "",
        "Options": {"RequestAddressType": "com.docker.network.gateway"}});
    world.call("IpamDriver.RequestAddress", &gateway).unwrap()["Address"].clone()
}

pub(crate) fn address(world: &Arc<World>, pool: &Value) -> String {
    let request = json!({"PoolID": pool, "Address": "", "Options": {}});
    let given = world.call("IpamDriver.RequestAddress", &request).unwrap();
    given["Address"].as_str().unwrap().to_owned()
}

/// Makes an endpoint, joined to a sandbox, and tells its address.
pub(crate) fn endpoint(world: &Arc<World>, network: &str, id: &str, pool: &Value) -> String {
    let address = address(world, pool);
    let create = json!({"NetworkID": network, "EndpointID": id, "Options": {},
        "Interface": {"Address": address, "AddressIPv6": "", "MacAddress": ""}});
    world.call("NetworkDriver.CreateEndpoint", &create).unwrap();
    let join = json!({"NetworkID": network, "EndpointID": id, "Options": {},
        "SandboxKey": format!("/var/run/docker/netns/{id}")});
    world.call("NetworkDriver.Join", &join).unwrap();
    address
}
