//! firewalld's policies between zones, and networks of ours in one of the zones.

use tests::{Serve, World};

use crate::firewalld::{ask, connect, interfaces, listen, spoke, works, world};

/// A reload forgets in which zones interfaces are, and the daemon puts our bridge back.
const TRUSTED: &str = "timeout 20 sh -c 'until nft list chain inet firewalld filter_FORWARD_ZONES | grep -q trusted; do sleep 0.05; done'";

/// Makes a policy from zone to zone with this target, and waits until it holds for our bridge: firewalld leads the
/// interfaces of a zone to a policy a moment after it has put them into the zone.
#[track_caller]
fn policy(world: &World, name: &str, zones: (&str, &str), target: &str) {
    between_zones(world, name, zones, target);
    world.sh(TRUSTED);
    if [zones.0, zones.1].contains(&"trusted") {
        let leads =
            format!("nft list table inet firewalld | grep -q \"name.*jump.*_policy_{name}\"");
        world.sh(&format!("timeout 20 sh -c 'until {leads}; do sleep 0.05; done'"));
    }
}

/// The same where no bridge of ours is in the zone `trusted`.
#[track_caller]
fn between_zones(world: &World, name: &str, (from, to): (&str, &str), target: &str) {
    world.sh(&format!(
        "mkdir -p /etc/firewalld/policies; cat >/etc/firewalld/policies/{name}.xml <<END
<policy priority=\"-10\" target=\"{target}\">
<ingress-zone name=\"{from}\"/><egress-zone name=\"{to}\"/></policy>
END
firewall-cmd -q --reload"
    ));
}

#[track_caller]
fn no_policy(world: &World, name: &str) {
    world
        .sh(&format!("rm /etc/firewalld/policies/{name}.xml; firewall-cmd -q --reload; {TRUSTED}"));
}

/// With the host's own device in the zone `public` by name: by default alone no policy holds for it.
fn in_public() -> World {
    let world = world();
    world.sh(
        "firewall-cmd -q --permanent --zone=public --add-interface=up0; firewall-cmd -q --reload",
    );
    world
}

/// What the container is answered by a machine outside.
#[track_caller]
fn outwards(world: &World) -> String {
    listen(world, "lan");
    let heard = ask(world, "one", "192.0.2.2", 80);
    if heard.is_empty() {
        // No client took what it says.
        assert_eq!(ask(world, "lan", "127.0.0.1", 80), "hello");
    }
    heard
}

/// What a machine outside is answered by the container, by a route and at its published port.
#[track_caller]
fn inwards(world: &World) -> [String; 2] {
    [("10.79.0.2", 80), ("192.0.2.1", 8080)].map(|(host, port)| {
        listen(world, "one");
        let heard = ask(world, "lan", host, port);
        if heard.is_empty() {
            assert_eq!(ask(world, "one", "127.0.0.1", 80), "hello");
        }
        heard
    })
}

/// A policy from or to the zone of our bridges decides on them, as it does on a program's packets.
/// What was translated passes before firewalld asks any policy, on Docker's bridges too.
#[test]
fn policies_of_the_bridges_zone_hold() {
    let world = in_public();
    let _daemon = Serve::start(&world, &[]);
    let bridge = connect(&world);
    works(&world);
    // The host's own services, which the zone trusts.
    let service = "(echo host | busybox nc -l -p 81) >/dev/null 2>&1 &
        until grep -q \":0051 .* 0A \" /proc/net/tcp /proc/net/tcp6; do sleep 0.05; done";
    world.sh(service);
    assert_eq!(ask(&world, "one", "10.79.0.1", 81), "host");
    world.sh(service);
    policy(&world, "other", ("public", "internal"), "REJECT");
    policy(&world, "in", ("public", "trusted"), "DROP");
    works(&world);
    policy(&world, "host", ("trusted", "HOST"), "REJECT");
    assert_eq!(ask(&world, "one", "10.79.0.1", 81), "", "from trusted to the host");
    assert_eq!(
        (outwards(&world), inwards(&world)),
        ("hello".into(), ["", "hello"].map(String::from))
    );
    policy(&world, "out", ("trusted", "public"), "REJECT");
    assert_eq!(
        (outwards(&world), inwards(&world)),
        (String::new(), ["", "hello"].map(String::from))
    );
    no_policy(&world, "out");
    works(&world);
    assert_eq!(interfaces(&world, "trusted"), bridge, "after so many reloads");
}

/// A policy that accepts lets routes in, where the network does.
#[test]
fn a_policy_opens_routes() {
    let world = in_public();
    let _daemon = Serve::start(&world, &[]);
    world.netns("one");
    let options = "--subnet 10.79.0.0/24 --direct";
    spoke(&world, &format!("create {options} net"));
    spoke(&world, "connect net one --container one --publish 8080:80");
    assert_eq!(inwards(&world), ["", "hello"]);
    policy(&world, "in", ("public", "trusted"), "ACCEPT");
    assert_eq!(inwards(&world), ["hello", "hello"]);
    no_policy(&world, "in");
    assert_eq!(inwards(&world), ["", "hello"]);
}

/// Two networks, each in a zone of the administrator's: what lies between them is the policy's.
#[test]
fn policies_between_two_networks() {
    let world = world();
    for name in ["one", "two"] {
        world.netns(name);
        world.sh(&format!(
            "mkdir -p /etc/firewalld/zones
             echo '<zone><interface name=\"br-{name}\"/></zone>' >/etc/firewalld/zones/{name}.xml"
        ));
    }
    world.sh("firewall-cmd -q --reload");
    for (number, name) in ["one", "two"].into_iter().enumerate() {
        spoke(&world, &format!("create --subnet 10.79.{number}.0/24 --bridge br-{name} n{name}"));
        spoke(&world, &format!("connect n{name} {name} --container {name}"));
    }
    let between = |from: &str, to: &str, host: &str| {
        listen(&world, to);
        let heard = ask(&world, from, host, 80);
        if heard.is_empty() {
            assert_eq!(ask(&world, to, "127.0.0.1", 80), "hello");
        }
        heard
    };
    let both = || [between("one", "two", "10.79.1.2"), between("two", "one", "10.79.0.2")];
    assert_eq!(both(), ["", ""], "no policy accepts");
    between_zones(&world, "there", ("one", "two"), "ACCEPT");
    assert_eq!(both(), ["hello", ""]);
    between_zones(&world, "back", ("two", "one"), "ACCEPT");
    assert_eq!(both(), ["hello", "hello"]);
    world.sh("rm /etc/firewalld/policies/there.xml; firewall-cmd -q --reload");
    assert_eq!(both(), ["", "hello"]);
    let trusted = interfaces(&world, "trusted");
    assert_eq!(trusted, "", "no bridge was taken out of its zone");
}
