//! The rules of an attachment, as text in the form and order in which `iptables-save` prints them.

use std::collections::BTreeMap;

use model::{
    Attachment, AttachmentId, Backend, Error, Family, Firewall, IfName, IngressPolicy,
    InterfaceAddress, IpNet, Passage, PortMap, Protocol, Publish, Result, Sources,
};
use sha2::{Digest, Sha512};

use crate::plan::gateway::is_gateway;

pub(super) const NAT: &str = "nat";
pub(super) const FILTER: &str = "filter";
pub(super) const FORWARD: &str = "CNI-FORWARD";
pub(super) const STAGE_1: &str = "CNI-ISOLATION-STAGE-1";
pub(super) const STAGE_2: &str = "CNI-ISOLATION-STAGE-2";
const ADMIN: &str = "CNI-ADMIN";
const DNAT: &str = "CNI-HOSTPORT-DNAT";
const SET_MARK: &str = "CNI-HOSTPORT-SETMARK";
const MASQUERADE: &str = "CNI-HOSTPORT-MASQ";
/// As many ports as one `multiport` match takes.
const MULTIPORT: usize = 15;
/// The longest comment in bytes (`XT_MAX_COMMENT_LEN`, its end included).
const LONGEST_COMMENT: usize = 255;
/// The longest name of a chain in bytes (`XT_EXTENSION_MAXNAMELEN`, its end included).
const LONGEST_CHAIN: usize = 28;
const MARK_BIT: u8 = 13;

/// Where a rule goes that is not there yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RulePosition {
    First,
    Last,
}

/// The user of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// The attachment.
    Own,
    /// Every container: others may be about to add it too.
    Common,
    /// Every container of Spoke's. The reference does not make it, nor did every Spoke before: where it is missing the
    /// container's own rules are complete all the same.
    Added,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) table: &'static str,
    pub(super) chain: String,
    pub(super) text: String,
    pub(super) place: RulePosition,
    pub(super) whose: Whose,
    /// Words that must be in it, where it holds what an administrator wrote, which is not
    /// printed as it was written.
    pub(super) only: Vec<String>,
}

/// The rules for an attachment in one family, in the order in which they are made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RuleSet {
    pub(super) chains: Vec<(&'static str, String)>,
    /// The chain of this attachment only: emptied first, with all jumps to it.
    pub(super) renewed: Option<String>,
    pub(super) rules: Vec<Rule>,
}

