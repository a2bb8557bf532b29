//! Limits of bandwidth.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use engine::port::Driver;
use linux::{Life, Linux};
use model::*;
use netlink::Netns;

use crate::bed::{Container, attachment, bridge, isolated, run};
use crate::{chained, name};

const MEGABIT: u64 = 1_000_000;

fn limits(ingress: Option<(u64, u64)>, egress: Option<(u64, u64)>) -> Bandwidth {
    let rate = |(rate, burst)| Rate { rate, burst };
    Bandwidth { ingress: ingress.map(rate), egress: egress.map(rate), ..Bandwidth::default() }
}

fn limited(container: &Container, limits: Bandwidth) -> Attachment {
    let plain = attachment("one", bridge(), "10.88.0.2/24", &container.sandbox);
    Attachment { wiring: Wiring { bandwidth: Some(limits), ..plain.wiring.clone() }, ..plain }
}

/// What tc(8) shows, without what differs in any case.
fn disciplines() -> Vec<String> {
    let shown = run("tc qdisc show");
    let ours = shown.lines().filter(|line| line.contains("tbf") || line.contains("ingress"));
    let mut lines: Vec<String> = ours
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().filter(|it| *it != "dev").collect();
            let device = words.get(3).map_or("", |word| &word[..3]).to_owned();
            format!("{} {} {}", words[1], device, words.get(7..).unwrap_or_default().join(" "))
        })
        .collect();
    lines.sort();
    lines
}

#[test]
fn limits_are_what_the_reference_plugin_sets_and_go_with_the_container() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        let both = limits(Some((8 * MEGABIT, 8 * MEGABIT)), Some((16 * MEGABIT, MEGABIT)));
        let attachment = limited(&one, both);
        let became = linux.attach(&attachment).unwrap();
        assert_eq!(became.interfaces.len(), 3, "{:?}", became.interfaces);
        let shown = run("tc qdisc show");
        for expected in ["rate 8Mbit burst 1000000b lat 25ms", "rate 16Mbit burst 124998b lat 25ms"]
        {
            assert!(shown.contains(expected), "{shown}");
        }
        linux.check(&attachment, &became).unwrap();
        one.run("ping -c1 -W2 10.88.0.1");
        // Attached again, as after a crash, it is the same.
        let again = disciplines();
        linux.complete(&attachment).unwrap();
        assert_eq!(disciplines(), again);
        linux.detach(&attachment).unwrap();
        linux.detach(&attachment).unwrap();
        assert!(!run("ip -br link").contains("bwp"));
        assert!(linux.check(&attachment, &became).is_err());
    });
}

#[test]
fn what_others_change_is_found() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        let both = limits(Some((8 * MEGABIT, 8 * MEGABIT)), Some((16 * MEGABIT, MEGABIT)));
        let attachment = limited(&one, both);
        let became = linux.attach(&attachment).unwrap();
        let host = became.interfaces[1].name.clone();
        let ifb = run("ip -br link show type ifb").split_whitespace().next().unwrap().to_owned();
        let harm = |what: String, expected: &str| {
            run(&what);
            let error = linux.check(&attachment, &became).unwrap_err().to_string();
            assert!(error.contains(expected), "{what}: {error}");
        };
        harm(format!("tc filter del dev {host} ingress"), "is not redirected");
        harm(format!("tc qdisc del dev {host} root"), "Failed to find qdisc");
        linux.complete(&attachment).unwrap();
        linux.check(&attachment, &became).unwrap();
        let slower = format!("tc qdisc change dev {host} root handle 1: tbf rate 1mbit");
        harm(format!("{slower} burst 10k latency 1ms"), "Rate doesn't match");
        linux.complete(&attachment).unwrap();
        harm(format!("ip link del {ifb}"), "is missing");
        linux.complete(&attachment).unwrap();
        linux.check(&attachment, &became).unwrap();
        linux.detach(&attachment).unwrap();
    });
}

fn call(plugins: &str, command: &str, config: &str, netns: &str) -> Result<String, String> {
    let mut child = Command::new(format!("{plugins}/bandwidth"))
        .envs([("CNI_COMMAND", command), ("CNI_CONTAINERID", "one"), ("CNI_IFNAME", "eth0")])
        .envs([("CNI_NETNS", netns), ("CNI_PATH", plugins)])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(config.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    if output.status.success() { Ok(text) } else { Err(text) }
}

#[test]
fn the_reference_plugin_finds_its_own_limits_and_removes_them() {
    for version in ["cni-1.1", "cni-1.9"] {
        let Some(plugins) = crate::reference(version, "bandwidth") else { return };
        isolated(move || {
            let linux = Linux::new(Life::Long);
            for [rate, burst] in
                [[8_000_000, 8_000_000], [1_000_000, 2_147_483_647], [7_777_777, 99_999]]
            {
                let one = Container::new();
                let asked = Some((rate, burst));
                let mine = limited(&one, limits(asked, asked));
                let became = linux.attach(&mine).unwrap();
                let host = &became.interfaces[1];
                let config = format!(
                    r#"{{"cniVersion":"1.0.0","name":"front","type":"bandwidth","ingressRate":{rate},
                    "ingressBurst":{burst},"egressRate":{rate},"egressBurst":{burst},"prevResult":
                    {{"cniVersion":"1.0.0","interfaces":[{{"name":"{}","mac":"{}"}},
                    {{"name":"eth0","sandbox":"{}"}}],"ips":[]}}}}"#,
                    host.name,
                    host.mac.unwrap(),
                    one.netns()
                );
                let ours = disciplines();
                call(&plugins, "CHECK", &config, &one.netns()).unwrap();
                // It removes ours, and makes what is the same but for the device's number.
                call(&plugins, "DEL", &config, &one.netns()).unwrap();
                assert!(!run("ip -br link").contains("bwp"));
                run(&format!("tc qdisc del dev {0} root; tc qdisc del dev {0} ingress", host.name));
                call(&plugins, "ADD", &config, &one.netns()).unwrap();
                assert_eq!(disciplines(), ours);
                // And we remove what it made.
                let wiring = Wiring { bandwidth: Some(Bandwidth::default()), ..Wiring::default() };
                let theirs = chained(&mine, Layer::Bandwidth, wiring);
                let theirs = Attachment { runtime: Runtime::Reference, sandbox: None, ..theirs };
                linux.detach(&theirs).unwrap();
                assert!(!run("ip -br link").contains("bwp"));
                linux.detach(&mine).unwrap();
            }
        });
    }
}

