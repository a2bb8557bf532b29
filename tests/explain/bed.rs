//! The host of `bed.sh`, and faults that are put into it and taken out again.

use serde_json::Value;
use tests::{Plugins, World};

const SPOKE: &str = "/opt/cni/bin/spoke";

/// A fault, and what is to be found.
pub(crate) struct Fault {
    /// What is asked.
    pub(crate) ask: &'static str,
    /// The script that breaks it. `VA` and `VB` are the host's ends of `a` and `b`, `MB` is the hardware
    /// address of `b`.
    pub(crate) seed: &'static str,
    /// The script that mends it.
    pub(crate) undo: &'static str,
    /// What really is tried: a shell script that succeeds where it works.
    pub(crate) tries: &'static str,
    /// The hop that fails.
    pub(crate) hop: &'static str,
    /// What is named.
    pub(crate) says: &'static str,
}

/// The programs that mend something. `ip route get` and its like only look.
const PROGRAMS: [&str; 18] = [
    "bridge",
    "docker",
    "firewall-cmd",
    "ip",
    "ip6tables",
    "ip6tables-legacy",
    "iptables",
    "iptables-legacy",
    "nerdctl",
    "nft",
    "nsenter",
    "podman",
    "sed",
    "sh",
    "spoke",
    "sysctl",
    "systemctl",
    "ufw",
];
const LOOKS: [&str; 7] = [" get ", " show", " list", " inspect", " suggest", "--help", " ls"];

/// Whether what is behind `fix:` can be run as it is, and changes something.
pub(crate) fn is_command(fix: &str) -> bool {
    let is_one = |part: &str| {
        let program = part.split_whitespace().next().unwrap_or_default();
        PROGRAMS.contains(&program) && !LOOKS.iter().any(|look| part.contains(look))
    };
    fix.split(" && ").all(is_one)
}

pub(crate) struct Bed {
    pub(crate) world: World,
    variables: String,
}

impl Bed {
    #[track_caller]
    pub(crate) fn new() -> Self {
        let world = World::new(&Plugins::subject());
        world.sh(include_str!("bed.sh"));
        let end = |name: &str| {
            let shown = world.sh(&format!("ip -n {name} -j link show eth0"));
            let shown: Value = serde_json::from_str(&shown).expect("JSON");
            let index = &shown[0]["link_index"];
            let all: Value =
                serde_json::from_str(&world.sh("ip -j link show type veth")).expect("JSON");
            let all = all.as_array().expect("links");
            let it = all.iter().find(|link| link["ifindex"] == *index);
            let name = it.expect("the host's end")["ifname"].as_str().expect("a name").to_owned();
            (name, shown[0]["address"].as_str().expect("an address").to_owned())
        };
        let ((va, _), (vb, mb)) = (end("a"), end("b"));
        let variables = format!("VA={va}; VB={vb}; MB={mb}; ");
        Self { world, variables }
    }

    #[track_caller]
    pub(crate) fn sh(&self, script: &str) {
        self.world.sh(&format!("{}{script}", self.variables));
    }

    /// What `spoke explain` finds, with the exit code.
    #[track_caller]
    pub(crate) fn explain(&self, ask: &str) -> (i32, Value) {
        let output = self.world.try_sh(&format!("{SPOKE} explain -o json {ask}"));
        let read = serde_json::from_str(&output.stdout);
        (output.status, read.unwrap_or_else(|_| panic!("explain {ask}: {output:?}")))
    }

    /// Whether it really works. What fails is waited for shortly: it does not answer at all.
    pub(crate) fn works(&self, tries: &str, seconds: &str) -> bool {
        let script = tries.replace("TIME", seconds);
        self.world.try_sh(&format!("{}{script}", self.variables)).status == 0
    }

    /// That it is said to work, and does.
    #[track_caller]
    pub(crate) fn reaches(&self, ask: &str, tries: &str) {
        let (code, found) = self.explain(ask);
        assert_eq!((code, &found["verdict"]), (0, &"reaches".into()), "{ask}: {found:#}");
        assert!(self.works(tries, "10"), "{ask} does not work: {tries}");
    }

    /// Each fault is named while it is there, and really is one; without it all is well.
    #[track_caller]
    pub(crate) fn finds(&self, faults: &[Fault]) {
        let mut wrong = Vec::new();
        for fault in faults {
            self.sh(fault.seed);
            let (code, found) = self.explain(fault.ask);
            let works = self.works(fault.tries, "0.3");
            self.sh(fault.undo);
            let last = found["hops"].as_array().and_then(|hops| hops.last()).cloned();
            let last = last.unwrap_or_default();
            if let Some(fix) = last["fix"].as_str().filter(|fix| !is_command(fix)) {
                wrong.push(format!("{}: not a command: {fix}", fault.seed));
            }
            let is_right = code == 1
                && last["hop"] == fault.hop
                && last["status"] == "fail"
                && last.to_string().contains(fault.says);
            if !is_right || works {
                wrong.push(format!("{}: works {works}, exit {code}, {last}", fault.seed));
            }
        }
        assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    }
}