impl RuleSet {
    pub(super) fn of(attachment: &Attachment, family: Family) -> Result<Self> {
        let mut wanted = Self::default();
        let wiring = &attachment.wiring;
        let addresses = of_family(&attachment.addresses, family);
        let masquerade = wiring.masquerade.as_ref().filter(|part| part.is_of(family));
        if let Some(part) = masquerade.filter(|part| part.backend == Backend::Iptables) {
            wanted.masquerade(&attachment.id, &addresses, part.sources);
        }
        let is_led =
            |part: &&Publish| part.backend == Backend::Iptables && is_gateway(attachment, family);
        let publish = wiring.publish.as_ref().filter(is_led);
        if let (Some(publish), Some(to)) = (publish, addresses.first()) {
            wanted.publish(&attachment.id, publish, *to)?;
        }
        if let Some(firewall) = wiring.firewall.as_ref().filter(|f| f.backend == Backend::Iptables)
        {
            wanted.firewall(firewall, &addresses)?;
        }
        Ok(wanted)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    fn masquerade(&mut self, id: &AttachmentId, addresses: &[IpNet], sources: Sources) {
        let chain = masquerade_chain(id);
        let comment = comment(&format!("name: \"{}\" id: \"{}\"", id.network, id.container));
        for net in addresses {
            let multicast = if is_v4(net) { "224.0.0.0/4" } else { "ff00::/8" };
            let local = matching("-d", &net.trunc());
            let host = IpNet::from(net.addr());
            self.chain(NAT, &chain);
            self.last(NAT, &chain, format!("{local}{comment} -j ACCEPT"));
            let target = match sources.of(Family::of(net)) {
                Some(host) => format!("SNAT --to-source {host}"),
                None => "MASQUERADE".to_owned(),
            };
            self.last(NAT, &chain, format!("! -d {multicast} {comment} -j {target}"));
            self.last(NAT, "POSTROUTING", format!("-s {host} {comment} -j {chain}"));
        }
    }

    /// Drops what connection tracking takes for no packet of a connection: it is not translated, and would leave with the
    /// container's own address. `interface` is the only way back to the container. Generated last, to stand before what
    /// accepts the container's packets.
    pub(super) fn drop_unknown(
        &mut self,
        attachment: &Attachment,
        (family, from): (Family, &IfName),
    ) -> Result<()> {
        let masquerade = attachment.wiring.masquerade.as_ref();
        if !masquerade.is_some_and(|it| it.is_of(family) && it.backend == Backend::Iptables) {
            return Ok(());
        }
        let from = interface(from)?;
        for net in of_family(&attachment.addresses, family) {
            if net.prefix_len() == 0 {
                continue;
            }
            let text = format!("{}-i {from} {UNKNOWN}", unknown_from(&net));
            let how = (RulePosition::First, Whose::Added);
            self.rule(FILTER, "FORWARD", text, how);
        }
        Ok(())
    }

    fn publish(&mut self, id: &AttachmentId, publish: &Publish, to: IpNet) -> Result<()> {
        if publish.ports.is_empty() {
            return Ok(());
        }
        let set_mark = self.marking(publish)?;
        self.chain(NAT, DNAT);
        for hook in ["PREROUTING", "OUTPUT"] {
            self.common(NAT, hook, format!("-m addrtype --dst-type LOCAL -j {DNAT}"));
        }
        if !is_v4(&to) {
            // What is sent to ::1 cannot leave the loopback device: translated, it would get no answer. So it is
            // refused at once, and clients of localhost take 127.0.0.1.
            let how = (RulePosition::First, Whose::Added);
            self.rule(NAT, DNAT, "-d ::1/128 -j RETURN".to_owned(), how);
        }
        let own = publish_chain(id, "DN-");
        self.renewed = Some(own.clone());
        for port in publish.ports.iter().filter(|port| reaches(port, &to)) {
            self.port(&own, port, &to, set_mark.as_deref().map(|chain| (chain, publish)));
        }
        self.entries(id, publish, &to, &own)
    }

    /// The chain that marks packets for masquerading, if any are.
    fn marking(&mut self, publish: &Publish) -> Result<Option<String>> {
        if !publish.snat {
            return Ok(None);
        }
        if let Some(theirs) = &publish.iptables.set_mark_chain {
            return chain_name(theirs).map(Some);
        }
        let bit = publish.iptables.mark_bit.unwrap_or(MARK_BIT);
        let Some(mark) = 1u32.checked_shl(bit.into()) else {
            return Err(Error::invalid(format!("markMasqBit {bit} is not between 0 and 31")));
        };
        let marked = comment("CNI portfwd masquerade mark");
        self.chain(NAT, SET_MARK);
        self.common(NAT, SET_MARK, format!("{marked} -j MARK --set-xmark {mark:#x}/{mark:#x}"));
        self.chain(NAT, MASQUERADE);
        self.common(NAT, MASQUERADE, format!("-m mark --mark {mark:#x}/{mark:#x} -j MASQUERADE"));
        // Before the rules of masqueraded containers, which end the chain.
        let needed = comment("CNI portfwd requiring masquerade");
        self.first(NAT, "POSTROUTING", format!("{needed} -j {MASQUERADE}"));
        Ok(Some(SET_MARK.to_owned()))
    }

    /// Marks come first: translating ends the chain.
    fn port(&mut self, own: &str, port: &PortMap, to: &IpNet, marking: Option<(&str, &Publish)>) {
        let host = port.host.filter(|host| !host.is_unspecified());
        let host = host.map_or(String::new(), |host| format!("-d {} ", IpNet::from(host)));
        let protocol = port.protocol;
        let base = format!("{host}-p {protocol} -m {protocol} --dport {}", port.host_port);
        if let Some((chain, publish)) = marking {
            let all = publish.masquerade_all;
            let hairpin = if all { String::new() } else { matching("-s", &to.trunc()) };
            self.last(NAT, own, format!("{hairpin}{base} -j {chain}"));
            if is_v4(to) && !all {
                self.last(NAT, own, format!("-s 127.0.0.1/32 {base} -j {chain}"));
            }
        }
        let target = std::net::SocketAddr::new(to.addr(), port.container_port.get());
        self.last(NAT, own, format!("{base} -j DNAT --to-destination {target}"));
    }

    fn entries(
        &mut self,
        id: &AttachmentId,
        publish: &Publish,
        to: &IpNet,
        own: &str,
    ) -> Result<()> {
        let options = &publish.iptables;
        let conditions = if is_v4(to) { &options.conditions_v4 } else { &options.conditions_v6 };
        let conditions: Vec<String> =
            conditions.iter().map(|word| quoted(word)).collect::<Result<_>>()?;
        let comment = comment(&format!("dnat name: \"{}\" id: \"{}\"", id.network, id.container));
        let mut groups: BTreeMap<String, (Protocol, Vec<String>)> = BTreeMap::new();
        for port in &publish.ports {
            let group = groups.entry(port.protocol.to_string());
            let (_, ports) = group.or_insert_with(|| (port.protocol, Vec::new()));
            ports.push(port.host_port.to_string());
        }
        for (protocol, ports) in groups.values() {
            for ports in ports.chunks(MULTIPORT) {
                let ports = format!("--dports {}", ports.join(","));
                let mut words = vec![format!("-p {protocol} {comment} -m multiport {ports}")];
                words.extend(conditions.iter().cloned());
                words.push(format!("-j {own}"));
                self.last(NAT, DNAT, words.join(" "));
                if let (false, Some(rule)) = (conditions.is_empty(), self.rules.last_mut()) {
                    rule.only = vec![format!("-p {protocol} "), ports, format!("-j {own}")];
                }
            }
        }
        Ok(())
    }

    fn firewall(&mut self, firewall: &Firewall, addresses: &[IpNet]) -> Result<()> {
        if addresses.is_empty() {
            return Ok(());
        }
        let admin = firewall.admin_chain.as_deref().unwrap_or(ADMIN);
        self.accepting(&chain_name(admin)?);
        for net in addresses {
            for rule in forward_rules(net) {
                self.last(FILTER, FORWARD, rule);
            }
        }
        match firewall.ingress {
            IngressPolicy::Open => Ok(()),
            policy => self.isolation(policy, firewall.bridge.as_ref()),
        }
    }

    /// The chain that accepts what containers send.
    fn accepting(&mut self, admin: &str) {
        self.chain(FILTER, FORWARD);
        self.chain(FILTER, admin);
        let (entry, overrides) =
            ("CNI firewall plugin rules", "CNI firewall plugin admin overrides");
        self.first(FILTER, "FORWARD", format!("{} -j {FORWARD}", comment(entry)));
        self.first(FILTER, FORWARD, format!("{} -j {admin}", comment(overrides)));
    }

    /// Lets what is sent to published ports pass, wherever they are published.
    pub(super) fn let_published(&mut self, addresses: &[IpNet]) {
        for net in addresses {
            self.last(FILTER, FORWARD, published_rule(net));
        }
    }

    /// Lets pass what comes by a route; our table judges which ports that reaches.
    pub(super) fn let_routed(
        &mut self,
        passage: &Passage,
        family: Family,
        addresses: &[IpNet],
    ) -> Result<()> {
        for net in addresses {
            let host = IpNet::from(net.addr());
            if passage.is_everybodys(family) {
                self.last(FILTER, FORWARD, routed_rule(&host));
            }
            for from in passage.trusted() {
                let from = interface(from)?;
                self.last(FILTER, FORWARD, format!("-d {host} -i {from} -j ACCEPT"));
            }
        }
        Ok(())
    }

    fn isolation(&mut self, policy: IngressPolicy, bridge: Option<&IfName>) -> Result<()> {
        let Some(bridge) = bridge else {
            return Err(Error::invalid(
                "ingressPolicy same-bridge and isolated need a container on a bridge; \
                 chain the firewall after a bridge",
            ));
        };
        self.isolated(policy, interface(bridge)?, true);
        Ok(())
    }

    /// The rules for a bridge that a network shares with other hosts: what comes in by it does not reach what others
    /// guard, and where it `is_guarded`, what comes in by others that have such rules does not leave by it.
    pub(super) fn of_bridge(bridge: &IfName, is_guarded: bool) -> Result<Self> {
        let mut wanted = Self::default();
        // It has to come behind the isolation, so it is there before: the first container would put it in front.
        wanted.accepting(ADMIN);
        wanted.isolated(IngressPolicy::SameBridge, interface(bridge)?, is_guarded);
        Ok(wanted)
    }

    /// The rules by which containers of a bridge are isolated, of each way of isolation.
    pub(super) fn isolations(bridge: &IfName) -> Result<Vec<Self>> {
        let bridge = interface(bridge)?;
        let of = |policy| {
            let mut wanted = Self::default();
            wanted.isolated(policy, bridge, true);
            wanted
        };
        Ok([IngressPolicy::SameBridge, IngressPolicy::Isolated].map(of).into())
    }

    fn isolated(&mut self, policy: IngressPolicy, bridge: &str, is_guarded: bool) {
        let word =
            |policy: &str| comment(&format!("CNI firewall plugin rules (ingressPolicy: {policy})"));
        let shared = word("same-bridge|isolated");
        let isolated = policy == IngressPolicy::Isolated;
        let own = word(if isolated { "isolated" } else { "same-bridge" });
        self.chain(FILTER, STAGE_1);
        self.chain(FILTER, STAGE_2);
        // Before the jump to CNI-FORWARD, which accepts.
        self.first(FILTER, "FORWARD", format!("{shared} -j {STAGE_1}"));
        // Answers to those that reach it pass, and what goes to a published port.
        let state = match is_guarded {
            true => "",
            false => "-m conntrack --ctstate NEW -m conntrack ! --ctstate DNAT ",
        };
        self.first(FILTER, STAGE_1, format!("-i {bridge} ! -o {bridge} {state}{own} -j {STAGE_2}"));
        if isolated {
            self.first(FILTER, STAGE_1, format!("-i {bridge} -o {bridge} {own} -j DROP"));
        }
        self.common(FILTER, STAGE_1, format!("{shared} -j RETURN"));
        if is_guarded {
            self.first(FILTER, STAGE_2, format!("-o {bridge} {shared} -j DROP"));
        }
        self.common(FILTER, STAGE_2, format!("{shared} -j RETURN"));
    }

    fn chain(&mut self, table: &'static str, name: &str) {
        self.chains.push((table, name.to_owned()));
    }

    fn first(&mut self, table: &'static str, chain: &str, text: String) {
        self.rule(table, chain, text, (RulePosition::First, Whose::Common));
    }

    fn common(&mut self, table: &'static str, chain: &str, text: String) {
        self.rule(table, chain, text, (RulePosition::Last, Whose::Common));
    }

    fn last(&mut self, table: &'static str, chain: &str, text: String) {
        self.rule(table, chain, text, (RulePosition::Last, Whose::Own));
    }

    fn rule(&mut self, table: &'static str, chain: &str, text: String, how: (RulePosition, Whose)) {
        let (chain, (place, whose)) = (chain.to_owned(), how);
        self.rules.push(Rule { table, chain, text, place, whose, only: Vec::new() });
    }
}

/// How a rule ends that drops what is of no connection.
const UNKNOWN: &str = "-m conntrack --ctstate INVALID -j DROP";

/// How it begins: what a container sends out of its subnet.
fn unknown_from(net: &IpNet) -> String {
    format!("-s {} ! -d {} ", IpNet::from(net.addr()), net.trunc())
}

/// Whether a rule drops what a container sends and is of no connection.
pub(super) fn is_unknown_rule(rule: &str, net: &IpNet) -> bool {
    rule.starts_with(&unknown_from(net)) && rule.ends_with(UNKNOWN)
}

/// The rules that accept a container's packets.
pub(super) fn forward_rules(net: &IpNet) -> [String; 2] {
    let host = IpNet::from(net.addr());
    [
        format!("-d {host} -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT"),
        format!("-s {host} -j ACCEPT"),
    ]
}

/// The rule that accepts packets to a container's published ports.
pub(super) fn published_rule(net: &IpNet) -> String {
    format!("-d {} -m conntrack --ctstate DNAT -j ACCEPT", IpNet::from(net.addr()))
}

/// What lets everything that is sent to a container through.
fn routed_rule(host: &IpNet) -> String {
    format!("-d {host} -j ACCEPT")
}

/// Whether a rule lets pass what comes to a container by a route.
pub(super) fn is_routed_rule(rule: &str, net: &IpNet) -> bool {
    let host = IpNet::from(net.addr());
    let is_trust = || {
        let name = rule.strip_prefix(&format!("-d {host} -i "))?.strip_suffix(" -j ACCEPT")?;
        Some(!name.contains(' '))
    };
    rule == routed_rule(&host) || is_trust().unwrap_or(false)
}

/// The addresses of one family.
pub(super) fn of_family(addresses: &[InterfaceAddress], family: Family) -> Vec<IpNet> {
    let nets = addresses.iter().map(|held| held.address);
    nets.filter(|net| Family::of(net) == family).collect()
}

/// The chain of a masqueraded container.
pub(super) fn masquerade_chain(id: &AttachmentId) -> String {
    publish_chain(id, "")
}

/// The chain of a container's ports: `DN-`, or `SN-` as releases before 0.7.5 made it too.
pub(super) fn publish_chain(id: &AttachmentId, prefix: &str) -> String {
    let digest = Sha512::digest(format!("{}{}", id.network, id.container).as_bytes());
    let mut name = format!("CNI-{prefix}");
    for byte in digest {
        name.push_str(&format!("{byte:02x}"));
    }
    name.truncate(LONGEST_CHAIN);
    name
}

/// Whether the port is one of those that this address of the container serves.
fn reaches(port: &PortMap, to: &IpNet) -> bool {
    port.host.is_none_or(|host| host.is_ipv4() == is_v4(to))
}

fn is_v4(net: &IpNet) -> bool {
    Family::of(net) == Family::V4
}

/// Nothing where the prefix holds every address: then nothing is printed.
fn matching(option: &str, net: &IpNet) -> String {
    if net.prefix_len() == 0 { String::new() } else { format!("{option} {net} ") }
}

/// A comment match. All comments of Spoke's have a space, so they are printed in quotes.
fn comment(text: &str) -> String {
    let mut text = text.to_owned();
    if text.len() > LONGEST_COMMENT {
        text.truncate(LONGEST_COMMENT - 3);
        text.push_str("...");
    }
    format!("-m comment --comment \"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// The third party's name chain, if it can be one.
fn chain_name(name: &str) -> Result<String> {
    let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'\\');
    let starts_well = !name.starts_with(['-', '!', ':', '*', '#']);
    if (1..=LONGEST_CHAIN).contains(&name.len()) && starts_well && name.bytes().all(plain) {
        return Ok(name.to_owned());
    }
    Err(Error::invalid(format!("{name:?} cannot be the name of an iptables chain")))
}

/// The name of an interface, if a rule can mean just that one.
fn interface(name: &IfName) -> Result<&str> {
    let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'\\' | b'!');
    let name = name.as_str();
    if name.bytes().all(plain) && !name.ends_with('+') && !name.starts_with('-') {
        return Ok(name);
    }
    Err(Error::invalid(format!("an iptables rule cannot name the interface {name:?}")))
}

/// A word of the administrator's as one word, whatever is in it.
fn quoted(word: &str) -> Result<String> {
    if word.chars().any(char::is_control) || word.len() > 255 {
        return Err(Error::invalid(format!("{word:?} cannot be a condition of an iptables rule")));
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:,!=+%@".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        return Ok(word.to_owned());
    }
    Ok(format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\"")))
}
