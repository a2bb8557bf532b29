//! Devices of the host, and of programs in the container.

use engine::port::{Driver, Presence};
use linux::{Life, Linux};
use model::*;

use super::bed::*;
use super::*;

fn device(choice: DeviceChoice) -> LinkKind {
    LinkKind::Device(Device { choice })
}

/// Hardware of the host: a pair, of which one end stays.
fn nic() -> Mac {
    run("ip link add nic0 type veth peer name cable; ip link set cable up; ip link set nic0 up");
    link(&"nic0".parse().unwrap()).unwrap().mac.unwrap()
}

#[test]
fn a_device_of_the_host_goes_and_comes_back() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        let mac = nic();
        run("ip address add 10.77.0.1/24 dev cable");
        for choice in [DeviceChoice::Name("nic0".parse().unwrap()), DeviceChoice::Mac(mac)] {
            let first = bare("one", device(choice), "10.77.0.2/24", &one.sandbox);
            let became = linux.attach(&first).unwrap();
            assert_eq!(became.interfaces[0].mac, Some(mac));
            assert!(!run("ip -br link").contains("nic0"));
            let shown = one.run("ip link show eth0");
            assert!(shown.contains("alias nic0"), "{shown}");
            one.run("ping -c1 -W2 10.77.0.1");
            linux.check(&first, &became).unwrap();
            assert_eq!(linux.presence(&first), Presence::Alive);
            // As after a crash.
            linux.complete(&first).unwrap();
            for _ in 0..2 {
                linux.detach(&first).unwrap();
            }
            let shown = run("ip link show nic0");
            assert!(shown.contains("state DOWN") && !shown.contains("alias"), "{shown}");
            assert!(!one.run("ip -br link").contains("eth0"));
            assert!(linux.check(&first, &became).is_err());
        }
    });
}

#[test]
fn a_device_comes_back_to_a_host_with_other_devices() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        nic();
        run("ip link add eth0 type veth peer name other");
        let name = || DeviceChoice::Name("nic0".parse().unwrap());
        let first = bare("one", device(name()), "10.77.0.2/24", &one.sandbox);
        linux.attach(&first).unwrap();
        // No record has it any more.
        let mut unknown = first.clone();
        unknown.runtime = Runtime::Reference;
        unknown.addresses.clear();
        linux.detach(&unknown).unwrap();
        assert!(run("ip -br link").contains("nic0"));

        // The container has something else of that name, which stays.
        one.run("ip link add eth0 type veth peer name peer0");
        assert_eq!(linux.attach(&first).unwrap_err().kind(), Kind::Conflict);
        linux.detach(&first).unwrap();
        assert!(one.run("ip -br link").contains("eth0") && run("ip -br link").contains("nic0"));
        one.run("ip link delete eth0");

        // As the kernel gives hardware back when a namespace ends.
        linux.attach(&first).unwrap();
        let home = netlink::Netns::current().unwrap();
        use std::os::fd::{AsFd, AsRawFd};
        let fd = home.as_fd().as_raw_fd();
        one.run(&format!(
            "ip link set eth0 down; ip link set eth0 name dev7
             ip link set dev7 netns /proc/{}/fd/{fd}",
            std::process::id()
        ));
        run("ip link set dev7 up");
        let mut record = first.clone();
        record.sandbox = Some(Sandbox { path: "/not/there".into(), inode: 1 });
        linux.detach(&record).unwrap();
        linux.detach(&record).unwrap();
        let shown = run("ip link show nic0");
        assert!(shown.contains("state DOWN") && !shown.contains("alias"), "{shown}");

        let missing = device(DeviceChoice::Name("nic9".parse().unwrap()));
        let missing = bare("one", missing, "10.77.0.2/24", &one.sandbox);
        assert_eq!(linux.attach(&missing).unwrap_err().kind(), Kind::NotFound);
        linux.detach(&missing).unwrap();
    });
}

#[test]
fn a_tap_stays_without_a_program() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        one.run("ip link add br7 up type bridge");
        let tap = Tap {
            multi_queue: true,
            owner: Some(4242),
            group: Some(4243),
            selinux_context: None,
            bridge: Some("br7".parse().unwrap()),
        };
        let mut first = bare("one", LinkKind::Tap(tap.clone()), "10.77.0.2/24", &one.sandbox);
        first.wiring.link.as_mut().unwrap().mtu = Mtu::new(1400);
        let became = linux.attach(&first).unwrap();
        let shown = one.run("ip -d link show eth0");
        for part in [
            "mtu 1400",
            "tun type tap",
            "multi_queue",
            "user 4242",
            "group 4243",
            "persist on",
            "master br7",
        ] {
            assert!(shown.contains(part), "{part} in {shown}");
        }
        assert!(one.run("ip -br address show eth0").contains("10.77.0.2/24"));
        linux.check(&first, &became).unwrap();
        assert_eq!(linux.presence(&first), Presence::Alive);
        assert_eq!(
            linux
                .attach(&Attachment {
                    id: AttachmentId { network: "back".parse().unwrap(), ..first.id.clone() },
                    ..first.clone()
                })
                .unwrap_err()
                .kind(),
            Kind::Conflict
        );
        for _ in 0..2 {
            linux.detach(&first).unwrap();
        }
        assert!(!one.run("ip -br link").contains("eth0"));

        let labelled = Tap { selinux_context: Some("system_u:object_r:t:s0".into()), ..tap };
        let labelled = bare("one", LinkKind::Tap(labelled), "10.77.0.2/24", &one.sandbox);
        if !std::path::Path::new("/sys/fs/selinux").exists() {
            assert_eq!(linux.attach(&labelled).unwrap_err().kind(), Kind::Unsupported);
        }
        linux.detach(&labelled).unwrap();
    });
}
