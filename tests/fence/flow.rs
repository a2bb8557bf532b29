//! A connection of a container that lasts.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use tests::World;

const FLOW: &str = r#"
import socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 10)
s.settimeout(10)
assert s.recv(6) == b"hello\n"
print("open", flush=True)
s.settimeout(1)
for line in sys.stdin:
    if line == "options\n":
        # Four that say nothing (RFC 791, 3.1).
        s.setsockopt(socket.IPPROTO_IP, socket.IP_OPTIONS, b"\x01" * 4)
    try:
        s.sendall(line.encode())
        print("goes on" if s.recv(4096) else "ended", flush=True)
    except OSError:
        print("shut", flush=True)
"#;

/// It ends when this does.
pub(crate) struct Flow {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
}

impl Flow {
    /// From a namespace to a listener, which answers.
    #[track_caller]
    pub(crate) fn open(world: &World, namespace: &str, address: &str, port: u16) -> Self {
        let mut starts = Command::new("nsenter");
        let netns = world.path(&format!("/run/netns/{namespace}"));
        starts.arg(format!("--net={}", netns.display()));
        starts.args(["python3", "-c", FLOW, address, &port.to_string()]);
        starts.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = starts.spawn().expect("nsenter starts");
        let (to, from) = (child.stdin.take(), child.stdout.take().expect("piped"));
        let mut flow = Self { child, to, from: BufReader::new(from) };
        assert_eq!(flow.hear(), "open", "{namespace} to {address}");
        flow
    }

    /// Whether something that is sent comes back.
    #[track_caller]
    pub(crate) fn state(&mut self) -> String {
        self.to.as_mut().expect("it is open").write_all(b"x\n").expect("written");
        self.hear()
    }

    /// The same of packets with options of IPv4: all that are sent from now on have some.
    #[track_caller]
    pub(crate) fn state_with_options(&mut self) -> String {
        self.to.as_mut().expect("it is open").write_all(b"options\n").expect("written");
        self.hear()
    }

    fn hear(&mut self) -> String {
        let mut line = String::new();
        self.from.read_line(&mut line).expect("read");
        line.trim().to_owned()
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        drop(self.to.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
