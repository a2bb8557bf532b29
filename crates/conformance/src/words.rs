//! The statements of the case language that check an answer or a value.

use std::net::IpAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use model::{IpNet, Mac};

use super::run::{Run, Step, Stop, fail};

/// Carries out `word`; `None` if it is none of these.
pub(super) fn judge(run: &mut Run<'_>, word: &str, args: &[String]) -> Option<Step> {
    let arg = |index: usize| args.get(index).map_or("", String::as_str);
    Some(match word {
        "ok" => match &run.last().fault {
            None => Ok(()),
            Some(fault) => fail(format!("{}: {fault}", run.last().method)),
        },
        "refused" => match (&run.last().fault, run.last().status) {
            (Some(_), Some(_)) => Ok(()),
            (Some(fault), None) => fail(fault.clone()),
            (None, _) => fail(format!("{} is answered with success", run.last().method)),
        },
        "status" => status(run, arg(0)),
        "is" => form(arg(0), arg(1)),
        "same" if arg(0) == arg(1) => Ok(()),
        "same" => fail(format!("{:?} is not {:?}", arg(0), arg(1))),
        "differs" if arg(0) != arg(1) => Ok(()),
        "differs" => fail(format!("{:?} twice", arg(0))),
        "within" => within(arg(0), arg(1), false),
        "inner" => within(arg(0), arg(1), true),
        "fail" => fail(""),
        "skip" => Err(Stop::Skip(args.join(" "))),
        "fresh" => {
            run.vars.insert(arg(0).to_owned(), identity());
            Ok(())
        }
        "fresh-port" => {
            run.vars.insert(arg(0).to_owned(), fresh_port().to_string());
            Ok(())
        }
        "expand" => {
            let value = run.substitute(arg(1));
            run.vars.insert(arg(0).to_owned(), value);
            Ok(())
        }
        "fresh-mac" => {
            let id = identity();
            let octets: Vec<&str> = (0..5).filter_map(|n| id.get(54 + n * 2..56 + n * 2)).collect();
            run.vars.insert(arg(0).to_owned(), format!("02:{}", octets.join(":")));
            Ok(())
        }
        _ => return None,
    })
}

fn status(run: &Run<'_>, wanted: &str) -> Step {
    let last = run.last();
    let Some(status) = last.status else {
        return fail(last.fault.clone().unwrap_or_default());
    };
    let text = status.to_string();
    let fits = |one: &str| match one.strip_suffix("xx") {
        Some(class) => text.len() == 3 && text.starts_with(class),
        None => one == text,
    };
    if wanted.split('|').any(fits) { Ok(()) } else { fail(format!("{text} instead of {wanted}")) }
}

fn form(kind: &str, value: &str) -> Step {
    let net = value.parse::<IpNet>();
    let is_v4 = |wanted: bool| net.as_ref().is_ok_and(|net| net.addr().is_ipv4() == wanted);
    let begins = |with: char| value.starts_with(with);
    let fits = match kind {
        "text" => !value.is_empty(),
        "empty" => value.is_empty(),
        "address" => value.parse::<IpAddr>().is_ok(),
        "cidr" => net.is_ok(),
        "cidr4" => is_v4(true),
        "cidr6" => is_v4(false),
        "mac" => value.parse::<Mac>().is_ok_and(|mac| mac.octets()[0] & 1 == 0),
        "bool" => value == "true" || value == "false",
        "list" => begins('['),
        "map" => begins('{'),
        _ => kind.split('|').any(|one| one == value),
    };
    if fits { Ok(()) } else { fail(format!("{value:?} is no {kind}")) }
}

/// Whether an address is of a subnet; `inner` ones are neither its network nor its broadcast.
fn within(address: &str, net: &str, inner: bool) -> Step {
    let bare = address.split('/').next().unwrap_or_default();
    let (Ok(ip), Ok(net)) = (bare.parse::<IpAddr>(), net.parse::<IpNet>()) else {
        return fail(format!("{address:?} or {net:?} is no address"));
    };
    let is_edge = ip == net.network() || (ip.is_ipv4() && ip == net.broadcast());
    if !net.contains(&ip) {
        fail(format!("{ip} is not of {net}"))
    } else if inner && is_edge && net.max_prefix_len() - net.prefix_len() > 1 {
        fail(format!("{ip} is the network or broadcast address of {net}"))
    } else {
        Ok(())
    }
}

/// A host port that no other case of this process has: the next one after a random first. All are
/// below the ports that Linux gives to clients (32,768 and more by default).
fn fresh_port() -> u16 {
    const FIRST: u16 = 20_000;
    const COUNT: u16 = 12_000;
    static BEGIN: OnceLock<u16> = OnceLock::new();
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let random = || u16::from_str_radix(identity().get(60..).unwrap_or_default(), 16);
    let begin = *BEGIN.get_or_init(|| random().unwrap_or_default() % COUNT);
    FIRST + (begin + NEXT.fetch_add(1, Ordering::Relaxed) % COUNT) % COUNT
}

/// 64 unique hexadecimal digits, as an engine's ids.
fn identity() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let process = std::process::id();
    // The first and the last digits differ: names are made of either end.
    let mixed = (now as u64 ^ u64::from(process) << 40)
        .wrapping_add(number)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    format!("{mixed:016x}{now:024x}{process:08x}{:016x}", mixed.rotate_left(29) ^ number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_forms() {
        for (kind, value) in [
            ("cidr4", "10.0.0.1/24"),
            ("cidr6", "fd00::1/64"),
            ("address", "fe80::1"),
            ("mac", "02:00:00:00:00:01"),
            ("local|global", "global"),
            ("empty", ""),
            ("list", "[]"),
        ] {
            assert_eq!(form(kind, value), Ok(()), "{kind}");
            assert!(form(kind, "?").is_err(), "{kind}");
        }
        assert!(form("mac", "01:00:5e:00:00:01").is_err());
    }

    #[test]
    fn knows_edges() {
        assert_eq!(within("10.0.0.1/8", "10.0.0.0/24", true), Ok(()));
        assert_eq!(within("10.0.0.0", "10.0.0.0/31", true), Ok(()));
        for edge in ["10.0.0.0", "10.0.0.255"] {
            assert_eq!(within(edge, "10.0.0.0/24", false), Ok(()));
            assert!(within(edge, "10.0.0.0/24", true).is_err());
        }
        assert!(within("10.0.1.1", "10.0.0.0/24", false).is_err());
        assert!(within("", "10.0.0.0/24", false).is_err());
    }

    #[test]
    fn identities_differ() {
        let ids: std::collections::BTreeSet<String> = (0..100).map(|_| identity()).collect();
        assert_eq!(ids.len(), 100);
        assert!(ids.iter().all(|id| id.len() == 64));
        let starts: std::collections::BTreeSet<&str> = ids.iter().map(|id| &id[..12]).collect();
        assert_eq!(starts.len(), 100);
    }
}
