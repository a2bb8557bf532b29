//! What Spoke wants to reach, and whether it did. Informative: a machine can have a bad day.

use std::collections::BTreeMap;

use crate::pairs::{
    BRIDGE, FIREWALL_ALONE, OURS, PODMAN, PORTMAP_ALONE, REFERENCE, SPOKE, VERSION,
};
use crate::stats::{Book, Count, Measure, Rate, Summary, cpu, quotient, wall};
use crate::together::{CHAIN, OUR_CHAIN};
use crate::{addresses, crowd, growth, parts, ports};

/// A target and what was measured.
#[derive(Debug)]
pub(crate) struct Verdict {
    /// What is compared.
    pub(crate) what: String,
    /// On which side of the target it should be.
    pub(crate) side: Side,
    /// The target.
    pub(crate) target: f64,
    /// What was measured, with its spread where there is one; `None` if it was not.
    pub(crate) measured: Option<Summary>,
}

/// Which side of a target is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The target or less.
    AtMost,
    /// The target or more.
    AtLeast,
}

impl Verdict {
    /// Whether the target is met; `None` if nothing was measured.
    pub(crate) fn met(&self) -> Option<bool> {
        self.measured.map(|measured| match self.side {
            Side::AtMost => measured.median <= self.target,
            Side::AtLeast => measured.median >= self.target,
        })
    }
}

/// All targets.
pub(crate) fn judge(book: &Book) -> Vec<Verdict> {
    let judge = Judge { book };
    let parts = [
        crate::controller::targets(book),
        judge.one_container(),
        judge.single_plugins(),
        judge.parts(),
        judge.floor(),
        judge.counted(),
        judge.many(),
        judge.scale(),
        crate::fence::targets(book),
        crate::counted::targets(book),
        crate::names::targets(book),
        crate::live::targets(book),
        crate::docker::targets(book),
        crate::kurma::targets(book),
        crate::hosts::targets(book),
    ];
    parts.into_iter().flatten().collect()
}

struct Judge<'a> {
    book: &'a Book,
}

const MEASURES: [(&str, Measure); 2] = [("wall", wall), ("cpu", cpu)];

