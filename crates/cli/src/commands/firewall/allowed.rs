//! From where a firewall lets a port of this host be reached.

use std::net::IpAddr;

use linux::follow::{Arrival, Chains, Judgement, Outcome};
use model::IpNet;
use serde::Serialize;

/// From all addresses.
pub(super) const ANYWHERE: &str = "anywhere";
/// From the host itself only.
const THIS_HOST: &str = "this host";
/// Behind so many bounds sources are not shown apart.
const MOST: usize = 256;
/// Stands for them.
const MORE: &str = "more";

/// Some addresses, by one interface or by any.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct Source {
    /// A subnet, or the first and the last address.
    pub(super) from: String,
    /// The interface by which they come; null: any.
    pub(super) on: Option<String>,
}

/// Of a loopback address no firewall has to keep others away. Of another one that is given, only the family counts.
pub(super) fn sources(
    judgement: &Judgement,
    service: (u8, u16),
    address: Option<IpAddr>,
) -> Vec<Source> {
    if address.is_some_and(|address| address.is_loopback()) {
        return vec![Source { from: THIS_HOST.to_owned(), on: None }];
    }
    let mut all = Vec::new();
    let families = [(&judgement.v4, IpAddr::from([0; 4])), (&judgement.v6, IpAddr::from([0; 16]))];
    for (chains, any) in families {
        if address.is_none_or(|address| address.is_ipv4() == any.is_ipv4()) {
            all.extend(of_family(chains, any, service, address));
        }
    }
    let is_all = |text: &str| all.iter().any(|it| it.from == text && it.on.is_none());
    let (v4, v6) = (is_all("0.0.0.0/0"), is_all("::/0"));
    match address {
        None if v4 && v6 => vec![anywhere()],
        Some(address) if (address.is_ipv4() && v4) || (address.is_ipv6() && v6) => vec![anywhere()],
        _ => all,
    }
}

fn anywhere() -> Source {
    Source { from: ANYWHERE.to_owned(), on: None }
}

fn of_family(
    chains: &Chains,
    any: IpAddr,
    service: (u8, u16),
    destination: Option<IpAddr>,
) -> Vec<Source> {
    let by = |input: &str| {
        accepted(chains, any, &|source| Arrival {
            source,
            input: input.to_owned(),
            protocol: service.0,
            port: service.1,
            destination: destination.filter(|address| !address.is_unspecified()),
        })
    };
    // No interface has this name.
    let others = by(" ");
    let mut all: Vec<Source> =
        others.iter().map(|from| Source { from: from.clone(), on: None }).collect();
    for input in chains.inputs() {
        let more = by(&input).into_iter().filter(|from| !others.contains(from));
        all.extend(more.map(|from| Source { from, on: Some(input.clone()) }));
    }
    all
}

/// The accepted sources, joined where they follow each other.
fn accepted(chains: &Chains, any: IpAddr, arrival: &dyn Fn(IpAddr) -> Arrival) -> Vec<String> {
    let end = if any.is_ipv4() { u128::from(u32::MAX) } else { u128::MAX };
    let mut bounds = vec![0];
    for (first, last) in chains.sources() {
        if first.is_ipv4() == any.is_ipv4() {
            bounds.push(number(first));
            bounds.extend(number(last).checked_add(1).filter(|next| *next <= end));
        }
    }
    bounds.sort_unstable();
    bounds.dedup();
    let mut all: Vec<(u128, u128)> = Vec::new();
    for (place, first) in bounds.iter().enumerate().take(MOST) {
        let last = bounds.get(place + 1).map_or(end, |next| next - 1);
        if chains.of(&arrival(address(*first, any))) != Outcome::Accept {
            continue;
        }
        match all.last_mut() {
            Some(before) if before.1.checked_add(1) == Some(*first) => before.1 = last,
            Some(_) | None => all.push((*first, last)),
        }
    }
    let shown = all.iter().map(|(first, last)| range(address(*first, any), address(*last, any)));
    let rest = (bounds.len() > MOST).then(|| MORE.to_owned());
    shown.chain(rest).collect()
}

fn range(first: IpAddr, last: IpAddr) -> String {
    let most = if first.is_ipv4() { 32 } else { 128 };
    let is_it = |net: &IpNet| net.network() == first && net.broadcast() == last;
    let net = (0..=most).filter_map(|length| IpNet::new(first, length).ok()).find(is_it);
    match net {
        Some(net) if net.prefix_len() == most => first.to_string(),
        Some(net) => net.to_string(),
        None => format!("{first}-{last}"),
    }
}

/// So many are shown in a line.
const SHOWN: usize = 3;

/// In one line: the first of them, and how many more there are; JSON has all.
pub(super) fn text(sources: &[Source]) -> String {
    if sources.is_empty() {
        return "nowhere".to_owned();
    }
    let one = |source: &Source| match &source.on {
        Some(on) => format!("{} on {on}", source.from),
        None => source.from.clone(),
    };
    let shown = sources.iter().take(SHOWN).map(one).collect::<Vec<_>>().join(", ");
    match sources.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(u32::from(v4)),
        IpAddr::V6(v6) => v6.into(),
    }
}

fn address(number: u128, like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => IpAddr::V4(u32::try_from(number).unwrap_or(u32::MAX).into()),
        IpAddr::V6(_) => IpAddr::V6(number.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::fs;

    use linux::follow::{self, Followed};
    use netlink::Socket;

    use super::*;

    #[test]
    fn what_is_not_distinguished_is_not_reported() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("etc/ufw/ufw.conf", "ENABLED=yes\n");
        write("etc/default/ufw", "IPV6=no\nDEFAULT_INPUT_POLICY=DROP\n");
        let mut rules = String::new();
        for number in 0..200 {
            let _ = writeln!(rules, "-A ufw-user-input -s 10.0.{number}.2 -j ACCEPT");
        }
        for (file, rules) in [("before", ""), ("after", ""), ("user", rules.as_str())] {
            write(&format!("etc/ufw/{file}.rules"), &format!("*filter\n{rules}COMMIT\n"));
        }
        let mut socket = Socket::netfilter().unwrap();
        let judgement = follow::read(Followed::Ufw, root.path(), &mut socket).unwrap();
        let all = sources(&judgement, (6, 80), None);
        let shown: Vec<&str> = all.iter().map(|source| source.from.as_str()).collect();
        assert_eq!((shown.len(), shown[0], shown.last().copied()), (129, "10.0.0.2", Some(MORE)));
        assert_eq!(text(&all), "10.0.0.2, 10.0.1.2, 10.0.2.2 and 126 more");
        assert_eq!(text(&all[..2]), "10.0.0.2, 10.0.1.2");
        // Each of them is one address.
        assert!(shown[..128].iter().all(|from| from.parse::<IpAddr>().is_ok()), "{shown:?}");
    }
}
