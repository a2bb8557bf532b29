//! The plugins over a store in memory and a dataplane that only writes down its calls.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::cell::RefCell;
use std::net::IpAddr;
use std::path::Path;

use cni::wire::Environment;
use cni::{Context, Delegates, NamespaceKind, Namespaces, Output, Plugin};
use doubles::Memory;
use doubles::OneProcess;
use engine::Engine;
use engine::port::{Driver, Offer, Presence};
use model::{
    Attached, Attachment, Backend, Dns, Error, IfName, Interface, InterfaceAddress,
    InterfaceNamespace, IpNet, LinkKind, Mac, Network, Result, Timestamp,
};
use serde_json::{Value, json};

/// Writes down every verb with its arguments.
#[derive(Default)]
pub struct Recorder {
    pub calls: RefCell<Vec<(&'static str, Attachment)>>,
}

impl Recorder {
    fn record(&self, verb: &'static str, attachment: &Attachment) {
        self.calls.borrow_mut().push((verb, attachment.clone()));
    }
}

impl Driver for Recorder {
    fn attach(&self, attachment: &Attachment) -> Result<Attached> {
        self.record("attach", attachment);
        let interface = |name: &str, place| Interface {
            name: name.parse().unwrap(),
            mac: Some(Mac::new([2, 0, 0, 0, 0, 1])),
            mtu: None,
            place,
        };
        let mut attached = Attached {
            addresses: attachment.addresses.clone(),
            routes: attachment.routes.clone(),
            dns: attachment.dns.clone(),
            ..Attached::default()
        };
        if attachment.wiring.bandwidth.as_ref().is_some_and(|limits| limits.egress.is_some()) {
            attached.interfaces.push(interface("bwp0", InterfaceNamespace::Host));
        }
        if let Some(link) = &attachment.wiring.link {
            if let LinkKind::Bridge(bridge) = &link.kind {
                attached.interfaces.push(interface(bridge.name.as_str(), InterfaceNamespace::Host));
            }
            attached
                .interfaces
                .push(interface(attachment.id.ifname.as_str(), InterfaceNamespace::Sandbox));
            let last = attached.interfaces.len() - 1;
            attached.addresses.iter_mut().for_each(|held| held.interface = Some(last));
        }
        Ok(attached)
    }

    /// The source of addresses chooses those that are wanted, or the ninth of a subnet.
    fn offer(&self, attachment: &Attachment) -> Result<Offer> {
        self.record("offer", attachment);
        let reported = attachment.leases.iter().map(|lease| lease.address.addr());
        let mut chosen: Vec<IpAddr> = reported.collect();
        if chosen.is_empty() {
            chosen.push("10.5.0.9".parse().unwrap());
        }
        let given = |address: IpAddr| InterfaceAddress {
            address: IpNet::new(address, 24).unwrap(),
            gateway: None,
            interface: None,
        };
        let link = attachment.wiring.link.clone();
        let (routes, dns) = (Vec::new(), Dns::default());
        Ok(Offer { addresses: chosen.into_iter().map(given).collect(), routes, dns, link })
    }

    fn detach(&self, attachment: &Attachment) -> Result<()> {
        self.record("detach", attachment);
        Ok(())
    }

