//! Networks of a third-party Docker plugin: what the controller adds to moving an interface that
//! is ready, beside a plugin that answers at once; many at once; and plugins that are dead.

mod plugin;

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use model::{Error, IfName, Result};
use netlink::wire::Batch;
use netlink::{At, Netns, Socket};

use self::plugin::Plugin;
use crate::args::{Args, Moved};
use crate::contender::{BOTH, Contender, Program};
use crate::execute::{Cost, execute, ourselves, program};
use crate::pairs::{Case, round_robin};
use crate::peers::Peers;
use crate::stats::{Book, Summary, wall};
use crate::targets::{Side, Verdict, at_most};
use crate::world::{self, Host, namespace};

/// The names of the cases.
const ONE: &str = "a plugin's network";
const DEAD: &str = "a dead plugin's network";

/// One message, in a process that lives.
const BARE: &str = "bare move";
/// Who is compared with: a process that does nothing else.
const BARE_PROCESS: &str = "bare move, executed";
/// The same with the name in the container, which a caller that works as libnetwork does cannot leave out.
const NAMED: &str = "bare move and name";
const NAMED_PROCESS: &str = "bare move and name, executed";
const OURS: &str = "spoke connect";

/// What is moved is called so in the container.
const INSIDE: &str = "eth0";

/// How many at once.
const CROWD: usize = 64;
/// What their containers have names of.
const SUBNET: &str = "10.80.0.0/16";

/// Measures.
pub(crate) fn run(peers: &Peers, args: &Args, book: &mut Book) -> Result<()> {
    let spoke = peers.ours.join("spoke");
    one(&spoke, args, book)?;
    dead(&spoke, args, book)?;
    many(&spoke, args, book)
}

fn one(spoke: &Path, args: &Args, book: &mut Book) -> Result<()> {
    let (bare, ours) = (Host::new("plugin-bare")?, Host::new("plugin-ours")?);
    for host in [&bare, &ours] {
        make_pair(host, 0)?;
    }
    let stage = Stage::new(&ours, spoke, vec![ready(0)])?;
    let start = vec![this_program()?, "start".into()];
    let start = Program {
        label: "process start",
        host: &bare,
        words: start,
        environment: Vec::new(),
        input: String::new(),
        verbs: BOTH,
    };
    let bare_netns = namespace("plugin-bare-c")?;
    let executed = |called: &str| Executed {
        host: &bare,
        netns: bare_netns.clone(),
        names: (ready(0), called.into()),
    };
    let bare_move = Bare::new(&bare, &bare_netns, (0, &ready(0)))?;
    let netns = namespace("plugin-ours-c")?;
    let connected = Connected { stage: &stage, netns, container: "c0".into() };
    let contenders: Vec<Box<dyn Contender + '_>> = vec![
        Box::new(executed(&ready(0))),
        Box::new(executed(INSIDE)),
        Box::new(connected),
        Box::new(bare_move),
        Box::new(start),
    ];
    let mut cases = [Case { name: ONE.into(), contenders }];
    round_robin(book, &mut cases, args.rounds);
    Ok(())
}

fn this_program() -> Result<String> {
    let own = std::env::current_exe().map_err(|error| Error::os("finding this program", error))?;
    Ok(own.to_string_lossy().into_owned())
}

/// A plugin that is dead, and whose socket is still there.
fn dead(spoke: &Path, args: &Args, book: &mut Book) -> Result<()> {
    let host = Host::new("plugin-dead")?;
    let Stage { plugin, .. } = Stage::new(&host, spoke, Vec::new())?;
    drop(plugin);
    let netns = namespace("plugin-dead-c")?;
    for round in 0..=args.either(4, 20) {
        let connect = ["network", "connect", NETWORK, &netns.to_string_lossy(), "--container", "d"];
        let mut command = command(&host, spoke, &connect);
        let done = host.within(|| execute(&mut command, ""))?;
        if done.ok {
            return Err(Error::bug("a container was connected by a dead plugin"));
        }
        // After the first.
        if let Some(round) = usize::checked_sub(round, 1) {
            let cost = Cost { wall: done.wall, ..Cost::default() };
            book.cost((DEAD, OURS, "refused"), round, Ok(cost));
        }
    }
    Ok(())
}

