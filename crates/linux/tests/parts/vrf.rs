//! VRFs.

use engine::port::Driver;
use linux::{Life, Linux};
use model::*;
use tests::Feature;

use crate::bed::{Container, attachment, bridge, isolated};
use crate::{chained, name};

fn member(link: &Attachment, vrf: &str, table: Option<u32>) -> Attachment {
    let vrf = Some(Vrf { name: name(vrf), table });
    chained(link, Layer::Vrf, Wiring { vrf, ..Wiring::default() })
}

#[test]
fn a_vrf_has_its_members_routes_and_goes_with_the_last() {
    isolated(|| {
        if Feature::Vrf.is_missing() {
            return;
        }
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        let mut parts = Vec::new();
        for (ifname, address) in [("eth0", "10.88.0.2/24"), ("eth1", "fd00::2/64")] {
            let mut link = attachment("one", bridge(), address, &one.sandbox);
            link.id.ifname = name(ifname);
            let LinkKind::Bridge(bridge) = &mut link.wiring.link.as_mut().unwrap().kind else {
                unreachable!()
            };
            bridge.name = name(&format!("br-{ifname}"));
            linux.attach(&link).unwrap();
            parts.push(member(&link, "blue", None));
        }
        let became: Vec<Attached> = parts.iter().map(|part| linux.attach(part).unwrap()).collect();
        for (part, became) in parts.iter().zip(&became) {
            linux.check(part, became).unwrap();
            linux.attach(part).unwrap();
        }
        let shown = one.run("ip route show vrf blue");
        assert!(
            shown.contains("default via 10.88.0.1") && shown.contains("10.88.0.0/24"),
            "{shown}"
        );
        let shown = one.run("ip -6 route show vrf blue; ip -6 addr show dev eth1");
        assert!(shown.contains("default via fd00::1") && shown.contains("fd00::2/64"), "{shown}");
        one.run("ping -c1 -W2 -I blue 10.88.0.1; ping -c1 -W2 -I blue fd00::1");
        let other = member(&parts[0], "blue", Some(77));
        assert_eq!(linux.attach(&other).unwrap_err().kind(), Kind::Conflict);
        linux.detach(&parts[0]).unwrap();
        assert!(linux.check(&parts[0], &became[0]).is_err());
        linux.check(&parts[1], &became[1]).unwrap();
        linux.detach(&parts[1]).unwrap();
        linux.detach(&parts[1]).unwrap();
        assert!(!one.run("ip -br link").contains("blue"));
    });
}

#[test]
fn a_kernel_without_vrfs_says_so() {
    isolated(|| {
        if !Feature::Vrf.is_missing() {
            return;
        }
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        let link = attachment("one", bridge(), "10.88.0.2/24", &one.sandbox);
        linux.attach(&link).unwrap();
        let part = member(&link, "blue", None);
        assert_eq!(linux.attach(&part).unwrap_err().kind(), Kind::Unsupported);
        linux.detach(&part).unwrap();
        let gone = Sandbox { path: "/nowhere".into(), inode: 1 };
        linux.detach(&Attachment { sandbox: Some(gone), ..part }).unwrap();
    });
}
