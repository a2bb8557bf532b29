//! `spoke serve` in a private world, called as libnetwork calls it.

use std::path::PathBuf;
use std::time::Duration;

use model::{Error, Result};
use serde_json::{Value, json};
use tests::{Plugins, Serve, World};

use super::client::Client;

/// Where the daemon listens.
const SOCKET: &str = "/run/docker/plugins/spoke.sock";
const SPACE: &str = "spoke-local";

/// A sandbox of an engine that makes it only after Join.
pub(super) const NOWHERE: &str = "/var/run/docker/netns/0123456789ab";

/// The daemon and its world.
pub(super) struct Daemon {
    /// Ends before its world.
    serve: Serve,
    world: World,
}

impl Daemon {
    /// Starts it.
    pub(super) fn start() -> Self {
        let world = World::new(&Plugins::subject());
        // No engine is there that could restore containers: so interfaces are the daemon's to complete.
        world.sh("mkdir -p /etc/spoke; printf '[docker]\\napi = []\\n' >/etc/spoke/config.toml");
        let serve = Serve::start(&world, &[]);
        Self { serve, world }
    }

    /// Its socket, as seen from here.
    pub(super) fn socket(&self) -> PathBuf {
        self.world.path(SOCKET)
    }

    /// A caller of its own.
    pub(super) fn client(&self) -> Client {
        Client::new(&self.socket())
    }

    /// A new network namespace; its path as the daemon sees it.
    pub(super) fn netns(&self, name: &str) -> String {
        self.world.netns(name)
    }

    /// Its process, as seen from here.
    pub(super) fn pid(&self) -> Result<i32> {
        let ended = || Error::not_found("the daemon has ended");
        Ok(self.serve.pid().ok_or_else(ended)?.as_raw_nonzero().get())
    }
}

/// Who moves the interface into the container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Engine {
    /// The engine, as before 28.
    Moves,
    /// We do: the namespace exists when the container joins.
    ShowsNamespace,
}

/// A network with a pool of ours.
#[derive(Clone, Debug)]
pub(super) struct Network {
    id: String,
    /// Its pool, in the words of the address source.
    pool: String,
    gateway: String,
}

/// The calls for a network that comes and goes, in this order.
pub(super) const COMES: [&str; 3] = ["RequestPool", "RequestAddress", "CreateNetwork"];
pub(super) const GOES: [&str; 3] = ["ReleaseAddress", "ReleasePool", "DeleteNetwork"];

impl Network {
    /// 10.`octet`.0.0/16, made as an engine makes it.
    pub(super) fn create(to: &mut Client, octet: u8, engine: Engine) -> Result<Self> {
        Self::timed(to, octet, engine).map(|(network, _)| network)
    }

    /// The same, with the milliseconds of each call.
    pub(super) fn timed(to: &mut Client, octet: u8, engine: Engine) -> Result<(Self, [f64; 3])> {
        let wanted = format!("10.{octet}.0.0/16");
        let request = json!({
            "AddressSpace": SPACE, "Pool": wanted, "SubPool": "", "Options": {}, "V6": false,
        });
        let (answer, pooled) = to.timed("IpamDriver.RequestPool", &request.to_string())?;
        let pool = text(&answer["PoolID"]);
        let mut network = Self { id: format!("{octet:064x}"), pool, gateway: String::new() };
        let kind = json!({ "RequestAddressType": "com.docker.network.gateway" });
        let request = network.address_request(&kind);
        let (answer, addressed) = to.timed("IpamDriver.RequestAddress", &request)?;
        network.gateway = text(&answer["Address"]);
        let mut options = json!({
            "com.docker.network.enable_ipv6": false, "com.docker.network.generic": {},
        });
        if engine == Engine::ShowsNamespace {
            options["com.docker.network.enable_ipv4"] = json!(true);
            options["com.docker.network.generic"] = json!({ "interfaces": "spoke" });
        }
        let data = json!([{ "AddressSpace": SPACE, "Gateway": network.gateway, "Pool": wanted }]);
        let request = json!({
            "NetworkID": network.id, "Options": options, "IPv4Data": data, "IPv6Data": [],
        });
        let (_, created) = to.timed("NetworkDriver.CreateNetwork", &request.to_string())?;
        Ok((network, [pooled, addressed, created].map(millis)))
    }

