//! The facts that both the daemon reports and the commands show.

use std::collections::BTreeSet;

use config::Config;
use engine::{Engine, Finding, Mode};
use model::Result;

use super::titles::Titles;
use super::usage::{self, Taken};
use super::{HostContext, doctor, findings};
use crate::serve::metrics::{Book, PoolUse, Traffic};

/// One sentence for each subnet of this host that two networks use, as `spoke doctor` says it.
pub(crate) fn clashes<'a>(
    engine: &'a dyn Fn() -> Result<Engine<'a>>,
    config: &Config,
) -> Result<BTreeSet<String>> {
    let host_context = host_context(engine, config);
    let networks = engine()?.records.networks()?;
    Ok(doctor::clashes(&host_context, &networks, &(host_context.facts)()?).into_iter().collect())
}

/// The present state of the store.
pub(crate) fn figures<'a>(engine: &'a dyn Fn() -> Result<Engine<'a>>) -> Result<Book> {
    let engine = engine()?;
    let networks = engine.records.networks()?;
    let taken = Taken::new(engine.records.holders()?, engine.records.reservations()?, Vec::new());
    let pools = networks.iter().flat_map(|network| network.ipam.pools());
    let titles = Titles::of(&networks);
    let pools = pools.map(|pool| (pool, usage::view(pool, &taken))).map(|(pool, view)| PoolUse {
        network: titles.called(&pool.id.network),
        pool: view.pool,
        used: view.used,
        free: view.free,
    });
    let (pools, attachments) = (pools.collect(), engine.records.attachments()?);
    // Without the kernel's counters the others are right.
    let mut traffic = Traffic::read(&attachments).unwrap_or_default();
    for record in &attachments {
        if let (Some(quota), Ok(Some(used))) = (record.quota(), engine.links.used_of(record)) {
            traffic.add_quota(record, quota.bytes, used);
        }
    }
    Ok(Book { pools, attachments, ports: engine.records.ports()?.len(), networks, traffic })
}

/// A finding's kind, and a sentence about it.
pub(crate) fn finding(finding: &Finding) -> (&'static str, String) {
    let view = findings::of_engine(finding, Mode::Mend);
    (view.kind, format!("{}: {}", view.subject, view.why))
}

pub(super) fn host_context<'a>(
    engine: &'a dyn Fn() -> Result<Engine<'a>>,
    config: &Config,
) -> HostContext<'a> {
    HostContext {
        engine,
        facts: &crate::facts::gather,
        taken: &linux::taken,
        root: "/".into(),
        executable: std::path::PathBuf::new(),
        runtime: std::path::PathBuf::new(),
        store: Vec::new(),
        backend: config.firewall.backend,
        now: crate::host::now(),
        socket: config.docker.socket.clone(),
        kurma: crate::kurma::Host::new(config, &|_| None),
        names_host: config.names.host,
        kuryr: None,
        neutron: &|| Ok(None),
        listed: &|| None,
        foreign: &|| Err(model::Error::bug("nobody asks plugins here")),
        running: &Vec::new,
        watch: &|| Err(model::Error::bug("nothing is followed here")),
        events: config.events.path.clone(),
        serve: &|| Ok(()),
        systemctl: None,
    }
}