    fn check(&self, attachment: &Attachment, attached: &Attached) -> Result<()> {
        self.record("check", attachment);
        let expected: Option<&IfName> = attached.interfaces.iter().map(|it| &it.name).next_back();
        match expected.is_none_or(|name| *name == attachment.id.ifname) {
            true => Ok(()),
            false => Err(Error::new(model::Kind::Kernel, "another interface")),
        }
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

doubles::no_strays!(Recorder);

/// At the dawn of time.
pub const ME: OneProcess = OneProcess(Timestamp(0));

/// `/ns/own` is ours, everything else in `/ns` is another one.
pub struct Spaces;

impl Namespaces for Spaces {
    fn inspect(&self, path: &Path) -> Result<NamespaceKind> {
        Ok(match path {
            _ if path == Path::new("/ns/own") => NamespaceKind::Own(1),
            _ if path.starts_with("/ns") => NamespaceKind::Other(2),
            _ => NamespaceKind::Nothing("no such file or directory".into()),
        })
    }
}

/// Everything that plugins work with, kept between calls.
pub struct Rig {
    pub driver: Recorder,
    pub store: Memory,
    pub root: tempfile::TempDir,
    pub backend: Backend,
}

impl Rig {
    pub fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        Self { driver: Recorder::default(), store: Memory::new(), root, backend: Backend::Nftables }
    }

    /// Calls a plugin with `variables` in its environment.
    pub fn call(&self, plugin: Plugin, variables: &[(&str, &str)], input: &str) -> Output {
        let environment = Environment::read(|name| {
            let found = variables.iter().rev().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        });
        let (delegates, me) = (Delegates::default(), ME);
        let engine = Engine::new(&self.store, &self.driver, &delegates, &me);
        let allowlist = self.root.path().join("allowlist.conf");
        let context = Context {
            engine: &engine,
            backend: self.backend,
            namespaces: &Spaces,
            now: Timestamp(0),
            allowlist: &allowlist,
            share: &|_| Err(Error::unsupported("there is no cluster of hosts here")),
        };
        cni::run(plugin, &environment, &mut input.as_bytes(), &context)
    }

    /// Works with the engine that the plugins work with.
    pub fn engine<T>(&self, work: impl FnOnce(&Engine<'_>) -> T) -> T {
        let (delegates, me) = (Delegates::default(), ME);
        work(&Engine::new(&self.store, &self.driver, &delegates, &me))
    }

    /// Calls a plugin for `container`'s `eth0`.
    pub fn command(
        &self,
        command: &str,
        plugin: Plugin,
        container: &str,
        config: &Value,
    ) -> Output {
        self.with(command, plugin, (container, ""), config)
    }

    /// The same with `CNI_ARGS`.
    pub fn with(
        &self,
        command: &str,
        plugin: Plugin,
        (container, args): (&str, &str),
        config: &Value,
    ) -> Output {
        let variables = [
            ("CNI_COMMAND", command),
            ("CNI_CONTAINERID", container),
            ("CNI_IFNAME", "eth0"),
            ("CNI_NETNS", "/ns/one"),
            ("CNI_PATH", "/nowhere"),
            ("CNI_ARGS", args),
        ];
        self.call(plugin, &variables, &config.to_string())
    }

    /// ADD, which must succeed, and its result.
    pub fn add(&self, plugin: Plugin, container: &str, config: &Value) -> Value {
        json_of(&self.command("ADD", plugin, container, config))
    }

    /// ADD, which must fail, and its error.
    pub fn refused(&self, plugin: Plugin, args: &str, config: &Value) -> (u64, String) {
        let output = self.with("ADD", plugin, ("c", args), config);
        assert_eq!(output.code, 1, "{config}: {}", output.stdout);
        let error: Value = serde_json::from_str(&output.stdout).unwrap();
        assert!(error["cniVersion"].is_string(), "{error}");
        (error["code"].as_u64().unwrap(), error["msg"].as_str().unwrap().to_owned())
    }

    /// The last call of the dataplane.
    pub fn last(&self) -> (&'static str, Attachment) {
        self.driver.calls.borrow().last().cloned().unwrap()
    }

    /// A `host-local` section whose directory is the rig's.
    pub fn host_local(&self, subnet: &str) -> Value {
        json!({"type": "host-local", "subnet": subnet, "dataDir": self.root.path()})
    }
}

/// The result of a call that must have succeeded.
pub fn json_of(output: &Output) -> Value {
    assert_eq!(output.code, 0, "{output:?}");
    serde_json::from_str(&output.stdout).unwrap()
}

/// A configuration of version 1.1.0 with more fields.
pub fn config(fields: Value) -> Value {
    let mut config = json!({"cniVersion": "1.1.0", "name": "net"});
    for (key, value) in fields.as_object().unwrap() {
        config[key] = value.clone();
    }
    config
}

/// The result of an earlier plugin: a bridge, a pair, two addresses.
pub fn previous() -> Value {
    json!({"cniVersion": "1.1.0",
        "interfaces": [{"name": "br0"}, {"name": "veth1"},
            {"name": "eth0", "sandbox": "/ns/one", "mac": "02:00:00:00:00:07"}],
        "ips": [{"address": "10.0.0.5/24", "gateway": "10.0.0.1", "interface": 2},
            {"address": "fd00::5/64", "interface": 2}],
        "routes": [{"dst": "0.0.0.0/0"}]})
}
