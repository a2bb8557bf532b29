//! Keystone's times: `2026-11-22T03:36:13.000000Z` (ISO 8601, UTC).

/// Seconds since 1970.
pub(super) fn seconds(text: &str) -> Option<i64> {
    let (date, time) = text.trim().split_once(['T', ' '])?;
    let time = time.strip_suffix('Z').or_else(|| time.strip_suffix("+00:00")).unwrap_or(time);
    let [year, month, day] = three(date, '-')?;
    let whole = time.split('.').next().unwrap_or(time);
    let [hour, minute, second] = three(whole, ':')?;
    let is_real = (1970..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60;
    is_real.then(|| days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second)
}

fn three(text: &str, between: char) -> Option<[i64; 3]> {
    let mut parts = text.split(between).map(|part| {
        let is_plain = (1..=4).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
        is_plain.then(|| part.parse().ok()).flatten()
    });
    let found = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(found)
}

/// Days since 1970 in the Gregorian calendar; a year begins in March, so that the leap day is last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month = (month + 9) % 12;
    365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn counts_seconds() {
        assert_eq!(seconds("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(seconds("2000-02-29T12:00:01.000000Z"), Some(951_825_601));
        assert_eq!(seconds("2026-11-22T03:36:13+00:00"), Some(1_795_318_573));
        for bad in ["", "2026-11-22", "2026-13-01T00:00:00Z", "x-1-1T0:0:0", "2026-1-1-1T0:0:0"] {
            assert_eq!(seconds(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn never_fails(text in ".*") {
            let _ = seconds(&text);
        }
    }
}
