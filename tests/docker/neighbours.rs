//! Who asks for a container's ports, and from where.

use crate::bed::Bed;

/// Serves a page that says who asks, on IPv4 and IPv6.
const WHO: &str = "sh -c 'mkdir -p /www/cgi-bin; cd /www/cgi-bin; \
    printf \"#!/bin/sh\\necho; echo \\$REMOTE_ADDR\\n\" >who; chmod +x who; exec httpd -f -h /www'";

/// A machine in the host's subnet, and one behind it.
pub(crate) const NEIGHBOURS: &str = "
for name in lan far; do ip netns add $name; ip -n $name link set lo up; done
ip link add up0 type veth peer name eth0 netns lan
ip -n lan link add down0 type veth peer name eth0 netns far
ip address add 192.0.2.1/24 dev up0
ip address add 2001:db8:1::1/64 dev up0 nodad
ip -n lan address add 192.0.2.2/24 dev eth0
ip -n lan address add 2001:db8:1::2/64 dev eth0 nodad
ip -n lan address add 198.51.100.1/24 dev down0
ip -n lan address add 2001:db8:2::1/64 dev down0 nodad
ip -n far address add 198.51.100.2/24 dev eth0
ip -n far address add 2001:db8:2::2/64 dev eth0 nodad
ip link set up0 up; ip -n lan link set eth0 up; ip -n lan link set down0 up; ip -n far link set eth0 up
ip netns exec lan sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward; echo 1 >/proc/sys/net/ipv6/conf/all/forwarding'
ip -n far route add default via 198.51.100.1
ip -n far route add default via 2001:db8:2::1
ip -n lan route add default via 192.0.2.1
ip route add 198.51.100.0/24 via 192.0.2.2
ip route add 2001:db8:2::/64 via 2001:db8:1::2
";

/// Takes them away.
pub(crate) const NO_NEIGHBOURS: &str =
    "ip link del up0; ip -n far link del eth0; ip netns del lan; ip netns del far";

/// What a client in a container sends for a page.
pub(crate) const GET: &str = "printf 'GET / HTTP/1.0\\r\\n\\r\\n'";

/// What a client in namespace `$1` (`-`: the host's) reads from `$2` at port `$3`.
const ASK: &str = "
exec 3<>/dev/tcp/$1/$2
printf 'GET /cgi-bin/who HTTP/1.0\\r\\n\\r\\n' >&3
tail -n 1 <&3 | tr -d '[]'";

impl Bed {
    /// A container that serves a page that says who asks.
    #[track_caller]
    pub(crate) fn serve(&self, options: &str) {
        self.docker(&format!("run -d {options} busybox {WHO}"));
    }

    /// Who asks at this port, as the server sees it, if it can be reached: from a network
    /// namespace, or the host (`""`).
    pub(crate) fn ask(&self, from: &str, host: &str, port: u16) -> Option<String> {
        let over = if from.is_empty() { String::new() } else { format!("ip netns exec {from}") };
        let script = format!(
            "timeout 1 {over} bash -c '{ASK}' ask {host} {port}",
            ASK = ASK.replace('\'', "'\\''")
        );
        let done = self.world().try_sh(&script);
        let said = done.stdout.trim().trim_start_matches("::ffff:").to_owned();
        (done.status == 0 && !said.is_empty()).then_some(said)
    }

    /// The same, once the server listens.
    #[track_caller]
    pub(crate) fn asked(&self, from: &str, host: &str, port: u16) -> String {
        let said = (0..20).find_map(|_| self.ask(from, host, port));
        said.unwrap_or_else(|| {
            panic!(
                "no answer from {host}:{port}\n{}",
                self.world().sh("nft list table inet spoke; iptables-save")
            )
        })
    }
}
