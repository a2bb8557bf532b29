//! `spoke limit --quota`: how much a running container may carry in a period.

use serde_json::Value;
use tests::{Remains, Serve};

use crate::bed::{Bed, Live};

/// One packet of 1,000 bytes to the host, which answers with as many.
const PING: &str = "ip netns exec web ping -q -c 1 -W 1 -s 972 10.74.1.1 >/dev/null";

impl Bed {
    #[track_caller]
    fn used(&self) -> u64 {
        self.json("limit web")[0]["used"].as_u64().expect("a number")
    }

    /// Sends and receives so many packets of 1,000 bytes each.
    #[track_caller]
    fn carry(&self, count: u32) {
        self.world().sh(&format!("for i in $(seq {count}); do {PING}; done"));
    }

    #[track_caller]
    fn is_cut_off(&self) -> bool {
        self.world().try_sh(PING).status != 0
    }

    /// Neighbours are known, and no frame but those of the test is counted: a bridge joins 224.0.0.106 in its first
    /// second.
    #[track_caller]
    fn calm(&self) {
        self.world().sh(
            "bridge=$(ip -o address | grep -o 'sp-[^ ]* *inet 10.74.1.1' | cut -d' ' -f1)
            sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv4.igmp_link_local_mcast_reports=0
            ip netns exec web sysctl -qw net.ipv6.conf.all.disable_ipv6=1
            inside=$(ip netns exec web ip -o link | grep -o 'eth[0-9]*@' | tr -d @)
            mac=$(ip netns exec web cat /sys/class/net/$inside/address)
            ip neigh replace 10.74.1.9 dev $bridge lladdr $mac nud permanent
            ip netns exec web ip neigh replace 10.74.1.1 dev $inside \
                lladdr $(cat /sys/class/net/$bridge/address) nud permanent",
        );
    }

    /// A metric of the daemon.
    #[track_caller]
    fn quota_metric(&self, name: &str) -> Option<u64> {
        let ask = "curl -sS --unix-socket /run/spoke/metrics.sock http://spoke/metrics";
        let text = self.world().sh(ask);
        let line = text.lines().find(|line| line.starts_with(&format!("{name}{{")))?;
        line.rsplit(' ').next()?.parse().ok()
    }
}

/// Whether a document says this anywhere.
fn says(value: &Value, text: &str) -> bool {
    value.to_string().contains(text)
}

#[test]
fn it_cuts_off_to_the_byte_without_a_daemon() {
    let bed = Bed::new(&["web"]);
    bed.spoke("network connect --ip 10.74.1.9 front web");
    bed.calm();
    let before = Remains::of(&bed.world);
    let said = bed.spoke("limit web --quota 10.5kB/month");
    assert_eq!(
        said,
        "web on front: receives unlimited, sends unlimited, 10500 bytes/month in all\n"
    );
    bed.carry(2);
    assert_eq!(bed.used(), 4_000);
    // A rate leaves the quota and what is used of it; a larger one counts on.
    let set = bed.json("limit web 800mbit");
    assert_eq!((&set[0]["name"], &set[0]["used"]), (&"web".into(), &4_000.into()), "{set}");
    let set = bed.json("limit web --quota 10.5kB/month");
    assert_eq!((&set[0]["quota"], &set[0]["ingress"]), (&10_500.into(), &800_000_000.into()));
    assert_eq!(set, bed.json("limit web"));
    bed.carry(3);
    assert_eq!(bed.used(), 10_000);
    let explained = bed.try_spoke("explain web host -o json").stdout;
    assert!(!explained.contains("quota"), "{explained}");
    assert!(bed.is_cut_off(), "one more is over it");
    assert_eq!(bed.used(), 10_500);
    let explained = bed.try_spoke("explain web host -o json").stdout;
    assert!(explained.contains("the quota of web is used up"), "{explained}");
    let listed = bed.spoke("limit web");
    assert!(listed.contains("10.5k/month"), "{listed}");

    // It belongs to the name.
    bed.spoke("network disconnect front web");
    assert!(says(&bed.json("limit"), "waiting"));
    assert_eq!(bed.used(), 10_500);
    bed.spoke("network connect --ip 10.74.1.9 front web");
    bed.calm();
    assert!(bed.is_cut_off(), "its successor has no other");
    bed.spoke("limit web --quota 1GB/month");
    bed.carry(1);
    assert_eq!(bed.json("limit web")[0]["period"], "month");
    bed.spoke("limit web --quota none");
    assert_eq!(bed.json("limit web")[0]["quota"], Value::Null);
    bed.spoke("limit web none");
    bed.world.sh("! nft list table bridge spoke_quota 2>/dev/null");
    bed.spoke("network disconnect front web");
    bed.spoke("network connect --ip 10.74.1.9 front web");
    bed.calm();
    assert_eq!(Remains::of(&bed.world).changes(&before), Vec::<String>::new());

    // Without the container each part of what its name keeps ends alone.
    bed.spoke("limit web 10mbit");
    bed.spoke("limit web --quota 1GB/month");
    bed.spoke("network disconnect front web");
    bed.spoke("limit web --ingress none");
    let kept = bed.json("limit web");
    assert_eq!((&kept[0]["ingress"], &kept[0]["egress"]), (&Value::Null, &Value::Null), "{kept}");
    assert_eq!(kept[0]["quota"], 1_000_000_000, "{kept}");
    bed.refuses("limit web --ingress none", 3, &["web"]);
    bed.spoke("limit web none");
    assert_eq!(bed.spoke("limit --quiet"), "");
}

