//! What was measured, and what can be said about it.

use std::collections::BTreeMap;

use model::Error;

use crate::execute::Cost;
use crate::machine::Machine;
use crate::samples::Samples;

/// Everything that was measured.
#[derive(Debug, Default)]
pub(crate) struct Book {
    /// Costs, in the order in which they were first measured.
    pub(crate) series: Vec<Series>,
    /// What Docker's part measured.
    pub(crate) samples: Vec<Samples>,
    /// Many at once.
    pub(crate) rates: Vec<Rate>,
    /// What was counted.
    pub(crate) counts: Vec<Count>,
    /// The size of our binary in bytes.
    pub(crate) size: u64,
    /// Where.
    pub(crate) machine: Machine,
    /// What went wrong, once each.
    pub(crate) faults: Vec<String>,
}

/// One contender's costs of one thing.
#[derive(Debug)]
pub(crate) struct Series {
    /// The thing.
    pub(crate) case: String,
    /// Who.
    pub(crate) contender: String,
    /// ADD or DEL.
    pub(crate) verb: &'static str,
    /// By round.
    pub(crate) costs: BTreeMap<usize, Cost>,
    /// How often it failed.
    pub(crate) failures: usize,
}

/// Many containers at once.
#[derive(Debug, Default)]
pub(crate) struct Rate {
    /// Who.
    pub(crate) contender: String,
    /// How many at once.
    pub(crate) at_once: usize,
    /// ADD or DEL.
    pub(crate) verb: &'static str,
    /// Containers per second, of each round.
    pub(crate) per_second: Vec<f64>,
    /// Milliseconds of processor time per container, of each round.
    pub(crate) cpu: Vec<f64>,
    /// Milliseconds that each call took.
    pub(crate) latency: Vec<f64>,
    /// How many calls failed.
    pub(crate) failures: usize,
    /// How many things were left behind.
    pub(crate) leaks: usize,
}

/// What one call does, counted.
#[derive(Debug)]
pub(crate) struct Count {
    /// The thing.
    pub(crate) case: String,
    /// Who.
    pub(crate) contender: String,
    /// ADD or DEL.
    pub(crate) verb: &'static str,
    /// Programs that were executed.
    pub(crate) executions: u64,
    /// Processes and threads that were made.
    pub(crate) clones: u64,
    /// System calls.
    pub(crate) calls: u64,
    /// KiB that the largest process had in memory.
    pub(crate) peak: u64,
}

/// A median with its tenth and ninetieth percentile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Summary {
    /// Half are less.
    pub(crate) median: f64,
    /// One in ten is less.
    pub(crate) low: f64,
    /// One in ten is more.
    pub(crate) high: f64,
}

impl Summary {
    /// `None` of nothing.
    pub(crate) fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let at = |percent: usize| {
            let last = values.len().checked_sub(1)?;
            values.get((last * percent + 50) / 100).copied()
        };
        let middle = values.len() / 2;
        let upper = *values.get(middle)?;
        let even = values.len().is_multiple_of(2);
        let lower = if even { *values.get(middle.checked_sub(1)?)? } else { upper };
        Some(Self { median: (lower + upper) / 2.0, low: at(10)?, high: at(90)? })
    }
}

/// Milliseconds.
pub(crate) fn wall(cost: Cost) -> f64 {
    cost.wall.as_secs_f64() * 1e3
}

/// Milliseconds.
pub(crate) fn cpu(cost: Cost) -> f64 {
    cost.cpu.as_secs_f64() * 1e3
}

/// Wall or processor time.
pub(crate) type Measure = fn(Cost) -> f64;

impl Series {
    /// Of all rounds.
    pub(crate) fn summary(&self, measure: Measure) -> Option<Summary> {
        Summary::of(self.costs.values().map(|cost| measure(*cost)).collect())
    }

    /// To `base`: the quotient of the medians, and the spread of the rounds' own quotients.
    pub(crate) fn ratio(&self, base: &Series, measure: Measure) -> Option<Summary> {
        quotient(&self.by_round(measure), &base.by_round(measure))
    }

    /// By round.
    pub(crate) fn by_round(&self, measure: Measure) -> BTreeMap<usize, f64> {
        self.costs.iter().map(|(round, cost)| (*round, measure(*cost))).collect()
    }
}

/// The value that so many of a hundred do not exceed; `None` of nothing.
pub(crate) fn percentile(mut values: Vec<f64>, percent: usize) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len().checked_sub(1)? * percent / 100).copied()
}

/// The quotient of the medians, and the spread of the rounds' own quotients.
pub(crate) fn quotient(
    ours: &BTreeMap<usize, f64>,
    base: &BTreeMap<usize, f64>,
) -> Option<Summary> {
    let median = Summary::of(ours.values().copied().collect())?.median
        / Summary::of(base.values().copied().collect())?.median;
    let pairs = ours.iter().filter_map(|(round, ours)| Some(ours / base.get(round)?));
    let spread = Summary::of(pairs.collect())?;
    Some(Summary { median, ..spread })
}

impl Book {
    /// An empty one.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Notes what one round took.
    pub(crate) fn cost(
        &mut self,
        (case, contender, verb): (&str, &str, &'static str),
        round: usize,
        cost: Result<Cost, Error>,
    ) {
        let at = self.series(case, contender, verb);
        match cost {
            Ok(cost) => {
                self.series[at].costs.insert(round, cost);
            }
            Err(error) => {
                self.series[at].failures += 1;
                self.fault(&format!("{case}, {contender}, {verb}"), &error);
            }
        }
    }

    fn series(&mut self, case: &str, contender: &str, verb: &'static str) -> usize {
        let is = |series: &Series| {
            (series.case.as_str(), series.contender.as_str(), series.verb)
                == (case, contender, verb)
        };
        self.series.iter().position(is).unwrap_or_else(|| {
            let (case, contender) = (case.to_owned(), contender.to_owned());
            let costs = BTreeMap::new();
            self.series.push(Series { case, contender, verb, costs, failures: 0 });
            self.series.len() - 1
        })
    }

    /// The costs of `contender`.
    pub(crate) fn find(&self, case: &str, contender: &str, verb: &str) -> Option<&Series> {
        let is = |series: &&Series| {
            (series.case.as_str(), series.contender.as_str(), series.verb)
                == (case, contender, verb)
        };
        self.series.iter().find(is).filter(|series| !series.costs.is_empty())
    }

    /// Notes what went wrong, once.
    pub(crate) fn fault(&mut self, where_: &str, error: &Error) {
        let fault: String = format!("{where_}: {error}").chars().take(400).collect();
        if !self.faults.contains(&fault) && self.faults.len() < 40 {
            self.faults.push(fault);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_are_ranks() {
        let summary = Summary::of((1..=11).map(f64::from).collect()).unwrap();
        assert_eq!((summary.low, summary.median, summary.high), (2.0, 6.0, 10.0));
        assert_eq!(Summary::of(vec![1.0, 2.0]).unwrap().median, 1.5);
        assert_eq!(Summary::of(vec![]), None);
    }

    #[test]
    fn quotients_pair_rounds() {
        let ours = BTreeMap::from([(0, 1.0), (1, 2.0)]);
        let base = BTreeMap::from([(0, 10.0), (1, 10.0), (2, 10.0)]);
        let ratio = quotient(&ours, &base).unwrap();
        assert_eq!((ratio.low, ratio.median, ratio.high), (0.1, 0.15, 0.2));
    }
}
