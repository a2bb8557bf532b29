//! Times as people and machines read them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use model::{Moment, Result, Timestamp, date};
use rustix::time::{ClockId, clock_gettime};

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// How long ago, in the largest whole unit: `12s`, `5m`, `3h`, `9d`.
pub fn ago(since: Timestamp, now: Timestamp) -> String {
    match now.0.saturating_sub(since.0) {
        seconds if seconds < MINUTE => format!("{seconds}s"),
        seconds if seconds < HOUR => format!("{}m", seconds / MINUTE),
        seconds if seconds < DAY => format!("{}h", seconds / HOUR),
        seconds => format!("{}d", seconds / DAY),
    }
}

/// In UTC, as RFC 3339 has it.
pub fn rfc3339(at: Timestamp) -> String {
    let (year, month, day) = date(at.0 / DAY);
    let second = at.0 % DAY;
    let (hour, minute, second) = (second / HOUR, second % HOUR / MINUTE, second % MINUTE);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The time, for showing only.
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    Timestamp(since.as_secs())
}

/// The time by the clock that no program can set.
///
/// # Errors
/// Where `/proc` is not mounted.
pub fn moment() -> Result<Moment> {
    Ok(Moment { boot: store::boot_id()?, seconds: since_boot().as_secs() })
}

/// The time since this host was started, sleep included.
pub fn since_boot() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::from_secs(u64::try_from(now.tv_sec).unwrap_or(0))
        + Duration::from_nanos(u64::try_from(now.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leap_days_and_ends_of_years() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_827_696, "2000-02-29T12:34:56Z"),
            (1_798_761_599, "2026-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(Timestamp(seconds)), text);
        }
    }

    #[test]
    fn the_largest_whole_unit() {
        let ago = |seconds: u64| ago(Timestamp(1_000), Timestamp(1_000 + seconds));
        assert_eq!(
            [ago(0), ago(59), ago(60), ago(7_200), ago(259_199)],
            ["0s", "59s", "1m", "2h", "2d"]
        );
    }
}
