//! `spoke capture`: the packets of a container, seen in its own namespace, or of a virtual machine, seen at its
//! device.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{BufWriter, ErrorKind, IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use linux::meter;
use model::{Attachment, Error, Kind, Phase, Result, Sandbox};
use netlink::capture::Captured;
use netlink::{At, Netns, Socket};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use signal_hook::consts::{SIGINT, SIGTERM};
use traffic::Addresses;
use traffic::capture::pcapng::{self, Record};
use traffic::capture::{Filter, Packet};

use super::known::{self, Known};
use super::port::{self, Port};
use super::summary;
use crate::answer::Answer;
use crate::args::CaptureArgs;
use crate::context::CommandContext;
use crate::output::Output;
use crate::output::table::clean;
use crate::titles::Titles;

/// How often the container is looked for while nothing comes.
const GLANCE: Duration = Duration::from_millis(500);
/// More than any packet has, with a tag.
const BUFFER: usize = 262_144 + 4;
/// So many packets are taken before the container is looked for again.
const AT_ONCE: usize = 1024;
/// Who may read a file of packets: its owner.
const PRIVATE: u32 = 0o600;
/// The name of the program in files.
const APPLICATION: &str = concat!("spoke ", env!("CARGO_PKG_VERSION"));

/// Captures until a signal comes, enough packets came, the reader ends, or the container is gone.
pub(crate) fn run(
    wanted: &CaptureArgs,
    output: Output,
    context: &CommandContext,
    out: &mut dyn Write,
) -> Result<Answer> {
    let is_standard = wanted.write.as_deref() == Some(Path::new("-"));
    if is_standard && std::io::stdout().is_terminal() {
        return Err(on_terminal());
    }
    let known = Known::now(context)?;
    let records = of_container(&wanted.container, &known)?;
    let filter = filter(&wanted.filter, &known)?;
    let stopped = stop_on_signals()?;
    let mut session = Session::open(&records, known.titles(), wanted)?;
    let sink = match wanted.write.as_deref() {
        None => Sink::Text(out, output),
        Some(_) if is_standard => Sink::File(Box::new(BufWriter::new(out))),
        Some(path) => Sink::File(Box::new(create(path)?)),
    };
    let mut job = Job { sink, filter, wanted, kept: 0 };
    session.run(&mut job, &stopped)
}

/// The attachments of the one container that is called so.
fn of_container<'a>(word: &str, known: &'a Known) -> Result<Vec<&'a Attachment>> {
    let mut links = known.links();
    links.retain(|link| known::is_container(word, link));
    let has_place = |link: &Attachment| link.sandbox.is_some() || link.tap().is_some();
    links.retain(|link| matches!(link.phase, Phase::Attached(_)) && has_place(link));
    let shown = model::text::shown(word);
    // Docker's endpoints each have an id of their own.
    let is_one = |one: &&Attachment| {
        let place = |link: &Attachment| match &link.sandbox {
            Some(sandbox) => Ok(sandbox.path.clone()),
            None => Err(link.id.container.clone()),
        };
        links.first().is_some_and(|first| place(first) == place(one))
    };
    if links.is_empty() {
        return Err(Error::not_found(format!(
            "no container '{shown}' is connected here; `spoke ps` lists those that are"
        )));
    }
    if !links.iter().all(is_one) {
        let call = |link: &&Attachment| format!("{}:{}", link.runtime, link.id.container);
        let all: BTreeSet<String> = links.iter().map(call).collect();
        let all = clean(&all.into_iter().collect::<Vec<_>>().join(", "));
        return Err(Error::invalid(format!("'{shown}' is several containers; name one: {all}")));
    }
    Ok(links)
}

fn filter(words: &[String], known: &Known) -> Result<Option<Filter>> {
    if words.is_empty() {
        return Ok(None);
    }
    let addresses = Addresses::of(known.records().map(|record| (record, None)), []);
    Filter::read(&words.join(" "), &|name| addresses.of_container(name)).map(Some)
}

fn stop_on_signals() -> Result<Arc<AtomicBool>> {
    let stopped = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stopped))
            .map_err(|cause| Error::os("listening to signals", cause))?;
    }
    Ok(stopped)
}

/// Whether the path is one of the system's symbolic links to a file that is open here. Others below /dev may be
/// any user's: /dev/shm is a directory of everybody's.
fn is_open_file(path: &Path) -> bool {
    match path.to_str() {
        Some("/dev/stdout" | "/dev/stderr") => true,
        Some(path) => path.strip_prefix("/dev/fd/").is_some_and(|it| it.parse::<u32>().is_ok()),
        None => false,
    }
}

