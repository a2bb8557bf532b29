//! Who is meant by a name that only networks with names know.

use explain::{End, Hop, Kernel, Netlink, Space, Status};
use model::{
    Alias, Attachment, Error, NAME_DOMAIN, NamedElsewhere, Network, NetworkName, Protocol, Result,
};
use names::{Table, lookup};

use super::RESTART;
use super::ends::{HostRecords, ResolvedEnd};

/// What is answered for names.
pub(super) struct Names<'a> {
    table: Table,
    networks: &'a [Network],
    records: &'a [Attachment],
}

/// The name of the hop.
const HOP: &str = "name";

/// Whether a name has a domain, and not that of containers' names, in which Spoke alone answers.
fn is_beyond(name: &str) -> bool {
    let domain = name.trim_end_matches('.').rsplit_once('.').map(|(_, domain)| domain);
    domain.is_some_and(|domain| !domain.eq_ignore_ascii_case(NAME_DOMAIN))
}

/// A name with a domain that no container has may be one outside: no query is made for it.
fn beyond(shown: &str) -> Hop {
    let what = format!(
        "no container is called '{shown}', and names of the outside are not looked up: ask by an address that it has"
    );
    Hop { status: Status::Unknown, ..Hop::new(HOP, what) }
}

impl<'a> Names<'a> {
    /// `elsewhere`: what containers of other hosts are called.
    pub(super) fn new(
        (networks, aliases): (&'a [Network], &[Alias]),
        records: &'a [Attachment],
        elsewhere: &[NamedElsewhere],
    ) -> Self {
        let mut table = crate::commands::dns::table(networks, aliases, records);
        table.put_elsewhere(elsewhere);
        Self { table, networks, records }
    }

    /// Who has the name, as who asks is answered; the hops of that.
    pub(super) fn find(
        &self,
        name: &str,
        asker: &ResolvedEnd,
        book: &HostRecords<'_>,
        kernel: &mut Netlink,
    ) -> Result<(ResolvedEnd, Vec<Hop>)> {
        let shown = model::text::shown(name);
        let Some(site) = asker.end.site() else {
            return Err(Error::not_found(format!(
                "no container is called '{shown}'; `spoke ps` lists them"
            )));
        };
        let mut of: Vec<&NetworkName> = Vec::new();
        for plug in &site.plugs {
            let named = self.networks.iter().find(|it| it.name.as_str() == plug.network);
            of.extend(named.filter(|it| it.wiring.has_names()).map(|it| &it.name));
        }
        if is_beyond(name) && lookup(&self.table, &of, name).is_empty() {
            return Ok(Self::lost(beyond(&shown)));
        }
        if of.is_empty() {
            let what = format!(
                "no container is called '{shown}', and no network of {} has names, as those have that are made \
                 with --names",
                site.name
            );
            return Ok(Self::lost(Hop::new(HOP, what)));
        }
        let Some(address) = lookup(&self.table, &of, name)
            .first()
            .and_then(|entry| entry.addresses.first().copied())
        else {
            let what = format!(
                "no container is called '{shown}' on the networks of {}; spoke dns ls lists the names",
                site.name
            );
            return Ok(Self::lost(Hop::new(HOP, what)));
        };
        if !self.is_answered(&of, kernel)? {
            let what = "spoke serve does not answer queries at the gateway of the network";
            return Ok(Self::lost(Hop::new(HOP, what).fixed(RESTART)));
        }
        let found = book.of_address(address, Some(asker), kernel)?;
        Ok((found, vec![Hop::ok(HOP, format!("'{shown}' is {address}"))]))
    }

    /// A name that leads to nothing that can be looked at.
    pub(super) fn lost(hop: Hop) -> (ResolvedEnd, Vec<Hop>) {
        (ResolvedEnd { end: End::Outside, address: None, is_lost: true }, vec![hop])
    }

    /// Whether the daemon has its sockets at a gateway of one of the networks.
    fn is_answered(&self, of: &[&NetworkName], kernel: &mut Netlink) -> Result<bool> {
        let on = self.records.iter().filter(|it| of.contains(&&it.id.network));
        let gateways: Vec<_> =
            on.flat_map(|it| &it.addresses).filter_map(|held| held.gateway).collect();
        let table = kernel.rules(Space::HOST)?.has_table(1, "spoke_names");
        let sockets = kernel.taking(Space::HOST, Protocol::Udp)?;
        // A kernel that does not say leaves it open.
        let there = sockets
            .is_none_or(|sockets| sockets.iter().any(|socket| gateways.contains(&socket.address)));
        Ok(table && there)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_outside_has_another_domain() {
        for name in ["github.com", "github.com.", "a.spoke.example"] {
            assert!(is_beyond(name), "{name}");
        }
        for name in ["web", "web.", "nobody.front.spoke", "nobody.front.Spoke."] {
            assert!(!is_beyond(name), "{name}");
        }
    }
}
