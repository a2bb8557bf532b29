//! Segments of Open vSwitch through CNI.

use serde_json::{Value, json};
use tests::neutron_switch::Switch;
use tests::{Answer, Cni};

use crate::bed::Bed;

fn list(name: &str, plugin: &Value) -> Value {
    json!({"name": name, "cniVersion": "1.1.0", "plugins": [plugin]})
}

#[track_caller]
fn ok(answers: &[Answer]) {
    assert!(answers.iter().all(Answer::ok), "{answers:?}");
}

#[track_caller]
fn address(cni: &Cni<'_>, at: usize) -> String {
    let result = cni.result.as_ref().expect("a result");
    let address = result["ips"][at]["address"].as_str().expect("an address");
    address.split('/').next().unwrap().to_owned()
}

#[track_caller]
fn reaches(cni: &Cni<'_>, address: &str) {
    cni.world.sh(&format!("ip netns exec {} ping -c 1 -W 5 {address}", cni.container));
}

/// The life of pods on `list`, whose first network is of the switch.
fn life(bed: &Bed, switch: &Switch, list: &Value) {
    let (mut one, mut two) = (Cni::container(&bed.world, "one"), Cni::container(&bed.world, "two"));
    let mut three = Cni::container(&bed.world, "three");
    ok(&one.ask(list, "STATUS"));
    ok(&one.add(list));
    ok(&two.add(list));
    let ports = switch.ports();
    assert_eq!(ports.len(), 2, "{ports:?}");
    reaches(&one, &address(&two, 0));
    ok(&one.check(list));
    ok(&two.check(list));

    switch.vsctl(&format!("del-port br-int {}", ports[0]));
    let answers = [one.check(list), two.check(list)].concat();
    let refused: Vec<&Answer> = answers.iter().filter(|answer| !answer.ok()).collect();
    assert_eq!(refused.len(), 1, "{answers:?}");
    assert_eq!(refused[0].json().unwrap()["code"], 104, "{refused:?}");

    // What is gone from the switch keeps no DEL.
    let (gone, stays) = if answers[0].ok() { (&two, &one) } else { (&one, &two) };
    ok(&gone.del(list));
    ok(&gone.del(list));
    ok(&three.add(list));
    assert_eq!(switch.ports().len(), 2);
    let mut config = three.config(list, &list["plugins"][0], "GC", None);
    config["cni.dev/valid-attachments"] =
        json!([{"containerID": stays.container, "ifname": "eth0"}]);
    let done = three.execute("spoke", "GC", &config.to_string());
    assert!(done.ok(), "{done:?}");
    assert_eq!(switch.ports().len(), 1, "GC took the third one's");
    ok(&one.del(list));
    ok(&two.del(list));
    assert_eq!(switch.ports(), Vec::<String>::new());
    bed.world.sh("ip netns del one; ip netns del two; ip netns del three");
}

#[test]
fn pods_of_one_segment_meet() {
    let bed = Bed::new(&[]);
    let switch = Switch::start(&bed.world);
    bed.spoke("network create -d ovs --opt bridge=br-int --opt vlan=10 --subnet 10.0.0.0/24 ten");
    life(&bed, &switch, &list("pod", &json!({"type": "spoke", "network": "ten"})));
    // With a second network, which leads out.
    let both = list("pod", &json!({"type": "spoke", "networks": ["ten", "front"]}));
    life(&bed, &switch, &both);
    // The network that the configuration itself describes.
    let own = json!({"type": "spoke", "driver": "ovs", "ovs": {"bridge": "br-int", "vlan": 30},
        "ipam": {"ranges": [[{"subnet": "10.3.0.0/24"}]]}});
    life(&bed, &switch, &list("own", &own));
    bed.spoke("network rm own");
    let mut pod = Cni::container(&bed.world, "pod");
    ok(&pod.add(&both));
    let way = bed.world.sh("ip -n pod route show default");
    assert!(way.contains("10.71.1.1"), "{way}");
    reaches(&pod, "10.71.1.1");
    ok(&pod.del(&both));
    bed.spoke("network rm ten");
    assert_eq!(bed.json("gc -o json"), json!([]));
}

/// A switch that is a program takes frames past the bucket of the host's end: the network of a front end, which
/// reads options only, is limited in the container all the same.
#[test]
fn a_limit_that_comes_later_is_in_the_container() {
    let bed = Bed::new(&[]);
    let _switch = Switch::start(&bed.world);
    let own = json!({"type": "spoke", "driver": "ovs", "ovs": {"bridge": "br-int", "vlan": 30},
        "ipam": {"ranges": [[{"subnet": "10.3.0.0/24"}]]}});
    let list = list("own", &own);
    let mut pod = Cni::container(&bed.world, "pod");
    ok(&pod.add(&list));
    let buckets = |of: &str| {
        bed.world.sh(&format!("tc {of} qdisc show | grep -o 'rate [0-9A-Za-z]*' | tr '\\n' ' '"))
    };
    bed.spoke("limit pod 3mbit");
    assert_eq!((buckets("-n pod").as_str(), buckets("").as_str()), ("rate 3Mbit rate 3Mbit ", ""));
    ok(&pod.check(&list));
    bed.spoke("limit pod none");
    assert_eq!((buckets("-n pod").as_str(), buckets("").as_str()), ("", ""));
    ok(&pod.del(&list));
    bed.spoke("network rm own");
}