/// Only the caller may read packets, also where the file was there before: another user's file stays as it
/// is, and so does what a link in a directory of several users leads to.
fn create(path: &Path) -> Result<BufWriter<File>> {
    let doing = |cause| Error::os(format!("writing {}", path.display()), cause);
    let mut options = OpenOptions::new();
    options.create(true).write(true).mode(PRIVATE);
    if !is_open_file(path) {
        options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    }
    let file = options.open(path).map_err(|cause| match Errno::from_io_error(&cause) {
        Some(Errno::LOOP) => {
            Error::invalid(format!("{} is a symbolic link: name the file itself", path.display()))
        }
        _ => doing(cause),
    })?;
    if file.is_terminal() {
        return Err(on_terminal());
    }
    let found = file.metadata().map_err(doing)?;
    if found.is_file() {
        if found.uid() != rustix::process::geteuid().as_raw() {
            return Err(Error::invalid(format!(
                "{} is another user's: name a file of your own",
                path.display()
            )));
        }
        file.set_permissions(Permissions::from_mode(PRIVATE)).map_err(doing)?;
        file.set_len(0).map_err(doing)?;
    }
    Ok(BufWriter::new(file))
}

fn on_terminal() -> Error {
    Error::invalid(
        "a capture is not for a terminal; name a file, or lead it to a program as in `spoke capture \
        web -w - | tcpdump -nr -`",
    )
}

/// Where packets go.
enum Sink<'a> {
    Text(&'a mut dyn Write, Output),
    File(Box<dyn Write + 'a>),
}

impl Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match self {
            Sink::Text(out, _) => out.write_all(bytes),
            Sink::File(file) => file.write_all(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Sink::Text(out, _) => out.flush(),
            Sink::File(file) => file.flush(),
        }
    }
}

/// What is to be done with packets, and how many were kept.
struct Job<'a> {
    sink: Sink<'a>,
    filter: Option<Filter>,
    wanted: &'a CaptureArgs,
    kept: u64,
}

impl Job<'_> {
    fn is_enough(&self) -> bool {
        self.wanted.count.is_some_and(|count| self.kept >= count)
    }

    /// Writes a packet, if it is meant.
    fn keep(
        &mut self,
        port: &Port,
        number: u32,
        captured: &Captured,
        buffer: &[u8],
    ) -> std::io::Result<()> {
        let bytes = buffer.get(..captured.copied).unwrap_or_default();
        let packet = Packet::read(bytes, port.described.form);
        if self.filter.as_ref().is_some_and(|filter| !filter.holds(&packet)) {
            return Ok(());
        }
        self.kept += 1;
        let Captured { at, length, .. } = *captured;
        let is_outgoing = captured.is_outgoing != port.is_device;
        let text = match &self.sink {
            Sink::Text(_, output) => {
                let interface = &port.described.name;
                let seen = summary::CapturedPacket { at, interface, is_outgoing, length };
                summary::text(&packet, seen, *output).map_err(std::io::Error::other)?.into_bytes()
            }
            Sink::File(_) => {
                let snap = usize::try_from(self.wanted.snap).unwrap_or(usize::MAX);
                let bytes = bytes.get(..snap).unwrap_or(bytes);
                pcapng::packet(&Record { interface: number, at, length, is_outgoing, bytes })
            }
        };
        self.sink.write(&text)
    }
}

/// Why a capture is over.
enum CaptureEnd {
    Signal,
    Enough,
    Unread,
    Gone,
}

/// A container's interfaces that are captured. Their sockets keep its namespace alive: they are closed as
/// soon as the container is gone.
struct Session {
    name: String,
    /// None of a virtual machine, whose devices are this host's.
    sandbox: Option<Sandbox>,
    netns: Netns,
    ports: Vec<Port>,
    last: Duration,
}

impl Session {
    fn open(records: &[&Attachment], titles: &Titles, wanted: &CaptureArgs) -> Result<Self> {
        let first = records.first().ok_or_else(|| Error::bug("a container without a record"))?;
        let sandbox = first.sandbox.clone();
        let netns = sandbox.as_ref().map_or_else(Netns::current, meter::namespace)?;
        let found = match wanted.interfaces.as_slice() {
            [] => port::made(records, titles)?,
            _ if sandbox.is_none() => return Err(inside(first)),
            names => port::named(names, (records, titles), first, &netns)?,
        };
        let is_device = sandbox.is_none();
        let open = |(link, about)| {
            Ok(Port { is_device, ..Port::open(&netns, &link, about, wanted.snap)? })
        };
        let ports = found.into_iter().map(open).collect::<Result<_>>()?;
        let name = clean(&first.container_name());
        Ok(Self { name, sandbox, netns, ports, last: Duration::ZERO })
    }

    fn run(&mut self, job: &mut Job<'_>, stopped: &AtomicBool) -> Result<Answer> {
        let end = self.capture(job, stopped)?;
        let totals: Vec<_> = self.ports.iter_mut().map(|port| port.capture.totals()).collect();
        if let Sink::File(file) = &mut job.sink {
            for (number, total) in (0..).zip(&totals) {
                let bytes = pcapng::statistics(number, self.last, [total.seen, total.lost]);
                // Where the reader has ended, nothing is lost by it.
                let _ = file.write_all(&bytes);
            }
            if !matches!(end, CaptureEnd::Unread) {
                file.flush().map_err(failed)?;
            }
        }
        let lost: u64 = totals.iter().map(|total| total.lost).sum();
        let mut notes = Vec::new();
        if matches!(end, CaptureEnd::Gone) {
            notes.push(format!("container {} is gone; the capture ends here", self.name));
        }
        if lost > 0 {
            notes
                .push(format!("{lost} packets were lost: they came faster than they were written"));
        }
        if !matches!(end, CaptureEnd::Unread) {
            let unit = if job.kept == 1 { "packet" } else { "packets" };
            notes.push(format!("{} {unit} captured", job.kept));
        }
        Ok(Answer { notes, ..Answer::default() })
    }

