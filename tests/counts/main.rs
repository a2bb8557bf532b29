//! What one container costs, in numbers that are the same every time: executions, forks, system
//! calls, memory and page faults; and that they do not grow with the number of the others.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use std::fmt::Write;
use std::fs;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tests::{Answer, Cni, Plugins, Running, Trace, World};

const MIB: u64 = 1 << 20;
const PLUGIN: &str = "spoke";

/// Everything that type `spoke` does.
fn everything() -> Value {
    json!({"name": "counts", "cniVersion": "1.0.0", "plugins": [{
        "type": PLUGIN, "bridge": "counts0", "ipMasq": true, "ingressPolicy": "same-bridge",
        "capabilities": {"portMappings": true}, "sysctl": {"net.ipv4.conf.eth0.arp_filter": "1"},
        "ipam": {"type": "host-local", "subnet": "10.94.0.0/16"},
    }]})
}

fn container<'a>(world: &'a World, name: &str) -> Cni<'a> {
    let mut cni = Cni::container(world, name);
    let port = json!({"hostPort": 8094, "containerPort": 80, "protocol": "tcp"});
    cni.runtime = json!({"portMappings": [port]});
    cni
}

/// Both calls of one container, counted.
fn pair(cni: &Cni<'_>, list: &Value) -> [Trace; 2] {
    ["ADD", "DEL"].map(|verb| {
        let config = cni.config(list, &list["plugins"][0], verb, None).to_string();
        let (answer, trace) = Trace::of(cni, PLUGIN, verb, &config);
        assert!(answer.ok(), "{answer:?}");
        trace
    })
}

#[test]
fn one_execution_each_and_few_calls() {
    let world = World::new(&Plugins::subject());
    let (cni, list) = (container(&world, "c1"), everything());
    let [first, _] = pair(&cni, &list);
    let [add, del] = pair(&cni, &list);
    let forks = ["clone", "clone3", "fork", "vfork"];
    let executions = ["execve", "execveat"];
    let (both, sum) = ([&add, &del], add.len() + del.len());
    println!(
        "ADD {} (the first of a network {}), DEL {}: {sum}",
        add.len(),
        first.len(),
        del.len()
    );
    assert_eq!(both.map(|trace| trace.count(&executions)), [1, 1], "executions");
    assert_eq!(add.count(&forks), 0, "forks of ADD");
    // Where orphans are not known to be reaped, as in this world's namespace of processes.
    assert_eq!(del.count(&forks), 0, "forks of DEL");
    assert!(sum <= 600, "{sum} system calls");
}

/// What a fence adds to an attach: its chains are compared by one question, however many there are.
#[test]
fn a_fence_costs_few_questions() {
    let world = World::new(&Plugins::subject());
    let asked = [json!([]), json!(["198.51.100.2:5000", "*.example.org:443"])].map(|egress| {
        let word = if egress[0].is_null() { "open" } else { "fenced" };
        let mut plugin = json!({
            "type": PLUGIN, "bridge": format!("counts-{word}"),
            "ipam": {"type": "host-local", "subnet": "10.97.0.0/16", "routes": [{"dst": "0.0.0.0/0"}]},
        });
        if word == "fenced" {
            plugin["ipam"]["subnet"] = "10.98.0.0/16".into();
            plugin["egress"] = egress;
        }
        let list = json!({"name": word, "cniVersion": "1.0.0", "plugins": [plugin]});
        let mut stays = Cni::container(&world, &format!("{word}-stays"));
        assert!(stays.add(&list).iter().all(Answer::ok));
        let [add, _] = pair(&Cni::container(&world, &format!("{word}-one")), &list);
        add.count(&["sendto"])
    });
    let [open, fenced] = asked;
    println!("an attach asks the kernel {open} times, behind a fence {fenced} times");
    assert!(fenced <= open + 8, "{fenced}, and {open} without a fence");
}

