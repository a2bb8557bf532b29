//! Commands that change one network or container at the same time. No daemon puts right what they leave.

use serde_json::Value;

use crate::bed::{Bed, Live, SPOKE};

const ROUNDS: usize = 15;

impl Bed {
    /// Runs these commands at once; each succeeds.
    #[track_caller]
    fn at_once(&self, commands: &[&str]) {
        let started: Vec<String> =
            commands.iter().map(|it| format!("{SPOKE} {it} & all+=($!)")).collect();
        self.world.sh(&format!(
            "all=(); {}; for one in ${{all[@]}}; do wait $one || exit 1; done",
            started.join("; ")
        ));
    }

    fn shown(&self) -> Value {
        self.json("network inspect front")[0].clone()
    }

    /// The MTU of each of the network's devices, where it is another one.
    fn other_mtus(&self, mtu: &str, namespaces: &[&str]) -> String {
        let inner = namespaces.iter().map(|it| format!("; ip -n {it} -o link show eth0"));
        self.world.sh(&format!(
            "{{ ip -o link | grep -E ': (sp-|veth)'{}; }} | grep -v 'mtu {mtu} ' || true",
            inner.collect::<String>()
        ))
    }

    /// From where ports are reached, as the packet filter has it for this address.
    fn reach(&self, address: &str) -> &'static str {
        let is_in = |set: &str| {
            self.world.try_sh(&format!("nft list set inet spoke {set}")).stdout.contains(address)
        };
        match (is_in("lan_only4"), is_in("local_only4")) {
            (false, false) => "any",
            (true, false) => "lan",
            (false, true) => "local",
            (true, true) => "lan and local",
        }
    }
}

#[test]
fn of_two_values_the_recorded_one_holds() {
    let bed = Bed::new(&["web", "api", "one", "two"]);
    for (at, name) in ["web", "api", "one", "two"].iter().enumerate() {
        let ip = format!("--ip 10.74.1.{}", 12 + at);
        bed.spoke(&format!("network connect --publish {}:80 {ip} front {name}", 8080 + at));
    }
    for round in 0..ROUNDS {
        bed.at_once(&[
            "network set front --publish any --mtu 1401",
            "network set front --publish local --mtu 1402",
            "network set front --publish lan",
        ]);
        let shown = bed.shown();
        let (mtu, reach) = (shown["mtu"].to_string(), shown["publish"].as_str().unwrap_or("any"));
        assert_eq!(
            bed.other_mtus(&mtu, &["web", "api", "one", "two"]),
            "",
            "round {round}: {shown}"
        );
        for at in 12..16 {
            assert_eq!(bed.reach(&format!("10.74.1.{at}")), reach, "round {round}: {at}");
        }
        let ports = bed.json("port ls").to_string();
        let listed = ports.matches(&format!("\"reach\":\"{reach}\"")).count();
        assert_eq!(listed, 4, "round {round}: {reach} {ports}");
    }
}

#[test]
fn what_comes_meanwhile_follows() {
    let bed = Bed::new(&["web", "api"]);
    bed.spoke("network create --subnet 10.74.2.0/24 --egress none shut");
    bed.spoke("network connect --ip 10.74.2.12 shut web");
    for round in 0..ROUNDS {
        let (mtu, reach) = if round % 2 == 0 { (1401, "local") } else { (1402, "lan") };
        let set = format!("network set shut --publish {reach} --mtu {mtu}");
        bed.at_once(&[
            "network connect --publish 8081:80 --ip 10.74.2.13 shut api",
            &set,
            "port add web 8080:80",
            "limit web 10mbit",
            "limit web 20mbit",
            "egress set shut 0.0.0.0/0:1-65535",
        ]);
        assert_eq!(bed.other_mtus(&mtu.to_string(), &["web", "api"]), "", "round {round}");
        for address in ["10.74.2.12", "10.74.2.13"] {
            assert_eq!(bed.reach(address), reach, "round {round}: {address}");
        }
        let shown = &bed.json("network inspect shut")[0];
        assert!(shown["egress"].to_string().contains("0.0.0.0/0"), "round {round}: {shown}");
        bed.spoke("egress set shut none");
        bed.spoke("network disconnect shut api");
        bed.spoke("port rm web 8080");
    }
}

