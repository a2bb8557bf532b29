//! Links.

use std::os::fd::AsFd;
use std::process::Command;

use model::{Kind, Mac, Mtu};
use netlink::link::OperState;
use netlink::wire::Batch;
use netlink::{At, Change, Errno, Links, NewBridge, Peer, Reaper, Socket, Veth, reap};

use crate::{elsewhere, find, isolated, make_pair, name, simple};

#[test]
fn a_veth_is_born_in_two_namespaces() {
    isolated(|| {
        let container = elsewhere();
        let mut socket = Socket::route().unwrap();
        let (bridge, host, inner) = (name("br0"), name("vethhost"), name("eth0"));
        let mac = Mac::new([2, 0, 0, 0, 0, 7]);
        let mut batch = Batch::new();
        batch.new_bridge(&NewBridge {
            name: &bridge,
            mac: Some(mac),
            mtu: None,
            vlan_filtering: false,
            up: true,
        });
        socket.send(&mut batch).unwrap().into_result().unwrap();
        let master = socket.link(At::Name(&bridge)).unwrap().unwrap();
        assert_eq!((master.mac, master.kind.as_deref()), (Some(mac), Some("bridge")));

        let netns = Some(container.as_fd());
        let peer = Peer { name: &inner, index: Some(5), mac: Some(mac), netns };
        let mut batch = Batch::new();
        batch.new_veth(&Veth {
            index: Some(1234),
            mtu: Mtu::new(1400),
            master: Some(master.index),
            group: Some(77),
            peer,
            ..simple(&host, &inner)
        });
        let flags = [Change::Hairpin(true), Change::Isolated(true), Change::GroupForward(0xfffd)];
        let port = [&[Change::NoIpv6Addresses][..], &flags].concat();
        batch.change_link(At::Name(&host), &port);
        socket.send(&mut batch).unwrap().into_result().unwrap();

        let link = socket.link(At::Index(1234)).unwrap().unwrap();
        assert_eq!((&link.name, link.mtu, link.group), (&host, 1400, 77));
        assert_eq!((link.master, link.peer), (Some(master.index), Some(5)));
        assert!(link.peer_netns.is_some() && link.flags.is_up());
        let port = link.port.unwrap();
        assert!(port.hairpin && port.isolated);
        assert_eq!(port.group_forward, 0xfffd);

        let mut inside = container.enter(Socket::route).unwrap().unwrap();
        let link = inside.link(At::Index(5)).unwrap().unwrap();
        assert_eq!((&link.name, link.mac, link.mtu), (&inner, Some(mac), 1400));
        assert!(!link.flags.is_up());
        let mut batch = Batch::new();
        batch.change_link(At::Index(1), &[Change::Up(true)]);
        batch.change_link(At::Index(5), &[Change::Up(true)]);
        inside.send(&mut batch).unwrap().into_result().unwrap();
        let link = inside.link(At::Index(5)).unwrap().unwrap();
        assert!(link.flags.is_up() && link.flags.has_carrier());
        assert_eq!(link.state, OperState::Up);

        let ports = Links { master: Some(master.index), kind: Some("veth") };
        let ports = socket.links(ports).unwrap();
        assert_eq!(ports.iter().map(|link| link.index).collect::<Vec<_>>(), [1234]);
        assert_eq!(socket.links(Links::default()).unwrap().len(), 3);
    });
}

#[test]
fn a_bridge_may_separate_vlans() {
    isolated(|| {
        let mut socket = Socket::route().unwrap();
        let bridge = name("br0");
        let mut batch = Batch::new();
        batch.new_bridge(&NewBridge {
            name: &bridge,
            mac: None,
            mtu: Mtu::new(1400),
            vlan_filtering: true,
            up: false,
        });
        let outcome = socket.send(&mut batch).unwrap();
        if outcome.failures().iter().any(|failure| failure.errno == Errno::OPNOTSUPP) {
            return; // A kernel built without VLANs in bridges says so.
        }
        outcome.into_result().unwrap();
        let output = Command::new("ip").args(["-d", "link", "show", "br0"]).output().unwrap();
        assert!(String::from_utf8_lossy(&output.stdout).contains("vlan_filtering 1"));
    });
}

#[test]
fn every_message_of_a_batch_has_its_own_result() {
    isolated(|| {
        let mut socket = Socket::route().unwrap();
        make_pair(&mut socket, "a", "b");
        let mut batch = Batch::new();
        let twice = batch.new_veth(&simple(&name("a"), &name("c")));
        let missing = batch.delete_link(At::Name(&name("none")));
        let fine = batch.change_link(At::Name(&name("a")), &[Change::Mtu(Mtu::new(1300).unwrap())]);
        assert_eq!((twice, missing, fine), (0, 1, 2));
        let outcome = socket.send(&mut batch).unwrap();
        let errors: Vec<_> = outcome.failures().iter().map(|f| (f.index, f.errno)).collect();
        assert_eq!(errors, [(0, Errno::EXIST), (1, Errno::NODEV)]);
        assert_eq!(find(&mut socket, "a").unwrap().mtu, 1300);

        let error = outcome.except(Errno::NODEV).into_result().unwrap_err();
        assert_eq!(error.kind(), Kind::Conflict);
        assert!(error.to_string().starts_with("making veth a with peer c: "), "{error}");
        let outcome = socket.send(&mut batch).unwrap();
        outcome.except_at(0, Errno::EXIST).except_at(1, Errno::NODEV).into_result().unwrap();
    });
}

