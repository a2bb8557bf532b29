//! Servers of the tests in the network of a world.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// A port of the loopback of this network namespace; this process accepts there.
#[track_caller]
pub(crate) fn listen(netns: File, port: u16) -> TcpListener {
    // A socket stays in the namespace that its thread was in when it made it.
    let bind = move || {
        move_into_link_name_space(netns.as_fd(), Some(LinkNameSpaceType::Network))?;
        TcpListener::bind((Ipv4Addr::LOCALHOST, port))
    };
    thread::spawn(bind).join().expect("a thread").expect("a port of the world")
}

/// Waits until a client connects; `false` once `end` says that none is served any more.
pub(crate) fn is_asked(listener: &impl AsFd, end: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(listener, PollFlags::IN), PollFd::new(end, PollFlags::IN)];
    poll(&mut fds, None).is_ok() && fds[1].revents().is_empty()
}
