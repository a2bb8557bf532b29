//! How long it takes until others know, when a host dies, moves an address, or is joined again.

use std::time::{Duration, Instant};

use model::Result;

use super::OURS;
use super::bed::{Bed, TAKEOVER, until};
use crate::args::Args;
use crate::docker::line::say;
use crate::samples::Figure;

/// The work.
pub(super) const FAILURE: &str = "a host fails";
pub(super) const REPORTED: &str = "dead to reported";
pub(super) const TAKEN: &str = "lease over to address taken";
pub(super) const HEALED: &str = "joined again to equal entries";

/// Measures.
pub(super) fn run(bed: &mut Bed, args: &Args) -> Result<()> {
    let rounds = args.either(2, 6);
    for round in 0..rounds {
        heal(bed, round, Duration::from_millis(700 + 2_900 * round as u64))?;
    }
    for round in 0..rounds {
        die(bed, round)?;
    }
    Ok(())
}

/// Both sides attach while one is cut off.
fn heal(bed: &Bed, round: usize, lasts: Duration) -> Result<()> {
    let name = format!("cut{round}");
    let begin = Instant::now();
    bed.cut(&bed.a, true);
    for host in bed.hosts() {
        host.make_netns(&name)?;
        host.try_spoke(&["network", "connect", "front", &name])?;
    }
    std::thread::sleep(lasts.saturating_sub(begin.elapsed()));
    bed.cut(&bed.a, false);
    let begin = Instant::now();
    let own = bed.hosts().map(|host| host.address_in(&name));
    // Each has what the other has, and both have what the book says.
    until(|| {
        let hosts = bed.hosts();
        (0..2).all(|at| {
            let there = hosts[at].neighbours("front");
            there.iter().any(|(address, _)| *address == own[1 - at])
        })
    });
    let took = begin.elapsed();
    let is_equal = || -> Result<bool> {
        let [a, b] = bed.hosts();
        let (mut of_a, mut of_b) = (bed.book(a)?, bed.book(b)?);
        let (mut at_b, mut at_a) = (b.neighbours("front"), a.neighbours("front"));
        for list in [&mut of_a, &mut of_b, &mut at_a, &mut at_b] {
            list.sort();
        }
        Ok(of_a == at_b && of_b == at_a)
    };
    let more = if is_equal()? { Duration::ZERO } else { until(|| is_equal().unwrap_or(false)) };
    let place = Figure { case: FAILURE, verb: HEALED, who: OURS, unit: "s" };
    say(place, round, Ok((took + more).as_secs_f64()))
}

/// A host dies, and its address is wanted on the other one.
fn die(bed: &mut Bed, round: usize) -> Result<()> {
    let name = format!("heir{round}");
    let wanted = format!("10.64.250.{}", round + 7);
    bed.a.make_netns(&name)?;
    bed.b.make_netns(&name)?;
    bed.a.spoke(&format!("network connect --ip {wanted} front {name}"));
    let begin = Instant::now();
    bed.a.kill();
    bed.cut(&bed.a, true);
    let lost = "/opt/cni/bin/spoke host ls | grep '^a ' | grep -q ' lost '";
    bed.b.until(lost);
    let reported = begin.elapsed();
    let place = |verb| Figure { case: FAILURE, verb, who: OURS, unit: "s" };
    say(place(REPORTED), round, Ok(reported.as_secs_f64()))?;
    let words = ["network", "connect", "--ip", &wanted, "front", &name];
    until(|| bed.b.try_spoke(&words).is_ok());
    let after = begin.elapsed().saturating_sub(reported + Duration::from_secs(TAKEOVER));
    say(place(TAKEN), round, Ok(after.as_secs_f64()))?;
    bed.cut(&bed.a, false);
    bed.a.start();
    bed.b.until("/opt/cni/bin/spoke host ls | grep '^a ' | grep -q ' up '");
    Ok(())
}