    /// Ends it as an engine does; the milliseconds of each call.
    pub(super) fn delete(self, to: &mut Client) -> Result<[f64; 3]> {
        let address = self.gateway.split('/').next().unwrap_or_default();
        let bodies = [
            json!({ "PoolID": self.pool, "Address": address }),
            json!({ "PoolID": self.pool }),
            json!({ "NetworkID": self.id }),
        ];
        let mut took = [0.0; 3];
        for ((took, call), body) in took.iter_mut().zip(GOES).zip(bodies) {
            let driver = if call == "DeleteNetwork" { "NetworkDriver" } else { "IpamDriver" };
            *took = millis(to.timed(&format!("{driver}.{call}"), &body.to_string())?.1);
        }
        Ok(took)
    }

    /// What [`Network::request_address`] sends.
    pub(super) fn address_request(&self, options: &Value) -> String {
        json!({ "PoolID": self.pool, "Address": "", "Options": options }).to_string()
    }

    /// Another address, with its prefix length.
    pub(super) fn request_address(&self, to: &mut Client, options: &Value) -> Result<String> {
        let request = self.address_request(options);
        let (answer, _) = to.timed("IpamDriver.RequestAddress", &request)?;
        Ok(text(&answer["Address"]))
    }

    /// Gives an address back.
    pub(super) fn release_address(&self, to: &mut Client, address: &str) -> Result<()> {
        let address = address.split('/').next().unwrap_or_default();
        let request = json!({ "PoolID": self.pool, "Address": address });
        to.call("IpamDriver.ReleaseAddress", &request).map(drop)
    }

    /// An endpoint of this network, of which the daemon knows nothing yet.
    pub(super) fn endpoint(&self, number: usize, sandbox: &str) -> Endpoint<'_> {
        Endpoint { network: self, id: format!("{number:064x}"), sandbox: sandbox.to_owned() }
    }
}

/// A container's end, without a container.
pub(super) struct Endpoint<'a> {
    network: &'a Network,
    id: String,
    sandbox: String,
}

/// The driver's part of an endpoint's life, in this order.
pub(super) const LIFE: [&str; 4] = ["CreateEndpoint", "Join", "Leave", "DeleteEndpoint"];

impl Endpoint<'_> {
    /// One call of its life, timed in milliseconds.
    pub(super) fn step(&self, to: &mut Client, call: &str, address: &str) -> Result<f64> {
        let mut body = json!({ "NetworkID": self.network.id, "EndpointID": self.id });
        let ports = json!({
            "com.docker.network.endpoint.exposedports": [], "com.docker.network.portmap": [],
        });
        match call {
            "CreateEndpoint" => {
                let address = json!({ "Address": address, "AddressIPv6": "", "MacAddress": "" });
                body["Interface"] = address;
                body["Options"] = ports;
            }
            "Join" => {
                body["SandboxKey"] = json!(self.sandbox);
                body["Options"] = ports;
            }
            _ => {}
        }
        let (_, took) = to.timed(&format!("NetworkDriver.{call}"), &body.to_string())?;
        Ok(millis(took))
    }

    /// All of its life with an address of its own: what each step took.
    pub(super) fn live(&self, to: &mut Client) -> Result<[f64; 4]> {
        let address = self.network.request_address(to, &json!({}))?;
        let mut took = [0.0; 4];
        for (took, call) in took.iter_mut().zip(LIFE) {
            *took = self.step(to, call, &address)?;
        }
        self.network.release_address(to, &address)?;
        Ok(took)
    }

    /// The first half of it; the address that it has then.
    pub(super) fn begin(&self, to: &mut Client) -> Result<String> {
        let address = self.network.request_address(to, &json!({}))?;
        for call in LIFE.iter().take(2) {
            self.step(to, call, &address)?;
        }
        Ok(address)
    }

    /// The second half.
    pub(super) fn end(&self, to: &mut Client, address: &str) -> Result<()> {
        for call in LIFE.iter().skip(2) {
            self.step(to, call, address)?;
        }
        self.network.release_address(to, address)
    }
}

fn millis(took: Duration) -> f64 {
    took.as_secs_f64() * 1e3
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
