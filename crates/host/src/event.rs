//! The daemon's events on this host: one JSON object a line in a file that every permitted program
//! can follow.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use config::Level;
use model::{AttachmentId, NetworkName, Runtime, Timestamp};
use serde::{Deserialize, Serialize};

/// When the file is this long, in bytes, it is put aside and a new one begun.
const LARGEST: u64 = 1 << 20;

/// The kinds of events. The names are a promise to scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// The daemon began to serve.
    Started,
    /// The daemon ended.
    Stopped,
    /// A network was made.
    NetworkCreated,
    /// A network was removed.
    NetworkRemoved,
    /// A network had too many names since it had one: it is found by that no more.
    NetworkNameGone,
    /// A container has its interface.
    Attached,
    /// A container's interface went.
    Detached,
    /// Ports of the host lead to a container.
    Published,
    /// They do no longer.
    Unpublished,
    /// A thing without an owner was freed.
    Freed,
    /// A thing that may be in use is kept.
    Quarantined,
    /// Two networks have the same addresses.
    Clash,
    /// They do no longer.
    ClashOver,
    /// A process of this host has a published port too.
    PortTaken,
    /// It does no longer.
    PortFree,
    /// A removed part of the packet filter was restored.
    Healed,
    /// A part is removed again and again, and restored after pauses.
    Contested,
    /// It is no longer removed.
    ContestOver,
    /// An address may not be used any more: a DHCP server's, or one that another host has by now.
    LeaseLost,
    /// A DHCP server gave an address in place of a lost one.
    LeaseRegained,
    /// A host has joined the cluster.
    HostJoined,
    /// The daemon of another host does not renew its lease.
    HostLost,
    /// It does again.
    HostBack,
    /// A host was removed from the cluster.
    HostRemoved,
    /// Others may have addresses of this host, which was not heard of for too long: its containers do not reach
    /// theirs any more.
    HostIsolated,
    /// They do again.
    HostIsolationOver,
    /// A cleanup is pending: a call to a plugin did not get through.
    #[serde(alias = "owed")]
    CleanupPending,
    /// It was made.
    #[serde(alias = "settled")]
    CleanupDone,
    /// A container has used up its quota.
    Quota,
    /// A plugin was started: Docker's, or one out of an image.
    PluginCame,
    /// A plugin was removed, or has ended.
    PluginGone,
    /// Something did not work.
    Failed,
    /// Written by a later version.
    #[serde(other)]
    Other,
}

impl What {
    /// How loudly it is logged.
    pub fn level(self) -> Level {
        match self {
            What::Failed => Level::Error,
            What::Clash
            | What::PortTaken
            | What::Freed
            | What::Quarantined
            | What::Healed
            | What::Contested
            | What::LeaseLost
            | What::HostLost
            | What::HostIsolated
            | What::Quota
            | What::CleanupPending => Level::Warn,
            What::Started
            | What::Stopped
            | What::NetworkCreated
            | What::NetworkRemoved
            | What::NetworkNameGone
            | What::Attached
            | What::Detached
            | What::Published
            | What::Unpublished
            | What::ClashOver
            | What::ContestOver
            | What::PortFree
            | What::LeaseRegained
            | What::HostJoined
            | What::HostBack
            | What::HostRemoved
            | What::HostIsolationOver
            | What::CleanupDone
            | What::PluginCame
            | What::PluginGone
            | What::Other => Level::Info,
        }
    }

    /// Its name in the file.
    pub fn name(self) -> String {
        let value = serde_json::to_value(self).ok();
        value.as_ref().and_then(|name| name.as_str()).unwrap_or("other").to_owned()
    }
}

/// Something that happened, and to what. These fields are a promise to scripts: some may be added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Seconds since the Unix epoch.
    pub time: u64,
    /// The kind.
    pub event: What,
    /// On which network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// The other network, where it happened to two of Spoke's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_network: Option<String>,
    /// To which container, as its runtime calls it (Docker: the endpoint's id).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// The container's lasting name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// To which interface; absent where its runtime, which names it, has not done so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// Through which runtime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// With which addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// With which published ports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<String>,
    /// A sentence for people.
    pub message: String,
}

