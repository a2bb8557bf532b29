//! What can be counted: executions, processes, system calls, memory. Apart from what is timed.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use model::{Error, Result};
use nix::sys::resource::{UsageWho, getrusage};
use serde_json::json;

use crate::args::Args;
use crate::chain::{Attachment, Chain, Net, Runtime};
use crate::execute::{bury, program, succeed};
use crate::pairs::{BRIDGE, OURS, PODMAN, REFERENCE, SPOKE};
use crate::peers::Peers;
use crate::stats::{Book, Count};
use crate::world::{DIR, Host, namespace};

/// Counts.
pub(crate) fn run(peers: &Peers, _args: &Args, book: &mut Book) -> Result<()> {
    let (reference, ours) = (Host::new("count-ref")?, Host::new("count-ours")?);
    let theirs = Runtime { host: &reference, plugins: &peers.reference };
    let own = Runtime { host: &ours, plugins: &peers.ours };
    let plain = |net: Net<'_>| net.list("1.0.0", &[net.plugin(&json!({}))]);
    let net = |host, name, octet| Net { host, name, octet };
    let work = [
        (BRIDGE, REFERENCE, theirs, plain(net(&reference, "k70", 70))),
        (BRIDGE, OURS, own, plain(net(&ours, "k70", 70))),
        (PODMAN, REFERENCE, theirs, net(&reference, "k71", 71).podman()),
        (PODMAN, OURS, own, net(&ours, "k71", 71).podman()),
        (PODMAN, SPOKE, own, net(&ours, "k72", 72).spoke()),
    ];
    for (at, (case, contender, runtime, chain)) in work.iter().enumerate() {
        let netns = namespace(&format!("count{at}"))?;
        let attachment = Attachment::new("counted", &netns);
        let counted = runtime.host.within(|| {
            // The first container of a network makes the bridge and the table.
            let result = chain.add(*runtime, &attachment, 0..chain.len(), String::new())?;
            chain.del(*runtime, &attachment, 0..chain.len(), &result)?;
            bury()?;
            let tally = Tally { peers, runtime: *runtime, chain, attachment: &attachment };
            tally.both(case, contender)
        });
        match counted {
            Ok(counts) => book.counts.extend(counts),
            Err(error) => book.fault(&format!("counting {case}, {contender}"), &error),
        }
    }
    Ok(())
}

struct Tally<'a> {
    peers: &'a Peers,
    runtime: Runtime<'a>,
    chain: &'a Chain,
    attachment: &'a Attachment,
}

impl Tally<'_> {
    fn both(&self, case: &str, contender: &str) -> Result<Vec<Count>> {
        let empty = |verb| Count {
            case: case.trim().into(),
            contender: contender.into(),
            verb,
            executions: 0,
            clones: 0,
            calls: 0,
            peak: 0,
        };
        let (mut add, mut del) = (empty("ADD"), empty("DEL"));
        for watch in
            [Self::trace as fn(&Self, &mut Count, usize, &str) -> Result<String>, Self::weigh]
        {
            let mut result = String::new();
            for index in 0..self.chain.len() {
                result = watch(self, &mut add, index, &result)?;
            }
            for index in (0..self.chain.len()).rev() {
                watch(self, &mut del, index, &result)?;
            }
        }
        Ok(vec![add, del])
    }

    /// Under strace, with everything that it starts.
    fn trace(&self, count: &mut Count, index: usize, previous: &str) -> Result<String> {
        let log = Path::new(DIR).join("strace");
        let mut command = program("strace");
        command.args(["-f", "-qq", "-c", "-U", "calls,name", "-o"]).arg(&log);
        let answer = self.under(command, count.verb, index, previous)?;
        let text =
            fs::read_to_string(&log).map_err(|error| Error::os("reading strace's log", error))?;
        for line in text.lines() {
            let mut words = line.split_whitespace();
            let (Some(Ok(number)), Some(name)) =
                (words.next().map(str::parse::<u64>), words.next())
            else {
                continue;
            };
            match name {
                "total" => count.calls += number,
                "execve" | "execveat" => count.executions += number,
                "fork" | "vfork" | "clone" | "clone3" => count.clones += number,
                _ => {}
            }
        }
        Ok(answer)
    }

    /// As the only child of a small process, which can tell how large it became.
    fn weigh(&self, count: &mut Count, index: usize, previous: &str) -> Result<String> {
        let log = Path::new(DIR).join("peak");
        let mut command = program(&self.peers.bench);
        command.arg("peak").arg(&log);
        let answer = self.under(command, count.verb, index, previous)?;
        let text =
            fs::read_to_string(&log).map_err(|error| Error::os("reading the peak", error))?;
        count.peak = count.peak.max(text.trim().parse().unwrap_or(0));
        Ok(answer)
    }

    fn under(
        &self,
        mut outer: Command,
        verb: &str,
        index: usize,
        previous: &str,
    ) -> Result<String> {
        let Some((plugin, input)) = self.chain.input(index, previous) else {
            return Ok(String::new());
        };
        let inner = self.runtime.command(plugin, verb, self.attachment);
        outer.arg(inner.get_program());
        outer.envs(inner.get_envs().filter_map(|(key, value)| Some((key, value?))));
        let done = succeed(&mut outer, &input)?;
        bury()?;
        Ok(done.stdout)
    }
}

/// Executes a program as our only child and writes the peak of its memory, in KiB, to a file.
pub(crate) fn print_peak(words: &[String]) -> Result<()> {
    let [log, program, args @ ..] = words else {
        return Err(Error::invalid("peak needs a file and a program"));
    };
    let status = Command::new(program)
        .args(args)
        .stdin(Stdio::inherit())
        .status()
        .map_err(|error| Error::os(format!("executing {program}"), error))?;
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)
        .map_err(|errno| Error::os("asking what was used", errno.into()))?;
    crate::world::write(Path::new(log), &usage.max_rss().to_string())?;
    match status.success() {
        true => Ok(()),
        false => Err(Error::new(model::Kind::Kernel, format!("{program} failed"))),
    }
}