/// A process that is killed may leave in the kernel what another one has recorded otherwise: the next one, or
/// `spoke gc`, puts it right.
#[test]
fn what_a_killed_command_left_is_put_right() {
    let bed = Bed::new(&["web"]);
    bed.spoke("network connect --publish 8080:80 --ip 10.74.1.12 front web");
    for mend in ["gc", "network set front --mtu 1400"] {
        bed.spoke("network set front --mtu 1400 --publish lan");
        bed.world.sh(
            "for link in $(ip -o link | awk -F'[ :@]+' '{ print $2 }' | grep -E '^(sp-|veth)'); do ip link set $link mtu 1300; done
            ip -n web link set eth0 mtu 1300",
        );
        bed.world.sh(
            "element=$(nft list set inet spoke lan_only4 | grep -o '10.74.1.12 comment \"[^\"]*\"')
            nft add element inet spoke local_only4 \"{ $element }\"",
        );
        assert_eq!(bed.reach("10.74.1.12"), "lan and local");
        bed.spoke(mend);
        assert_eq!(bed.other_mtus("1400", &["web"]), "", "{mend}");
        assert_eq!(bed.reach("10.74.1.12"), "lan", "{mend}");
    }
}

/// A port that could lead nowhere is refused, and an address that no interface, or another one, has.
#[test]
fn what_can_do_nothing_is_refused() {
    let bed = Bed::new(&["web", "api", "both"]);
    bed.spoke("network create --subnet fd00:74::/64 six");
    for (publish, family) in [("0.0.0.0:8601:80", "IPv4"), ("127.0.0.1:8601:80", "IPv4")] {
        let command = format!("network connect --publish {publish} six web");
        bed.refuses(&command, 2, &[family, "network six"]);
        bed.refuses(&command.replace("web", "--tap vm"), 2, &[family, "network six"]);
    }
    bed.refuses("network connect --publish [::]:8601:80 front web", 2, &["IPv6", "network front"]);
    // A container that has such an address by another network has its ports there.
    bed.spoke("network connect front both");
    bed.spoke("network connect --publish 0.0.0.0:8602:80 six both");
    let mac = "02:00:00:00:00:07";
    bed.spoke(&format!("network connect --mac-address {mac} front web"));
    let bridge = bed.world.sh("cat /sys/class/net/sp-front/address");
    for (wrong, code, word) in [
        ("ff:ff:ff:ff:ff:ff", 2, "broadcast"),
        ("01:00:5e:00:00:01", 2, "multicast"),
        ("00:00:00:00:00:00", 2, "is none"),
        (mac, 4, "container web"),
        (bridge.trim(), 4, "the bridge"),
    ] {
        for who in ["api", "--tap vm"] {
            let command = format!("network connect --mac-address {wrong} front {who}");
            bed.refuses(&command, code, &["--mac-address", wrong, word]);
        }
    }
    assert_eq!(bed.spoke("ps -q").lines().count(), 3);
    // The same container may come again with its address.
    bed.spoke("network disconnect front web");
    bed.spoke(&format!("network connect --mac-address {mac} front web"));
}

/// The device would go with the network.
#[test]
fn a_backup_takes_no_device_of_others() {
    let bed = Bed::new(&[]);
    bed.spoke("network create --subnet 10.74.3.0/24 --bridge lab0 lab");
    bed.spoke("backup /run/book");
    bed.spoke("network rm lab");
    bed.world.sh("ip link add lab0 type bridge");
    bed.refuses("restore /run/book", 4, &["network lab", "lab0", "another program"]);
    bed.world.sh("ip link del lab0; ip link add lab0 type veth peer name lab1");
    bed.refuses("restore /run/book", 4, &["network lab", "lab0", "no bridge"]);
    bed.world.sh("ip link del lab0");
    bed.spoke("restore /run/book");
    assert!(bed.spoke("network ls -q").contains("lab"));
}
