//! Open vSwitch's database.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;

use model::{IfName, Kind};
use netlink::Netns;
use neutron::ovsdb::{Bridge, Datapath, NewPort, Ovsdb};

use crate::bed::{Switch, isolated, run};
use crate::{PORTS, id, mac};

#[test]
fn bridges_are_looked_up_over_either_transport() {
    isolated(|| {
        let switch = Switch::start();
        switch.vsctl("--no-wait add-br br-kernel -- set bridge br-kernel datapath_type=system");
        let local = switch.database();
        let remote = format!("tcp:127.0.0.1:{}", switch.port);
        for address in [local, remote] {
            let mut database = Ovsdb::connect(&address).unwrap();
            let mut of = |name: &str| database.bridge(&name.parse().unwrap()).unwrap();
            assert_eq!(of("br-int"), Some(Bridge { datapath: Datapath::Program }));
            assert_eq!(of("br-kernel"), Some(Bridge { datapath: Datapath::Kernel }));
            assert_eq!(of("br-none"), None);
        }
        let refused = Ovsdb::connect("tcp:127.0.0.1:1").err().unwrap();
        assert_eq!(refused.kind(), Kind::TryAgain);
        assert!(refused.to_string().contains("tcp:127.0.0.1:1"), "{refused}");
        let nothing = Ovsdb::connect("unix:/nowhere/db.sock").err().unwrap();
        assert_eq!(nothing.kind(), Kind::TryAgain);
    });
}

#[test]
fn a_port_is_one_neutron_ports_in_one_bridge() {
    isolated(|| {
        let switch = Switch::start();
        switch.vsctl("add-br br-two -- set bridge br-two datapath_type=netdev");
        run("ip link add tapx type veth peer name other; ip link set tapx up");
        let mut database = Ovsdb::connect(&switch.database()).unwrap();
        let (bridge, second): (IfName, IfName) =
            ("br-int".parse().unwrap(), "br-two".parse().unwrap());
        let (end, port, other) = ("tapx".parse().unwrap(), id(PORTS[0]), id(PORTS[1]));
        let new = NewPort { bridge: &bridge, end: &end, port: &port, mac: mac(2), device: "d" };
        database.plug(&new).unwrap();
        let row = switch.vsctl("get port tapx _uuid");
        database.plug(&new).unwrap();
        assert_eq!(switch.vsctl("get port tapx _uuid"), row);

        let taken = database.plug(&NewPort { port: &other, ..new }).unwrap_err();
        assert_eq!(taken.kind(), Kind::Conflict);
        assert!(taken.to_string().contains(PORTS[0]), "{taken}");
        assert!(!database.unplug(&end, &other, "d").unwrap());
        // Another container that claims the port has not plugged it.
        assert!(!database.unplug(&end, &port, "another").unwrap());
        assert_eq!(switch.ports("br-int"), ["tapx"]);

        // A device of this name that is there now is another container's: the first one's is gone.
        let later = NewPort { device: "later", ..new };
        database.plug(&later).unwrap();
        assert_eq!(switch.vsctl("get interface tapx external_ids:vm-uuid").trim(), "later");
        database.plug(&new).unwrap();

        database.plug(&NewPort { bridge: &second, ..new }).unwrap();
        assert!(switch.ports("br-int").is_empty());
        assert_eq!(switch.ports("br-two"), ["tapx"]);

        // As kuryr-libnetwork's script makes it.
        run("ip link add tapk type veth peer name otherk");
        switch.vsctl(&format!(
            "add-port br-int tapk -- set interface tapk external_ids:iface-id={other} \
             external_ids:owner=kuryr external_ids:vm-uuid=dk"
        ));
        let mut all = database.plugged().unwrap();
        all.sort_by(|one, other| one.end.cmp(&other.end));
        let reported: Vec<_> =
            all.iter().map(|it| (it.end.as_str(), &it.port, &*it.device, it.is_ours)).collect();
        assert_eq!(reported, [("tapk", &other, "dk", false), ("tapx", &port, "d", true)]);

        assert!(database.unplug(&end, &port, "d").unwrap());
        assert!(!database.unplug(&end, &port, "d").unwrap());
        assert!(database.unplug(&"tapk".parse().unwrap(), &other, "dk").unwrap());
        assert!(switch.ports("br-int").is_empty() && switch.ports("br-two").is_empty());
    });
}

#[test]
fn many_may_plug_at_once() {
    isolated(|| {
        let switch = Switch::start();
        let host = Netns::current().unwrap();
        let work = |number: usize| {
            let end: IfName = format!("tap{number}").parse().unwrap();
            run(&format!(
                "ip link add {end} type veth peer name other{number}; ip link set {end} up"
            ));
            let (bridge, port) = ("br-int".parse().unwrap(), id(&format!("port-{number}")));
            let device = number.to_string();
            let new =
                NewPort { bridge: &bridge, end: &end, port: &port, mac: mac(2), device: &device };
            let mut database = Ovsdb::connect(&switch.database()).unwrap();
            database.plug(&new).unwrap();
            database.plug(&new).unwrap();
            if number.is_multiple_of(2) {
                assert!(database.unplug(&end, &port, &device).unwrap());
            }
        };
        thread::scope(|threads| {
            for number in 0..16 {
                let (work, host) = (&work, &host);
                threads.spawn(move || host.enter(|| work(number)).unwrap());
            }
        });
        let mut left = switch.ports("br-int");
        left.sort();
        let mut wanted: Vec<String> = (1..16).step_by(2).map(|it| format!("tap{it}")).collect();
        wanted.sort();
        assert_eq!(left, wanted);
    });
}

/// What a client makes of a server that sends this when it is called.
fn reported(bytes: &'static [u8]) -> (Result<Option<Bridge>, model::Error>, String) {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("db.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let server = thread::spawn(move || {
        let (mut stream, _): (UnixStream, _) = listener.accept().unwrap();
        let mut call = [0; 4096];
        let _ = stream.read(&mut call).unwrap();
        stream.write_all(bytes).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut rest = String::new();
        let _ = stream.read_to_string(&mut rest);
        rest
    });
    let mut database = Ovsdb::connect(&format!("unix:{}", socket.display())).unwrap();
    let bridge = database.bridge(&"br-int".parse().unwrap());
    drop(database);
    (bridge, server.join().unwrap())
}

#[test]
fn servers_are_not_trusted() {
    let (bridge, said) = reported(
        br#"{"method":"update","params":[],"id":null} {"method":"echo","params":["x"],"id":"echo"}
        {"id":77,"result":[],"error":null}
        {"id":1,"result":[{"rows":[{"datapath_type":"netdev"}]}],"error":null}"#,
    );
    assert_eq!(bridge.unwrap(), Some(Bridge { datapath: Datapath::Program }));
    assert!(said.contains(r#""id":"echo""#) && said.contains(r#""result":["x"]"#), "{said}");

    let refused = |bytes| reported(bytes).0.unwrap_err();
    assert_eq!(refused(b"HTTP/1.1 400 Bad Request").kind(), Kind::Invalid);
    assert_eq!(refused(br#"{"id":1,"result":"#).kind(), Kind::TryAgain);
    assert_eq!(refused(br#"{"id":1,"result":{},"error":null}"#).kind(), Kind::Invalid);
    let unknown = refused(br#"{"id":1,"result":null,"error":{"error":"unknown database"}}"#);
    assert!(unknown.kind() == Kind::Kernel && unknown.to_string().contains("unknown database"));
    assert_eq!(reported(br#"{"id":1,"result":[{"rows":7}],"error":null}"#).0.unwrap(), None);
}
