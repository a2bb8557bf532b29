//! The firewalls of this host, and whether they judge at all now.

use std::path::Path;

use host::follow::FollowRecord;
use linux::follow::{self, Followed, Judgement, State};
use model::Result;
use netlink::Socket;

use super::held::Held;
use crate::daemon::NOT_RUNNING;

const UFW_FLUSHED: &str =
    "it is on by its files, but its rules are not in the kernel: they were flushed; ufw reload";

/// A firewall as it is now.
pub(super) struct FirewallState {
    /// The judgement of the firewall; of one that is away, its last one.
    pub(super) judgement: Judgement,
    /// `on`, `off`, `unknown`, `away` or `panic`.
    pub(super) state: &'static str,
    /// Why it is not on or off.
    pub(super) why: Option<String>,
}

impl FirewallState {
    fn of(judgement: Judgement) -> Self {
        let why = match &judgement.state {
            State::Unknown(why) => Some(why.clone()),
            State::On | State::Off => None,
        };
        Self { state: super::state(&judgement), judgement, why }
    }

    fn other(judgement: Judgement, state: &'static str, why: &str) -> Self {
        Self { judgement, state, why: Some(why.to_owned()) }
    }

    /// Whether what it does is known.
    pub(super) fn is_known(&self) -> bool {
        self.state != "away" || self.judgement.state == State::On
    }
}

/// The firewalls that are here, or that are followed.
///
/// # Errors
/// Where the kernel cannot be asked.
pub(super) fn all(
    kept: Option<&FollowRecord>,
    root: &Path,
    socket: &mut Socket,
) -> Result<Vec<FirewallState>> {
    let mut all = Vec::new();
    if follow::is_there(Followed::Ufw, root, socket)? {
        all.push(ufw(root, socket)?);
    } else if kept.is_some_and(|kept| kept.follow == Followed::Ufw) {
        let why = "it is not here".to_owned();
        all.push(FirewallState::of(Judgement::unknown(Followed::Ufw, why)));
    }
    all.extend(firewalld(kept.filter(|kept| kept.follow == Followed::Firewalld), socket)?);
    Ok(all)
}

/// One that is on by its files judges nothing where its rules are gone.
fn ufw(root: &Path, socket: &mut Socket) -> Result<FirewallState> {
    let now = follow::read(Followed::Ufw, root, socket)?;
    match now.state {
        State::On if !follow::ufw_is_loaded(socket)? => {
            Ok(FirewallState::other(now, "away", UFW_FLUSHED))
        }
        State::On | State::Off | State::Unknown(_) => Ok(FirewallState::of(now)),
    }
}

/// What `spoke doctor` says of the firewall that is followed, and of ufw.
pub(crate) fn lost(
    kept: Option<&FollowRecord>,
    root: &Path,
    socket: &mut Socket,
) -> Result<Option<(String, &'static str)>> {
    if follow::is_there(Followed::Ufw, root, socket)? && ufw(root, socket)?.state == "away" {
        let what = format!("ufw is away: {UFW_FLUSHED}");
        return Ok(Some((what, "ufw reload")));
    }
    let kept = kept.filter(|kept| kept.follow == Followed::Firewalld);
    let seen = if kept.is_some() { firewalld(kept, socket)? } else { None };
    Ok(seen.filter(|seen| seen.state == "away").map(|seen| {
        let why = seen.why.unwrap_or_default();
        (
            format!("firewalld, which published ports obey, is away: {why}"),
            "systemctl restart firewalld",
        )
    }))
}

fn firewalld(kept: Option<&FollowRecord>, socket: &mut Socket) -> Result<Option<FirewallState>> {
    let by = Followed::Firewalld;
    if follow::is_in_panic(socket)? {
        let why = "nothing comes in and nothing goes out until firewall-cmd --panic-off";
        return Ok(Some(FirewallState::other(
            Judgement::unknown(by, why.to_owned()),
            "panic",
            why,
        )));
    }
    if follow::is_there(by, Path::new("/"), socket)? {
        let now = follow::read(by, Path::new("/"), socket)?;
        if !matches!(now.state, State::Unknown(_)) {
            return Ok(Some(FirewallState::of(now)));
        }
    }
    let why = match follow::firewalld_runs() {
        true => {
            "it runs, but its rules are not in the kernel: they were flushed; systemctl restart firewalld"
        }
        false => "it does not run, and its rules are not in the kernel; systemctl start firewalld",
    };
    Ok(match kept {
        Some(kept) => {
            let last = kept.last.clone();
            let last = last.unwrap_or_else(|| Judgement::unknown(by, why.to_owned()));
            Some(FirewallState::other(last, "away", why))
        }
        None if follow::firewalld_runs() => {
            Some(FirewallState::other(Judgement::unknown(by, why.to_owned()), "away", why))
        }
        None => None,
    })
}

/// What is wrong with them.
pub(super) fn warnings(
    seen: &[FirewallState],
    follow: Option<Followed>,
    withdrawn: bool,
    held: &Held,
    start: &str,
) -> Vec<String> {
    let mut all = Vec::new();
    match (follow, held) {
        (Some(by), Held::Former(_)) => all.push(format!(
            "published ports obey other rules than {by} has now: {NOT_RUNNING}, or has not read them yet; {start}"
        )),
        (Some(by), Held::Nothing) => {
            let table = follow::TABLE;
            all.push(format!(
                "published ports do not obey {by}: {table} is gone, and {NOT_RUNNING}, which makes it again; {start}"
            ));
        }
        (_, _) => {}
    }
    if withdrawn {
        let table = follow::TABLE;
        all.push(format!(
            "published ports are withdrawn: another program keeps removing {table}; end that program \
             (nft monitor shows which one)"
        ));
    }
    if seen.iter().filter(|it| is_on(it)).count() > 1 {
        let obeys = follow.map_or_else(|| "neither".to_owned(), |follow| format!("only {follow}"));
        all.push(format!(
            "ufw and firewalld are both on: this host's own ports need both to allow them, published ports obey \
             {obeys}; switch one off: ufw disable, or systemctl disable --now firewalld"
        ));
    }
    let away = seen.iter().find(|seen| seen.state == "away");
    match away.map(|seen| (seen.judgement.by, &seen.judgement.state)) {
        Some((Followed::Ufw, State::On)) => {
            let obey =
                if follow == Some(Followed::Ufw) { "obey its files" } else { "do not follow it" };
            all.push(format!("ufw does not guard this host's own ports; published ports {obey}"));
        }
        Some((by, State::On)) if follow == Some(by) => {
            all.push(format!("published ports obey the rules that {by} had last"));
        }
        Some((by, _)) if follow == Some(by) => {
            all.push(format!("published ports are shut until {by} has rules"));
        }
        _ => {}
    }
    all
}

/// Whether it refuses, or will: ufw's files say that it is on, also where the start of firewalld has flushed its rules.
fn is_on(seen: &FirewallState) -> bool {
    let is_ufw_by_its_files = seen.judgement.by == Followed::Ufw
        && seen.state == "away"
        && matches!(seen.judgement.state, State::On);
    matches!(seen.state, "on" | "panic") || is_ufw_by_its_files
}
