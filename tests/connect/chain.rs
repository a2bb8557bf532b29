//! Networks that CNI plugins make which are Spoke's own.

use serde_json::{Value, json};

use crate::bed::Bed;

/// Each of the plugins has a record, and it is one attachment all the same.
#[test]
fn what_a_chain_made_is_shown_once() {
    let bed = Bed::new(&["one", "two"]);
    let list = json!({"name": "listed", "cniVersion": "1.0.0", "plugins": [
        {"type": "bridge", "bridge": "listed0", "isGateway": true,
         "ipam": {"type": "host-local", "subnet": "10.96.0.0/24"}},
        {"type": "tuning", "mtu": 1300},
        {"type": "portmap", "snat": true, "runtimeConfig": {"portMappings":
            [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]}},
    ]});
    std::fs::write(bed.world.path("/run/list.conflist"), list.to_string()).expect("a list");
    // The list may be called as the network, and as another network.
    bed.spoke("network create --subnet 10.71.3.0/24 other");
    let shown = |name: &str| -> Vec<[String; 3]> {
        let rows = bed.json(&format!("ps -o json {name}"));
        let text = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
        let rows = rows.as_array().expect("a list").iter();
        rows.map(|row| [text(row, "container"), text(row, "network"), text(row, "driver")])
            .collect()
    };
    for network in ["listed", "front2"] {
        bed.spoke(&format!(
            "network create -d cni --conflist /run/list.conflist --cni-path /opt/cni/bin {network}"
        ));
        bed.spoke(&format!("network connect {network} one"));
        let rows = shown("");
        let of: Vec<_> = rows.iter().filter(|row| row[1] != "gwbridge").collect();
        assert_eq!(of, [&["one".to_owned(), network.to_owned(), "cni".to_owned()]]);
        let ports = bed.json(&format!("ps -o json {network}"))[0]["ports"].clone();
        assert_eq!(ports[0]["host_port"], 8080, "{ports}");
        assert_eq!(ports.as_array().map(Vec::len), Some(1), "{ports}");
        // A caller that asks for it by the name in the book sees it.
        let inner = if network == "listed" { "listed.plugins" } else { "listed" };
        assert_eq!(shown(inner)[0][1..], [inner.to_owned(), "bridge".to_owned()]);
        // Another container with the same name elsewhere is not a part of it.
        bed.spoke("network connect other two --container one");
        assert_eq!(shown("other").len(), 1);
        assert!(shown("").iter().any(|row| row[1] == "other"));
        bed.spoke("network disconnect other one");
        bed.spoke(&format!("network disconnect {network} one"));
        bed.spoke(&format!("network rm {network}"));
    }
    assert_eq!(shown(""), Vec::<[String; 3]>::new());
}
