//! Which addresses are announced, and with which hardware address.

use model::{
    Bridge, BridgePort, Gateway, Layer, Link, LinkKind, Phase, Runtime, Timestamp, Wiring,
};

use super::*;

const V4: &str = "10.9.0.5/24";
const V6: &str = "fd00:9::5/64";

fn attachment(mac: Option<Mac>, addresses: &[&str]) -> Attachment {
    let bridge = Bridge {
        name: "br9".parse().unwrap(),
        gateway: Gateway::Default,
        force_address: false,
        hairpin: false,
        host_absent: model::Absence::default(),
        promiscuous: false,
        port: BridgePort::default(),
    };
    let link = Link { kind: LinkKind::Bridge(bridge), name: None, mac, mtu: None };
    let id = doubles::attachment_id("net", "web");
    let held = addresses.iter().map(|net| doubles::address(net));
    Attachment {
        wiring: Wiring { link: Some(link), ..Wiring::default() },
        addresses: held.collect(),
        ..Attachment::new(id, Layer::Link, Runtime::Docker, Timestamp(0), Phase::Reserved)
    }
}

fn all(attachment: &Attachment) -> Vec<IpAddr> {
    attachment.addresses.iter().map(|held| held.address.addr()).collect()
}

fn announced(attachment: &Attachment) -> Vec<String> {
    let moved = Moved::by_coming(attachment, all(attachment));
    moved.map(|moved| moved.addresses.iter().map(IpAddr::to_string).collect()).unwrap_or_default()
}

fn derived() -> Mac {
    mac_of(&"net".parse().unwrap(), "10.9.0.5".parse().unwrap())
}

fn chosen() -> Mac {
    "c2:11:22:33:44:55".parse().unwrap()
}

#[test]
fn what_derives_is_silent() {
    for mac in [None, Some(derived())] {
        let one = attachment(mac, &[V4]);
        assert_eq!((announced(&one).len(), Moved::by_going(&one)), (0, None), "{mac:?}");
    }
}

#[test]
fn the_other_family_meets_another_first_address() {
    for mac in [None, Some(derived())] {
        let both = attachment(mac, &[V4, V6]);
        assert_eq!(announced(&both), ["fd00:9::5"], "{mac:?}");
        assert_eq!(Moved::by_going(&both), None, "its next holder announces it");
    }
}

#[test]
fn a_chosen_one_comes_and_goes() {
    let one = attachment(Some(chosen()), &[V4, V6]);
    assert_eq!(announced(&one), ["10.9.0.5", "fd00:9::5"]);
    let moved = Moved::by_going(&one).unwrap();
    assert_eq!((moved.mac, moved.addresses), (derived(), vec!["10.9.0.5".parse().unwrap()]));
}
