//! The same for programs.

use serde_json::{Value, json};

use crate::args::Args;
use crate::samples::Samples;
use crate::stats::{Book, Count, Rate, Series, Summary, cpu, wall};
use crate::targets::{Side, Verdict};

/// Everything that was measured: milliseconds, ratios, counts.
pub(crate) fn document(book: &Book, verdicts: &[Verdict], args: &Args) -> Value {
    json!({
        "machine": {
            "kernel": book.machine.kernel,
            "processors": book.machine.processors,
            "load_before": book.machine.load_before,
            "load_after": book.machine.load_after,
        },
        "binary_bytes": book.size,
        "rounds": args.rounds,
        "quick": args.quick,
        "costs": book.series.iter().map(|series| costs(book, series)).collect::<Vec<_>>(),
        "docker": book.samples.iter().map(|one| samples(book, one)).collect::<Vec<_>>(),
        "at_once": book.rates.iter().map(rate).collect::<Vec<_>>(),
        "counts": book.counts.iter().map(count).collect::<Vec<_>>(),
        "targets": verdicts.iter().map(verdict).collect::<Vec<_>>(),
        "faults": book.faults,
    })
}

fn costs(book: &Book, series: &Series) -> Value {
    let first =
        book.series.iter().find(|base| (&base.case, base.verb) == (&series.case, series.verb));
    let base = first.filter(|base| base.contender != series.contender);
    let of = |value| series.by_round(value).into_values().collect::<Vec<f64>>();
    json!({
        "case": series.case.trim(),
        "verb": series.verb,
        "who": series.contender,
        "failures": series.failures,
        "wall_ms": series.summary(wall).map(summary),
        "cpu_ms": series.summary(cpu).map(summary),
        "wall_ratio": base.and_then(|base| series.ratio(base, wall)).map(summary),
        "cpu_ratio": base.and_then(|base| series.ratio(base, cpu)).map(summary),
        "rounds": { "wall_ms": of(wall), "cpu_ms": of(cpu) },
    })
}

fn samples(book: &Book, samples: &Samples) -> Value {
    json!({
        "case": samples.case,
        "verb": samples.verb,
        "who": samples.who,
        "unit": samples.unit,
        "failures": samples.failures,
        "value": samples.summary().map(summary),
        "ratio": book.sample_ratio(samples).map(summary),
        "rounds": samples.values.values().collect::<Vec<_>>(),
    })
}

fn rate(rate: &Rate) -> Value {
    json!({
        "who": rate.contender,
        "at_once": rate.at_once,
        "verb": rate.verb,
        "per_second": Summary::of(rate.per_second.clone()).map(summary),
        "cpu_ms_each": Summary::of(rate.cpu.clone()).map(summary),
        "latency_ms": Summary::of(rate.latency.clone()).map(summary),
        "rounds": rate.per_second.len(),
        "failures": rate.failures,
        "leaks": rate.leaks,
    })
}

fn count(count: &Count) -> Value {
    json!({
        "case": count.case,
        "who": count.contender,
        "verb": count.verb,
        "executions": count.executions,
        "forks_and_threads": count.clones,
        "system_calls": count.calls,
        "peak_kib": count.peak,
    })
}

fn verdict(verdict: &Verdict) -> Value {
    json!({
        "what": verdict.what,
        "side": if verdict.side == Side::AtMost { "at most" } else { "at least" },
        "target": verdict.target,
        "measured": verdict.measured.map(summary),
        "met": verdict.met(),
    })
}

fn summary(summary: Summary) -> Value {
    json!({ "median": summary.median, "p10": summary.low, "p90": summary.high })
}
