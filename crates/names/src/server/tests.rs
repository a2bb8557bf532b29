use std::net;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};

use model::{
    Attached, Attachment, AttachmentId, InterfaceAddress, Kind, Layer, NetworkName, Phase, Runtime,
    Timestamp,
};

use rustix::event::{PollFd, PollFlags, poll};

use super::*;
use crate::fence::Judged;
use crate::fixture;
use crate::refusal::Refusal;
use crate::sandbox::{Door, Inside, Leaving, Opened};
use crate::table::Asker;
use crate::table::Sandbox;
use crate::upstream::Upstream;

/// What is called, in its order.
type Log = Arc<Mutex<Vec<String>>>;
/// What the records say next.
pub(super) type Step = fn(&mut Table);

fn says(log: &Log, what: impl Into<String>) {
    log.lock().unwrap().push(what.into());
}

/// Records that say one thing after the other, and cannot be read after the last one.
pub(super) struct Steps {
    steps: Vec<Step>,
    wakes: OwnedFd,
    left: Option<OwnedFd>,
    door: Arc<Doors>,
    log: Log,
}

/// The way into sandboxes, of which so many cannot be entered, or only when it may be.
#[derive(Default)]
struct Doors {
    closed: Mutex<usize>,
    may: Mutex<Option<Receiver<()>>>,
    log: Log,
}

impl Steps {
    pub(super) fn new(mut steps: Vec<Step>) -> Self {
        steps.reverse();
        let flags = rustix::event::EventfdFlags::empty();
        // It wakes at once, and always.
        let wakes = rustix::event::eventfd(1, flags).unwrap();
        let log = Log::default();
        let door = Arc::new(Doors { log: Arc::clone(&log), ..Doors::default() });
        Self { steps, wakes, left: None, door, log }
    }

    /// What was called until the records could not be read. What is done in sandboxes is waited for.
    fn run(mut self) -> Vec<String> {
        let log = Arc::clone(&self.log);
        let mut server = server(&mut self);
        while server.refresh(true).is_ok() {
            worked(&mut server);
        }
        server.leave_sandboxes();
        let log = log.lock().unwrap();
        log.clone()
    }
}

/// Waits for what is done in sandboxes.
fn worked(server: &mut Server<'_>) {
    let limit = Timespec::try_from(Duration::from_secs(10)).unwrap();
    while !server.works.is_idle() {
        let mut works = [PollFd::new(&server.works, PollFlags::IN)];
        assert_eq!(poll(&mut works, Some(&limit)).unwrap(), 1);
        server.finish_works();
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

    fn is_changed(&self) -> bool {
        false
    }

    fn restore(&self) -> Result<bool> {
        Ok(false)
    }

    fn leave(&self, leaving: Leaving) {
        says(&self.0, format!("{leaving:?} {}", self.1));
    }
}

impl Door for Doors {
    fn enter(&self, sandbox: &Sandbox) -> Result<Option<Opened>> {
        let (udp, tcp) = (UdpSocket::bind("127.0.0.1:0"), TcpListener::bind("127.0.0.1:0"));
        says(&self.log, format!("enter {}", sandbox.inode));
        if let Some(may) = &*self.may.lock().unwrap() {
            // The test may be over.
            let _ = may.recv_timeout(Duration::from_secs(10));
        }
        let mut closed = self.closed.lock().unwrap();
        if let Some(left) = closed.checked_sub(1) {
            *closed = left;
            return Err(Error::new(Kind::Denied, "closed"));
        }
        let inside = Arc::new(Entered(Arc::clone(&self.log), sandbox.inode));
        Ok(Some(Opened { udp: udp.unwrap(), tcp: tcp.unwrap(), inside }))
    }
}

impl NameSource for Steps {
    fn refresh(&mut self, table: &RwLock<Table>) -> Result<()> {
        let step = self.steps.pop().ok_or_else(|| Error::new(Kind::Kernel, "lost"))?;
        step(&mut table.write().unwrap());
        Ok(())
    }

    fn wakes(&self) -> BorrowedFd<'_> {
        self.wakes.as_fd()
    }

    fn keep(&mut self, _: &[ServedGateway], _: u16) -> Result<()> {
        Ok(())
    }

    fn door(&self) -> Arc<dyn Door> {
        Arc::clone(&self.door) as Arc<dyn Door>
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

    fn restored(&mut self, _: Option<&str>, _: &Sandbox) {}

    fn failed(&mut self, _: &str, _: &Error) {}
}

struct Open;

impl FenceHost for Open {
    fn is_host(&self, address: IpAddr) -> bool {
        address == IpAddr::from([203, 0, 113, 254])
    }

    fn is_near(&self, address: IpAddr) -> bool {
        self.is_host(address)
    }

    fn open(&self, _: &Judged) -> Result<()> {
        Ok(())
    }

    fn refused(&self, _: &Refusal) {}
}

fn server(book: &mut Steps) -> Server<'_> {
    let shared = (Arc::default(), Arc::new(Open) as Arc<dyn FenceHost>);
    Server::new(book, 299, Path::new("/dev/null"), shared).unwrap()
}

