//! `host-local` and `static`, executed as a runtime would execute a plugin.

use serde_json::{Value, json};

use crate::row::{Row, Step, with};

const THREE: &[Step] = &[
    Step::Add,
    Step::AddOther("c2"),
    Step::AddOther("c3"),
    Step::Check,
    Step::Del,
    Step::AddOther("c4"),
];

fn local(name: &'static str, ipam: &Value) -> Row {
    let ipam = with(json!({"type": "host-local"}), ipam);
    Row::new(name, "1.0.0", &[json!({"type": "host-local", "ipam": ipam})])
}

fn fixed_row(name: &'static str, more: &Value) -> Row {
    let base = json!({"type": "static", "ipam": {
        "type": "static", "addresses": [{"address": "10.9.0.5/24", "gateway": "10.9.0.1"}],
    }});
    Row::new(name, "1.0.0", &[with(base, more)])
}

pub(crate) fn host_local() -> Vec<Row> {
    let subnet = || json!({"subnet": "10.9.0.0/24"});
    let mut rows = vec![
        local("host-local", &subnet()),
        local("host-local: order of addresses", &subnet()).steps(THREE),
        local("host-local: range", &with(subnet(), &json!({"rangeStart": "10.9.0.10", "rangeEnd": "10.9.0.12"})))
            .steps(THREE),
        local("host-local: gateway", &with(subnet(), &json!({"gateway": "10.9.0.254"}))),
        local("host-local: routes", &with(subnet(), &json!({
            "routes": [{"dst": "0.0.0.0/0"}, {"dst": "192.0.2.0/24", "gw": "10.9.0.3"}],
        }))),
        local("host-local: two range sets", &json!({"ranges": [[{"subnet": "10.9.0.0/24"}], [{"subnet": "10.8.0.0/24"}]]})),
        local("host-local: two ranges of one set", &json!({"ranges": [[
            {"subnet": "10.9.0.0/30"}, {"subnet": "10.8.0.0/30"},
        ]]}))
        .steps(THREE)
        .code(102),
        local("host-local: dual stack", &json!({"ranges": [[{"subnet": "10.9.0.0/24"}], [{"subnet": "fd09::/64"}]]})),
        local("host-local: folder", &with(subnet(), &json!({"dataDir": "/run/elsewhere"}))),
        local("host-local: resolv.conf", &with(subnet(), &json!({"resolvConf": "/run/resolv.conf"})))
            .before("printf 'nameserver 192.0.2.53\\nsearch a.example b.example\\noptions ndots:2\\n' >/run/resolv.conf"),
        local("host-local: IP by CNI_ARGS", &subnet()).args("IP=10.9.0.50"),
        local("host-local: IP by args", &subnet()).key("args", json!({"cni": {"ips": ["10.9.0.51"]}})),
        local("host-local: ADD twice", &subnet()).steps(&[Step::Add, Step::Add, Step::Del])
            .code(101),
        local("host-local: DEL twice", &subnet()).steps(&[Step::Add, Step::Del, Step::Del]),
        local("host-local: CHECK without reservation", &subnet())
            .steps(&[Step::Add, Step::Sh("rm /var/lib/cni/networks/net/10.*"), Step::Check])
            .code(104),
    ];
    rows.extend(host_local_files());
    rows.extend(host_local_refusals());
    rows
}

const READS: &str = "CHECK of ours reads, and makes no lock for that";
const LOCKED: &[&str] = &["2 Check: - file /var/lib/cni/networks/net/lock "];

/// What others may have left in the directory.
fn host_local_files() -> Vec<Row> {
    let row = |name| local(name, &json!({"subnet": "10.9.0.0/24"}));
    vec![
        row("host-local: a file of bytes that are no text")
            .before("cd /var/lib; mkdir -p cni/networks/net; printf '\\377\\376' >cni/networks/net/10.9.0.2"),
        row("host-local: a directory with an address's name")
            .before("mkdir -p /var/lib/cni/networks/net/10.9.0.2"),
        row("host-local: several files of one container").steps(&[
            Step::Sh("mkdir -p /var/lib/cni/networks/net; for n in 8 9; do \
                printf 'c1\\r\\neth0' >/var/lib/cni/networks/net/10.9.0.$n; done"),
            Step::Del,
        ]),
        row("host-local: a file of a version before interfaces").steps(&[
            Step::Sh("mkdir -p /var/lib/cni/networks/net; printf c1 >/var/lib/cni/networks/net/10.9.0.9"),
            Step::Del,
        ]),
        row("host-local: a file whose name is no text").steps(&[
            Step::Sh("cd /var/lib; mkdir -p cni/networks/net; \
                printf 'c1\\r\\neth0' >cni/networks/net/$(printf '10.9.0.9\\377')"),
            Step::Del,
        ]),
        row("host-local: a file whose name is no address").steps(&[
            Step::Sh("cd /var/lib; mkdir -p cni/networks/net; printf 'c1\\r\\neth0' >cni/networks/net/note"),
            Step::Del,
        ]),
        row("host-local: another file of the container").steps(&[
            Step::Add,
            Step::Sh("printf 'c1\\r\\neth0' >/var/lib/cni/networks/net/10.9.0.9"),
            Step::Check,
            Step::Del,
        ])
        .differs(
            "DEL of ours gives back what the record says: it does not read every file",
            &["4 Del: + file /var/lib/cni/networks/net/10.9.0.9 "],
        ),
        row("host-local: a file of a version before interfaces, beside another").steps(&[
            Step::Add,
            Step::Sh("printf c1 >/var/lib/cni/networks/net/10.9.0.9"),
            Step::Check,
            Step::Del,
            Step::Del,
        ]),
        row("host-local: CHECK of a file of a version before interfaces")
            .steps(&[
                Step::Sh("mkdir -p /var/lib/cni/networks/net; printf c1 >/var/lib/cni/networks/net/10.9.0.9"),
                Step::Check,
                Step::Del,
            ])
            .differs(READS, LOCKED),
        row("host-local: a file with spaces about its owner").steps(&[
            Step::Sh("mkdir -p /var/lib/cni/networks/net; printf ' c1\\r\\neth0\\n' >/var/lib/cni/networks/net/10.9.0.9"),
            Step::Check,
            Step::Del,
        ])
        .differs(READS, LOCKED),
        row("host-local: the last address is no text")
            .before("mkdir -p /var/lib/cni/networks/net; printf '\\377' >/var/lib/cni/networks/net/last_reserved_ip.0"),
    ]
}

