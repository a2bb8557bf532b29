//! A host and its containers, made of threads in namespaces of their own.

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use model::*;
use netlink::Netns;
use rustix::thread::{UnshareFlags, unshare_unsafe};

pub(crate) fn isolated(test: impl FnOnce() + Send + 'static) {
    let thread = thread::spawn(|| {
        unshare();
        run("ip link set lo up");
        test();
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

#[allow(unsafe_code)]
fn unshare() {
    // SAFETY: a new network namespace for this thread leaves memory and descriptors alone.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.expect("root may unshare");
}

fn own() -> Sandbox {
    let id = rustix::thread::gettid().as_raw_nonzero();
    let path = PathBuf::from(format!("/proc/{}/task/{id}/ns/net", std::process::id()));
    Sandbox { path, inode: Netns::current().unwrap().inode() }
}

/// A container: a thread that keeps a namespace until it is stopped.
pub(crate) struct Container {
    pub(crate) sandbox: Sandbox,
    end: Option<mpsc::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Container {
    pub(crate) fn new() -> Self {
        let (report, reported) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let thread = thread::spawn(move || {
            unshare();
            report.send(own()).unwrap();
            let _ = ended.recv();
        });
        Self { sandbox: reported.recv().unwrap(), end: Some(end), thread: Some(thread) }
    }

    /// Its namespace, as ip(8) takes it.
    pub(crate) fn netns(&self) -> String {
        self.sandbox.path.display().to_string()
    }

    pub(crate) fn run(&self, command: &str) -> String {
        self.within(|| run(command))
    }

    fn within<T>(&self, work: impl FnOnce() -> T) -> T {
        Netns::open(&self.sandbox.path).unwrap().enter(work).unwrap()
    }

    /// Answers on this TCP port.
    pub(crate) fn serve(&self, port: u16) {
        let listener = self.within(|| TcpListener::bind(("0.0.0.0", port)).unwrap());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut stream = stream;
                let _ = stream.write_all(b"x");
            }
        });
    }

    /// Whether a TCP connection comes about. A first packet may be lost where a bridge's port has no
    /// carrier yet; the next one goes after a second.
    pub(crate) fn reaches(&self, address: &str, port: u16) -> bool {
        let to = SocketAddr::new(address.parse().unwrap(), port);
        self.within(|| TcpStream::connect_timeout(&to, Duration::from_millis(2500)).is_ok())
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

pub(crate) fn run(command: &str) -> String {
    let output = Command::new("sh").args(["-ec", command]).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Puts back all that the attachment needs, as the engine does. Whether anything was missing.
pub(crate) fn restored(linux: &linux::Linux, attachment: &Attachment) -> bool {
    use engine::port::Driver;
    let own = linux.restore(attachment).unwrap();
    linux.restore_shared(attachment).unwrap() || own
}

pub(crate) fn attachment(
    container: &str,
    kind: LinkKind,
    address: &str,
    sandbox: &Sandbox,
) -> Attachment {
    let address = doubles::address(address);
    let Network { wiring, .. } = network(kind);
    Attachment {
        sandbox: Some(sandbox.clone()),
        wiring: Wiring { masquerade: Some(Masquerade::new(Backend::Nftables)), ..wiring },
        addresses: vec![address],
        ..Attachment::new(
            doubles::attachment_id("front", container),
            Layer::Link,
            Runtime::Cni,
            Timestamp(0),
            Phase::Attaching { by: Process { pid: 1, start: 1 } },
        )
    }
}

pub(crate) fn bridge() -> LinkKind {
    doubles::bridge("br0", Gateway::Default)
}

pub(crate) fn network(kind: LinkKind) -> Network {
    Network::new(
        "front".parse().unwrap(),
        Runtime::Docker,
        Timestamp(0),
        Wiring { link: Some(Link { kind, name: None, mac: None, mtu: None }), ..Wiring::default() },
        Ipam::None,
    )
}

pub(crate) fn firewall() -> Firewall {
    Firewall::open(Backend::Nftables)
}

/// TCP port 80 of the container, on this one of the host.
pub(crate) fn published(host_port: u16) -> Publish {
    let map = PortMap {
        host: None,
        host_port: NonZeroU16::new(host_port).unwrap(),
        container_port: NonZeroU16::new(80).unwrap(),
        protocol: Protocol::Tcp,
    };
    Publish { ports: vec![map], ..Publish::new(Backend::Nftables) }
}
