//! The cluster's own authority is changed while containers talk, daemons are killed and a host is lost.

use serde_json::Value;

use crate::bed::{Host, Segment, join, token, until, until_reached};
use crate::flow::Flow;

const LS: &str = "/opt/cni/bin/spoke host ls 2>&1";
const CA: &str = "/opt/cni/bin/spoke host ca ls 2>&1";
const TLS: &str = "/var/lib/spoke/hosts/tls";

/// The authorities that a host trusts.
#[track_caller]
fn trusted(host: &Host) -> String {
    host.sh(&format!("cat {TLS}/ca.pem"))
}

/// A change has come to one of these phases.
#[track_caller]
fn until_phase(host: &Host, phases: &str) {
    until(&host.world, &format!("{CA} | grep -qE '^change of .*: ({phases})$'"));
}

/// Asks the server of etcd at an address with a certificate of a host, whatever the server shows.
fn ask(certificate: &str, at: &str) -> String {
    format!(
        "curl -s -k -m 5 --cert {certificate} --key {certificate} -d '{{\"key\":\"AA==\"}}' https://{at}:23790/v3/kv/range \
         | grep -q header"
    )
}

/// Writes a value into etcd as a member.
fn put(at: &str, key: &str, value: &str) -> String {
    format!(
        "body=$(printf '{{\"key\":\"%s\",\"value\":\"%s\"}}' $(printf %s {key} | base64 -w 0) $({value} | base64 -w 0))
         curl -s -k -m 5 --cert {TLS}/host.pem --key {TLS}/host.pem -d \"$body\" https://{at}:23790/v3/kv/put | grep -q header"
    )
}

/// Three hosts with a server each: in every phase a daemon is killed. Nothing of a flow is lost, what the old authority has
/// signed is worth nothing, nor is a token that was made before, and hosts join by new ones.
#[test]
fn every_phase_outlives_its_daemons() {
    let segment = Segment::bare();
    let [mut a, mut b, mut c, d] =
        [("a", 1), ("b", 2), ("c", 3), ("d", 4)].map(|(name, at)| segment.host(name, at));
    a.spoke("host init --name a");
    for host in [&b, &c] {
        join(&a.world, &host.world, host.name);
    }
    until(&c.world, &format!("[ $({LS} | grep -c ' server$') = 3 ]"));
    for host in [&a, &b, &c] {
        until(&host.world, "[ $(grep -o https: /var/lib/spoke/hosts/member.json | wc -l) = 3 ]");
    }
    until(&a.world, "/opt/cni/bin/spoke network create --hosts all front");
    let (one, two) = (a.attach("front", "one"), b.attach("front", "two"));
    until_reached(&a.world, "one", &two);
    until_reached(&b.world, "two", &one);
    let flow = Flow::begin((&a, "one"), (&b, "two", &two));
    let (before, old) = (trusted(&a), token(&a.world));
    c.sh(&format!("cp -a {TLS} /world/kept"));
    c.sh(&ask("/world/kept/host.pem", "192.0.2.1"));

    a.spoke("host ca rotate");
    a.kill();
    a.start();
    until_phase(&b, "trust|sign|drop|done");
    let said = b.refused("host ca rotate");
    assert!(said.contains("the cluster changes its authority"), "{said}");
    until_phase(&a, "sign|drop|done");
    b.kill();
    b.start();
    until_phase(&a, "drop|done");
    c.kill();
    c.start();
    until_phase(&a, "done");
    flow.goes_on(&a);
    flow.end(&a);
    let now = trusted(&a);
    assert!(now != before && now.matches("BEGIN").count() == 1, "{now}");
    for host in [&b, &c] {
        until(&host.world, &format!("[ \"$(cat {TLS}/ca.pem)\" = '{}' ]", now.trim()));
    }
    for at in ["192.0.2.1", "192.0.2.2", "192.0.2.3"] {
        until(&c.world, &format!("! {{ {}; }}", ask("/world/kept/host.pem", at)));
        until(&c.world, &ask(&format!("{TLS}/host.pem"), at));
    }
    let said = d.refused(&format!("host join --name d {old}"));
    assert!(said.contains("of before the cluster changed its authority"), "{said}");
    until(&a.world, &format!("! {LS} | grep -q 'not heard of'"));
    join(&a.world, &d.world, "d");
    let four = d.attach("front", "four");
    until_reached(&a.world, "one", &four);
    assert_eq!(trusted(&d), now);
}