/// What the reference hands out, and no interface works with.
fn unusable(name: &'static str, subnet: &'static str) -> Row {
    local(name, &json!({"subnet": subnet})).refused(7).differs(
        "no interface of a container works with such an address",
        &["1 Add: - answer 0 ", "1 Add: + answer 0 ", "1 Add: - file ", "2 Del: - file "],
    )
}

fn host_local_refusals() -> Vec<Row> {
    let subnet = || json!({"subnet": "10.9.0.0/24"});
    vec![
        local("host-local: address outside", &subnet()).args("IP=10.7.0.1").refused(7).tidy(),
        local("host-local: address is the gateway", &subnet())
            .args("IP=10.9.0.1")
            .refused(7)
            .tidy(),
        local("host-local: address is taken", &subnet())
            .args("IP=10.9.0.9")
            .steps(&[Step::Add, Step::AddOther("c2")])
            .code(101),
        local("host-local: exhausted", &json!({"subnet": "10.9.0.0/30"}))
            .steps(&[Step::Add, Step::AddOther("c2")])
            .code(102),
        unusable("host-local: loopback addresses", "127.5.0.0/24"),
        unusable("host-local: addresses of groups", "224.5.0.0/24"),
        unusable("host-local: beside the limited broadcast", "255.255.255.0/24"),
        local("host-local: no range", &json!({})).refused(7).forgiving(),
        local("host-local: subnet is no prefix", &json!({"subnet": "10.9.0.0"}))
            .refused(7)
            .forgiving(),
        local("host-local: host bits", &json!({"subnet": "10.9.0.7/24"})).refused(7).forgiving(),
        local("host-local: start outside", &with(subnet(), &json!({"rangeStart": "10.7.0.1"})))
            .refused(7)
            .forgiving(),
        local(
            "host-local: overlap",
            &json!({"ranges": [[{"subnet": "10.9.0.0/24"}], [{"subnet": "10.9.0.0/25"}]]}),
        )
        .refused(7)
        .forgiving(),
        local(
            "host-local: families mixed",
            &json!({"ranges": [[{"subnet": "10.9.0.0/24"}, {"subnet": "fd09::/64"}]]}),
        )
        .refused(7)
        .forgiving(),
        local(
            "host-local: two of a family before 0.3.0",
            &json!({"ranges": [[{"subnet": "10.9.0.0/24"}], [{"subnet": "10.8.0.0/24"}]]}),
        )
        .key("cniVersion", json!("0.2.0"))
        .refused(7)
        .forgiving(),
    ]
}

pub(crate) fn fixed() -> Vec<Row> {
    let two = json!({"ipam": {
        "type": "static",
        "addresses": [{"address": "10.9.0.5/24"}, {"address": "fd09::5/64", "gateway": "fd09::1"}],
        "routes": [{"dst": "0.0.0.0/0", "gw": "10.9.0.1"}], "dns": {"nameservers": ["192.0.2.53"]},
    }});
    let none = json!({"ipam": {"type": "static"}});
    vec![
        fixed_row("static", &json!({})),
        fixed_row("static: dual stack, routes, dns", &two),
        fixed_row("static: by CNI_ARGS", &none).args("IP=10.9.0.6/24;GATEWAY=10.9.0.1"),
        fixed_row(
            "static: by args",
            &with(none.clone(), &json!({"args": {"cni": {"ips": ["10.9.0.7/24"]}}})),
        ),
        fixed_row(
            "static: by runtimeConfig",
            &with(none.clone(), &json!({"capabilities": {"ips": true}})),
        )
        .runtime(json!({"ips": ["10.9.0.8/24"]})),
        fixed_row("static: nothing", &none).refused(7),
        fixed_row(
            "static: no prefix",
            &json!({"ipam": {"type": "static", "addresses": [{"address": "10.9.0.5"}]}}),
        )
        .refused(7),
    ]
}

/// A source that names a server, and what the network itself says about names.
pub(crate) fn own_dns(dns: &Value) -> Value {
    json!({"dns": dns, "ipam": {
        "type": "static", "addresses": [{"address": "10.9.0.5/24", "gateway": "10.9.0.1"}],
        "dns": {"nameservers": ["192.0.2.53"]},
    }})
}
