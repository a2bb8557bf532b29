use std::net;
use std::sync::Mutex;

use model::{
    Attached, Attachment, AttachmentId, InterfaceAddress, Kind, Layer, NetworkName, Phase, Runtime,
    Timestamp,
};

use super::*;
use crate::fence::Judged;
use crate::fixture;
use crate::gate::Refusal;
use crate::sandbox::{Inside, Leaving};

/// What is called, in its order.
type Log = Arc<Mutex<Vec<String>>>;
/// What the records say next.
type Step = fn(&mut Table);

fn says(log: &Log, what: impl Into<String>) {
    log.lock().unwrap().push(what.into());
}

/// Records that say one thing after the other, and cannot be read after the last one.
struct Steps {
    steps: Vec<Step>,
    wakes: OwnedFd,
    left: Option<OwnedFd>,
    log: Log,
}

impl Steps {
    fn new(mut steps: Vec<Step>) -> Self {
        steps.reverse();
        let flags = rustix::event::EventfdFlags::empty();
        // It wakes at once, and always.
        let wakes = rustix::event::eventfd(1, flags).unwrap();
        Self { steps, wakes, left: None, log: Log::default() }
    }

    /// What was called until the records could not be read.
    fn run(mut self) -> Vec<String> {
        let log = Arc::clone(&self.log);
        let stop = rustix::event::eventfd(0, rustix::event::EventfdFlags::empty()).unwrap();
        assert!(server(&mut self).run(stop.as_fd()).is_err());
        let log = log.lock().unwrap();
        log.clone()
    }
}

struct Entered(Log, u64);

impl Inside for Entered {
    fn udp(&self) -> io::Result<UdpSocket> {
        Err(ErrorKind::NotFound.into())
    }

    fn tcp(&self, _: Duration) -> io::Result<net::TcpStream> {
        Err(ErrorKind::NotFound.into())
    }

    fn is_there(&self) -> bool {
        true
    }

    fn leave(&self, leaving: Leaving) {
        says(&self.0, format!("{leaving:?} {}", self.1));
    }
}

impl Book for Steps {
    fn refresh(&mut self, table: &mut Table) -> Result<()> {
        let step = self.steps.pop().ok_or_else(|| Error::new(Kind::Kernel, "lost"))?;
        step(table);
        Ok(())
    }

    fn wakes(&self) -> BorrowedFd<'_> {
        self.wakes.as_fd()
    }

    fn keep(&mut self, _: &[Place], _: u16) -> Result<()> {
        Ok(())
    }

    fn enter(&mut self, sandbox: &Sandbox) -> Result<Option<Opened>> {
        let (udp, tcp) = (UdpSocket::bind("127.0.0.1:0"), TcpListener::bind("127.0.0.1:0"));
        says(&self.log, format!("enter {}", sandbox.inode));
        let inside = Arc::new(Entered(Arc::clone(&self.log), sandbox.inode));
        Ok(Some(Opened { udp: udp.unwrap(), tcp: tcp.unwrap(), inside }))
    }

    fn take(&mut self, _: &str) -> Option<OwnedFd> {
        self.left.take()
    }

    fn leave(&mut self, name: &str, _: BorrowedFd<'_>) {
        says(&self.log, format!("leave {name}"));
    }

    fn discard(&mut self, name: &str) {
        says(&self.log, format!("discard {name}"));
    }

    fn discard_rest(&mut self) {}

    fn failed(&mut self, _: &str, _: &Error) {}
}

struct Open;

impl Gate for Open {
    fn is_host(&self, _: IpAddr) -> bool {
        false
    }

    fn open(&self, _: &Judged) -> Result<()> {
        Ok(())
    }

    fn refused(&self, _: &Refusal) {}
}

fn server(book: &mut Steps) -> Server<'_> {
    let shared = (Arc::default(), Arc::new(Open) as Arc<dyn Gate>);
    Server::new(book, 299, Path::new("/dev/null"), shared).unwrap()
}

/// A container of Docker's. No address of this network's gateway can be bound to.
fn attachment(inode: u64) -> Attachment {
    let network: NetworkName = "front".parse().unwrap();
    let (container, ifname) = ("web".parse().unwrap(), "eth0".parse().unwrap());
    let id = AttachmentId { network: network.clone(), container, ifname };
    let phase = Phase::Attached(Attached::default());
    let mut record = Attachment::new(id, Layer::Link, Runtime::Docker, Timestamp(0), phase);
    record.wiring.link = Some(fixture::bridge());
    record.wiring.names = true;
    let address: model::IpNet = "10.71.1.9/24".parse().unwrap();
    record.ipam = fixture::pools(&network, &[address]);
    record.addresses = vec![InterfaceAddress { address, gateway: None, interface: None }];
    record.sandbox = Some(model::Sandbox { path: "/run/netns/web".into(), inode });
    record
}

fn put(table: &mut Table, inode: u64) {
    let record = attachment(inode);
    table.put_attachment(&record.id, record.layer, Some(&record));
}

fn remove(table: &mut Table) {
    let record = attachment(0);
    table.put_attachment(&record.id, record.layer, None);
}

fn of_sandboxes(all: &[String]) -> Vec<&str> {
    all.iter().map(String::as_str).filter(|it| !it.contains("names-")).collect()
}

/// What leads queries goes when its container has no names any more, and not when more is known of it.
#[test]
fn what_leads_queries_stays_until_it_leads_to_other_sockets() {
    let said = Steps::new(vec![|it| put(it, 0), |it| put(it, 7), remove]).run();
    assert_eq!(of_sandboxes(&said), ["enter 0", "Renewed 0", "enter 7", "Gone 7"]);
}

/// No sandbox is led to sockets that nobody has any more.
#[test]
fn sandboxes_are_left_however_it_ends() {
    let said = Steps::new(vec![|it| put(it, 7)]).run();
    assert_eq!(of_sandboxes(&said), ["enter 7", "Ended 7"]);
}
