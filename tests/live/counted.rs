//! Counters of published ports.

use serde_json::Value;
use tests::Serve;

use crate::bed::{Bed, HOST, Live};

/// What connections over the host's port carried by the kernel's own account: to the container, and back.
const ACCOUNT: &str = r#"
awk -v port="dport=$1" '$3 == "tcp" {
    first = 0; sent = 0; answered = 0; meant = 0
    for (i = 1; i <= NF; i++) {
        if ($i ~ /^dport=/ && !first) { first = 1; meant = ($i == port) }
        if ($i ~ /^packets=/) { split($i, p, "="); if (np++ % 2 == 0) ps = p[2]; else pa = p[2] }
        if ($i ~ /^bytes=/) { split($i, b, "="); if (nb++ % 2 == 0) sent = b[2]; else answered = b[2] }
    }
    if (meant) { s += sent; a += answered; x += ps; y += pa }
} END { print s, x, a, y }' /proc/net/nf_conntrack"#;

impl Bed {
    /// The counters of a port: bytes and packets to the container, and back.
    #[track_caller]
    fn counted(&self, port: &str) -> Option<[u64; 4]> {
        let rows = self.json("top --by port");
        let row = rows.as_array()?.iter().find(|row| row["port"] == port)?;
        let number = |key: &str| row[key].as_u64();
        Some([
            number("receive_bytes")?,
            number("receive_packets")?,
            number("transmit_bytes")?,
            number("transmit_packets")?,
        ])
    }

    /// The same by the kernel's account of connections.
    #[track_caller]
    fn account(&self, port: u16) -> [u64; 4] {
        let printed = self.world().sh(&format!("set -- {port}; {ACCOUNT}"));
        let numbers: Vec<u64> = printed.split_whitespace().map(|it| it.parse().unwrap()).collect();
        numbers.try_into().expect("four numbers")
    }

    /// A metric of the daemon about a port.
    #[track_caller]
    fn metric(&self, name: &str, port: &str) -> Value {
        let ask = "curl -sS --unix-socket /run/spoke/metrics.sock http://spoke/metrics";
        let text = self.world().sh(ask);
        let is_it =
            |line: &&str| line.starts_with(name) && line.contains(&format!("port=\"{port}\""));
        let line = text.lines().find(is_it).unwrap_or_default();
        line.rsplit(' ').next().and_then(|it| it.parse().ok()).unwrap_or(Value::Null)
    }
}

#[test]
fn ports_are_counted_to_the_byte() {
    let bed = Bed::new(&["web", "api"]);
    bed.world.sh("sysctl -qw net.netfilter.nf_conntrack_acct=1");
    bed.spoke("network connect --publish 8080:80 front web");
    bed.spoke("network connect --publish 127.0.0.1:8081:80 front api");
    bed.serve("web");
    bed.serve("api");
    bed.world.sh("head -c 200000 /dev/zero >/srv/web/large");
    assert_eq!(bed.counted("8080/tcp"), Some([0; 4]));
    for _ in 0..3 {
        let got = crate::bed::outside(
            &bed.world,
            &format!("curl -sS --max-time 9 http://{HOST}:8080/large | wc -c"),
        );
        assert_eq!(got.as_deref(), Some("200000"));
    }
    // From the host itself, at its loopback address, and a second port of the same container.
    bed.world.sh("curl -sS --max-time 9 http://127.0.0.1:8081/ >/dev/null");
    bed.spoke("port add web 8082:80");
    assert_eq!(bed.page(8082), "web");
    for port in [8080, 8081, 8082] {
        let wanted = bed.account(port);
        assert!(wanted.iter().all(|number| *number > 0), "{port}: {wanted:?}");
        bed.until_counted(port, wanted);
    }

    // They survive the daemon, and a repaired packet filter; they end with the port.
    let before = bed.counted("8080/tcp").unwrap();
    let serve = Serve::start(&bed.world, &[]);
    assert_eq!(bed.metric("spoke_port_receive_bytes_total", "8080/tcp"), before[0]);
    assert_eq!(bed.metric("spoke_port_transmit_packets_total", "8080/tcp"), before[3]);
    serve.kill();
    bed.spoke("gc");
    assert_eq!(bed.counted("8080/tcp"), Some(before));
    let serve = Serve::start(&bed.world, &[]);
    assert_eq!(bed.counted("8080/tcp"), Some(before));
    bed.world.sh("nft delete table inet spoke_ports");
    bed.until("nft list table inet spoke_ports 2>/dev/null | grep -q \"from-.*-tcp-8080\"");
    assert_eq!(bed.page(8080), "web");
    assert!(bed.counted("8080/tcp").is_some_and(|it| it[0] > 0 && it[0] < before[0]));
    bed.spoke("port rm web 8082");
    assert_eq!(bed.counted("8082/tcp"), None);
    serve.stop();
    bed.spoke("network disconnect front web");
    bed.spoke("network disconnect front api");
    bed.world.sh("! nft list table inet spoke_ports 2>/dev/null");
}

impl Bed {
    /// Waits until connections have ended on both accounts: the last packets may be on their way.
    #[track_caller]
    fn until_counted(&self, port: u16, mut wanted: [u64; 4]) {
        for _ in 0..20 {
            if self.counted(&format!("{port}/tcp")) == Some(wanted) {
                return;
            }
            wanted = self.account(port);
        }
        panic!("{port}: {:?}, not {wanted:?}", self.counted(&format!("{port}/tcp")));
    }
}
