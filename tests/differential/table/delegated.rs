//! IPAM plugins that neither side knows: what they refuse reaches the caller in their own words.

use serde_json::{Value, json};
use tests::{Feature, Plugins};

use super::{bridge, dummy, ipvlan, macvlan, tap, vlan};
use crate::row::{Row, Step, with};

/// Refuses the command that the file `/run/refuses` names, with what `/run/answer` has.
const PICKY: &str = r#"
mkdir /run/known && mount --bind /opt/cni/bin /run/known && mount -t tmpfs none /opt/cni/bin
ln -s /run/known/* /opt/cni/bin/
cat >/opt/cni/bin/picky <<'end'
#!/bin/sh
cat >/dev/null
if [ "$CNI_COMMAND" = "$(cat /run/refuses)" ]; then
    echo "the server is asked" >&2
    cat /run/answer
    exit 3
fi
[ "$CNI_COMMAND" != ADD ] || echo '{"cniVersion":"1.0.0","ips":[{"address":"10.9.0.5/24","gateway":"10.9.0.1"}]}'
end
chmod 755 /opt/cni/bin/picky
echo '{"cniVersion":"1.0.0","code":123,"msg":"no lease","details":"192.0.2.1 is silent"}' >/run/answer
echo nothing >/run/refuses
ip link add uplink address c2:00:00:00:00:07 type veth peer name wire
ip link set uplink up; ip link set wire up
"#;

const CODE: &str = "a failure has a code: where the plugin tells none the reference tells 0";
const CODES: &[&str] = &["- answer 0 error.code: 0", "+ answer 0 error.code: 999"];

fn picky(more: Value) -> Value {
    with(more, &json!({"ipam": {"type": "picky"}}))
}

/// `plugin` whose source refuses `command`.
fn refused(plugin: Value, command: &str, script: &str) -> Row {
    let kind = plugin["type"].as_str().unwrap_or_default().to_owned();
    let name: &'static str = format!("delegated: {kind}, {command} refused {script}").leak();
    let refuse: &'static str = format!("echo {command} >/run/refuses; {script}").leak();
    let steps = match command {
        "ADD" => vec![Step::Sh(refuse), Step::Add],
        "CHECK" => vec![Step::Add, Step::Sh(refuse), Step::Check],
        "STATUS" => vec![Step::Sh(refuse), Step::Ask("STATUS")],
        _ => vec![Step::Add, Step::Sh(refuse), Step::Del],
    };
    let version = if command == "STATUS" { "1.1.0" } else { "1.0.0" };
    Row::new(name, version, &[picky(plugin)]).before(PICKY).steps(&steps).answers_only()
}

pub(crate) fn rows() -> Vec<Row> {
    let ptp = || json!({"type": "ptp"});
    let device = json!({"type": "host-device", "device": "uplink"});
    let plugins = [
        bridge::plugin(&json!({})),
        ptp(),
        macvlan::plugin(&json!({})),
        device,
        tap::plugin(&json!({})),
    ];
    let commands = ["ADD", "CHECK", "DEL"];
    let mut rows: Vec<Row> = plugins
        .iter()
        .flat_map(|plugin| commands.map(|command| refused(plugin.clone(), command, "")))
        .collect();
    rows.extend([
        refused(bridge::plugin(&json!({})), "STATUS", ""),
        refused(ptp(), "ADD", r#"echo '{"msg":"no lease"}' >/run/answer"#).differs(CODE, CODES),
        refused(ptp(), "ADD", r#"echo '{"code":11,"msg":"try later"}' >/run/answer"#),
        refused(ptp(), "ADD", "echo no object >/run/answer").differs(CODE, CODES).differs(
            "each parser of JSON has its own words",
            &["error.msg: \"netplugin failed but error parsing its diagnostic message"],
        ),
        refused(ptp(), "ADD", ": >/run/answer").differs(CODE, CODES),
        of_the_reference(),
    ]);
    rows
}

/// A third party's program: the reference's `host-local` under a name of which neither side
/// knows more.
fn of_the_reference() -> Row {
    let program = Plugins::reference().dir().join("host-local");
    let before: &'static str =
        format!("{PICKY}\ncp {} /opt/cni/bin/theirs", program.display()).leak();
    let ipam = json!({"type": "theirs", "subnet": "10.9.0.0/30"});
    Row::new(
        "delegated: host-local of the reference, exhausted",
        "1.0.0",
        &[json!({"type": "ptp", "ipam": ipam})],
    )
    .before(before)
    .steps(&[Step::Add, Step::AddOther("c2"), Step::Check, Step::Del])
    .answers_only()
}

/// What a kernel may lack.
pub(crate) fn lacking(feature: Feature) -> Vec<Row> {
    let plugin = match feature {
        Feature::Vlan => vlan::plugin(&json!({})),
        Feature::Ipvlan => ipvlan::plugin(&json!({})),
        Feature::Dummy => dummy::plugin(&json!({})),
        _ => return Vec::new(),
    };
    let wraps = |row: Row| {
        row.differs(
            "vlan of the reference puts its own words around the plugin's, and loses its code",
            &["2 Add: - answer 0 error.", "2 Add: + answer 0 error."],
        )
    };
    let row = |command: &str| refused(plugin.clone(), command, "");
    let add = if feature == Feature::Vlan { wraps(row("ADD")) } else { row("ADD") };
    vec![add, row("CHECK"), row("DEL")]
}