impl Event {
    /// Something that happened now, to nothing in particular.
    pub fn new(event: What, time: Timestamp, message: impl Into<String>) -> Self {
        Self {
            time: time.0,
            event,
            network: None,
            other_network: None,
            container: None,
            name: None,
            interface: None,
            runtime: None,
            addresses: Vec::new(),
            ports: Vec::new(),
            message: message.into(),
        }
    }

    /// It happened to this network.
    pub fn on(mut self, network: &NetworkName, runtime: Runtime) -> Self {
        self.network = Some(network.to_string());
        self.runtime = Some(runtime.to_string());
        self
    }

    /// It happened to this attachment.
    pub fn to(mut self, id: &AttachmentId) -> Self {
        self.network = Some(id.network.to_string());
        self.container = Some(id.container.to_string());
        self.interface = Some(id.ifname.to_string());
        self
    }

    /// The fields of a log line beside the sentence.
    pub fn fields(&self) -> Vec<(&'static str, String)> {
        let one = |key, value: &Option<String>| value.clone().map(|value| (key, value));
        let many = |key, values: &[String]| {
            Some((key, values.join(","))).filter(|(_, joined)| !joined.is_empty())
        };
        let fields = [
            Some(("event", self.event.name())),
            one("network", &self.network),
            one("other_network", &self.other_network),
            one("container", &self.container),
            one("name", &self.name),
            one("interface", &self.interface),
            one("runtime", &self.runtime),
            many("addresses", &self.addresses),
            many("ports", &self.ports),
        ];
        fields.into_iter().flatten().collect()
    }
}

/// The file, as the daemon writes it.
#[derive(Debug)]
pub struct EventFile {
    path: PathBuf,
    open: Mutex<Option<File>>,
}

impl EventFile {
    /// The file at `path`; made with the first event.
    pub fn new(path: PathBuf) -> Self {
        Self { path, open: Mutex::new(None) }
    }

    /// Adds a line, in one write, so that none is ever seen half.
    pub fn append(&self, what: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(what)?;
        line.push(b'\n');
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let mut file = match open.take() {
            Some(file) if self.is_current(&file) => file,
            Some(_) | None => self.begin()?,
        };
        if file.metadata()?.len() > LARGEST {
            fs::rename(&self.path, aside(&self.path))?;
            file = self.begin()?;
        }
        file.write_all(&line)?;
        *open = Some(file);
        Ok(())
    }

    /// The file may have been removed or replaced.
    fn is_current(&self, file: &File) -> bool {
        use std::os::unix::fs::MetadataExt;
        let (Ok(ours), Ok(there)) = (file.metadata(), fs::metadata(&self.path)) else {
            return false;
        };
        (ours.dev(), ours.ino()) == (there.dev(), there.ino())
    }

    fn begin(&self) -> io::Result<File> {
        if let Some(parent) = self.path.parent() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
        }
        file::append(&self.path, 0o600)
    }
}

/// Where the previous part of the file is.
pub fn aside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(message: &str) -> Event {
        Event::new(What::Healed, Timestamp(5), message)
    }

    #[test]
    fn one_object_a_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run/events");
        let file = EventFile::new(path.clone());
        file.append(&event("one\ntwo")).unwrap();
        file.append(&event("three")).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(
            text.lines().next().unwrap(),
            r#"{"time":5,"event":"healed","message":"one\ntwo"}"#
        );
        assert_eq!(text.lines().count(), 2);
    }

    #[test]
    fn is_put_aside_when_it_is_long_and_survives_removal() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("events");
        let file = EventFile::new(path.clone());
        let long = "x".repeat(400_000);
        for _ in 0..9 {
            file.append(&event(&long)).unwrap();
        }
        assert!(fs::metadata(&path).unwrap().len() <= LARGEST + 400_100);
        assert!(fs::metadata(aside(&path)).unwrap().len() <= LARGEST + 400_100);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
        fs::remove_file(&path).unwrap();
        file.append(&event("again")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 1);
    }

    #[test]
    fn later_versions_may_say_more() {
        let line = r#"{"time":1,"event":"paused","message":"m","new":5}"#;
        let event: Event = serde_json::from_str(line).unwrap();
        assert_eq!(event.event, What::Other);
    }
}