/// A host that is lost holds a change up unless it is left out; then it has to join again. A member without the authority's
/// key makes no other authority known.
#[test]
fn a_lost_host_is_left_out_and_a_stranger_is_refused() {
    let segment = Segment::bare();
    let config = "[hosts]\ntakeover_seconds = 1\n";
    let [a, mut b] = [("a", 1), ("b", 2)].map(|(name, at)| segment.host_with(config, name, at));
    a.spoke("host init --name a");
    join(&a.world, &b.world, "b");
    let before = trusted(&a);
    let said = b.refused("host ca rotate");
    assert!(said.contains("run it on host a"), "{said}");

    b.sh("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj '/CN=Spoke cluster' \
          -keyout /world/key.pem -out /world/other.pem 2>/dev/null");
    let value = "python3 -c 'import json; print(json.dumps({\"phase\": \"drop\", \"certificate\": \
                 open(\"/world/other.pem\").read(), \"proof\": \"AAAA\", \"since\": 1}))'";
    b.sh(&put("192.0.2.1", "/spoke/v1/authority", value));
    for host in [&a, &b] {
        until(&host.world, &format!("{LS} | grep -q 'has signed, and is not used'"));
        assert_eq!(trusted(host), before);
    }
    a.spoke("host ca abandon");
    until(&a.world, &format!("! {LS} | grep -q 'has signed, and is not used'"));
    replays(&a, &b);
    // As a daemon leaves it that was killed before the change began.
    a.sh(&format!("cp {TLS}/ca.key {TLS}/next.key; touch -d '1 hour ago' {TLS}/next.key"));
    until(&a.world, &format!("[ ! -e {TLS}/next.key ]"));

    b.kill();
    until(&a.world, &format!("{LS} | grep -q '^b .* lost'"));
    let said = a.refused("host ca rotate");
    assert!(said.contains("host b is not there"), "{said}");
    let said = a.refused("host ca rotate --without a");
    assert!(said.contains("host a is there"), "{said}");
    a.spoke("host ca rotate --without b");
    until_phase(&a, "done");
    until(&a.world, &format!("{CA} | grep -q '^b .*left out'"));
    b.start();
    until(&b.world, &format!("{LS} | grep -q 'changed its authority without this host'"));
    until(&a.world, "/opt/cni/bin/spoke host remove b");
    until(&b.world, "/opt/cni/bin/spoke host remove --force b");
    until(&b.world, &format!("{LS} | grep -q 'in no cluster'"));
    // The server of etcd begins anew with the certificate that was revoked.
    until(&a.world, "/opt/cni/bin/spoke host token create -o json >/world/token");
    let made: Value = serde_json::from_str(&a.sh("cat /world/token")).expect("JSON");
    let token = made["token"].as_str().expect("a text");
    until(&b.world, &format!("/opt/cni/bin/spoke host join --name b {token}"));
    until(&a.world, &format!("{LS} | grep -q '^b .* up'"));
}

/// The record that the authority which a host signs by makes another one of, in a phase. The key is in `/world/next.key`.
fn successor(a: &Host) -> impl Fn(&str) -> String {
    let next = "/world/next.pem";
    let made = a.sh(&format!(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj '/CN=Spoke cluster' \
             -keyout /world/next.key -out {next} 2>/dev/null
         {{ echo 'Spoke: this authority follows'; openssl x509 -in {next} -outform DER; }} >/world/message
         openssl dgst -sha256 -sign {TLS}/ca.key /world/message | base64 -w 0"
    ));
    let (proof, pem) = (made.trim(), a.sh(&format!("cat {next}")).replace('\n', "\\n"));
    let proof = proof.to_owned();
    move |phase: &str| {
        let json = format!(
            "{{\"phase\":\"{phase}\",\"certificate\":\"{pem}\",\"proof\":\"{proof}\",\"since\":1}}"
        );
        put("192.0.2.1", "/spoke/v1/authority", &format!("printf %s '{json}'"))
    }
}

