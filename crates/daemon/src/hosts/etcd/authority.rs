//! `spoke host ca`: the cluster's authority, and how it is changed.

use std::collections::BTreeSet;
use std::sync::PoisonError;

use cluster::trust::{Authority, AuthorityRecord, Files, Phase, Successor};
use cluster::{Cluster, Etcd, View, book};
use host::hosts::{AuthorityView, HostAuthority, Reply};
use host::time;
use model::{Error, HostName, Result};

use crate::hosts::Hosts;
use crate::hosts::member::Member;

impl Hosts {
    pub(in crate::hosts) fn files(&self) -> Files {
        Files::below(&self.place)
    }

    /// Begins a change of the authority, or does not wait any more for hosts that are lost.
    pub(in crate::hosts) fn rotate_authority(&self, without: &BTreeSet<HostName>) -> Result<Reply> {
        // Of two commands at once the second one sees what the first has begun.
        let _signing = self.signing.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, etcd) = self.own_etcd()?;
        let view = etcd.read()?;
        if book::rotating(&view).is_some() && !without.is_empty() {
            return book::leave_out(&etcd, without).map(|()| Reply::Done);
        }
        book::refuse_rotation(&view, without)?;
        let files = self.files();
        let Some(authority) = files.authority()? else {
            let servers: Vec<&str> = view.servers.keys().map(HostName::as_str).collect();
            return Err(Error::conflict(format!(
                "only a host with a server of etcd has the authority's key: run it on host {}",
                servers.join(", ")
            )));
        };
        let now = time::now();
        let next = Authority::new(now)?;
        let (phase, without) = (Phase::Trust, without.clone());
        let record =
            AuthorityRecord { phase, next: authority.endorse(&next)?, since: now, without };
        // Where nothing comes of it, the key is forgotten later: etcd may take what it did not answer.
        files.keep_next(&next)?;
        book::begin_rotation(&etcd, &record).map(|()| Reply::Done)
    }

    /// Gives a change up.
    pub(in crate::hosts) fn abandon_authority(&self) -> Result<Reply> {
        let (_, etcd) = self.own_etcd()?;
        let (trusted, abandoned) = (self.files().trusted()?, self.files().abandoned()?);
        let is_ours = |next: &Successor| {
            !abandoned.has(next) && (trusted.has(next.digest()) || trusted.endorses(next))
        };
        book::abandon_rotation(&etcd, is_ours).map(|()| Reply::Done)
    }

    /// Which authority the cluster has, and how far a change of it is.
    pub(in crate::hosts) fn authority_view(&self) -> Result<Reply> {
        let (_, etcd) = self.own_etcd()?;
        let view = etcd.read()?;
        let authority = issued_by(&self.files(), &view)?;
        let (waiting, phase) = (book::unconfirmed(&view), view.authority.as_ref());
        let left_out = phase.map(|(record, _)| record.without.clone()).unwrap_or_default();
        let hosts = view.hosts.keys().map(|name| {
            let known = view.standings.get(name).cloned().unwrap_or_default();
            let state = match () {
                () if !waiting.contains(name) && !left_out.contains(name) => "ready",
                () if left_out.contains(name) => "left out",
                () if !view.alive.contains(name) => "lost",
                () => "waited for",
            };
            HostAuthority {
                name: name.to_string(),
                issuer: known.issuer,
                trusted: known.trusted,
                state: state.to_owned(),
            }
        });
        Ok(Reply::Authority(AuthorityView {
            authority,
            phase: phase.map(|(record, _)| record.phase.as_str().to_owned()),
            since: phase.map(|(record, _)| record.since),
            hosts: hosts.collect(),
        }))
    }

    fn own_etcd(&self) -> Result<(Member, Etcd)> {
        let (member, etcd) = self.heard()?;
        match member.own_etcd {
            true => Ok((member, etcd)),
            false => Err(Error::unsupported(
                "the cluster is on an etcd that was there: who runs that changes its authority; first add the new one to the \
                 file of --etcd-ca on each host, which is read at each connection",
            )),
        }
    }
}

/// The authority by which certificates are signed from now on: that of tokens.
pub(in crate::hosts) fn issued_by(files: &Files, view: &View) -> Result<String> {
    let is_signed = |phase: Phase| matches!(phase, Phase::Drop | Phase::Done);
    let record = view.authority.as_ref().filter(|(record, _)| is_signed(record.phase));
    match record.map(|(record, _)| record.next.digest()) {
        Some(digest) if files.trusted()?.has(digest) => Ok(digest.to_owned()),
        Some(_) | None => files.authority_digest(),
    }
}
