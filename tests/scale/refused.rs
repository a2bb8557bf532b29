//! Input that is refused: one error object on standard output that says what is wrong and where,
//! and nothing is left behind.

use serde_json::{Value, json};
use tests::{Answer, Cni, Plugins, Remains, World};

/// A wrong ADD of container `c2` beside `c1`, which has what there is.
struct Row {
    name: &'static str,
    code: u32,
    /// What the sentences must name: the field and the value, or the thing and its holder.
    says: &'static [&'static str],
    plugin: &'static str,
    /// Environment that is different.
    env: &'static [(&'static str, &'static str)],
    input: String,
}

fn row(
    name: &'static str,
    code: u32,
    says: &'static [&'static str],
    plugin: &'static str,
    with: Value,
) -> Row {
    let mut config = base();
    with.as_object().expect("fields").iter().for_each(|(key, value)| config[key] = value.clone());
    config["type"] = plugin.into();
    Row { name, code, says, plugin, env: &[], input: config.to_string() }
}

fn environment(
    name: &'static str,
    code: u32,
    says: &'static [&'static str],
    env: &'static [(&'static str, &'static str)],
) -> Row {
    Row { env, ..row(name, code, says, "bridge", json!({})) }
}

fn text(name: &'static str, code: u32, says: &'static [&'static str], input: &str) -> Row {
    Row { name, code, says, plugin: "bridge", env: &[], input: input.into() }
}

fn base() -> Value {
    json!({"cniVersion": "1.0.0", "name": "bad", "bridge": "bad0", "isGateway": true,
        "ipam": {"type": "host-local", "subnet": "10.96.0.0/24"}})
}

fn publishing(host: u16, host_ip: Option<&str>) -> Value {
    let mut port = json!({"hostPort": host, "containerPort": 80, "protocol": "tcp"});
    if let Some(host_ip) = host_ip {
        port["hostIP"] = host_ip.into();
    }
    json!({"runtimeConfig": {"portMappings": [port]}})
}

fn addresses() -> Vec<Row> {
    let asks =
        |address: &str| json!({"capabilities": {"ips": true}, "runtimeConfig": {"ips": [address]}});
    let one = json!({"ipam": {"type": "host-local", "subnet": "10.96.0.0/24",
        "rangeStart": "10.96.0.2", "rangeEnd": "10.96.0.2"}});
    let unknown = json!({"ipam": {"type": "host-local", "subnet": "10.96.0.0/33"}});
    vec![
        row("a taken address", 101, &["10.96.0.2", "c1"], "bridge", asks("10.96.0.2")),
        row("an address outside", 7, &["10.97.0.2"], "bridge", asks("10.97.0.2")),
        row("the gateway's address", 7, &["10.96.0.1", "gateway"], "bridge", asks("10.96.0.1")),
        row("no address", 7, &["10.96.0.x"], "bridge", asks("10.96.0.x")),
        row("an exhausted pool", 102, &["bad", "10.96.0.2"], "bridge", one),
        row("no subnet", 7, &["subnet", "10.96.0.0/33"], "bridge", unknown),
    ]
}

fn ports() -> Vec<Row> {
    let held = &["c1"];
    vec![
        row("all, one is held", 101, &["8081", "c1"], "spoke", publishing(8081, None)),
        row(
            "one, all are held",
            101,
            &["8080", "c1"],
            "spoke",
            publishing(8080, Some("192.0.2.1")),
        ),
        row("the same", 101, held, "spoke", publishing(8080, None)),
        row("a listener's", 101, &["8082"], "spoke", publishing(8082, None)),
        row("a listener's at one", 101, &["8082"], "spoke", publishing(8082, Some("192.0.2.1"))),
        row("port zero", 7, &["host port", "0"], "spoke", publishing(0, None)),
        row("no address", 7, &["hostIP", "192.0.2"], "spoke", publishing(8083, Some("192.0.2"))),
    ]
}

fn options() -> Vec<Row> {
    let both = json!({"hairpinMode": true, "promiscMode": true});
    vec![
        row("unknown", 2, &["ipMask", "ipMasq"], "spoke", json!({"ipMask": true})),
        row("contradictory", 7, &["hairpin", "promisc"], "bridge", both),
        row("of another type", 7, &["mtu", "big"], "bridge", json!({"mtu": "big"})),
        row(
            "a long bridge",
            7,
            &["bridge", "sixteen-bytes-16"],
            "bridge",
            json!({"bridge": "sixteen-bytes-16"}),
        ),
        row("a bad network", 7, &["name", "a/b"], "bridge", json!({"name": "a/b"})),
        row("no version of ours", 1, &["9.9.9"], "bridge", json!({"cniVersion": "9.9.9"})),
        row("without a result", 7, &["chained"], "portmap", publishing(8084, None)),
    ]
}

fn environments() -> Vec<Row> {
    vec![
        environment("no namespace", 8, &["/etc/hostname"], &[("CNI_NETNS", "/etc/hostname")]),
        environment("a missing one", 8, &["/run/netns/no"], &[("CNI_NETNS", "/run/netns/no")]),
        environment("our own", 8, &["netns"], &[("CNI_NETNS", "/proc/self/ns/net")]),
        environment(
            "another kind",
            8,
            &["/proc/self/ns/uts"],
            &[("CNI_NETNS", "/proc/self/ns/uts")],
        ),
        environment("no container", 4, &["CNI_CONTAINERID"], &[("CNI_CONTAINERID", "")]),
        environment("a path as container", 4, &["a/b"], &[("CNI_CONTAINERID", "a/b")]),
        environment("a path as interface", 4, &["a/b"], &[("CNI_IFNAME", "a/b")]),
        environment("16 bytes", 4, &["sixteen-bytes-16"], &[("CNI_IFNAME", "sixteen-bytes-16")]),
        environment("dots", 4, &[".."], &[("CNI_IFNAME", "..")]),
        environment("no such command", 4, &["CNI_COMMAND", "ADDD"], &[("CNI_COMMAND", "ADDD")]),
        environment("bad arguments", 7, &["ARGS", "IP"], &[("CNI_ARGS", "IP")]),
    ]
}

fn texts() -> Vec<Row> {
    vec![
        text("nothing", 6, &[], ""),
        text("half", 6, &[], r#"{"cniVersion": "1.0.0", "name": "#),
        text("a list", 6, &[], "[]"),
        text("bytes", 6, &[], "\u{0}\u{1}\u{2}"),
        text("deep", 6, &[], &"[".repeat(100_000)),
        text("no name", 7, &["name"], r#"{"cniVersion":"1.0.0","type":"bridge"}"#),
    ]
}

#[test]
fn wrong_addresses() {
    each(addresses());
}

#[test]
fn wrong_ports() {
    each(ports());
}

#[test]
fn wrong_options() {
    each(options());
}

#[test]
fn wrong_environments() {
    each(environments());
}

#[test]
fn wrong_texts() {
    each(texts());
}

fn each(rows: Vec<Row>) {
    let world = World::new(&Plugins::subject());
    world.sh("ip addr add 192.0.2.1/32 dev lo");
    let _listener = listener(&world, 8082);
    let first = Cni::new(&world);
    let mut config = base();
    config["runtimeConfig"] = json!({"portMappings": [
        {"hostPort": 8080, "containerPort": 80, "protocol": "tcp"},
        {"hostPort": 8081, "hostIP": "192.0.2.1", "containerPort": 80, "protocol": "tcp"},
    ]});
    config["type"] = "spoke".into();
    let answer = first.execute("spoke", "ADD", &config.to_string());
    assert!(answer.ok(), "{answer:?}");
    let second = Cni::container(&world, "c2");
    let before = Remains::of(&world);
    let mut wrong = Vec::new();
    for row in &rows {
        let answer = refused(&second, row);
        wrong.extend(judge(row, &answer).map(|why| format!("{}: {why}: {answer:?}", row.name)));
        let changes = Remains::of(&world).changes(&before);
        if !changes.is_empty() {
            wrong.push(format!("{}: left {changes:?}", row.name));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn refused(cni: &Cni<'_>, row: &Row) -> Answer {
    let given = [
        ("CNI_COMMAND", "ADD"),
        ("CNI_CONTAINERID", &cni.container),
        ("CNI_NETNS", &cni.netns),
        ("CNI_IFNAME", &cni.ifname),
        ("CNI_PATH", Plugins::MOUNT),
    ];
    let mut env: Vec<(&str, &str)> = given.to_vec();
    env.retain(|(key, _)| !row.env.iter().any(|(other, _)| other == key));
    env.extend(row.env.iter().filter(|(_, value)| !value.is_empty()));
    cni.raw(row.plugin, &env, &row.input)
}

/// What is wrong with the refusal.
fn judge(row: &Row, answer: &Answer) -> Option<String> {
    if answer.ok() {
        return Some("not refused".into());
    }
    let Ok(error) = serde_json::from_str::<Value>(&answer.output.stdout) else {
        return Some("not one JSON document".into());
    };
    if error["code"] != row.code {
        return Some(format!("code {} instead of {}", error["code"], row.code));
    }
    if error["cniVersion"].as_str().is_none_or(str::is_empty) {
        return Some("no cniVersion".into());
    }
    // What the reference's sentence does not name, ours on standard error does.
    let said = format!("{} {} {}", error["msg"], error["details"], answer.output.stderr);
    let missing = row.says.iter().find(|part| !said.contains(**part))?;
    Some(format!("does not name {missing:?}"))
}

/// Another program's server, as long as the value lives.
fn listener(world: &World, port: u16) -> impl Drop {
    struct Server(std::process::Child);
    impl Drop for Server {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
    let mut command = world.command("busybox");
    command.args(["nc", "-ll", "-p", &port.to_string(), "-e", "/bin/true"]);
    let server = Server(command.spawn().expect("busybox starts"));
    let heard = format!("until ss -Hltn sport = :{port} | grep -q .; do sleep 0.05; done");
    world.sh(&format!("timeout 20 bash -c '{heard}'"));
    server
}
