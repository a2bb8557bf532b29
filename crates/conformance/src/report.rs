//! The report of the cases.

use std::collections::BTreeMap;

use serde::Serialize;

use super::exchange::Exchange;
use super::run::{Run, Stop};
use super::script::Case;

/// The result of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
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
pub struct Row {
    /// Its name: the section of the cases' file, and the number of the case.
    pub case: String,
    /// What came of it.
    pub verdict: Verdict,
    /// Why it is no pass.
    pub reasons: Vec<String>,
    /// The sentence that it checks.
    pub says: String,
    /// The evidence: the last exchange before the verdict.
    pub exchange: Option<Exchange>,
}

/// How long one method took.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    pub count: usize,
    pub median_ms: f64,
    pub longest_ms: f64,
}

/// All of it.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The subject of the test.
    pub subject: String,
    /// Each case, in the order in which they were run.
    pub cases: Vec<Row>,
    /// By method.
    pub figures: BTreeMap<String, Figure>,
    #[serde(skip)]
    times: BTreeMap<String, Vec<f64>>,
}

impl Report {
    pub(super) fn of(subject: String) -> Self {
        Self { subject, cases: Vec::new(), figures: BTreeMap::new(), times: BTreeMap::new() }
    }

    /// Runs `case` and adds its result.
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
        let is_its =
            |exchange: &&Exchange| exchange.fault.is_none() && !exchange.method.contains(' ');
        for exchange in run.exchanges.iter().filter(is_its) {
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
            Err(Stop::Fail(why)) => match self.known(case, run.is_shared, &why) {
                Some(first) => {
                    reasons.insert(0, format!("as {first}: {why}"));
                    Verdict::Skipped
                }
                None => {
                    reasons.insert(0, why);
                    Verdict::Fail
                }
            },
        };
        self.row(case, verdict, reasons, shown.filter(|_| verdict > Verdict::Skipped));
        self.count();
    }

    /// The case that failed before because of the same: in lines that it shares with this one, or as a case
    /// that this one begins with. One cause is one failure.
    fn known(&self, case: &Case<'_>, is_shared: bool, why: &str) -> Option<&str> {
        let why = cause(why);
        let is_first = |row: &&Row| {
            let is_beginning = is_shared || case.begins.contains(&row.case.as_str());
            let reason = row.reasons.first().filter(|_| row.verdict == Verdict::Fail);
            is_beginning && reason.is_some_and(|reason| cause(reason) == why)
        };
        self.cases.iter().find(is_first).map(|row| row.case.as_str())
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

    /// The same case under another prefix, where it failed because of the same.
    fn same(&self, case: &str, why: &str) -> Option<&str> {
        let is_it = |row: &&Row| {
            let is_same = row.case.rsplit_once('/').is_some_and(|(_, name)| name == case);
            let reason = row.reasons.first().filter(|_| row.verdict == Verdict::Fail);
            is_same && reason.is_some_and(|reason| cause(reason) == cause(why))
        };
        self.cases.iter().find(is_it).map(|row| row.case.as_str())
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
    pub fn number(&self, verdict: Verdict) -> usize {
        self.cases.iter().filter(|row| row.verdict == verdict).count()
    }

    /// Adds the cases of another report, with `prefix` before their names. What failed for the same reason in
    /// a report before is no failure of its own.
    pub(super) fn take(&mut self, other: Self, prefix: &str) {
        for mut row in other.cases {
            let first = row.reasons.first().filter(|_| row.verdict == Verdict::Fail);
            let first = first.and_then(|why| self.same(&row.case, why)).map(str::to_owned);
            if let (Some(first), Some(why)) = (first, row.reasons.first_mut()) {
                *why = format!("as {first}: {why}");
                (row.verdict, row.exchange) = (Verdict::Skipped, None);
            }
            row.case = format!("{prefix}{}", row.case);
            self.cases.push(row);
        }
        for (method, times) in other.times {
            self.times.entry(method).or_default().extend(times);
        }
        self.count();
    }
}

/// A reason without what differs from one run to the next: ids, names and addresses, which have digits.
fn cause(why: &str) -> Vec<&str> {
    let words = why.split(|c: char| !c.is_ascii_alphanumeric());
    let mut words: Vec<&str> = words
        .filter(|word| !word.is_empty())
        .map(|word| if word.bytes().any(|byte| byte.is_ascii_digit()) { "#" } else { word })
        .collect();
    words.dedup();
    words
}

/// Whether a case is selected.
pub(super) fn is_wanted(only: &[String], name: &str) -> bool {
    only.is_empty() || only.iter().any(|part| name.contains(part.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_has_no_ids() {
        let strays = |names: &str| cause(&format!("interfaces are left over: {names}")).join(" ");
        assert_eq!(strays("veth1a2b"), strays("veth3 p4p1"));
        assert_ne!(cause("Leave: error"), cause("Join: error"));
        assert_ne!(cause("200 instead of 404"), cause("no answer"));
    }
}