/// The first strict container of a bridge has its neighbours' rules put back: they are looked at together.
#[test]
fn the_first_strict_container_compares_rules_as_often_with_many_neighbours() {
    let world = World::new(&Plugins::subject());
    let spoke = "/opt/cni/bin/spoke";
    let asked = [2, 8].map(|count| {
        world.sh(&format!("{spoke} network create --names --subnet 10.{count}.0.0/24 n{count}"));
        for neighbour in 0..count {
            let name = format!("n{count}-{neighbour}");
            world.netns(&name);
            world
                .sh(&format!("{spoke} network connect --egress 198.51.100.2:5000 n{count} {name}"));
        }
        let name = format!("n{count}-strict");
        world.netns(&name);
        world.sh("nft flush ruleset");
        let strict = "network connect --egress 198.51.100.2:5000 --egress-strict";
        let attach = Trace::of_command(&world, &format!("{spoke} {strict} n{count} {name}"));
        let left = world.sh("nft list set inet spoke_fence own4");
        assert_eq!(left.matches(" . 10.").count(), count + 1, "{left}");
        attach.count_with("sendto", "NFT_MSG_GETRULE")
    });
    println!(
        "beside 2 neighbours rules are compared {} times, beside 8 {} times",
        asked[0], asked[1]
    );
    assert!(asked[0] > 0 && asked[0] == asked[1], "{asked:?}");
}

/// The kernel takes a transaction back only after a grace period of RCU, and frees what one deleted. A file below
/// `/proc/sys/net` is the slower to open, the more namespaces there are.
#[test]
fn a_port_of_a_running_container_waits_for_nothing() {
    let world = World::new(&Plugins::subject());
    world.netns("box");
    let spoke = "/opt/cni/bin/spoke";
    world.sh(&format!("{spoke} network create --subnet 10.95.0.0/24 front"));
    world.sh(&format!("{spoke} network connect --publish 8095:80 front box"));
    let add = Trace::of_command(&world, &format!("{spoke} port add box 8096:80"));
    assert!(add.count_with("sendto", "NFT_MSG_NEWSETELEM") > 0, "{:?}", add.calls);
    assert_eq!(add.count_with("recvfrom", "error=-EEXIST"), 0, "{:?}", add.calls);
    assert_eq!(add.count_with("openat", "/proc/sys/net"), 0, "{:?}", add.calls);
    let rm = Trace::of_command(&world, &format!("{spoke} port rm box 8096"));
    assert_eq!(rm.count_with("sendto", "NFT_MSG_DELSETELEM"), 1, "{:?}", rm.calls);
}

