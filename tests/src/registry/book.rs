//! What a registry keeps.

use std::collections::BTreeMap;

use super::{Fault, Login, Seen};

#[derive(Debug)]
pub(super) struct Book {
    /// Where it is reached.
    pub(super) origin: String,
    blobs: BTreeMap<String, Vec<u8>>,
    /// By repository, and tag or digest: the media type and the bytes.
    manifests: BTreeMap<(String, String), (String, Vec<u8>)>,
    /// What is being pushed.
    pub(super) uploads: BTreeMap<String, Vec<u8>>,
    pub(super) pages: BTreeMap<String, Vec<u8>>,
    pub(super) login: Login,
    /// For which targets, how often, and what.
    pub(super) faults: Vec<(String, usize, Fault)>,
    pub(super) seen: Vec<Seen>,
}

impl Book {
    pub(super) fn new(origin: String) -> Self {
        Self {
            origin,
            blobs: BTreeMap::new(),
            manifests: BTreeMap::new(),
            uploads: BTreeMap::new(),
            pages: BTreeMap::new(),
            login: Login::default(),
            faults: Vec::new(),
            seen: Vec::new(),
        }
    }

    pub(super) fn blob(&self, digest: &str) -> Option<&Vec<u8>> {
        self.blobs.get(digest)
    }

    pub(super) fn add_blob(&mut self, bytes: &[u8]) -> String {
        let digest = digest(bytes);
        self.blobs.insert(digest.clone(), bytes.to_vec());
        digest
    }

    pub(super) fn manifest(&self, repository: &str, tag: &str) -> Option<(&str, &[u8])> {
        let found = self.manifests.get(&(repository.to_owned(), tag.to_owned()))?;
        Some((&found.0, &found.1))
    }

    pub(super) fn add_manifest(
        &mut self,
        repository: &str,
        tag: &str,
        kind: &str,
        bytes: &[u8],
    ) -> String {
        let digest = digest(bytes);
        for name in [tag, &digest] {
            let key = (repository.to_owned(), name.to_owned());
            self.manifests.insert(key, (kind.to_owned(), bytes.to_vec()));
        }
        digest
    }

    /// The fault that a request meets.
    pub(super) fn fault(&mut self, target: &str) -> Option<Fault> {
        let is_met =
            |fault: &&mut (String, usize, Fault)| target.starts_with(&fault.0) && fault.1 > 0;
        let met = self.faults.iter_mut().find(is_met)?;
        met.1 -= 1;
        Some(met.2.clone())
    }
}

/// `sha256:…`
fn digest(bytes: &[u8]) -> String {
    let hash = ring::digest::digest(&ring::digest::SHA256, bytes);
    let hex: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}
