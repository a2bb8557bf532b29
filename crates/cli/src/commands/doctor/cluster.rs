//! This host as a member of a cluster with an etcd of its own.

use std::path::Path;

use host::cluster_health;
use host::hosts::{self, Ask, Reply};
use host::time::{self, rfc3339};

use crate::check::Check;
use crate::context::CommandContext;
use crate::daemon::has_systemd;

pub(super) fn checks(context: &CommandContext) -> Vec<Check> {
    let Some(state) = context.store.last() else { return Vec::new() };
    let mut checks = certificates(state);
    checks.extend(notes(context, state));
    checks.extend(cluster_health::etcd_serves(state).map(|serves| match serves {
        true => Check::ok("this host's server of the cluster's etcd takes connections"),
        false => {
            Check::fail("this host's server of the cluster's etcd is down", log(context, state))
        }
    }));
    checks
}

/// What the daemon says of the cluster: what does not work, and what later versions wrote that this one does not use.
fn notes(context: &CommandContext, state: &Path) -> Vec<Check> {
    if !hosts::is_member(&hosts::place(state)) {
        return Vec::new();
    }
    match hosts::ask(&context.runtime, &Ask::Hosts) {
        Ok(Reply::Hosts(view)) => {
            let lost = view.lost.map(|(since, why)| {
                let what = format!("since {} the cluster is not heard of: {why}", rfc3339(since));
                Check::fail(what, "spoke host ls")
            });
            let notes = view.notes.into_iter();
            lost.into_iter().chain(notes.map(|note| Check::warn(note, "spoke host ls"))).collect()
        }
        // That the daemon does not run is another check's.
        Ok(_) | Err(_) => Vec::new(),
    }
}

/// What says why it ended.
fn log(context: &CommandContext, state: &Path) -> String {
    match has_systemd(context) {
        true => "journalctl -u spoke-etcd says why; systemctl restart spoke-etcd".to_owned(),
        false => {
            let log = state.join("etcd/log");
            format!("{} says why; `spoke serve` starts it again", log.display())
        }
    }
}

fn certificates(state: &Path) -> Vec<Check> {
    let all = match cluster_health::certificates(state) {
        Ok(all) => all,
        Err(error) => {
            let what = format!("the certificates of this host cannot be read: {error}");
            return vec![Check::fail(what, "spoke host ls")];
        }
    };
    let now = time::now();
    let of = |certificate: &cluster_health::Certificate| {
        let (of, end) = (certificate.of, rfc3339(certificate.end()));
        if certificate.end() <= now {
            let what = format!("the cluster's certificate of this {of} ended at {end}");
            let fix = "remove this host with `spoke host remove` on another one, and join it again";
            return Check::fail(what, fix);
        }
        match certificate.is_overdue(now) {
            true => Check::warn(
                format!(
                    "the cluster's certificate of this {of} ends at {end}, and was not renewed"
                ),
                "spoke host ls says why; the hosts with a server of etcd must be reached at TCP port 23810",
            ),
            false => Check::ok(format!("the cluster's certificate of this {of} lasts until {end}")),
        }
    };
    all.iter().map(of).collect()
}
