//! The command that lets a refused packet pass, and nothing else: this protocol and port, from this source.

use std::net::IpAddr;

use super::Follows;
use super::ruling::Known;
use crate::packet::{Carried, Packet};
use crate::rules::{Author, Filter, RuleLocation};

/// What is to be let in: a source that is only supposed stands for all of them.
pub(super) struct Refused<'a> {
    pub(super) packet: &'a Packet,
    /// Who asks, where that is known.
    pub(super) source: Option<IpAddr>,
    /// Whether the packet's destination is one that was named: one that is only supposed stands for all of them.
    pub(super) is_certain: bool,
    pub(super) place: &'a RuleLocation,
}

impl Refused<'_> {
    /// Where the packet goes, where that is known.
    fn destination(&self) -> Option<String> {
        self.is_certain.then(|| self.packet.destination.to_string())
    }
}

/// What a refusal means in the tables that do what ufw or firewalld does.
pub(super) fn followed(refused: &Refused<'_>, follows: Option<&Follows>) -> Option<Known> {
    let Refused { packet, source, place, .. } = refused;
    if place.table == "spoke_shut" {
        let what = "published ports are withdrawn: another program keeps removing inet spoke_follow, and nft monitor \
             shows which one";
        return Some(("filter", format!("{what} ({place})"), None));
    }
    if place.table != "spoke_follow" {
        return None;
    }
    if let Some(Follows { name, unknown: Some(why) }) = follows {
        let what = format!("published ports obey {name}, and all are shut: {why} ({place})");
        let is_service = ["ufw", "firewalld"].contains(&name.as_str());
        let fix = is_service.then(|| format!("systemctl start {name}"));
        return Some(("filter", what, fix));
    }
    let port = packet.original.port.unwrap_or_default();
    let protocol = packet.carried.protocol_name();
    let is_firewalld = match follows {
        Some(follows) => follows.name == "firewalld",
        None => place.path.iter().chain([&place.chain]).any(|it| it.contains("_filter_")),
    };
    let (name, fix) = match is_firewalld {
        true => ("firewalld", Ok(firewalld(refused))),
        false => ("ufw", ufw(refused)),
    };
    let what = format!(
        "published ports obey {name}, which does not allow {port}/{protocol}{}",
        from(*source)
    );
    Some(match fix {
        Ok(fix) => ("filter", format!("{what} ({place})"), Some(fix)),
        Err(why) => ("filter", format!("{what} ({place}); {why}"), None),
    })
}

/// The table by which firewalld drops everything (`firewall-cmd --panic-on`).
const PANIC: &str = "firewalld_policy_drop";

/// The command that lets the packet pass, or what has to be done where there is none.
pub(super) fn fix(refused: &Refused<'_>, by: Author) -> Result<String, String> {
    let Refused { packet, place, .. } = refused;
    let name = |device: &Option<crate::packet::Device>| device.as_ref().map(|it| it.name.clone());
    let (input, output) = (name(&packet.input), name(&packet.output));
    if place.table == PANIC {
        return Ok("firewall-cmd --panic-off".to_owned());
    }
    Ok(match (by, input, output) {
        (Author::Ufw, Some(input), Some(output)) => {
            let Some((protocol, port)) = service(packet).filter(ufw_knows) else {
                return Ok(ufw_file(refused, "forward"));
            };
            let source = refused.source.map_or("any".to_owned(), |_| packet.source.to_string());
            let destination = refused.destination().unwrap_or_else(|| "any".to_owned());
            format!(
                "ufw route allow in on {input} out on {output} proto {protocol} from {source} to {destination} \
                 port {port}"
            )
        }
        (Author::Ufw, _, None) => return ufw(refused),
        (Author::Firewalld, _, None) => firewalld(refused),
        (Author::Firewalld, _, Some(_)) => forwarded(refused),
        (Author::Docker, input, output) => {
            docker(refused, [("-i", input.as_deref()), ("-o", output.as_deref())])
        }
        _ => of_place(place),
    })
}

