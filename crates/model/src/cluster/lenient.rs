//! Values that a later version may have written.

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

/// What a value is read as that only later versions know.
pub(super) trait Unknown {
    fn unknown() -> Self;
}

/// Reads a value; one that this version does not know is [`Unknown::unknown`], so that the rest of its record is read.
pub(super) fn lenient<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Unknown,
{
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Read<T> {
        Known(T),
        Other(IgnoredAny),
    }
    Ok(match Read::deserialize(from)? {
        Read::Known(value) => value,
        Read::Other(_) => T::unknown(),
    })
}
