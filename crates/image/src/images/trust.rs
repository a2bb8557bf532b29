//! The signatures that an image needs.

use std::cell::OnceCell;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use model::{Error, Kind, Result};

use super::Images;
use crate::cache::Record;
use crate::locator::Source;
use crate::signature::Ring;
use crate::{KeyRule, Locator};

/// The demands of the policy.
#[derive(Debug)]
pub(super) struct Trust {
    rules: Vec<KeyRule>,
    own: Option<KeyRule>,
    now: u64,
    rings: Vec<OnceCell<Ring>>,
}

impl Trust {
    pub(super) fn new(images: &Images) -> Result<Self> {
        let clock = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = clock.map_err(|_| Error::invalid("the clock is before 1970"))?.as_secs();
        let files = images.keys.clone();
        let own = (!files.is_empty()).then(|| KeyRule { prefix: String::new(), files });
        let rules = images.policy.keys.clone();
        let rings = std::iter::repeat_with(OnceCell::new).take(rules.len() + 1).collect();
        Ok(Self { rules, own, now, rings })
    }

    /// Whether there are rules at all.
    pub(super) fn is_needed(&self) -> bool {
        self.own.is_some() || !self.rules.is_empty()
    }

    /// Whether what is called `name`, by itself or by its locator, must be signed.
    pub(super) fn is_needed_for(&self, name: &str) -> bool {
        !self.rules_for(&[name]).is_empty()
    }

    /// Checks `signatures` of the image file `message` that is called `name`; gives the fingerprints of
    /// the keys that signed.
    pub(super) fn verify(
        &self,
        name: &str,
        signatures: &[u8],
        message: &mut Vec<u8>,
    ) -> Result<Vec<String>> {
        let rules = self.rules_for(&[name]);
        let check = |at: &usize| self.ring(*at)?.verify(signatures, message, self.now);
        rules.iter().map(check).collect()
    }

    /// Whether `record`, which is in the cache, may be used for `locator`.
    pub(super) fn accepts(&self, locator: &Locator, record: &Record) -> bool {
        if is_of_registry(locator.source()) {
            return self.check_pinned(locator).is_ok();
        }
        let rules = self.rules_for(&[&locator.subject(), &record.name]);
        rules.iter().all(|at| {
            let known = self.ring(*at).map(Ring::fingerprints).unwrap_or_default();
            !known.is_disjoint(&record.signers)
        })
    }

    /// An image from a registry or layout has no detached signature: its digest must be given.
    pub(super) fn check_pinned(&self, locator: &Locator) -> Result<()> {
        if locator.pin().is_some() || !self.is_needed_for(&locator.subject()) {
            return Ok(());
        }
        Err(Error::new(
            Kind::Denied,
            "keys are configured for it, but an OCI or Docker image has no signature that could be \
             checked with them: pin it with @sha256:…",
        ))
    }

    /// Which rules hold: of those for each name the one with the longest prefix, and our own.
    fn rules_for(&self, names: &[&str]) -> Vec<usize> {
        let of = |name: &&str| {
            let rules = self.rules.iter().enumerate();
            let fitting = rules.filter(|(_, rule)| name.starts_with(&rule.prefix));
            fitting.max_by_key(|(_, rule)| rule.prefix.len()).map(|(at, _)| at)
        };
        let own = self.own.is_some().then_some(self.rules.len());
        let mut rules: Vec<usize> = names.iter().filter_map(of).chain(own).collect();
        rules.sort_unstable();
        rules.dedup();
        rules
    }

    fn ring(&self, at: usize) -> Result<&Ring> {
        let bug = || Error::bug("a rule for keys is missing");
        let cell = self.rings.get(at).ok_or_else(bug)?;
        if let Some(ring) = cell.get() {
            return Ok(ring);
        }
        let rule = self.rules.get(at).or(self.own.as_ref()).ok_or_else(bug)?;
        let files: &[PathBuf] = &rule.files;
        let ring = Ring::read(files, self.now)?;
        Ok(cell.get_or_init(|| ring))
    }
}

fn is_of_registry(source: &Source) -> bool {
    matches!(source, Source::Docker(_) | Source::Layout { .. } | Source::Archive { .. })
}
