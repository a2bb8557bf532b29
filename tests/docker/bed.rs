//! An engine with Spoke beside it.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tests::{Engine, Output, Plugins, Release, Serve, World};

/// What is left of a network or a container, besides elements of our packet filter.
const LEFT: &str = r#"
ip -o link show | while read -r _ name _; do echo "link ${name%%[@:]*}"; done
{ iptables-save; ip6tables-save; } | grep -w spoke || true
for top in /run/spoke /var/lib/spoke; do [ -d $top ] || continue
    find $top -type f ! -path '*/configured/*' ! -path '*/calls/*' ! -path '*/namespaces/*' ! -path '*/remote/*.manifest' ! -name lock ! -name '.*.new'
done
"#;

/// Sets of our packet filter that say what the host has, not what containers have.
const HOSTS: [&str; 2] = ["lan4", "lan6"];

/// A Docker Engine, and `spoke serve` in its world.
#[derive(Debug)]
pub(crate) struct Bed {
    pub(crate) engine: Engine,
    pub(crate) serve: Serve,
    before: BTreeSet<String>,
}

impl Bed {
    /// Both of them, as they come; none where this engine cannot be had.
    #[track_caller]
    pub(crate) fn new(release: Release) -> Option<Self> {
        Self::with(release, "", &[])
    }

    /// The same with `config` as Spoke's configuration and `arguments` of `dockerd`.
    #[track_caller]
    pub(crate) fn with(release: Release, config: &str, arguments: &[&str]) -> Option<Self> {
        if !release.is_there() {
            return None;
        }
        let mut engine = Engine::prepared(release, &Plugins::subject());
        let world = engine.world();
        world.sh(&format!(
            "mkdir -p /etc/spoke; cat >/etc/spoke/config.toml <<'CONF'\n{config}\nCONF"
        ));
        let serve = Serve::start(world, &[]);
        engine.start(arguments);
        engine.import();
        let before = left(engine.world());
        Some(Self { engine, serve, before })
    }

    /// The host of both.
    pub(crate) fn world(&self) -> &World {
        self.engine.world()
    }

    /// What `docker ARGUMENTS` prints.
    #[track_caller]
    pub(crate) fn docker(&self, arguments: &str) -> String {
        self.engine.docker(arguments).trim().to_owned()
    }

    /// A network of our drivers: `docker network create` with `options`, the last of which is its
    /// name.
    #[track_caller]
    pub(crate) fn network(&self, options: &str) {
        self.docker(&format!("network create {OURS} {options}"));
    }

    /// The same with subnets in this order, which the command line does not keep.
    #[track_caller]
    pub(crate) fn network_of(&self, name: &str, subnets: &Value) {
        let ipam = json!({"Driver": "spoke", "Config": subnets});
        self.engine.create_network(name, json!({"Driver": "spoke", "IPAM": ipam}));
    }

    /// That no such network can be made, which says all of `words`, and that nothing is left of
    /// the attempt.
    #[track_caller]
    pub(crate) fn no_network(&self, options: &str, words: &[&str]) {
        let before = left(self.world());
        self.refused(&format!("network create {OURS} {options}"), words);
        let changes = changes(&before, &left(self.world()));
        assert_eq!(changes, Vec::<String>::new(), "{options}");
    }

    /// A container that sleeps: `docker run` with `options`.
    #[track_caller]
    pub(crate) fn run(&self, options: &str) {
        self.docker(&format!("run -d {options} busybox /bin/sleep 3600"));
    }

    /// Kills and removes containers, one after another.
    #[track_caller]
    pub(crate) fn remove(&self, names: &str) {
        self.engine.remove_each(names);
    }

    /// Removes a network whose containers went all at once, after the engine has counted again what
    /// is at it: see [`Engine::remove_each`]. By its own list nothing is, however long it took over
    /// the last of them.
    #[track_caller]
    pub(crate) fn remove_left_at_once(&mut self, network: &str) {
        let ends = format!("docker network inspect -f \"{{{{len .Containers}}}}\" {network}");
        self.until(&format!("[ $({ends}) = 0 ]"));
        self.engine.stop();
        self.engine.start(&[]);
        self.docker(&format!("network rm {network}"));
    }

    /// That `docker ARGUMENTS` fails, and says all of `words`.
    #[track_caller]
    pub(crate) fn refused(&self, arguments: &str, words: &[&str]) {
        let Output { status, stdout, stderr } = self.engine.try_docker(arguments);
        assert_ne!(status, 0, "docker {arguments}\n{stdout}{stderr}");
        let missing: Vec<_> = words.iter().filter(|word| !stderr.contains(**word)).collect();
        assert!(missing.is_empty(), "docker {arguments}\n{stderr}\ndoes not say {missing:?}");
    }

