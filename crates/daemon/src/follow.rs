//! Keeps published ports under the firewall that they obey: whenever that one's rules, its files or the
//! choice change.

mod files;
mod lost;

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use host::event::{Event, What};
use host::host_context::HostContext;
use host::time;
use linux::follow::{self, State, UFW_SETTINGS};
use model::{Error, Result};
use netlink::{Event as Change, Monitor, Wake};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::Daemon;
use files::Files;
use lost::Lost;

/// The interval of checks for what nothing reports.
const SWEEP: Duration = Duration::from_secs(30);
/// Changes that belong together come this close to each other.
const APART: Duration = Duration::from_millis(50);
/// However many changes come, this long after the first it is time to act.
const LATEST: Duration = Duration::from_millis(300);
/// The table of firewalld, and that in which ufw has its chains.
const TABLES: [&str; 2] = ["firewalld", "filter"];

/// What was reported last.
#[derive(Default)]
struct Reported {
    why: Option<String>,
    notes: BTreeSet<String>,
    lost: Lost,
}

/// Until the daemon stops.
pub(super) fn keep(daemon: &Daemon) {
    let is_shut = daemon.context_pool.with(|host_context| host_context.follow().is_withdrawn());
    let lost = Lost::at_start(is_shut.unwrap_or(true), Instant::now());
    let mut reported = Reported { lost, ..Reported::default() };
    while let Err(error) = keep_until_lost(daemon, &mut reported) {
        daemon.journal.failed("following the host's firewall", &error);
        if daemon.sleep(SWEEP) {
            return;
        }
    }
}

fn keep_until_lost(daemon: &Daemon, reported: &mut Reported) -> Result<()> {
    let mut monitor = Monitor::ruleset()?;
    loop {
        // Subscribed before the look, so that nothing is missed in between.
        let files = listen(daemon);
        if !pause(daemon, reported) {
            return Ok(());
        }
        if refresh(daemon, reported) {
            withdraw(daemon, reported);
        }
        let limit = if reported.lost.withdraws(Instant::now()) { lost::STAYED } else { SWEEP };
        if !wait(daemon, (&mut monitor, files.as_ref()), limit)? {
            return Ok(());
        }
    }
}

/// Waits where something keeps removing the table; `false` where the daemon stops.
fn pause(daemon: &Daemon, reported: &mut Reported) -> bool {
    let is_lost = daemon.context_pool.with(|host_context| host_context.follow().is_lost());
    if !is_lost.unwrap_or(false) {
        return true;
    }
    let was_contested = reported.lost.is_contested();
    let pause = reported.lost.again(Instant::now());
    if !was_contested && reported.lost.is_contested() {
        let table = follow::TABLE;
        daemon.journal.warn(&format!(
            "something keeps removing {table}: published ports are withdrawn until it stays for {} seconds",
            lost::STAYED.as_secs()
        ));
    }
    // Brought back they are only behind a table that is there again.
    if reported.lost.withdraws(Instant::now()) {
        withdraw(daemon, reported);
    }
    pause.is_zero() || !daemon.sleep(pause)
}

/// Withdraws published ports while the table is contested, and brings them back behind it.
fn withdraw(daemon: &Daemon, reported: &Reported) {
    let withdraws = reported.lost.withdraws(Instant::now());
    let held = daemon.context_pool.with(|host_context| host_context.follow().withdraw(withdraws));
    if let Err(error) = held {
        daemon.journal.failed("withdrawing published ports", &error);
    }
}

