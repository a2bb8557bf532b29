//! A host in memory: the store's own memory implementation, and a dataplane that remembers its
//! calls.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use docker::driver::{Backstage, Docker, Sandboxes, Settings, Within};
use docker::server::Plugin;
use doubles::BookOnly;
use doubles::Memory;
use engine::Engine;
use engine::port::{Driver, Host, Occupied, Presence};
use libnetwork::{Answer, Method, Request, Scope};
use model::*;
use serde_json::Value;

/// What the kernel would have.
#[derive(Default)]
pub(crate) struct Kernel {
    /// Bridges, by network.
    pub(crate) bridges: BTreeSet<NetworkName>,
    /// Interfaces, by whose they are.
    pub(crate) links: BTreeMap<AttachmentId, Attachment>,
    /// Published ports, by whose they are.
    pub(crate) ports: BTreeMap<AttachmentId, Vec<PortMap>>,
    /// Namespaces that exist, with the interfaces in them.
    pub(crate) sandboxes: BTreeMap<String, BTreeSet<IfName>>,
    /// Whether an engine may restore containers that went on without it.
    pub(crate) restores: bool,
    /// What the next attach of a link finds taken.
    pub(crate) rival: Option<(String, IfName)>,
}

#[derive(Default)]
pub(crate) struct World {
    pub(crate) store: Memory,
    pub(crate) kernel: Mutex<Kernel>,
    /// The networks of many hosts.
    pub(crate) many: Mutex<BTreeSet<NetworkName>>,
}

fn path_of(attachment: &Attachment) -> String {
    let sandbox = attachment.sandbox.as_ref();
    sandbox.map(|sandbox| sandbox.path.display().to_string()).unwrap_or_default()
}

fn interface(name: &str, place: InterfaceNamespace, attachment: &Attachment) -> Interface {
    let mac = attachment.wiring.link.as_ref().and_then(|link| link.mac);
    Interface { name: name.parse().unwrap(), mac, mtu: None, place }
}

impl World {
    fn plug(&self, attachment: &Attachment, link: &Link) -> Result<Vec<Interface>> {
        let mut kernel = self.kernel.lock().unwrap();
        let short = &attachment.id.container.as_str()[..8];
        let mut made =
            vec![interface(&format!("veth{short}"), InterfaceNamespace::Host, attachment)];
        match attachment.handoff {
            Handoff::Caller => {
                made.push(interface(&format!("spk{short}"), InterfaceNamespace::Host, attachment));
            }
            Handoff::Finish => {
                let name = link.name.clone().expect("a finished link has a name");
                let path = path_of(attachment);
                if let Some((path, name)) = kernel.rival.take() {
                    kernel.sandboxes.entry(path).or_default().insert(name);
                }
                if !kernel.sandboxes.entry(path).or_default().insert(name.clone()) {
                    return Err(Error::conflict(format!("interface {name} exists")));
                }
                made.push(interface(name.as_str(), InterfaceNamespace::Sandbox, attachment));
            }
        }
        kernel.links.insert(attachment.id.clone(), attachment.clone());
        Ok(made)
    }
}

impl Driver for World {
    fn attach(&self, attachment: &Attachment) -> Result<Attached> {
        let mut attached =
            Attached { addresses: attachment.addresses.clone(), ..Attached::default() };
        if let Some(link) = &attachment.wiring.link {
            attached.interfaces = self.plug(attachment, link)?;
        }
        if let Some(publish) = &attachment.wiring.publish {
            let mut kernel = self.kernel.lock().unwrap();
            let served = kernel.ports.entry(attachment.id.clone()).or_default();
            served.retain(|map| !publish.ports.contains(map));
            served.extend(publish.ports.iter().cloned());
        }
        Ok(attached)
    }

    fn detach(&self, attachment: &Attachment) -> Result<()> {
        let mut kernel = self.kernel.lock().unwrap();
        if let Some(publish) = &attachment.wiring.publish {
            let served = kernel.ports.entry(attachment.id.clone()).or_default();
            served.retain(|map| !publish.ports.contains(map));
            kernel.ports.retain(|_, served| !served.is_empty());
        }
        if attachment.wiring.link.is_some()
            && let Some(link) = kernel.links.remove(&attachment.id)
            && let Some(name) = link.wiring.link.as_ref().and_then(|link| link.name.clone())
        {
            kernel.sandboxes.entry(path_of(&link)).or_default().remove(&name);
        }
        Ok(())
    }

    fn check(&self, _: &Attachment, _: &Attached) -> Result<()> {
        Ok(())
    }

    fn presence(&self, attachment: &Attachment) -> Presence {
        let kernel = self.kernel.lock().unwrap();
        match attachment.wiring.link.is_none() || kernel.links.contains_key(&attachment.id) {
            true => Presence::Alive,
            false => Presence::Gone,
        }
    }

    fn restore(&self, _: &Attachment) -> Result<bool> {
        Ok(false)
    }

