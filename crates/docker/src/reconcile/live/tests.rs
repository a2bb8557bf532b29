use model::{AttachmentId, IpNet, NetworkName, Space, SubnetId};

use super::super::store_view::HeldNetwork;
use super::*;
use crate::api::{Network, Reach, Subnet};

const NET: &str = "10.1.0.0/24";

/// What the book holds and what was seen, by and by.
#[derive(Default)]
struct Case {
    held: DockerRecords,
    snapshot: Snapshot,
}

fn subnet_id(net: &str, part: Option<&str>) -> SubnetId {
    let parse = |text: &str| text.parse::<IpNet>().unwrap();
    SubnetId { space: Space::Host, net: parse(net), part: part.map(parse) }
}

fn attachment(container: &str) -> AttachmentId {
    let (container, ifname) = (container.parse().unwrap(), "eth".parse().unwrap());
    AttachmentId { network: "net".parse().unwrap(), container, ifname }
}

impl Case {
    /// Docker's id of network `net`.
    fn network(mut self, id: &str, title: Option<&str>) -> Self {
        let title = title.map(|title| title.parse::<NetworkName>().unwrap());
        let network = "net".parse().unwrap();
        self.held.networks.push(HeldNetwork {
            id: id.parse().unwrap(),
            network,
            title,
            lister: None,
            is_used: false,
        });
        self
    }

    fn subnet(mut self, id: SubnetId) -> Self {
        self.held.subnets.push(HeldSubnet {
            id,
            network: "net".parse().unwrap(),
            listed: false,
            lister: None,
            idle: false,
        });
        self
    }

    fn lease(mut self, address: &str, user: Option<&str>) -> Self {
        let (subnet, user) = (subnet_id(NET, None), user.map(attachment));
        self.held.leases.push(HeldLease { subnet, address: address.parse().unwrap(), user });
        self
    }

    fn endpoint(mut self, id: &str, network: Option<&str>) -> Self {
        let network = network.map(|network| network.parse().unwrap());
        self.held.endpoints.push(HeldEndpoint { id: attachment(id), network, owner: None });
        self
    }

    /// An engine lists a network of [`NET`], and its endpoints if it tells them.
    fn seen(mut self, id: &str, reach: Reach, endpoints: Option<&[(&str, &str)]>) -> Self {
        let subnets = vec![Subnet { net: NET.parse().unwrap(), part: None }];
        let (driver, ipam) = (String::new(), String::new());
        let network = Network { id: id.parse().unwrap(), name: None, driver, ipam, reach, subnets };
        let endpoint = |(id, address): &(&str, &str)| Endpoint {
            id: id.parse().unwrap(),
            name: None,
            addresses: vec![address.parse().unwrap()],
        };
        let endpoints = endpoints.map(|endpoints| endpoints.iter().map(endpoint).collect());
        self.snapshot.add(Sighting { network, endpoints, engine: None });
        self
    }

    fn listed(mut self) -> Self {
        self.held.subnets.iter_mut().for_each(|subnet| subnet.listed = true);
        self
    }

    fn idle(mut self) -> Self {
        self.held.subnets.iter_mut().for_each(|subnet| subnet.idle = true);
        self
    }

    fn live(&self) -> Live {
        live(&self.held, &self.snapshot)
    }

    fn subnets(&self) -> Vec<String> {
        self.live().subnets.iter().map(ToString::to_string).collect()
    }

    fn addresses(&self) -> Vec<String> {
        self.live().addresses.iter().map(|(_, address)| address.to_string()).collect()
    }
}

#[test]
fn a_network_lives_that_is_listed_or_never_was() {
    let case = Case::default()
        .network("listed", Some("a"))
        .network("gone", Some("b"))
        .network("strange", None)
        .seen("listed", Reach::Local, Some(&[("e1", "10.1.0.2")]))
        .seen("other", Reach::Swarm, None);
    let live = case.live().networks;
    let of = |id: &str| live.get(&id.parse().unwrap());
    assert_eq!(of("listed"), Some(&Some(BTreeSet::from(["e1".parse().unwrap()]))));
    assert_eq!(of("gone"), None);
    assert_eq!(of("strange"), Some(&None));
    assert_eq!(of("other"), Some(&None));
}

#[test]
fn a_network_of_two_engines_is_judged_by_neither() {
    let case = Case::default().seen("n", Reach::Local, Some(&[])).seen(
        "n",
        Reach::Local,
        Some(&[("e1", "10.1.0.2")]),
    );
    assert_eq!(case.live().networks.into_values().collect::<Vec<_>>(), [None]);
}

