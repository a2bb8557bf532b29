//! Puts the packet filter before the VXLAN port, and that of routed networks, back when another program removes it or a part of it.

use std::time::Duration;

use model::Result;
use netlink::{Event, Monitor, Wake};

use crate::Daemon;
use crate::hosts::Hosts;

/// Where another program keeps removing it, it is put back at most this often.
const REST: Duration = Duration::from_millis(50);
/// How long to wait after a failure.
const PAUSE: Duration = Duration::from_secs(5);
/// A host of no cluster looks again after so long, or when it becomes a member.
const IDLE: Duration = Duration::from_secs(60);

/// Keeps it until the daemon stops, while this host is a member of a cluster.
pub(in crate::hosts) fn keep(daemon: &Daemon, hosts: &Hosts) {
    while !daemon.sleep(Duration::ZERO) {
        if !hosts.wait(IDLE, |state| state.member.is_some()) {
            continue;
        }
        if let Err(error) = keep_until_lost(daemon, hosts) {
            daemon.journal.failed("watching the packet filter for the other hosts", &error);
            if daemon.sleep(PAUSE) {
                return;
            }
        }
    }
}

fn keep_until_lost(daemon: &Daemon, hosts: &Hosts) -> Result<()> {
    let mut monitor = Monitor::ruleset()?;
    while hosts.lock().member.is_some() {
        let is_changed = match monitor.wait(&daemon.stop, IDLE)? {
            Wake::Stopped => return Ok(()),
            Wake::Quiet => false,
            Wake::Lost => true,
            Wake::News(news) => news.iter().any(is_ours),
        };
        if !is_changed {
            continue;
        }
        let (guard, filter) = {
            let state = hosts.lock();
            (state.guarded.clone(), state.filter.clone())
        };
        let is_kept = guard.is_some() || filter.is_some();
        guard.map_or(Ok(false), |guard| guard.ensure())?;
        filter.map_or(Ok(false), |filter| filter.ensure())?;
        if is_kept {
            daemon.sleep(REST);
        }
    }
    Ok(())
}

fn is_ours(change: &Event) -> bool {
    match change {
        Event::Ruleset(news) => overlay::is_guard(news.family, &news.table),
        Event::Address | Event::Route | Event::Link | Event::Rule => false,
    }
}
