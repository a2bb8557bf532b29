//! Numbers as people read them.

/// In steps of a thousand, with three digits: `999`, `1.23k`, `45.6M`.
pub(crate) fn short(number: u64) -> String {
    const STEPS: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];
    let (mut step, mut whole, mut rest) = (0, number, 0);
    while whole >= 1_000 {
        (whole, rest) = (whole / 1_000, whole % 1_000);
        step += 1;
    }
    let unit = STEPS.get(step).copied().unwrap_or_default();
    match whole {
        _ if step == 0 => format!("{whole}"),
        0..10 => format!("{whole}.{:02}{unit}", rest / 10),
        10..100 => format!("{whole}.{}{unit}", rest / 100),
        _ => format!("{whole}{unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1.00k"),
            (1_239, "1.23k"),
            (45_678_901, "45.6M"),
            (999_999_999, "999M"),
            (u64::MAX, "18.4E"),
        ] {
            assert_eq!(short(number), text);
        }
    }
}
