//! A host with networks, containers and events, and `spoke serve` on it.

use std::fs;
use std::process::Command;

use tests::{Etcd, Plugins, Serve, World};

pub(crate) const SPOKE: &str = "/opt/cni/bin/spoke";

/// Where the page is in a world, whose network is its own.
pub(crate) const PAGE: &str = "http://127.0.0.1:9180/";

/// So many containers are there besides those with names.
pub(crate) const MANY: usize = 490;

/// What happened before: so many events on each of 30 days.
pub(crate) const EACH_DAY: usize = 60;

pub(crate) const CONFIG: &str = "[web]\nlisten = \"127.0.0.1:9180\"\n";

const HOSTILE: &str = "<img src=x onerror=alert(1)>\"'&\u{202e}live\u{2066}\u{200b}";

pub(crate) struct Bed {
    pub(crate) world: World,
    pub(crate) serve: Serve,
}

impl Bed {
    /// Without networks.
    #[track_caller]
    pub(crate) fn new() -> Self {
        let world = World::new(&Plugins::subject());
        world.sh("mkdir -p /etc/spoke /run/spoke");
        fs::write(world.path("/etc/spoke/config.toml"), CONFIG).unwrap();
        fs::write(world.path("/run/spoke/events"), events()).unwrap();
        fs::write(world.path("/run/spoke/denied"), refusals()).unwrap();
        let serve = Serve::start(&world, &[]);
        Self { world, serve }
    }

    /// With networks and containers.
    #[track_caller]
    pub(crate) fn full() -> Self {
        let bed = Self::new();
        let make = format!(
            "s={SPOKE}
            $s network create --names --subnet 10.70.1.0/24 front
            $s network create --names --subnet 10.70.2.0/24 --subnet fd00:70::/64 back
            $s network create --internal --subnet 10.70.3.0/24 vault
            $s network create --subnet 10.80.0.0/22 fleet
            for name in web db hostile late; do ip netns add $name; done
            $s network connect --publish 8080:80 --label tier=front front web
            $s network connect --alias postgres --label tier=db back db
            $s network connect vault db
            $s network connect --label \"$HOSTILE\" --label long=$(printf x%.0s $(seq 4000)) front hostile
            $s endpoint create back cache
            $s ipam reserve 10.70.1.50
            for at in $(seq {MANY}); do $s endpoint create fleet worker-$at; done >/dev/null"
        );
        let mut command = bed.world.command("/bin/bash");
        command.args(["-euc", &make]).env("HOSTILE", format!("label={HOSTILE}"));
        let done = tests::output(&mut command, "");
        assert_eq!(done.status, 0, "{}{}", done.stdout, done.stderr);
        bed
    }

    /// Makes this the first host of a cluster, which the page knows then.
    #[track_caller]
    pub(crate) fn begin_cluster(&self) {
        Etcd::install(&self.world);
        self.sh(&format!(
            "ip link add up0 type veth peer name up1
            ip address add 192.0.2.1/24 dev up0
            ip link set up1 up
            ip link set up0 up
            {SPOKE} host init --name alone --address 192.0.2.1
            timeout 60 sh -c 'until curl -sf {PAGE}hosts | grep -q alone; do sleep 0.05; done'"
        ));
    }

    /// What a shell script in the world prints.
    #[track_caller]
    pub(crate) fn sh(&self, script: &str) -> String {
        self.world.sh(script)
    }

    /// A program of this host in the world's network: a browser needs more than the world has.
    pub(crate) fn beside(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.world.pid())).args(["--", program]);
        command
    }
}

/// Of two networks, one of them for a name that is markup.
fn refusals() -> String {
    let line = |network: &str, name: &str| {
        let line = serde_json::json!({
            "time": 1_790_812_800, "network": network, "container": "web", "runtime": "docker",
            "source": "10.70.1.2", "act": "name-refused", "name": name, "why": "not in egress",
        });
        format!("{line}\n")
    };
    [line("front", "evil.example"), line("front", "<b>"), line("back", HOSTILE)].concat()
}

/// Thirty days, and on the last one what a hostile program caused.
fn events() -> String {
    let mut lines = String::new();
    let mut add = |time: u64, kind: &str, name: &str, message: &str| {
        let line = serde_json::json!({
            "time": time, "event": kind, "name": name, "container": name, "runtime": "docker",
            "message": message,
        });
        lines.push_str(&format!("{line}\n"));
    };
    // 2026-10-01T00:00:00Z
    let first = 1_790_812_800;
    for day in 0..30 {
        for at in 0..EACH_DAY as u64 {
            let kind = if at == 7 { "failed" } else { "attached" };
            let name = format!("old-{day}-{at}");
            add(
                first + day * 86_400 + at * 600,
                kind,
                &name,
                &format!("{name} is on network front"),
            );
        }
    }
    let long = "y".repeat(10_000);
    for message in ["</td></table><script>alert(1)</script>", HOSTILE, "\u{1b}[2J\u{9b}31m", &long]
    {
        add(first + 30 * 86_400, "failed", message, message);
    }
    lines
}
