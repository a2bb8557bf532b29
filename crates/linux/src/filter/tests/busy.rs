//! A container that resolves names without end changes the ruleset at each answer.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use model::{DomainName, Fence, IfName, Protocol};
use netlink::{Socket, nft};

use super::space::Space;
use crate::filter::fence::{self, Fenced, Opening, Own, Reach};

/// More than one datagram of the kernel's can list.
const MANY: u32 = 1500;

fn fenced(bridge: &str, rules: &str) -> Fenced {
    let fence: Fence = rules.parse().unwrap();
    let network = bridge.parse().unwrap();
    let gateways = vec!["10.1.2.1/24".parse().unwrap()];
    Fenced {
        network,
        bridge: bridge.parse().unwrap(),
        gateways,
        fence,
        reach: Reach::default(),
        beside: None,
    }
}

fn own(bridge: &IfName, rules: &str) -> Own {
    let id = doubles::attachment_id("a", "c");
    let sources = vec!["10.1.2.7".parse().unwrap()];
    let gateways = vec!["10.1.2.1/24".parse().unwrap()];
    let (fence, near) = (rules.parse().unwrap(), Vec::new());
    Own {
        id,
        bridge: bridge.clone(),
        sender: None,
        sources,
        gateways,
        fence,
        near,
        reach: Reach::default(),
    }
}

fn opening(source: [u8; 4], number: u32) -> (Opening, Vec<DomainName>) {
    let one = Opening {
        bridge: "br0".parse().unwrap(),
        source: source.into(),
        destination: Ipv4Addr::from(0x0101_0000 + number).into(),
        protocol: Protocol::Tcp,
        port: 443,
    };
    (one, vec!["a.example".parse().unwrap()])
}

fn open(socket: &mut Socket, all: &[(Opening, Vec<DomainName>)]) -> bool {
    let generation = nft::generation(socket).unwrap();
    fence::open(socket, generation, (all, Duration::from_secs(600)), &[]).unwrap()
}

/// Says that it is over, however it ends.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Opens for one container, as fast as it goes, while `work` changes rules.
fn beside_openings(space: &Space, work: impl FnOnce()) {
    let is_over = AtomicBool::new(false);
    let mut socket = space.socket();
    std::thread::scope(|scope| {
        let resolving = scope.spawn(|| {
            let mut opened = 0;
            while !is_over.load(Ordering::Relaxed) {
                opened += u32::from(open(&mut socket, &[opening([10, 1, 2, 5], opened % MANY)]));
            }
            opened
        });
        {
            let _over = Over(&is_over);
            work();
        }
        assert!(resolving.join().unwrap() > 0);
    });
}

#[test]
fn rules_change_beside_a_container_that_resolves_without_end() {
    let space = Space::new();
    let mut socket = space.socket();
    let (network, other) = (fenced("br0", "*.example:443"), fenced("br1", "none"));
    fence::keep(&mut socket, &network, None).unwrap();
    fence::keep(&mut socket, &other, None).unwrap();
    let many: Vec<_> = (0..MANY).map(|number| opening([10, 1, 2, 5], number)).collect();
    many.chunks(250).for_each(|some| assert!(open(&mut socket, some)));
    for source in 10..14 {
        assert!(open(&mut socket, &[opening([10, 1, 2, source], 1)]));
    }
    beside_openings(&space, || {
        for source in 10..14 {
            let source = [10, 1, 2, source].into();
            fence::forget_source(&mut socket, &network.bridge, &[source]).unwrap();
        }
        for rules in ["*.example:443,10.9.0.0/16:443", "*.example:443"] {
            let changed = fenced("br0", rules);
            fence::ensure(&mut socket, &changed).unwrap();
            fence::prune(&mut socket, &changed).unwrap();
            let own = own(&network.bridge, rules);
            fence::keep_own(&mut socket, &own, None).unwrap();
            fence::prune_own(&mut socket, &own).unwrap();
            fence::forget_own(&mut socket, &network.bridge, &own.sources).unwrap();
        }
        fence::keep_known(&mut socket, std::slice::from_ref(&network), &[]).unwrap();
        fence::unfence(&mut socket, &other.bridge).unwrap();
    });
    let opened = fence::opened(&mut socket).unwrap();
    let busy = std::net::IpAddr::from([10, 1, 2, 5]);
    assert!(opened.keys().all(|it| it.source == busy));
    let listed = space.run("nft list set inet spoke_fence fenced");
    assert!(listed.contains("br0") && !listed.contains("br1"), "{listed}");
}
