//! Names, as programs in the namespaces read them.

use crate::bed::Bed;

#[test]
fn sandboxes_of_a_network_find_each_other() {
    let bed = Bed::new(&["web", "db"]);
    bed.spoke("network connect --ip 10.71.1.9 front web");
    assert_eq!(
        bed.reads("web", "/etc/resolv.conf"),
        "search corp.example\nnameserver 192.0.2.53\n"
    );
    assert_eq!(bed.hosts("web"), ["10.71.1.9 web"]);
    bed.world.sh("ip netns exec web ping -c 1 -W 2 127.0.0.1");

    // A program that runs already learns who comes.
    let waits = "mkfifo /world/go; ip netns exec web sh -c '
        cat /world/go; getent hosts db; getent hosts sql' >/world/found 2>&1 </dev/null & echo $! >/world/pid";
    bed.world.sh(waits);
    bed.spoke("network connect --ip 10.71.2.7 --ip6 fd71::7 --alias sql --alias sql back db");
    bed.spoke("network connect --ip 10.71.2.9 --ip6 fd71::9 back web");
    assert_eq!(
        bed.hosts("web"),
        ["10.71.2.9 web", "fd71::9 web", "10.71.1.9 web", "10.71.2.7 db sql", "fd71::7 db sql"]
    );
    assert_eq!(
        bed.hosts("db"),
        ["10.71.2.7 db sql", "fd71::7 db sql", "10.71.2.9 web", "fd71::9 web"]
    );
    bed.world.sh("echo >/world/go; while [ -d /proc/$(cat /world/pid) ]; do sleep 0.05; done");
    let found = bed.world.sh("cat /world/found");
    assert!(found.contains("fd71::7") && found.contains("sql"), "{found}");
    bed.world.sh("ip netns exec web ping -c 1 -W 5 sql");

    let shown = bed.json("ps back -o json");
    assert_eq!(shown[0]["names"], serde_json::json!(["sql"]));
    let network = bed.json("network inspect back -o json");
    let names = serde_json::json!([{"container": "db", "names": ["sql"]}]);
    assert_eq!(network[0]["names"], names);

    bed.spoke("network disconnect back db");
    assert_eq!(bed.hosts("web"), ["10.71.2.9 web", "fd71::9 web", "10.71.1.9 web"]);
    bed.spoke("network disconnect front web");
    assert_eq!(bed.hosts("web"), ["10.71.2.9 web", "fd71::9 web"]);
    bed.spoke("network disconnect back web");
    assert_eq!(bed.files(), "");
}

#[test]
fn what_is_said_for_one_is_for_that_one() {
    let bed = Bed::new(&["web", "db"]);
    bed.spoke(
        "network connect --dns 10.71.1.53 --dns fd71::53 --dns-search a.example --dns-search b.example \
         --dns-option ndots:2 front web",
    );
    bed.spoke("network connect --dns-search . front db");
    let said =
        "search a.example b.example\nnameserver 10.71.1.53\nnameserver fd71::53\noptions ndots:2\n";
    assert_eq!(bed.reads("web", "/etc/resolv.conf"), said);
    assert_eq!(bed.reads("db", "/etc/resolv.conf"), "nameserver 192.0.2.53\n");
    // Another network adds to it, and takes that with it.
    bed.spoke("network connect --gw-priority 1 --dns 10.71.2.53 back web");
    let both =
        said.replace("nameserver 10.71.1.53", "nameserver 10.71.2.53\nnameserver 10.71.1.53");
    assert_eq!(bed.reads("web", "/etc/resolv.conf"), both);
    bed.spoke("network disconnect back web");
    assert_eq!(bed.reads("web", "/etc/resolv.conf"), said);
    // Removing the network takes everybody off it.
    bed.spoke("network rm --force front");
    assert_eq!(bed.files(), "");
}

#[test]
fn the_administrators_files_stay() {
    let bed = Bed::new(&["web"]);
    bed.world.sh("mkdir -p /etc/netns/web; echo nameserver 10.5.5.5 >/etc/netns/web/resolv.conf");
    let answer = bed.world.try_sh("/opt/cni/bin/spoke network connect --dns 10.71.1.53 front web");
    assert_eq!(answer.status, 0, "{answer:?}");
    let reported: Vec<&str> = answer.stderr.lines().collect();
    assert!(
        matches!(reported[..], [one] if one.contains("/etc/netns/web/resolv.conf is not ours")),
        "{reported:?}"
    );
    assert_eq!(bed.reads("web", "/etc/resolv.conf"), "nameserver 10.5.5.5\n");
    assert_eq!(bed.hosts("web").len(), 1);
    bed.spoke("network connect back web");
    bed.world.sh("echo 10.5.5.6 more >>/etc/netns/web/hosts");
    bed.spoke("network disconnect back web");
    bed.spoke("network disconnect front web");
    assert_eq!(
        bed.files(),
        "/etc/netns\n/etc/netns/web\n/etc/netns/web/hosts\n/etc/netns/web/resolv.conf\n"
    );
    assert!(bed.hosts("web").contains(&"10.5.5.6 more".to_owned()));
}

