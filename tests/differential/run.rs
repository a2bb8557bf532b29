//! Doing a row's steps in two worlds, and comparing what was said and what is there.

use std::collections::BTreeSet;

use serde_json::Value;
use tests::{Answer, Cni, Names, Plugins, Snapshot, World, report};

use crate::row::{Differs, Row, Step};

/// Where we differ on purpose everywhere.
const EVERYWHERE: &[Differs] = &[
    Differs {
        why: "an error names its cniVersion, as the specification demands",
        lines: &["error.cniVersion"],
    },
    Differs {
        why: "our host links carry our group, by which they are known as ours",
        lines: &[" group "],
    },
    Differs {
        why: "where we make the host forward, it forwards for no other link",
        lines: &["host nft table inet spoke_transit", "/conf/lo/forwarding = "],
    },
    Differs {
        why: "the host's loopback is closed again when the last container has left that needs it open",
        lines: &[
            "+ host nft table inet spoke / map at_loopback ",
            "Del: - host sysctl ipv4/conf/br9/route_localnet = 1",
            "DelWithoutNetns: - host sysctl ipv4/conf/br9/route_localnet = 1",
            "DelAfterNetns: - host sysctl ipv4/conf/br9/route_localnet = 1",
            "DelWithoutResult: - host sysctl ipv4/conf/br9/route_localnet = 1",
        ],
    },
    Differs {
        why: "the host's end has no link-local address: no solicitation, no duplicate detection",
        lines: &[") inet6_addr_gen_mode ", "ipv6/conf/PEER("],
    },
    Differs {
        why: "neighbours learn at once who has an IPv6 address now, as they do of an IPv4 address",
        lines: &["ndisc_notify = 1"],
    },
    Differs {
        why: "the host's end has the kernel's default queue length instead of none",
        lines: &["eth0) txqlen 1000"],
    },
];

/// What is different without a reason in the table, and reasons that explain nothing any more.
pub(crate) fn differences(row: &Row, reference: &Plugins, subject: &Plugins) -> Vec<String> {
    let (theirs, ours) = std::thread::scope(|both| {
        let theirs = both.spawn(|| observe(row, reference));
        (theirs.join().expect("the reference's world"), observe(row, subject))
    });
    let excuses: &[Differs] = if subject.are_ours() { &row.differs } else { &[] };
    let mut used = BTreeSet::new();
    let mut lines = Vec::new();
    for ((step, theirs), (_, ours)) in theirs.iter().zip(&ours) {
        for line in report(&brief(theirs, ours), &brief(ours, theirs)) {
            let line = format!("{step}: {line}");
            let fits = |excuse: &&Differs| excuse.lines.iter().any(|part| line.contains(part));
            if let Some(excuse) = excuses.iter().find(fits) {
                used.insert(excuse.why);
            } else if !(subject.are_ours()
                && (code_is_better(row, &line)
                    || is_guard(&line)
                    || is_of_unknown(row, &line)
                    || EVERYWHERE.iter().any(|e| fits(&e))))
            {
                lines.push(line);
            }
        }
    }
    if subject.are_ours() {
        lines = without_expected_messages(row, lines);
    }
    let stale = excuses.iter().filter(|excuse| !used.contains(excuse.why));
    lines.extend(stale.map(|excuse| format!("no longer different: {}", excuse.why)));
    lines
}

/// Where the table has both messages, each as a whole string. Each has to have been said.
fn without_expected_messages(row: &Row, mut lines: Vec<String>) -> Vec<String> {
    for expected in &row.messages {
        let parts = [(": - answer", expected.theirs), (": + answer", expected.ours)];
        let fits = |line: &String, (sign, text): &(&str, &str)| {
            line.contains(sign) && line.ends_with(&format!("error.msg: {}", Value::from(*text)))
        };
        let is_said = |part| lines.iter().any(|line| fits(line, part));
        if let Some(missing) = parts.iter().find(|part| !is_said(part)) {
            lines.push(format!("no longer said: {:?}", missing.1));
        }
        lines.retain(|line| !parts.iter().any(|part| fits(line, part)));
    }
    lines
}

/// `lines`, with one line for a link that is not there at all among the `others`.
fn brief(lines: &BTreeSet<String>, others: &BTreeSet<String>) -> BTreeSet<String> {
    let link = |line: &str| {
        let mut words = line.splitn(4, ' ');
        let (space, what, name) = (words.next()?, words.next()?, words.next()?);
        (what == "link").then(|| format!("{space} link {name} "))
    };
    let shorten = |line: &String| match link(line) {
        Some(start) if !others.iter().any(|other| other.starts_with(&start)) => {
            format!("{start}is there")
        }
        _ => line.clone(),
    };
    lines.iter().map(shorten).collect()
}

