//! Things without an owner: `spoke ipam check`, `spoke gc`, and the same for `spoke doctor`.

use std::collections::BTreeSet;
use std::net::IpAddr;

use cni::reference::HeldFile;
use engine::port::Stray;
use engine::{Engine, Finding, Garbage, Mode, Remedy};
use host::exit::exit_code;
use model::{Error, Network, Result};

use crate::answer::{Answer, FOUND};
use crate::args::GcArgs;
use crate::claims;
use crate::commands::{kurma, orphans, pending};
use crate::context::CommandContext;
use crate::finding_table;
use crate::output::Output;
use crate::reference::{self, Life};
use crate::view::FindingView;

/// What dead containers left, and why some of it stays or is not known.
#[derive(Default)]
pub(crate) struct Leftovers {
    pub(crate) findings: Vec<FindingView>,
    pub(crate) networks: Vec<Network>,
    pub(crate) failures: Vec<Error>,
}

impl Leftovers {
    fn take(&mut self, found: Result<Vec<FindingView>>) {
        match found {
            Ok(found) => self.findings.extend(found),
            Err(error) => self.failures.push(error),
        }
    }

    /// The findings, and the failures as notes with the exit code of the first one.
    fn answer(&self, output: Output) -> Result<Answer> {
        let failure = |error: &Error| format!("not done: {error}");
        Ok(Answer {
            notes: self.failures.iter().map(failure).collect(),
            code: self.failures.first().map_or(0, |error| exit_code(error.kind())),
            ..finding_table::answer(&self.findings, output)?
        })
    }
}

/// `ipam check`.
pub(crate) fn check(fix: bool, output: Output, context: &CommandContext) -> Result<Answer> {
    let engine = (context.engine)()?;
    let mode = if fix { Mode::Mend } else { Mode::DryRun };
    let mut all = leftovers(&engine, mode, context);
    all.take(overlaps(&all.networks, context));
    let mut answer = all.answer(output)?;
    let is_found = all.findings.iter().any(is_open);
    if is_found && !fix && all.findings.iter().any(|finding| finding.remedy == "free") {
        answer.notes.push("`spoke ipam check --fix` frees what is marked free".to_owned());
    }
    if is_found && answer.code == 0 {
        answer.code = FOUND;
    }
    Ok(answer)
}

/// `gc`.
pub(crate) fn collect(gc: &GcArgs, output: Output, context: &CommandContext) -> Result<Answer> {
    let engine = (context.engine)()?;
    let mode = if gc.dry_run { Mode::DryRun } else { Mode::Mend };
    // The store uses it to prove which containers are gone.
    let shown = kurma::unused::collect(gc, context);
    let mut all = leftovers(&engine, mode, context);
    let known = host::podman_networks::known(&context.root);
    if known.unread.is_none() {
        removed_by_podman(&engine, &known.networks, mode, &mut all);
    }
    // Each is done, whatever else fails.
    all.take(pending::collect(gc, context));
    all.take(shown);
    all.take(orphans::collect(gc, &engine, context));
    let mut answer = all.answer(output)?;
    answer.notes.extend(
        known
            .unread
            .map(|why| format!("networks that Podman has removed are not looked for: {why}")),
    );
    Ok(answer)
}

fn removed_by_podman(
    engine: &Engine,
    known: &[::podman::Declared],
    mode: Mode,
    all: &mut Leftovers,
) {
    let (gone, failures) = match ::podman::forgotten(engine, known, mode) {
        Ok(found) => found,
        Err(error) => return all.failures.push(error),
    };
    all.failures.extend(failures);
    all.findings.extend(gone.into_iter().map(|name| FindingView {
        kind: "network",
        subject: name.to_string(),
        remedy: "free",
        why: "Podman has removed it, and no container is on it".to_owned(),
        done: mode == Mode::Mend,
    }));
}

/// Whether it stays wrong unless a person acts.
fn is_open(finding: &FindingView) -> bool {
    !finding.done && finding.remedy != "keep"
}

/// What dead containers left: in the store, in the kernel, and in the reference plugins' files.
/// Returned with the present networks.
pub(crate) fn leftovers(engine: &Engine, mode: Mode, context: &CommandContext) -> Leftovers {
    let found = engine.repair.reconcile_each(mode);
    let findings = found.findings.iter().map(|finding| of_engine(finding, mode));
    let unmended = found.unmended.iter().map(|finding| of_engine(finding, Mode::DryRun));
    let findings = findings.chain(unmended).collect();
    let mut all = Leftovers { findings, failures: found.failures, ..Leftovers::default() };
    if let Err(error) = unrecorded_files(engine, mode, context, &mut all) {
        all.failures.push(error);
    }
    all
}

