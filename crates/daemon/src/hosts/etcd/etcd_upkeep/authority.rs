//! The part of this host in a change of the cluster's authority. Each step is visible in the files, so that a
//! daemon that was killed goes on where it was.

use std::path::Path;
use std::sync::PoisonError;
use std::time::{Duration, Instant, SystemTime};

use cluster::enrollment::wire;
use cluster::trust::{Authority, Files, Phase, Standing, Successor, Trusted};
use cluster::{Cluster, book};
use host::time;
use model::{Error, Result};

use super::Work;
use super::renew::RenewalPause;
use crate::hosts::Hosts;

/// So long after a request etcd may still take it.
const UNCERTAIN: Duration = Duration::from_secs(60);

impl Hosts {
    /// What this host says of the authorities that it knows. While its server of etcd has to begin anew, that may trust
    /// others than the files say.
    pub(super) fn standing(&self) -> Result<Standing> {
        let mut standing = self.files().standing(time::now())?;
        if self.server.wants_restart() {
            standing.trusted.clear();
        }
        Ok(standing)
    }
}

impl Work<'_> {
    /// Does what the phase asks of this host.
    pub(super) fn follow_authority(&self, life: u32, rest: &mut RenewalPause) -> Result<()> {
        self.collect_next()?;
        self.settle_abandoned()?;
        let Some((record, _)) = &self.view.authority else { return Ok(()) };
        let (next, trusted) = (&record.next, self.files.trusted()?);
        if record.phase == Phase::Abandoned {
            return self.distrust(&trusted, next);
        }
        let abandoned = self.files.abandoned()?;
        if abandoned.has(next) {
            // A daemon that was killed may not have come to it.
            self.distrust(&trusted, next)?;
        }
        record.refuse_unfit(&trusted, &abandoned)?;
        let has_only = trusted.digests() == [next.digest()];
        if !trusted.has(next.digest()) {
            // Who trusts it, and signs, has its key.
            self.hold_next(next)?;
            return self.trust(&trusted.and(next.trusted().clone()));
        }
        if record.phase == Phase::Trust {
            return self.hold_next(next);
        }
        let is_over = record.phase == Phase::Done && has_only;
        if is_over || !self.is_signed(next, &trusted, (life, rest))? {
            return Ok(());
        }
        if record.phase == Phase::Sign || has_only {
            return Ok(());
        }
        self.trust(&trusted.only(|known| known == next.digest()))?;
        self.files.forget_next()
    }

    /// Trusts it no more: nothing was signed by it. What none of the trusted ones has signed would not be followed, and is not
    /// remembered.
    fn distrust(&self, trusted: &Trusted, next: &Successor) -> Result<()> {
        let others = trusted.clone().only(|known| known != next.digest());
        let is_trusted = trusted.has(next.digest());
        if others.digests().is_empty() || (!is_trusted && !trusted.endorses(next)) {
            return Ok(());
        }
        let signs = self.files.authority()?.map(|authority| authority.digest());
        let own = trusted.issuer(&self.files.read(&self.files.host_path())?, time::now());
        let others_own = self.view.standings.values().filter_map(|it| it.issuer.clone());
        let mut all = [signs, own].into_iter().flatten().chain(others_own);
        if all.any(|known| known == next.digest()) {
            if !is_trusted {
                return Ok(());
            }
            return Err(Error::conflict(
                "etcd says that the change of the authority was given up, but hosts have certificates of the new one; this \
                 host goes on with both",
            ));
        }
        self.files.begin_abandoning(next)?;
        if !is_trusted {
            return Ok(());
        }
        self.trust(&others)?;
        self.files.forget_next()
    }

    /// Nothing is to be signed by what was given up, whatever etcd says later. Where a host still trusts it, that may be just
    /// getting a certificate of it: this host would have to follow then.
    fn settle_abandoned(&self) -> Result<()> {
        let trusted = self.files.trusted()?;
        for digest in self.files.abandoning()?.digests() {
            if !trusted.has(digest) && book::is_trusted_by_none(self.view, digest) {
                self.files.abandon(digest)?;
            }
        }
        Ok(())
    }

    /// Forgets the next authority's key where no change needs it: one that did not begin, or a daemon that was killed,
    /// leaves it. Who has it could come back to that change.
    fn collect_next(&self) -> Result<()> {
        if self.files.next_age(SystemTime::now())?.is_none_or(|age| age < UNCERTAIN) {
            return Ok(());
        }
        let Some(authority) = self.files.authority()? else { return self.files.forget_next() };
        if book::needs_next(self.view, &authority.digest()) {
            return Ok(());
        }
        // None begins here meanwhile; and one may have begun since the view was heard.
        let _signing = self.hosts.signing.lock().unwrap_or_else(PoisonError::into_inner);
        match book::needs_next(&self.etcd.read()?, &authority.digest()) {
            true => Ok(()),
            false => self.files.forget_next(),
        }
    }

    /// A server of etcd knows whom it trusts from its start on.
    fn trust(&self, trusted: &Trusted) -> Result<()> {
        trusted.refuse_too_many()?;
        self.with_restart(|| self.files.keep_trusted(trusted))
    }

    /// A host that signs certificates has the next authority's key before that is trusted.
    fn hold_next(&self, next: &Successor) -> Result<()> {
        let Some(authority) = self.files.authority()? else { return Ok(()) };
        if authority.digest() == next.digest() || self.files.next(next)?.is_some() {
            return Ok(());
        }
        let reply = self.ask(&wire::Ask::AuthorityOf { digest: next.digest().to_owned() });
        let reply = reply.map_err(|error| {
            error.context(
                "getting the next authority's key, without which the change does not go on (`spoke host ca abandon` gives \
                 it up)",
            )
        })?;
        let wire::Reply::Authority(key) = reply else {
            return Err(Error::bug("unexpected answer to a request for the authority's key"));
        };
        self.files.keep_next(&Authority::read(&next.trusted().text(), &key)?)
    }

    /// Whether the certificates of this host are of the next authority; has them made where they are not.
    fn is_signed(
        &self,
        next: &Successor,
        trusted: &Trusted,
        (life, rest): (u32, &mut RenewalPause),
    ) -> Result<bool> {
        let digest = next.digest();
        let Some(authority) = self.files.authority()? else {
            return self.is_signed_by_others(digest, trusted, rest);
        };
        if authority.digest() != digest {
            self.hold_next(next)?;
            let missing = || Error::try_again("the next authority's key is not there yet");
            let next = self.files.next(next)?.ok_or_else(missing)?;
            let _signing = self.hosts.signing.lock().unwrap_or_else(PoisonError::into_inner);
            self.files.keep_key(&next)?;
        }
        let is_due = |files: &Files, path: &Path| {
            Ok(trusted.issuer(&files.read(path)?, time::now()).as_deref() != Some(digest))
        };
        if self.hosts.sign_due(life, is_due)? {
            self.record_own()?;
        }
        Ok(true)
    }

    /// The same of a host that asks for its certificate: once those that sign do so by the next authority.
    fn is_signed_by_others(
        &self,
        digest: &str,
        trusted: &Trusted,
        rest: &mut RenewalPause,
    ) -> Result<bool> {
        let own = self.files.read(&self.files.host_path())?;
        if trusted.issuer(&own, time::now()).as_deref() == Some(digest) {
            return Ok(true);
        }
        let mut servers = self.view.servers.keys().filter(|host| self.view.alive.contains(*host));
        let standing = |host| self.view.standings.get(host).and_then(|it| it.issuer.as_deref());
        if !servers.all(|host| standing(host) == Some(digest)) {
            return Ok(false);
        }
        rest.refuse(Instant::now())?;
        self.ask_anew(Some((trusted, digest))).inspect_err(|error| {
            rest.grow(Instant::now(), Duration::from_secs(u64::from(u32::MAX)), error);
        })?;
        *rest = RenewalPause::default();
        // The session begins anew with it.
        Ok(false)
    }
}
