//! What every plugin says before it looks at its own fields.

use crate::row::{Row, Step};

/// The envelope: what every plugin refuses before it looks at its own fields.
pub(crate) fn envelope() -> Vec<Row> {
    let plugins =
        ["bridge", "host-local", "portmap", "loopback", "dhcp", "firewall", "bandwidth", "vrf"];
    plugins.map(enveloped).into()
}

fn enveloped(plugin: &'static str) -> Row {
    let usual = [
        ("CNI_COMMAND", "ADD"),
        ("CNI_CONTAINERID", "c1"),
        ("CNI_NETNS", "/run/netns/c1"),
        ("CNI_IFNAME", "eth0"),
        ("CNI_PATH", "/opt/cni/bin"),
    ];
    let step = |(changed, stdin): (Changed, &'static str)| {
        let value = |(key, value)| {
            changed.iter().copied().find(|(name, _)| *name == key).unwrap_or((key, value))
        };
        let env = usual.into_iter().map(value).filter(|(_, value)| !value.is_empty()).collect();
        Step::Raw { plugin, env, stdin }
    };
    let steps: Vec<Step> = envelopes().into_iter().map(step).collect();
    let row = Row::new(format!("says: {plugin}, envelope").leak(), "1.0.0", &[]).steps(&steps);
    match plugin {
        "firewall" | "bandwidth" | "vrf" => row.answers_only().differs(
            "every plugin of ours speaks every version, and says so",
            &[
                "19 Raw firewall: - answer 0 error.details: ",
                "19 Raw firewall: + answer 0 error.details: ",
                "19 Raw bandwidth: - answer 0 error.details: ",
                "19 Raw bandwidth: + answer 0 error.details: ",
                "19 Raw vrf: - answer 0 error.details: ",
                "19 Raw vrf: + answer 0 error.details: ",
            ],
        ),
        _ => row.answers_only(),
    }
}

type Changed = Vec<(&'static str, &'static str)>;

fn envelopes() -> Vec<(Changed, &'static str)> {
    const GOOD: &str = r#"{"cniVersion":"1.0.0","name":"net"}"#;
    let one = |key, value| vec![(key, value)];
    vec![
        // no container
        (one("CNI_CONTAINERID", ""), GOOD),
        // no container, no namespace
        (vec![("CNI_CONTAINERID", ""), ("CNI_NETNS", "")], GOOD),
        // DEL without interface
        (vec![("CNI_COMMAND", "DEL"), ("CNI_IFNAME", "")], GOOD),
        // GC without path
        (vec![("CNI_COMMAND", "GC"), ("CNI_PATH", "")], GOOD),
        // container with a slash
        (one("CNI_CONTAINERID", "a/b"), GOOD),
        // container that begins with a dot
        (one("CNI_CONTAINERID", ".a"), GOOD),
        // interface of 16 bytes
        (one("CNI_IFNAME", "abcdefghijklmnop"), GOOD),
        // interface with a colon
        (one("CNI_IFNAME", "a:b"), GOOD),
        // interface ..
        (one("CNI_IFNAME", ".."), GOOD),
        // no path
        (one("CNI_PATH", ""), GOOD),
        // unknown command
        (one("CNI_COMMAND", "FROBNICATE"), GOOD),
        // no input
        (vec![], ""),
        // half an object
        (vec![], r#"{"cniVersion":"#),
        // half a string
        (vec![], r#"{"cniVer"#),
        // half a literal
        (vec![], r#"{"a":tru"#),
        // no name
        (vec![], r#"{"cniVersion":"1.0.0"}"#),
        // empty name
        (vec![], r#"{"cniVersion":"1.0.0","name":""}"#),
        // name with a slash
        (vec![], r#"{"cniVersion":"1.0.0","name":"a/b"}"#),
        // unknown version
        (vec![], r#"{"cniVersion":"9.9.9","name":"net"}"#),
        (
            // CHECK before 0.4.0
            one("CNI_COMMAND", "CHECK"),
            r#"{"cniVersion":"0.3.1","name":"net"}"#,
        ),
        // GC before 1.1.0
        (one("CNI_COMMAND", "GC"), GOOD),
        // STATUS before 1.1.0
        (one("CNI_COMMAND", "STATUS"), GOOD),
        // not JSON
        (vec![], "x"),
        // two objects
        (vec![], r#"{"name":"net"}{"#),
        // a comma too many
        (vec![], r#"{"name":"net",}"#),
        // no colon
        (vec![], r#"{"name" "net"}"#),
        // no comma
        (vec![], r#"{"name":"net" "x":1}"#),
        // a list without commas
        (vec![], r#"{"name":"net","x":[1 2]}"#),
        // a key without quotes
        (vec![], r#"{name:"net"}"#),
        // a bad literal
        (vec![], r#"{"name":"net","x":trie}"#),
        // a bad number
        (vec![], r#"{"name":"net","x":1.x}"#),
        // a bad escape
        (vec![], r#"{"name":"n\qet"}"#),
        // a line feed in a string
        (vec![], "{\"name\":\"n\net\"}"),
    ]
}
