//! Those who do the same work.

use std::path::{Path, PathBuf};

use model::Result;
use serde_json::json;

use crate::chain::{Attachment, Chain, PORT, Runtime};
use crate::execute::{Cost, children, program, succeed};
use crate::world::Host;

/// Most do both.
pub(crate) const BOTH: &[&str] = &["ADD", "DEL"];

/// One who can be measured at doing something.
pub(crate) trait Contender {
    /// Who it is.
    fn label(&self) -> &str;

    /// What it does, in this order.
    fn verbs(&self) -> &'static [&'static str] {
        BOTH
    }

    /// Does it once.
    fn run(&mut self, verb: &str) -> Result<Cost>;
}

/// CNI plugins.
pub(crate) struct Plugins<'a> {
    label: &'static str,
    runtime: Runtime<'a>,
    chain: Chain,
    /// The first plugin that is measured; those before it only prepare.
    from: usize,
    attachment: Attachment,
    /// What the plugins before `from` answered, and the whole chain.
    results: [String; 2],
}

impl<'a> Plugins<'a> {
    /// All plugins of `chain`.
    pub(crate) fn new(
        label: &'static str,
        runtime: Runtime<'a>,
        chain: Chain,
        attachment: Attachment,
    ) -> Self {
        Self { label, runtime, chain, from: 0, attachment, results: Default::default() }
    }

    /// Only the last plugin.
    pub(crate) fn last_only(mut self) -> Self {
        self.from = self.chain.len().saturating_sub(1);
        self
    }

    fn add(&mut self) -> Result<Cost> {
        let Self { runtime, chain, from, attachment, .. } = &*self;
        let before = chain.add(*runtime, attachment, 0..*from, String::new())?;
        let timed = || chain.add(*runtime, attachment, *from..chain.len(), before.clone());
        let (after, cost) = children(timed)?;
        self.results = [before, after];
        Ok(cost)
    }

    fn del(&self) -> Result<Cost> {
        let Self { runtime, chain, from, attachment, results: [before, after], .. } = self;
        let (_, cost) = children(|| chain.del(*runtime, attachment, *from..chain.len(), after))?;
        children(|| chain.del(*runtime, attachment, 0..*from, before))?;
        Ok(cost)
    }
}

impl Contender for Plugins<'_> {
    fn label(&self) -> &str {
        self.label
    }

    fn run(&mut self, verb: &str) -> Result<Cost> {
        self.runtime.host.within(|| match verb {
            "ADD" => {
                let added = self.add();
                if added.is_err() {
                    // What is left would be in the way of the next round.
                    let all = 0..self.chain.len();
                    let _ = self.chain.del(self.runtime, &self.attachment, all, "");
                }
                added
            }
            _ => self.del(),
        })
    }
}

/// A program that is executed with one input for one answer.
pub(crate) struct Program<'a> {
    /// Who it is.
    pub(crate) label: &'static str,
    /// Where.
    pub(crate) host: &'a Host,
    /// The program and its arguments.
    pub(crate) words: Vec<String>,
    /// Its environment.
    pub(crate) environment: Vec<(String, String)>,
    /// What it reads.
    pub(crate) input: String,
    /// What it is measured at.
    pub(crate) verbs: &'static [&'static str],
}

impl Contender for Program<'_> {
    fn label(&self) -> &str {
        self.label
    }

    fn verbs(&self) -> &'static [&'static str] {
        self.verbs
    }

    fn run(&mut self, _verb: &str) -> Result<Cost> {
        let [name, args @ ..] = self.words.as_slice() else { return Ok(Cost::default()) };
        let mut command = program(name);
        command.args(args).envs(self.environment.iter().map(|(key, value)| (key, value)));
        let run = || children(|| succeed(&mut command, &self.input));
        let (done, cost) = self.host.within(run)?;
        Ok(Cost { wall: done.wall, ..cost })
    }
}

/// `ip link del`, which waits for the kernel.
pub(crate) struct LinkRemoval<'a> {
    /// Where.
    pub(crate) host: &'a Host,
    /// The container.
    pub(crate) netns: PathBuf,
}

impl Contender for LinkRemoval<'_> {
    fn label(&self) -> &str {
        "ip link del"
    }

    fn verbs(&self) -> &'static [&'static str] {
        &["DEL"]
    }

    fn run(&mut self, _verb: &str) -> Result<Cost> {
        let netns = self.netns.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let words =
            ["ip", "link", "add", "plain0", "type", "veth", "peer", "name", "plain1", "netns"];
        self.host.run(&[&words[..], &[netns]].concat(), "")?;
        let mut command = program("ip");
        command.args(["link", "del", "plain0"]);
        let (done, cost) = self.host.within(|| children(|| succeed(&mut command, "")))?;
        Ok(Cost { wall: done.wall, ..cost })
    }
}

/// Podman's own network program.
pub(crate) struct Netavark<'a> {
    program: &'a Path,
    host: &'a Host,
    netns: PathBuf,
    input: String,
}

impl<'a> Netavark<'a> {
    /// On a network of a host where another container is, so that the network stays.
    pub(crate) fn new(
        program: &'a Path,
        host: &'a Host,
        netns: &Path,
        resident: &Path,
    ) -> Result<Self> {
        let other = Self { program, host, netns: resident.into(), input: request(2, 9090) };
        host.within(|| succeed(&mut other.command("setup"), &other.input))?;
        Ok(Self { netns: netns.into(), input: request(3, PORT), ..other })
    }

    fn command(&self, verb: &str) -> std::process::Command {
        let mut command = program(self.program);
        command.arg("--config").arg(self.host.dir.join("netavark"));
        command.arg(verb).arg(&self.netns);
        command
    }
}

impl Contender for Netavark<'_> {
    fn label(&self) -> &str {
        "netavark"
    }

    fn run(&mut self, verb: &str) -> Result<Cost> {
        let verb = if verb == "ADD" { "setup" } else { "teardown" };
        let mut command = self.command(verb);
        let run = || children(|| succeed(&mut command, &self.input));
        let (done, cost) = self.host.within(run)?;
        Ok(Cost { wall: done.wall, ..cost })
    }
}

/// A container with one published port on a bridge, in netavark's words.
pub(crate) fn request(number: u8, port: u16) -> String {
    let network = json!({
        "name": "podman", "id": "2f259bab93aaaaa2542ba43ef33eb990d0999ee1b9924b557b7be53c0b7a1bb9",
        "driver": "bridge", "network_interface": "podman0",
        "subnets": [{ "subnet": "10.88.0.0/16", "gateway": "10.88.0.1" }],
        "ipv6_enabled": false, "internal": false, "dns_enabled": false,
        "ipam_options": { "driver": "host-local" },
    });
    let port = json!({
        "container_port": 80, "host_ip": "", "host_port": port, "protocol": "tcp", "range": 1,
    });
    let own = json!({ "static_ips": [format!("10.88.0.{number}")], "interface_name": "eth0" });
    json!({
        "container_id": format!("{number:064x}"), "container_name": format!("c{number}"),
        "networks": { "podman": own }, "network_info": { "podman": network },
        "port_mappings": [port],
    })
    .to_string()
}