#[test]
fn files_go_with_their_namespace() {
    let bed = Bed::new(&["web", "db"]);
    bed.spoke("network connect front web");
    bed.spoke("network connect front db");
    // The kernel takes a namespace apart after that.
    bed.world.sh("ip netns del web; while /opt/cni/bin/spoke ps -q front | grep -qx web; do /opt/cni/bin/spoke gc; done");
    assert_eq!(bed.hosts("db").len(), 1);
    assert!(!bed.files().contains("web"), "{}", bed.files());
    // Of files from before the book, as after a reboot, the collector says so before it removes them.
    bed.world.sh("cp -a /etc/netns/db /etc/netns/old");
    let found = bed.json("gc --dry-run -o json");
    assert_eq!(found[0]["kind"], "names", "{found}");
    assert_eq!(found[0]["subject"], "/etc/netns/old");
    bed.spoke("gc");
    assert!(!bed.files().contains("old"), "{}", bed.files());
    assert!(bed.files().contains("/etc/netns/db/hosts"));
}

#[test]
fn only_named_namespaces_have_files() {
    let bed = Bed::new(&["web"]);
    bed.world.sh(
        "unshare --net sleep 1000 >/dev/null 2>&1 </dev/null & echo $! >/world/pid; while [ \"$(readlink /proc/$!/ns/net)\" = \
                  \"$(readlink /proc/self/ns/net)\" ]; do sleep 0.05; done",
    );
    bed.spoke("network connect --alias anon front web");
    bed.spoke("network connect --container nameless --alias n1 front $(cat /world/pid)");
    assert_eq!(
        bed.files(),
        "/etc/netns\n/etc/netns/web\n/etc/netns/web/hosts\n/etc/netns/web/resolv.conf\n"
    );
    assert!(bed.hosts("web").iter().any(|line| line.ends_with("nameless n1")));
    let refused = bed.refused("network connect --dns 10.1.1.1 back $(cat /world/pid)");
    assert!(refused.contains("--dns") && refused.contains("no name below /run/netns"), "{refused}");
    bed.spoke("network disconnect front nameless");
    bed.world.sh("kill $(cat /world/pid)");
}

#[test]
fn many_that_come_at_once_know_each_other() {
    const MANY: usize = 12;
    let names: Vec<String> = (0..MANY).map(|number| format!("s{number}")).collect();
    let bed = Bed::new(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let all = |what: &str| {
        let calls =
            names.iter().map(|name| format!("/opt/cni/bin/spoke network {what} front {name} & "));
        let each = format!("{} wait", calls.collect::<String>());
        bed.world.sh(&format!("({each}) 2>&1 >/dev/null"))
    };
    assert_eq!(all("connect"), "");
    for name in &names {
        let known = bed.hosts(name);
        let mut known: Vec<&str> = known.iter().filter_map(|line| line.split(' ').nth(1)).collect();
        known.sort_unstable();
        let mut expected: Vec<&str> = names.iter().map(String::as_str).collect();
        expected.sort_unstable();
        assert_eq!(known, expected, "{name}");
    }
    assert_eq!(all("disconnect"), "");
    assert_eq!(bed.files(), "");
}

#[test]
fn where_nothing_can_be_written_the_network_is_there() {
    let bed = Bed::new(&["web"]);
    bed.world.sh("mkdir /etc/netns; mount -t tmpfs -o ro none /etc/netns");
    let answer = bed.world.try_sh("/opt/cni/bin/spoke network connect front web");
    assert_eq!(answer.status, 0, "{answer:?}");
    assert!(
        answer.stderr.lines().count() == 1 && answer.stderr.contains("/etc/netns/web"),
        "{answer:?}"
    );
    bed.world.sh("ip netns exec web ping -c 1 -W 5 10.71.1.1");
    bed.spoke("network disconnect front web");
}