#[test]
fn a_subnet_lives_with_its_network_and_wherever_it_may_be_another_engines() {
    let (whole, none) = (|| subnet_id(NET, None), Vec::<String>::new());
    let base = || Case::default().subnet(whole());
    let used = [NET.to_owned()];
    assert_eq!(base().seen("n", Reach::Local, Some(&[])).subnets(), used);
    assert_eq!(base().seen("n", Reach::Swarm, None).subnets(), used);
    assert_eq!(base().seen("n", Reach::Template, None).idle().subnets(), none);
    // It came to nothing, and nothing depends on it.
    assert_eq!(base().idle().subnets(), none);
    assert_eq!(base().subnets(), used, "on a bridge of an engine that is not asked");
    assert_eq!(base().lease("10.1.0.2", None).subnets(), used);
    assert_eq!(base().network("n", None).subnets(), used);
    // An engine that is asked has listed it before.
    assert_eq!(base().lease("10.1.0.2", None).listed().subnets(), none);
    assert_eq!(base().network("n", Some("a")).subnets(), none);
    let mut global = base();
    global.held.subnets[0].id.space = Space::Global;
    assert_eq!(global.subnets(), used);
}

#[test]
fn a_part_of_a_subnet_is_not_another() {
    let part = |part: &str| subnet_id(NET, Some(part));
    let case = Case::default().subnet(part("10.1.0.0/26")).subnet(part("10.1.0.64/26")).seen(
        "n",
        Reach::Local,
        Some(&[]),
    );
    assert_eq!(case.subnets().len(), 2, "the engine does not say which");
    let mut case = case.listed();
    for sighting in case.snapshot.networks.values_mut() {
        sighting.network.subnets[0].part = "10.1.0.64/26".parse().ok();
    }
    assert_eq!(case.subnets(), ["10.1.0.0/24 (10.1.0.64/26)"]);
}

#[test]
fn an_address_lives_with_its_endpoint_and_where_no_engine_can_say() {
    let base = || Case::default().subnet(subnet_id(NET, None)).lease("10.1.0.2", Some("e1"));
    let none = Vec::<String>::new();
    let held = ["10.1.0.2"];
    let local = |endpoints| base().seen("n", Reach::Local, endpoints);
    assert_eq!(local(Some(&[])).addresses(), none);
    assert_eq!(local(Some(&[("e9", "10.1.0.2")])).addresses(), held);
    assert_eq!(local(None).addresses(), held);
    assert_eq!(base().seen("n", Reach::Swarm, None).addresses(), held);
    assert_eq!(base().addresses(), held, "an engine that is not asked may have it");
    assert_eq!(base().listed().addresses(), none);
    // Its endpoint is on the same subnet in an engine that is not asked.
    let shared = local(Some(&[])).network("strange", None).endpoint("e1", Some("strange"));
    assert_eq!(shared.addresses(), held);
    assert_eq!(local(Some(&[])).endpoint("e1", Some("n")).addresses(), none);
    let mut global = local(Some(&[]));
    global.held.leases[0].subnet.space = Space::Global;
    assert_eq!(global.addresses(), held);
}

#[test]
fn a_running_container_adds_to_what_lives() {
    let mut live = Case::default()
        .seen("listed", Reach::Local, Some(&[]))
        .seen("silent", Reach::Swarm, None)
        .live();
    let endpoint = |id: &str, address: &str| Endpoint {
        id: id.parse().unwrap(),
        name: None,
        addresses: vec![address.parse().unwrap()],
    };
    let network = |id: &str| Some(id.parse().unwrap());
    add_running(
        &DockerRecords::default(),
        &mut live,
        vec![
            (network("listed"), endpoint("e1", "10.1.0.2")),
            (network("silent"), endpoint("e2", "10.1.0.3")),
            (network("new"), endpoint("e3", "10.1.0.4")),
            (None, endpoint("e4", "10.1.0.5")),
        ],
    );
    let of = |id: &str| live.networks.get(&id.parse().unwrap()).cloned();
    assert_eq!(of("listed"), Some(Some(BTreeSet::from(["e1".parse().unwrap()]))));
    assert_eq!(of("silent"), Some(None));
    assert_eq!(of("new"), Some(Some(BTreeSet::from(["e3".parse().unwrap()]))));
    assert_eq!(live.addresses.len(), 4);
}
