//! The tables of the old iptables (`linux/netfilter_ipv4/ip_tables.h` and its sibling), read without
//! its program, and described as chains and rules of nftables.

mod entry;

use std::fs::read_to_string;

use model::{Error, Family, IfName, Result};
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, socket_with};

use crate::nft::{AnyChain, AnyHook, AnyRule, Step};
use crate::outcome::refused;
use crate::{Errno, sys};

/// `IPT_SO_GET_INFO` and `IPT_SO_GET_ENTRIES`, the same of IPv6.
const GET_INFO: i32 = 64;
const GET_ENTRIES: i32 = 65;
/// `struct ipt_getinfo`, and where entries begin in `struct ipt_get_entries`.
const INFO: usize = 84;
const ENTRIES: usize = 40;
/// Longer tables are refused, in bytes.
const LARGEST: usize = 16 << 20;
const ATTEMPTS: usize = 4;

/// The tables, with the kernel's priority of each of their hooks.
const TABLES: [(&str, [i32; 5]); 5] = [
    ("raw", [-300; 5]),
    ("mangle", [-150; 5]),
    ("nat", [-100, 100, 0, -100, 100]),
    ("filter", [0; 5]),
    ("security", [50; 5]),
];
/// The names of the hooks (`NF_INET_*`).
const HOOKS: [&str; 5] = ["PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"];

/// One table of the calling thread's namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Xtables {
    /// Its chains.
    pub chains: Vec<AnyChain>,
    /// Their rules; the handle of each is its number in its chain, from 1 on.
    pub rules: Vec<AnyRule>,
}

/// The chains and rules of every table that the old iptables made in the calling thread's namespace.
/// No table is made by that.
///
/// # Errors
/// [`model::Kind::Kernel`] if a table cannot be read, or is not as its header says;
/// [`model::Kind::Denied`].
pub fn read(family: Family) -> Result<Xtables> {
    read_those(family, |_| true)
}

/// Whether the table `filter` of the old iptables may drop what is forwarded: by its policy or by a rule. No table is
/// made by that.
///
/// # Errors
/// As [`read`].
pub fn judges_forwarded(family: Family) -> Result<bool> {
    let filter = read_those(family, |name| name == "filter")?;
    let drops = |chain: &AnyChain| {
        chain.name == "FORWARD" && chain.hook.as_ref().is_some_and(|hook| hook.drops)
    };
    let has_rule = filter.rules.iter().any(|rule| rule.chain == "FORWARD");
    Ok(has_rule || filter.chains.iter().any(drops))
}

/// Whether a rule in one of these chains of the table `filter` is about this interface. No table is made by that.
///
/// # Errors
/// As [`read`].
pub fn names_interface(family: Family, chains: &[&str], interface: &IfName) -> Result<bool> {
    let filter = read_those(family, |name| name == "filter")?;
    // Behind the name are zeros.
    let name = interface.as_str().as_bytes();
    let is_it = |step: &Step| match step {
        Step::Compare(_, _, value) => value
            .strip_prefix(name)
            .is_some_and(|rest| !rest.is_empty() && rest.iter().all(|byte| *byte == 0)),
        _ => false,
    };
    let mut rules = filter.rules.iter().filter(|rule| chains.contains(&rule.chain.as_str()));
    Ok(rules.any(|rule| rule.steps.iter().any(is_it)))
}

fn read_those(family: Family, is_wanted: impl Fn(&str) -> bool) -> Result<Xtables> {
    let list = match family {
        Family::V4 => "ip_tables_names",
        Family::V6 => "ip6_tables_names",
    };
    let names = read_to_string(format!("/proc/thread-self/net/{list}")).unwrap_or_default();
    let mut all = Xtables::default();
    for (name, priorities) in TABLES {
        if is_wanted(name) && names.lines().any(|there| there == name) {
            let (info, entries) = table(family, name)?;
            let read = entry::read(family, name, &Info::of(&info, priorities), &entries);
            let damaged = || Error::new(model::Kind::Kernel, format!("table {name} of iptables"));
            let (chains, rules) = read.ok_or_else(damaged)?;
            all.chains.extend(chains);
            all.rules.extend(rules);
        }
    }
    Ok(all)
}

/// What a table's header says.
struct Info {
    /// Of each hook: its first entry, its policy's entry, its priority.
    hooks: Vec<(usize, usize, usize, i32)>,
}

impl Info {
    fn of(bytes: &[u8; INFO], priorities: [i32; 5]) -> Self {
        let word = |at: usize| entry::word(bytes, at).unwrap_or(0);
        let valid = word(32);
        let hooks = (0..5).zip(priorities).filter(|(hook, _)| valid & 1 << hook != 0);
        let hook = |(hook, priority): (usize, i32)| {
            let (first, policy) = (word(36 + 4 * hook), word(56 + 4 * hook));
            (hook, first as usize, policy as usize, priority)
        };
        Self { hooks: hooks.map(hook).collect() }
    }

    fn hook(&self, (number, priority): (usize, i32), table: &str, drops: bool) -> AnyHook {
        let kind = if table == "nat" { "nat" } else { "filter" };
        AnyHook {
            kind: kind.to_owned(),
            number: number as u32,
            priority,
            drops,
            devices: Vec::new(),
        }
    }
}

fn table(family: Family, name: &str) -> Result<([u8; INFO], Vec<u8>)> {
    let about = || format!("reading table {name} of iptables");
    let (domain, level) = match family {
        Family::V4 => (AddressFamily::INET, libc::SOL_IP),
        Family::V6 => (AddressFamily::INET6, libc::SOL_IPV6),
    };
    let socket = socket_with(domain, SocketType::RAW, SocketFlags::CLOEXEC, Some(ipproto::RAW))
        .map_err(|errno| refused(about(), errno))?;
    for _ in 0..ATTEMPTS {
        let mut info = [0; INFO];
        put_name(&mut info, name);
        sys::get_option(&socket, (level, GET_INFO), &mut info)
            .map_err(|errno| refused(about(), errno))?;
        let size = entry::word(&info, 80).unwrap_or(0) as usize;
        if size > LARGEST {
            return Err(refused(about(), Errno::TOOBIG));
        }
        let mut entries = vec![0; ENTRIES + size];
        put_name(&mut entries, name);
        if let Some(place) = entries.get_mut(32..36) {
            place.copy_from_slice(&(size as u32).to_ne_bytes());
        }
        match sys::get_option(&socket, (level, GET_ENTRIES), &mut entries) {
            Ok(()) => return Ok((info, entries.split_off(ENTRIES))),
            // It has another size by now.
            Err(Errno::AGAIN) => {}
            Err(errno) => return Err(refused(about(), errno)),
        }
    }
    Err(refused(about(), Errno::AGAIN))
}

fn put_name(bytes: &mut [u8], name: &str) {
    for (to, from) in bytes.iter_mut().zip(name.bytes()) {
        *to = from;
    }
}
