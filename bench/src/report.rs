//! The tables.

use std::fmt::Write;

use crate::machine::Machine;
use crate::peers::Peers;
use crate::stats::{Book, Measure, Series, Summary, cpu, wall};
use crate::targets::{Side, Verdict};

/// Everything that is printed.
pub(crate) fn text(book: &Book, verdicts: &[Verdict], peers: &Peers) -> String {
    let mut out = String::new();
    let sections =
        [samples(book), costs(book), rates(book), counts(book), verdicts_table(verdicts)];
    for section in sections.iter().filter(|section| !section.is_empty()) {
        out += section;
        out.push('\n');
    }
    if !book.faults.is_empty() {
        out += "What went wrong\n";
        for fault in &book.faults {
            let _ = writeln!(out, "  {fault}");
        }
    }
    let Machine { kernel, processors, load_before, load_after } = &book.machine;
    let _ = write!(
        out,
        "kernel {kernel}, {processors} processors, load {load_before} before and {load_after} after; \
         reference: {}",
        peers.reference_version
    );
    out
}

/// Docker, in each line's own unit.
fn samples(book: &Book) -> String {
    let mut out = String::new();
    if book.samples.is_empty() {
        return out;
    }
    let _ = writeln!(
        out,
        "Docker, median [p10 - p90]; ratios to the first of each case\n\
         {:<34} {:<26} {:<15} {:<6} {:>30} {:>24}",
        "case", "what", "who", "unit", "value", "ratio"
    );
    for one in book.ordered_samples() {
        let failed = match one.failures {
            0 => String::new(),
            number => format!("  {number} FAILED"),
        };
        let value = one.summary();
        let digits = if value.is_some_and(|value| value.median >= 1_000.0) { 0 } else { 2 };
        let _ = writeln!(
            out,
            "{:<34} {:<26} {:<15} {:<6} {:>30} {:>24}{failed}",
            one.case,
            one.verb,
            one.who,
            one.unit,
            spread(value, digits),
            spread(book.sample_ratio(one), 3),
        );
    }
    out
}

/// Milliseconds and ratios to the first contender of each case.
fn costs(book: &Book) -> String {
    let mut out = String::new();
    if book.series.is_empty() {
        return out;
    }
    let _ = writeln!(
        out,
        "Milliseconds, median [p10 - p90]; ratios to the first of each case, spread over the rounds' own ratios\n\
         {:<28} {:<8} {:<15} {:>26} {:>26} {:>24} {:>24}",
        "case", "verb", "who", "wall", "cpu", "wall ratio", "cpu ratio"
    );
    let mut last = (String::new(), "");
    for series in ordered(book) {
        let here = (series.case.clone(), series.verb);
        let case = if here.0 == last.0 { "" } else { series.case.as_str() };
        let verb = if here == last { "" } else { series.verb };
        let base = book
            .series
            .iter()
            .find(|base| (base.case.as_str(), base.verb) == (here.0.as_str(), here.1));
        let ratio = |measure: Measure| {
            let base = base.filter(|base| base.contender != series.contender)?;
            series.ratio(base, measure)
        };
        let failed = match series.failures {
            0 => String::new(),
            number => format!("  {number} FAILED"),
        };
        let _ = writeln!(
            out,
            "{case:<28} {verb:<8} {:<15} {:>26} {:>26} {:>24} {:>24}{failed}",
            series.contender,
            spread(series.summary(wall), 2),
            spread(series.summary(cpu), 2),
            spread(ratio(wall), 3),
            spread(ratio(cpu), 3),
        );
        last = here;
    }
    out
}

/// By case, then verb, then contender, each in the order of its first appearance.
fn ordered(book: &Book) -> Vec<&Series> {
    let mut series: Vec<&Series> = book.series.iter().collect();
    let first = |is: &dyn Fn(&Series) -> bool| book.series.iter().position(is);
    series.sort_by_key(|one| {
        let case = first(&|other| other.case == one.case);
        let verb = first(&|other| other.case == one.case && other.verb == one.verb);
        (case, verb)
    });
    series
}

fn rates(book: &Book) -> String {
    let mut out = String::new();
    if book.rates.is_empty() {
        return out;
    }
    let _ = writeln!(
        out,
        "64 containers, several at once\n{:<8} {:<5} {:<16} {:>26} {:>26} {:>26} {:>9} {:>6} {:>7}",
        "at once",
        "verb",
        "who",
        "per second",
        "cpu ms each",
        "latency ms",
        "failures",
        "leaks",
        "rounds"
    );
    for rate in &book.rates {
        let _ = writeln!(
            out,
            "{:<8} {:<5} {:<16} {:>26} {:>26} {:>26} {:>9} {:>6} {:>7}",
            rate.at_once,
            rate.verb,
            rate.contender,
            spread(Summary::of(rate.per_second.clone()), 0),
            spread(Summary::of(rate.cpu.clone()), 2),
            spread(Summary::of(rate.latency.clone()), 1),
            rate.failures,
            rate.leaks,
            rate.per_second.len(),
        );
    }
    out
}

fn counts(book: &Book) -> String {
    let mut out = String::new();
    if book.counts.is_empty() {
        return out;
    }
    let _ = writeln!(
        out,
        "Counted\n{:<22} {:<11} {:<5} {:>11} {:>14} {:>13} {:>10}",
        "case", "who", "verb", "executions", "forks/threads", "system calls", "peak KiB"
    );
    for count in &book.counts {
        let _ = writeln!(
            out,
            "{:<22} {:<11} {:<5} {:>11} {:>14} {:>13} {:>10}",
            count.case,
            count.contender,
            count.verb,
            count.executions,
            count.clones,
            count.calls,
            count.peak
        );
    }
    let _ = writeln!(out, "our binary: {:.2} MB", book.size as f64 / 1e6);
    out
}

fn verdicts_table(verdicts: &[Verdict]) -> String {
    let mut out = format!("Targets\n{:<72} {:>11} {:>28}\n", "what", "target", "measured");
    for verdict in verdicts {
        let side = if verdict.side == Side::AtMost { "<=" } else { ">=" };
        let digits = if verdict.target < 1.5 { 3 } else { 1 };
        let met = match verdict.met() {
            Some(true) => "met",
            Some(false) => "NOT MET",
            None => "not measured",
        };
        let _ = writeln!(
            out,
            "{:<72} {:>11} {:>28}  {met}",
            verdict.what,
            format!("{side} {:.digits$}", verdict.target),
            spread(verdict.measured, digits),
        );
    }
    out
}

fn spread(summary: Option<Summary>, digits: usize) -> String {
    summary.map_or_else(String::new, |Summary { median, low, high }| {
        if low == high {
            return format!("{median:.digits$}");
        }
        format!("{median:.digits$} [{low:.digits$} - {high:.digits$}]")
    })
}
