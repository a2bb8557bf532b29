//! A host with networks whose plugins come out of images.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::{Output, PluginImage, Plugins, World};

const CONFIG: &str = "/etc/spoke/config.toml";

/// What stays on the host when all pods are gone: neither links, addresses, rules nor files of any.
const LEFT: &str = r"
ip -o link show type veth
find /var/lib/kurma/netns -mindepth 1 2>/dev/null || true
grep ' nsfs ' /proc/self/mountinfo | grep -v ' /run/netns/' || true
find /run/spoke/kurma/pods -type f -name '*.json' 2>/dev/null || true
";

/// A world with Spoke's configuration for Kurma.
#[derive(Debug)]
pub struct Kurma {
    /// The host.
    pub world: World,
}

/// One call of a spy: see [`PluginImage::spy`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// `add` or `del`; empty for the main executable.
    pub verb: String,
    /// The `name` in its configuration.
    pub network: String,
    /// Without the program's own name.
    pub argv: Vec<String>,
    /// As it came.
    pub stdin: String,
    /// `NAME=VALUE`, sorted.
    pub env: Vec<String>,
    /// User, group and working directory.
    pub who: Vec<String>,
    /// Lines of `/proc/self/status` about privileges.
    pub status: Vec<String>,
    /// Number of the namespace at the first argument's path, while it was called.
    pub netns: Option<u64>,
    /// Where all that it wrote down is, seen from outside of the world.
    pub folder: PathBuf,
}

/// A program of ours that is to be killed.
#[derive(Debug)]
pub struct Doomed {
    child: Child,
}

impl Doomed {
    /// Kills it (`kill -9`) and waits for its end; whether it was not over before.
    #[track_caller]
    pub fn kill(mut self) -> bool {
        while self.child.try_wait().expect("our child").is_none() {
            // What puts it into its world waits for it.
            let outer = self.child.id();
            let below = fs::read_to_string(format!("/proc/{outer}/task/{outer}/children"));
            let below = below.unwrap_or_default();
            if let Some(pid) = below.trim().parse().ok().and_then(Pid::from_raw) {
                let _ = kill_process(pid, Signal::KILL);
                break;
            }
        }
        !self.child.wait().expect("our child").success()
    }
}

impl Call {
    /// The configuration that it was given.
    ///
    /// # Panics
    /// When that is not JSON.
    #[track_caller]
    pub fn config(&self) -> Value {
        serde_json::from_str(&self.stdin).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// `VERB NETWORK`.
    pub fn short(&self) -> String {
        format!("{} {}", self.verb, self.network)
    }

    /// The value of this line of its status.
    pub fn field(&self, name: &str) -> &str {
        let prefix = format!("{name}:");
        self.status.iter().find_map(|line| line.strip_prefix(&prefix)).unwrap_or_default().trim()
    }
}

/// The host's cgroups are no part of a world: those of its plugins, which end with it, are removed.
impl Drop for Kurma {
    fn drop(&mut self) {
        let below = |path: PathBuf| fs::read_dir(path).into_iter().flatten().flatten();
        let plugins = below(self.world.path("/run/spoke/kurma/plugins"));
        let containers = plugins.flat_map(|plugin| below(plugin.path()));
        let lists = containers.filter_map(|it| fs::read_to_string(it.path().join("cgroups")).ok());
        for path in lists.collect::<String>().lines().map(Path::new) {
            let deadline = Instant::now() + Duration::from_secs(5);
            while path.exists() && fs::remove_dir(path).is_err() && Instant::now() < deadline {
                let inside = fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default();
                for pid in inside.lines().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)) {
                    let _ = kill_process(pid, Signal::KILL);
                }
            }
        }
    }
}

impl Kurma {
    /// Where the spy's image is in the world.
    pub const SPY: &str = "file:///images/spy.aci";
    /// Where the namespaces of pods are.
    pub const NETNS: &str = "/var/lib/kurma/netns";

    /// A host with these networks and the image of the spy.
    #[track_caller]
    pub fn new(networks: &Value) -> Self {
        let kurma = Self::with(networks, "");
        PluginImage::spy().write(&kurma.world, "/images/spy.aci");
        kurma
    }

    /// A host with these networks, and more lines in its section `[kurma]`; no images.
    #[track_caller]
    pub fn with(networks: &Value, more: &str) -> Self {
        let kurma = Self { world: World::new(&Plugins::subject()) };
        kurma.world.sh("mkdir -p /etc/spoke /etc/kurma /spy/tell /images");
        kurma.configure(more);
        kurma.networks(networks);
        kurma
    }

    /// Makes this the section `[kurma]`.
    #[track_caller]
    pub fn configure(&self, more: &str) {
        fs::write(self.world.path(CONFIG), format!("[kurma]\n{more}\n")).expect("a file");
    }

    /// Makes these the networks.
    #[track_caller]
    pub fn networks(&self, networks: &Value) {
        self.networks_text(&json!({"pod_networks": networks}).to_string());
    }

    /// Makes this the file of networks.
    #[track_caller]
    pub fn networks_text(&self, text: &str) {
        fs::write(self.world.path("/etc/kurma/kurma.json"), text).expect("a file");
    }

    /// The configuration of a network of the spy's, with `more` in it.
    pub fn spy(name: &str, more: &Value) -> Value {
        let mut network = json!({"name": name, "aci": Self::SPY,
            "mounts": [{"host": "/spy", "container": "/spy"}]});
        for (key, value) in more.as_object().into_iter().flatten() {
            network[key] = value.clone();
        }
        network
    }

