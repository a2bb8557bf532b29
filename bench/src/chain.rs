//! Configuration lists, and the runtime's part: one plugin after the other, as libcni does it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use model::Result;
use serde_json::{Value, json};

use crate::execute::{Done, program, succeed};
use crate::world::Host;

/// The host port that chains publish.
pub(crate) const PORT: u16 = 8080;

/// Plugins at work on a host.
#[derive(Clone, Copy)]
pub(crate) struct Runtime<'a> {
    /// Where.
    pub(crate) host: &'a Host,
    /// Whose: a directory of executables.
    pub(crate) plugins: &'a Path,
}

/// What is attached.
#[derive(Clone, Debug)]
pub(crate) struct Attachment {
    /// The container's id.
    pub(crate) container: String,
    /// Its namespace.
    pub(crate) netns: PathBuf,
    /// Its interface.
    pub(crate) ifname: &'static str,
}

impl Attachment {
    /// `eth0` of a container.
    pub(crate) fn new(container: &str, netns: &Path) -> Self {
        Self { container: container.into(), netns: netns.into(), ifname: "eth0" }
    }
}

impl Runtime<'_> {
    /// Executes one plugin; the calling thread must be on the host.
    pub(crate) fn call(
        &self,
        plugin: &str,
        verb: &str,
        attachment: &Attachment,
        input: &str,
    ) -> Result<Done> {
        succeed(&mut self.command(plugin, verb, attachment), input)
    }

    /// What [`Runtime::call`] executes.
    pub(crate) fn command(
        &self,
        plugin: &str,
        verb: &str,
        attachment: &Attachment,
    ) -> std::process::Command {
        let mut command = program(self.plugins.join(plugin));
        command
            .env("CNI_COMMAND", verb)
            .env("CNI_CONTAINERID", &attachment.container)
            .env("CNI_NETNS", &attachment.netns)
            .env("CNI_IFNAME", attachment.ifname)
            .env("CNI_PATH", self.plugins)
            .env("SPOKE_CONFIG", self.host.dir.join("config.toml"));
        command
    }
}

/// A configuration list, ready to be given to its plugins.
#[derive(Clone, Debug)]
pub(crate) struct Chain {
    list: Value,
    links: Vec<Link>,
}

/// One plugin's configuration.
#[derive(Clone, Debug)]
struct Link {
    plugin: String,
    /// The object without its closing brace, so that a result can be added as it is.
    open: String,
}

impl Chain {
    /// The plugins of `list`; those that can publish ports are given `ports`.
    pub(crate) fn new(list: &Value, ports: &Value) -> Self {
        let plugins = list["plugins"].as_array().cloned().unwrap_or_default();
        let links = plugins.into_iter().map(|mut config| {
            config["name"] = list["name"].clone();
            config["cniVersion"] = list["cniVersion"].clone();
            if config["capabilities"]["portMappings"] == json!(true) {
                config["runtimeConfig"] = json!({ "portMappings": ports });
            }
            let plugin = config["type"].as_str().unwrap_or_default().to_owned();
            let mut open = config.to_string();
            open.pop();
            Link { plugin, open }
        });
        Self { links: links.collect(), list: list.clone() }
    }

    /// The same with other published ports.
    pub(crate) fn publishing(&self, ports: &Value) -> Self {
        Self::new(&self.list, ports)
    }

    /// How many plugins there are.
    pub(crate) fn len(&self) -> usize {
        self.links.len()
    }

    /// A plugin's name and what it reads.
    pub(crate) fn input(&self, index: usize, previous: &str) -> Option<(&str, String)> {
        let link = self.links.get(index)?;
        let input = match previous {
            "" => format!("{}}}", link.open),
            result => format!("{},\"prevResult\":{result}}}", link.open),
        };
        Some((&link.plugin, input))
    }

    /// ADD of the plugins in `range`, given what the one before answered; what the last answered.
    pub(crate) fn add(
        &self,
        runtime: Runtime<'_>,
        attachment: &Attachment,
        range: std::ops::Range<usize>,
        mut result: String,
    ) -> Result<String> {
        for index in range {
            let Some((plugin, input)) = self.input(index, &result) else { break };
            result = runtime.call(plugin, "ADD", attachment, &input)?.stdout;
        }
        Ok(result)
    }

    /// DEL of the plugins in `range`, the last first.
    pub(crate) fn del(
        &self,
        runtime: Runtime<'_>,
        attachment: &Attachment,
        range: std::ops::Range<usize>,
        result: &str,
    ) -> Result<Duration> {
        let mut wall = Duration::ZERO;
        for index in range.rev() {
            let Some((plugin, input)) = self.input(index, result) else { break };
            wall += runtime.call(plugin, "DEL", attachment, &input)?.wall;
        }
        Ok(wall)
    }
}

/// A network of a host.
#[derive(Clone, Copy)]
pub(crate) struct Net<'a> {
    /// The host.
    pub(crate) host: &'a Host,
    /// Its name, short enough for a bridge.
    pub(crate) name: &'a str,
    /// The second octet of its subnet.
    pub(crate) octet: u8,
}

impl Net<'_> {
    /// The name of its bridge.
    pub(crate) fn bridge(&self) -> String {
        format!("br-{}", self.name)
    }

    /// `host-local` with a /16, as Podman writes it.
    pub(crate) fn ipam(&self, routes: Value) -> Value {
        let (octet, data) = (self.octet, self.host.networks());
        json!({
            "type": "host-local", "routes": routes, "dataDir": data,
            "ranges": [[{ "subnet": format!("10.{octet}.0.0/16"), "gateway": format!("10.{octet}.0.1") }]],
        })
    }

    /// `bridge`, with a default route and whatever else.
    pub(crate) fn plugin(&self, more: &Value) -> Value {
        let mut config = json!({
            "type": "bridge", "bridge": self.bridge(), "isGateway": true,
            "ipam": self.ipam(json!([{ "dst": "0.0.0.0/0" }])),
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            config[key] = value.clone();
        }
        config
    }

    /// A list of `plugins`.
    pub(crate) fn list(&self, version: &str, plugins: &[Value]) -> Chain {
        let list = json!({ "cniVersion": version, "name": self.name, "plugins": plugins });
        Chain::new(&list, &ports(PORT, 1))
    }

    /// What Podman 4.3 writes for `podman network create`.
    pub(crate) fn podman(&self) -> Chain {
        let bridge = self.plugin(&json!({
            "ipMasq": true, "hairpinMode": true, "capabilities": { "ips": true },
        }));
        self.list("0.4.0", &[bridge, portmap(), firewall(), json!({ "type": "tuning" })])
    }

    /// All of that as one entry of type `spoke`.
    pub(crate) fn spoke(&self) -> Chain {
        let entry = json!({
            "type": "spoke", "bridge": self.bridge(), "hairpinMode": true,
            "capabilities": { "portMappings": true },
            "ipam": self.ipam(json!([{ "dst": "0.0.0.0/0" }])),
        });
        self.list("1.0.0", &[entry])
    }
}

/// `portmap` as Podman writes it.
pub(crate) fn portmap() -> Value {
    json!({ "type": "portmap", "capabilities": { "portMappings": true } })
}

/// `firewall` as Podman writes it.
pub(crate) fn firewall() -> Value {
    json!({ "type": "firewall", "backend": "" })
}

/// Published ports: `count` from `first` on.
pub(crate) fn ports(first: u16, count: u16) -> Value {
    let port = |number| json!({ "hostPort": number, "containerPort": 80, "protocol": "tcp" });
    (first..first.saturating_add(count)).map(port).collect()
}
