//! A host without Docker: the test makes Docker's calls, and so those that Docker makes rarely.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use serde_json::{Value, json};
use tests::http;
use tests::neutron::Project;
use tests::neutron_lab::ApiLab;
use tests::{Plugins, Serve, World};

use crate::bed::{Host, TIMEOUT, Tenancy, host_name};

const SOCKET: &str = "/run/docker/plugins/kuryr.sock";

/// The host, and the plugin's socket.
#[derive(Debug)]
pub(crate) struct Calls {
    pub(crate) host: Host,
    pub(crate) world: World,
}

/// What a call answered.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    pub(crate) status: u16,
    pub(crate) body: Value,
}

impl Said {
    /// The body of a success.
    #[track_caller]
    pub(crate) fn ok(self) -> Value {
        let fine = self.status == 200 && self.body["Err"].as_str().unwrap_or_default().is_empty();
        assert!(fine, "{self:?}");
        self.body
    }

    /// What is said of a failure.
    #[track_caller]
    pub(crate) fn error(&self) -> String {
        let error = self.body["Err"].as_str().unwrap_or_default();
        assert!(self.status != 200 && !error.is_empty(), "no failure: {self:?}");
        error.to_owned()
    }
}

impl Calls {
    #[track_caller]
    pub(crate) fn new() -> Self {
        let project = ApiLab::shared().project();
        let name = host_name(&project);
        Self::of(&project, &name)
    }

    /// The host `name` of a project.
    #[track_caller]
    pub(crate) fn of(project: &Project, name: &str) -> Self {
        Self::at(Tenancy { project, name, extra: "", ovn: None })
    }

    /// A host there.
    #[track_caller]
    pub(crate) fn at(place: Tenancy<'_>) -> Self {
        let world = World::new(&Plugins::subject());
        let host = Host::on(&world, place);
        Self { host, world }
    }

    /// One call; `method` with its interface: `IpamDriver.RequestPool`.
    #[track_caller]
    pub(crate) fn call(&self, method: &str, body: &Value) -> Said {
        let socket = self.world.path(SOCKET);
        let said = http::call(&socket, "POST", &format!("/{method}"), body.to_string().as_bytes());
        let said = said.unwrap_or_else(|error| panic!("{method}: {error}\n{}", self.host.log()));
        Said { status: said.status, body: said.json() }
    }

    /// The same, of the network driver.
    #[track_caller]
    pub(crate) fn net(&self, method: &str, body: &Value) -> Said {
        self.call(&format!("NetworkDriver.{method}"), body)
    }

    /// The same, of the IPAM driver.
    #[track_caller]
    pub(crate) fn ipam(&self, method: &str, body: &Value) -> Said {
        self.call(&format!("IpamDriver.{method}"), body)
    }

    #[track_caller]
    pub(crate) fn request_pool(&self, cidr: &str, options: &Value) -> Said {
        let v6 = cidr.contains(':');
        let spaces = self.ipam("GetDefaultAddressSpaces", &json!({})).ok();
        let space = &spaces["LocalDefaultAddressSpace"];
        self.ipam(
            "RequestPool",
            &json!({"AddressSpace": space, "Pool": cidr, "SubPool": "", "Options": options, "V6": v6}),
        )
    }

    #[track_caller]
    pub(crate) fn request_address(&self, pool: &Value, address: &str, options: &Value) -> Said {
        let pool = &pool["PoolID"];
        self.ipam(
            "RequestAddress",
            &json!({"PoolID": pool, "Address": address, "Options": options}),
        )
    }

    #[track_caller]
    pub(crate) fn release_address(&self, pool: &Value, address: &str) -> Said {
        let address = address.split('/').next();
        self.ipam("ReleaseAddress", &json!({"PoolID": pool["PoolID"], "Address": address}))
    }

    #[track_caller]
    pub(crate) fn release_pool(&self, pool: &Value) -> Said {
        self.ipam("ReleasePool", &json!({"PoolID": pool["PoolID"]}))
    }

    #[track_caller]
    pub(crate) fn create_network(&self, id: &str, pool: &Value, generic: &Value) -> Said {
        let data = json!({
            "AddressSpace": "no_address_space",
            "Pool": pool["Pool"],
            "Gateway": gateway(pool["Pool"].as_str().unwrap()),
        });
        let options = json!({"com.docker.network.generic": generic});
        self.net(
            "CreateNetwork",
            &json!({"NetworkID": id, "Options": options, "IPv4Data": [data], "IPv6Data": []}),
        )
    }

    #[track_caller]
    pub(crate) fn delete_network(&self, id: &str) -> Said {
        self.net("DeleteNetwork", &json!({"NetworkID": id}))
    }

    /// As Docker asks for a container's address.
    #[track_caller]
    pub(crate) fn address(&self, pool: &Value, mac: &str) -> Value {
        let options = json!({"com.docker.network.endpoint.macaddress": mac});
        self.request_address(pool, "", &options).ok()
    }

    #[track_caller]
    pub(crate) fn create_endpoint(&self, ends: &Ends, address: &str) -> Said {
        let interface = json!({"Address": address, "AddressIPv6": "", "MacAddress": ends.mac});
        self.net(
            "CreateEndpoint",
            &json!({
                "NetworkID": ends.network,
                "EndpointID": ends.endpoint,
                "Interface": interface,
                "Options": {},
            }),
        )
    }

