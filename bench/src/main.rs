//! What Spoke costs: every figure is a ratio to another program's work in the same run, round robin.
//!
//! All of it happens in private mount and network namespaces that end with the process, or with one
//! that it started; the host stays as it was. Nothing here fails because something is slow: targets are printed, met or not.

mod addresses;
mod args;
mod chain;
mod contender;
mod controller;
mod counted;
mod counts;
mod crowd;
mod docker;
mod execute;
mod fence;
mod floor;
mod flow;
mod growth;
mod hosts;
mod json;
mod kurma;
mod live;
mod machine;
mod names;
mod pairs;
mod parts;
mod peers;
mod ports;
mod report;
mod samples;
mod stats;
mod targets;
mod together;
mod world;

use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

use model::Result;

use crate::args::{Args, Mode};
use crate::peers::Peers;
use crate::stats::Book;

fn main() -> ExitCode {
    let done = match Args::parse(std::env::args().skip(1)) {
        Ok(Mode::Start) => return ExitCode::SUCCESS,
        Ok(Mode::Move(moved)) => controller::carry_out(&moved),
        Ok(Mode::Peak(command)) => counts::print_peak(&command),
        Ok(Mode::Part(part, args)) => part.work(&args),
        Ok(Mode::Inside(part, args)) => part.work_inside(&args),
        Ok(Mode::Help) => say(args::USAGE),
        Ok(Mode::Bench(args)) => bench(&args),
        Err(error) => Err(error),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Measures a part and notes it in the book.
type Section = fn(&Peers, &Args, &mut Book) -> Result<()>;

fn bench(args: &Args) -> Result<()> {
    let began = Instant::now();
    let mut book = Book::new();
    book.machine.start();
    // Docker needs a host's cgroups, which our own world lacks.
    for part in docker::Part::ALL.into_iter().filter(|part| args.wants(part.name())) {
        note(&format!("{} ({:.0} s so far)", part.name(), began.elapsed().as_secs_f64()));
        if let Err(error) = part.measure(args, &mut book) {
            book.fault(part.name(), &error);
        }
    }
    world::enter()?;
    world::adopt_orphans()?;
    let peers = Peers::gather(args)?;
    book.size = peers.size;
    let sections: [Section; 12] = [
        counts::run,
        pairs::run,
        addresses::run,
        ports::run,
        crowd::run,
        together::run,
        controller::run,
        growth::run,
        fence::run,
        counted::run,
        names::run,
        live::run,
    ];
    for (name, section) in args::SECTIONS.into_iter().zip(sections) {
        if args.wants(name) {
            note(&format!("{name} ({:.0} s so far)", began.elapsed().as_secs_f64()));
            if let Err(error) = section(&peers, args, &mut book) {
                book.fault(name, &error);
            }
        }
    }
    book.machine.end();
    let verdicts = targets::judge(&book);
    say(&report::text(&book, &verdicts, &peers))?;
    if let Some(path) = &args.json {
        let text = json::document(&book, &verdicts, args).to_string();
        std::fs::write(path, text + "\n")
            .map_err(|error| model::Error::os(format!("writing {}", path.display()), error))?;
    }
    if let Some((path, picture)) = args.plot.as_ref().zip(hosts::plot::svg(&book)) {
        std::fs::write(path, picture)
            .map_err(|error| model::Error::os(format!("writing {}", path.display()), error))?;
    }
    note(&format!("done in {:.0} s", began.elapsed().as_secs_f64()));
    Ok(())
}

fn say(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}").map_err(|error| model::Error::os("printing", error))
}

/// Progress, which is no result.
fn note(text: &str) {
    let _ = writeln!(std::io::stderr(), "bench: {text}");
}