#[test]
fn a_chained_limit_leaves_the_link_as_it_was() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        let link = attachment("one", bridge(), "10.88.0.2/24", &one.sandbox);
        let became = linux.attach(&link).unwrap();
        let device = Some(became.interfaces[1].name.clone());
        let both = limits(Some((8 * MEGABIT, MEGABIT)), Some((8 * MEGABIT, MEGABIT)));
        let wiring = |both| Wiring { bandwidth: Some(both), ..Wiring::default() };
        let before = run("tc qdisc show");
        let part = chained(&link, Layer::Bandwidth, wiring(Bandwidth { device, ..both }));
        let added = linux.attach(&part).unwrap();
        assert!(added.interfaces[0].name.as_str().starts_with("bwp"));
        linux.check(&part, &added).unwrap();
        // A second interface of the same container has the same name with the reference plugin.
        let second = Container::new();
        let mut other = attachment("one", bridge(), "10.88.0.3/24", &second.sandbox);
        other.id.ifname = name("eth1");
        other.wiring.bandwidth =
            part.wiring.bandwidth.clone().map(|it| Bandwidth { device: None, ..it });
        let other_became = linux.attach(&other).unwrap();
        linux.check(&other, &other_became).unwrap();
        linux.detach(&part).unwrap();
        linux.check(&other, &other_became).unwrap();
        one.run("ping -c1 -W2 10.88.0.1");
        linux.detach(&other).unwrap();
        assert_eq!(run("tc qdisc show"), before);
        assert!(!run("ip -br link").contains("bwp"));
        linux.detach(&link).unwrap();
    });
}

/// What a bucket of [`MEGABIT`] holds, in megabits.
const BURST: f64 = 1.0;

/// Megabits per second that arrive at `to`, from `from`.
fn measured(from: &Container, to: &Container, address: &str) -> f64 {
    let within = |container: &Container| Netns::open(&container.sandbox.path).unwrap();
    let listener = within(to).enter(|| TcpListener::bind(("0.0.0.0", 5001)).unwrap()).unwrap();
    let target = (address.to_owned(), 5001);
    let mut stream = within(from).enter(|| TcpStream::connect(target).unwrap()).unwrap();
    let (mut received, _) = listener.accept().unwrap();
    let sender = thread::spawn(move || {
        let data = vec![0; 64 << 10];
        while stream.write_all(&data).is_ok() {}
    });
    let mut buffer = vec![0; 64 << 10];
    let (start, mut bytes) = (Instant::now(), 0);
    while start.elapsed() < Duration::from_millis(2200) {
        bytes += received.read(&mut buffer).unwrap();
    }
    // From the beginning, because what waited in a queue may all come at once; but not what the bucket held at first.
    let rate = (bytes as f64 * 8.0 / 1e6 - BURST) / start.elapsed().as_secs_f64();
    drop(received);
    sender.join().unwrap();
    rate
}

#[test]
fn traffic_is_as_fast_as_it_may_be() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let (one, other) = (Container::new(), Container::new());
        let limits = limits(Some((40 * MEGABIT, MEGABIT)), Some((10 * MEGABIT, MEGABIT)));
        let first = limited(&one, limits);
        let second = attachment("other", bridge(), "10.88.0.3/24", &other.sandbox);
        linux.attach(&first).unwrap();
        linux.attach(&second).unwrap();
        let sent = measured(&one, &other, "10.88.0.3");
        let got = measured(&other, &one, "10.88.0.2");
        assert!((4.0..12.0).contains(&sent), "{sent} Mbit/s sent, 10 allowed");
        assert!((16.0..48.0).contains(&got), "{got} Mbit/s received, 40 allowed");
        linux.detach(&first).unwrap();
        linux.detach(&second).unwrap();
    });
}

#[test]
fn a_link_without_an_end_in_the_host_is_limited_in_the_container() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        one.run("ip link add eth0 type veth peer name peer; ip link set eth0 up");
        let both = limits(Some((8 * MEGABIT, 8 * MEGABIT)), Some((16 * MEGABIT, MEGABIT)));
        let wiring = Wiring { bandwidth: Some(both), ..Wiring::default() };
        let link = attachment("one", bridge(), "10.88.0.2/24", &one.sandbox);
        let part = chained(&link, Layer::Bandwidth, wiring);
        let before = one.run("tc qdisc show; ip -br link | cut -d' ' -f1");
        let became = linux.attach(&part).unwrap();
        let shown = one.run("tc qdisc show");
        assert!(shown.contains("rate 16Mbit"), "{shown}");
        assert!(shown.contains("rate 8Mbit burst 1000000b lat 25ms"), "{shown}");
        linux.check(&part, &became).unwrap();
        linux.detach(&part).unwrap();
        linux.detach(&part).unwrap();
        assert_eq!(one.run("tc qdisc show; ip -br link | cut -d' ' -f1"), before);
    });
}
