//! A cluster with an etcd of its own: two commands for two hosts, and nothing else.

use std::thread;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use tests::LostAnswer;

use crate::bed::{Host, SPOKE, Segment, token, until, until_reached};

/// Asks a server of etcd for a key, with what was kept of a host's certificates.
const RANGE: &str = r#"curl -s -m 5 --cacert /world/kept/ca.pem --cert /world/kept/host.pem --key /world/kept/host.pem \
    -d '{"key":"L3Nwb2tlL3YxL2xheW91dA=="}'"#;
const WATCH: &str = r#"curl -s -N --cacert /world/kept/ca.pem --cert /world/kept/host.pem --key /world/kept/host.pem \
    -d '{"create_request":{"key":"AA==","range_end":"AA=="}}'"#;
/// The servers of etcd.
const MEMBERS: &str = r#"curl -s -m 5 --cacert /world/kept/ca.pem --cert /world/kept/host.pem --key /world/kept/host.pem \
    -d '{}'"#;
const CERTIFICATE: &str = "sha256sum </var/lib/spoke/hosts/tls/host.pem";
/// The host asks three servers.
const THREE: &str = "[ $(grep -o https: /var/lib/spoke/hosts/member.json | wc -l) = 3 ]";
const LS: &str = "/opt/cni/bin/spoke host ls";
/// A certificate is renewed after a third of this, and a slow machine has the rest.
const SHORT: &str = "[hosts]\ncertificate_seconds = 60\n";

/// Says whether `spoke doctor` says so.
fn doctor(words: &str) -> String {
    format!("{{ {SPOKE} doctor || true; }} | grep -q \"{words}\"")
}

/// Says whether the metrics have it.
fn figure(words: &str) -> String {
    format!(
        "curl -s --unix-socket /run/spoke/metrics.sock http://spoke/metrics | grep -q \"{words}\""
    )
}

#[track_caller]
fn pid(host: &Host) -> String {
    host.sh("pidof etcd").trim().to_owned()
}

/// The daemon of the host is killed, and then its etcd, which nothing starts again.
#[track_caller]
fn lose(host: &mut Host) {
    host.kill();
    host.sh("kill -9 $(pidof etcd); while pidof etcd >/dev/null; do sleep 0.05; done");
}

/// A token with another value in it.
#[track_caller]
fn changed(token: &str, change: impl FnOnce(&mut Value)) -> String {
    let json = URL_SAFE_NO_PAD.decode(token.trim_start_matches("spoke1-")).unwrap();
    let mut json: Value = serde_json::from_slice(&json).unwrap();
    change(&mut json);
    format!("spoke1-{}", URL_SAFE_NO_PAD.encode(json.to_string()))
}

