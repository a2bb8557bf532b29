//! `spoke network rename` of a network that nothing is on.

use tests::{Remains, Trace};

use crate::bed::{Bed, Live, SPOKE};

#[test]
fn what_is_kept_under_the_name_goes_with_it() {
    let bed = Bed::new(&["web", "api"]);
    bed.spoke("network set front --mtu 1400 --publish lan --label tier=web");
    bed.spoke("network connect --publish 8080:80 front web");
    bed.serve("web");
    bed.spoke("port add web 8443:80");
    bed.spoke("limit web 10mbit");
    bed.spoke("network create --subnet 10.74.2.0/24 back");
    bed.refuses("network rename nobody edge", 3, &["no network nobody"]);
    bed.spoke("network disconnect front web");
    bed.spoke("ipam reserve 10.74.1.77 --for db --network front");
    bed.refuses("network rename front back", 4, &["back already exists"]);
    bed.refuses("network rename front gwbridge", 2, &["gwbridge"]);

    assert_eq!(bed.spoke("network rename front edge"), "edge\n");
    bed.refuses("network inspect front", 3, &["no network front"]);
    let shown = &bed.json("network inspect edge")[0];
    let given = (&shown["mtu"], &shown["publish"], &shown["labels"]["tier"], &shown["bridge"]);
    assert_eq!(given, (&1400.into(), &"lan".into(), &"web".into(), &"sp-edge".into()));
    assert!(!bed.world.sh("ip -o link").contains("sp-front"));
    let held = bed.spoke("ipam show edge");
    assert!(held.contains("10.74.1.77") && held.contains("db"), "{held}");
    bed.spoke("network connect --publish 8080:80 edge web");
    assert_eq!((bed.page(8080), bed.page(8443)), ("web".into(), "web".into()));
    assert!(bed.spoke("limit web").contains("edge"));
    assert!(bed.world.sh("ip -n web -o link").contains("mtu 1400"));
    // The old name is free, with its bridge's.
    bed.spoke("network create --subnet 10.74.9.0/24 front");
    bed.spoke("network connect front api");
    bed.spoke("network disconnect front api");
    bed.spoke("network disconnect edge web");
    bed.spoke("network rm front edge back");
    assert!(!bed.world.sh("ip -o link").contains("sp-"));
}

#[test]
fn a_former_name_removes_nothing() {
    let bed = Bed::new(&["web"]);
    bed.spoke("network connect --publish 8080:80 front web");
    bed.spoke("network rename front edge");
    let shown = bed.spoke("firewall status");
    assert!(shown.contains("edge") && !shown.contains("front"), "{shown}");
    assert_eq!(bed.json("firewall status")["ports"][0]["network"], "edge");
    bed.spoke("network create --subnet 10.74.9.0/24 front");
    bed.spoke("network rm --force front");
    // The same command again means the network that is gone, and not the one that was called so.
    for command in ["network rm --force front", "network rm front"] {
        bed.refuses(command, 4, &["no network is called front", "spoke network rm edge"]);
    }
    assert_eq!(bed.json("ps")[0]["network"], "edge");
    bed.refuses("network rm edge", 4, &["network edge still has an attachment", "--force"]);
    bed.spoke("network rm --force edge");
    assert_eq!(bed.json("network ls"), serde_json::json!([]));
}

#[test]
fn killed_at_each_step() {
    let bed = Bed::new(&["web"]);
    bed.spoke("network connect front web");
    bed.spoke("port add web 8443:80");
    bed.spoke("network disconnect front web");
    let (there, back) = ("network rename front edge", "network rename edge front");
    let has = |name: &str| {
        let kept = bed.spoke("port ls web").contains(name);
        (bed.try_spoke(&format!("network inspect {name}")).status == 0, kept)
    };
    bed.spoke(there);
    bed.spoke(back);
    let before = Remains::of(&bed.world);
    let trace = Trace::of_command(&bed.world, &format!("{SPOKE} {there}"));
    let changing =
        |name: &str| ["sendto", "sendmsg", "pwrite64", "renameat", "linkat"].contains(&name);
    let (mut killed, mut moments) = (0, 0);
    for moment in trace.moments().iter().filter(|it| changing(&it.name)) {
        let _ = bed.try_spoke(back);
        // Its bridge is there, as after a container that has gone.
        bed.spoke("network connect front web");
        bed.spoke("network disconnect front web");
        let answer = bed.world.try_sh(&format!("{} {SPOKE} {there}", moment.kill().join(" ")));
        moments += 1;
        killed += usize::from(answer.status == 137);
        // All of it is under one of both names.
        let is = (has("front"), has("edge"));
        let one = [((true, true), (false, false)), ((false, false), (true, true))];
        assert!(one.contains(&is), "{is:?}, killed before {moment}: {answer:?}");
        let _ = bed.try_spoke(there);
        assert_eq!(has("edge"), (true, true), "{moment}");
    }
    bed.spoke(back);
    println!("{killed} kills in {moments} moments");
    assert!(moments > 0 && killed * 10 > moments * 8, "{killed} of {moments}");
    let left = Remains::of(&bed.world).changes(&before);
    assert_eq!(left, Vec::<String>::new());
}
