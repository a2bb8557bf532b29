//! What the reference plugins made with nftables for an attachment that has no record: rules in
//! tables of theirs, identified by their comments. (What they made with iptables is in
//! [`crate::iptables`].)

use model::{AttachmentId, Layer, Result};
use netlink::nft::{self, Family, Table, Transaction};
use netlink::{Errno, Socket};

/// Where `portmap` keeps its rules, each with the container id as its comment.
const PUBLISH: [Table<'static>; 2] = [
    Table { family: Family::Ipv4, name: "cni_hostport" },
    Table { family: Family::Ipv6, name: "cni_hostport" },
];

/// The chains that have rules of containers.
const PUBLISH_CHAINS: [&str; 3] = ["hostports", "hostip_hostports", "masquerading"];

/// Where `bridge` and `ptp` keep the rules of `ipMasq`.
const MASQUERADE: Table<'static> = Table { family: Family::Inet, name: "cni_plugins_masquerade" };

const MASQUERADE_CHAIN: &str = "masq_checks";

/// Where `bridge` keeps the rules of `macspoofchk`.
const SPOOF_CHECK: Table<'static> = Table { family: Family::Bridge, name: "nat" };

const SPOOF_CHECK_CHAIN: &str = "PREROUTING";

/// Removes the rules of the attachment's layer. Tables and chains stay: others share them.
pub(crate) fn remove(socket: &mut Socket, id: &AttachmentId, layer: Layer) -> Result<()> {
    match layer {
        Layer::Publish => {
            let ours = |comment: &str| comment == id.container.as_str();
            for table in PUBLISH {
                for chain in PUBLISH_CHAINS {
                    remove_from(socket, table, chain, ours)?;
                }
            }
            Ok(())
        }
        Layer::Link => {
            let who = format!("net: {}, if: {}, id: {}", id.network, id.ifname, id.container);
            let masquerading =
                remove_from(socket, MASQUERADE, MASQUERADE_CHAIN, |it| it.ends_with(&who));
            masquerading.and(remove_spoof_check(socket, id))
        }
        Layer::Address
        | Layer::Firewall
        | Layer::Tuning
        | Layer::Bandwidth
        | Layer::Vrf
        | Layer::SourceRouting => Ok(()),
    }
}

/// The chains of `macspoofchk`: one for the port, and one for its address.
fn remove_spoof_check(socket: &mut Socket, id: &AttachmentId) -> Result<()> {
    let who = format!("{}-{}", id.container, id.ifname);
    let comment = format!("macspoofchk-{who}");
    let port = format!("cni-br-iface-{who}");
    let address = format!("{port}-mac");
    remove_from(socket, SPOOF_CHECK, SPOOF_CHECK_CHAIN, |it| it == comment)?;
    for chain in [port, address] {
        remove_from(socket, SPOOF_CHECK, &chain, |it| it == comment)?;
        if nft::chain_exists(socket, SPOOF_CHECK, &chain)? {
            let mut transaction = Transaction::new();
            transaction.delete_chain(SPOOF_CHECK, &chain);
            transaction.commit(socket)?.except(Errno::NOENT).into_result()?;
        }
    }
    Ok(())
}

fn remove_from(
    socket: &mut Socket,
    table: Table<'_>,
    chain: &str,
    is_ours: impl Fn(&str) -> bool,
) -> Result<()> {
    if !nft::chain_exists(socket, table, chain)? {
        return Ok(());
    }
    for rule in nft::rules(socket, table, chain)? {
        if rule.comment.as_ref().is_some_and(|comment| is_ours(comment.as_str())) {
            let mut transaction = Transaction::new();
            transaction.delete_rule(table, chain, rule.handle);
            transaction.commit(socket)?.except(Errno::NOENT).into_result()?;
        }
    }
    Ok(())
}

/// Whether the iptables that speaks to nftables has chains of the reference plugins: asked without
/// executing it.
pub(crate) fn nft_in_use(socket: &mut Socket) -> Result<bool> {
    for family in [Family::Ipv4, Family::Ipv6] {
        let chains = nft::chains(socket, family)?;
        if chains.iter().any(|chain| chain.name.starts_with("CNI-")) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether the old iptables, which netlink does not show, has any table here.
pub(crate) fn legacy_in_use() -> bool {
    ["ip_tables_names", "ip6_tables_names"].into_iter().any(|name| {
        let tables = std::fs::read_to_string(format!("/proc/thread-self/net/{name}"));
        tables.is_ok_and(|tables| !tables.trim().is_empty())
    })
}