/// A container of Docker's.
fn attachment(inode: u64) -> Attachment {
    attached("front", "10.71.1.9/24", inode)
}

pub(super) fn attached(network: &str, address: &str, inode: u64) -> Attachment {
    let network: model::NetworkName = network.parse().unwrap();
    let (container, ifname) = ("web".parse().unwrap(), "eth0".parse().unwrap());
    let id = AttachmentId { network: network.clone(), container, ifname };
    let phase = Phase::Attached(Attached::default());
    let mut record = Attachment::new(id, Layer::Link, Runtime::Docker, Timestamp(0), phase);
    record.wiring.link = Some(fixture::bridge());
    record.wiring.names = true;
    let address: model::IpNet = address.parse().unwrap();
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

/// Queries wait in them.
#[test]
fn sockets_stay_when_their_network_is_called_otherwise() {
    let called_otherwise: Step = |table| {
        let mut record = attachment(7);
        record.title = Some("shop".parse().unwrap());
        table.put_attachment(&record.id, record.layer, Some(&record));
        assert_eq!(table.places()[0].called.as_str(), "shop");
    };
    let said = Steps::new(vec![|it| put(it, 7), called_otherwise]).run();
    assert!(!said.iter().any(|it| it.starts_with("discard")), "{said:?}");
}

/// A query alone costs no look into the records.
#[test]
fn records_are_read_when_they_have_changed() {
    // They say one thing, and cannot be read again.
    let mut steps = Steps::new(vec![|it| put(it, 7)]);
    let mut server = server(&mut steps);
    server.refresh(true).unwrap();
    server.refreshed = Some(Instant::now() + Duration::from_secs(3600));
    server.refresh(false).unwrap();
    assert!(server.refresh(true).is_err());
    server.refreshed = None;
    assert!(server.refresh(false).is_err(), "now and then they are read all the same");
}

/// No sandbox is led to sockets that no process has any more.
#[test]
fn sandboxes_are_left_however_it_ends() {
    let said = Steps::new(vec![|it| put(it, 7)]).run();
    assert_eq!(of_sandboxes(&said), ["enter 7", "Ended 7"]);
}

/// A client that connects without end holds no other one up.
#[test]
fn few_connections_are_accepted_at_once() {
    let mut steps = Steps::new(Vec::new());
    let mut server = server(&mut steps);
    let (udp, tcp) = (UdpSocket::bind("127.0.0.1:0"), TcpListener::bind("127.0.0.1:0"));
    let (udp, tcp) = (udp.unwrap(), tcp.unwrap());
    let clients =
        (0..=AT_ONCE).map(|_| net::TcpStream::connect(tcp.local_addr().unwrap()).unwrap());
    let clients: Vec<_> = clients.collect();
    let other = tcp.try_clone().unwrap();
    other.set_nonblocking(true).unwrap();
    let inside = Arc::new(Entered(Log::default(), 7));
    let sandbox = Sandbox { path: "/run/netns/web".into(), inode: 7, is_shut: false };
    server.add(&At::Sandbox(sandbox, inside), udp, tcp).unwrap();
    (FIRST..server.next).for_each(|number| {
        if matches!(server.listening[&number].socket, Socket::Tcp(_)) {
            server.serve(number).unwrap();
        }
    });
    assert!(other.accept().is_ok(), "one of {} is left", clients.len());
    assert!(other.accept().is_err());
}

/// A container can make it fail as long as it likes: that is not tried again at once.
#[test]
fn what_fails_is_tried_again_later() {
    let mut steps = Steps::new(Vec::new());
    *steps.door.closed.lock().unwrap() = 1;
    let log = Arc::clone(&steps.log);
    let mut server = server(&mut steps);
    put(&mut server.table().write().unwrap(), 7);
    let now = Instant::now();
    for (after, expected) in [(0, 1), (500, 1), (2_000, 2), (2_500, 2)] {
        server.enter_sandboxes(now + Duration::from_millis(after));
        worked(&mut server);
        assert_eq!(of_sandboxes(&log.lock().unwrap()).len(), expected, "after {after} ms");
    }
}

/// Root in a container may keep its packet filter busy: that holds no other container up, and is tried once.
#[test]
fn a_sandbox_that_cannot_be_entered_delays_no_other() {
    for (is_over, expected) in [(false, "Gone 7"), (true, "Ended 7")] {
        let (go, may) = channel();
        let mut steps = Steps::new(vec![|it| put(it, 7), |_| {}, |_| {}, remove]);
        *steps.door.may.lock().unwrap() = Some(may);
        let log = Arc::clone(&steps.log);
        let mut server = server(&mut steps);
        let now = Instant::now();
        for _ in 0..3 {
            server.refresh(true).unwrap();
        }
        assert!(server.works.late(now).is_empty());
        let later = now + 2 * work::LONGEST;
        assert_eq!(server.works.late(later).len(), 1);
        assert!(server.works.late(later).is_empty(), "it is reported once");
        if is_over {
            assert!(server.sandboxes.take().is_empty(), "it is not entered yet");
        } else {
            server.refresh(true).unwrap();
        }
        go.send(()).unwrap();
        worked(&mut server);
        let log = log.lock().unwrap();
        assert_eq!(of_sandboxes(&log), ["enter 7", expected], "once, and it is left again");
    }
}

/// A socket that the life before left for another address is not left to the next one.
#[test]
fn a_socket_of_another_address_is_not_kept() {
    let mut steps = Steps::new(Vec::new());
    steps.left = Some(UdpSocket::bind("127.0.0.1:0").unwrap().into());
    let log = Arc::clone(&steps.log);
    let mut server = server(&mut steps);
    let network: NetworkName = "front".parse().unwrap();
    let gateway = "127.0.0.2/8".parse().unwrap();
    let place = ServedGateway {
        called: network.clone(),
        former: vec![],
        network,
        bridge: "br0".parse().unwrap(),
        gateway,
    };
    server.port = 0;
    server.socket(&place, SocketType::DGRAM).unwrap();
    let expected = ["discard names-udp-127.0.0.2", "leave names-udp-127.0.0.2"];
    assert_eq!(*log.lock().unwrap(), expected);
}

/// Where one network of a container has a way, nothing is asked for it by the host's: not at another network,
/// and not by a server of this host. The network with the way need not have names.
#[test]
fn a_way_of_one_network_is_that_of_all_its_queries() {
    for (fence, names) in [(true, true), (true, false), (false, true), (false, false)] {
        let [mut one, mut led] = [("agents", "10.71.1.9/24"), ("vpn", "10.71.2.9/24")]
            .map(|(it, at)| attached(it, at, 7));
        one.wiring.fence = fence.then(|| "allowed.example:443".parse().unwrap());
        led.wiring.via = Some("wg0".parse().unwrap());
        led.wiring.names = names;
        let mut table = Table::default();
        table.put_attachment(&one.id, one.layer, Some(&one));
        let before = table.sandbox_generation();
        table.put_attachment(&led.id, led.layer, Some(&led));
        assert_ne!(table.sandbox_generation(), before);
        let sandbox = table.sandboxes().into_iter().next().unwrap();
        assert!(sandbox.is_shut, "fence {fence}, names {names}");
        let asker = Asker { network: &one.id.network, address: [10, 71, 1, 9].into() };
        let mark = Some(model::way_table(&"br0".parse().unwrap()));
        assert_eq!(table.way_of_asker(&asker), mark, "fence {fence}, names {names}");
        let inside = Arc::new(Entered(Log::default(), 7));
        let socket = Socket::Udp(UdpSocket::bind("127.0.0.1:0").unwrap());
        let here = Listening { at: At::Sandbox(sandbox, inside), socket };
        let origin = here.origin(&table, [127, 0, 0, 1].into()).unwrap();
        assert!(!fence || origin.network.as_str() == "agents");
        let servers = ["127.0.0.1", "::ffff:127.0.0.1", "203.0.113.254", "192.0.2.1"];
        let servers = servers.map(|it| it.parse().unwrap()).to_vec();
        let asked = origin.upstream(&mut Host::new(Path::new("/dev/null")), servers, &Open);
        let Upstream::Servers(asked) = asked else { panic!("Docker's server is asked") };
        assert_eq!(asked.all, [IpAddr::from([192, 0, 2, 1])], "fence {fence}, names {names}");
        table.put_attachment(&led.id, led.layer, None);
        assert_eq!(table.way_of_asker(&asker), None);
        assert_eq!(table.sandboxes().into_iter().next().unwrap().is_shut, fence);
    }
}

/// Two configurations may have one bridge: its queries all come to the gateway of the first.
#[test]
fn who_asks_may_be_on_another_network_of_the_bridge() {
    let [one, other] =
        [("pods", "10.71.1.9/24"), ("more", "10.71.2.9/24")].map(|(it, at)| attached(it, at, 7));
    let mut table = Table::default();
    for record in [&one, &other] {
        table.put_attachment(&record.id, record.layer, Some(record));
    }
    let place = table.places().into_iter().find(|it| it.network.as_str() == "pods").unwrap();
    let socket = Socket::Udp(UdpSocket::bind("127.0.0.1:0").unwrap());
    let here = Listening { at: At::Gateway(place), socket };
    let network = |peer: [u8; 4]| Some(here.origin(&table, peer.into())?.network.to_string());
    assert_eq!(network([10, 71, 1, 9]).as_deref(), Some("pods"));
    assert_eq!(network([10, 71, 2, 9]).as_deref(), Some("more"));
    assert_eq!(network([10, 71, 2, 8]), None);
}
