//! What a container sends while it is captured, and what a user types as a filter.

use std::net::IpAddr;

use traffic::capture::{Filter, Form, Packet};

/// A packet of either form, and a filter's text.
pub fn packet(bytes: &[u8]) {
    for form in [Form::Ethernet, Form::Network] {
        let packet = Packet::read(bytes, form);
        let text = packet.to_string();
        assert!(!text.contains(char::is_control), "it does not control the terminal: {text:?}");
        assert!(packet.flags.is_none() || packet.ports.is_some(), "flags stand behind ports");
        let web = |name: &str| -> Vec<IpAddr> {
            (name == "web").then(|| IpAddr::from([10, 1, 0, 3])).into_iter().collect()
        };
        let text = String::from_utf8_lossy(bytes);
        let Ok(filter) = Filter::read(&text, &web) else { continue };
        let Ok(opposite) = Filter::read(&format!("not ({text})"), &web) else { continue };
        assert_ne!(filter.holds(&packet), opposite.holds(&packet), "{text}");
    }
}