/// Addresses in the reference plugins' files that no record has.
fn unrecorded_files(
    engine: &Engine,
    mode: Mode,
    context: &CommandContext,
    all: &mut Leftovers,
) -> Result<()> {
    all.networks = engine.records.networks()?;
    let holders = engine.records.holders()?;
    let recorded: BTreeSet<(IpAddr, &str)> = holders
        .iter()
        .filter_map(|holder| {
            let container = holder.attachment()?.container.as_str();
            Some((holder.lease.address.addr(), container))
        })
        .collect();
    for file in reference::files(context, &all.networks) {
        if !recorded.contains(&(file.address, file.container.as_str())) {
            let found = of_file(&file, mode, context);
            all.take(found.map(|found| found.into_iter().collect()));
        }
    }
    Ok(())
}

pub(crate) fn of_engine(finding: &Finding, mode: Mode) -> FindingView {
    let (kind, subject, why) = match &finding.what {
        Garbage::Attachment(id) => ("attachment", id.to_string(), "its container is gone"),
        Garbage::Unfinished(id) => {
            ("attachment", id.to_string(), "its sandbox is gone, or its process died on the way")
        }
        Garbage::Doubtful(id) => {
            ("attachment", id.to_string(), "nothing proves that its container lives or is gone")
        }
        Garbage::Lease(lease) => {
            ("lease", lease.address.addr().to_string(), "no attachment holds it")
        }
        Garbage::Port(claim) => ("port", claim.holder.to_string(), "its holder has no record"),
        Garbage::Stray(Stray::Link(name)) => {
            let why = match finding.remedy {
                Remedy::Free => "no record knows it, and it is in no container",
                Remedy::Quarantine => {
                    "no record knows it, but its container lives, or a damaged record may be of it"
                }
            };
            ("link", name.to_string(), why)
        }
        Garbage::Stray(Stray::Elements(mark)) => ("rules", mark.clone(), "no record knows them"),
        Garbage::Stray(Stray::Parking(name)) => {
            ("namespace", name.clone(), "no record knows what waits there for its container")
        }
        Garbage::Stray(Stray::Names(name)) => {
            ("names", format!("/etc/netns/{name}"), "no record knows the namespace")
        }
        Garbage::Stray(Stray::SwitchPort { name, .. }) => {
            ("switch-port", name.to_string(), "no record knows it, and its device is gone")
        }
        Garbage::Alias(id) => ("network", id.to_string(), "its runtime does not know it any more"),
        Garbage::Subnet(id) => ("subnet", id.to_string(), "its runtime does not use it any more"),
        Garbage::Network(name) => {
            ("network", name.to_string(), "its runtime has forgotten it, and no container is on it")
        }
        Garbage::Sandbox(container) => {
            ("sandbox", container.to_string(), "it is not led out as was chosen")
        }
        Garbage::Damaged(damaged) => ("record", damaged.path.clone(), damaged.why.as_str()),
    };
    let remedy = match (finding.remedy, &finding.what) {
        (_, Garbage::Damaged(_)) => "decide",
        (Remedy::Free, _) => "free",
        // It holds nothing that could be kept back.
        (Remedy::Quarantine, Garbage::Stray(_)) => "keep",
        (Remedy::Quarantine, _) => "quarantine",
    };
    let done = mode == Mode::Mend && remedy != "decide";
    FindingView { kind, subject, why: why.to_owned(), remedy, done }
}

fn of_file(file: &HeldFile, mode: Mode, context: &CommandContext) -> Result<Option<FindingView>> {
    let (remedy, why) = match reference::life(file, context) {
        Life::Alive => return Ok(None),
        Life::Gone(why) => ("free", why),
        Life::Doubtful => ("keep", "nothing proves that its container lives or is gone"),
    };
    let done = remedy == "free" && mode == Mode::Mend && file.remove()?;
    let subject = format!("{} of network {}", file.address, file.network);
    let why = format!("{why} (container {}, {})", file.container, file.path.display());
    Ok(Some(FindingView { kind: "file", subject, why, remedy, done }))
}

/// Networks that allocate the same addresses.
pub(crate) fn overlaps(networks: &[Network], context: &CommandContext) -> Result<Vec<FindingView>> {
    let claims = claims::claims(context, networks, &(context.facts)()?);
    let finding = |(one, other): (&claims::Claimed, &claims::Claimed)| FindingView {
        kind: "overlap",
        subject: one.to_string(),
        why: format!("it overlaps {other}; remove one: {}", newer(one, other).removal),
        remedy: "decide",
        done: false,
    };
    Ok(claims::clashes(&claims).into_iter().map(finding).collect())
}

/// The one to remove: Docker's and Podman's rather than Spoke's, which was checked when it was
/// made.
pub(crate) fn newer<'a>(
    one: &'a claims::Claimed,
    other: &'a claims::Claimed,
) -> &'a claims::Claimed {
    if other.owner >= one.owner { other } else { one }
}
