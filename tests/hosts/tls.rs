//! An etcd that only certain clients may use.

use crate::bed::{Host, Segment, until, until_reached};

/// An authority, and certificates of etcd and of a client.
const CERTIFICATES: &str = "cd /world
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out ca.pem -days 2 \
        -subj /CN=authority 2>/dev/null
    for name in server client; do
        openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout $name.key -out $name.csr -subj / \
            2>/dev/null
        printf 'subjectAltName=IP:192.0.2.100\nextendedKeyUsage=serverAuth,clientAuth\n' >$name.ext
        openssl x509 -req -in $name.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile $name.ext \
            -out $name.pem 2>/dev/null
    done";

/// `etcdctl` of such an etcd, in a script.
const CTL: &str = "export ETCDCTL_API=3; etcdctl() { command etcdctl --endpoints https://192.0.2.100:2379 --cacert \
                   /world/ca.pem --cert /world/client.pem --key /world/client.key \"$@\"; }";
/// The same by its first user.
const AS_ROOT: &str = "etcdctl --user root:secret";

/// An etcd that wants a certificate, a user and a password, and two hosts that have all of them. The script adds users
/// before that.
fn guarded(users: &str) -> (Segment, [Host; 2]) {
    let mut segment = Segment::new();
    segment.stop_etcd();
    segment.sh(CERTIFICATES);
    segment.start_etcd_with_tls();
    segment.sh(&format!(
        "{CTL}
         etcdctl user add root:secret; etcdctl user grant-role root root
         {users}
         etcdctl auth enable"
    ));
    let hosts = [segment.host("a", 1), segment.host("b", 2)];
    for (name, mode) in [("ca.pem", "644"), ("client.pem", "644"), ("client.key", "600")] {
        let text = segment.sh(&format!("cat /world/{name}"));
        for host in &hosts {
            host.sh(&format!("printf '%s' '{text}' >/world/{name}; chmod {mode} /world/{name}"));
        }
    }
    for host in &hosts {
        host.sh("echo secret >/world/password; echo wrong >/world/wrong");
    }
    (segment, hosts)
}

/// etcd wants a certificate, a user and a password. Two hosts show them and work together, also after etcd
/// has forgotten who logged in.
#[test]
fn etcd_with_certificates_and_users() {
    let (mut segment, [a, b]) = guarded("");
    let init = "host init --name a --etcd https://192.0.2.100:2379";
    let (ca, client) = ("--etcd-ca ca.pem", "--etcd-cert client.pem --etcd-key client.key");
    let run =
        |options: &str| a.world.try_sh(&format!("cd /world; /opt/cni/bin/spoke {init} {options}"));
    for (options, why) in [
        (client.to_owned(), "certificate"),
        (ca.to_owned(), "name one with --etcd-cert"),
        (format!("{ca} --etcd-cert client.pem"), "--etcd-key"),
        (format!("{ca} {client}"), "user"),
        (format!("{ca} {client} --etcd-user root --etcd-password wrong"), "authentication failed"),
    ] {
        let said = run(&options);
        assert!(said.status != 0 && said.stderr.contains(why), "{options}: {said:?}");
    }
    let user = "--etcd-user root --etcd-password password";
    let said = run(&format!("{ca} {client} {user}"));
    assert_eq!(said.status, 0, "{said:?}");
    let token = crate::bed::token(&a.world);
    b.sh(&format!("cd /world; /opt/cni/bin/spoke host join --name b {ca} {client} {user} {token}"));
    a.spoke("network create --hosts all front");
    let (one, two) = (a.attach("front", "one"), b.attach("front", "two"));
    until_reached(&a.world, "one", &two);
    segment.stop_etcd();
    segment.start_etcd_with_tls();
    until(&b.world, "/opt/cni/bin/spoke network create --hosts all back");
    until_reached(&b.world, "two", &one);
}

/// etcd lets a host write everything but one pin: the host says so, and releases its other addresses all the same.
#[test]
fn one_pin_that_etcd_does_not_let_go() {
    let (segment, [a, b]) = guarded(
        "etcdctl role add hosts; etcdctl role grant-permission hosts --prefix=true readwrite /spoke/v1/
         etcdctl user add spoke:secret; etcdctl user grant-role spoke hosts",
    );
    for host in [&a, &b] {
        host.sh(&format!(
            "cd /world; /opt/cni/bin/spoke host init --name {} --etcd https://192.0.2.100:2379 --etcd-ca ca.pem \
             --etcd-cert client.pem --etcd-key client.key --etcd-user spoke --etcd-password password",
            host.name
        ));
    }
    let ctl = |arguments: &str| format!("{CTL}; {AS_ROOT} {arguments}");
    a.spoke("network create --hosts all front");
    for (name, address) in [("one", "10.64.200.7"), ("two", "10.64.200.8")] {
        a.world.netns(name);
        a.spoke(&format!("network connect --ip {address} front {name}"));
    }
    let pin = "/spoke/v1/pin/front/10.64.200.7";
    // What is before it and what is behind it; the rest is read.
    for grant in [
        format!("readwrite /spoke/v1/ {pin}"),
        format!("readwrite {pin}0 /spoke/v10"),
        "--prefix=true read /spoke/v1/".to_owned(),
    ] {
        segment.sh(&ctl(&format!("role grant-permission hosts {grant}")));
    }
    for name in ["one", "two"] {
        a.spoke(&format!("network disconnect front {name}"));
    }
    let pins = ctl("get --prefix --keys-only /spoke/v1/pin/");
    segment.until(&format!("pins=$({pins}) && [ \"$pins\" = {pin} ]"));
    let says = "/opt/cni/bin/spoke host ls 2>&1 | grep -q 'telling the others what this host has'";
    until(&a.world, says);
    segment.sh(&ctl("role grant-permission hosts --prefix=true readwrite /spoke/v1/"));
    segment.until(&format!("pins=$({pins}) && [ -z \"$pins\" ]"));
    until(&a.world, &format!("! {says}"));
}
