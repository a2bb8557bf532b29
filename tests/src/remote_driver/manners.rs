//! What kind of driver it is.

use serde_json::{Value, json};

/// A route of a Join's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// In CIDR notation.
    pub destination: String,
    /// Type 0 with it, type 1 without.
    pub next_hop: Option<String>,
}

/// What a driver says and asks for; by default a local one of both kinds that gives its networks'
/// gateways, and whose interfaces are called `eth…`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manners {
    /// It is a network driver.
    pub network: bool,
    /// It is an IPAM driver.
    pub ipam: bool,
    /// Its networks' scope: `local` or `global`.
    pub scope: String,
    /// Where its networks reach: left out, if none.
    pub connectivity: Option<String>,
    /// `GwAllocCheck` is asked and answers so for IPv4 and IPv6; not asked, if none.
    pub gateway_check: Option<(bool, bool)>,
    /// It wants hardware addresses with requests for addresses.
    pub requires_mac: bool,
    /// It forgets, and needs all calls again.
    pub replay: bool,
    /// Join gives the gateways that the network has, unless that is internal.
    pub gateway: bool,
    /// No further gateway is wanted for its containers.
    pub no_gateway_service: bool,
    /// The prefix of interfaces' names.
    pub prefix: String,
    /// Routes of a Join.
    pub routes: Vec<Route>,
    /// Endpoints that come without addresses get these, in order, with a hardware address.
    pub own: Vec<String>,
    /// It makes hardware addresses, where none is given.
    pub makes_mac: bool,
    /// Pools for who wants any, in order; then `10.200.N.0/24` and `fd00:200:N::/64`.
    pub pools: Vec<String>,
    /// What it tells with every pool.
    pub pool_data: Value,
    /// What it says when a pool is used up.
    pub exhausted: String,
    /// It knows ProgramExternalConnectivity and RevokeExternalConnectivity.
    pub external: bool,
    /// It translates published ports and what leaves its networks, in the host's packet filter.
    pub translates: bool,
    /// What EndpointOperInfo tells.
    pub info: Value,
}

impl Default for Manners {
    fn default() -> Self {
        Self {
            network: true,
            ipam: true,
            scope: "local".into(),
            connectivity: None,
            gateway_check: None,
            requires_mac: false,
            replay: false,
            gateway: true,
            no_gateway_service: false,
            prefix: "eth".into(),
            routes: Vec::new(),
            own: Vec::new(),
            makes_mac: true,
            pools: Vec::new(),
            pool_data: json!({}),
            exhausted: "no available IPv4 addresses on this pool".into(),
            external: true,
            translates: false,
            info: json!({}),
        }
    }
}

impl Manners {
    pub(super) fn activate(&self) -> Value {
        let kinds = [(self.network, "NetworkDriver"), (self.ipam, "IpamDriver")];
        let kinds = kinds.into_iter().filter_map(|(is, kind)| is.then_some(kind));
        json!({"Implements": kinds.collect::<Vec<_>>()})
    }

    pub(super) fn capabilities(&self) -> Value {
        let mut answer = json!({"Scope": self.scope});
        if let Some(connectivity) = &self.connectivity {
            answer["ConnectivityScope"] = connectivity.as_str().into();
        }
        if self.gateway_check.is_some() {
            answer["GwAllocChecker"] = true.into();
        }
        answer
    }

    pub(super) fn routes(&self) -> Value {
        let route = |route: &Route| match &route.next_hop {
            Some(hop) => json!({"Destination": route.destination, "RouteType": 0, "NextHop": hop}),
            None => json!({"Destination": route.destination, "RouteType": 1}),
        };
        self.routes.iter().map(route).collect()
    }
}
