//! Announcements to neighbours that an address has moved, repeated for some seconds.
//!
//! An announcement before a bridge forwards for a new port is lost, and so may be any one packet.
//! The process that attached an interface does not wait for that: a forked child or a thread does.
//! It opens the namespace again each time, so that it does not keep the namespace of a container
//! that has ended.

use std::net::IpAddr;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use model::{IfName, Mac, Result};
use rustix::process::setsid;

use crate::link::{At, Link};
use crate::packet::{self, readable};
use crate::socket::{ROUTE, Socket};
use crate::sys::{self, ForkSide};
use crate::{Netns, reap};

/// The number of announcements, and their interval, as in libnetwork.
const ROUNDS: usize = 3;
const INTERVAL: Duration = Duration::from_secs(1);
/// How long a bridge may take until it forwards for a new port. One that waits for a spanning tree
/// takes longer than neighbours keep an address.
const FORWARDING: Duration = Duration::from_secs(1);
/// `RTMGRP_LINK`.
const LINKS: u32 = 1;
const STACK: usize = 64 << 10;

/// The addresses to announce.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// Where the interface's namespace can be opened.
    pub netns: PathBuf,
    /// The namespace that is meant: another one at that path has another inode.
    pub inode: u64,
    /// The interface.
    pub link: IfName,
    /// Its hardware address: where it has another one by then, nothing is announced any more.
    pub mac: Mac,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
}

impl Announcement {
    /// Sends it from a child, and returns at once. Only for short-lived processes with one thread:
    /// the child, in a session of its own and without open files, ends after two seconds. Where
    /// there are too many processes nothing is sent.
    pub fn announce_from_child(&self) {
        if let Ok(ForkSide::Child) = sys::fork() {
            let _end = reap::ExitGuard;
            // It fails only for the leader of a group, which a child is not.
            let _ = setsid();
            sys::close_all_but(&mut []);
            self.report();
            sys::exit()
        }
    }

    /// Sends it once, as soon as a bridge forwards it, for processes that leave no child behind.
    pub fn announce_once(&self) {
        if self.wait().is_ok() {
            self.rounds(1);
        }
    }

    /// Sends it from a thread, and returns at once; the kernel should have sent it when the
    /// interface came up (`arp_notify`, `ndisc_notify`). The calling thread is in the host's
    /// namespace. Where there are too many threads nothing is sent, and neither where the process
    /// ends within a second: it would have to wait for the kernel to close the thread's sockets.
    pub fn announce_from_thread(self) {
        let thread = thread::Builder::new().name("announce".into()).stack_size(STACK);
        let _ = thread.spawn(move || {
            thread::sleep(INTERVAL);
            self.rounds(ROUNDS - 1);
        });
    }

    /// The interface may be gone, and its namespace: then no announcement is needed.
    fn report(&self) {
        if self.wait().is_ok() {
            self.rounds(ROUNDS);
        }
    }

    fn rounds(&self, rounds: usize) {
        for round in 0..rounds {
            if round > 0 {
                thread::sleep(INTERVAL);
            }
            if !matches!(self.once(), Ok(true)) {
                return;
            }
        }
    }

    /// Waits until the bridge forwards that the interface's other end is a port of here, if it is.
    fn wait(&self) -> Result<()> {
        let Some(link) = self.within(|link| Ok(link.cloned()))? else { return Ok(()) };
        let Some(peer) = link.peer else { return Ok(()) };
        let deadline = Instant::now() + FORWARDING;
        let (mut asked, mut news) = (Socket::route()?, None);
        loop {
            let other = asked.link(At::Index(peer))?.filter(|it| it.peer == Some(link.index));
            if other.and_then(|other| other.port).is_none_or(|port| port.forwards) {
                return Ok(());
            }
            match &mut news {
                None => news = Some(Socket::notified(ROUTE, LINKS)?),
                Some(news) => {
                    if !readable(news.as_fd(), deadline)? {
                        return Ok(());
                    }
                    // Lost ones do not matter: the port is read again.
                    while let Ok(Some(_)) = news.notifications() {}
                }
            }
        }
    }

    /// Sends it once; whether the interface still exists.
    fn once(&self) -> Result<bool> {
        self.within(|link| {
            let Some(link) = link else { return Ok(false) };
            for address in &self.addresses {
                packet::announce(link.index, self.mac, *address)?;
            }
            Ok(true)
        })
    }

    /// Works in the interface's namespace, on the interface if it is the one that is meant.
    fn within<T>(&self, work: impl FnOnce(Option<&Link>) -> Result<T>) -> Result<T> {
        let netns = Netns::open(&self.netns)?;
        if netns.inode() != self.inode {
            return work(None);
        }
        netns.enter(|| {
            let link = Socket::route()?.link(At::Name(&self.link))?;
            work(link.filter(|link| link.mac == Some(self.mac)).as_ref())
        })?
    }
}