    /// What `spoke ARGUMENTS` prints.
    #[track_caller]
    pub(crate) fn spoke(&self, arguments: &str) -> String {
        self.world().sh(&format!("{}/spoke {arguments}", Plugins::MOUNT))
    }

    /// A text in what the engine says of a container's end on a network.
    #[track_caller]
    pub(crate) fn end(&self, name: &str, network: &str, key: &str) -> String {
        let end = self.engine.endpoint(name, network);
        end[key].as_str().unwrap_or_else(|| panic!("no {key}: {end}")).to_owned()
    }

    /// A container's IPv4 address on a network.
    #[track_caller]
    pub(crate) fn address(&self, name: &str, network: &str) -> String {
        self.end(name, network, "IPAddress")
    }

    /// What a shell script in a container prints.
    #[track_caller]
    pub(crate) fn inside(&self, name: &str, script: &str) -> String {
        let done = self.engine.exec(name, &["sh", "-euc", script]);
        assert_eq!(done.status, 0, "{name}: {script}\n{}{}", done.stdout, done.stderr);
        done.stdout.trim().to_owned()
    }

    /// That one container does not reach an address.
    #[track_caller]
    pub(crate) fn no_ping(&self, from: &str, to: &str) {
        let done = self.engine.exec(from, &["ping", "-c", "1", "-W", "1", to]);
        assert_ne!(done.status, 0, "{from} reaches {to}");
    }

    /// That what the engine says of a container's end on a network is so: its interface, which it
    /// names, has that hardware address and those addresses. Spoke says the same.
    #[track_caller]
    pub(crate) fn truth(&self, name: &str, network: &str) -> String {
        let end = self.engine.endpoint(name, network);
        let text = |key: &str| end[key].as_str().unwrap_or_default().to_owned();
        let links = self.inside(name, "ip -o link");
        let mac = text("MacAddress");
        let link = links.lines().find(|line| !mac.is_empty() && line.contains(&mac));
        let link = link.unwrap_or_else(|| panic!("no {mac}:\n{links}"));
        let link = link.split([':', '@']).nth(1).expect("a name").trim().to_owned();
        let has = self.inside(name, &format!("ip -o address show dev {link}"));
        let reported = self.spoke("ps");
        assert!(reported.contains(&mac), "{name} {mac}:\n{reported}");
        let lengths = [("IPAddress", "IPPrefixLen"), ("GlobalIPv6Address", "GlobalIPv6PrefixLen")];
        for (address, length) in lengths.map(|(address, length)| (text(address), &end[length])) {
            if !address.is_empty() {
                let address = format!("{address}/{length}");
                assert!(has.contains(&format!(" {address} ")), "{address}:\n{has}");
                assert!(reported.contains(&address), "{name} {address}:\n{reported}");
            }
        }
        link
    }

    /// Waits until `script` succeeds in the world: for what others do when they come to it.
    #[track_caller]
    pub(crate) fn until(&self, script: &str) {
        let done = self
            .world()
            .try_sh(&format!("timeout 20 bash -c 'until {script}; do sleep 0.05; done'"));
        assert_eq!(done.status, 0, "never: {script}\n{}", self.world().logs());
    }

    /// That nothing is left but what was there before the first network, and nothing is to mend.
    #[track_caller]
    pub(crate) fn is_clean(&self) {
        let changes = changes(&self.before, &left(self.world()));
        assert!(changes.is_empty(), "left:\n{}\n{}", changes.join("\n"), self.world().logs());
        assert_eq!(self.spoke("gc --dry-run -o json").trim(), "[]");
    }
}

/// Both of our drivers.
pub(crate) const OURS: &str = "-d spoke --ipam-driver spoke";

/// What networks and containers make in a world, one line each.
#[track_caller]
fn left(world: &World) -> BTreeSet<String> {
    let mut left: BTreeSet<String> = world.sh(LEFT).lines().map(str::to_owned).collect();
    let table = world.try_sh("nft -j list table inet spoke").stdout;
    let table: Value = serde_json::from_str(&table).unwrap_or_default();
    for object in table["nftables"].as_array().into_iter().flatten() {
        let set = if object["set"].is_object() { &object["set"] } else { &object["map"] };
        let name = set["name"].as_str().unwrap_or_default();
        let elements = set["elem"].as_array().into_iter().flatten();
        let elements = elements.filter(|_| !HOSTS.contains(&name));
        left.extend(elements.map(|element| format!("element {name} {element}")));
    }
    left
}

fn changes(before: &BTreeSet<String>, after: &BTreeSet<String>) -> Vec<String> {
    let come = after.difference(before).map(|line| format!("+ {line}"));
    come.chain(before.difference(after).map(|line| format!("- {line}"))).collect()
}
