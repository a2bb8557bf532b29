//! What became of the cases.

use std::collections::BTreeMap;

use serde::Serialize;

use super::exchange::Exchange;
use super::run::{Run, Stop};
use super::script::{Case, Script};
use super::{cni, docker};

/// What a case found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    /// As the protocol says.
    Pass,
    /// It could not be tried.
    Skipped,
    /// Engines bear it, or the protocol does not say it.
    Warn,
    /// The protocol is violated.
    Fail,
}

/// One case.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) case: String,
    pub(crate) verdict: Verdict,
    /// Why it is no pass.
    pub(crate) reasons: Vec<String>,
    /// The sentence that it checks.
    pub(crate) says: String,
    /// What shows it: the last exchange before the verdict.
    pub(crate) exchange: Option<Exchange>,
}

/// How long one method took.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figure {
    pub(crate) count: usize,
    pub(crate) median_ms: f64,
    pub(crate) longest_ms: f64,
}

/// All of it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    /// What was tested.
    pub(crate) subject: String,
    pub(crate) cases: Vec<Row>,
    /// By method.
    pub(crate) figures: BTreeMap<String, Figure>,
    #[serde(skip)]
    times: BTreeMap<String, Vec<f64>>,
}

impl Report {
    pub(super) fn of(subject: String) -> Self {
        Self { subject, cases: Vec::new(), figures: BTreeMap::new(), times: BTreeMap::new() }
    }

    /// Runs `case` and adds what became of it.
    pub(super) fn add(&mut self, case: &Case<'_>, mut run: Run<'_>) {
        let lacks = |need: &&&str| run.vars.get(**need).is_none_or(String::is_empty);
        if let Some(need) = case.needs.iter().find(lacks) {
            let why = format!("the plugin or the test is not: {need}");
            self.row(case, Verdict::Skipped, vec![why], None);
            return;
        }
        let done = run.lines(&case.lines);
        let shown = run.exchanges.last().map(Exchange::shown);
        run.tidy();
        for exchange in run.exchanges.iter().filter(|exchange| exchange.fault.is_none()) {
            self.times.entry(exchange.method.clone()).or_default().push(exchange.ms);
        }
        let mut reasons = run.warnings;
        let verdict = match done {
            Ok(()) if reasons.is_empty() => Verdict::Pass,
            Ok(()) => Verdict::Warn,
            Err(Stop::Skip(why)) => {
                reasons.push(why);
                Verdict::Skipped
            }
            Err(Stop::Fail(why)) => {
                reasons.insert(0, why);
                Verdict::Fail
            }
        };
        self.row(case, verdict, reasons, shown.filter(|_| verdict > Verdict::Skipped));
        self.count();
    }

    fn row(
        &mut self,
        case: &Case<'_>,
        verdict: Verdict,
        reasons: Vec<String>,
        exchange: Option<Exchange>,
    ) {
        let (case, says) = (case.name.to_owned(), case.says.to_owned());
        self.cases.push(Row { case, verdict, reasons, says, exchange });
    }

    fn count(&mut self) {
        for (method, times) in &mut self.times {
            times.sort_by(f64::total_cmp);
            let figure = Figure {
                count: times.len(),
                median_ms: times.get(times.len() / 2).copied().unwrap_or_default(),
                longest_ms: times.last().copied().unwrap_or_default(),
            };
            self.figures.insert(method.clone(), figure);
        }
    }

    /// How many cases ended so.
    pub(crate) fn number(&self, verdict: Verdict) -> usize {
        self.cases.iter().filter(|row| row.verdict == verdict).count()
    }

    /// Adds the cases of another report, with `prefix` before their names.
    pub(super) fn take(&mut self, other: Self, prefix: &str) {
        self.cases.extend(other.cases.into_iter().map(|mut row| {
            row.case = format!("{prefix}{}", row.case);
            row
        }));
        for (method, times) in other.times {
            self.times.entry(method).or_default().extend(times);
        }
        self.count();
    }
}

/// Whether a case is among those that somebody wants.
pub(super) fn is_wanted(only: &[String], name: &str) -> bool {
    only.is_empty() || only.iter().any(|part| name.contains(part.as_str()))
}

/// The names of all cases for Docker's plugins, with what each checks.
pub(crate) fn list_plugin() -> Vec<(&'static str, &'static str)> {
    listed(&docker::CASES)
}

/// The same for CNI's plugins.
pub(crate) fn list_cni() -> Vec<(&'static str, &'static str)> {
    listed(&cni::CASES)
}

fn listed(texts: &[&'static str]) -> Vec<(&'static str, &'static str)> {
    Script::read(texts).cases.iter().map(|case| (case.name, case.says)).collect()
}
