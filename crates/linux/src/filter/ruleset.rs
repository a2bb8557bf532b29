//! The table `inet spoke`: its sets and chains, and how it comes into being.

use model::{Error, Kind, Result};
use netlink::nft::{
    self, Base, ChainKind, Comment, Family, Field, Hook, Lookup, ObjectKind, Policy, RulePosition,
    Set, Table, Transaction,
};
use netlink::{Errno, Failure, Outcome, Socket};

use super::rules::{BEFORE_FRAGMENTS, Steps, rules};

/// The table.
pub(crate) const TABLE: Table<'static> = Table { family: Family::Inet, name: "spoke" };
const COMMENT: &str = "made by Spoke";
/// An empty chain whose name is the version of the chains. A process that finds another version
/// replaces all chains; a new version has a new name here and in `ruleset.nft`. The sets stay, with
/// their elements: a set of another type needs another name.
const STAMP: &str = "ruleset_10";
/// Each attempt but the last one found that another process was replacing the chains.
const ATTEMPTS: usize = 16;

pub(super) const ADDRESSES: [&[Field]; 2] = [&[Field::Ipv4], &[Field::Ipv6]];
const BEHIND: [&[Field]; 2] = [&[Field::Interface, Field::Ipv4], &[Field::Interface, Field::Ipv6]];
pub(super) const TARGETS: [&[Field]; 2] =
    [&[Field::Ipv4, Field::Service], &[Field::Ipv6, Field::Service]];
const HOST_PORTS: [&[Field]; 2] = [
    &[Field::Ipv4, Field::Protocol, Field::Service],
    &[Field::Ipv6, Field::Protocol, Field::Service],
];
const PORTS: &[Field] = &[Field::Protocol, Field::Service];

pub(super) const fn set(name: &'static str, key: &'static [Field]) -> Set<'static> {
    Set { name, key, data: &[], objects: None, lookup: Lookup::Exact }
}

pub(super) const fn map(
    name: &'static str,
    key: &'static [Field],
    data: &'static [Field],
) -> Set<'static> {
    Set { name, key, data, objects: None, lookup: Lookup::Exact }
}

pub(super) const fn subnets(name: &'static str, key: &'static [Field]) -> Set<'static> {
    Set { name, key, data: &[], objects: None, lookup: Lookup::Interval }
}

const fn pair(names: [&'static str; 2], keys: [&'static [Field]; 2]) -> [Set<'static>; 2] {
    [set(names[0], keys[0]), set(names[1], keys[1])]
}

