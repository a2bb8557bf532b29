//! The packet filter's chains of every program, and what becomes of a packet in them.

mod judge;
mod run;
mod xt;

use std::collections::BTreeMap;
use std::fmt;

use netlink::nft::{AnyChain, AnyRule, AnySet};
use netlink::xtables::Xtables;
use serde::Serialize;

pub use judge::{Point, Ruling, Translation, judge};

/// Which of the kernel's two packet filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Filter {
    /// nftables, and the iptables that is made of it.
    Nftables,
    /// The old iptables.
    Legacy,
}

type Key = (Filter, u8, String, String);

/// Everything that the packet filter of a namespace does.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    chains: Vec<(Filter, AnyChain)>,
    rules: BTreeMap<Key, Vec<AnyRule>>,
    sets: Vec<AnySet>,
    /// Why it is not all that there is, if it is not.
    pub unread: Option<String>,
}

impl Rules {
    /// Of what the kernel lists.
    pub fn new(chains: Vec<AnyChain>, rules: Vec<AnyRule>, sets: Vec<AnySet>) -> Self {
        let mut all = Self { sets, ..Self::default() };
        all.add(Filter::Nftables, chains, rules);
        all
    }

    /// Adds tables of the old iptables.
    pub fn add_legacy(&mut self, tables: Xtables) {
        self.add(Filter::Legacy, tables.chains, tables.rules);
    }

    fn add(&mut self, filter: Filter, chains: Vec<AnyChain>, rules: Vec<AnyRule>) {
        self.chains.extend(chains.into_iter().map(|chain| (filter, chain)));
        for rule in rules {
            let key = (filter, rule.family, rule.table.clone(), rule.chain.clone());
            self.rules.entry(key).or_default().push(rule);
        }
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.chains.is_empty() && self.unread.is_none()
    }

    /// Whether there is such a table of nftables.
    pub fn has_table(&self, family: u8, table: &str) -> bool {
        let is = |(filter, chain): &(Filter, AnyChain)| {
            *filter == Filter::Nftables && chain.family == family && chain.table == table
        };
        self.chains.iter().any(is)
    }

    /// The names of a table's chains.
    fn names<'a>(&'a self, place: &'a RuleLocation) -> impl Iterator<Item = &'a str> {
        let same = |(filter, chain): &&(Filter, AnyChain)| {
            (*filter, chain.family, &chain.table) == (place.filter, place.family, &place.table)
        };
        self.chains.iter().filter(same).map(|(_, chain)| chain.name.as_str())
    }
}

/// A rule, or the policy of a base chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RuleLocation {
    /// In which packet filter.
    pub filter: Filter,
    /// `NFPROTO_*`.
    pub family: u8,
    /// The table.
    pub table: String,
    /// The chain.
    pub chain: String,
    /// The chains on the way there, the base chain first.
    pub path: Vec<String>,
    /// The rule's handle (in the old iptables its number); the chain's policy if `None`.
    pub rule: Option<u64>,
    /// The rule's comment.
    pub comment: Option<String>,
    /// Whether it refuses with an answer.
    pub rejects: bool,
    /// What of the rule is not understood, if it is only that.
    pub unclear: Option<String>,
}

impl RuleLocation {
    /// What the family is called.
    pub fn family_name(&self) -> &'static str {
        match self.family {
            1 => "inet",
            2 => "ip",
            3 => "arp",
            5 => "netdev",
            7 => "bridge",
            10 => "ip6",
            _ => "?",
        }
    }

    /// The program that reads and changes it, of the old iptables.
    pub fn iptables(&self) -> &'static str {
        if self.family == 10 { "ip6tables-legacy" } else { "iptables-legacy" }
    }
}

impl fmt::Display for RuleLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (table, chain) = (&self.table, &self.chain);
        match (self.filter, self.rule) {
            (Filter::Legacy, Some(rule)) => {
                write!(f, "rule {rule} of {} -t {table} {chain}", self.iptables())
            }
            (Filter::Legacy, None) => {
                write!(f, "the policy of {} -t {table} {chain}", self.iptables())
            }
            (Filter::Nftables, Some(rule)) => {
                write!(f, "rule {rule} of chain {chain} in table {} {table}", self.family_name())
            }
            (Filter::Nftables, None) => {
                write!(f, "the policy of chain {chain} in table {} {table}", self.family_name())
            }
        }
    }
}

/// Who set a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum Author {
    Spoke,
    Docker,
    Ufw,
    Firewalld,
    Podman,
    Cni,
    Kubernetes,
    Libvirt,
    Fail2ban,
    Operator,
}

impl fmt::Display for Author {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Spoke => "Spoke",
            Self::Docker => "Docker",
            Self::Ufw => "ufw",
            Self::Firewalld => "firewalld",
            Self::Podman => "Podman",
            Self::Cni => "a CNI plugin",
            Self::Kubernetes => "Kubernetes",
            Self::Libvirt => "libvirt",
            Self::Fail2ban => "fail2ban",
            Self::Operator => "the operator",
        })
    }
}

/// How the names of programs' chains begin.
const CHAINS: [(&str, Author); 14] = [
    ("SPOKE", Author::Spoke),
    // The chain that Docker leaves to the operator.
    ("DOCKER-USER", Author::Operator),
    ("DOCKER", Author::Docker),
    ("ufw-user", Author::Ufw),
    ("ufw", Author::Ufw),
    ("NETAVARK", Author::Podman),
    ("CNI-", Author::Cni),
    ("KUBE-", Author::Kubernetes),
    ("cali-", Author::Kubernetes),
    ("FLANNEL", Author::Kubernetes),
    ("LIBVIRT", Author::Libvirt),
    ("f2b-", Author::Fail2ban),
    ("IN_", Author::Firewalld),
    ("FWD", Author::Firewalld),
];

/// The names of programs' tables.
const TABLES: [(&str, Author); 16] = [
    ("spoke", Author::Spoke),
    ("spoke_transit", Author::Spoke),
    ("spoke_names", Author::Spoke),
    ("spoke_fence", Author::Spoke),
    ("spoke_via", Author::Spoke),
    ("spoke_follow", Author::Spoke),
    ("spoke_shut", Author::Spoke),
    ("spoke_ports", Author::Spoke),
    ("spoke_quota", Author::Spoke),
    ("spoke_routes", Author::Spoke),
    ("spoke_overlay", Author::Spoke),
    ("firewalld", Author::Firewalld),
    ("netavark", Author::Podman),
    ("docker-bridges", Author::Docker),
    ("kube-proxy", Author::Kubernetes),
    ("f2b-table", Author::Fail2ban),
];

/// Who set it, by the names of tables and chains.
pub fn author(rules: &Rules, place: &RuleLocation) -> Author {
    if let Some((_, author)) = TABLES.iter().find(|(name, _)| *name == place.table) {
        return *author;
    }
    let named = |chain: &str| CHAINS.iter().find(|(start, _)| chain.starts_with(start));
    if let Some((_, author)) = named(&place.chain) {
        return *author;
    }
    // A policy of a chain that the kernel's tables have always had: of those who use the table.
    let others: Vec<Author> = match place.rule {
        None => rules.names(place).filter_map(named).map(|(_, author)| *author).collect(),
        Some(_) => Vec::new(),
    };
    let first = |author: Author| others.contains(&author).then_some(author);
    first(Author::Ufw).or_else(|| first(Author::Docker)).unwrap_or(Author::Operator)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