/// A rule of `DOCKER-USER`, which Docker leaves to the operator and comes to before its own rules.
fn docker(refused: &Refused<'_>, devices: [(&str, Option<&str>); 2]) -> String {
    let packet = refused.packet;
    let program = match (refused.place.filter, packet.destination.is_ipv4()) {
        (Filter::Legacy, _) => refused.place.iptables(),
        (Filter::Nftables, true) => "iptables",
        (Filter::Nftables, false) => "ip6tables",
    };
    let devices: String = devices
        .iter()
        .filter_map(|(option, name)| Some(format!(" {option} {}", name.as_ref()?)))
        .collect();
    format!("{program} -I DOCKER-USER{devices}{} -j ACCEPT", alone(refused))
}

/// The packet and no other in the words of iptables: at this place it has these addresses and ports.
fn alone(refused: &Refused<'_>) -> String {
    let packet = refused.packet;
    let source = match refused.source {
        Some(_) => format!(" -s {}", packet.source),
        None => String::new(),
    };
    let port = match (packet.is_reply, packet.to_port(), packet.from_port()) {
        (false, Some(port), _) => format!(" --dport {port}"),
        (true, _, Some(port)) => format!(" --sport {port}"),
        (_, _, _) => String::new(),
    };
    let destination = refused.destination().map_or(String::new(), |to| format!(" -d {to}"));
    format!(" -p {}{source}{destination}{port}", protocol(packet))
}

/// The protocol and the port that is called, as the filter at this place sees it.
fn service(packet: &Packet) -> Option<(&'static str, u16)> {
    Some((packet.carried.protocol_name(), packet.destination_port()?))
}

/// Of what comes to this host, or to a published port, which is called by the host's port.
fn called(packet: &Packet) -> Option<(&'static str, u16)> {
    Some((packet.carried.protocol_name(), packet.original.port?))
}

fn from(source: Option<IpAddr>) -> String {
    source.map_or(String::new(), |source| format!(" from {source}"))
}

fn ufw(refused: &Refused<'_>) -> Result<String, String> {
    let Refused { packet, source, place, .. } = refused;
    let is_of_files = |chain: &String| chain.contains("-before-") || chain.contains("-not-local");
    if is_of_files(&place.chain) {
        let file = if packet.original.source.is_ipv4() { "before.rules" } else { "before6.rules" };
        return Err(format!("it stands in /etc/ufw/{file}"));
    }
    let source = source.map_or("any".to_owned(), |source| source.to_string());
    let Some((protocol, port)) = called(packet).filter(ufw_knows) else {
        return Ok(ufw_file(refused, "input"));
    };
    // A rule of the operator's refuses; another one that comes before it is needed.
    let first = if place.chain.contains("-user-") { "prepend " } else { "" };
    Ok(format!("ufw {first}allow proto {protocol} from {source} to any port {port}"))
}

/// The command `ufw` has no word for other protocols.
fn ufw_knows((protocol, _): &(&'static str, u16)) -> bool {
    ["tcp", "udp"].contains(protocol)
}

/// The rule of that, which stands in ufw's file: the last one of its table of filters.
fn ufw_file(refused: &Refused<'_>, way: &str) -> String {
    let packet = refused.packet;
    let number = if packet.destination.is_ipv4() { "" } else { "6" };
    let source = match refused.source {
        Some(_) => format!(" -s {}", packet.source),
        None => String::new(),
    };
    // What comes to this host, or to a published port, is called by the host's address and port.
    let (destination, called) = match (way, packet.is_reply) {
        ("input", false) => (Some(packet.original.destination.to_string()), packet.original.port),
        (_, _) => (refused.destination(), packet.to_port()),
    };
    let destination = destination.map_or(String::new(), |to| format!(" -d {to}"));
    let port = match (packet.is_reply, called, packet.from_port()) {
        (false, Some(port), _) => format!(" --dport {port}"),
        (true, _, Some(port)) => format!(" --sport {port}"),
        (_, _, _) => String::new(),
    };
    let protocol = protocol(packet);
    format!(
        "sed -i '/^\\*filter/,/^COMMIT/s|^COMMIT|-A ufw{number}-before-{way} -p {protocol}\
         {source}{destination}{port} -j ACCEPT\\nCOMMIT|' /etc/ufw/before{number}.rules && ufw reload"
    )
}

/// The protocol's name for a packet filter, where ICMP has one of each family.
fn protocol(packet: &Packet) -> &'static str {
    match packet.carried {
        Carried::Echo | Carried::Neighbour if packet.destination.is_ipv6() => "ipv6-icmp",
        carried => carried.protocol_name(),
    }
}

