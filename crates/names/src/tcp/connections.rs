//! How many connections there are, and whose.

use std::collections::{BTreeMap, HashMap};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::holder::{Client, who_has_most};

/// More are not served at once, of everybody and of one container. One that is ended for another counts as its
/// container's until its thread has ended: that may wait for a server.
const MOST: usize = 128;
const MOST_OF_ONE: usize = 8;
/// There are never more threads.
const THREADS: usize = 2 * MOST;

/// All of them.
#[derive(Default)]
pub(super) struct Connections(Mutex<Open>);

/// In the order in which they came.
#[derive(Default)]
struct Open {
    all: BTreeMap<u64, Connection>,
    next: u64,
}

struct Connection {
    client: Client,
    stream: TcpStream,
    is_ended: bool,
}

/// One of the connections that are counted, as long as this value lives.
pub(super) struct Counted {
    connections: Arc<Connections>,
    number: u64,
}

impl Connections {
    /// Counts one. Where there are as many as may be the oldest of the container that has most is ended for it.
    /// `None` where its container has too many, or no container has more.
    pub(super) fn count(self: &Arc<Self>, client: Client, stream: &TcpStream) -> Option<Counted> {
        let stream = stream.try_clone().ok()?;
        let mut open = self.open();
        let own = open.all.values().filter(|it| it.client == client).count();
        let is_full = open.all.values().filter(|it| !it.is_ended).count() >= MOST;
        if own >= MOST_OF_ONE || open.all.len() >= THREADS || is_full && !open.end_one(own) {
            return None;
        }
        open.next += 1;
        let number = open.next;
        open.all.insert(number, Connection { client, stream, is_ended: false });
        Some(Counted { connections: Arc::clone(self), number })
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    /// Ends the oldest one of who has most, if that is more than the newcomer has. Whether it has.
    fn end_one(&mut self, newcomer: usize) -> bool {
        let mut counts: HashMap<&Client, usize> = HashMap::new();
        for it in self.all.values().filter(|it| !it.is_ended) {
            *counts.entry(&it.client).or_default() += 1;
        }
        let most = who_has_most(counts.into_iter(), newcomer);
        let Some(it) =
            self.all.values_mut().find(|it| !it.is_ended && Some(&it.client) == most.as_ref())
        else {
            return false;
        };
        it.is_ended = true;
        // It fails where its container has ended it.
        let _ = it.stream.shutdown(Shutdown::Both);
        true
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.connections.open().all.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{IpAddr, TcpListener};

    use super::*;
    use crate::fixture::holder;

    fn pair(listener: &TcpListener) -> (TcpStream, TcpStream) {
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0)
    }

    fn client(number: usize, address: &str) -> Client {
        let address: IpAddr = address.parse().unwrap();
        Client::new(Some(&holder(&format!("c{number}"))), address)
    }

    #[test]
    fn all_addresses_of_a_container_count_together() {
        let (all, listener) = (Arc::default(), TcpListener::bind("127.0.0.1:0").unwrap());
        let (_near, far) = pair(&listener);
        let count = |client| Connections::count(&all, client, &far);
        let four: Vec<_> = (0..4).map(|_| count(client(1, "10.0.0.2")).unwrap()).collect();
        let six: Vec<_> = (0..4).map(|_| count(client(1, "fd00::2")).unwrap()).collect();
        assert!(count(client(1, "10.0.0.2")).is_none() && count(client(1, "fd00::2")).is_none());
        assert!(count(client(2, "10.0.0.3")).is_some());
        drop((four, six));
        assert!(count(client(1, "10.0.0.2")).is_some());
    }

    /// However many containers have as many as they may, the next one is served.
    #[test]
    fn who_has_most_gives_way_to_the_next_one() {
        let (all, listener) = (Arc::default(), TcpListener::bind("127.0.0.1:0").unwrap());
        let mut served = Vec::new();
        for number in 0..MOST / MOST_OF_ONE {
            for _ in 0..MOST_OF_ONE {
                let (near, far) = pair(&listener);
                let counted = Connections::count(&all, client(number, "10.0.0.2"), &far).unwrap();
                served.push((near, far, counted));
            }
        }
        let (_near, far) = pair(&listener);
        let newcomer = Connections::count(&all, client(1000, "10.0.0.3"), &far);
        assert!(newcomer.is_some());
        let ended: Vec<usize> =
            all.open().all.values().enumerate().filter(|it| it.1.is_ended).map(|it| it.0).collect();
        assert_eq!(ended.len(), 1);
        assert_eq!(ended[0] % MOST_OF_ONE, 0, "the oldest of one");
        let (near, ..) = &mut served[ended[0]];
        assert_eq!(near.read(&mut [0]).unwrap(), 0);
    }
}