/// Where iptables publishes ports our table stands without elements: it guards the host's loopback
/// (CVE-2020-8558), which the reference leaves open.
fn is_guard(line: &str) -> bool {
    line.contains(": + host nft table inet spoke") && !line.contains("elements")
}

/// What is of no connection leaves with the container's own address by the reference's rules: docs/cni.md. Nothing of
/// that is left where the last step is a deletion, unless another container is.
fn is_of_unknown(row: &Row, line: &str) -> bool {
    let has_other = row.steps.iter().any(|step| matches!(step, Step::AddOther(_)));
    let mut words = line.split([' ', ':']);
    let step = words.next().and_then(|number| number.parse::<usize>().ok());
    let is_deletion = words.next().is_none_or(|verb| verb.starts_with("Del"));
    line.contains(": + host ip")
        && line.ends_with("--ctstate INVALID -j DROP")
        && (has_other || !is_deletion || step.is_some_and(|step| step < row.steps.len()))
}

/// Where the reference says only 999, the table says our code.
fn code_is_better(row: &Row, line: &str) -> bool {
    row.code.is_some_and(|ours| {
        let vague = line.contains(": - ") && line.ends_with("error.code: 999");
        vague || line.ends_with(&format!("error.code: {ours}"))
    })
}

/// The step's name, what was answered and what the world holds then.
type Observed = Vec<(String, BTreeSet<String>)>;

fn observe(row: &Row, plugins: &Plugins) -> Observed {
    let world = World::new(plugins);
    if !row.before.is_empty() {
        world.sh(row.before);
    }
    let mut cni = Cni::new(&world);
    cni.args = row.args.into();
    cni.runtime = row.runtime.clone();
    let given = format!("{} {} {}", row.list, row.args, row.runtime);
    let mut observed = Vec::new();
    for (number, step) in row.steps.iter().enumerate() {
        let answers = perform(&world, &mut cni, row, step);
        let snapshot = Snapshot::of(&world);
        let names = Names::of(&snapshot, &given);
        let mut lines = match row.answers_only {
            true => BTreeSet::new(),
            false => names.comparable(&snapshot),
        };
        for (number, answer) in answers.iter().enumerate() {
            said(number, answer, (&snapshot, &names), &mut lines);
        }
        observed.push((format!("{} {}", number + 1, step.name()), lines));
    }
    observed
}

fn perform(world: &World, cni: &mut Cni<'_>, row: &Row, step: &Step) -> Vec<Answer> {
    let list = &row.list;
    match step {
        Step::Add => cni.add(list),
        Step::Check => cni.check(list),
        Step::CheckAfter(script) => {
            world.sh(script);
            cni.check(list)
        }
        Step::Del => cni.del(list),
        Step::AddOther(id) => {
            let runtime = cni.runtime.clone();
            let mut other = Cni { args: cni.args.clone(), runtime, ..Cni::container(world, id) };
            other.add(list)
        }
        Step::DelWithoutNetns => Cni { netns: String::new(), ..cni.clone() }.del(list),
        Step::DelAfterNetns => {
            delete_netns(world, &cni.container);
            cni.del(list)
        }
        Step::DelWithoutResult => Cni { result: None, ..cni.clone() }.del(list),
        Step::DelRenamed => {
            let mut renamed = list.clone();
            renamed["name"] = "renamed".into();
            cni.del(&renamed)
        }
        Step::Ask(verb) => cni.ask(list, verb),
        Step::Sh(script) => {
            world.sh(script);
            Vec::new()
        }
        Step::Raw { plugin, env, stdin } => vec![cni.raw(plugin, env, stdin)],
    }
}

/// Deletes a namespace; returns when the kernel has removed what was in it. That is one piece of work
/// under RTNL, which the next reader of links waits for: it has begun when the other end of a link
/// into the namespace is gone.
fn delete_netns(world: &World, name: &str) {
    world.sh(&format!(
        "ip link add outside type veth peer name inside netns {name}\n\
         ip netns del {name}\n\
         while [ -e /sys/class/net/outside ]; do sleep 0.01; done"
    ));
}

/// One line per part of an answer, so that a difference is short.
fn said(
    number: usize,
    answer: &Answer,
    (snapshot, names): (&Snapshot, &Names),
    lines: &mut BTreeSet<String>,
) {
    lines.insert(format!("answer {number} exit {}", answer.output.status));
    let parsed = serde_json::from_str::<Value>(answer.output.stdout.trim());
    let Ok(Value::Object(parts)) = parsed else {
        lines.insert(format!("answer {number} says {}", names.apply(&answer.output.stdout)));
        return;
    };
    let kind = if answer.ok() { "result" } else { "error" };
    for (key, value) in parts {
        let value = if key == "interfaces" { names.interfaces(snapshot, value) } else { value };
        let value = names.apply(&value.to_string());
        lines.insert(format!("answer {number} {kind}.{key}: {value}"));
    }
}