/// As a new user does it: what the first host prints is run on the second one. A token lets in one host, also
/// when two try at once, and no host with another secret, or at another cluster. etcd outlives the daemon, and
/// takes no client without a certificate.
#[test]
fn two_commands_for_two_hosts() {
    let segment = Segment::bare();
    let [mut a, b, c] = [("a", 1), ("b", 2), ("c", 3)].map(|(name, at)| segment.host(name, at));
    let said = a.spoke("host init --name a");
    let line = said.lines().find(|line| line.trim_start().starts_with("spoke host join")).unwrap();
    let join = format!("/opt/cni/bin/{} --name", line.trim());
    let tries = thread::scope(|scope| {
        let tried = [&b, &c]
            .map(|host| scope.spawn(|| host.world.try_sh(&format!("{join} {}", host.name))));
        tried.map(|tried| tried.join().unwrap())
    });
    let refused: Vec<_> = tries.iter().filter(|tried| tried.status != 0).collect();
    assert_eq!(refused.len(), 1, "{tries:?}");
    assert!(refused[0].stderr.contains("this token was used"), "{refused:?}");
    let (b, c) = if tries[0].status == 0 { (b, c) } else { (c, b) };

    let fresh = token(&a.world);
    let wrong = changed(&fresh, |token| token["s"] = json!("0".repeat(64)));
    let said = c.refused(&format!("host join --name {} {wrong}", c.name));
    assert!(said.contains("is none of this cluster's"), "{said}");
    let wrong = changed(&fresh, |token| token["d"]["a"] = json!("0".repeat(64)));
    let said = c.refused(&format!("host join --name {} {wrong}", c.name));
    assert!(said.contains("is not the one that was meant"), "{said}");
    assert_eq!(c.sh("ls -A /var/lib/spoke/hosts 2>/dev/null || true"), "");

    a.spoke("network create --hosts all front");
    let two = b.attach("front", "two");
    a.attach("front", "one");
    until_reached(&a.world, "one", &two);

    // No client without a certificate.
    let bare = "curl -s -m 5 -k -d '{\"key\":\"AA==\"}' https://192.0.2.1:23790/v3/kv/range";
    assert_ne!(c.world.try_sh(bare).status, 0);
    // The keys are the superuser's.
    assert_eq!(a.sh("stat -c %a /var/lib/spoke/hosts/tls/ca.key"), "600\n");
    assert_eq!(b.world.try_sh("ls /var/lib/spoke/hosts/tls/ca.key").status, 2);

    // etcd goes on without the daemon, and the next one knows it.
    let before = pid(&a);
    a.kill();
    b.spoke(&format!("network create --hosts {} back", b.name));
    a.start();
    until(&a.world, &format!("{LS} | grep -q '^a .* server$'"));
    assert_eq!(pid(&a), before);
    // The daemon starts it where it has ended.
    a.sh("kill -9 $(pidof etcd)");
    until(&a.world, "pidof etcd");
    until(&a.world, &figure("host_etcd_up{} 1"));
    until(&b.world, &figure("host_certificate_end_seconds{certificate=\\\"host\\\"}"));
    assert_eq!(b.world.try_sh(&figure("host_etcd_up")).status, 1, "b has none");
    until(&a.world, &doctor("this host's server of the cluster's etcd takes connections"));
    until(&a.world, &doctor("certificate of this server lasts until"));
    until(&b.world, &made("third", b.name));
}

/// The answer to a host that joins is lost behind the use of its token: the host asks again and is a member. No other
/// host gets in by that token, neither before nor behind it.
#[test]
fn a_host_whose_answer_was_lost_asks_again() {
    let segment = Segment::bare();
    let [a, b, c] = [("a", 1), ("b", 2), ("c", 3)].map(|(name, at)| segment.host(name, at));
    a.spoke("host init --name a");
    let listed = a.spoke("host token ls");
    let token = token(&a.world);
    let netns = format!("/proc/{}/ns/net", b.world.pid());
    let way = LostAnswer::inside(netns.as_ref(), "192.0.2.1:23810".parse().unwrap());
    let by = changed(&token, |token| token["d"]["h"] = json!([way.address()]));
    let said = b.refused(&format!("host join --name b --address 192.0.2.2 {by}"));
    assert!(said.contains("does not answer"), "{said}");
    way.lost();
    until(&a.world, &format!("{LS} | grep -q '^b .* lost'"));
    let used = |host: &Host, name: &str| {
        let said = host.refused(&format!("host join --name {name} {token}"));
        assert!(said.contains("this token was used"), "{said}");
    };
    used(&c, "c");
    used(&c, "b");
    assert_eq!(a.spoke("host token ls"), listed, "no other host can use it");
    b.spoke(&format!("host join --name b {token}"));
    until(&a.world, &format!("{LS} | grep -q '^b .* up'"));
    used(&c, "c");
    assert_eq!(b.sh("ls /var/lib/spoke/hosts/joining.json 2>/dev/null || true"), "");
}

