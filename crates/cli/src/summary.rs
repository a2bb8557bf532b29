//! The facts that both the daemon reports and the commands show.

use std::collections::BTreeSet;

use config::Config;
use engine::{Engine, Finding, Mode};
use host::views::{Clash, OpenEngine, PoolUse};
use model::{Network, Result};

use crate::commands::{doctor, findings};
use crate::context::CommandContext;
use crate::titles::Titles;
use crate::usage::{self, Taken};

/// Each subnet of this host that one of these networks and another one use, as `spoke doctor` says it but for the names:
/// they are those in the book, whatever networks are called meanwhile.
pub fn clashes<'a>(
    engine: &'a OpenEngine<'a>,
    config: &Config,
    networks: &[Network],
) -> Result<BTreeSet<Clash>> {
    let context = context(engine, config);
    let untitled = |network: &Network| Network { title: None, ..network.clone() };
    let networks: Vec<Network> = networks.iter().map(untitled).collect();
    Ok(doctor::clashes(&context, &networks, &(context.facts)()?))
}

/// How full each pool of `networks` is.
pub fn pools(engine: &Engine, networks: &[Network]) -> Result<Vec<PoolUse>> {
    let taken = Taken::new(engine.records.holders()?, engine.records.reservations()?, Vec::new());
    let pools = networks.iter().flat_map(|network| network.ipam.pools());
    let titles = Titles::of(networks);
    let views = pools.map(|pool| (pool, usage::view(pool, &taken)));
    let in_use = views.map(|(pool, view)| PoolUse {
        network: titles.called(&pool.id.network),
        pool: view.pool,
        used: view.used,
        free: view.free,
    });
    Ok(in_use.collect())
}

/// A finding's kind, and a sentence about it.
pub fn finding(finding: &Finding) -> (&'static str, String) {
    let view = findings::of_engine(finding, Mode::Mend);
    (view.kind, format!("{}: {}", view.subject, view.why))
}

pub(super) fn context<'a>(engine: &'a OpenEngine<'a>, config: &Config) -> CommandContext<'a> {
    CommandContext {
        engine,
        facts: &host::facts::read,
        taken: &linux::taken,
        root: "/".into(),
        executable: std::path::PathBuf::new(),
        runtime: std::path::PathBuf::new(),
        store: Vec::new(),
        backend: config.firewall.backend,
        now: host::time::now(),
        socket: config.docker.socket.clone(),
        kurma: host::kurma::Host::new(config, &|_| None),
        names_host: config.names.host,
        kuryr: None,
        neutron: &|| Ok(None),
        listed: &|| None,
        docker_networks: &host::engines::Networks::default,
        docker_driver: None,
        foreign: &|| Err(model::Error::bug("no command asks plugins here")),
        running: &Vec::new,
        runs: &|_| None,
        watch: &|| Err(model::Error::bug("nothing is followed here")),
        events: config.events.path.clone(),
        serve: &|| Ok(()),
        systemctl: None,
    }
}
