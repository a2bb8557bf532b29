//! The attachments of this host, kept up to date while a command runs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use engine::port::{Key, Record};
use model::{Attachment, AttachmentId, Error, Kind, Layer, NetworkName, Result};
use store::{Changed, Watch};
use traffic::Addresses;

use crate::container::is_dockers_id;
use crate::context::CommandContext;
use crate::titles::Titles;

/// The records of all attachments.
pub(super) struct Known {
    records: BTreeMap<(AttachmentId, Layer), Attachment>,
    titles: Titles,
    watch: Option<Watch>,
}

impl Known {
    /// As they are now.
    pub(super) fn now(context: &CommandContext) -> Result<Self> {
        let engine = (context.engine)()?;
        let all = engine.records.attachments()?.into_iter();
        let records = all.map(|record| ((record.id.clone(), record.layer), record)).collect();
        Ok(Self { records, titles: Titles::read(&engine)?, watch: None })
    }

    /// As they are now, and as they will be at each [`Known::refresh`].
    pub(super) fn watched(context: &CommandContext) -> Result<Self> {
        let watch = Some((context.watch)()?);
        let mut known = Self { records: BTreeMap::new(), titles: Titles::default(), watch };
        known.refresh(context)?;
        Ok(known)
    }

    /// Takes in what has changed; whether anything has.
    pub(super) fn refresh(&mut self, context: &CommandContext) -> Result<bool> {
        let Some(watch) = &mut self.watch else { return Ok(false) };
        let changes = watch.wait(Duration::ZERO)?;
        let is_changed = !changes.is_empty();
        // The watch is of attachments: a network that has a container by now may have a title, too.
        if is_changed {
            self.titles = Titles::read(&(context.engine)()?)?;
        }
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

    /// What networks are called.
    pub(super) fn titles(&self) -> &Titles {
        &self.titles
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
        || is_dockers_id(record, word)
}

/// What the caller of [`resolved`] knows besides the book.
pub(super) trait Beside {
    /// Whether a container is called so.
    fn has_container(&self, word: &str) -> bool;

    /// The networks that a runtime calls so.
    fn networks_called(&self, word: &str) -> BTreeSet<&str>;
}

/// Nothing.
impl Beside for () {
    fn has_container(&self, _: &str) -> bool {
        false
    }

    fn networks_called(&self, _: &str) -> BTreeSet<&str> {
        BTreeSet::new()
    }
}

impl Beside for Addresses {
    fn has_container(&self, word: &str) -> bool {
        !self.of_container(word).is_empty()
    }

    fn networks_called(&self, word: &str) -> BTreeSet<&str> {
        self.networks_called(word)
    }
}

/// The words with the names of networks instead of those that runtimes have for them.
///
/// # Errors
/// [`model::Kind::NotFound`] for a word that means neither a container nor a network, `Conflict` for one that
/// several networks are called.
pub(super) fn resolved(
    words: &[String],
    known: &Known,
    beside: &impl Beside,
    context: &CommandContext,
) -> Result<Vec<String>> {
    let resolve = |word: &String| {
        let is_known = |record| is_meant(word, record);
        if beside.has_container(word) || known.records().any(is_known) {
            return Ok(word.clone());
        }
        let found = match word.parse::<NetworkName>() {
            Ok(name) => (context.engine)()?.records.network(&name),
            Err(error) => Err(error),
        };
        match found {
            Ok(network) => Ok(network.called().to_string()),
            Err(error) if error.kind() == Kind::Conflict => Err(error),
            Err(_) => of_runtime(word, &beside.networks_called(word)),
        }
    };
    words.iter().map(resolve).collect()
}

/// The one network that a runtime calls so, and the book does not have.
fn of_runtime(word: &str, called: &BTreeSet<&str>) -> Result<String> {
    let all: Vec<&str> = called.iter().copied().collect();
    let shown = model::text::shown(word);
    match all.as_slice() {
        [one] => Ok((*one).to_owned()),
        [] => Err(Error::not_found(format!(
            "'{shown}' is neither a container nor a network here; `spoke ps` lists both"
        ))),
        several => Err(Error::conflict(format!(
            "several networks are called {shown}; say which one: {}",
            several.join(", ")
        ))),
    }
}
