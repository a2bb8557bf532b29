//! The renewal of the certificate of a host that signs none itself.

use std::time::{Duration, Instant};

use cluster::enrollment::wire;
use cluster::trust::{OwnCertificate, Pending, Trusted};
use host::time;
use model::{Error, Result};

use super::Work;

/// A renewal that failed is tried again after so long at first.
const REST: Duration = Duration::from_secs(5);
/// And after so long at last.
const LONGEST_REST: Duration = Duration::from_secs(3600);

/// A renewal that failed is tried again after a while, which grows: each try may be one more certificate.
#[derive(Default)]
pub(super) struct RenewalPause {
    until: Option<Instant>,
    pause: Duration,
    why: String,
}

impl RenewalPause {
    fn is_over(&self, now: Instant) -> bool {
        self.until.is_none_or(|end| end <= now)
    }

    /// Fails where it is not over: what failed is still so.
    pub(super) fn refuse(&self, now: Instant) -> Result<()> {
        if self.is_over(now) { Ok(()) } else { Err(Error::try_again(self.why.clone())) }
    }

    /// Twice as long as the last time, and at most as long as leaves many tries before the end.
    pub(super) fn grow(&mut self, now: Instant, left: Duration, why: &Error) {
        self.pause = (self.pause * 2).min(left / 16).min(LONGEST_REST).max(REST);
        (self.until, self.why) = (Some(now + self.pause), why.to_string());
    }
}

impl Work<'_> {
    /// Renews the certificate of a host that does not sign it itself, where that is due.
    pub(super) fn renew(&self, rest: &mut RenewalPause) -> Result<()> {
        if self.files.authority()?.is_some() {
            return Ok(());
        }
        let (own, now) = (self.files.own(&self.files.host_path())?, time::now());
        if own.as_ref().is_some_and(|own| !own.is_due(now)) {
            *rest = RenewalPause::default();
            return Ok(());
        }
        rest.refuse(Instant::now())?;
        let left = own.map_or(0, |own| own.until.0.saturating_sub(now.0));
        self.ask_anew(None).inspect_err(|error| {
            rest.grow(Instant::now(), Duration::from_secs(left), error);
        })
    }

    /// Of this authority, where one is named.
    pub(super) fn ask_anew(&self, of: Option<(&Trusted, &str)>) -> Result<()> {
        let key = Pending::new()?;
        let reply = self.ask(&wire::Ask::Renew { key: key.public()? });
        let wire::Reply::Certified(certified) =
            reply.map_err(|error| error.context("renewing the certificate of this host"))?
        else {
            return Err(Error::bug("unexpected answer to a request for a certificate"));
        };
        if let Some((trusted, digest)) = of
            && trusted.issuer(&certified.certificate, time::now()).as_deref() != Some(digest)
        {
            return Err(Error::try_again("the certificate is not of the cluster's next authority"));
        }
        let own = OwnCertificate {
            serial: None,
            record: None,
            since: time::now(),
            until: certified.until,
        };
        self.files.keep(&self.files.host_path(), &key, &certified.certificate, &own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renewal_that_fails_is_tried_ever_more_rarely() {
        let (mut rest, now, why) =
            (RenewalPause::default(), Instant::now(), Error::try_again("no disk"));
        assert!(rest.is_over(now));
        let two_months = Duration::from_secs(60 * 24 * 3600);
        let pauses: Vec<u64> = (0..12)
            .map(|_| {
                rest.grow(now, two_months, &why);
                assert!(!rest.is_over(now) && rest.is_over(now + rest.pause));
                rest.pause.as_secs()
            })
            .collect();
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600]);
        // Before the end there is time for many tries.
        rest.grow(now, Duration::from_secs(160), &why);
        assert_eq!(rest.pause.as_secs(), 10);
    }
}