/// With three hosts there are three servers, of which one can be lost, and comes back. A host joins by the
/// others meanwhile. One that was removed reads and writes nothing more, not by a connection that it had
/// either. Certificates are renewed.
#[test]
fn three_hosts_have_three_servers() {
    let segment = Segment::bare();
    let mut number = 0;
    let [mut a, b, c, d] = ["a", "b", "c", "d"].map(|name| {
        number += 1;
        segment.host_with(SHORT, name, number)
    });
    a.spoke("host init --name a");
    for host in [&b, &c] {
        crate::bed::join(&a.world, &host.world, host.name);
    }
    let first = certificate(&a);
    until(&c.world, &format!("[ $({LS} | grep -c ' server$') = 3 ]"));
    // All ask all three.
    for host in [&a, &b, &c] {
        until(&host.world, THREE);
    }

    lose(&mut a);
    until(&a.world, &doctor("FAIL *this host's server of the cluster's etcd is down"));
    // Until the others have a leader.
    until(&b.world, &format!("{SPOKE} host token create"));
    crate::bed::join(&b.world, &d.world, "d");
    until(&d.world, THREE);
    let said = d.spoke("host ls");
    assert!(said.lines().any(|line| line.starts_with("d *") && line.ends_with(" -")), "{said}");
    let joined = certificate(&d);
    until(&d.world, &made("front", "all"));
    let (one, two) = (b.attach("front", "one"), d.attach("front", "two"));
    until_reached(&b.world, "one", &two);
    // Half of its life is over, and no host has renewed it.
    until(&a.world, &doctor("certificate of this host .*, and was not renewed"));
    let said: Value = serde_json::from_str(&d.spoke("host rtt -o json")).unwrap();
    let b_said = said.as_array().unwrap().iter().find(|host| host["name"] == "b").unwrap();
    assert!(
        b_said["host_microseconds"].is_u64() && b_said["network_microseconds"].is_u64(),
        "{said}"
    );
    a.start();
    until(&a.world, &format!("{LS} 2>&1 | grep -q '^a .* up .* server$'"));
    until(&a.world, "pidof etcd");

    for (host, before) in [(&a, first), (&d, joined)] {
        until(&host.world, &format!("[ \"$({CERTIFICATE})\" != '{before}' ]"));
    }
    d.sh("cp -a /var/lib/spoke/hosts/tls /world/kept");
    d.sh(&format!("{RANGE} https://192.0.2.2:23790/v3/kv/range | grep -q '\"kvs\"'"));
    d.sh(&format!("{WATCH} https://192.0.2.2:23790/v3/watch >/world/watched 2>&1 </dev/null & echo $! >/world/watch"));
    until(&d.world, "grep -q created /world/watched");
    d.sh(&format!("ip netns exec two ping -q -c 1 -W 3 {one}"));
    d.spoke("network disconnect front two");
    // What is refused leaves etcd as it is.
    let said = b.refused("host remove c");
    assert!(said.contains("the daemon of host c is there"), "{said}");
    assert_eq!(
        d.sh(&format!(
            "{MEMBERS} https://192.0.2.2:23790/v3/cluster/member/list | grep -o peerURLs | wc -l"
        )),
        "3\n"
    );
    a.spoke("host remove --force d");
    until(&d.world, "! kill -0 $(cat /world/watch) 2>/dev/null");
    for at in ["192.0.2.1", "192.0.2.2", "192.0.2.3"] {
        until(&d.world, &format!("! {RANGE} https://{at}:23790/v3/kv/range"));
    }
    until(&a.world, &made("back", "all"));
    // One with a server goes by itself.
    until(&c.world, &format!("{SPOKE} host remove c || {LS} 2>&1 | grep -q 'in no cluster'"));
    until(&c.world, &format!("{LS} 2>&1 | grep -q 'in no cluster'"));
    assert_eq!(c.sh("ls -d /var/lib/spoke/hosts/tls /var/lib/spoke/etcd 2>/dev/null || true; pidof etcd || true"), "");
    until(&a.world, &made("last", "all"));
    until(&b.world, &made("least", "b"));
}

