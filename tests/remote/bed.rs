//! A host with Spoke and one third-party plugin.

use tests::remote_driver::{Manners, RemoteDriver};
use tests::{Output, Plugins, Remains, World};

/// What networks and containers of plugins are.
pub(crate) const CREATE: &str = "network create --driver probe --ipam-driver probe";

/// A world with the plugin `probe`; no daemon.
pub(crate) struct Bed {
    pub(crate) driver: RemoteDriver,
    pub(crate) world: World,
    before: Remains,
}

impl Bed {
    /// One whose plugin is so.
    #[track_caller]
    pub(crate) fn new(manners: Manners) -> Self {
        let world = World::new(&Plugins::subject());
        let driver = RemoteDriver::start(&world, "probe", manners);
        let before = Remains::of(&world);
        Self { driver, world, before }
    }

    /// One with the network `net` of the plugin's, and the namespaces `one` and `two`.
    #[track_caller]
    pub(crate) fn with_network(manners: Manners, options: &str) -> Self {
        let bed = Self::new(manners);
        bed.spoke(&format!("{CREATE} {options} net"));
        for name in ["one", "two"] {
            bed.world.netns(name);
        }
        bed.driver.take();
        bed
    }

    /// What `spoke ARGUMENTS` prints.
    #[track_caller]
    pub(crate) fn spoke(&self, arguments: &str) -> String {
        self.world.sh(&format!("{}/spoke {arguments}", Plugins::MOUNT))
    }

    /// How it ends.
    pub(crate) fn try_spoke(&self, arguments: &str) -> Output {
        self.world.try_sh(&format!("{}/spoke {arguments}", Plugins::MOUNT))
    }

    /// That `spoke ARGUMENTS` fails, and says all of `words`.
    #[track_caller]
    pub(crate) fn refused(&self, arguments: &str, words: &[&str]) -> Output {
        let done = self.try_spoke(arguments);
        assert_ne!(done.status, 0, "spoke {arguments}\n{}{}", done.stdout, done.stderr);
        let missing: Vec<_> = words.iter().filter(|word| !done.stderr.contains(**word)).collect();
        assert!(missing.is_empty(), "spoke {arguments}\n{}\ndoes not say {missing:?}", done.stderr);
        done
    }

    /// What `ip -n NAME …` prints.
    #[track_caller]
    pub(crate) fn ip(&self, name: &str, arguments: &str) -> String {
        self.world.sh(&format!("ip -n {name} {arguments}"))
    }

    /// The plugin's calls since the last time, but for the handshake's, in one line.
    pub(crate) fn order(&self) -> String {
        self.driver.order().join(" ")
    }

    /// That nothing is left of networks and containers, here and in the plugin, and nothing is pending.
    #[track_caller]
    pub(crate) fn is_clean(&self) {
        assert_eq!(self.spoke("gc --dry-run -o json").trim(), "[]");
        self.driver.is_empty();
        // No sandbox is named any more.
        assert_eq!(self.world.try_sh("ls /var/run/docker/netns").stdout, "");
        self.world
            .sh("for name in $(ip netns list | cut -d ' ' -f 1); do ip netns del $name; done");
        let mut changes = Remains::of(&self.world).changes(&self.before);
        // The packet filter's frame stays; what is in it does not.
        let parts = ["elements", " link ", " address ", " route ", " /", " -A "];
        // Daemons' files, and what is noted of plugins.
        let known =
            ["/run/spoke/events", "/run/spoke/serve.lock", "/remote/lives/", "/run/spoke/remote/"];
        changes.retain(|change| parts.iter().any(|part| change.contains(part)));
        changes.retain(|change| !known.iter().any(|part| change.contains(part)));
        assert!(changes.is_empty(), "left behind:\n{}", changes.join("\n"));
    }
}
