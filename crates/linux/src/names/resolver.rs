//! The contents of a resolv.conf (resolv.conf(5)): the settings of the sandbox, and where these are
//! absent the host's, without servers that are reached in the host only.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use model::{Attachment, ResolverOption, SearchDomain, name_domain};

const HOST: &str = "etc/resolv.conf";

/// The file with the servers of systemd-resolved, where the host's file leads to its stub.
const BEHIND: &str = "run/systemd/resolve/resolv.conf";
const STUB: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 53));

/// No such file is longer, in bytes.
const LONGEST: u64 = 1 << 16;

/// Resolver settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resolver {
    servers: Vec<IpAddr>,
    search: Vec<SearchDomain>,
    options: Vec<ResolverOption>,
}

impl Resolver {
    /// The settings of a sandbox with these attachments. Texts that are no server, domain or option
    /// are left out: third-party plugins send some.
    pub(crate) fn of(members: &[&Attachment], root: &Path) -> Self {
        let mut given = Self::default();
        let mut own: Vec<SearchDomain> = Vec::new();
        for member in members {
            let (dns, resolved) = (&member.dns, member.resolves_with());
            add(&mut given.servers, resolved.nameservers.iter().map(String::as_str));
            if !member.wiring.name_servers(&member.ipam).is_empty() {
                add(&mut own, [name_domain(member.network()).as_str()]);
            }
            let domains = dns.domain.iter().chain(&dns.search);
            add(&mut given.search, domains.map(String::as_str));
            add(&mut given.options, dns.options.iter().map(String::as_str));
        }
        let host = Self::of_host(root);
        // The domains of networks do not replace others.
        let elsewhere = or(given.search, host.search);
        let others = elsewhere.into_iter().filter(|domain| !own.contains(domain));
        let search = own.iter().cloned().chain(others).collect();
        Self {
            servers: or(given.servers, host.servers),
            search,
            options: or(given.options, host.options),
        }
    }

    /// Its servers, and its domains.
    pub(crate) fn into_parts(self) -> (Vec<IpAddr>, Vec<SearchDomain>) {
        (self.servers, self.search)
    }

    fn of_host(root: &Path) -> Self {
        let read = |path: &str| file::text(&root.join(path), LONGEST).ok();
        let mut host = read(HOST).map(|text| Self::parse(&text)).unwrap_or_default();
        if host.servers == [STUB]
            && let Some(behind) = read(BEHIND)
        {
            host = Self::parse(&behind);
        }
        host.servers.retain(|server| !server.is_loopback() && !server.is_unspecified());
        host
    }

    /// As the C library reads it. An address of one link of the host's is no server of others.
    fn parse(text: &str) -> Self {
        let mut read = Self::default();
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            match words.next() {
                Some("nameserver") => add(&mut read.servers, words.take(1)),
                Some("options") => add(&mut read.options, words),
                Some("search" | "domain") => {
                    read.search.clear();
                    add(&mut read.search, words);
                }
                Some(_) | None => {}
            }
        }
        read
    }

    /// Whether there is no server.
    pub(super) fn is_mute(&self) -> bool {
        self.servers.is_empty()
    }

    /// A search of the root alone is none, as in Docker.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let words = |all: Vec<String>| all.join(" ");
        let search: Vec<String> = self.search.iter().map(ToString::to_string).collect();
        if !search.is_empty() && search != ["."] {
            let _ = writeln!(text, "search {}", words(search));
        }
        for server in &self.servers {
            let _ = writeln!(text, "nameserver {server}");
        }
        if !self.options.is_empty() {
            let options = self.options.iter().map(ToString::to_string).collect();
            let _ = writeln!(text, "options {}", words(options));
        }
        text
    }
}

fn or<T>(given: Vec<T>, host: Vec<T>) -> Vec<T> {
    if given.is_empty() { host } else { given }
}

/// Adds those that are of the kind, once each.
fn add<'w, T: std::str::FromStr + PartialEq>(
    to: &mut Vec<T>,
    words: impl IntoIterator<Item = &'w str>,
) {
    for word in words.into_iter().filter_map(|word| word.parse().ok()) {
        if !to.contains(&word) {
            to.push(word);
        }
    }
}