/// A record says that a change was given up while a host may be getting a certificate of the new authority, as that cannot
/// write: the others trust that no more, and follow it still.
#[test]
fn what_a_host_still_trusts_is_followed_again() {
    let segment = Segment::bare();
    let [a, b] = [("a", 1), ("b", 2)].map(|(name, at)| segment.host(name, at));
    a.spoke("host init --name a");
    join(&a.world, &b.world, "b");
    let record = successor(&a);
    let write = |phase: &str| drop(a.sh(&record(phase)));
    a.sh(&format!("install -m 600 /world/next.key {TLS}/next.key"));
    let trusts = |count: u8| format!("[ $(grep -c BEGIN {TLS}/ca.pem) = {count} ]");
    let locked = format!("mount --bind {TLS} {TLS}; mount -o remount,bind,ro {TLS}");
    let unlocked = format!("umount {TLS}");
    // The change does not go on by itself meanwhile.
    b.sh(&locked);
    write("trust");
    until(&a.world, &format!("{CA} | grep -q '^a .*ready'"));
    a.sh(&locked);
    write("abandoned");
    b.sh(&unlocked);
    until(&b.world, &format!("cat {TLS}/abandon* | grep -q ."));
    write("sign");
    until(&b.world, &trusts(2));
    a.sh(&unlocked);
    until_phase(&b, "done");
    for host in [&a, &b] {
        until(&host.world, &trusts(1));
    }
    assert_eq!(trusted(&a), trusted(&b));
}

/// A change was given up, and its record is written once more as one that goes on: no host follows it, and it is ended.
fn replays(a: &Host, b: &Host) {
    let before = trusted(a);
    let successor = successor(a);
    let record = |phase: &str| drop(b.sh(&successor(phase)));
    record("abandoned");
    for host in [a, b] {
        until(&host.world, &format!("[ -s {TLS}/abandoned ]"));
    }
    record("sign");
    for host in [a, b] {
        until(&host.world, &format!("{LS} | grep -q 'was given up before, and is not used'"));
        assert_eq!(trusted(host), before);
    }
    a.spoke("host ca abandon");
    until(&a.world, &format!("! {LS} | grep -q 'was given up before'"));
}

/// The record of a host is damaged: it is removed by its name, and its certificate is worth nothing.
#[test]
fn a_host_whose_record_is_damaged_is_removed() {
    let segment = Segment::bare();
    let [a, mut b] = [("a", 1), ("b", 2)].map(|(name, at)| segment.host(name, at));
    a.spoke("host init --name a");
    join(&a.world, &b.world, "b");
    b.kill();
    b.sh(&put("192.0.2.1", "/spoke/v1/host/b", "echo damaged"));
    until(&a.world, &format!("{LS} | grep -q '/spoke/v1/host/b'"));
    until(&a.world, "/opt/cni/bin/spoke host remove b");
    until(&a.world, &format!("! {LS} | grep -q 'host/b'"));
    until(&b.world, &format!("! {{ {}; }}", ask(&format!("{TLS}/host.pem"), "192.0.2.1")));
    until(&a.world, "/opt/cni/bin/spoke host token create >/dev/null");
}

/// The authority of an etcd that was there is its operator's.
#[test]
fn an_authority_of_others_is_theirs() {
    let segment = Segment::new();
    let [a] = segment.cluster(["a"]);
    for command in ["rotate", "ls", "abandon"] {
        let said = a.refused(&format!("host ca {command}"));
        assert!(said.contains("who runs that changes its authority"), "{said}");
    }
}
