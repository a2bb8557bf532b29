use std::net::{IpAddr, TcpListener, UdpSocket};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use domain::base::iana::{Rcode, Rtype};
use domain::base::{Message, MessageBuilder, Name};
use domain::rdata::A;
use model::{Attachment, Error, Kind, Result};

use super::*;
use crate::fence::Judged;
use crate::fenced_answer::FenceHost;
use crate::fixture::Container;
use crate::listening::At;
use crate::refusal::Refusal;
use crate::server::OPENED;
use crate::server::tests::{Steps, attached};
use crate::table::{Asker, ServedGateway};
use crate::upstream::Upstream;

/// What does not come fails its test, instead of waiting for ever.
const LIMIT: Duration = Duration::from_secs(10);

/// Opens something when it may.
struct WaitingGate(Mutex<Receiver<()>>);

impl FenceHost for WaitingGate {
    fn is_host(&self, _: IpAddr) -> bool {
        false
    }

    fn is_near(&self, address: IpAddr) -> bool {
        self.is_host(address)
    }

    fn open(&self, _: &Judged) -> Result<()> {
        let may = self.0.lock().unwrap().recv_timeout(LIMIT);
        may.map_err(|_| Error::new(Kind::TryAgain, "others keep changing the rules"))
    }

    fn refused(&self, _: &Refusal) {}
}

fn query(name: &str) -> Vec<u8> {
    let mut question = MessageBuilder::new_vec().question();
    question.push((name.parse::<Name<Vec<u8>>>().unwrap(), Rtype::A)).unwrap();
    question.finish()
}

fn answer(query: &[u8], name: &str) -> Vec<u8> {
    let query = Message::from_octets(query).unwrap();
    let mut answer = MessageBuilder::new_vec().start_answer(&query, Rcode::NOERROR).unwrap();
    let name: Name<Vec<u8>> = name.parse().unwrap();
    answer.push((&name, 60, A::new([203, 0, 113, 1].into()))).unwrap();
    answer.finish()
}

fn client(address: [u8; 4]) -> UdpSocket {
    let client = UdpSocket::bind((IpAddr::from(address), 0)).unwrap();
    client.set_read_timeout(Some(LIMIT)).unwrap();
    client
}

fn addresses(client: &UdpSocket) -> u16 {
    let mut buffer = [0; 512];
    let length = client.recv(&mut buffer).unwrap();
    Message::from_octets(&buffer[..length]).unwrap().header_counts().ancount()
}

/// The socket of a network, at which a container asks.
fn listen(server: &mut Server<'_>, record: &Attachment) -> (u64, SocketAddr) {
    server.table().write().unwrap().put_attachment(&record.id, record.layer, Some(record));
    let (network, bridge) = (record.id.network.clone(), "br0".parse().unwrap());
    let place = ServedGateway {
        called: network.clone(),
        former: vec![],
        network,
        bridge,
        gateway: "127.0.0.1/8".parse().unwrap(),
    };
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.set_nonblocking(true).unwrap();
    let (number, address) = (server.next, udp.local_addr().unwrap());
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    server.add(&At::Gateway(place), udp, tcp).unwrap();
    (number, address)
}

/// A change of rules keeps openings waiting, and nothing else. What is not open is not answered.
#[test]
fn what_waits_for_an_opening_delays_no_other_query() {
    let (go, may) = channel();
    let mut book = Steps::new(Vec::new());
    let shared = (Arc::default(), Arc::new(WaitingGate(Mutex::new(may))) as Arc<dyn FenceHost>);
    let mut server = Server::new(&mut book, 299, Path::new("/dev/null"), shared).unwrap();
    server.watch(server.answers.as_fd(), OPENED).unwrap();
    let mut fenced = attached("agents", "127.0.0.2/8", 0);
    fenced.wiring.fence = Some("a.example:443".parse().unwrap());
    fenced.sandbox = None;
    let mut plain = attached("front", "127.0.0.3/8", 0);
    (plain.sandbox, plain.runtime) = (None, model::Runtime::Cni);
    let (of_fenced, _) = listen(&mut server, &fenced);
    let (of_plain, plain_server) = listen(&mut server, &plain);
    let [waiting, other] = [[127, 0, 0, 2], [127, 0, 0, 3]].map(client);

    let query_of_fenced = query("a.example");
    let asker = Asker { network: &fenced.id.network, address: [127, 0, 0, 2].into() };
    let from = From {
        asker: waiting.local_addr().unwrap(),
        listener: of_fenced,
        container: asker.address,
        holder: server.table().read().unwrap().holder_of(&asker).cloned(),
    };
    let message = answer(&query_of_fenced, "a.example");
    server.answer(Done { from, query: query_of_fenced, message, has_failed: false });

    other.send_to(&query("web"), plain_server).unwrap();
    server.serve(of_plain).unwrap();
    assert_eq!(addresses(&other), 1, "a name of its own network");
    waiting.set_nonblocking(true).unwrap();
    assert!(waiting.recv(&mut [0; 512]).is_err(), "nothing is open yet");
    waiting.set_nonblocking(false).unwrap();

    go.send(()).unwrap();
    while !server.wait().unwrap().contains(&OPENED) {}
    server.serve(OPENED).unwrap();
    assert_eq!(addresses(&waiting), 1);
}