/// Of IPv4 and of IPv6: see `ruleset.nft`.
pub(super) const DNAT_HOST: [Set<'static>; 2] =
    [map("dnat4_host", HOST_PORTS[0], TARGETS[0]), map("dnat6_host", HOST_PORTS[1], TARGETS[1])];
pub(super) const DNAT_ANY: [Set<'static>; 2] =
    [map("dnat4_any", PORTS, TARGETS[0]), map("dnat6_any", PORTS, TARGETS[1])];
pub(crate) const HAIRPIN: [Set<'static>; 2] = pair(["hairpin4", "hairpin6"], BEHIND);
pub(super) const MASQUERADE_ALL: [Set<'static>; 2] = pair(["masqall4", "masqall6"], ADDRESSES);
pub(super) const HOME: [Set<'static>; 2] = pair(["home4", "home6"], BEHIND);
pub(super) const ROUTED: [Set<'static>; 2] = pair(["routed4", "routed6"], ADDRESSES);
pub(super) const MASQUERADE: [Set<'static>; 2] = pair(["masq4", "masq6"], ADDRESSES);
pub(super) const SOURCE: [Set<'static>; 2] =
    [map("snat4", ADDRESSES[0], ADDRESSES[0]), map("snat6", ADDRESSES[1], ADDRESSES[1])];
pub(super) const GUARDED: [Set<'static>; 2] = pair(["guarded4", "guarded6"], BEHIND);
pub(super) const ISOLATED: [Set<'static>; 2] = pair(["isolated4", "isolated6"], BEHIND);
pub(super) const APART: [Set<'static>; 2] = pair(["apart4", "apart6"], ADDRESSES);
pub(super) const LAN_ONLY: [Set<'static>; 2] = pair(["lan_only4", "lan_only6"], ADDRESSES);
pub(super) const LOCAL_ONLY: [Set<'static>; 2] = pair(["local_only4", "local_only6"], ADDRESSES);
pub(super) const SWITCHED: [Set<'static>; 2] = pair(["switched4", "switched6"], BEHIND);
pub(super) const SERVED: [Set<'static>; 2] = pair(["served4", "served6"], HOST_PORTS);
/// Leads to a counter for each interface.
pub(super) const AT_LOOPBACK: Set<'static> =
    Set { objects: Some(ObjectKind::Counter), ..set("at_loopback", BEHIND[0]) };
pub(super) const POLICED: Set<'static> = set("policed", &[Field::Interface]);
pub(super) const GUARDED_BRIDGES: Set<'static> = set("guarded_bridges", &[Field::Interface]);
pub(super) const BOUNDED_BRIDGES: Set<'static> = set("bounded_bridges", &[Field::Interface]);
pub(super) const INTERNAL: Set<'static> = set("internal", &[Field::Interface]);
pub(super) const CLOSED: Set<'static> = set("closed", &[Field::Interface]);
pub(super) const SERVING: Set<'static> = set("serving", &[Field::Interface]);
pub(super) const TRUSTED: Set<'static> = set("trusted", &[Field::Interface, Field::Interface]);
pub(super) const UNJUDGED: Set<'static> = set("unjudged", &[Field::Interface, Field::Family]);
pub(super) const INSIDE: Set<'static> = set("inside", &[Field::Interface, Field::Interface]);
pub(super) const LAN: [Set<'static>; 2] =
    [subnets("lan4", ADDRESSES[0]), subnets("lan6", ADDRESSES[1])];

/// The sets whose elements have owners, in the order of `ruleset.nft`.
pub(super) const OWNED: [&[Set<'static>]; 16] = [
    &DNAT_HOST,
    &DNAT_ANY,
    &HAIRPIN,
    &MASQUERADE_ALL,
    &HOME,
    &ROUTED,
    &MASQUERADE,
    &SOURCE,
    &GUARDED,
    &ISOLATED,
    &APART,
    &LAN_ONLY,
    &LOCAL_ONLY,
    &SWITCHED,
    &SERVED,
    &[AT_LOOPBACK],
];

/// The sets whose elements have no owner, in the order of `ruleset.nft`.
const SHARED: [Set<'static>; 11] = [
    POLICED,
    GUARDED_BRIDGES,
    BOUNDED_BRIDGES,
    INTERNAL,
    CLOSED,
    TRUSTED,
    SERVING,
    UNJUDGED,
    INSIDE,
    LAN[0],
    LAN[1],
];

const fn filter(hook: Hook, priority: i32) -> Base {
    Base { kind: ChainKind::Filter, hook, priority, policy: Policy::Accept }
}

const fn nat(hook: Hook, priority: i32) -> Base {
    Base { kind: ChainKind::Nat, hook, priority, policy: Policy::Accept }
}

/// In the order of `ruleset.nft`.
const CHAINS: [(&str, Option<Base>); 19] = [
    (STAMP, None),
    ("reserved", Some(filter(Hook::Prerouting, BEFORE_FRAGMENTS))),
    ("for_all", None),
    ("beginning", Some(filter(Hook::Prerouting, -150))),
    ("loopback", Some(filter(Hook::Prerouting, -300))),
    ("prerouting", Some(nat(Hook::Prerouting, -100))),
    ("output", Some(nat(Hook::Output, -100))),
    ("publish", None),
    ("postrouting", Some(nat(Hook::Postrouting, 100))),
    ("published", None),
    ("forward", Some(filter(Hook::Forward, -10))),
    ("known", None),
    ("unknown", None),
    ("guarded", None),
    ("passing", None),
    ("direct", None),
    ("served", None),
    ("internals", None),
    ("reach", None),
];

/// A table of Spoke's, without its elements.
pub(super) struct Ruleset {
    pub(super) table: Table<'static>,
    /// An empty chain whose name is the version.
    pub(super) stamp: &'static str,
    pub(super) sets: Vec<Set<'static>>,
    pub(super) chains: Vec<(&'static str, Option<Base>)>,
    pub(super) rules: Vec<(&'static str, Steps)>,
}

/// The table `inet spoke`.
fn inet() -> Ruleset {
    Ruleset {
        table: TABLE,
        stamp: STAMP,
        sets: OWNED.into_iter().flatten().chain(&SHARED).copied().collect(),
        chains: CHAINS.to_vec(),
        rules: rules(),
    }
}

impl Ruleset {
    /// As [`ensure`].
    pub(super) fn ensure(&self, socket: &mut Socket) -> Result<()> {
        self.renew(socket, |_| {})
    }

    /// The same, with elements that `fill` adds where it makes the table or replaces its chains: they are there as soon as
    /// those are.
    pub(super) fn renew(&self, socket: &mut Socket, fill: impl Fn(&mut Transaction)) -> Result<()> {
        for _ in 0..ATTEMPTS {
            if nft::chain_exists(socket, self.table, self.stamp)? || self.load(socket, &fill)? {
                return Ok(());
            }
        }
        Err(self.unsteady())
    }

    /// Makes the table anew with the elements that `fill` adds, whatever was in it, in one transaction. Nothing is
    /// read, and all is sent at once: who else changes the packet filter of this namespace cannot make it take longer
    /// by what is there, nor make it start again.
    pub(super) fn replace(
        &self,
        socket: &mut Socket,
        fill: impl FnOnce(&mut Transaction),
    ) -> Result<()> {
        let mut transaction = Transaction::new();
        self.write_anew(&mut transaction)?;
        fill(&mut transaction);
        transaction.apply(socket)
    }

    /// Makes the table anew in a transaction, without elements: it is the last one then.
    pub(super) fn write_anew(&self, transaction: &mut Transaction) -> Result<()> {
        let comment: Comment = COMMENT.parse()?;
        transaction.replace_table(self.table, Some(&comment));
        for set in &self.sets {
            transaction.add_set(self.table, set);
        }
        self.add_chains(transaction);
        Ok(())
    }

    fn add_chains(&self, transaction: &mut Transaction) {
        for (name, base) in &self.chains {
            transaction.add_chain(self.table, name, base.as_ref(), false);
        }
        for (chain, rule) in &self.rules {
            transaction.add_rule(self.table, chain, RulePosition::Tail, rule);
        }
    }

    /// As [`reload`].
    pub(super) fn reload(&self, socket: &mut Socket) -> Result<()> {
        for _ in 0..ATTEMPTS {
            if self.load(socket, |_| {})? {
                return Ok(());
            }
        }
        Err(self.unsteady())
    }

    fn unsteady(&self) -> Error {
        Error::try_again(format!("{} keeps being changed by others", self.table))
    }

    /// As [`is_loaded`].
    pub(super) fn is_loaded(&self, socket: &mut Socket) -> Result<bool> {
        let tables = nft::tables(socket, self.table.family)?;
        Ok(tables.iter().any(|(name, _)| name == self.table.name))
    }

    /// As [`mend`].
    pub(super) fn mend(&self, socket: &mut Socket) -> Result<bool> {
        if !self.is_loaded(socket)? {
            return Ok(false);
        }
        match self.verify(socket) {
            Err(error) if error.kind() == Kind::NotFound => self.reload(socket).map(|()| true),
            verified => verified.map(|()| false),
        }
    }

    /// As [`verify`].
    pub(super) fn verify(&self, socket: &mut Socket) -> Result<()> {
        let with_rules = |(name, base): &(&'static str, Option<Base>)| {
            let of_chain = self.rules.iter().filter(|(chain, _)| chain == name);
            let rules: Vec<&Steps> = of_chain.map(|(_, rule)| rule).collect();
            (*name, *base, rules)
        };
        let chains: Vec<_> = self.chains.iter().map(with_rules).collect();
        nft::verify(socket, self.table, &chains)
    }

    /// Replaces all chains; `false` if another process was faster.
    fn load(&self, socket: &mut Socket, fill: impl Fn(&mut Transaction)) -> Result<bool> {
        let mut transaction = self.emptied(socket)?;
        let stamp = transaction.next_index();
        transaction.add_chain(self.table, self.stamp, None, true);
        self.add_chains(&mut transaction);
        fill(&mut transaction);
        // The stamp is there by now, or a chain that was to go is gone.
        settled(transaction.commit(socket), |failure| {
            failure.errno == Errno::NOENT || (failure.errno, failure.index) == (Errno::EXIST, stamp)
        })
    }

    /// The table with all its sets, and without any chain.
    fn emptied(&self, socket: &mut Socket) -> Result<Transaction> {
        let comment: Comment = COMMENT.parse()?;
        let mut transaction = Transaction::new();
        transaction.add_table(self.table, Some(&comment));
        transaction.delete_rules(self.table);
        for chain in nft::chains(socket, self.table.family)? {
            if chain.table == self.table.name {
                transaction.delete_chain(self.table, &chain.name);
            }
        }
        for set in &self.sets {
            transaction.add_set(self.table, set);
        }
        Ok(transaction)
    }
}

/// Makes the table, or replaces the chains of another version, in one transaction; no effect where
/// it is current. With many concurrent callers it is made once, and none sees it half made.
///
/// # Errors
/// Where the kernel lacks something that the table needs, or the process may not change it;
/// [`Kind::TryAgain`] if others keep changing it.
pub fn ensure(socket: &mut Socket) -> Result<()> {
    // The usual case: nothing else is built for it.
    if nft::chain_exists(socket, TABLE, STAMP)? { Ok(()) } else { inet().ensure(socket) }
}

/// Makes the table or replaces its chains, whatever they are; the elements stay. For when
/// [`verify`] found them changed.
///
/// # Errors
/// As [`ensure`].
pub fn reload(socket: &mut Socket) -> Result<()> {
    inet().reload(socket)
}

/// Whether there is a table of this name, whatever is in it.
///
/// # Errors
/// As [`nft::tables`].
pub fn is_loaded(socket: &mut Socket) -> Result<bool> {
    inet().is_loaded(socket)
}

/// Makes the chains what they should be, where there is a table; the elements stay. One that is
/// missing is made with the first elements ([`ensure`]). Says whether any was different.
///
/// # Errors
/// As [`ensure`].
pub fn mend(socket: &mut Socket) -> Result<bool> {
    inet().mend(socket)
}

/// Whether the chains and their rules are there as this program makes them.
///
/// # Errors
/// [`Kind::NotFound`] naming the first chain that is missing or changed.
pub fn verify(socket: &mut Socket) -> Result<()> {
    inet().verify(socket)
}

/// Removes the table with everything in it, permanently. A missing table is done.
///
/// # Errors
/// Where the process may not change it.
pub fn unload(socket: &mut Socket) -> Result<()> {
    nft::remove_table(socket, TABLE)
}

/// Removes the table if it has no owned elements, and no process adds one meanwhile.
///
/// # Errors
/// As [`unload`].
pub fn unload_unowned(socket: &mut Socket) -> Result<()> {
    unload_while(socket, TABLE, |socket| Ok(super::list_owners(socket)?.is_empty()))
}

/// Removes a table if no container uses it, and no process changes that meanwhile. Where others keep changing the packet
/// filter it stays: it goes with what is removed next.
pub(super) fn unload_while(
    socket: &mut Socket,
    table: Table<'_>,
    is_unused: impl Fn(&mut Socket) -> Result<bool>,
) -> Result<()> {
    for _ in 0..ATTEMPTS {
        let generation = nft::generation(socket)?;
        if !is_unused(socket)? {
            return Ok(());
        }
        let mut transaction = Transaction::of_generation(generation);
        transaction.delete_table(table);
        let outcome = transaction.commit(socket)?.except(Errno::NOENT);
        // RESTART: the packet filter is another one, maybe by another table.
        if settled(Ok(outcome), |failure| failure.errno == Errno::RESTART)? {
            return Ok(());
        }
    }
    Ok(())
}

/// The surprise of a transaction of one generation ([`settled`]): the ruleset is another one by now, or what it changes is
/// gone.
pub(super) fn is_raced(failure: &Failure) -> bool {
    matches!(failure.errno, Errno::RESTART | Errno::NOENT)
}

/// Whether a transaction was done; `false` where the caller must read again and plan another one,
/// because the first thing that it met was a `surprise`, or because some of the kernel's answers
/// were lost.
pub(super) fn settled(
    outcome: Result<Outcome>,
    surprise: impl Fn(&Failure) -> bool,
) -> Result<bool> {
    let outcome = match outcome {
        Err(error) if error.kind() == Kind::TryAgain => return Ok(false),
        other => other?,
    };
    match outcome.failures().first() {
        None => Ok(true),
        Some(first) if surprise(first) => Ok(false),
        Some(_) => outcome.into_result().map(|()| true),
    }
}
