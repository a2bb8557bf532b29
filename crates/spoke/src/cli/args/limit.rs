//! Limits of a running container's bandwidth.

use clap::Args;
use model::{NetworkName, Rate};

use super::Listing;

/// Bits that pass at once, at least: what a large packet of the kernel's has.
const BURST: u64 = 64 * 1024 * 8;

/// No rate is larger, in bits per second.
const MOST: u64 = 1_000_000_000_000;

#[derive(Debug, Args)]
#[command(
    after_help = "The limits hold instead of those that the runtime set. They belong to the \
    container's name: they hold again when a container of the same runtime and name is attached to \
    the same network, until `none`.

Examples:
  spoke limit web 10mbit
  spoke limit --egress 2mbit podman:web
  spoke limit web none"
)]
pub(in crate::cli) struct LimitArgs {
    /// The container; without one, or without a rate, limits are listed
    pub(in crate::cli) container: Option<String>,
    /// What it may send, and what it may receive, at most; `none`: as much as it can
    #[arg(value_name = "RATE|none", value_parser = limit, conflicts_with_all = ["ingress", "egress"])]
    pub(in crate::cli) both: Option<Limit>,
    /// What it may receive, at most; unlimited where only --egress is given
    #[arg(long, value_name = "RATE|none", value_parser = limit, requires = "container")]
    pub(in crate::cli) ingress: Option<Limit>,
    /// What it may send, at most; unlimited where only --ingress is given
    #[arg(long, value_name = "RATE|none", value_parser = limit, requires = "container")]
    pub(in crate::cli) egress: Option<Limit>,
    /// Its interface on this network; each of its interfaces unless given
    #[arg(long)]
    pub(in crate::cli) network: Option<NetworkName>,
    #[command(flatten)]
    pub(in crate::cli) listing: Listing,
}

/// A limit, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) struct Limit(pub(in crate::cli) Option<Rate>);

/// As tc(8) reads a rate: a number of bits per second, with a unit.
fn limit(text: &str) -> Result<Limit, String> {
    if text == "none" {
        return Ok(Limit(None));
    }
    let wrong =
        || "a rate is a number of bits per second, such as 500kbit, 10mbit or 1.5gbit".to_owned();
    let lower = text.to_ascii_lowercase();
    let at = lower.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(lower.len());
    let (number, unit) = lower.split_at(at);
    let factor: u64 = match unit {
        "" | "bit" => 1,
        "k" | "kbit" => 1_000,
        "m" | "mbit" => 1_000_000,
        "g" | "gbit" => 1_000_000_000,
        _ => return Err(wrong()),
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| text.parse::<u64>().map_err(|_| wrong());
    if part.len() > 9 {
        return Err(wrong());
    }
    let tenth = 10_u64.checked_pow(u32::try_from(part.len()).unwrap_or(0)).ok_or_else(wrong)?;
    let whole = digits(whole)?.checked_mul(factor).ok_or_else(wrong)?;
    let rate = whole.saturating_add(digits(part)?.saturating_mul(factor) / tenth);
    match rate {
        8..=MOST => {
            Ok(Limit(Some(Rate { rate, burst: (rate / 10).clamp(BURST, u64::from(u32::MAX)) })))
        }
        _ => Err(format!("{text}: a rate is between 8bit and 1000gbit")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_as_tc_reads_them() {
        for (text, bits) in [
            ("10mbit", 10_000_000),
            ("1.5Gbit", 1_500_000_000),
            ("500k", 500_000),
            ("800", 800),
            ("0.5mbit", 500_000),
        ] {
            assert_eq!(limit(text).unwrap().0.unwrap().rate, bits, "{text}");
        }
        assert_eq!(limit("none"), Ok(Limit(None)));
        for wrong in ["", "x", "0", "7", "1mbps", "-1mbit", "1.2.3m", "9999999gbit", "1 mbit", "."]
        {
            assert!(limit(wrong).is_err(), "{wrong}");
        }
    }
}
