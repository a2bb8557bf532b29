//! What connection tracking finds related to a flow of a fenced container: of that only reports come to it.

use crate::bed::Bed;

/// A helper of connection tracking reads what is sent to the port, and lets in whom that names (RFC 1350): the answer
/// comes from another port than the one that was asked.
const HELPER: &str = "nft 'table inet helpers {
    ct helper files { type \"tftp\" protocol udp; }
    chain pre { type filter hook prerouting priority 0; udp dport 5432 ct helper set \"files\"; }
}'";

/// Asks for a file, has the world send it from another port, and says whether it came.
const ASK: &str = "
import socket, subprocess, sys
world, host, port = sys.argv[1:]
send = \"import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); \" \\
       f\"s.bind((\\\"{world}\\\", 6000)); s.sendto(b\\\"data\\\", (\\\"{host}\\\", {port}))\"
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
    sock.bind((\"\", int(port)))
    sock.settimeout(10)
    sock.sendto(b\"\\0\\1file\\0octet\\0\", (world, 5432))
    assert sock.recv(100) == b\"hello\\n\"
    subprocess.run([\"ip\", \"netns\", \"exec\", \"world\", \"python3\", \"-c\", send], check=True)
    sock.settimeout(1)
    try:
        print(sock.recv(100).decode())
    except TimeoutError:
        print(\"nothing\")
";

/// Sends to a port that nobody has, and says what is reported of that.
const REPORT: &str = "
import socket, sys
inet = socket.AF_INET6 if \":\" in sys.argv[1] else socket.AF_INET
with socket.socket(inet, socket.SOCK_DGRAM) as sock:
    sock.connect((sys.argv[1], 7777))
    sock.settimeout(10)
    sock.send(b\"x\")
    try:
        sock.recv(100)
    except OSError as error:
        print(type(error).__name__)
";

#[test]
fn of_what_is_related_only_reports_come_to_a_fenced_container() {
    let bed = Bed::new(&["agent", "tight", "free"]);
    let rules = "--egress 203.0.113.20:5432/udp,203.0.113.21:7777/udp,[2001:db8:113::21]:7777/udp";
    bed.spoke(&format!("network create {rules} --subnet 10.81.8.0/24 --subnet fd81:8::/64 tried"));
    bed.spoke("network create --names --subnet 10.81.9.0/24 --subnet fd81:9::/64 open");
    bed.spoke("network connect tried agent");
    bed.spoke(&format!("network connect {rules} open tight"));
    bed.spoke("network connect open free");
    bed.world.sh(HELPER);
    let run = |name: &str, script: &str, arguments: &str| {
        let all = bed.world.sh(&format!("ip netns exec {name} python3 -c '{script}' {arguments}"));
        all.trim().to_owned()
    };
    for (name, port, comes) in
        [("free", 4005, "data"), ("agent", 4006, "nothing"), ("tight", 4007, "nothing")]
    {
        let arguments = format!("203.0.113.20 203.0.113.254 {port}");
        assert_eq!(run(name, ASK, &arguments), comes, "{name}");
        for address in ["203.0.113.21", "2001:db8:113::21"] {
            assert_eq!(run(name, REPORT, address), "ConnectionRefusedError", "{name}: {address}");
        }
    }
}
