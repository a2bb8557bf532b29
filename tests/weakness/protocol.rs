//! What the protocol's commands should do and say.

use serde_json::{Value, json};
use tests::{Cni, Remains};

use crate::bed::{accepted, bridge, compare, left, list, many, ok, ours, refused, single, used};

#[test]
fn gc_with_an_empty_list_removes_nothing() {
    compare(|world| {
        let mut list = list(&json!([bridge(&json!({}))]));
        let mut cni = Cni::new(world);
        let base = used(&mut cni, &list);
        ok(&cni.add(&list));
        list["cni.dev/valid-attachments"] = json!([]);
        ok(&cni.ask(&list, "GC"));
        left(&cni, &base)
    });
}

#[test]
fn gc_is_not_forwarded_to_address_plugins() {
    compare(|world| {
        let mut list = list(&json!([{"type": "host-local", "ipam": many()}]));
        let mut cni = Cni::new(world);
        let base = used(&mut cni, &list);
        ok(&cni.add(&list));
        list["cni.dev/valid-attachments"] = json!([]);
        ok(&cni.ask(&list, "GC"));
        left(&cni, &base)
    });
}

#[test]
fn status_succeeds_with_an_exhausted_pool() {
    compare(|world| {
        let of_bridge = list(&json!([bridge(&json!({"ipam": single()}))]));
        let alone = list(&json!([{"type": "host-local", "ipam": single()}]));
        let mut cni = Cni::new(world);
        ok(&cni.add(&of_bridge));
        let mut wrong = accepted("STATUS of bridge", &cni.ask(&of_bridge, "STATUS"));
        wrong.extend(accepted("STATUS of host-local", &cni.ask(&alone, "STATUS")));
        wrong
    });
}

#[test]
fn dhcp_status_succeeds_without_a_daemon() {
    compare(|world| {
        let list = list(&json!([{"type": "dhcp", "ipam": {"type": "dhcp"}}]));
        accepted("STATUS of dhcp", &Cni::new(world).ask(&list, "STATUS"))
    });
}

#[test]
fn errors_carry_no_version_and_code_999() {
    compare(|world| {
        let mut cni = Cni::new(world);
        let full = list(&json!([bridge(&json!({"ipam": single()}))]));
        ok(&cni.add(&full));
        let mut errors = vec![cni.add(&full)];
        let mut other = Cni::container(world, "c2");
        errors.push(other.add(&full));
        let mut add = |plugin: Value| errors.push(other.add(&list(&json!([plugin]))));
        add(bridge(&json!({"bridge": "lo"})));
        add(bridge(&json!({"mtu": 5_000_000})));
        add(json!({"type": "macvlan", "master": "nothing", "ipam": many()}));
        add(json!({"type": "macvlan", "mode": "fast", "ipam": many()}));
        let mut wrong = Vec::new();
        for error in errors.into_iter().flatten() {
            let said = error.json().expect("an error");
            if said["cniVersion"] != "1.1.0" || said["code"] == 999 {
                wrong.push(said.to_string());
            }
        }
        wrong
    });
}

#[test]
fn the_plugins_own_namespace_gets_the_interface() {
    compare(|world| {
        let list = list(&json!([bridge(&json!({}))]));
        let mut cni = Cni::new(world);
        let base = used(&mut cni, &list);
        cni.netns = "/proc/self/ns/net".into();
        let config = cni.config(&list, &list["plugins"][0], "ADD", None).to_string();
        let answer = cni.execute("bridge", "ADD", &config);
        let documents =
            serde_json::Deserializer::from_str(&answer.output.stdout).into_iter::<Value>().count();
        let mut wrong = left(&cni, &base);
        if documents != 1 {
            wrong.push(format!("{documents} documents: {}", answer.output.stdout));
        }
        wrong
    });
}

#[test]
fn check_of_a_bridge_without_addresses_fails() {
    compare(|world| {
        let list = list(&json!([{"type": "bridge", "bridge": "br9"}]));
        let mut cni = Cni::new(world);
        ok(&cni.add(&list));
        refused("CHECK", &cni.check(&list))
    });
}

