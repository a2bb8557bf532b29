//! Containers on a segment that others are on too.

use engine::port::Driver;
use linux::identity::shim_link;
use linux::{Life, Linux};
use model::*;

use super::bed::*;
use super::*;

#[test]
fn host_and_container_reach_each_other() {
    isolated(|| {
        let other = lan();
        run("ip address add fd00:77::1/64 dev lan0 nodad");
        other.run("ip address add fd00:77::9/64 dev eth0 nodad");
        let linux = Linux::new(Life::Long);
        let (one, two) = (Container::new(), Container::new());
        let kind = || LinkKind::Macvlan(Macvlan { host_access: true, ..macvlan(parent("lan0")) });
        let front = network(kind());
        let shim = shim_link(&front.name).unwrap();
        for _ in 0..2 {
            linux.up(&front).unwrap();
        }
        assert!(link(&shim).unwrap().flags.is_up());
        let first = bare("one", kind(), "10.77.0.2/24", &one.sandbox);
        let mut second = bare("two", kind(), "10.77.0.3/24", &two.sandbox);
        let v6 = "fd00:77::3/64".parse().unwrap();
        second.addresses.push(InterfaceAddress { address: v6, gateway: None, interface: None });
        linux.attach(&first).unwrap();
        linux.attach(&second).unwrap();
        run("ping -c1 -W2 10.77.0.2; ping -c1 -W2 10.77.0.3; ping -c1 -W2 fd00:77::3");
        one.run("ping -c1 -W2 10.77.0.1; ping -c1 -W2 10.77.0.3; ping -c1 -W2 10.77.0.9");
        two.run("ping -c1 -W2 fd00:77::1; ping -c1 -W2 fd00:77::9");
        // The rest of the segment knows one device of the host.
        other.run("ping -c1 -W2 10.77.0.1");
        let mac = link(&"lan0".parse().unwrap()).unwrap().mac.unwrap();
        assert!(other.run("ip neighbour show 10.77.0.1").contains(&mac.to_string()));
        linux.detach(&first).unwrap();
        assert!(!run("ip route").contains("10.77.0.2"));
        run("ping -c1 -W2 10.77.0.3");
        linux.detach(&second).unwrap();
        assert!(
            !run("ip route; ip -6 route").contains(shim.as_str())
                || !run("ip route").contains("10.77.0.3")
        );
        for _ in 0..2 {
            linux.remove(&front).unwrap();
        }
        assert!(link(&shim).is_none());
        linux.attach(&first).unwrap();
        run("ping -c1 -W2 10.77.0.2");
        linux.detach(&first).unwrap();
    });
}

#[test]
fn who_has_an_address_answers_for_it() {
    isolated(|| {
        let _other = lan();
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        let kind = LinkKind::Macvlan(Macvlan { probe: true, ..macvlan(parent("lan0")) });
        let mut first = bare("one", kind, "10.77.0.9/24", &one.sandbox);
        linux.connect(&first).unwrap();
        let taken: std::net::IpAddr = "10.77.0.9".parse().unwrap();
        assert_eq!(linux.answers(&first).unwrap(), [taken]);
        first.addresses[0].address = "10.77.0.8/24".parse().unwrap();
        let began = std::time::Instant::now();
        assert!(linux.answers(&first).unwrap().is_empty());
        assert!(began.elapsed() < std::time::Duration::from_secs(2), "{:?}", began.elapsed());
        let became = linux.complete(&first).unwrap();
        assert_eq!(became.interfaces[0].mac, linux.hardware_address(&first));
        linux.check(&first, &became).unwrap();
        one.run("ping -c1 -W2 10.77.0.9");
        linux.detach(&first).unwrap();
    });
}