    fn hardware_address(&self, attachment: &Attachment) -> Option<Mac> {
        let given = attachment.wiring.link.as_ref().and_then(|link| link.mac);
        let bytes = attachment.id.container.as_str().as_bytes();
        given.or(Some(Mac::local([bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5]])))
    }

    fn up(&self, network: &Network) -> Result<()> {
        self.kernel.lock().unwrap().bridges.insert(network.name.clone());
        Ok(())
    }

    fn remove(&self, network: &Network) -> Result<()> {
        self.kernel.lock().unwrap().bridges.remove(&network.name);
        Ok(())
    }
}

doubles::no_strays!(World);

impl Host for World {
    fn me(&self) -> Process {
        Process { pid: 1, start: 1 }
    }
    fn now(&self) -> Timestamp {
        Timestamp(1_000)
    }
    fn is_running(&self, _: &Process) -> bool {
        true
    }
    fn occupied(&self) -> Result<Vec<Occupied>> {
        Ok(Vec::new())
    }
    fn wait_for_end(&self, _: &Process, _: Duration) -> bool {
        true
    }
    fn has_hosts(&self, network: &NetworkName) -> bool {
        self.many.lock().unwrap().contains(network)
    }
}

/// What the binary wires in earnest.
pub(crate) struct Stage(Arc<World>);

impl Sandboxes for Stage {
    fn inspect(&self, path: &Path) -> Result<Option<Within>> {
        let kernel = self.0.kernel.lock().unwrap();
        let there = kernel.sandboxes.get(&path.display().to_string());
        Ok(there.map(|links| Within { inode: 7, links: links.clone() }))
    }

    fn may_restore(&self) -> bool {
        self.0.kernel.lock().unwrap().restores
    }
}

impl Backstage for Stage {
    fn with_engine<T>(&self, work: impl FnOnce(&Engine<'_>) -> Result<T>) -> Result<T> {
        work(&self.0.engine())
    }

    fn now(&self) -> Timestamp {
        Timestamp(1_000)
    }
}

impl World {
    pub(crate) fn engine(&self) -> Engine<'_> {
        Engine::new(&self.store, self, &BookOnly, self)
    }

    /// A plugin as a process that just started has it.
    pub(crate) fn plugin(self: &Arc<Self>) -> Docker<Stage> {
        let settings = Settings {
            scope: Scope::Local,
            requires_mac: false,
            backend: Backend::Nftables,
            ephemeral: 32768.try_into().unwrap()..=60999.try_into().unwrap(),
        };
        Docker::new(Stage(Arc::clone(self)), settings).unwrap()
    }

    /// A call by a process that starts for it and ends after it.
    pub(crate) fn call(self: &Arc<Self>, method: &str, body: &Value) -> Result<Value> {
        let method = Method::from_path(&format!("/{method}")).expect(method);
        let request = match libnetwork::decode(method, body.to_string().as_bytes()) {
            Ok(Request::Do(call)) => *call,
            Ok(Request::Ask(_)) => panic!("a question"),
            Err(libnetwork::Refusal::Value(error)) => return Err(error),
            Err(libnetwork::Refusal::Syntax(what)) => panic!("{what}"),
        };
        let answer: Answer = self.plugin().call(request)?;
        Ok(serde_json::to_value(answer).unwrap())
    }

    /// The same call twice, as an engine that lost the answer makes it.
    pub(crate) fn twice(self: &Arc<Self>, method: &str, body: &Value) -> Value {
        let first = self.call(method, body).unwrap();
        assert_eq!(self.call(method, body).unwrap(), first, "{method} repeated");
        first
    }

    /// What the book still holds, for a person to read.
    pub(crate) fn left(&self) -> Vec<String> {
        let engine = self.engine();
        let mut left: Vec<String> = Vec::new();
        left.extend(
            engine.records.networks().unwrap().iter().map(|n| format!("network {}", n.name)),
        );
        left.extend(engine.records.aliases().unwrap().iter().map(|a| format!("alias {}", a.id)));
        left.extend(engine.records.subnets().unwrap().iter().map(|s| format!("subnet {}", s.id)));
        left.extend(engine.records.attachments().unwrap().iter().map(|a| a.id.to_string()));
        let holders = engine.records.holders().unwrap();
        left.extend(holders.iter().map(|h| format!("{} of {}", h.lease.address, h.tenant)));
        let kept = engine.records.reservations().unwrap();
        left.extend(kept.iter().map(|kept| format!("reserved {}", kept.address)));
        left.extend(engine.records.ports().unwrap().iter().map(|port| format!("port {port:?}")));
        let kernel = self.kernel.lock().unwrap();
        left.extend(kernel.bridges.iter().map(|name| format!("bridge of {name}")));
        left.extend(kernel.links.keys().map(|id| format!("link of {id}")));
        left.extend(kernel.ports.keys().map(|id| format!("ports of {id}")));
        left
    }
}