#[test]
fn version_is_cheap() {
    let world = World::new(&Plugins::subject());
    let cni = Cni::new(&world);
    let (answer, trace) = Trace::of(&cni, "bridge", "VERSION", r#"{"cniVersion":"1.0.0"}"#);
    assert!(answer.ok(), "{answer:?}");
    println!("VERSION {}", trace.len());
    assert!(trace.len() <= 50, "{:?}", trace.calls);
}

/// Peak of resident memory, and minor page faults. Most of that memory is the program's file, which all
/// processes share, and of which more is mapped around a fault the larger it is; what a start costs are the
/// faults. The page cache decides how many pages one fault maps, so the bound on faults is a third
/// above what a freshly built program takes.
#[test]
fn little_memory_and_few_page_faults() {
    let world = World::new(&Plugins::subject());
    let (cni, list) = (container(&world, "c1"), everything());
    for verb in ["ADD", "CHECK", "DEL", "VERSION"] {
        let result = cni_result(&cni, &list, verb);
        let config = cni.config(&list, &list["plugins"][0], verb, result.as_ref()).to_string();
        let Spent { peak, own, faults } = spent_by(&cni, verb, &config);
        println!("{verb} {} KiB, {} of its own, {faults} page faults", peak / 1024, own / 1024);
        assert!(peak <= 12 * MIB, "{verb}: {peak} bytes");
        assert!(own <= MIB / 2, "{verb}: {own} bytes of its own");
        let bound = if verb == "VERSION" { 140 } else { 260 };
        assert!(faults <= bound, "{verb}: {faults} page faults");
    }
}

/// CHECK needs what ADD answered: here another ADD says it, in its refusal's place.
fn cni_result(cni: &Cni<'_>, list: &Value, verb: &str) -> Option<Value> {
    if verb != "CHECK" {
        return None;
    }
    let mut anew = cni.clone();
    assert!(anew.del(list).iter().all(Answer::ok));
    assert!(anew.add(list).iter().all(Answer::ok));
    anew.result
}

/// What a process took of the machine's memory.
struct Spent {
    /// Bytes, of which the program's file is the most.
    peak: u64,
    /// Bytes that no file has, and no other process shares.
    own: u64,
    /// Faults that needed no disk.
    faults: u64,
}

/// Read when the process has done everything and is about to exit.
fn spent_by(cni: &Cni<'_>, verb: &str, config: &str) -> Spent {
    const HOLD: &str = "inject=exit_group:delay_enter=60s";
    const ONLY: &str = "trace=exit_group";
    let over = [
        "/usr/bin/strace",
        "-f",
        "--seccomp-bpf",
        "-qq",
        "-o",
        "/dev/null",
        "-e",
        ONLY,
        "-e",
        HOLD,
    ];
    let mut running = Running::start(cni, &over, PLUGIN, verb, config);
    let pid = running.when(exits).expect("it is held before it exits");
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let faults = minor_faults(&fs::read_to_string(format!("/proc/{pid}/stat")).unwrap());
    // Without its tracer it goes on and exits.
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:")).unwrap();
    let tracer = Pid::from_raw(tracer.trim().parse().unwrap()).expect("it is traced");
    kill_process(tracer, Signal::KILL).unwrap();
    let answer = running.end();
    assert!(!answer.output.stdout.contains("\"code\""), "{verb}: {answer:?}");
    let [peak, own] = ["VmHWM:", "RssAnon:"].map(|field| {
        let size = status.lines().find_map(|line| line.strip_prefix(field)).expect("proc(5)");
        size.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
    });
    Spent { peak, own, faults }
}

/// The tenth field of `/proc/PID/stat` (proc(5)); the second one, the name, may contain blanks.
fn minor_faults(stat: &str) -> u64 {
    let (_, fields) = stat.rsplit_once(')').expect("proc(5)");
    fields.split_whitespace().nth(7).expect("proc(5)").parse().expect("a number")
}

/// Whether the process is in exit_group(2), which it can only be when it is held there.
fn exits(pid: i32) -> bool {
    let call = fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
    call.starts_with("231 ")
}

/// What is held by others does not make an address dearer, wherever the search has to go on.
#[test]
fn as_cheap_with_thousands_of_addresses_held() {
    let costs: Vec<_> = [10, 3000].into_iter().map(cost_with_held).collect();
    println!("with 10 and 3,000 addresses held: {costs:?}");
    assert_as_cheap(costs[0], costs[1]);
}

/// Addresses are held without containers: reserving is the book's own way.
fn cost_with_held(count: u32) -> [usize; 2] {
    let world = World::new(&Plugins::subject());
    let list = everything();
    pair(&container(&world, "c0"), &list);
    let mut held = String::new();
    let base = u32::from_be_bytes([10, 94, 1, 0]);
    for at in 0..count {
        let address = std::net::Ipv4Addr::from(base + at);
        writeln!(held, "printf 'other{at}\\r\\neth0' >{address}").unwrap();
    }
    world.sh(&format!("cd /var/lib/cni/networks/counts\n{held}"));
    pair(&container(&world, "c1"), &list).map(|trace| trace.len())
}

#[test]
fn as_cheap_with_hundreds_of_containers() {
    let world = World::new(&Plugins::subject());
    let mut list = everything();
    // One port can be published once; the others have none.
    list["plugins"][0]["capabilities"] = json!({});
    // The first published port of a bridge also lets loopback addresses through to it.
    pair(&container(&world, "first"), &everything());
    let mut costs = Vec::new();
    for count in [1, 200] {
        let mut others: Vec<_> =
            (0..count).map(|at| Cni::container(&world, &format!("o{count}x{at}"))).collect();
        for other in &mut others {
            assert!(other.add(&list).iter().all(Answer::ok));
        }
        let cni = container(&world, &format!("c{count}"));
        costs.push(pair(&cni, &everything()).map(|trace| trace.len()));
        for other in &others {
            assert!(other.del(&list).iter().all(Answer::ok));
        }
    }
    println!("with 1 and 200 containers: {costs:?}");
    assert_as_cheap(costs[0], costs[1]);
}

/// Whether it is the last that needs `route_localnet` is one question.
#[test]
fn as_cheap_with_hundreds_of_published_ports() {
    let world = World::new(&Plugins::subject());
    let list = everything();
    let mut costs = Vec::new();
    for count in [2, 200] {
        let mut others: Vec<_> =
            (0..count).map(|at| Cni::container(&world, &format!("o{count}x{at}"))).collect();
        for (port, other) in (9000..).zip(&mut others) {
            let port = json!({"hostPort": port, "containerPort": 80, "protocol": "tcp"});
            other.runtime = json!({"portMappings": [port]});
            assert!(other.add(&list).iter().all(Answer::ok));
        }
        let cni = container(&world, &format!("c{count}"));
        costs.push(pair(&cni, &list).map(|trace| trace.len()));
        for other in &others {
            assert!(other.del(&list).iter().all(Answer::ok));
        }
        let local = world.sh("cat /proc/sys/net/ipv4/conf/counts0/route_localnet");
        assert_eq!(local.trim(), "0");
    }
    println!("with 2 and 200 published ports: {costs:?}");
    assert_as_cheap(costs[0], costs[1]);
}

/// What others have declared is not read, whether a container comes to a network that is new to this host or
/// another network is declared.
#[test]
fn as_cheap_with_a_thousand_networks() {
    let world = World::new(&Plugins::subject());
    let mut list = everything();
    // The first container of all makes the table.
    pair(&container(&world, "first"), &list);
    list["name"] = "new".into();
    list["plugins"][0]["bridge"] = "new0".into();
    list["plugins"][0]["ipam"]["subnet"] = "172.16.0.0/24".into();
    let mut costs = Vec::new();
    for (from, count) in [(0, 40), (40, 1000)] {
        world.sh(&format!(
            "for n in $(seq {from} {}); do /opt/cni/bin/spoke network create \
             --subnet 10.$((n / 256)).$((n % 256)).0/28 n$n; done >/dev/null",
            count - 1
        ));
        let created = ["--subnet 172.17.0.0/24 given", "chosen"]
            .map(|what| calls_of(&world, &format!("network create {what}")));
        let [add, del] = pair(&container(&world, &format!("c{count}")), &list);
        let refused = world.try_sh("/opt/cni/bin/spoke network create --subnet 10.0.7.0/24 not");
        assert_eq!(refused.status, 4, "{refused:?}");
        assert!(refused.stderr.contains("network n7"), "{refused:?}");
        world.sh("/opt/cni/bin/spoke network rm given chosen new");
        costs.push(([add.len(), del.len()], created));
    }
    println!("with 40 and 1,000 networks: {costs:?}");
    let (few, many) = (&costs[0], &costs[1]);
    assert_as_cheap(few.0, many.0);
    for (few, many) in few.1.iter().zip(&many.1) {
        assert!(few.abs_diff(*many) <= 8, "network create: {few} {many}");
    }
}

/// How many system calls a command makes.
fn calls_of(world: &World, command: &str) -> usize {
    let script = format!(
        "strace -f -qq -o /world/calls /opt/cni/bin/spoke {command} >/dev/null; wc -l </world/calls"
    );
    world.sh(&script).trim().parse().expect("a number")
}

/// A few calls more or less are the kernel's: how it cuts what it has to say into datagrams, and
/// how many notifications DEL hears before its own.
fn assert_as_cheap(few: [usize; 2], many: [usize; 2]) {
    assert!(few[0].abs_diff(many[0]) <= 4, "ADD: {few:?} {many:?}");
    assert!(few[1].abs_diff(many[1]) <= 20, "DEL: {few:?} {many:?}");
}
