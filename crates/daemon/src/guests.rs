//! Answers what virtual machines ask about their interfaces. All of it follows from the records, so that
//! nothing is lost with the daemon.

mod described;

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use dhcp::guest::Guest;
use engine::port::{Key, Prefix, Record};
use model::{Attachment, AttachmentId, Error, Kind, Layer, Result};
use netlink::packet::{Kind as Packets, PacketSocket};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use store::{Changed, Watch};

use super::Daemon;

/// How long to wait before the records are watched anew.
const AGAIN: Duration = Duration::from_secs(5);
/// How often a device that is down, or gone, is looked for.
const SOON: Duration = Duration::from_secs(1);
/// How often unsolicited router advertisements go to machines (RFC 4861 §6.2.1).
const ADVERTISE: Duration = Duration::from_secs(600);
/// A machine has at most so many answers in a second: it can ask as fast as it likes.
const MOST: u32 = 50;
const SECOND: Duration = Duration::from_secs(1);
/// No packet that is read is longer.
const LONGEST: usize = 1500;

/// The machines, and the records that they come from.
struct Guests<'a> {
    daemon: &'a Daemon,
    watch: Watch,
    root: PathBuf,
    all: BTreeMap<AttachmentId, Served>,
    advertised: Instant,
}

struct Served {
    record: Box<Attachment>,
    guest: Guest,
    /// `None` where the device is down or gone.
    socket: Option<PacketSocket>,
    /// The second that is counted, and the answers in it.
    counted: (Instant, u32),
}

/// Answers until the daemon stops.
pub(super) fn answer(daemon: &Daemon) {
    while let Err(error) = answer_until_lost(daemon) {
        daemon.journal.failed("answering virtual machines", &error);
        if daemon.sleep(AGAIN) {
            return;
        }
    }
}

fn answer_until_lost(daemon: &Daemon) -> Result<()> {
    let store = host::host_context::open_store(daemon.context_pool.config())?;
    let watch = store.watch(&[Prefix::Attachments])?;
    let all = BTreeMap::new();
    let mut guests = Guests { daemon, watch, root: "/".into(), all, advertised: Instant::now() };
    loop {
        guests.learn()?;
        guests.open();
        if guests.advertised.elapsed() >= ADVERTISE {
            guests.advertised = Instant::now();
            guests.all.values_mut().for_each(Served::advertise);
        }
        if guests.wait()? {
            return Ok(());
        }
        guests.all.values_mut().for_each(Served::answer);
    }
}

impl Guests<'_> {
    fn learn(&mut self) -> Result<()> {
        for Changed { key, now } in self.watch.wait(Duration::ZERO)? {
            let Key::Attachment(id, Layer::Link) = key else { continue };
            let record = match now.map(|now| now.record) {
                Some(Record::Attachment(record)) => {
                    described::of(&record, &self.root).zip(Some(record))
                }
                _ => None,
            };
            let Some((guest, record)) = record else {
                self.all.remove(&id);
                continue;
            };
            match self.all.get_mut(&id) {
                Some(served) => (served.guest, served.record) = (guest, record),
                None => {
                    let counted = (Instant::now(), 0);
                    self.all.insert(id, Served { record, guest, socket: None, counted });
                }
            }
        }
        Ok(())
    }

    fn open(&mut self) {
        for served in self.all.values_mut().filter(|served| served.socket.is_none()) {
            match served.open() {
                Ok(()) => served.advertise(),
                // It may be made, set up, or be gone with its record, in a moment; it is looked for again.
                Err(error) if error.kind() == Kind::NotFound => {}
                Err(error) => {
                    let id = &served.record.id;
                    self.daemon.journal.failed(&format!("answering {id}"), &error);
                }
            }
        }
    }

    /// Waits for questions, or for changes; `true` where the daemon stops.
    fn wait(&self) -> Result<bool> {
        let now = Instant::now();
        let sockets = self.all.values().filter(|served| !served.is_muted(now));
        let sockets = sockets.filter_map(|served| served.socket.as_ref());
        let mut fds = vec![
            PollFd::from_borrowed_fd(self.daemon.stop.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.watch.as_fd(), PollFlags::IN),
        ];
        fds.extend(sockets.map(|socket| PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN)));
        let is_waiting = fds.len() < self.all.len() + 2;
        let limit = if is_waiting { SOON } else { ADVERTISE };
        let limit = Timespec::try_from(limit).ok();
        match poll(&mut fds, limit.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(cause) => return Err(Error::os("waiting for virtual machines", cause.into())),
        }
        Ok(fds.first().is_some_and(|stop| !stop.revents().is_empty()))
    }
}

impl Served {
    fn open(&mut self) -> Result<()> {
        let Some((_, index)) = linux::guest::device(&self.record)? else {
            return Err(Error::not_found(format!(
                "{}: its device is down or gone",
                self.record.id
            )));
        };
        self.socket = Some(PacketSocket::open(index, Packets::Guest)?);
        Ok(())
    }

    fn is_muted(&self, now: Instant) -> bool {
        self.counted.1 >= MOST && now.duration_since(self.counted.0) < SECOND
    }

    /// Answers what has come.
    fn answer(&mut self) {
        let now = Instant::now();
        if now.duration_since(self.counted.0) >= SECOND {
            self.counted = (now, 0);
        }
        let mut buffer = [0; LONGEST];
        while self.counted.1 < MOST {
            let Some(socket) = &self.socket else { return };
            let received = match socket.receive(&mut buffer) {
                Ok(Some(received)) => received,
                Ok(None) => return,
                // The device is down, or gone.
                Err(_) => {
                    self.socket = None;
                    return;
                }
            };
            self.counted.1 += 1;
            let packet = buffer.get(..received.length).unwrap_or_default();
            if let Some(answer) = self.guest.answer(packet, received.from) {
                // A machine that is not there asks again when it is.
                let _ = socket.send(answer.to, &answer.packet);
            }
        }
        if let Some(socket) = &self.socket {
            netlink::packet::discard(socket);
        }
    }

    fn advertise(&mut self) {
        if let (Some(socket), Some(answer)) = (&self.socket, self.guest.advertisement()) {
            // As above.
            let _ = socket.send(answer.to, &answer.packet);
        }
    }
}
