//! Limits of a running container's bandwidth.

use clap::Args;
use model::{AmendmentPart, Bandwidth, NetworkName, Period, Quota, Rate};

use model::text::question;

use crate::output::Listing;

/// Bits that pass at once, at least: what a large packet of the kernel's has.
const BURST: u64 = 64 * 1024 * 8;

/// No rate is larger, in bits per second.
const MOST: u64 = 1_000_000_000_000;

/// The bounds of a quota, in bytes.
const LEAST_QUOTA: u64 = 1_000;
const MOST_QUOTA: u64 = 1_000_000_000_000_000_000;

#[derive(Debug, Args)]
#[command(
    after_help = "The limits hold instead of those that the runtime set. They belong to the \
    container's name: they hold again when a container of the same runtime and name is attached to \
    the same network, until `none`. A quota needs a network of bridge or ptp; the kernel enforces it, \
    and `spoke serve` keeps its count over restarts and begins its periods.

Examples:
  spoke limit web 10mbit
  spoke limit --egress 2mbit podman:web
  spoke limit web --quota 50GB/month
  spoke limit web --quota none
  spoke limit web none                everything"
)]
pub(crate) struct LimitArgs {
    /// The container; without one, or without a rate, limits are listed
    pub(crate) container: Option<String>,
    /// Maximum rate in each direction; `none`: unlimited
    #[arg(value_name = "RATE|none", value_parser = limit, conflicts_with_all = ["ingress", "egress"])]
    pub(crate) both: Option<Limit>,
    /// Maximum rate at which it receives; unlimited where only --egress is given
    #[arg(long, value_name = "RATE|none", value_parser = limit, requires = "container")]
    pub(crate) ingress: Option<Limit>,
    /// Maximum rate at which it sends; unlimited where only --ingress is given
    #[arg(long, value_name = "RATE|none", value_parser = limit, requires = "container")]
    pub(crate) egress: Option<Limit>,
    /// How much it may send and receive together in a period: SIZE/day, /week or /month (UTC), such as
    /// 50GB/month or 10GiB/day; its rates stay. `none`: unlimited
    #[arg(long, value_name = "SIZE/PERIOD|none", value_parser = quota, requires = "container")]
    pub(crate) quota: Option<Allowance>,
    /// Its interface on this network; each of its interfaces unless given
    #[arg(long)]
    pub(crate) network: Option<NetworkName>,
    #[command(flatten)]
    pub(crate) listing: Listing,
}

/// A limit, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit(pub(crate) Option<Rate>);

/// A quota, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allowance(pub(crate) Option<Quota>);

impl LimitArgs {
    /// Whether any limit is to be set or lifted.
    pub(crate) fn is_asked(&self) -> bool {
        self.is_rate_asked() || self.quota.is_some()
    }

    fn is_rate_asked(&self) -> bool {
        self.both.or(self.ingress).or(self.egress).is_some()
    }

    /// What is to be lifted, where nothing is to be set.
    pub(crate) fn lifted(&self) -> AmendmentPart {
        let keeps_quota = self.quota.is_none() && self.both.is_none();
        match (self.is_rate_asked(), keeps_quota) {
            (true, true) => AmendmentPart::Rates,
            (true, false) => AmendmentPart::Limits,
            (false, _) => AmendmentPart::Quota,
        }
    }

    /// What becomes of the limits that there are. Rates stay where only a quota is asked for, and the quota where only
    /// rates are; `none` alone lifts both.
    pub(crate) fn applied_to(&self, now: Option<&Bandwidth>) -> Bandwidth {
        let now = now.cloned().unwrap_or_default();
        let given = |one: Option<Limit>| self.both.or(one).and_then(|limit| limit.0);
        let (ingress, egress) = match self.is_rate_asked() {
            true => (given(self.ingress), given(self.egress)),
            false => (now.ingress, now.egress),
        };
        let quota = match self.quota {
            Some(asked) => asked.0,
            None if self.both == Some(Limit(None)) => None,
            None => now.quota,
        };
        Bandwidth { ingress, egress, quota, device: None }
    }
}

/// A size with a period.
fn quota(text: &str) -> Result<Allowance, String> {
    if text == "none" {
        return Ok(Allowance(None));
    }
    let wrong = || {
        let meant = question(text, ["none"]);
        format!("{text}: a quota is a size and a period, such as 50GB/month or 10GiB/day{meant}")
    };
    let (size, period) = text.split_once('/').ok_or_else(wrong)?;
    let period: Period = period.parse().map_err(|error: model::Error| error.to_string())?;
    let bytes = bytes(size).ok_or_else(wrong)?;
    match bytes {
        LEAST_QUOTA..=MOST_QUOTA => Ok(Allowance(Some(Quota { bytes, period }))),
        _ => Err(format!("{text}: a quota is between 1kB and 1000PB")),
    }
}