/// Says what it opens.
struct ReportingGate(Sender<(String, Vec<u16>)>);

impl FenceHost for ReportingGate {
    fn is_host(&self, _: IpAddr) -> bool {
        false
    }

    fn is_near(&self, address: IpAddr) -> bool {
        self.is_host(address)
    }

    fn open(&self, judged: &Judged) -> Result<()> {
        let ports = judged.opened.iter().map(|(_, service)| service.first).collect();
        // The test may be over.
        let _ = self.0.send((judged.network.to_string(), ports));
        Ok(())
    }

    fn refused(&self, _: &Refusal) {}
}

/// They share what a server says, and not what it opens.
#[test]
fn each_of_two_networks_opens_what_its_own_rules_say_of_one_answer() {
    let (opens, opened) = channel();
    let mut book = Steps::new(Vec::new());
    let shared = (Arc::default(), Arc::new(ReportingGate(opens)) as Arc<dyn FenceHost>);
    let mut server = Server::new(&mut book, 299, Path::new("/dev/null"), shared).unwrap();
    server.watch(server.answers.as_fd(), OPENED).unwrap();
    let outside = client([127, 0, 0, 1]);
    let upstream = Upstream::Inside(Arc::new(Container(outside.local_addr().unwrap())));
    let rules =
        [("agents", 2, "a.example:443"), ("build", 3, "*.example:80"), ("shut", 4, "b.example:22")];
    let askers = rules.map(|(network, last, rules)| {
        let mut record = attached(network, &format!("127.0.0.{last}/8"), 0);
        record.wiring.fence = Some(rules.parse().unwrap());
        record.sandbox = None;
        let (listener, _) = listen(&mut server, &record);
        let asker = Asker { network: &record.id.network, address: [127, 0, 0, last].into() };
        let holder = server.table().read().unwrap().holder_of(&asker).cloned();
        let socket = client([127, 0, 0, last]);
        let container = asker.address;
        let from = From { asker: socket.local_addr().unwrap(), listener, container, holder };
        server.forward((&query("A.example"), &query("a.example")), upstream.clone(), from);
        socket
    });
    let mut buffer = [0; 512];
    let (length, peer) = outside.recv_from(&mut buffer).unwrap();
    outside.set_nonblocking(true).unwrap();
    assert!(outside.recv(&mut [0; 512]).is_err(), "it is asked once");
    outside.send_to(&answer(&buffer[..length], "a.example"), peer).unwrap();
    let asked = loop {
        let ready = server.wait().unwrap();
        if let Some(asked) = ready.into_iter().find(|it| it & ASKED != 0) {
            break asked;
        }
    };
    server.serve(asked).unwrap();
    let mut all = [(); 2].map(|()| opened.recv_timeout(LIMIT).unwrap());
    all.sort();
    assert_eq!(all, [("agents".to_owned(), vec![443]), ("build".to_owned(), vec![80])]);
    // Both may come at once, or one after the other.
    let [first, second, _] = &askers;
    for socket in [first, second] {
        socket.set_nonblocking(true).unwrap();
        while socket.peek(&mut [0; 512]).is_err() {
            while !server.wait().unwrap().contains(&OPENED) {}
            server.serve(OPENED).unwrap();
        }
    }
    assert_eq!(askers.each_ref().map(addresses), [1, 1, 0]);
    assert!(opened.try_recv().is_err(), "what no rule allows opens nothing");
}
