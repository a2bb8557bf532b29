//! The container's own loopback device.

use model::{Attached, Interface, InterfaceAddress, InterfaceNamespace, IpNet, Mac, Result};

use super::{Plan, Step};

pub(super) fn plan() -> Result<Plan> {
    let name: model::IfName = "lo".parse()?;
    let interface = Interface {
        name: name.clone(),
        mac: Some(Mac::new([0; 6])),
        mtu: None,
        place: InterfaceNamespace::Sandbox,
    };
    let address = |address: IpNet| InterfaceAddress { address, gateway: None, interface: Some(0) };
    let localhosts = [
        IpNet::new([127, 0, 0, 1].into(), 8),
        IpNet::new(std::net::Ipv6Addr::LOCALHOST.into(), 128),
    ];
    let addresses = localhosts.into_iter().flatten().map(address).collect();
    Ok(Plan {
        sandbox: vec![Step::Up(name)],
        attached: Attached { interfaces: vec![interface], addresses, ..Attached::default() },
        ..Plan::default()
    })
}