/// Whether the table is as it should be.
fn refresh(daemon: &Daemon, reported: &mut Reported) -> bool {
    let held = daemon.context_pool.with(|host_context| host_context.follow().refresh());
    let judgement = match held {
        Ok(judgement) => judgement,
        Err(error) => {
            if reported.why.as_ref() != Some(&error.to_string()) {
                daemon.journal.failed("making published ports obey the firewall", &error);
                reported.why = Some(error.to_string());
            }
            return false;
        }
    };
    let why = judgement.as_ref().and_then(|judgement| match &judgement.state {
        State::Unknown(why) => Some(why.clone()),
        State::On | State::Off => None,
    });
    if why != reported.why {
        if let Some(why) = &why {
            let sentence = format!("published ports are shut: {why}");
            daemon.journal.report(&Event::new(What::Failed, time::now(), sentence));
        }
        reported.why = why;
    }
    let notes: BTreeSet<String> = judgement.into_iter().flat_map(|it| it.notes).collect();
    for note in notes.difference(&reported.notes) {
        daemon.journal.warn(note);
    }
    reported.notes = notes;
    true
}

/// What is looked at whenever it changes.
fn listen(daemon: &Daemon) -> Option<Files> {
    let place = |host_context: &HostContext| {
        let follow = host_context.follow();
        let settings = UFW_SETTINGS.iter().map(|path| follow.root().join(path));
        let above = settings.filter_map(|path| path.parent().map(PathBuf::from)).collect();
        Ok((above, follow.path()))
    };
    let (above, choice) = daemon.context_pool.with(place).ok()?;
    Files::watch(&above, &choice).ok()
}

/// Waits for a change, and for those that belong to it; `false` where the daemon stops.
fn wait(
    daemon: &Daemon,
    (monitor, files): (&mut Monitor, Option<&Files>),
    limit: Duration,
) -> Result<bool> {
    let due = Instant::now() + limit;
    loop {
        let remaining = due.saturating_duration_since(Instant::now());
        match ready(daemon, monitor, files, remaining)? {
            Ready::Stopped => return Ok(false),
            Ready::Nothing => return Ok(true),
            Ready::Files if !files.is_some_and(Files::have_changed) => {}
            Ready::Files => break,
            Ready::Ruleset => match monitor.wait(&daemon.stop, Duration::ZERO)? {
                Wake::Stopped => return Ok(false),
                Wake::News(news) if !news.iter().any(concerns) => {}
                Wake::Quiet => {}
                Wake::News(_) | Wake::Lost => break,
            },
        }
    }
    let began = Instant::now();
    while began.elapsed() < LATEST {
        match monitor.wait(&daemon.stop, APART)? {
            Wake::Stopped => return Ok(false),
            Wake::Quiet => break,
            Wake::News(_) | Wake::Lost => {}
        }
    }
    Ok(true)
}

fn concerns(change: &Change) -> bool {
    match change {
        Change::Ruleset(news) => {
            let is_ours = [follow::TABLE, follow::SHUT].iter().any(|own| own.name == news.table);
            (is_ours && news.gone) || TABLES.contains(&news.table.as_str())
        }
        Change::Address | Change::Route | Change::Link | Change::Rule => false,
    }
}

enum Ready {
    Stopped,
    Ruleset,
    Files,
    Nothing,
}

fn ready(
    daemon: &Daemon,
    monitor: &Monitor,
    files: Option<&Files>,
    limit: Duration,
) -> Result<Ready> {
    let limit = Timespec::try_from(limit)
        .map_err(|_| Error::bug(format!("{limit:?} is too long to wait")))?;
    let mut sources = vec![
        PollFd::from_borrowed_fd(daemon.stop.as_fd(), PollFlags::IN),
        PollFd::from_borrowed_fd(monitor.as_fd(), PollFlags::IN),
    ];
    sources.extend(files.map(|files| PollFd::from_borrowed_fd(files.as_fd(), PollFlags::IN)));
    match poll(&mut sources, Some(&limit)) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(cause) => return Err(Error::os("waiting for the host's firewall", cause.into())),
    }
    let is_ready = |place: usize| sources.get(place).is_some_and(|it| !it.revents().is_empty());
    Ok(match (is_ready(0), is_ready(1), is_ready(2)) {
        (true, ..) => Ready::Stopped,
        (_, true, _) => Ready::Ruleset,
        (.., true) => Ready::Files,
        _ => Ready::Nothing,
    })
}
