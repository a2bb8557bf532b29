use std::net::IpAddr;
use std::sync::mpsc::{Receiver, Sender, channel};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::*;
use crate::fence::{Judged, Judgement};
use crate::fixture;
use crate::refusal::Refusal;

/// What does not come fails its test, instead of waiting for ever.
const LIMIT: Duration = Duration::from_secs(10);

/// Says whom it opens something for, and opens it when it may.
struct ReportingGate {
    begins: Sender<IpAddr>,
    may: Mutex<Receiver<()>>,
}

impl FenceHost for ReportingGate {
    fn is_host(&self, _: IpAddr) -> bool {
        false
    }

    fn is_near(&self, address: IpAddr) -> bool {
        self.is_host(address)
    }

    fn open(&self, judged: &Judged) -> Result<()> {
        // The test may be over.
        let _ = self.begins.send(judged.asker);
        let may = self.may.lock().unwrap().recv_timeout(LIMIT);
        may.map_err(|_| Error::new(model::Kind::TryAgain, "held"))
    }

    fn refused(&self, _: &Refusal) {}
}

fn unopened(container: IpAddr) -> Box<Unopened> {
    unopened_of(&format!("c{container}"), container)
}

fn unopened_of(name: &str, container: IpAddr) -> Box<Unopened> {
    let holder = fixture::holder(name);
    let client = Client::new(Some(&holder), container);
    let judged = Judged {
        network: holder.id.network.clone(),
        bridge: "br0".parse().unwrap(),
        holder,
        asker: container,
        fence: "none".parse().unwrap(),
        name: "a.example".parse().unwrap(),
        sources: vec![container],
        addresses: Vec::new(),
        opened: Vec::new(),
        limit: Duration::from_secs(30),
    };
    let by = vec![judged];
    let judgement = Judgement { message: b"open".to_vec(), by, dropped: Vec::new() };
    Box::new(Unopened::new(client, &[], judgement))
}

fn from(container: IpAddr) -> From {
    From { asker: (container, 4000).into(), listener: 2, container, holder: None }
}

/// However many answers of one container wait, those of others come in between, and in time.
#[test]
fn one_container_keeps_no_other_one_waiting() {
    let (begins, begun) = channel();
    let (go, may) = channel();
    let running = Running::start(Arc::new(ReportingGate { begins, may: Mutex::new(may) })).unwrap();
    let answers = Arc::new(Results::new().unwrap());
    let [one, other] = [2, 3].map(|last| IpAddr::from([10, 0, 0, last]));
    let start = |it| running.opener().start(unopened(it), (from(it), &answers));
    start(one);
    assert_eq!(begun.recv_timeout(LIMIT).unwrap(), one);
    for _ in 0..MOST_OF_ONE {
        start(one);
    }
    assert!(answers.take().is_empty(), "nothing is open");
    start(one);
    let refused: Vec<_> = answers.take().into_iter().map(|(_, answer)| answer).collect();
    assert_eq!(refused, [Vec::new()], "too many wait");
    start(other);
    assert!(answers.take().is_empty(), "nothing is open");
    let mut order = vec![one];
    for _ in 0..2 {
        go.send(()).unwrap();
        order.push(begun.recv_timeout(LIMIT).unwrap());
    }
    assert_eq!(order, [one, one, other]);
    go.send(()).unwrap();
    begun.recv_timeout(LIMIT).unwrap();
    let limit = Timespec::try_from(LIMIT).unwrap();
    assert_eq!(poll(&mut [PollFd::new(&*answers, PollFlags::IN)], Some(&limit)).unwrap(), 1);
    let sent: Vec<_> = answers.take().into_iter().map(|(from, it)| (from.container, it)).collect();
    let expected: Vec<_> = order.into_iter().map(|it| (it, b"open".to_vec())).collect();
    assert_eq!(sent, expected);
    drop(go);
}

fn job(name: &str, address: &str) -> Job {
    let (to, _) = sync_channel(1);
    let unopened = unopened_of(name, address.parse().unwrap());
    Job { unopened, to: To::Connection(to), since: Instant::now() }
}

#[test]
fn all_addresses_of_a_container_wait_in_one_row() {
    let mut queue = Queue::default();
    for _ in 0..MOST_OF_ONE / 2 {
        assert!(queue.put(job("web", "10.0.0.2")).is_none());
        assert!(queue.put(job("web", "fd00::2")).is_none());
    }
    assert!(queue.put(job("web", "fd00::2")).is_some());
    assert!(queue.put(job("db", "10.0.0.3")).is_none());
}

/// However many containers have as much waiting as they may, the next one's answer waits, too.
#[test]
fn who_has_most_gives_way() {
    let mut queue = Queue::default();
    for number in 0..MOST {
        let name = format!("c{}", number % (MOST / MOST_OF_ONE));
        assert!(queue.put(job(&name, "10.0.0.2")).is_none());
    }
    let displaced = queue.put(job("db", "10.0.0.3")).unwrap();
    let Client::Container(container) = &displaced.unopened.client else { panic!() };
    assert_ne!(container.as_str(), "db");
    assert_eq!(queue.count, MOST);
    let turns = queue.turns.len();
    assert_eq!(turns, queue.jobs.len());
    assert_eq!((0..MOST).filter(|_| queue.take().is_some()).count(), MOST);
    assert!(queue.take().is_none());
}