#[test]
fn failed_addresses_leave_the_interface() {
    compare(|world| {
        let list = list(&json!([bridge(&json!({"ipam": single()}))]));
        let mut cni = Cni::new(world);
        ok(&cni.add(&list));
        let mut second = Cni::container(world, "c2");
        second.ifname = "eth7".into();
        let base = Remains::of(world);
        assert!(!second.add(&list)[0].ok(), "there is no second address");
        left(&second, &base)
    });
}

#[test]
fn a_hardware_address_in_cni_args_fails_with_host_local() {
    compare(|world| {
        let list = list(&json!([bridge(&json!({}))]));
        let mut cni = Cni::new(world);
        cni.args = "MAC=02:00:00:00:00:42".into();
        refused("ADD", &cni.add(&list))
    });
}

/// CHECK after another program has removed what this list made; `flush` removes it.
fn check_after(plugins: &Value, flush: &'static str) {
    compare(|world| {
        let list = list(plugins);
        let mut cni = Cni::new(world);
        ok(&cni.add(&list));
        ok(&cni.check(&list));
        world.sh(flush);
        accepted("CHECK", &cni.check(&list))
    });
}

#[test]
fn check_ignores_masquerading() {
    check_after(&json!([bridge(&json!({"ipMasq": true}))]), "nft flush ruleset");
}

#[test]
fn check_ignores_the_spoof_check() {
    check_after(&json!([bridge(&json!({"macspoofchk": true}))]), "nft flush ruleset");
}

#[test]
fn check_ignores_the_ingress_policy() {
    let firewall =
        json!({"type": "firewall", "ingressPolicy": "same-bridge", "backend": "iptables"});
    let flush = "iptables -F CNI-ISOLATION-STAGE-1; iptables -F CNI-ISOLATION-STAGE-2";
    check_after(&json!([bridge(&json!({})), firewall]), flush);
}

#[test]
fn check_of_sbr_is_empty() {
    let flush = "ip -n c1 rule | grep 'from 10.9' | cut -d: -f1 \\
                 | xargs -n 1 ip -n c1 rule del pref";
    compare(|world| {
        let mut cni = Cni::new(world);
        ok(&cni.add(&list(&json!([bridge(&json!({})), {"type": "sbr"}]))));
        // The reference's bridge does not understand what its sbr did to the routes.
        let alone = list(&json!([{"type": "sbr"}]));
        ok(&cni.check(&alone));
        world.sh(flush);
        accepted("CHECK", &cni.check(&alone))
    });
}

#[test]
fn route_attributes_are_not_applied() {
    compare(|world| {
        let mut ipam = many();
        ipam["routes"] = json!([{"dst": "10.50.0.0/16", "mtu": 1300, "advmss": 1200}]);
        let mut cni = Cni::new(world);
        ok(&cni.add(&list(&json!([bridge(&json!({"ipam": ipam}))]))));
        let shown = world.sh("ip -n c1 route show 10.50.0.0/16");
        let lacks = |part: &&str| !shown.contains(part);
        let parts = ["mtu 1300", "advmss 1200"].into_iter().filter(lacks);
        parts.map(|part| format!("{part} is missing: {shown}")).collect()
    });
}

/// Type `spoke` has what a chain has, so it is asked the same.
#[test]
fn our_own_type_has_none_of_it() {
    ours(|world| {
        let mut list = list(&json!([{"type": "spoke", "ipam": single(), "ipMasq": true}]));
        let mut cni = Cni::new(world);
        let base = used(&mut cni, &list);
        ok(&cni.add(&list));
        ok(&cni.check(&list));
        let mut wrong = accepted("STATUS of a full pool", &cni.ask(&list, "STATUS"));
        world.sh("nft flush ruleset");
        wrong.extend(accepted("CHECK without rules", &cni.check(&list)));
        list["cni.dev/valid-attachments"] = json!([]);
        ok(&cni.ask(&list, "GC"));
        wrong.extend(left(&cni, &base));
        wrong
    });
}
