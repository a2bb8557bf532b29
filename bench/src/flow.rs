//! A flow of bytes between two network namespaces, as what is measured.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::thread;

use model::{Error, Result};
use netlink::Netns;

use crate::args::Args;
use crate::contender::Contender;
use crate::execute::{Cost, ourselves};
use crate::stats::Summary;
use crate::world::Host;

/// What is sent in one turn, in bytes.
const SENT: [usize; 2] = [128 << 20, 512 << 20];

/// What is sent in one turn, in bytes.
pub(crate) fn length(args: &Args) -> usize {
    args.either(SENT[0], SENT[1])
}

/// The quotient of two speeds, which is the inverse of that of their times.
pub(crate) fn speed(time: Summary) -> Summary {
    Summary { median: 1.0 / time.median, low: 1.0 / time.high, high: 1.0 / time.low }
}

/// A link to the outside, which knows the way back.
pub(crate) fn uplink(host: &Host, outside: &Path) -> Result<()> {
    host.run_all(
        outside,
        &[
            "ip link add up0 type veth peer name out0 netns NAME",
            "ip address add 198.51.100.1/24 dev up0",
            "ip link set up0 up",
            "ip -n NAME address add 198.51.100.2/24 dev out0",
            "ip -n NAME link set out0 up",
            "ip -n NAME route add default via 198.51.100.1",
        ],
    )
}

/// Reads whatever is sent to `at`, and answers at its end. It ends with this process.
pub(crate) fn serve(netns: &Path, at: &str) -> Result<()> {
    let listener = Netns::open(netns)?.enter(|| TcpListener::bind(at))?;
    let listener = listener.map_err(|error| Error::os(format!("listening at {at}"), error))?;
    thread::spawn(move || {
        let mut room = vec![0; 1 << 18];
        for mut stream in listener.incoming().flatten() {
            while stream.read(&mut room).is_ok_and(|read| read > 0) {}
            let _ = stream.write_all(b"x");
        }
    });
    Ok(())
}

/// One that sends over a connection of its own in each turn.
pub(crate) struct Flow {
    pub(crate) label: &'static str,
    /// The network namespace that it is in.
    pub(crate) from: PathBuf,
    pub(crate) to: &'static str,
    /// What it sends in a turn, in bytes.
    pub(crate) length: usize,
}

impl Contender for Flow {
    fn label(&self) -> &str {
        self.label
    }

    fn verbs(&self) -> &'static [&'static str] {
        &["SEND"]
    }

    fn run(&mut self, _verb: &str) -> Result<Cost> {
        let failed = |error| Error::os("sending", error);
        let stream = Netns::open(&self.from)?.enter(|| TcpStream::connect(self.to))?;
        let mut stream = stream.map_err(failed)?;
        let data = vec![0; 1 << 18];
        let (_, cost) = ourselves(|| {
            for _ in 0..self.length / data.len() {
                stream.write_all(&data).map_err(failed)?;
            }
            stream.shutdown(Shutdown::Write).map_err(failed)?;
            stream.read_exact(&mut [0]).map_err(failed)
        })?;
        Ok(cost)
    }
}
