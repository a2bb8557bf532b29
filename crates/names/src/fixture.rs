//! What the records of tests have in common.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use model::{
    AttachmentId, Bridge, BridgePort, Gateway, IpNet, Ipam, Link, LinkKind, NetworkName, Order,
    Pool, PoolId, Range, Space, Timestamp,
};

use crate::fence::Judged;
use crate::fenced_answer::FenceHost;
use crate::holder::Holder;
use crate::refusal::Refusal;
use crate::sandbox::{Inside, Leaving};

/// The attachment of a container.
pub(crate) fn holder(container: &str) -> Holder {
    let id = AttachmentId {
        network: "front".parse().unwrap(),
        container: container.parse().unwrap(),
        ifname: "eth0".parse().unwrap(),
    };
    Holder { id, since: Timestamp(0) }
}

/// A bridge that is the default gateway.
pub(crate) fn bridge() -> Link {
    let kind = LinkKind::Bridge(Bridge {
        name: "br0".parse().unwrap(),
        gateway: Gateway::Default,
        host_absent: model::Absence::default(),
        force_address: false,
        hairpin: false,
        promiscuous: false,
        port: BridgePort::default(),
    });
    Link { kind, name: None, mac: None, mtu: None }
}

/// Addresses of the store, of the subnets that these are in.
pub(crate) fn pools(network: &NetworkName, addresses: &[IpNet]) -> Ipam {
    let of = |net: &IpNet| Range::of_hosts(net.trunc(), None, None).unwrap();
    let ranges = addresses.iter().map(of).collect();
    let id = PoolId { network: network.clone(), index: 0 };
    Ipam::Book { pools: vec![Pool { id, space: Space::Host, ranges, order: Order::NextAfterLast }] }
}

/// A packet filter in which everything is opened.
pub(crate) struct Open;

impl FenceHost for Open {
    fn is_host(&self, _: IpAddr) -> bool {
        false
    }

    fn is_near(&self, address: IpAddr) -> bool {
        self.is_host(address)
    }

    fn open(&self, _: &Judged) -> model::Result<()> {
        Ok(())
    }

    fn refused(&self, _: &Refusal) {}
}

/// A server in a sandbox, which the container can be itself.
pub(crate) struct Container(pub(crate) SocketAddr);

impl Inside for Container {
    fn udp(&self) -> io::Result<UdpSocket> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.connect(self.0)?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    }

    fn tcp(&self, _: Duration) -> io::Result<TcpStream> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn is_there(&self) -> bool {
        true
    }

    fn is_changed(&self) -> bool {
        false
    }

    fn restore(&self) -> model::Result<bool> {
        Ok(false)
    }

    fn leave(&self, _: Leaving) {}
}
