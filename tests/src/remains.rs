//! What may be left of a container: quicker to see than a whole [`crate::Snapshot`].

use std::collections::BTreeSet;

use crate::World;
use crate::snapshot::report;

/// Not what belongs to the network and stays with it: where the search for an address goes on,
/// what its configuration says, and locks. A prepared file that a dead process never put into its
/// place is overwritten by the next one. Nor how often a port came with something: that goes by itself, after seconds.
const SCRIPT: &str = r#"
names() { ip $1 -o link show | while read -r _ name _; do echo "$2 link ${name%%@*}"; done; }
names "" host
for space in /run/netns/*; do [ -e "$space" ] || continue
    space=${space##*/}
    names "-n $space" "$space"
    ip -n $space -o -4 address show | while read -r line; do echo "$space address ${line#*: }"; done
    ip -n $space route show | while read -r line; do echo "$space route $line"; done
done
nft -s list ruleset | grep '[^ ]' | grep -v 'limit rate over .* packets timeout' || true
iptables-save | grep ^- || true
for top in /run/spoke /var/lib/spoke /var/lib/cni; do [ -d $top ] || continue
    find $top -type f ! -path '*/cursors/*' ! -path '*/configured/*' ! -path '*/calls/*' ! -path '*/namespaces/*' ! -name lock \
        ! -name 'last_reserved_ip.*' ! -name '.*.new'
done
"#;

/// Links, addresses and routes of containers, packet filter and records, one line each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remains(BTreeSet<String>);

impl Remains {
    /// What is in `world` now.
    #[track_caller]
    pub fn of(world: &World) -> Self {
        Self(world.sh(SCRIPT).lines().map(str::to_owned).collect())
    }

    /// What came (`+`) and went (`-`) since `before`.
    pub fn changes(&self, before: &Self) -> Vec<String> {
        report(&before.0, &self.0)
    }
}