    /// Lets the spy of this network do this in a shell when it is called so: `add`, `del` or
    /// `main`.
    #[track_caller]
    pub fn instruct(&self, network: &str, verb: &str, script: &str) {
        let place = self.world.path(&format!("/spy/tell/{network}.{verb}"));
        fs::write(place, format!("{script}\n")).expect("a file");
    }

    /// Lets the spy do as it does untold.
    #[track_caller]
    pub fn forget(&self, network: &str, verb: &str) {
        let place = self.world.path(&format!("/spy/tell/{network}.{verb}"));
        fs::remove_file(place).expect("it has instructions");
    }

    /// All calls of spies so far, in order.
    #[track_caller]
    pub fn calls(&self) -> Vec<Call> {
        self.read("/spy/calls")
    }

    /// All starts of spies' main executables so far, in order, each with all that it writes down: `provision`
    /// does not wait for that.
    #[track_caller]
    pub fn mains(&self) -> Vec<Call> {
        let complete = "for main in $(ls /spy/mains); do
                until [ -e /spy/mains/$main/complete ]; do sleep 0.05; done
            done";
        self.world.sh(&format!("timeout 20 sh -c '{complete}'"));
        self.read("/spy/mains")
    }

    /// The calls so far, in short.
    #[track_caller]
    pub fn order(&self) -> Vec<String> {
        self.calls().iter().map(Call::short).collect()
    }

    #[track_caller]
    fn read(&self, folder: &str) -> Vec<Call> {
        let folder = self.world.path(folder);
        let places = (1..).map(|number| folder.join(format!("{number}")));
        places.take_while(|place| place.exists()).map(read).collect()
    }

    /// What `spoke kurma ARGUMENTS` prints.
    #[track_caller]
    pub fn kurma(&self, arguments: &str) -> String {
        self.world.sh(&format!("{}/spoke kurma {arguments}", Plugins::MOUNT))
    }

    /// The same with `-o json`.
    #[track_caller]
    pub fn json(&self, arguments: &str) -> Value {
        let said = self.kurma(&format!("{arguments} -o json"));
        serde_json::from_str(&said).unwrap_or_else(|error| panic!("{arguments}: {error}: {said}"))
    }

    /// How `spoke kurma ARGUMENTS` ends.
    pub fn try_kurma(&self, arguments: &str) -> Output {
        self.world.try_sh(&format!("{}/spoke kurma {arguments}", Plugins::MOUNT))
    }

    /// That `spoke kurma ARGUMENTS` fails, and says all of `words`.
    #[track_caller]
    pub fn refused(&self, arguments: &str, words: &[&str]) -> Output {
        let done = self.try_kurma(arguments);
        assert_ne!(done.status, 0, "spoke kurma {arguments}\n{}{}", done.stdout, done.stderr);
        let missing: Vec<_> = words.iter().filter(|word| !done.stderr.contains(**word)).collect();
        assert!(missing.is_empty(), "kurma {arguments}\n{}\nlacks {missing:?}", done.stderr);
        done
    }

    /// A program of ours, as its process: for tests that look at it or kill it.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.world.command(format!("{}/spoke", Plugins::MOUNT));
        command.arg("kurma").args(arguments);
        command
    }

    /// Starts `spoke kurma ARGUMENTS`, to be killed.
    #[track_caller]
    pub fn start(&self, arguments: &[&str]) -> Doomed {
        let mut command = self.command(arguments);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Doomed { child: child.expect("it starts") }
    }

    /// The path of a pod's namespace.
    pub fn netns(uuid: &str) -> String {
        format!("{}/{uuid}", Self::NETNS)
    }

    /// What `script` prints in a pod's network namespace.
    #[track_caller]
    pub fn inside(&self, uuid: &str, script: &str) -> String {
        let script = script.replace('\'', "'\\''");
        self.world.sh(&format!("nsenter --net={} busybox sh -euc '{script}'", Self::netns(uuid)))
    }

    /// Writes our own image to `path` in the world.
    #[track_caller]
    pub fn build_image(&self, path: &str) {
        self.kurma(&format!("build-image --aci {path}"));
    }

    /// The plugin container of a network, as `status` says it.
    #[track_caller]
    pub fn plugin(&self, network: &str) -> Value {
        let status = self.json("status");
        let plugins = status.as_array().expect("a list").iter();
        let found = plugins.clone().find(|plugin| plugin["name"] == network);
        found.unwrap_or_else(|| panic!("no {network} in {status}")).clone()
    }

    /// That no pod is known and nothing of any is left.
    #[track_caller]
    pub fn is_clean(&self) {
        assert_eq!(self.json("pods"), json!([]));
        let left = self.world.sh(LEFT);
        assert_eq!(left.trim(), "", "left behind");
        let held = self.world.sh(&format!("{}/spoke ps -o json", Plugins::MOUNT));
        assert_eq!(held.trim(), "[]", "the book");
    }
}

#[track_caller]
fn read(folder: PathBuf) -> Call {
    let text = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
    let lines = |name: &str| text(name).lines().map(str::to_owned).collect::<Vec<_>>();
    let mut env = lines("env");
    env.sort();
    Call {
        verb: text("verb").trim().to_owned(),
        network: text("network").trim().to_owned(),
        argv: lines("argv"),
        stdin: text("stdin"),
        env,
        who: lines("who"),
        status: lines("status"),
        netns: text("netns").trim().parse().ok(),
        folder,
    }
}
