//! Decides which changes by other programs concern our interfaces.

use netlink::Event;
use netlink::nft::{Family, News, Object};

use crate::filter::{FORWARDING_CHAINS, TABLE, quota, spoof, transit};
use crate::firewalld;

/// The parts of Spoke's state that a change may have damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Concern {
    /// Our table's chains and sets: [`crate::Linux::mend`], then as [`Concern::Elements`].
    Table,
    /// Each attachment's elements of the packet filter: [`engine::port::Driver::restore`].
    Elements,
    /// The subnets that reach ports for the LAN: [`crate::Linux::refresh_lan`].
    Lan,
}

impl Concern {
    /// The part that a change concerns; `None` where it concerns none.
    pub fn of(event: &Event) -> Option<Self> {
        match event {
            Event::Address | Event::Route => Some(Concern::Lan),
            Event::Link | Event::Rule => None,
            Event::Ruleset(news) if is_ours(news) => of_our_table(news),
            Event::Ruleset(news) => {
                (lets_forward(news) || is_new_firewalld(news)).then_some(Concern::Elements)
            }
        }
    }
}

/// Of `inet spoke`, `inet spoke_transit`, `bridge spoke` or the tables of quotas.
fn is_ours(news: &News) -> bool {
    let mut tables = [TABLE, transit::TABLE, spoof::TABLE].into_iter().chain(quota::TABLES);
    tables.any(|table| (news.family, news.table.as_str()) == (table.family, table.name))
}

/// A new element of a set belongs to a container; a new rule may precede Spoke's.
fn of_our_table(news: &News) -> Option<Concern> {
    match (news.object, news.gone) {
        (Object::Table | Object::Set, true) | (Object::Chain | Object::Rule, _) => {
            Some(Concern::Table)
        }
        (Object::Elements, true) => Some(Concern::Elements),
        (Object::Table | Object::Set | Object::Elements, false) => None,
    }
}

/// Whether the host's iptables may have lost the rules that let containers' packets pass, or may
/// need them from now on.
fn lets_forward(news: &News) -> bool {
    let is_iptables = matches!(news.family, Family::Ipv4 | Family::Ipv6) && news.table == "filter";
    let is_meant = FORWARDING_CHAINS.contains(&news.chain.as_str());
    is_iptables
        && match news.object {
            Object::Table | Object::Rule => news.gone && (is_meant || news.chain.is_empty()),
            Object::Chain => is_meant,
            Object::Set | Object::Elements => false,
        }
}

/// Whether firewalld was started, which has lost the changes of its zones. A change of its zones
/// while it runs is repaired at the next complete check.
fn is_new_firewalld(news: &News) -> bool {
    let table = (news.family, news.table.as_str());
    table == (firewalld::TABLE.family, firewalld::TABLE.name)
        && (news.object, news.gone) == (Object::Chain, false)
        && news.chain == firewalld::FORWARD
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(object: Object, gone: bool, family: Family, table: &str, chain: &str) -> Option<Concern> {
        let (table, chain) = (table.to_owned(), chain.to_owned());
        Concern::of(&Event::Ruleset(News {
            object,
            gone,
            family,
            table,
            chain,
            set: String::new(),
        }))
    }

    #[test]
    fn only_what_may_harm_concerns_us() {
        let (table, elements) = (Some(Concern::Table), Some(Concern::Elements));
        assert_eq!(of(Object::Table, true, Family::Inet, "spoke", ""), table);
        assert_eq!(of(Object::Rule, false, Family::Inet, "spoke", "forward"), table);
        assert_eq!(of(Object::Elements, true, Family::Inet, "spoke", ""), elements);
        assert_eq!(of(Object::Elements, false, Family::Inet, "spoke", ""), None);
        for family in [Family::Bridge, Family::Inet] {
            assert_eq!(of(Object::Table, true, family, "spoke_quota", ""), table);
            assert_eq!(of(Object::Elements, true, family, "spoke_quota", ""), elements);
        }
        assert_eq!(of(Object::Table, true, Family::Ipv4, "spoke_quota", ""), None);
        assert_eq!(of(Object::Table, true, Family::Inet, "wall", ""), None);
        assert_eq!(of(Object::Table, true, Family::Ipv4, "filter", ""), elements);
        assert_eq!(of(Object::Chain, false, Family::Ipv6, "filter", "DOCKER-USER"), elements);
        assert_eq!(of(Object::Rule, true, Family::Ipv4, "filter", "FORWARD"), elements);
        assert_eq!(of(Object::Rule, false, Family::Ipv4, "filter", "FORWARD"), None);
        assert_eq!(of(Object::Rule, true, Family::Ipv4, "filter", "DOCKER"), None);
        assert_eq!(of(Object::Rule, true, Family::Ipv4, "nat", "FORWARD"), None);
        assert_eq!(of(Object::Chain, false, Family::Inet, "firewalld", "filter_FORWARD"), elements);
        assert_eq!(of(Object::Chain, true, Family::Inet, "firewalld", "filter_FORWARD"), None);
        assert_eq!(of(Object::Rule, true, Family::Inet, "firewalld", "filter_FORWARD"), None);
        assert_eq!(Concern::of(&Event::Route), Some(Concern::Lan));
    }
}