#[test]
fn links_change_and_go() {
    isolated(|| {
        let mut socket = Socket::route().unwrap();
        make_pair(&mut socket, "a", "b");
        let index = find(&mut socket, "a").unwrap().index;
        let mac = Mac::new([2, 1, 1, 1, 1, 1]);
        let changes = [
            Change::Up(false),
            Change::Promiscuous(true),
            Change::AllMulticast(true),
            Change::Mac(mac),
            Change::TxQueue(42),
            Change::Group(5),
            Change::Alias("spoke".to_owned()),
            Change::Name(name("z")),
        ];
        let mut batch = Batch::new();
        batch.change_link(At::Index(index), &changes);
        socket.send(&mut batch).unwrap().into_result().unwrap();
        let link = find(&mut socket, "z").unwrap();
        assert_eq!((link.index, link.mac, link.tx_queue, link.group), (index, Some(mac), 42, 5));
        assert_eq!(link.alias.as_deref(), Some("spoke"));
        assert!(!link.flags.is_up());
        assert!(link.flags.is_promiscuous() && link.flags.is_all_multicast());
        assert_eq!(find(&mut socket, "a"), None);
    });
}

#[test]
fn reaped_links_are_gone() {
    isolated(|| {
        let container = elsewhere();
        let mut socket = Socket::route().unwrap();
        let links = [name("one"), name("two"), name("never-was")];
        for (at, link) in (10..).zip(&links[..2]) {
            let inner = name("eth0");
            let netns = Some(container.as_fd());
            let peer = Peer { name: &inner, index: Some(at), mac: None, netns };
            let inner_name = name(&format!("eth{at}"));
            let mut batch = Batch::new();
            batch.new_veth(&Veth {
                peer: Peer { name: &inner_name, ..peer },
                ..simple(link, &inner)
            });
            socket.send(&mut batch).unwrap().into_result().unwrap();
        }
        reap(&links, Some(Socket::netfilter().unwrap())).unwrap();
        for link in &links {
            assert_eq!(socket.link(At::Name(link)).unwrap(), None);
        }
        let mut inside = container.enter(Socket::route).unwrap().unwrap();
        let left = inside.links(Links::default()).unwrap();
        assert_eq!(left.iter().map(|link| link.name.as_str()).collect::<Vec<_>>(), ["lo"]);
        reap(&links, None).unwrap();
        reap(&[], Some(Socket::netfilter().unwrap())).unwrap();
        reap(&[], None).unwrap();
    });
}

#[test]
fn what_cannot_be_reaped_is_reported() {
    isolated(|| {
        let error = reap(&[name("lo")], None).unwrap_err();
        assert!(error.to_string().starts_with("deleting lo: "), "{error}");
    });
}

#[test]
fn threads_reap_without_making_the_caller_wait() {
    isolated(|| {
        let container = elsewhere();
        let reaper = Reaper::new();
        let mut socket = Socket::route().unwrap();
        // More than threads may wait at once.
        let links: Vec<_> = (0..40).map(|n| name(&format!("v{n}"))).collect();
        for link in &links {
            let inner = name(&format!("eth{link}"));
            let mut batch = Batch::new();
            batch.new_veth(&Veth {
                peer: Peer { name: &inner, index: None, mac: None, netns: Some(container.as_fd()) },
                ..simple(link, &inner)
            });
            socket.send(&mut batch).unwrap().into_result().unwrap();
        }
        for some in links.chunks(2) {
            reaper.reap(some).unwrap();
            for link in some {
                assert_eq!(socket.link(At::Name(link)).unwrap(), None);
            }
        }
        reaper.reap(&links).unwrap();
        reaper.reap(&[]).unwrap();
        let error = reaper.reap(&[name("lo")]).unwrap_err();
        assert!(error.to_string().starts_with("deleting lo: "), "{error}");
    });
}

#[test]
fn a_caller_after_the_answer_finds_the_name_free() {
    isolated(|| {
        let container = elsewhere();
        let reaper = Reaper::new();
        let mut socket = Socket::route().unwrap();
        let (link, inner) = (name("again"), name("eth0"));
        for round in 0..60 {
            let mut batch = Batch::new();
            match round % 3 {
                0 => {
                    let bridge = NewBridge {
                        name: &link,
                        mac: None,
                        mtu: None,
                        vlan_filtering: false,
                        up: round % 2 == 0,
                    };
                    batch.new_bridge(&bridge);
                }
                _ => {
                    let netns = Some(container.as_fd());
                    let peer = Peer { name: &inner, index: None, mac: None, netns };
                    let up = round % 2 == 0;
                    batch.new_veth(&Veth { peer, up, ..simple(&link, &inner) });
                }
            }
            socket.send(&mut batch).unwrap().into_result().unwrap();
            reaper.reap(std::slice::from_ref(&link)).unwrap();
            if round % 2 == 0 {
                assert_eq!(socket.link(At::Name(&link)).unwrap(), None, "round {round}");
            }
        }
    });
}
