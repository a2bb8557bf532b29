//! Packets as lines of text.

use std::time::Duration;

use host::time::rfc3339;
use model::{Result, Timestamp};
use serde::Serialize;
use traffic::capture::Packet;
use traffic::flow::protocol;

use crate::output::{Output, line, render};

/// A packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct PacketView {
    time: String,
    interface: String,
    /// `in` or `out`, from the container's side.
    direction: &'static str,
    protocol: Option<String>,
    source: Option<String>,
    source_port: Option<u16>,
    destination: Option<String>,
    destination_port: Option<u16>,
    /// In bytes, from the link layer's header on.
    length: usize,
}

/// What is known of a packet besides its headers.
#[derive(Clone, Copy, Debug)]
pub(super) struct CapturedPacket<'a> {
    pub(super) at: Duration,
    pub(super) interface: &'a str,
    pub(super) is_outgoing: bool,
    pub(super) length: usize,
}

/// One line, or one document.
pub(super) fn text(packet: &Packet, seen: CapturedPacket<'_>, output: Output) -> Result<String> {
    let direction = if seen.is_outgoing { "out" } else { "in" };
    if output == Output::Table {
        let (time, interface, length) = (instant(seen.at), seen.interface, seen.length);
        return Ok(format!("{time}  {interface}  {direction:<3}  {packet}, {length} bytes\n"));
    }
    let end = |at: usize| packet.addresses.map(|ends| ends[at].to_string());
    let port = |at: usize| packet.ports.map(|ports| ports[at]);
    let view = PacketView {
        time: instant(seen.at),
        interface: seen.interface.to_owned(),
        direction,
        protocol: packet.protocol.map(protocol).or(packet.is_arp().then(|| "arp".to_owned())),
        source: end(0),
        source_port: port(0),
        destination: end(1),
        destination_port: port(1),
        length: seen.length,
    };
    match output {
        Output::Yaml | Output::Frr | Output::Bird => {
            Ok(format!("---\n{}", render(output, &view, String::new)?))
        }
        Output::Json | Output::Table => Ok(line(&view)? + "\n"),
    }
}

/// In UTC, to the microsecond (RFC 3339).
pub(super) fn instant(since: Duration) -> String {
    let seconds = rfc3339(Timestamp(since.as_secs()));
    format!("{}.{:06}Z", seconds.trim_end_matches('Z'), since.subsec_micros())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_a_line() {
        let ends = ["10.1.0.2", "10.1.0.3"].map(|address| address.parse().unwrap());
        let packet = Packet {
            addresses: Some(ends),
            protocol: Some(6),
            ports: Some([4000, 80]),
            flags: Some(0x18),
            ..Packet::default()
        };
        let at = Duration::new(1_795_003_200, 1_234_567);
        let seen = CapturedPacket { at, interface: "eth0", is_outgoing: true, length: 74 };
        assert_eq!(
            text(&packet, seen, Output::Table).unwrap(),
            "2026-11-18T12:00:00.001234Z  eth0  out  10.1.0.2:4000 > 10.1.0.3:80 tcp P., 74 bytes\n"
        );
        let json = text(&packet, seen, Output::Json).unwrap();
        let read: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!((&read["source_port"], &read["protocol"]), (&4000.into(), &"tcp".into()));
    }
}
