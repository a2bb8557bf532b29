//! The properties of a third party's interface in the host, kept in its alias while a container has
//! it.

use std::fmt;

use model::{IfName, Mac, Mtu};
use netlink::{Change, Link};

use crate::identity::{Identity, is_ours_by};

/// The longest alias that the kernel takes, in bytes (`IFALIASZ`, its end included).
const LONGEST: usize = 255;

/// The properties that it had, and gets again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OriginAlias {
    /// Its name.
    pub(crate) name: IfName,
    mac: Option<Mac>,
    mtu: Option<Mtu>,
    group: u32,
    alias: String,
}

impl OriginAlias {
    /// Of an interface that is in the host, as its owner made it.
    pub(crate) fn of(link: &Link) -> Self {
        Self {
            name: link.name.clone(),
            mac: link.mac,
            mtu: Mtu::new(link.mtu),
            group: link.group,
            alias: link.alias.clone().unwrap_or_default(),
        }
    }

    /// Of one of which nothing is known but its name.
    pub(crate) fn unknown(name: &IfName) -> Self {
        Self { name: name.clone(), mac: None, mtu: None, group: 0, alias: String::new() }
    }

    /// The alias while `identity` has it; what the kernel has no room for is lost.
    pub(crate) fn mark(&self, identity: &Identity) -> String {
        let mut text = format!("{} {self}", identity.external_mark());
        while text.len() > LONGEST {
            text.pop();
        }
        text
    }

    /// Reads the alias of an interface that `identity` has; `None` where it is not its.
    pub(crate) fn read(alias: &str, identity: &Identity) -> Option<Self> {
        let rest = alias.strip_prefix(&identity.external_mark())?.strip_prefix(' ')?;
        let mut words = rest.splitn(5, ' ');
        let mac = words.next()?.parse().ok();
        let mtu = words.next()?.parse().ok().and_then(Mtu::new);
        let group = words.next()?.parse().ok()?;
        let name = words.next()?.parse().ok()?;
        let alias = words.next().unwrap_or_default().to_owned();
        // The container may have written it: it must not make the interface one of Spoke's.
        let group = if is_ours_by(group) { 0 } else { group };
        Some(Self { name, mac, mtu, group, alias })
    }

    /// The properties that still differ, besides its name.
    pub(crate) fn changes(&self, now: &Link) -> Vec<Change> {
        let mac = self.mac.filter(|mac| now.mac != Some(*mac)).map(Change::Mac);
        let mtu = self.mtu.filter(|mtu| now.mtu != mtu.bytes()).map(Change::Mtu);
        let marks = [Change::Group(self.group), Change::Alias(self.alias.clone())];
        mac.into_iter().chain(mtu).chain(marks).collect()
    }
}

impl fmt::Display for OriginAlias {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.mac {
            Some(mac) => write!(f, "{mac}")?,
            None => f.write_str("-")?,
        }
        let mtu = self.mtu.map_or(0, Mtu::bytes);
        write!(f, " {mtu} {} {} {}", self.group, self.name, self.alias)
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::identity::GROUP;

    fn identity(container: &str) -> Identity {
        Identity::of(&doubles::attachment_id("front", container))
    }

    fn origin_alias(alias: &str) -> OriginAlias {
        OriginAlias {
            name: "veth-abcdef".parse().unwrap(),
            mac: Some("02:42:00:00:00:07".parse().unwrap()),
            mtu: Mtu::new(1400),
            group: 7,
            alias: alias.to_owned(),
        }
    }

    #[test]
    fn what_it_was_is_read_from_its_alias() {
        let own = identity("one");
        for alias in ["", "of the plugin's", "two  blanks "] {
            let origin_alias = origin_alias(alias);
            let mark = origin_alias.mark(&own);
            assert!(own.made(&mark));
            assert_eq!(OriginAlias::read(&mark, &own), Some(origin_alias));
            assert_eq!(OriginAlias::read(&mark, &identity("other")), None);
        }
        let long = origin_alias(&"é".repeat(300)).mark(&own);
        assert!(long.len() <= LONGEST);
        assert_eq!(OriginAlias::read(&long, &own).unwrap().name.as_str(), "veth-abcdef");
        let unknown = OriginAlias { mac: None, mtu: None, ..origin_alias("") };
        assert_eq!(OriginAlias::read(&unknown.mark(&own), &own), Some(unknown));
    }

    #[test]
    fn no_program_makes_it_one_of_ours() {
        let own = identity("one");
        let forged = OriginAlias { group: GROUP, ..origin_alias("") };
        assert_eq!(OriginAlias::read(&forged.mark(&own), &own).unwrap().group, 0);
        for alias in ["", "x", "/ready", "- - -", "- 1 2"] {
            assert_eq!(OriginAlias::read(&format!("{} {alias}", own.external_mark()), &own), None);
            assert_eq!(OriginAlias::read(alias, &own), None);
        }
    }
}
