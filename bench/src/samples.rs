//! Measurements in any unit, by round.

use std::collections::BTreeMap;

use crate::stats::{Book, Summary, quotient};

/// Which line of the book something belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Figure<'a> {
    /// The work.
    pub(crate) case: &'a str,
    /// Which part of it, or which percentile.
    pub(crate) verb: &'a str,
    /// Who did it.
    pub(crate) who: &'a str,
    /// ms, µs, KiB, …
    pub(crate) unit: &'a str,
}

/// What one contender's work measured.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Samples {
    /// The work.
    pub(crate) case: String,
    /// Which part of it, or which percentile.
    pub(crate) verb: String,
    /// Who did it.
    pub(crate) who: String,
    /// ms, µs, KiB, …
    pub(crate) unit: String,
    /// By round.
    pub(crate) values: BTreeMap<usize, f64>,
    /// How often it failed.
    pub(crate) failures: usize,
}

impl Samples {
    /// Of all rounds.
    pub(crate) fn summary(&self) -> Option<Summary> {
        Summary::of(self.values.values().copied().collect())
    }

    fn is(&self, place: Figure<'_>) -> bool {
        (self.case.as_str(), self.verb.as_str(), self.who.as_str())
            == (place.case, place.verb, place.who)
    }
}

impl Book {
    /// The line for `place`, which is made where it is missing.
    pub(crate) fn samples(&mut self, place: Figure<'_>) -> &mut Samples {
        let at = self.samples.iter().position(|one| one.is(place)).unwrap_or_else(|| {
            self.samples.push(Samples {
                case: place.case.to_owned(),
                verb: place.verb.to_owned(),
                who: place.who.to_owned(),
                unit: place.unit.to_owned(),
                values: BTreeMap::new(),
                failures: 0,
            });
            self.samples.len() - 1
        });
        &mut self.samples[at]
    }

    /// What `who` measured.
    pub(crate) fn sampled(&self, case: &str, verb: &str, who: &str) -> Option<&Samples> {
        let place = Figure { case, verb, who, unit: "" };
        self.samples.iter().find(|one| one.is(place)).filter(|one| !one.values.is_empty())
    }

    /// To the first who did the same; `None` for the first.
    pub(crate) fn sample_ratio(&self, one: &Samples) -> Option<Summary> {
        let same = |base: &&Samples| (&base.case, &base.verb) == (&one.case, &one.verb);
        let base = self.samples.iter().find(same).filter(|base| base.who != one.who)?;
        quotient(&one.values, &base.values)
    }

    /// By case, then verb, then who, each in the order of its first appearance.
    pub(crate) fn ordered_samples(&self) -> Vec<&Samples> {
        let mut ordered: Vec<&Samples> = self.samples.iter().collect();
        let first = |is: &dyn Fn(&Samples) -> bool| self.samples.iter().position(is);
        ordered.sort_by_key(|one| {
            let case = first(&|other| other.case == one.case);
            let verb = first(&|other| other.case == one.case && other.verb == one.verb);
            (case, verb)
        });
        ordered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_the_base() {
        let mut book = Book::new();
        let place = |who| Figure { case: "a network", verb: "create", who, unit: "ms" };
        for (who, value) in [("theirs", 10.0), ("ours", 5.0)] {
            book.samples(place(who)).values.insert(0, value);
        }
        let [theirs, ours] = &book.samples[..] else { panic!() };
        assert_eq!(book.sample_ratio(theirs), None);
        assert_eq!(book.sample_ratio(ours).map(|ratio| ratio.median), Some(0.5));
    }
}
