//! How much a container may send and receive in a period.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::text::{question, shown};
use crate::{Error, Result, Timestamp, date};

/// Seconds of a day.
const DAY: u64 = 24 * 60 * 60;
/// How far ahead a period may begin that counts as the present one: a clock that was once wrong cuts no container off
/// for longer. It is two months, so that one that is set back by a few days begins no period.
const AHEAD: u64 = 62 * DAY;

/// How many bytes a container's interface may carry in a period, in both directions together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quota {
    /// Bytes from the network header on, never 0.
    pub bytes: u64,
    /// After which they are counted anew.
    pub period: Period,
}

/// A stretch of the calendar, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Period {
    /// From midnight on.
    Day,
    /// From Monday on.
    Week,
    /// From the first on.
    Month,
}

/// What was used of a quota in a period, as of the last look at the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Of which kind of period.
    pub period: Period,
    /// When the period began.
    pub since: Timestamp,
    /// Bytes in both directions.
    pub used: u64,
    /// When this was written.
    pub noted: Timestamp,
    /// Whether it was reported that the quota is used up.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reported: bool,
}

impl Period {
    /// When the period began that is at `now`.
    pub fn start(self, now: Timestamp) -> Timestamp {
        let day = now.0 / DAY;
        let before = match self {
            Period::Day => 0,
            // 1970-01-01 was a Thursday.
            Period::Week => (day + 3) % 7,
            Period::Month => date(day).2 - 1,
        };
        Timestamp(day.saturating_sub(before) * DAY)
    }

    const fn name(self) -> &'static str {
        match self {
            Period::Day => "day",
            Period::Week => "week",
            Period::Month => "month",
        }
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Period {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let all = [Self::Day, Self::Week, Self::Month];
        all.into_iter().find(|it| it.name() == text).ok_or_else(|| {
            let (shown, asked) = (shown(text), question(text, all.map(Self::name)));
            Error::invalid(format!("{shown} is no period: write day, week or month{asked}"))
        })
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes/{}", self.bytes, self.period)
    }
}

impl Usage {
    /// Nothing is used yet of the period that is at `now`.
    pub fn fresh(period: Period, now: Timestamp) -> Self {
        Self { period, since: period.start(now), used: 0, noted: now, reported: false }
    }

    /// Whether it is of the period of this kind that is at `now`. A clock that is set back by less than two months
    /// begins none.
    pub fn is_of(&self, period: Period, now: Timestamp) -> bool {
        let start = period.start(now).0;
        self.period == period && self.since.0 >= start && self.since.0 - start <= AHEAD
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2024-02-29T12:00:00Z, a Thursday.
    const LEAP: u64 = 1_709_208_000;

    #[test]
    fn periods_begin_at_midnight_on_monday_and_on_the_first() {
        for (period, now, start) in [
            (Period::Day, LEAP, 1_709_164_800),
            (Period::Week, LEAP, 1_708_905_600),
            (Period::Month, LEAP, 1_706_745_600),
            (Period::Month, 1_709_251_199, 1_706_745_600),
            (Period::Month, 1_709_251_200, 1_709_251_200),
            (Period::Week, 1_709_510_399, 1_708_905_600),
            (Period::Week, 1_709_510_400, 1_709_510_400),
            (Period::Month, 0, 0),
            (Period::Month, 1_767_225_599, 1_764_547_200),
        ] {
            assert_eq!(period.start(Timestamp(now)), Timestamp(start), "{period} at {now}");
        }
        // The first week began before there was a time.
        assert_eq!(Period::Week.start(Timestamp(DAY)), Timestamp(0));
    }

    #[test]
    fn a_clock_that_is_set_back_begins_no_period() {
        let usage = Usage { used: 7, ..Usage::fresh(Period::Day, Timestamp(LEAP)) };
        assert!(usage.is_of(Period::Day, Timestamp(LEAP - 2 * DAY)));
        assert!(usage.is_of(Period::Day, Timestamp(LEAP)));
        assert!(!usage.is_of(Period::Day, Timestamp(LEAP + DAY)));
        assert!(!usage.is_of(Period::Week, Timestamp(LEAP)));
        assert!(usage.is_of(Period::Day, Timestamp(LEAP - AHEAD)));
        assert!(!usage.is_of(Period::Day, Timestamp(LEAP - AHEAD - DAY)), "it was once ahead");
    }
}