/// Two of three servers stand still for a moment: traffic flows, and an exact address waits for them.
#[test]
fn two_of_three_servers_stand_still() {
    let segment = Segment::bare();
    let mut number = 0;
    let [a, b, c] = ["a", "b", "c"].map(|name| {
        number += 1;
        segment.host(name, number)
    });
    a.spoke("host init --name a");
    for host in [&b, &c] {
        crate::bed::join(&a.world, &host.world, host.name);
    }
    until(&c.world, &format!("[ $({LS} | grep -c ' server$') = 3 ]"));
    for host in [&a, &b, &c] {
        until(&host.world, THREE);
    }
    until(&a.world, &made("front", "all"));
    let (_, two) = (a.attach("front", "one"), b.attach("front", "two"));
    until_reached(&a.world, "one", &two);
    a.world.netns("exact");
    let all = |signal: &str| {
        for host in [&b, &c] {
            host.sh(&format!("kill -{signal} $(pidof etcd)"));
        }
    };
    all("STOP");
    a.sh(&format!(
        "(code=0; {SPOKE} network connect --ip 10.64.200.9 front exact 2>/world/said || code=$?; echo $code >/world/answered) \
         </dev/null >/dev/null 2>&1 &"
    ));
    // Traffic flows all the time, which is five seconds.
    a.sh(&format!("ip netns exec one ping -q -c 26 -i 0.2 -W 2 {two}"));
    all("CONT");
    until(&a.world, "[ -s /world/answered ]");
    let answer = a.sh("cat /world/answered /world/said");
    assert!(answer.starts_with("0\n") || answer.starts_with("75\n"), "{answer}");
    let connect = format!("{SPOKE} network connect --ip 10.64.200.9 front exact");
    until(&a.world, &format!("ip -n exact link show eth0 2>/dev/null || {connect}"));
    until_reached(&b.world, "two", "10.64.200.9");
}

/// etcd comes back with an older state of its data: both hosts say so, also when their daemons start again, and traffic
/// flows. When an operator says so they take it as it is.
#[test]
fn an_older_state_of_its_own_etcd() {
    let segment = Segment::bare();
    let [mut a, mut b] = [("a", 1), ("b", 2)].map(|(name, at)| segment.host(name, at));
    a.spoke("host init --name a");
    crate::bed::join(&a.world, &b.world, "b");
    a.spoke("network create --hosts all front");
    let (one, two) = (a.attach("front", "one"), b.attach("front", "two"));
    until_reached(&a.world, "one", &two);
    until_reached(&b.world, "two", &one);
    // It is of the sessions that the hosts have: their own records are in it as they are.
    a.sh("cd /var/lib/spoke/etcd; kill -STOP $(pidof etcd); cp -a data older; kill -CONT $(pidof etcd)");
    let heard = |host: &Host| host.sh("cat /var/lib/spoke/hosts/heard.json");
    // What is written first may be of what was before.
    for network in ["back", "more", "last"] {
        let before = [heard(&a), heard(&b)];
        until(&b.world, &made(network, "all"));
        for (host, before) in [&a, &b].into_iter().zip(before) {
            let before = before.trim();
            until(
                &host.world,
                &format!("[ \"$(cat /var/lib/spoke/hosts/heard.json)\" != '{before}' ]"),
            );
        }
    }
    // Without the file nothing starts etcd again meanwhile.
    a.sh("cd /var/lib/spoke/etcd; mv environment aside
          kill -9 $(pidof etcd); while pidof etcd >/dev/null; do sleep 0.05; done
          mv data newer; mv older data; mv aside environment");
    let older = format!("{LS} 2>&1 | grep -q 'an older state'");
    until(&a.world, &older);
    until(&b.world, &older);
    a.sh(&format!("ip netns exec one ping -q -c 1 -W 3 {two}"));
    a.kill();
    b.kill();
    a.start();
    b.start();
    for host in [&a, &b] {
        until(&host.world, &older);
        host.spoke("host accept-older");
        let said = host.refused("host accept-older");
        assert!(said.contains("no older state than this host has heard of"), "{said}");
    }
    until(&a.world, &format!("! {LS} 2>&1 | grep -q 'not heard of'"));
    let more = b.attach("front", "more");
    until_reached(&a.world, "one", &more);
}

/// Makes a network, where it is not there yet: a try whose answer was lost may have done it.
fn made(network: &str, hosts: &str) -> String {
    format!(
        "{SPOKE} network create --hosts {hosts} {network} || {SPOKE} network ls | grep -q '^{network} '"
    )
}

#[track_caller]
fn certificate(host: &Host) -> String {
    host.sh(CERTIFICATE).trim().to_owned()
}
