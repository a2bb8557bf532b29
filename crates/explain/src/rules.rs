//! The packet filter's chains of every program, and who set them.

mod ruling;

use std::collections::BTreeMap;
use std::fmt;

use netlink::nft::{AnyChain, AnyRule, AnySet, Decision, Header, Step};
use netlink::xtables::Xtables;
use serde::Serialize;

pub use ruling::{Point, Ruling, Translation};

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
    pub(crate) chains: Vec<(Filter, AnyChain)>,
    pub(crate) rules: BTreeMap<Key, Vec<AnyRule>>,
    pub(crate) sets: Vec<AnySet>,
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

    /// Whether a rule has the form by which Docker keeps others from its containers' own addresses: a destination, any
    /// other device than one, no comment. Docker has chains of its own as well.
    fn is_docker_direct(&self, place: &RuleLocation) -> bool {
        if !place.is_direct_access() || place.comment.is_some() {
            return false;
        }
        let key = (place.filter, place.family, place.table.clone(), place.chain.clone());
        let all = self.rules.get(&key).into_iter().flatten();
        let rule = all.into_iter().find(|rule| Some(rule.handle) == place.rule);
        let is_there = self.chains.iter().any(|(_, chain)| chain.name == "DOCKER");
        is_there && rule.is_some_and(|rule| names_destination(rule) && spares_a_device(rule))
    }

    /// The chains of a table to which a rule of it leads: `iptables -F` leaves the others there, and they do nothing.
    fn used<'a>(&'a self, place: &'a RuleLocation) -> impl Iterator<Item = &'a str> {
        let same = |((filter, family, table, _), _): &(&Key, &Vec<AnyRule>)| {
            (*filter, *family, table) == (place.filter, place.family, &place.table)
        };
        let steps = self.rules.iter().filter(same).flat_map(|(_, rules)| rules);
        steps.flat_map(|rule| &rule.steps).filter_map(|step| match step {
            Step::Decision(Decision::Jump(to) | Decision::Goto(to)) => Some(to.as_str()),
            _ => None,
        })
    }
}

/// Whether a rule goes by the destination's address.
fn names_destination(rule: &AnyRule) -> bool {
    let offset = if rule.family == NFPROTO_IPV6 { 24 } else { 16 };
    let is_it = |step: &Step| matches!(step, Step::Payload { base: Header::Network, offset: at, .. } if *at == offset);
    rule.steps.iter().any(is_it)
}

/// Whether a rule is for all devices but one by which a packet comes in.
fn spares_a_device(rule: &AnyRule) -> bool {
    let mut steps = rule.steps.iter().zip(rule.steps.iter().skip(1));
    steps.any(|pair| match pair {
        (Step::Meta(IIFNAME, from), Step::Compare(at, UNEQUAL, _)) => from == at,
        _ => false,
    })
}

/// `NFT_META_IIFNAME`.
const IIFNAME: u32 = 6;
/// `NFT_CMP_NEQ`.
const UNEQUAL: u32 = 1;
/// `NFPROTO_IPV6`.
const NFPROTO_IPV6: u8 = 10;

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

    /// Whether it is of one of Spoke's own tables or chains.
    pub fn is_spokes(&self) -> bool {
        let is_own = |name: &str| name == "spoke" || name.starts_with("spoke_");
        is_own(&self.table) || self.chain.starts_with("SPOKE-")
    }

    /// Whether it is where Docker drops what comes by other devices than a container's bridge to its own address, and to a
    /// port that is published at a loopback address.
    pub fn is_direct_access(&self) -> bool {
        (self.table.as_str(), self.chain.as_str()) == ("raw", "PREROUTING") && self.rule.is_some()
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

/// How the names of other programs' chains begin.
const CHAINS: [(&str, Author); 13] = [
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

/// The names of other programs' tables.
const TABLES: [(&str, Author); 6] = [
    ("firewalld", Author::Firewalld),
    ("firewalld_policy_drop", Author::Firewalld),
    ("netavark", Author::Podman),
    ("docker-bridges", Author::Docker),
    ("kube-proxy", Author::Kubernetes),
    ("f2b-table", Author::Fail2ban),
];

/// Who set it, by the names of tables and chains.
pub fn author(rules: &Rules, place: &RuleLocation) -> Author {
    if place.is_spokes() {
        return Author::Spoke;
    }
    if let Some((_, author)) = TABLES.iter().find(|(name, _)| *name == place.table) {
        return *author;
    }
    let named = |chain: &str| CHAINS.iter().find(|(start, _)| chain.starts_with(start));
    if let Some((_, author)) = named(&place.chain) {
        return *author;
    }
    if rules.is_docker_direct(place) {
        return Author::Docker;
    }
    // A policy of a chain that the kernel's tables have always had: of those who use the table.
    let others: Vec<Author> = match place.rule {
        None => rules.used(place).filter_map(named).map(|(_, author)| *author).collect(),
        Some(_) => Vec::new(),
    };
    let first = |author: Author| others.contains(&author).then_some(author);
    first(Author::Ufw).or_else(|| first(Author::Docker)).unwrap_or(Author::Operator)
}