fn many(spoke: &Path, args: &Args, book: &mut Book) -> Result<()> {
    let (bare, ours) = (Host::new("plugins-bare")?, Host::new("plugins-ours")?);
    let crowd = args.either(16, CROWD);
    for host in [&bare, &ours] {
        (0..crowd).try_for_each(|number| make_pair(host, number))?;
    }
    let stage = Stage::new(&ours, spoke, (0..crowd).map(ready).collect())?;
    let spaces = |who| {
        let made = (0..crowd).map(|number| namespace(&format!("plugins-{who}{number}")));
        made.collect::<Result<Vec<_>>>()
    };
    let (bare_spaces, our_spaces) = (spaces("bare")?, spaces("ours")?);
    for _ in 0..args.either(2, 10) {
        for (who, called) in [(BARE, None), (NAMED, Some(INSIDE))] {
            for verb in BOTH {
                crowded(book, (who, verb), &bare_spaces, |number, netns| {
                    let called = called.map_or_else(|| ready(number), str::to_owned);
                    Bare::new(&bare, netns, (number, &called))?.run(verb).map(drop)
                })?;
            }
        }
        for verb in BOTH {
            crowded(book, (OURS, verb), &our_spaces, |number, netns| {
                let container = format!("c{number}");
                let netns = netns.clone();
                Connected { stage: &stage, netns, container }.execute(verb).map(drop)
            })?;
        }
    }
    Ok(())
}

/// All of a crowd at once.
fn crowded(
    book: &mut Book,
    (who, verb): (&str, &'static str),
    spaces: &[PathBuf],
    work: impl Fn(usize, &PathBuf) -> Result<()> + Sync,
) -> Result<()> {
    let (gate, work) = (&Barrier::new(spaces.len() + 1), &work);
    let (began, done) = thread::scope(|scope| {
        let go = |(number, netns)| {
            scope.spawn(move || {
                gate.wait();
                let began = Instant::now();
                (work(number, netns), began.elapsed())
            })
        };
        let all: Vec<_> = spaces.iter().enumerate().map(go).collect();
        gate.wait();
        let began = Instant::now();
        let done: Vec<_> = all.into_iter().map(thread::ScopedJoinHandle::join).collect();
        (began.elapsed(), done)
    });
    let mut faults = Vec::new();
    let rate = book.rate(who, spaces.len(), verb);
    rate.per_second.push(spaces.len() as f64 / began.as_secs_f64());
    for joined in done {
        let (done, took) = joined.map_err(|_| Error::bug("a thread ended early"))?;
        rate.latency.push(took.as_secs_f64() * 1e3);
        faults.extend(done.err());
    }
    rate.failures += faults.len();
    if let Some(error) = faults.first() {
        book.fault(&format!("{who}, {} at once, {verb}", spaces.len()), error);
    }
    Ok(())
}

/// The plugin's network on a host.
struct Stage<'a> {
    host: &'a Host,
    spoke: &'a Path,
    plugin: Plugin,
}

const NETWORK: &str = "plugged";
const PLUGIN: &str = "instant";

impl<'a> Stage<'a> {
    fn new(host: &'a Host, spoke: &'a Path, ready: Vec<String>) -> Result<Self> {
        let sockets = host.dir.join("plugins");
        world::make(&sockets)?;
        let (runtime, state) = (host.dir.join("runtime"), host.dir.join("state"));
        let config = format!(
            "[store]\nruntime = {runtime:?}\nstate = {state:?}\n\
             [remote]\nsockets = [{sockets:?}]\ndescriptions = []\n"
        );
        world::write(&host.dir.join("config.toml"), &config)?;
        let plugin = Plugin::serve(&sockets, PLUGIN, ready)?;
        let create = ["network", "create", "--driver", PLUGIN, "--subnet", SUBNET, NETWORK];
        succeed(host, spoke, &create)?;
        Ok(Self { host, spoke, plugin })
    }
}

/// Our program on a host, with what it says if it fails.
fn succeed(host: &Host, spoke: &Path, words: &[&str]) -> Result<Cost> {
    let mut command = command(host, spoke, words);
    // What went wrong is reported there.
    command.stdin(std::process::Stdio::null()).stderr(std::process::Stdio::piped());
    let failed = |error| Error::os(format!("executing {}", spoke.display()), error);
    let began = Instant::now();
    let done = host.within(|| command.output().map_err(failed))?;
    let wall = began.elapsed();
    match done.status.success() {
        true => Ok(Cost { wall, ..Cost::default() }),
        false => {
            let said = String::from_utf8_lossy(&done.stderr).into_owned();
            Err(Error::new(model::Kind::Kernel, format!("{words:?}: {}", said.trim())))
        }
    }
}

fn command(host: &Host, spoke: &Path, words: &[&str]) -> Command {
    let mut command = program(spoke);
    command.args(words).env("SPOKE_CONFIG", host.dir.join("config.toml"));
    command
}

/// A container that our command connects and disconnects.
struct Connected<'a> {
    stage: &'a Stage<'a>,
    netns: PathBuf,
    container: String,
}

impl Connected<'_> {
    fn execute(&self, verb: &str) -> Result<Cost> {
        let Stage { host, spoke, .. } = self.stage;
        let netns = self.netns.to_string_lossy();
        let connect = ["network", "connect", NETWORK, &netns, "--container", &self.container];
        let disconnect = ["network", "disconnect", NETWORK, &self.container];
        succeed(host, spoke, if verb == "ADD" { &connect[..] } else { &disconnect })
    }
}

