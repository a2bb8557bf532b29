//! What a name costs: a container's name and one from outside, asked of Spoke and of what others use.

mod client;
mod server;

use std::time::Duration;

use model::Result;

use crate::args::Args;
use crate::peers::Peers;
use crate::samples::Figure;
use crate::stats::{Book, Summary, percentile};
use crate::targets::{Side, Verdict, at_most};
use client::Client;
use server::{AARDVARK, DNSMASQ, OURS, Server};

/// The work.
const LOCAL: &str = "the name of a container";
const OUTSIDE: &str = "a name from outside";
/// Who is asked, if it is the server outside itself.
const DIRECT: &str = "asked directly";
const P50: &str = "p50";
const P99: &str = "p99";
const RATE: &str = "answers per second of a processor";
/// How many queries wait for an answer at once where as many as possible are asked.
const WINDOW: usize = 32;

/// Measures.
pub(crate) fn run(peers: &Peers, args: &Args, book: &mut Book) -> Result<()> {
    let servers = [Server::dnsmasq()?, Server::aardvark(peers)?, Server::spoke(peers)?];
    let mut asked = 0;
    for round in 0..args.rounds {
        for at in 0..servers.len() {
            let server = &servers[(round + at) % servers.len()];
            if let Err(error) = measure(server, (round, &mut asked), args, book) {
                book.fault(server.label, &error);
            }
        }
    }
    Ok(())
}

/// One turn of one server.
fn measure(server: &Server, at: (usize, &mut usize), args: &Args, book: &mut Book) -> Result<()> {
    let (round, asked) = at;
    let who = server.label;
    let count = args.either(200, 500);
    let container = Client::in_netns(&server.container, server.gateway)?;
    let took = container.one_by_one(count, |_| "web".to_owned())?;
    note(book, (LOCAL, who, round), &took);
    let before = server.processor()?;
    let answered =
        container.at_once(WINDOW, Duration::from_millis(args.either(100, 200)), "web")?;
    let spent = server.processor()?.saturating_sub(before);
    let place = Figure { case: LOCAL, verb: RATE, who, unit: "" };
    book.samples(place).values.insert(round, answered as f64 / spent.as_secs_f64());
    // No name is asked twice: these servers remember what they were answered.
    let mut fresh = |_| {
        *asked += 1;
        format!("n{asked}.example.org")
    };
    let took = container.one_by_one(count, &mut fresh)?;
    note(book, (OUTSIDE, who, round), &took);
    if who == OURS {
        let took = Client::in_netns(&server.host, server::OUTSIDE)?.one_by_one(count, fresh)?;
        note(book, (OUTSIDE, DIRECT, round), &took);
    }
    Ok(())
}

/// Notes a turn's percentiles.
fn note(book: &mut Book, (case, who, round): (&str, &str, usize), took: &[f64]) {
    for (verb, percent) in [(P50, 50), (P99, 99)] {
        if let Some(value) = percentile(took.to_vec(), percent) {
            book.samples(Figure { case, verb, who, unit: "µs" }).values.insert(round, value);
        }
    }
}

/// What it should not cost.
pub(crate) fn targets(book: &Book) -> Vec<Verdict> {
    let own = |case, verb| book.sampled(case, verb, OURS)?.summary();
    let mut verdicts = vec![
        at_most(format!("{LOCAL}: p50, µs"), 100.0, own(LOCAL, P50)),
        at_most(format!("{LOCAL}: p99, µs"), 1000.0, own(LOCAL, P99)),
        Verdict {
            what: format!("{LOCAL}: {RATE}"),
            side: Side::AtLeast,
            target: 20_000.0,
            measured: own(LOCAL, RATE),
        },
        at_most(format!("{OUTSIDE}: added to p99, µs"), 1000.0, added(book)),
    ];
    for (case, verb) in [(LOCAL, P50), (LOCAL, P99), (OUTSIDE, P50)] {
        let what = format!("{case}: {verb}, spoke / the faster of {DNSMASQ} and {AARDVARK}");
        verdicts.push(at_most(what, 1.0, beside(book, case, verb)));
    }
    verdicts
}

/// How much longer a query takes that goes through Spoke, by round.
fn added(book: &Book) -> Option<Summary> {
    let ours = book.sampled(OUTSIDE, P99, OURS)?;
    let direct = book.sampled(OUTSIDE, P99, DIRECT)?;
    let pairs = ours.values.iter().filter_map(|(round, at)| Some(at - direct.values.get(round)?));
    Summary::of(pairs.collect())
}

/// Ours to the faster of the others, by round.
fn beside(book: &Book, case: &str, verb: &str) -> Option<Summary> {
    let of = |who| book.sampled(case, verb, who).map(|samples| &samples.values);
    let (ours, others) = (of(OURS)?, [of(DNSMASQ), of(AARDVARK)]);
    let fastest = |round| {
        others.iter().filter_map(|other| other.as_ref()?.get(round)).copied().reduce(f64::min)
    };
    Summary::of(ours.iter().filter_map(|(round, at)| Some(at / fastest(round)?)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_is_compared_with_the_faster_of_each_round() {
        let mut book = Book::new();
        for (who, values) in
            [(DNSMASQ, [10.0, 40.0]), (AARDVARK, [20.0, 20.0]), (OURS, [10.0, 10.0])]
        {
            let place = Figure { case: LOCAL, verb: P50, who, unit: "µs" };
            book.samples(place).values.extend(values.into_iter().enumerate());
        }
        let Some(ratio) = beside(&book, LOCAL, P50) else { panic!() };
        assert_eq!((ratio.low, ratio.high), (0.5, 1.0));
    }
}