impl Judge<'_> {
    fn one_container(&self) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        let whole = [
            (SPOKE, REFERENCE, "type spoke / reference chain", 30.0),
            (SPOKE, "netavark", "type spoke / netavark", 10.0),
            (OURS, REFERENCE, "Podman's conflist, ours / reference", 12.0),
        ];
        for (ours, base, what, factor) in whole {
            for (unit, measure) in MEASURES {
                let measured =
                    quotient(&self.both(PODMAN, ours, measure), &self.both(PODMAN, base, measure));
                let what = format!("{what}: ADD+DEL {unit}");
                verdicts.push(at_most(what, 1.0 / factor, measured));
            }
        }
        verdicts
    }

    fn single_plugins(&self) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        for (case, add, del) in
            [(PORTMAP_ALONE, 8.0, 8.0), (FIREWALL_ALONE, 8.0, 8.0), (BRIDGE, 5.0, 8.0)]
        {
            for (verb, factor) in [("ADD", add), ("DEL", del)] {
                let measured = self.ratio(case, (OURS, REFERENCE), verb, wall);
                verdicts.push(at_most(format!("{case}: {verb} wall"), 1.0 / factor, measured));
            }
        }
        for verb in ["ADD", "DEL"] {
            let measured = self.ratio(BRIDGE, (OURS, REFERENCE), verb, cpu);
            verdicts.push(at_most(format!("{BRIDGE}: {verb} cpu"), 1.0 / 5.0, measured));
        }
        let version = self.ratio(VERSION, (OURS, REFERENCE), "VERSION", wall);
        verdicts.push(at_most("VERSION: wall".into(), 1.0 / 2.0, version));
        verdicts
    }

    fn parts(&self) -> Vec<Verdict> {
        let cases =
            [parts::BANDWIDTH, parts::TUNING, parts::SOURCE_ROUTING, parts::VRF, parts::MACVLAN];
        let alone = cases.into_iter().map(|case| {
            let measured = self.ratio(case, (OURS, REFERENCE), "ADD", wall);
            at_most(format!("{case}: ADD wall"), 1.0 / 3.0, measured)
        });
        let everything = self.ratio(parts::EVERYTHING, (SPOKE, REFERENCE), "ADD", wall);
        let what = format!("type spoke / reference chain, {}: ADD wall", parts::EVERYTHING);
        alone.chain([at_most(what, 1.0 / 20.0, everything)]).collect()
    }

    fn floor(&self) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        for verb in ["ADD", "DEL"] {
            let series = |who| Some(self.book.find(PODMAN, who, verb)?.by_round(wall));
            let floor = series("floor").zip(series("process start"));
            let floor = floor.map(|(work, start)| add(&work, &start));
            let measured = series(SPOKE).zip(floor).and_then(|(ours, base)| quotient(&ours, &base));
            let what = format!("type spoke / (floor + process start): {verb} wall");
            verdicts.push(at_most(what, 2.0, measured));
        }
        for (case, who) in [(BRIDGE, OURS), (PODMAN, SPOKE)] {
            let ours = self.book.find(case, who, "DEL").map(|series| series.by_round(wall));
            let plain = self.book.find(BRIDGE, "ip link del", "DEL");
            let plain = plain.map(|series| series.by_round(wall));
            let measured = ours.zip(plain).and_then(|(ours, base)| quotient(&ours, &base));
            let what = format!("{} ({who}) / ip link del: DEL wall", case.trim());
            verdicts.push(at_most(what, 1.0 / 4.0, measured));
        }
        verdicts
    }

    fn counted(&self) -> Vec<Verdict> {
        let spoke: Vec<&Count> =
            self.book.counts.iter().filter(|count| count.contender == SPOKE).collect();
        let sum = |value: fn(&Count) -> u64| {
            (!spoke.is_empty())
                .then(|| exactly(spoke.iter().map(|count| value(count)).sum::<u64>()))
        };
        let ours = self.book.counts.iter().filter(|count| count.contender != REFERENCE);
        let peak = ours.map(|count| count.peak).max();
        vec![
            at_most("type spoke: executions, ADD+DEL".into(), 2.0, sum(|count| count.executions)),
            at_most("type spoke: forks, ADD+DEL".into(), 1.0, sum(|count| count.clones)),
            at_most("type spoke: system calls, ADD+DEL".into(), 600.0, sum(|count| count.calls)),
            at_most("peak memory of a plugin, KiB".into(), 8192.0, peak.map(exactly)),
            at_most("the binary, bytes".into(), 8e6, Some(exactly(self.book.size))),
        ]
    }

    fn many(&self) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        let wanted = [
            (SPOKE, REFERENCE, "ADD", 4.0),
            (SPOKE, CHAIN, "ADD", 30.0),
            (SPOKE, REFERENCE, "DEL", 0.8),
            (SPOKE, CHAIN, "DEL", 10.0),
            (OURS, REFERENCE, "ADD", 4.0),
            (OURS, REFERENCE, "DEL", 0.8),
        ];
        for (who, base, verb, target) in wanted {
            let speed = |who| Summary::of(self.rate(who, 16, verb)?.per_second.clone());
            let measured = speed(who).zip(speed(base)).map(|(ours, base)| Summary {
                median: ours.median / base.median,
                low: ours.low / base.median,
                high: ours.high / base.median,
            });
            let base = if base == REFERENCE { "reference bridge" } else { base };
            let what = format!("64 containers, 16 at once, {who} / {base}: {verb} per second");
            verdicts.push(Verdict { what, side: Side::AtLeast, target, measured });
        }
        let ours: Vec<&Rate> = self
            .book
            .rates
            .iter()
            .filter(|rate| [OURS, OUR_CHAIN, SPOKE].contains(&rate.contender.as_str()))
            .collect();
        let sum = |value: fn(&Rate) -> usize| {
            (!ours.is_empty()).then(|| exactly(ours.iter().map(|rate| value(rate) as u64).sum()))
        };
        verdicts.push(at_most("ours at once: failures".into(), 0.0, sum(|rate| rate.failures)));
        verdicts.push(at_most("ours at once: leaks".into(), 0.0, sum(|rate| rate.leaks)));
        verdicts
    }

    fn scale(&self) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        let crowd = crowd::name(1_000);
        let measured = self.ratio(&crowd, (OURS, REFERENCE), "ADD", cpu);
        verdicts.push(at_most(format!("{crowd}: ADD cpu"), 1.0 / 7.0, measured));
        for verb in ["ADD", "DEL"] {
            let of = |level| self.book.find(&ports::name(level), OURS, verb)?.summary(cpu);
            let measured = of(10_000).zip(of(1)).map(|(many, one)| over(many, one.median));
            let what = format!("a published port with 10,000 / with 1 present: {verb} cpu");
            verdicts.push(at_most(what, 1.2, measured));
        }
        for (verb, bound) in growth::BOUNDS {
            let of = |level| self.book.find(&growth::name(level), OURS, verb)?.summary(cpu);
            let (many, few) = (of(growth::MANY), of(growth::FEW));
            let measured = many.zip(few).map(|(many, few)| over(many, few.median));
            let what = format!("{} / {}: {verb} cpu", growth::name(growth::MANY), growth::FEW);
            verdicts.push(at_most(what, bound, measured));
        }
        for who in [OURS, addresses::INHERITED] {
            let (many, few) = (addresses::name(30_000), addresses::name(10));
            for (base, target) in [((&many, REFERENCE), 1.0 / 100.0), ((&few, who), 1.2)] {
                let measured =
                    quotient(&self.both(&many, who, wall), &self.both(base.0, base.1, wall));
                let what = format!("{many}, {who} / {}, {}: ADD+DEL wall", base.0, base.1);
                verdicts.push(at_most(what, target, measured));
            }
        }
        verdicts
    }

    /// What ADD and DEL took together.
    fn both(&self, case: &str, who: &str, measure: Measure) -> BTreeMap<usize, f64> {
        let series = |verb| Some(self.book.find(case, who, verb)?.by_round(measure));
        let both = series("ADD").zip(series("DEL"));
        both.map(|(first, second)| add(&first, &second)).unwrap_or_default()
    }

    fn ratio(
        &self,
        case: &str,
        (ours, base): (&str, &str),
        verb: &str,
        measure: Measure,
    ) -> Option<Summary> {
        self.book.find(case, ours, verb)?.ratio(self.book.find(case, base, verb)?, measure)
    }

    fn rate(&self, who: &str, at_once: usize, verb: &str) -> Option<&Rate> {
        let is = |rate: &&Rate| {
            (rate.contender.as_str(), rate.at_once, rate.verb) == (who, at_once, verb)
        };
        self.book.rates.iter().find(is)
    }
}

/// A target that is met by less.
pub(crate) fn at_most(what: String, target: f64, measured: Option<Summary>) -> Verdict {
    Verdict { what, side: Side::AtMost, target, measured }
}

/// A number that is the same every time.
fn exactly(number: u64) -> Summary {
    let number = number as f64;
    Summary { median: number, low: number, high: number }
}

fn over(summary: Summary, base: f64) -> Summary {
    let Summary { median, low, high } = summary;
    Summary { median: median / base, low: low / base, high: high / base }
}

fn add(first: &BTreeMap<usize, f64>, second: &BTreeMap<usize, f64>) -> BTreeMap<usize, f64> {
    let pairs = first.iter().filter_map(|(round, one)| Some((*round, one + second.get(round)?)));
    pairs.collect()
}
