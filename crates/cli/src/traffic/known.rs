//! The attachments of this host, kept up to date while a command runs.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::port::{Key, Record};
use model::{Attachment, AttachmentId, Error, Layer, NetworkName, Result};
use store::{Changed, Watch};

use crate::context::HostContext;

/// The records of all attachments.
pub(super) struct Known {
    records: BTreeMap<(AttachmentId, Layer), Attachment>,
    watch: Option<Watch>,
}

impl Known {
    /// As they are now.
    pub(super) fn now(host_context: &HostContext) -> Result<Self> {
        let all = (host_context.engine)()?.records.attachments()?.into_iter();
        let records = all.map(|record| ((record.id.clone(), record.layer), record)).collect();
        Ok(Self { records, watch: None })
    }

    /// As they are now, and as they will be at each [`Known::refresh`].
    pub(super) fn watched(host_context: &HostContext) -> Result<Self> {
        let watch = Some((host_context.watch)()?);
        let mut known = Self { records: BTreeMap::new(), watch };
        known.refresh()?;
        Ok(known)
    }

    /// Takes in what has changed; whether anything has.
    pub(super) fn refresh(&mut self) -> Result<bool> {
        let Some(watch) = &mut self.watch else { return Ok(false) };
        let changes = watch.wait(Duration::ZERO)?;
        let is_changed = !changes.is_empty();
        for Changed { key, now } in changes {
            let Key::Attachment(id, layer) = key else { continue };
            match now.map(|now| now.record) {
                Some(Record::Attachment(record)) => {
                    self.records.insert((id, layer), *record);
                }
                Some(_) | None => drop(self.records.remove(&(id, layer))),
            }
        }
        Ok(is_changed)
    }

    /// Every record.
    pub(super) fn records(&self) -> impl Iterator<Item = &Attachment> {
        self.records.values()
    }

    /// Those that have a link.
    pub(super) fn links(&self) -> Vec<&Attachment> {
        linux::meter::links(self.records())
    }

    /// Those that publish ports.
    pub(super) fn published(&self) -> Vec<&Attachment> {
        linux::meter::published(self.records())
    }
}

/// Whether the word means the attachment's container or network.
pub(super) fn is_meant(word: &str, record: &Attachment) -> bool {
    is_container(word, record) || record.network().as_str() == word
}

/// Whether the word means the attachment's container.
pub(super) fn is_container(word: &str, record: &Attachment) -> bool {
    let (name, runtime) = (record.container_name(), record.runtime.to_string());
    traffic::address::is_name(word, [&name, record.id.container.as_str(), &runtime])
}

/// The words with the names of networks instead of those that runtimes have for them. Of some words the
/// caller itself knows what they mean.
///
/// # Errors
/// [`model::Kind::NotFound`] for a word that means neither a container nor a network.
pub(super) fn resolved(
    words: &[String],
    known: &Known,
    host_context: &HostContext,
    is_known: impl Fn(&str) -> bool,
) -> Result<Vec<String>> {
    let resolve = |word: &String| {
        if is_known(word) || known.records().any(|record| is_meant(word, record)) {
            return Ok(word.clone());
        }
        let name = word.parse::<NetworkName>().ok();
        let network =
            name.and_then(|name| (host_context.engine)().ok()?.records.network(&name).ok());
        network.map(|network| network.called().to_string()).ok_or_else(|| {
            let word = model::text::shown(word);
            Error::not_found(format!(
                "'{word}' is neither a container nor a network here; `spoke ps` lists both"
            ))
        })
    };
    words.iter().map(resolve).collect()
}
