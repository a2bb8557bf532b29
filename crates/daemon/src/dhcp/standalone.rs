//! `dhcp daemon`: the reference's DHCP daemon, a program of its own with its flags.

mod flags;

use std::io::Write;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, process, thread};

use cni::dhcp::Server;
use config::Config;
use dhcp::{ContainerLocator, Keeper, LeaseStore, News};
use model::{AttachmentId, Error, Result};
use netlink::Stop;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::leases::{Leases, is_link_of, lease_store_of};
use crate::sockets::{Inherited, SocketFile, bind};
use flags::Flags;

/// `dhcp daemon` with these arguments; returns the exit code.
pub fn daemon(arguments: &[std::ffi::OsString]) -> u8 {
    let served = Flags::parse(arguments).and_then(|flags| match flags {
        Some(flags) => serve(&flags),
        None => {
            say(flags::USAGE);
            Ok(())
        }
    });
    match served {
        Ok(()) => 0,
        Err(error) => {
            say(&format!("dhcp daemon: {error}\n"));
            host::exit::exit_code(error.kind())
        }
    }
}

fn say(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

fn serve(flags: &Flags) -> Result<()> {
    let config = Config::of_this_host()?;
    let signals = Signals::new([SIGTERM, SIGINT])
        .map_err(|cause| Error::os("listening to signals", cause))?;
    let socket = PathBuf::from(format!("{}{}", flags.prefix, flags.socket.display()));
    let (listener, _made) = listen(&socket)?;
    let _pid = flags.pidfile.as_deref().map(PidFile::write).transpose()?;
    let lease_store = LeaseStore::open(&lease_store_of(&config, &socket), store::boot_id()?)?;
    let keeper = Keeper::start(lease_store, flags.pace, Box::new(Nowhere), Box::new(log))?;
    let stop = Arc::new(Stop::new()?);
    wait_for(signals, Arc::clone(&stop))?;
    let service = Leases { keeper, prefix: flags.prefix.clone() };
    Server::new(Arc::new(service)).run(&listener, &stop).map(drop)
}

/// The socket that systemd passed, or one of our own.
fn listen(socket: &Path) -> Result<(UnixListener, Option<SocketFile>)> {
    let mut inherited = Inherited::take()?.unix;
    match (inherited.pop(), inherited.is_empty()) {
        (Some(listener), true) => Ok((listener, None)),
        (Some(_), false) => Err(Error::invalid("too many sockets were passed to this process")),
        (None, _) => bind(socket).map(|(listener, made)| (listener, Some(made))),
    }
}

fn wait_for(mut signals: Signals, stop: Arc<Stop>) -> Result<()> {
    let wait = move || {
        if signals.forever().next().is_some() {
            stop.stop();
        }
    };
    let started = thread::Builder::new().name("signals".into()).spawn(wait);
    started.map(drop).map_err(|cause| Error::os("starting the thread signals", cause))
}

/// Only the runtime moves links, and says where they are.
struct Nowhere;

impl ContainerLocator for Nowhere {
    fn sandbox(&self, _: &AttachmentId) -> Option<PathBuf> {
        None
    }

    fn is_link_of(&self, id: &AttachmentId, group: u32) -> bool {
        is_link_of(id, group)
    }
}

fn log(news: News) {
    say(&match news {
        News::Bound(id, terms) => format!("{id}: lease of {} acquired\n", terms.address),
        News::Renewed(id, terms) => format!("{id}: lease of {} renewed\n", terms.address),
        News::Lost(id, terms, why) => format!("{id}: lease of {} lost: {why}\n", terms.address),
        News::Regained(id, terms, _) => {
            format!("{id}: lease of {} acquired in its place\n", terms.address)
        }
        News::Unread(what) => format!("{what}\n"),
        News::Trouble(id, what) => format!("{id}: {what}\n"),
    });
}

/// Our number in a file, while we serve.
struct PidFile(PathBuf);

impl PidFile {
    fn write(path: &Path) -> Result<Self> {
        if !path.is_absolute() {
            let what = format!("Error writing pidfile {path:?}: path not absolute");
            return Err(Error::invalid(what));
        }
        fs::write(path, process::id().to_string())
            .map_err(|cause| Error::os(format!("Error writing pidfile {path:?}"), cause))?;
        Ok(Self(path.to_owned()))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // The next daemon replaces it.
        let _ = fs::remove_file(&self.0);
    }
}
