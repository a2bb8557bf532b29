//! Traffic that goes on while hosts change.

use std::fs;

use crate::bed::{Host, until};

const PROGRAM: &str = include_str!("flow.py");
/// So much has come back before it is said to run.
const BEGUN: usize = 5;

/// Echo requests and a connection from a namespace of a host to an address. The namespace `""` is the host's own.
pub(crate) struct Flow<'a> {
    from: &'a str,
    ping: String,
    connection: String,
}

impl<'a> Flow<'a> {
    /// Begins both, to the namespace `to` of the other host, or to what leads there.
    #[track_caller]
    pub(crate) fn begin(
        (host, from): (&Host, &'a str),
        (other, to, address): (&Host, &str, &str),
    ) -> Self {
        until(&host.world, &format!("{} ping -q -c 1 -W 1 {address} >/dev/null", inside(from)));
        for each in [host, other] {
            fs::write(each.world.path("/world/flow.py"), PROGRAM).expect("a file");
        }
        background(other, to, "python3 /world/flow.py", "served");
        until(&other.world, &format!("grep -q listens /world/{to}.served"));
        let connect = format!("python3 /world/flow.py {address}");
        let connection = background(host, from, &connect, "connected");
        until(&host.world, &format!("grep -q connected /world/{from}.connected"));
        let ping = background(host, from, &format!("ping -n -i 0.05 {address}"), "pinged");
        let flow = Self { from, ping, connection };
        flow.goes_on(host);
        flow
    }

    /// Waits for some more answers.
    #[track_caller]
    pub(crate) fn goes_on(&self, host: &Host) {
        let file = format!("/world/{}.pinged", self.from);
        let wanted = self.answered(host).len() + BEGUN;
        until(&host.world, &format!("[ $(grep -c icmp_seq= {file}) -ge {wanted} ]"));
    }

    /// Ends both: each echo request was answered, in turn, and the connection has lasted.
    #[track_caller]
    pub(crate) fn end(self, host: &Host) {
        let Self { from, ping, connection } = &self;
        host.sh(&format!("kill -INT {ping}; kill -TERM {connection}"));
        until(
            &host.world,
            &format!("! kill -0 {ping} 2>/dev/null && ! kill -0 {connection} 2>/dev/null"),
        );
        let answered = self.answered(host);
        let all: Vec<usize> = (1..=answered.len()).collect();
        assert_eq!(answered, all, "{from} of {}: requests without an answer", host.name);
        let said = host.sh(&format!("cat /world/{from}.connected"));
        let count = said.lines().find_map(|line| line.strip_prefix("came back: "));
        let count = count.and_then(|count| count.parse::<usize>().ok());
        assert!(count.is_some_and(|count| count > BEGUN), "{from} of {}: {said}", host.name);
    }

    /// The numbers of the requests that were answered.
    #[track_caller]
    fn answered(&self, host: &Host) -> Vec<usize> {
        let said = host.sh(&format!("cat /world/{}.pinged", self.from));
        let numbers = said.lines().filter_map(|line| {
            let (_, rest) = line.split_once("icmp_seq=")?;
            rest.split(' ').next()?.parse().ok()
        });
        numbers.collect()
    }
}

/// What executes a command in a namespace.
fn inside(netns: &str) -> String {
    if netns.is_empty() { "env".to_owned() } else { format!("ip netns exec {netns}") }
}

/// Starts a command in a namespace; its process.
#[track_caller]
fn background(host: &Host, netns: &str, command: &str, kind: &str) -> String {
    let pid = host.sh(&format!(
        "{} {command} >/world/{netns}.{kind} 2>&1 </dev/null & echo $!",
        inside(netns)
    ));
    pid.trim().to_owned()
}
