//! Packets of our own in others' namespaces: the first answer, round trips, streams, lost packets.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use model::{Error, Result};
use netlink::Netns;

/// Where the echo answers.
const PORT: u16 = 7007;
/// Between two attempts at what is not reached yet.
const STEP: Duration = Duration::from_micros(500);
/// What is not reached after this long is not reached.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Between two packets of the flow that is watched.
const BEAT: Duration = Duration::from_millis(1);
/// A packet that is not answered for so long is lost.
const LATE: Duration = Duration::from_secs(3);

fn failed(what: &'static str) -> impl FnOnce(std::io::Error) -> Error {
    move |cause| Error::os(what, cause)
}

/// A socket in a namespace.
fn socket(netns: &Netns, port: u16) -> Result<UdpSocket> {
    let bound = netns.enter(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)))?;
    bound.map_err(failed("binding a socket"))
}

/// Answers every packet with itself, until it is dropped.
pub(super) struct Echo {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Echo {
    pub(super) fn start(netns: &Netns) -> Result<Self> {
        let socket = socket(netns, PORT)?;
        let timeout = socket.set_read_timeout(Some(Duration::from_millis(100)));
        timeout.map_err(failed("a timeout"))?;
        let stop = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut packet = [0; 2048];
            while !theirs.load(Ordering::Relaxed) {
                if let Ok((length, from)) = socket.recv_from(&mut packet) {
                    let _ = socket.send_to(packet.get(..length).unwrap_or_default(), from);
                }
            }
        });
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// From `begin` until the echo at `to` has answered this namespace for the first time, in milliseconds.
/// The namespace needs no address yet.
pub(super) fn first_reply(netns: &Netns, to: Ipv4Addr, begin: Instant) -> Result<f64> {
    let socket = socket(netns, 0)?;
    socket.set_nonblocking(true).map_err(failed("a socket"))?;
    let to = SocketAddrV4::new(to, PORT);
    let mut packet = [0; 64];
    while begin.elapsed() < TIMEOUT {
        // There is no way yet.
        let _ = socket.send_to(b"there", to);
        thread::sleep(STEP);
        if socket.recv_from(&mut packet).is_ok() {
            return Ok(begin.elapsed().as_secs_f64() * 1e3);
        }
    }
    Err(Error::try_again(format!("{to} never answers")))
}

/// The median of `count` round trips, in microseconds.
pub(super) fn round_trip(netns: &Netns, to: Ipv4Addr, count: usize) -> Result<f64> {
    let socket = socket(netns, 0)?;
    socket.connect((to, PORT)).map_err(failed("a socket"))?;
    let timeout = socket.set_read_timeout(Some(Duration::from_secs(3)));
    timeout.map_err(failed("a timeout"))?;
    let (mut packet, mut took) = ([0; 64], Vec::with_capacity(count));
    for _ in 0..count {
        let begin = Instant::now();
        socket.send(b"there").map_err(failed("sending"))?;
        socket.recv(&mut packet).map_err(failed("a round trip"))?;
        took.push(begin.elapsed().as_secs_f64() * 1e6);
    }
    took.sort_by(f64::total_cmp);
    took.get(count / 2).copied().ok_or_else(|| Error::bug("no round trips"))
}

/// Bytes that go from one namespace to an address of the other by one TCP stream, in Gbit/s.
pub(super) fn stream(from: &Netns, (to, at): (&Netns, Ipv4Addr), lasts: Duration) -> Result<f64> {
    let listener = to.enter(|| TcpListener::bind((at, 0)))?;
    let listener = listener.map_err(failed("listening"))?;
    let port = listener.local_addr().map_err(failed("listening"))?.port();
    let sink = thread::spawn(move || {
        let Ok((mut stream, _)) = listener.accept() else { return (0, Duration::ZERO) };
        let (mut buffer, mut count, begin) = (vec![0; 256 << 10], 0, Instant::now());
        loop {
            match stream.read(&mut buffer) {
                Ok(0) | Err(_) => return (count, begin.elapsed()),
                Ok(length) => count += length,
            }
        }
    });
    let connected = from.enter(|| TcpStream::connect((at, port)))?;
    let mut stream = connected.map_err(failed("connecting"))?;
    let (bytes, begin) = (vec![0x5a; 256 << 10], Instant::now());
    while begin.elapsed() < lasts {
        stream.write_all(&bytes).map_err(failed("sending"))?;
    }
    drop(stream);
    let (count, took) = sink.join().map_err(|_| Error::bug("a thread ended early"))?;
    Ok(count as f64 * 8.0 / took.as_secs_f64() / 1e9)
}

/// A flow of numbered packets, one a millisecond.
pub(super) struct Flow {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<(u32, u32)>>,
}

impl Flow {
    pub(super) fn start(netns: &Netns, to: Ipv4Addr) -> Result<Self> {
        let socket = socket(netns, 0)?;
        socket.connect((to, PORT)).map_err(failed("a socket"))?;
        socket.set_nonblocking(true).map_err(failed("a socket"))?;
        let stop = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&stop);
        Ok(Self { stop, thread: thread::spawn(move || flow(&socket, &theirs)) })
    }

    /// How many were sent, and how many of them were lost.
    pub(super) fn end(self) -> Result<(u32, u32)> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| Error::bug("a thread ended early"))?
    }
}

fn flow(socket: &UdpSocket, stop: &AtomicBool) -> Result<(u32, u32)> {
    let (mut sent, mut heard) = (0, std::collections::BTreeSet::new());
    while !stop.load(Ordering::Relaxed) {
        send(socket, sent)?;
        sent += 1;
        hear(socket, &mut heard);
        thread::sleep(BEAT);
    }
    let deadline = Instant::now() + LATE;
    while heard.len() < sent as usize && Instant::now() < deadline {
        hear(socket, &mut heard);
        thread::sleep(BEAT);
    }
    Ok((sent, sent - heard.len() as u32))
}

/// What the socket cannot take at once is sent when it can.
fn send(socket: &UdpSocket, number: u32) -> Result<()> {
    loop {
        match socket.send(&number.to_be_bytes()) {
            Err(cause) if cause.kind() == ErrorKind::WouldBlock => thread::sleep(STEP),
            sent => return sent.map(drop).map_err(failed("sending")),
        }
    }
}

fn hear(socket: &UdpSocket, heard: &mut std::collections::BTreeSet<u32>) {
    let mut packet = [0; 4];
    while let Ok(4) = socket.recv(&mut packet) {
        heard.insert(u32::from_be_bytes(packet));
    }
}
