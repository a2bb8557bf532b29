//! Time by a clock that no program can set.

use std::time::Duration;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};

/// A moment of one boot of a host, by the time since then, sleep included (`CLOCK_BOOTTIME` of
/// clock_gettime(2)). It does not jump when the clock of the day is set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// The id of the boot (`/proc/sys/kernel/random/boot_id`).
    pub boot: String,
    /// Since the boot, in seconds.
    pub seconds: u64,
}

impl Moment {
    /// How much later than `other` it is. Nothing is later than a moment of another boot: how much time
    /// lay between is not known.
    pub fn after(&self, other: &Self) -> Duration {
        match self.boot == other.boot {
            true => Duration::from_secs(self.seconds.saturating_sub(other.seconds)),
            false => Duration::ZERO,
        }
    }

    /// So much later.
    pub fn plus(&self, time: Duration) -> Self {
        let seconds = self.seconds.saturating_add(time.as_secs());
        Self { boot: self.boot.clone(), seconds }
    }
}

/// Reads a moment. What earlier versions wrote, a time of the day, is none.
pub(crate) fn lenient<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Moment>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Read {
        Moment(Moment),
        Day(IgnoredAny),
    }
    Ok(match Option::<Read>::deserialize(from)? {
        Some(Read::Moment(moment)) => Some(moment),
        Some(Read::Day(_)) | None => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_moments_of_one_boot_have_a_distance() {
        let at = |boot: &str, seconds| Moment { boot: boot.to_owned(), seconds };
        let minute = Duration::from_secs(60);
        assert_eq!(at("a", 5).plus(minute).after(&at("a", 5)), minute);
        assert_eq!(at("a", 5).after(&at("a", 6)), Duration::ZERO);
        assert_eq!(at("a", 500).after(&at("b", 6)), Duration::ZERO);
    }
}
