//! What plugins out of images are to reach.

use super::{OURS, RUNC, call, image, pods};
use crate::stats::{Book, Summary, quotient};
use crate::targets::{Verdict, at_most};

/// All of them.
pub(crate) fn targets(book: &Book) -> Vec<Verdict> {
    let alone = |case, verb| book.sampled(case, verb, OURS)?.summary();
    let ratio = |case, verb| {
        let of = |who| Some(&book.sampled(case, verb, who)?.values);
        quotient(of(OURS)?, of(RUNC)?)
    };
    let most = |case, verb| {
        let values = book.sampled(case, verb, OURS)?.values.values().copied();
        let worst = values.reduce(f64::max)?;
        Some(Summary { median: worst, low: worst, high: worst })
    };
    let ours = |what: &str, verb: &str| format!("{what}: {verb}");
    vec![
        at_most(
            format!("{}, ms", ours(call::CALL, call::NOTHING)),
            4.0,
            alone(call::CALL, call::NOTHING),
        ),
        at_most(
            format!("{}, ours / runc exec", call::CALL),
            1.0 / 5.0,
            ratio(call::CALL, call::NOTHING),
        ),
        at_most(
            format!("{}, ours / runc and the reference: add", pods::POD),
            1.0 / 4.0,
            ratio(pods::POD, pods::ADD),
        ),
        at_most(ours(pods::CROWD, pods::FAILED), 0.0, most(pods::CROWD, pods::FAILED)),
        at_most(ours(pods::CROWD, pods::LEFT), 0.0, most(pods::CROWD, pods::LEFT)),
        at_most(
            format!("{}, ms", ours(image::IMAGE, image::READY)),
            500.0,
            alone(image::IMAGE, image::READY),
        ),
        at_most(
            format!("{}, ms", ours(image::IMAGE, image::START)),
            50.0,
            alone(image::IMAGE, image::START),
        ),
    ]
}
