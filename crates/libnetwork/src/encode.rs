//! Requests, as the engines from 28.0 on write them: what is none is left out, null, or an empty
//! text wherever it is so with them.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::ipam::{ENDPOINT_NAME, EndpointName, GATEWAY, KIND, SERIAL};
use super::network::{NO_PROXY_6TO4, NODE};
use super::options::{
    DNS_SERVERS, ENABLE_IPV4, ENABLE_IPV6, GENERIC, IFNAME, INTERNAL, MAC_ADDRESS, SYSCTLS,
};
use super::ports::{EXPOSED, PORT_MAP};
use super::write::Writer;
use super::{
    AllocateNetwork, Call, CreateEndpoint, CreateNetwork, Discovery, EndpointOptions, EndpointRef,
    Exposed, HostPorts, Join, Method, NetworkOptions, PortBinding, Ports, ProgramConnectivity,
    Purpose, RequestAddress, RequestPool, Subnet,
};

impl Call {
    /// Its URL.
    pub fn method(&self) -> Method {
        match self {
            Call::GwAllocCheck(_) => Method::GwAllocCheck,
            Call::CreateNetwork(_) => Method::CreateNetwork,
            Call::DeleteNetwork(_) => Method::DeleteNetwork,
            Call::AllocateNetwork(_) => Method::AllocateNetwork,
            Call::FreeNetwork(_) => Method::FreeNetwork,
            Call::CreateEndpoint(_) => Method::CreateEndpoint,
            Call::EndpointOperInfo(_) => Method::EndpointOperInfo,
            Call::DeleteEndpoint(_) => Method::DeleteEndpoint,
            Call::Join(_) => Method::Join,
            Call::Leave(_) => Method::Leave,
            Call::ProgramConnectivity(_) => Method::ProgramConnectivity,
            Call::RevokeConnectivity(_) => Method::RevokeConnectivity,
            Call::DiscoverNew(_) => Method::DiscoverNew,
            Call::DiscoverDelete(_) => Method::DiscoverDelete,
            Call::RequestPool(_) => Method::RequestPool,
            Call::ReleasePool(_) => Method::ReleasePool,
            Call::RequestAddress(_) => Method::RequestAddress,
            Call::ReleaseAddress(_) => Method::ReleaseAddress,
        }
    }

    /// Its body: [`super::decode`] makes the same call of it.
    pub fn encode(&self) -> Vec<u8> {
        Writer::body(|body| match self {
            Call::GwAllocCheck(options) => body.object("Options", |map| options.write(map)),
            Call::CreateNetwork(create) => create.write(body),
            Call::DeleteNetwork(id) | Call::FreeNetwork(id) => body.text("NetworkID", id),
            Call::AllocateNetwork(allocate) => allocate.write(body),
            Call::CreateEndpoint(create) => create.write(body),
            Call::EndpointOperInfo(at)
            | Call::DeleteEndpoint(at)
            | Call::Leave(at)
            | Call::RevokeConnectivity(at) => at.write(body),
            Call::Join(join) => join.write(body),
            Call::ProgramConnectivity(program) => program.write(body),
            Call::DiscoverNew(news) | Call::DiscoverDelete(news) => news.write(body),
            Call::RequestPool(request) => request.write(body),
            Call::ReleasePool(key) => body.text("PoolID", key),
            Call::RequestAddress(request) => request.write(body),
            Call::ReleaseAddress(release) => {
                body.text("PoolID", &release.pool);
                body.text("Address", release.address);
            }
        })
    }
}

impl NetworkOptions {
    fn write(&self, map: &mut Writer) {
        if let Some(ipv4) = self.ipv4 {
            map.flag(ENABLE_IPV4, ipv4);
        }
        map.flag(ENABLE_IPV6, self.ipv6);
        map.texts(GENERIC, &self.generic);
        if self.internal {
            map.flag(INTERNAL, true);
        }
    }
}

impl CreateNetwork {
    fn write(&self, body: &mut Writer) {
        body.text("NetworkID", &self.id);
        body.object("Options", |map| self.options.write(map));
        body.objects("IPv4Data", &self.ipv4, Subnet::write);
        body.objects("IPv6Data", &self.ipv6, Subnet::write);
    }
}

impl AllocateNetwork {
    fn write(&self, body: &mut Writer) {
        body.text("NetworkID", &self.id);
        body.texts("Options", &self.options);
        for (key, subnets) in [("IPv4Data", &self.ipv4), ("IPv6Data", &self.ipv6)] {
            match subnets.is_empty() {
                true => body.null(key),
                false => body.objects(key, subnets, Subnet::write),
            }
        }
    }
}