    fn capture(&mut self, job: &mut Job<'_>, stopped: &AtomicBool) -> Result<CaptureEnd> {
        if let Sink::File(file) = &mut job.sink {
            let interfaces = self.ports.iter().map(|port| port.described.clone());
            let header = pcapng::header(APPLICATION, &interfaces.collect::<Vec<_>>());
            file.write_all(&header).and_then(|()| file.flush()).map_err(failed)?;
        }
        let mut buffer = vec![0; BUFFER];
        let mut looked = Instant::now();
        while !stopped.load(Ordering::Relaxed) {
            let is_unread = self.wait(job)?;
            let is_broken = match self.drain(job, &mut buffer) {
                Ok(is_broken) => is_broken,
                Err(cause) if cause.kind() == ErrorKind::BrokenPipe => {
                    return Ok(CaptureEnd::Unread);
                }
                Err(cause) => return Err(failed(cause)),
            };
            if job.is_enough() {
                return Ok(CaptureEnd::Enough);
            }
            if is_unread {
                return Ok(CaptureEnd::Unread);
            }
            if is_broken || looked.elapsed() >= GLANCE {
                if !self.is_there() {
                    return Ok(CaptureEnd::Gone);
                }
                looked = Instant::now();
            }
        }
        Ok(CaptureEnd::Signal)
    }

    /// Waits for a packet, for a moment; whether the reader of standard output has ended.
    fn wait(&self, job: &Job<'_>) -> Result<bool> {
        let out = std::io::stdout();
        let mut fds: Vec<PollFd<'_>> = self
            .ports
            .iter()
            .map(|port| PollFd::from_borrowed_fd(port.capture.as_fd(), PollFlags::IN))
            .collect();
        let is_read = job.wanted.write.as_deref().is_none_or(|path| path == Path::new("-"));
        if is_read {
            fds.push(PollFd::from_borrowed_fd(out.as_fd(), PollFlags::empty()));
        }
        let timeout = Timespec::try_from(GLANCE).ok();
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(false),
            Err(errno) => return Err(Error::os("waiting for packets", errno.into())),
        }
        let reader = fds.last().filter(|_| is_read);
        Ok(reader.is_some_and(|fd| {
            fd.revents().intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL)
        }))
    }

    /// Takes what has come; whether an interface has failed.
    fn drain(&mut self, job: &mut Job<'_>, buffer: &mut [u8]) -> std::io::Result<bool> {
        let mut is_broken = false;
        for (number, port) in (0..).zip(&self.ports) {
            for _ in 0..AT_ONCE {
                if job.is_enough() {
                    break;
                }
                match port.capture.receive(buffer) {
                    Ok(Some(captured)) => {
                        self.last = self.last.max(captured.at);
                        job.keep(port, number, &captured, buffer)?;
                    }
                    Ok(None) => break,
                    // It may be down and come up again.
                    Err(_) => {
                        is_broken = true;
                        break;
                    }
                }
            }
        }
        job.sink.flush()?;
        Ok(is_broken)
    }

    /// Whether the container and its interfaces are there.
    fn is_there(&self) -> bool {
        let look = |link| self.netns.enter(|| Socket::route()?.link(At::Index(link)));
        let has = |port: &Port| matches!(look(port.capture.link()), Ok(Ok(Some(_))));
        let is_open = |sandbox: &Sandbox| meter::namespace(sandbox).is_ok();
        self.sandbox.as_ref().is_none_or(is_open) && self.ports.iter().any(has)
    }
}

fn inside(machine: &Attachment) -> Error {
    Error::unsupported(format!(
        "{} is a virtual machine, whose own interfaces cannot be seen from here: leave out --interface, and its \
         packets are taken at its device",
        machine.container_name()
    ))
}

fn failed(cause: std::io::Error) -> Error {
    match cause.kind() {
        ErrorKind::StorageFull => {
            Error::new(Kind::Kernel, "writing the capture: no space is left").because(cause)
        }
        _ => Error::os("writing the capture", cause),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn no_link_is_followed_but_to_what_is_open() {
        let directory = tempfile::TempDir::new_in("/dev/shm").unwrap();
        let (target, link) = (directory.path().join("target"), directory.path().join("link"));
        std::fs::write(&target, "mine").unwrap();
        symlink(&target, &link).unwrap();
        let error = create(&link).unwrap_err();
        assert!(error.to_string().contains("is a symbolic link"), "{error}");
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "mine");
        let open = File::options().write(true).open(&target).unwrap();
        create(Path::new(&format!("/dev/fd/{}", open.as_raw_fd()))).unwrap();
        create(&directory.path().join("new")).unwrap();
    }
}
