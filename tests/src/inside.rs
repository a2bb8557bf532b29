//! Sockets in the network of a world.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::thread;

use rustix::fd::AsFd;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// A port of the loopback of this network namespace; whoever accepts there is this process.
#[track_caller]
pub(crate) fn listen(netns: File, port: u16) -> TcpListener {
    // A socket stays in the namespace that its thread was in when it made it.
    let bind = move || {
        move_into_link_name_space(netns.as_fd(), Some(LinkNameSpaceType::Network))?;
        TcpListener::bind((Ipv4Addr::LOCALHOST, port))
    };
    thread::spawn(bind).join().expect("a thread").expect("a port of the world")
}