fn firewalld(refused: &Refused<'_>) -> String {
    let Refused { packet, source, place, .. } = refused;
    let zone = zone(place).map_or(String::new(), |zone| format!(" --zone={zone}"));
    // Rules with a lower number come first, also before others that refuse.
    let refuses = [place.chain.ends_with("_deny"), place.chain.ends_with("_pre")].contains(&true);
    let priority = if refuses { " priority=-32768" } else { "" };
    let source = source.map_or(String::new(), of_source);
    let protocol = protocol(packet);
    let what = called(packet).map_or(format!("protocol value={protocol}"), |(_, port)| {
        format!("port port={port} protocol={protocol}")
    });
    format!("firewall-cmd{zone} --add-rich-rule='rule{priority}{source} {what} accept'")
}

/// What passes this host is let through by a policy between zones.
fn forwarded(refused: &Refused<'_>) -> String {
    let packet = refused.packet;
    let protocol = protocol(packet);
    let (name, what) = match (service(packet), packet.from_port()) {
        (Some((_, port)), _) => (port.to_string(), format!("port port={port} protocol={protocol}")),
        (None, Some(port)) => {
            (format!("from-{port}"), format!("source-port port={port} protocol={protocol}"))
        }
        (None, None) => (protocol.to_owned(), format!("protocol value={protocol}")),
    };
    let family = if packet.destination.is_ipv4() { "ipv4" } else { "ipv6" };
    let source = match refused.source {
        Some(_) => format!(" source address={}", packet.source),
        None => String::new(),
    };
    let destination = refused.destination();
    let destination = destination.map_or(String::new(), |to| format!(" destination address={to}"));
    format!(
        "firewall-cmd --permanent --new-policy=spoke-{name} && firewall-cmd --permanent --policy=spoke-{name} \
         --add-ingress-zone=ANY --add-egress-zone=ANY --add-rich-rule='rule family={family}{source}\
         {destination} {what} accept' && \
         firewall-cmd --reload"
    )
}

fn of_source(source: IpAddr) -> String {
    let family = if source.is_ipv4() { "ipv4" } else { "ipv6" };
    format!(" family={family} source address={source}")
}

/// The zone of firewalld whose chain refuses, or led there.
fn zone(place: &RuleLocation) -> Option<&str> {
    const ENDS: [&str; 5] = ["_pre", "_log", "_deny", "_allow", "_post"];
    let of = |chain: &'_ String| -> Option<(usize, usize)> {
        let start = chain.find("filter_IN_")? + "filter_IN_".len();
        let name = chain.get(start..)?;
        let end = ENDS.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name).len();
        let is_other = name.starts_with("policy_") || name.starts_with("policies_");
        (!is_other).then_some((start, start + end))
    };
    let named = |chain| of(chain).and_then(|(start, end)| String::as_str(chain).get(start..end));
    named(&place.chain).or_else(|| place.path.iter().rev().find_map(named))
}

/// The command that takes out what refuses; never one of Spoke's own rules, which says what a network is.
pub(super) fn of_place(place: &RuleLocation) -> String {
    if place.is_spokes() {
        return "spoke doctor".to_owned();
    }
    let (family, table, chain) = (place.family_name(), &place.table, &place.chain);
    match (place.filter, place.rule) {
        (Filter::Legacy, Some(rule)) => {
            format!("{} -t {table} -D {chain} {rule}", place.iptables())
        }
        (Filter::Legacy, None) => format!("{} -t {table} -P {chain} ACCEPT", place.iptables()),
        (Filter::Nftables, Some(rule)) => {
            format!("nft delete rule {family} {table} {chain} handle {rule}")
        }
        (Filter::Nftables, None) => {
            format!("nft add chain {family} {table} {chain} '{{ policy accept; }}'")
        }
    }
}

#[cfg(test)]
mod tests;
