//! A world with a network that has been used before, and what it holds without containers.

use serde_json::{Value, json};
use tests::{Answer, Cni, Moment, Plugins, Remains, Trace, World};

/// One network and one container in a world.
pub(crate) struct Bed<'a> {
    pub(crate) cni: Cni<'a>,
    pub(crate) list: Value,
    base: Remains,
}

/// The reference's plugins in a chain.
pub(crate) fn chain() -> Value {
    json!({"name": "crash", "cniVersion": "1.0.0", "plugins": [
        {"type": "bridge", "bridge": "crash0", "isGateway": true, "ipMasq": true,
         "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.93.0.0/24"}], [{"subnet": "fd93::/64"}]]}},
        {"type": "portmap", "capabilities": {"portMappings": true}, "snat": true},
    ]})
}

/// Our own type with everything in one.
pub(crate) fn whole() -> Value {
    json!({"name": "crash", "cniVersion": "1.0.0", "plugins": [{
        "type": "spoke", "bridge": "crash0", "ipMasq": true, "ingressPolicy": "same-bridge",
        "capabilities": {"portMappings": true}, "sysctl": {"net.ipv4.conf.eth0.arp_filter": "1"},
        "ipam": {"type": "host-local", "subnet": "10.93.0.0/24"},
    }]})
}

/// The same with rules of iptables, which other programs write.
pub(crate) fn iptables() -> Value {
    let mut list = whole();
    list["plugins"][0]["backend"] = "iptables".into();
    list
}

impl<'a> Bed<'a> {
    /// With the shared parts of the network made, and everything of one container removed again.
    pub(crate) fn new(world: &'a World, list: Value) -> Self {
        let mut cni = Cni::new(world);
        let port = json!({"hostPort": 8093, "containerPort": 80, "protocol": "tcp"});
        cni.runtime = json!({"portMappings": [port]});
        ok(&cni.add(&list));
        ok(&cni.del(&list));
        let base = Remains::of(world);
        Self { cni, list, base }
    }

    /// Nothing of the container is there.
    #[track_caller]
    pub(crate) fn is_clean(&self, after: &str) {
        let changes = self.left();
        assert!(changes.is_empty(), "{after}: {changes:#?}");
    }

    /// What is different from before the container came.
    #[track_caller]
    pub(crate) fn left(&self) -> Vec<String> {
        Remains::of(self.cni.world).changes(&self.base)
    }

    /// ADD of the first `count` plugins; what the next one is given.
    #[track_caller]
    pub(crate) fn add(&self, count: usize) -> Option<Value> {
        self.add_from(0, count, None)
    }

    /// ADD of the plugins from `first` on to before `end`.
    #[track_caller]
    pub(crate) fn add_from(&self, first: usize, end: usize, last: Option<Value>) -> Option<Value> {
        (first..end).fold(last, |last, at| {
            let answer = self.call(&[], at, "ADD", last.as_ref());
            assert!(answer.ok(), "{answer:?}");
            answer.json()
        })
    }

    /// DEL of the plugins before `end`, the last first, without any memory of a result.
    #[track_caller]
    pub(crate) fn del(&self, end: usize, after: &str) {
        for at in (0..end).rev() {
            let answer = self.call(&[], at, "DEL", None);
            assert!(answer.ok(), "{after}: {answer:?}");
        }
    }

    /// How many plugins there are.
    pub(crate) fn len(&self) -> usize {
        self.list["plugins"].as_array().expect("a list").len()
    }

    /// One plugin, as the argument of `over`.
    pub(crate) fn call(
        &self,
        over: &[&str],
        at: usize,
        verb: &str,
        last: Option<&Value>,
    ) -> Answer {
        let (plugin, config) = self.said(at, verb, last);
        self.cni.execute_under(over, &plugin, verb, &config)
    }

    /// Name and standard input of one plugin.
    pub(crate) fn said(&self, at: usize, verb: &str, last: Option<&Value>) -> (String, String) {
        let plugin = &self.list["plugins"][at];
        let config = self.cni.config(&self.list, plugin, verb, last);
        (plugin["type"].as_str().expect("a type").to_owned(), config.to_string())
    }

    /// The moments of one plugin's call, which is made for that.
    pub(crate) fn moments(&self, at: usize, verb: &str, last: Option<&Value>) -> Vec<Moment> {
        let (plugin, config) = self.said(at, verb, last);
        let (answer, trace) = Trace::of(&self.cni, &plugin, verb, &config);
        assert!(answer.ok(), "{answer:?}");
        trace.moments()
    }

    /// Addresses that the book holds for the container, or its directory of host-local does.
    pub(crate) fn held(&self) -> Vec<String> {
        let world = self.cni.world;
        let is_lease = |path: &String| path.split('/').nth(4) == Some("leases");
        let leases = world.files("/run/spoke").into_iter().filter(is_lease);
        let found = leases
            .chain(world.files("/var/lib/cni/networks"))
            .filter(|path| std::fs::metadata(world.path(path)).is_ok_and(|file| file.len() > 0));
        let mut held: Vec<String> = found
            .filter_map(|path| path.rsplit('/').next().map(str::to_owned))
            .filter(|name| name.parse::<std::net::IpAddr>().is_ok())
            .collect();
        held.sort();
        held.dedup();
        held
    }
}

#[track_caller]
pub(crate) fn ok(answers: &[Answer]) {
    assert!(answers.iter().all(Answer::ok), "{answers:?}");
}

/// A world for one test.
pub(crate) fn world() -> World {
    World::new(&Plugins::subject())
}