/// A number of bytes, with a unit: of thousands (kB), or of 1,024 (KiB).
fn bytes(text: &str) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    let at = lower.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(lower.len());
    let (number, unit) = lower.split_at(at);
    let (step, binary) = match unit.strip_suffix("ib") {
        Some(step) => (step, true),
        None => (unit.strip_suffix('b').unwrap_or(unit), false),
    };
    let power = ["", "k", "m", "g", "t", "p"].iter().position(|it| *it == step)?;
    if binary && power == 0 {
        return None;
    }
    let base: u128 = if binary { 1_024 } else { 1_000 };
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    if part.len() > 9 || whole.len() > 18 || part.is_empty() {
        return None;
    }
    let factor = base.checked_pow(u32::try_from(power).ok()?)?;
    let tenth = 10_u128.checked_pow(u32::try_from(part.len()).ok()?)?;
    let digits = |text: &str| text.parse::<u128>().ok();
    let part = digits(part)?.checked_mul(factor)? / tenth;
    u64::try_from(digits(whole)?.checked_mul(factor)?.checked_add(part)?).ok()
}

/// As tc(8) reads a rate: a number of bits per second, with a unit.
fn limit(text: &str) -> Result<Limit, String> {
    if text == "none" {
        return Ok(Limit(None));
    }
    let wrong = || {
        let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let known = ["kbit", "mbit", "gbit", "bit"];
        let meant = if unit == text { question(text, ["none"]) } else { question(unit, known) };
        format!("a rate is a number of bits per second, such as 500kbit, 10mbit or 1.5gbit{meant}")
    };
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
    fn quotas_are_sizes_of_si_and_iec() {
        for (text, bytes, period) in [
            ("50GB/month", 50_000_000_000, Period::Month),
            ("1.5GiB/day", 1_610_612_736, Period::Day),
            ("1000/week", 1_000, Period::Week),
            ("1kb/day", 1_000, Period::Day),
            ("2K/day", 2_000, Period::Day),
            ("1000PB/day", MOST_QUOTA, Period::Day),
        ] {
            assert_eq!(quota(text), Ok(Allowance(Some(Quota { bytes, period }))), "{text}");
        }
        assert_eq!(quota("none"), Ok(Allowance(None)));
        for wrong in [
            "",
            "50GB",
            "50GB/",
            "50GB/year",
            "/day",
            "999/day",
            "0/day",
            "-1GB/day",
            "1.GB/day",
            "1iB/day",
            "1 GB/day",
            "1001PB/day",
            "99999999999999999999GB/day",
            "1XB/day",
            "1.2.3GB/day",
            ".GB/day",
        ] {
            assert!(quota(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_not_asked_for_stays() {
        use clap::Parser;
        #[derive(Parser)]
        struct Line {
            #[command(flatten)]
            limit: LimitArgs,
        }
        let parse = |words: &str| {
            let words = std::iter::once("limit").chain(words.split(' '));
            Line::try_parse_from(words).unwrap().limit
        };
        let rate = limit("1mbit").unwrap().0;
        let has = quota("1GB/day").unwrap().0;
        let both = Bandwidth { ingress: rate, egress: rate, quota: has, device: None };
        for (words, rates, kept) in [
            ("web none", None, None),
            ("web --quota none", rate, None),
            ("web --ingress none", None, has),
            ("web 1mbit", rate, has),
            ("web none --quota 1GB/day", None, has),
        ] {
            let now = parse(words).applied_to(Some(&both));
            assert_eq!((now.ingress, now.egress, now.quota), (rates, rates, kept), "{words}");
        }
        for (words, lifted) in [
            ("web none", AmendmentPart::Limits),
            ("web none --quota none", AmendmentPart::Limits),
            ("web --egress none --quota none", AmendmentPart::Limits),
            ("web --ingress none", AmendmentPart::Rates),
            ("web --ingress none --egress none", AmendmentPart::Rates),
            ("web --quota none", AmendmentPart::Quota),
        ] {
            assert_eq!(parse(words).lifted(), lifted, "{words}");
        }
    }

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
        for (text, asked) in [
            ("10mbti", "; did you mean mbit?"),
            ("1.5kbits", "; did you mean kbit?"),
            ("non", "; did you mean none?"),
        ] {
            assert!(limit(text).unwrap_err().ends_with(asked), "{text}");
        }
        assert!(!limit("10furlongs").unwrap_err().contains("did you mean"));
        for (text, asked) in
            [("50GB/mnth", "; did you mean month?"), ("none ", "; did you mean none?")]
        {
            assert!(quota(text).unwrap_err().ends_with(asked), "{text}");
        }
    }
}
