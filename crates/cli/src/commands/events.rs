//! `spoke events`: the daemon's events so far, and from now on.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use host::event::{Event, What, aside};
use host::exit;
use host::time::rfc3339;
use model::{Error, Result, Timestamp};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use serde::de::DeserializeOwned;

use crate::answer::Answer;
use crate::args::EventsArgs;
use crate::context::CommandContext;
use crate::output::table::Table;
use crate::output::{Output, line, render};
use crate::titles::Titles;

pub(crate) mod learned;

/// A longer line is not the daemon's.
const LONGEST: u64 = 1 << 20;

/// The events so far.
pub(crate) fn show(
    wanted: &EventsArgs,
    output: Output,
    context: &CommandContext,
) -> Result<Answer> {
    refuse_unreadable(&context.events)?;
    let mut events = reported(&context.events);
    learned::name_events(&mut events, context);
    let first = events.len().saturating_sub(wanted.last.unwrap_or(usize::MAX));
    let titles = titles(context);
    let shown = events[first..].iter();
    let scripts: Vec<_> = shown.map(|event| titles.titled(event)).collect();
    Ok(Answer::text(render(output, &scripts, || table(&events[first..], &titles).text())?))
}

/// A log that is not there has nothing; one that the caller may not read is no empty one.
pub(crate) fn refuse_unreadable(path: &Path) -> Result<()> {
    match file::open(path) {
        Err(cause) if cause.kind() == ErrorKind::PermissionDenied => {
            Err(Error::os(format!("reading {}", path.display()), cause))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

/// What networks are called; without the book, what was written is shown as it is.
pub(crate) fn titles(context: &CommandContext) -> Titles {
    (context.engine)().and_then(|engine| Titles::read(&engine)).unwrap_or_default()
}

/// The events so far, the oldest first.
pub(crate) fn reported(path: &Path) -> Vec<Event> {
    kept(path)
}

/// What a file of the daemon's has, with the part that was put aside.
pub(crate) fn kept<T: DeserializeOwned>(path: &Path) -> Vec<T> {
    let files = [aside(path), path.to_owned()];
    let rest = |path: PathBuf| Tail::open(&path).map(|mut tail| tail.rest()).unwrap_or_default();
    files.into_iter().flat_map(rest).collect()
}

/// The parts that the present daemon reports as removed again and again.
pub(crate) fn contested(context: &CommandContext) -> Option<String> {
    let settles = |event: &Event| {
        matches!(event.event, What::Contested | What::ContestOver | What::Started | What::Stopped)
    };
    let last = reported(&context.events).into_iter().rfind(settles)?;
    (last.event == What::Contested).then_some(last.message)
}

/// The events so far, and then each event as it comes, for ever.
pub(crate) fn follow(
    wanted: &EventsArgs,
    output: Output,
    context: &CommandContext,
    out: &mut dyn Write,
) -> Result<Answer> {
    refuse_unreadable(&context.events)?;
    let watch = watch(&context.events)?;
    let mut tail = Tail::open(&context.events).ok();
    let mut reported: Vec<Event> = tail.as_mut().map(Tail::rest).unwrap_or_default();
    learned::name_events(&mut reported, context);
    let first = reported.len().saturating_sub(wanted.last.unwrap_or(0));
    let mut news: Vec<Event> = reported[first..].to_vec();
    loop {
        // A network may have been made, or named, since the last look.
        let titles = if news.is_empty() { Titles::default() } else { titles(context) };
        for event in &news {
            if !write(output, (event, &titles), out)? {
                // A reader that has seen enough is no failure.
                return Ok(Answer::default());
            }
        }
        news = changed(&watch, &context.events, &mut tail)?;
    }
}

/// Waits for more of a file, and reads it.
pub(crate) fn changed<T: DeserializeOwned>(
    watch: &std::os::fd::OwnedFd,
    path: &Path,
    tail: &mut Option<Tail>,
) -> Result<Vec<T>> {
    wait(watch)?;
    let mut news: Vec<T> = tail.as_mut().map(Tail::rest).unwrap_or_default();
    if tail.as_ref().is_none_or(|tail| !tail.is_at(path)) {
        *tail = Tail::open(path).ok();
        news.extend(tail.as_mut().map(Tail::rest).unwrap_or_default());
    }
    Ok(news)
}

fn write(output: Output, (event, titles): (&Event, &Titles), out: &mut dyn Write) -> Result<bool> {
    let titled = titles.titled(event);
    let text = match output {
        Output::Table => {
            let mut table = Table::headless();
            table.row(cells(event, titles));
            table.text()
        }
        Output::Json => line(&titled)? + "\n",
        Output::Yaml | Output::Frr | Output::Bird => {
            format!("---\n{}", render(output, &titled, String::new)?)
        }
    };
    exit::write(out, &text)
}

fn table(events: &[Event], titles: &Titles) -> Table {
    let mut table = Table::new(&["TIME", "EVENT", "WHAT"]);
    for event in events {
        table.row(cells(event, titles));
    }
    table
}

fn cells(event: &Event, titles: &Titles) -> [String; 3] {
    [rfc3339(Timestamp(event.time)), event.event.name(), titles.sentence(event)]
}

/// The file as far as it was read.
pub(crate) struct Tail {
    reader: BufReader<File>,
    identity: (u64, u64),
    read: u64,
}

impl Tail {
    pub(crate) fn open(path: &Path) -> std::io::Result<Self> {
        let file = file::open(path)?;
        let metadata = file.metadata()?;
        let identity = (metadata.dev(), metadata.ino());
        Ok(Self { reader: BufReader::new(file), identity, read: 0 })
    }

    /// Whether the file at `path` is still this one.
    fn is_at(&self, path: &Path) -> bool {
        fs::metadata(path).is_ok_and(|there| (there.dev(), there.ino()) == self.identity)
    }

    /// The events that were not read yet. A line that is not complete is read again; one that is
    /// no event is passed over.
    pub(crate) fn rest<T: DeserializeOwned>(&mut self) -> Vec<T> {
        let mut events = Vec::new();
        let mut line = Vec::new();
        loop {
            line.clear();
            let mut bounded = std::io::Read::take(&mut self.reader, LONGEST);
            match bounded.read_until(b'\n', &mut line) {
                Ok(read) if line.ends_with(b"\n") => {
                    self.read += read as u64;
                    events.extend(serde_json::from_slice::<T>(&line).ok());
                }
                Ok(_) | Err(_) => {
                    // A failure shows at the next read.
                    let _ = self.reader.seek(SeekFrom::Start(self.read));
                    return events;
                }
            }
        }
    }
}

/// Watches the file's directory, because the file need not exist yet.
pub(crate) fn watch(path: &Path) -> Result<std::os::fd::OwnedFd> {
    let doing = |cause: rustix::io::Errno| {
        Error::os(format!("following {}; `spoke serve` writes it", path.display()), cause.into())
    };
    let directory: PathBuf = path.parent().map(Path::to_owned).unwrap_or_default();
    let inotify = inotify::init(CreateFlags::CLOEXEC).map_err(doing)?;
    let flags = WatchFlags::MODIFY | WatchFlags::CREATE | WatchFlags::MOVED_TO;
    inotify::add_watch(&inotify, &directory, flags).map_err(doing)?;
    Ok(inotify)
}

fn wait(inotify: &std::os::fd::OwnedFd) -> Result<()> {
    let mut buffer = [0; 4096];
    match rustix::io::read(inotify, &mut buffer) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(cause) => Err(Error::os("following events", cause.into())),
    }
}