impl Subnet {
    fn write(&self, entry: &mut Writer) {
        entry.perhaps("AddressSpace", self.space.as_ref());
        if !self.aux.is_empty() {
            let length = self.pool.prefix_len();
            let with_length = |address| format!("{address}/{length}");
            let aux = self.aux.iter().map(|(name, address)| (name.clone(), with_length(address)));
            entry.texts("AuxAddresses", &aux.collect::<BTreeMap<_, _>>());
        }
        if let Some(gateway) = self.gateway {
            entry.text("Gateway", gateway);
        }
        entry.text("Pool", self.pool);
    }
}

impl EndpointRef {
    fn write(&self, body: &mut Writer) {
        body.text("NetworkID", &self.network);
        body.text("EndpointID", &self.endpoint);
    }
}

impl CreateEndpoint {
    fn write(&self, body: &mut Writer) {
        self.at.write(body);
        body.object("Interface", |interface| {
            interface.perhaps("Address", self.interface.ipv4);
            interface.perhaps("AddressIPv6", self.interface.ipv6);
            interface.perhaps("MacAddress", self.interface.mac);
        });
        body.object("Options", |map| self.options.write(map));
    }
}

impl EndpointOptions {
    fn write(&self, map: &mut Writer) {
        if !self.dns.is_empty() {
            map.list(DNS_SERVERS, self.dns.iter().map(ToString::to_string));
        }
        self.ports.write(map);
        if let Some(ifname) = &self.ifname {
            map.text(IFNAME, ifname);
        }
        if let Some(mac) = self.mac {
            map.text(MAC_ADDRESS, STANDARD.encode(mac.octets()));
        }
        if !self.sysctls.is_empty() {
            let settings: Vec<_> = self.sysctls.iter().map(ToString::to_string).collect();
            map.text(SYSCTLS, settings.join(","));
        }
        for (key, value) in &self.driver {
            map.text(key, value);
        }
    }
}

impl Ports {
    fn write(&self, map: &mut Writer) {
        map.objects(EXPOSED, &self.exposed, Exposed::write);
        map.objects(PORT_MAP, &self.bindings, PortBinding::write);
    }
}

impl Exposed {
    fn write(&self, entry: &mut Writer) {
        entry.number("Proto", self.protocol.number().into());
        entry.number("Port", self.port.get().into());
    }
}

impl PortBinding {
    fn write(&self, entry: &mut Writer) {
        let (first, last) = match self.host_ports {
            HostPorts::Ephemeral => (0, 0),
            HostPorts::Range(first, last) => (first.get(), last.get()),
        };
        entry.number("Proto", self.protocol.number().into());
        entry.perhaps("IP", self.address);
        entry.number("Port", self.port.get().into());
        entry.perhaps("HostIP", self.host);
        entry.number("HostPort", first.into());
        entry.number("HostPortEnd", last.into());
    }
}

impl Join {
    fn write(&self, body: &mut Writer) {
        self.at.write(body);
        body.text("SandboxKey", self.sandbox.display());
        body.object("Options", |map| self.ports.write(map));
    }
}

impl ProgramConnectivity {
    fn write(&self, body: &mut Writer) {
        self.at.write(body);
        body.object("Options", |map| {
            if self.no_proxy_6to4 {
                map.flag(NO_PROXY_6TO4, true);
            }
            self.ports.write(map);
        });
    }
}

impl Discovery {
    fn write(&self, body: &mut Writer) {
        match self {
            Discovery::Other(kind) => {
                body.number("DiscoveryType", *kind);
                body.null("DiscoveryData");
            }
            Discovery::Node(node) => {
                body.number("DiscoveryType", NODE);
                body.object("DiscoveryData", |data| {
                    data.text("Address", node.address);
                    data.perhaps("BindAddress", node.bind);
                    data.flag("Self", node.own);
                });
            }
        }
    }
}

impl RequestPool {
    fn write(&self, body: &mut Writer) {
        body.text("AddressSpace", &self.space);
        body.perhaps("Pool", self.pool);
        body.perhaps("SubPool", self.sub);
        body.texts("Options", &self.options);
        body.flag("V6", self.v6);
    }
}

impl RequestAddress {
    fn write(&self, body: &mut Writer) {
        body.text("PoolID", &self.pool);
        body.perhaps("Address", self.address);
        let says_nothing = self.mac.is_none() && self.endpoint.is_none() && !self.serial;
        if self.purpose == Purpose::Auxiliary && says_nothing {
            return body.null("Options");
        }
        body.object("Options", |map| {
            if self.purpose == Purpose::Gateway {
                map.text(KIND, GATEWAY);
            }
            if let Some(mac) = self.mac {
                map.text(MAC_ADDRESS, mac);
            }
            if let Some(EndpointName::Usable(name)) = &self.endpoint {
                map.text(ENDPOINT_NAME, name);
            }
            if self.serial {
                map.text(SERIAL, "true");
            }
        });
    }
}
