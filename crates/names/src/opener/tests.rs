use std::sync::mpsc::{Receiver, Sender, channel};

use model::{AttachmentId, Timestamp};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::*;
use crate::fence::{Judged, Judgement};
use crate::gate::Refusal;
use crate::holder::Holder;

/// What does not come fails its test, instead of waiting for ever.
const LIMIT: Duration = Duration::from_secs(10);

/// Says whom it opens something for, and opens it when it may.
struct Held {
    begins: Sender<IpAddr>,
    may: Mutex<Receiver<()>>,
}

impl Gate for Held {
    fn is_host(&self, _: IpAddr) -> bool {
        false
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
    let id = AttachmentId {
        network: "front".parse().unwrap(),
        container: "web".parse().unwrap(),
        ifname: "eth0".parse().unwrap(),
    };
    let judged = Judged {
        network: id.network.clone(),
        bridge: "br0".parse().unwrap(),
        holder: Holder { id, since: Timestamp(0) },
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
    Box::new(Unopened::new(container, &[], judgement))
}

fn from(container: IpAddr) -> From {
    From { asker: (container, 4000).into(), listener: 2, container, holder: None }
}

/// However many answers of one container wait, those of others come in between, and in time.
#[test]
fn one_container_keeps_no_other_one_waiting() {
    let (begins, begun) = channel();
    let (go, may) = channel();
    let running = Running::start(Arc::new(Held { begins, may: Mutex::new(may) })).unwrap();
    let answers = Arc::new(Results::new().unwrap());
    let [one, other] = [2, 3].map(|last| IpAddr::from([10, 0, 0, last]));
    let start = |it| running.opener().start(unopened(it), (from(it), &answers));
    assert_eq!(start(one), None);
    assert_eq!(begun.recv_timeout(LIMIT).unwrap(), one);
    for _ in 0..MOST_OF_ONE {
        assert_eq!(start(one), None);
    }
    assert_eq!(start(one), Some(Vec::new()), "too many wait");
    assert_eq!(start(other), None);
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
