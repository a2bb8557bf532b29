//! What was asked for.

use std::path::PathBuf;

use model::{Error, IfName, Result};

use crate::docker::Part;

/// How it is called.
pub(crate) const USAGE: &str = "\
usage: bench [--quick] [--rounds N] [--json FILE] [--plot FILE] [--only SECTION,...] [--ours BINARY|DIR]

  --quick     fewer rounds and smaller crowds: under a minute
  --rounds N  rounds of each pair (default 40, with --quick 8)
  --json FILE also writes everything that was measured as JSON
  --plot FILE also draws what many hosts ask of etcd (section scale) as SVG
  --only LIST of: docker20, docker28, protocol, memory, neutron, kurma, hosts, scale,
              counts, pairs, addresses, ports, crowd, together, controller, growth,
              fence, counted, names, live
  --ours PATH the binary under test, or a directory of plugins (default: the release build)";

/// The parts that are measured in the world of this process, in this order.
pub(crate) const SECTIONS: [&str; 12] = [
    "counts",
    "pairs",
    "addresses",
    "ports",
    "crowd",
    "together",
    "controller",
    "growth",
    "fence",
    "counted",
    "names",
    "live",
];

/// What this process is.
pub(crate) enum Mode {
    /// The benchmark.
    Bench(Args),
    /// A process that only starts: what executing a static binary costs.
    Start,
    /// A process that moves an interface from its network to another one's, or back.
    Move(Moved),
    /// Runs a command as its only child, and prints the peak of its memory.
    Peak(Vec<String>),
    /// One of Docker's parts, for the benchmark that started it.
    Part(Part, Args),
    /// The same, for that process, in a world that it made.
    Inside(Part, Args),
    /// Says how it is called.
    Help,
}

/// What is moved.
pub(crate) struct Moved {
    /// The interface's name here.
    pub(crate) name: IfName,
    /// Its name there.
    pub(crate) called: IfName,
    /// The other network.
    pub(crate) netns: PathBuf,
    /// From there to here.
    pub(crate) back: bool,
}

/// The benchmark's options.
#[derive(Clone, Debug, Default)]
pub(crate) struct Args {
    /// Short.
    pub(crate) quick: bool,
    /// Rounds of each pair.
    pub(crate) rounds: usize,
    /// Where the JSON goes.
    pub(crate) json: Option<PathBuf>,
    /// Where the picture of many hosts goes.
    pub(crate) plot: Option<PathBuf>,
    /// What is under test, if not the release build.
    pub(crate) ours: Option<PathBuf>,
    only: Vec<String>,
}

impl Moved {
    fn of(mut words: impl Iterator<Item = String>) -> Result<Self> {
        let mut next = || {
            let missing = "move needs an interface's two names, a network namespace and a verb";
            words.next().ok_or_else(|| Error::invalid(missing))
        };
        Ok(Self {
            name: next()?.parse()?,
            called: next()?.parse()?,
            netns: next()?.into(),
            back: next()? != "ADD",
        })
    }
}

impl Args {
    /// Reads the command line without the program's name.
    pub(crate) fn parse(words: impl Iterator<Item = String>) -> Result<Mode> {
        let mut words = words.peekable();
        match words.peek().map(String::as_str) {
            Some("start") => return Ok(Mode::Start),
            Some("move") => return Ok(Mode::Move(Moved::of(words.skip(1))?)),
            Some("peak") => return Ok(Mode::Peak(words.skip(1).collect())),
            Some("part") => {
                let part = part(words.nth(1))?;
                return Ok(Mode::Part(part, Self::options(words)?));
            }
            Some("inside") => {
                let part = part(words.nth(1))?;
                return Ok(Mode::Inside(part, Self::options(words)?));
            }
            Some("--help" | "-h") => return Ok(Mode::Help),
            _ => {}
        }
        Ok(Mode::Bench(Self::options(words)?))
    }

    fn options(mut words: impl Iterator<Item = String>) -> Result<Self> {
        let (mut args, mut rounds) = (Self::default(), None);
        while let Some(word) = words.next() {
            let mut value =
                || words.next().ok_or_else(|| Error::invalid(format!("{word} needs a value")));
            match word.as_str() {
                "--quick" => args.quick = true,
                "--rounds" => rounds = Some(number(&value()?)?),
                "--json" => args.json = Some(value()?.into()),
                "--plot" => args.plot = Some(value()?.into()),
                "--ours" => args.ours = Some(value()?.into()),
                "--only" => args.only = sections(&value()?)?,
                _ => return Err(Error::invalid(format!("{word} is no option\n{USAGE}"))),
            }
        }
        args.rounds = rounds.unwrap_or(if args.quick { 8 } else { 40 });
        Ok(args)
    }

    /// The same for a process of our own, without what is only ours to do.
    pub(crate) fn passed_on(&self) -> Vec<String> {
        let rounds = ["--rounds".to_owned(), self.rounds.to_string()];
        self.quick.then(|| "--quick".to_owned()).into_iter().chain(rounds).collect()
    }

    /// Whether this section was asked for.
    pub(crate) fn wants(&self, section: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == section)
    }

    /// `full`, or `short` where time is.
    pub(crate) fn either<T>(&self, short: T, full: T) -> T {
        if self.quick { short } else { full }
    }
}

fn part(name: Option<String>) -> Result<Part> {
    let name = name.unwrap_or_default();
    Part::named(&name).ok_or_else(|| Error::invalid(format!("{name:?} is no part")))
}

fn sections(list: &str) -> Result<Vec<String>> {
    let known = || Part::ALL.map(Part::name).into_iter().chain(SECTIONS);
    let names = list.split(',').map(|name| match known().any(|known| known == name) {
        true => Ok(name.to_owned()),
        false => {
            let known: Vec<_> = known().collect();
            Err(Error::invalid(format!("{name:?} is none of {}", known.join(", "))))
        }
    });
    names.collect()
}

fn number(text: &str) -> Result<usize> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(Error::invalid(format!("{text:?} is no number of rounds"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Mode> {
        Args::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn reads_options() {
        let Ok(Mode::Bench(args)) = parse("--quick --rounds 3 --only pairs,crowd") else {
            panic!()
        };
        assert!(args.quick && args.rounds == 3 && args.wants("crowd") && !args.wants("counts"));
        let Ok(Mode::Bench(args)) = parse("") else { panic!() };
        assert!(args.wants("together") && args.rounds == 40);
    }

    #[test]
    fn passes_on_what_a_part_needs() {
        let Ok(Mode::Bench(args)) = parse("--quick --only memory") else { panic!() };
        let line = format!("part memory {}", args.passed_on().join(" "));
        let Ok(Mode::Part(Part::Memory, args)) = parse(&line) else { panic!() };
        assert!(args.quick && args.rounds == 8);
    }

    #[test]
    fn refuses_what_it_does_not_know() {
        for line in ["--fast", "--rounds", "--rounds 0", "--only everything", "part everything"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