    #[track_caller]
    pub(crate) fn join(&self, ends: &Ends) -> Said {
        let sandbox = format!("/var/run/docker/netns/{}", &ends.endpoint[..12]);
        self.net(
            "Join",
            &json!({
                "NetworkID": ends.network,
                "EndpointID": ends.endpoint,
                "SandboxKey": sandbox,
                "Options": {},
            }),
        )
    }

    /// Any call that has nothing but the two ids.
    #[track_caller]
    pub(crate) fn of_endpoint(&self, method: &str, ends: &Ends) -> Said {
        self.net(method, &json!({"NetworkID": ends.network, "EndpointID": ends.endpoint}))
    }

    /// All calls of Docker's for a network; its id, and its pool.
    #[track_caller]
    pub(crate) fn network(&self, cidr: &str, options: &Value) -> (String, Value) {
        let pool = self.request_pool(cidr, options).ok();
        let gateway = json!({"RequestAddressType": "com.docker.network.gateway"});
        self.request_address(&pool, "", &gateway).ok();
        let id = docker_id();
        self.create_network(&id, &pool, options).ok();
        (id, pool)
    }

    /// All calls for a network's end, in Docker's order.
    #[track_caller]
    pub(crate) fn remove_network(&self, id: &str, pool: &Value) {
        self.release_pool(pool).ok();
        self.delete_network(id).ok();
    }

    /// All calls for a container's start; where it is, and its address with the prefix.
    #[track_caller]
    pub(crate) fn start(&self, network: &str, pool: &Value) -> (Ends, String) {
        let ends = Ends::new(network);
        let address = self.address(pool, &ends.mac)["Address"].as_str().unwrap().to_owned();
        self.create_endpoint(&ends, &address).ok();
        self.join(&ends).ok();
        (ends, address)
    }

    /// All calls for a container's end.
    #[track_caller]
    pub(crate) fn stop(&self, ends: &Ends, pool: &Value, address: &str) {
        self.of_endpoint("Leave", ends).ok();
        self.of_endpoint("DeleteEndpoint", ends).ok();
        let released = self.release_address(pool, address);
        if released.status != 200 {
            let files =
                self.world.sh("find /run/spoke/neutron -type f -exec ls -l --full-time {} +");
            panic!("{released:?}\n{}\n{files}\n{}", ends.endpoint, self.host.log());
        }
        released.ok();
    }

    /// Kills the daemon, and starts it again.
    #[track_caller]
    pub(crate) fn crash(&mut self) {
        self.host.serve.take().expect("it runs").kill();
        self.host.serve = Some(Serve::start(&self.world, &[]));
    }

    /// Waits until some daemon looks after the ports that are made ahead of need.
    #[track_caller]
    pub(crate) fn stock_is_kept(&self) {
        let deadline = Instant::now() + TIMEOUT;
        // Who only looks whether it is held holds it for a moment, too.
        let mut held = 0;
        while held < 5 {
            let is_free =
                self.world.try_sh("flock -n /run/spoke/neutron/stock/filler true").status == 0;
            held = if is_free { 0 } else { held + 1 };
            assert!(Instant::now() < deadline, "no process keeps the stock\n{}", self.host.log());
        }
    }

    /// Collects what a crash has left, as an operator or a timer does.
    #[track_caller]
    pub(crate) fn gc(&self) {
        self.spoke("gc");
    }

    /// What `spoke ARGUMENTS` prints, whatever its exit code says.
    #[track_caller]
    pub(crate) fn spoke(&self, arguments: &str) -> String {
        self.world.sh(&format!("{}/spoke {arguments} || [ $? = 1 ]", Plugins::MOUNT))
    }

    /// Waits until Neutron has the name of every port.
    #[track_caller]
    pub(crate) fn named(&self) {
        self.host.named(&self.world);
    }

    #[track_caller]
    pub(crate) fn is_clean(&self) {
        self.host.is_clean(&self.world);
    }
}

/// An endpoint's ids and hardware address.
#[derive(Clone, Debug)]
pub(crate) struct Ends {
    pub(crate) network: String,
    pub(crate) endpoint: String,
    pub(crate) mac: String,
}

impl Ends {
    /// One that is new.
    pub(crate) fn new(network: &str) -> Self {
        let endpoint = docker_id();
        let byte = |at: usize| &endpoint[at..at + 2];
        let mac = format!("02:42:{}:{}:{}:{}", byte(0), byte(2), byte(4), byte(6));
        Self { network: network.to_owned(), endpoint, mac }
    }
}

/// 64 hexadecimal digits that were not used before, and nor were their halves.
pub(crate) fn docker_id() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let seed = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed), Instant::now());
    let part = |nth: u8| {
        let mut hasher = DefaultHasher::new();
        (format!("{seed:?}"), nth).hash(&mut hasher);
        format!("{:016x}", hasher.finish())
    };
    [0, 1, 2, 3].map(part).concat()
}

fn gateway(cidr: &str) -> String {
    let (net, length) = cidr.split_once('/').unwrap();
    let (rest, last) = net.rsplit_once('.').unwrap();
    format!("{rest}.{}/{length}", last.parse::<u8>().unwrap() + 1)
}
