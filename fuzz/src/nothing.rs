//! What stands behind the engine here.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use cni::{NamespaceKind, Namespaces};
use docker::driver::{Sandboxes, Within};
use engine::Members;
use engine::port::{Driver, Granted, Host, Ipam, Offer, Presence};
use model::{
    Attached, Attachment, Dns, Error, Handoff, IfName, Interface, InterfaceAddress,
    InterfaceNamespace, Link, Network, Process, Result, Timestamp,
};

/// A kernel, an address source, a host and its namespaces that agree to everything.
pub(crate) struct Nothing;

impl Driver for Nothing {
    fn attach(&self, attachment: &Attachment) -> Result<Attached> {
        Ok(Attached {
            addresses: attachment.addresses.clone(),
            routes: attachment.routes.clone(),
            dns: attachment.dns.clone(),
            interfaces: match &attachment.wiring.link {
                Some(link) => interfaces(attachment, link),
                None => Vec::new(),
            },
            keeps_in: false,
            prefix: None,
        })
    }

    fn connect(&self, _: &Attachment) -> Result<()> {
        Ok(())
    }

    fn offer(&self, attachment: &Attachment) -> Result<Offer> {
        let wanted = attachment.leases.iter().map(|lease| lease.address.addr());
        let mut addresses: Vec<IpAddr> = wanted.collect();
        if addresses.is_empty() {
            let last = attachment.id.container.as_str().bytes().fold(9, u8::wrapping_add);
            addresses.push([10, 5, 0, last].into());
        }
        let given = |address: IpAddr| InterfaceAddress {
            address: model::host_net(address),
            gateway: None,
            interface: None,
        };
        Ok(Offer {
            addresses: addresses.into_iter().map(given).collect(),
            routes: Vec::new(),
            dns: Dns::default(),
            link: attachment.wiring.link.clone(),
        })
    }

    fn detach(&self, _: &Attachment) -> Result<()> {
        Ok(())
    }

    fn check(&self, _: &Attachment, _: &Attached) -> Result<()> {
        Ok(())
    }

    fn presence(&self, _: &Attachment) -> Presence {
        Presence::Alive
    }

    fn restore(&self, _: &Attachment) -> model::Result<bool> {
        Ok(false)
    }

    fn hardware_address(&self, _: &Attachment) -> Option<model::Mac> {
        None
    }

    fn up(&self, _: &Network) -> model::Result<()> {
        Ok(())
    }

    fn remove(&self, _: &Network) -> Result<()> {
        Ok(())
    }
}

doubles::no_strays!(Nothing);

impl Ipam for Nothing {
    fn lease(&self, attachment: &Attachment) -> Result<Granted> {
        match &attachment.ipam {
            model::Ipam::Foreign(_) => Err(Error::unsupported("nothing is executed here")),
            _ => Ok(Granted::Chosen),
        }
    }

    fn release(&self, _: &Attachment) -> Result<()> {
        Ok(())
    }

    fn check(&self, _: &Attachment) -> Result<()> {
        Ok(())
    }

    fn gc(&self, _: &Network, _: &Members) -> Result<()> {
        Ok(())
    }

    fn status(&self, _: &Network) -> Result<()> {
        Ok(())
    }

    fn remove(&self, _: &Network) -> Result<()> {
        Ok(())
    }
}

impl Host for Nothing {
    fn me(&self) -> Process {
        Process { pid: 1, start: 1 }
    }

    fn now(&self) -> Timestamp {
        Timestamp(0)
    }

    fn is_running(&self, _: &Process) -> bool {
        true
    }

    fn occupied(&self) -> model::Result<Vec<engine::port::Occupied>> {
        Ok(Vec::new())
    }

    fn wait_for_end(&self, _: &Process, _: Duration) -> bool {
        false
    }
}

impl Namespaces for Nothing {
    fn inspect(&self, _: &Path) -> Result<NamespaceKind> {
        Ok(NamespaceKind::Other(2))
    }
}

impl Sandboxes for Nothing {
    fn inspect(&self, _: &Path) -> Result<Option<Within>> {
        Ok(Some(Within { inode: 2, links: std::iter::once(name("lo")).collect() }))
    }
}

fn interfaces(attachment: &Attachment, link: &Link) -> Vec<Interface> {
    let interface = |name, place| Interface { name, mac: link.mac, mtu: link.mtu, place };
    let inside = || link.name.clone().unwrap_or_else(|| attachment.id.ifname.clone());
    let far = match attachment.handoff {
        Handoff::Caller => interface(name("spk0"), InterfaceNamespace::Host),
        Handoff::Finish => interface(inside(), InterfaceNamespace::Sandbox),
    };
    vec![interface(name("veth0"), InterfaceNamespace::Host), far]
}

fn name(text: &str) -> IfName {
    text.parse().expect("a name")
}