impl Contender for Connected<'_> {
    fn label(&self) -> &str {
        OURS
    }

    fn run(&mut self, verb: &str) -> Result<Cost> {
        self.execute(verb)
    }
}

/// Nothing but the move, there and back.
struct Bare<'a> {
    host: &'a Host,
    netns: PathBuf,
    name: IfName,
    called: IfName,
}

impl<'a> Bare<'a> {
    /// Of the ready interface of this number, which is called so in the container.
    fn new(host: &'a Host, netns: &Path, (number, called): (usize, &str)) -> Result<Self> {
        let (name, called) = (ready(number).parse()?, called.parse()?);
        Ok(Self { host, netns: netns.to_owned(), name, called })
    }
}

impl Contender for Bare<'_> {
    fn label(&self) -> &str {
        BARE
    }

    fn run(&mut self, verb: &str) -> Result<Cost> {
        let moved = || carry(&self.netns, (&self.name, &self.called), verb != "ADD");
        self.host.within(|| ourselves(moved).map(|(_, cost)| cost))
    }
}

/// The same in a process of its own.
struct Executed<'a> {
    host: &'a Host,
    netns: PathBuf,
    names: (String, String),
}

impl Contender for Executed<'_> {
    fn label(&self) -> &str {
        if self.names.0 == self.names.1 { BARE_PROCESS } else { NAMED_PROCESS }
    }

    fn run(&mut self, verb: &str) -> Result<Cost> {
        let mut command = program(this_program()?);
        let (name, called) = &self.names;
        command.args(["move", name, called, &self.netns.to_string_lossy(), verb]);
        let done = self.host.within(|| execute(&mut command, ""))?;
        match done.ok {
            true => Ok(Cost { wall: done.wall, ..Cost::default() }),
            false => Err(Error::bug(format!("{name} was not moved"))),
        }
    }
}

/// What such a process does.
pub(crate) fn carry_out(moved: &Moved) -> Result<()> {
    carry(&moved.netns, (&moved.name, &moved.called), moved.back)
}

/// Moves an interface with these names, here and there.
fn carry(netns: &Path, (here, there): (&IfName, &IfName), is_back: bool) -> Result<()> {
    let netns = Netns::open(netns)?;
    match is_back {
        false => send((here, there), &netns),
        true => {
            let home = Netns::current()?;
            netns.enter(|| send((there, here), &home))?
        }
    }
}

fn send((from, name): (&IfName, &IfName), to: &Netns) -> Result<()> {
    let mut socket = Socket::route()?;
    let missing = || Error::bug(format!("interface {from} is missing"));
    let index = socket.link(At::Name(from))?.ok_or_else(missing)?.index;
    let mut batch = Batch::new();
    batch.move_link(index, to.as_fd(), name);
    socket.send(&mut batch)?.into_result()
}

/// What a plugin makes: an end that stays, up, and one that is ready.
fn make_pair(host: &Host, number: usize) -> Result<()> {
    let (stays, ready) = (format!("pl{number}"), ready(number));
    host.run(&["ip", "link", "add", &stays, "up", "type", "veth", "peer", "name", &ready], "")?;
    Ok(())
}

fn ready(number: usize) -> String {
    format!("rd{number}")
}

/// What the controller is to reach.
pub(crate) fn targets(book: &Book) -> Vec<Verdict> {
    let over = |bare| {
        let series = |who| Some(book.find(ONE, who, "ADD")?.by_round(wall));
        let (ours, bare) = series(OURS).zip(series(bare))?;
        let median = |of: &std::collections::BTreeMap<usize, f64>| {
            Some(Summary::of(of.values().copied().collect())?.median)
        };
        let spread = ours.iter().filter_map(|(round, ours)| Some(ours - bare.get(round)?));
        let spread = Summary::of(spread.collect())?;
        Some(Summary { median: median(&ours)? - median(&bare)?, ..spread })
    };
    let mut verdicts = Vec::new();
    for bare in [BARE_PROCESS, NAMED_PROCESS] {
        verdicts.push(at_most(format!("{ONE}: ADD wall over a {bare}, ms"), 3.0, over(bare)));
    }
    let rate = |who| {
        let mut rates = book.rates.iter();
        let found = rates.find(|rate| rate.contender == who && rate.verb == "ADD")?;
        Summary::of(found.per_second.clone())
    };
    for bare in [BARE, NAMED] {
        let measured = rate(OURS).zip(rate(bare)).map(|(ours, bare)| Summary {
            median: ours.median / bare.median,
            low: ours.low / bare.median,
            high: ours.high / bare.median,
        });
        let what = format!("{CROWD} at once, {OURS} / {bare}: ADD per second");
        verdicts.push(Verdict { what, side: Side::AtLeast, target: 0.9, measured });
    }
    let refused = book.find(DEAD, OURS, "refused").and_then(|series| series.summary(wall));
    verdicts.push(at_most(format!("{DEAD}: a refusal, ms"), 50.0, refused));
    verdicts
}