/// A backup that is older than the count is no conflict.
#[test]
fn it_goes_with_the_networks_name() {
    let bed = Bed::new(&["web"]);
    bed.spoke("network connect --ip 10.74.1.9 front web");
    bed.calm();
    bed.spoke("limit web --quota 1GB/month");
    bed.spoke("backup /world/book");
    bed.carry(1);
    bed.spoke("network disconnect front web");
    bed.spoke("network rename front back");
    assert_eq!((bed.used(), bed.json("limit")[0]["network"].as_str()), (2_000, Some("back")));
    bed.spoke("network rename back front");
    bed.spoke("restore /world/book");
    assert_eq!(bed.used(), 2_000);
    bed.spoke("limit web --quota none");
    assert_eq!(bed.spoke("limit --quiet"), "");
    bed.refuses("limit web --quota 50GB", 2, &["50GB/month"]);
    bed.refuses("limit web --quota 50GB/year", 2, &["day, week or month"]);
    bed.spoke("network create -d macvlan --parent up0 --subnet 10.74.9.0/24 seg");
    bed.spoke("network connect seg web");
    bed.refuses("limit web --quota 1GB/day", 2, &["bridge or ptp"]);
    bed.spoke("network disconnect seg web");
}

#[test]
fn a_flush_and_a_killed_daemon_cost_little() {
    let bed = Bed::new(&["web"]);
    bed.spoke("network connect --ip 10.74.1.9 front web");
    bed.calm();
    bed.spoke("limit web --quota 100kB/month");
    let serve = Serve::start(&bed.world, &[]);
    bed.carry(5);
    let used = bed.used();
    assert!(used >= 10_000, "{used}");
    // In the book: from there it counts on.
    bed.until("grep -rqs \"used.:[1-9][0-9][0-9][0-9][0-9]\" /var/lib/spoke/usage");
    bed.world.sh("nft flush ruleset");
    bed.until("nft list table bridge spoke_quota 2>/dev/null | grep -q \"used [1-9]\"");
    assert!(bed.used() >= used, "{} of {used}", bed.used());
    assert_eq!(bed.quota_metric("spoke_quota_bytes"), Some(100_000));
    assert!(bed.quota_metric("spoke_quota_used_bytes").is_some_and(|it| it >= used));

    serve.kill();
    let used = bed.used();
    bed.carry(2);
    assert!(bed.used() >= used + 4_000, "the kernel counts");
    bed.spoke("gc");
    assert!(bed.used() >= used + 4_000);
    bed.spoke("limit web --quota 20kB/month");
    let cut =
        "for i in $(seq 20); do ping -q -c 1 -W 1 -s 972 10.74.1.1 >/dev/null || exit 7; done";
    let answer = bed.world.try_sh(&format!("ip netns exec web bash -c '{cut}'"));
    assert_eq!(answer.status, 7, "{answer:?}");

    // It is reported once, and written when the daemon ends.
    let serve = Serve::start(&bed.world, &[]);
    let events = "/opt/cni/bin/spoke events";
    bed.until(&format!("{events} | grep -q \"used up its quota\""));
    serve.stop();
    let serve = Serve::start(&bed.world, &[]);
    serve.stop();
    let count = bed.world.sh(&format!("{events} | grep -c \"used up its quota\""));
    assert_eq!(count.trim(), "1");
    bed.world.sh("nft flush ruleset");
    bed.spoke("gc");
    assert_eq!(bed.used(), 20_000);
    bed.spoke("network disconnect front web");
}
