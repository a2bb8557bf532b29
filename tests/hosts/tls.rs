//! An etcd that only certain clients may use.

use crate::bed::{Segment, until, until_reached};

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

/// etcd wants a certificate, a user and a password. Two hosts show them and work together, also after etcd
/// has forgotten who logged in.
#[test]
fn etcd_with_certificates_and_users() {
    let mut segment = Segment::new();
    segment.stop_etcd();
    segment.sh(CERTIFICATES);
    segment.start_etcd_with_tls();
    segment.sh(
        "export ETCDCTL_API=3; etcdctl() { command etcdctl --endpoints https://192.0.2.100:2379 --cacert \
         /world/ca.pem --cert /world/client.pem --key /world/client.key \"$@\"; }
         etcdctl user add root:secret; etcdctl user grant-role root root; etcdctl auth enable",
    );
    let [a, b] = [segment.host("a", 1), segment.host("b", 2)];
    for (name, mode) in [("ca.pem", "644"), ("client.pem", "644"), ("client.key", "600")] {
        let text = segment.sh(&format!("cat /world/{name}"));
        for host in [&a, &b] {
            host.sh(&format!("printf '%s' '{text}' >/world/{name}; chmod {mode} /world/{name}"));
        }
    }
    for host in [&a, &b] {
        host.sh("echo secret >/world/password; echo wrong >/world/wrong");
    }
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
