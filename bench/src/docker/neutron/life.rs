//! A network and its endpoints, made as an engine makes them with both of the plugin's drivers.

use model::{Error, Result};
use serde_json::{Value, json};

use crate::docker::client::{At, Client};

const SPACE: &str = "no_address_space";
const SANDBOX: &str = "/var/run/docker/netns/0123456789ab";

/// What a container's start calls, in this order, and its end.
pub(super) const STARTS: [&str; 6] = [
    "IpamDriver.RequestAddress",
    "NetworkDriver.CreateEndpoint",
    "NetworkDriver.Join",
    "NetworkDriver.ProgramExternalConnectivity",
    "NetworkDriver.EndpointOperInfo",
    "NetworkDriver.EndpointOperInfo",
];
pub(super) const ENDS: [&str; 4] = [
    "NetworkDriver.RevokeExternalConnectivity",
    "NetworkDriver.Leave",
    "NetworkDriver.DeleteEndpoint",
    "IpamDriver.ReleaseAddress",
];

/// A network of 65,000 addresses.
pub(super) struct Network {
    at: At,
    id: String,
    pool: String,
    /// Whether the engine chooses hardware addresses: where the plugin requires them.
    has_macs: bool,
}

impl Network {
    /// 10.`octet`.0.0/16.
    pub(super) fn create(at: &At, octet: u8) -> Result<Self> {
        let mut to = Client::at(at.clone());
        let capabilities = to.call("IpamDriver.GetCapabilities", &json!({}))?;
        let has_macs = capabilities["RequiresMACAddress"] == true;
        let (net, gateway) = (format!("10.{octet}.0.0/16"), format!("10.{octet}.0.1"));
        let request = json!({
            "AddressSpace": SPACE, "Pool": net, "SubPool": "", "Options": {}, "V6": false,
        });
        let pool = text(&to.call("IpamDriver.RequestPool", &request)?["PoolID"]);
        let kind = json!({ "RequestAddressType": "com.docker.network.gateway" });
        let request = json!({ "PoolID": pool, "Address": gateway, "Options": kind });
        to.call("IpamDriver.RequestAddress", &request)?;
        let id = format!("{octet:064x}");
        let gateway = format!("{gateway}/16");
        let data = json!([{ "AddressSpace": SPACE, "Pool": net, "Gateway": gateway }]);
        let options = json!({
            "com.docker.network.enable_ipv6": false, "com.docker.network.generic": {},
        });
        let request =
            json!({ "NetworkID": id, "Options": options, "IPv4Data": data, "IPv6Data": [] });
        to.call("NetworkDriver.CreateNetwork", &request)?;
        Ok(Self { at: at.clone(), id, pool, has_macs })
    }

    /// An endpoint that is not there yet.
    pub(super) fn endpoint(&self, number: usize) -> Endpoint<'_> {
        let mac = format!("02:42:{:02x}:{:02x}:00:01", number >> 8 & 255, number & 255);
        Endpoint {
            network: self,
            to: Client::at(self.at.clone()),
            id: format!("{number:064x}"),
            mac: Some(mac).filter(|_| self.has_macs),
            address: String::new(),
        }
    }
}

/// A container's end, without a container.
pub(super) struct Endpoint<'a> {
    network: &'a Network,
    to: Client,
    id: String,
    mac: Option<String>,
    address: String,
}

impl Endpoint<'_> {
    /// One call of its life.
    pub(super) fn step(&mut self, call: &str) -> Result<()> {
        let body = self.body(call);
        let answer = self.to.call(call, &body)?;
        if call == STARTS[0] {
            self.address = text(&answer["Address"]);
            if self.address.is_empty() {
                return Err(Error::not_found(format!("{call} gave no address")));
            }
        }
        Ok(())
    }

    /// All of its life.
    pub(super) fn live(mut self) -> Result<()> {
        STARTS.iter().chain(&ENDS).try_for_each(|call| self.step(call))
    }

    fn body(&self, call: &str) -> Value {
        let pool = &self.network.pool;
        let options = json!({
            "com.docker.network.endpoint.exposedports": [], "com.docker.network.portmap": [],
        });
        let mut body = json!({ "NetworkID": self.network.id, "EndpointID": self.id });
        match call {
            "IpamDriver.RequestAddress" => {
                let options = match &self.mac {
                    Some(mac) => json!({ "com.docker.network.endpoint.macaddress": mac }),
                    None => json!({}),
                };
                return json!({ "PoolID": pool, "Address": "", "Options": options });
            }
            "IpamDriver.ReleaseAddress" => {
                let address = self.address.split('/').next();
                return json!({ "PoolID": pool, "Address": address });
            }
            "NetworkDriver.CreateEndpoint" => {
                body["Interface"] = json!({
                    "Address": self.address, "AddressIPv6": "", "MacAddress": self.mac.as_deref().unwrap_or_default(),
                });
                body["Options"] = options;
            }
            "NetworkDriver.Join" => {
                body["SandboxKey"] = json!(SANDBOX);
                body["Options"] = options;
            }
            "NetworkDriver.ProgramExternalConnectivity" => body["Options"] = options,
            _ => {}
        }
        body
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
