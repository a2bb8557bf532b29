//! A plugin's handshake (`Plugin.Activate`), once in its life.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use model::{DriverName, Error};
use serde::{Deserialize, Serialize};

use super::calls::{Failed, Fate, Life};
use super::client::Reply;
use super::discover::Installed;
use super::notes::clock;
use super::request::{Replied, Request};
use super::verdict::reported;
use libnetwork::{AddressSpaces, IpamCapabilities, Manifest, Method, NetworkCapabilities, Profile};

/// A plugin that was asked.
#[derive(Debug)]
pub(super) struct Activated {
    /// In which life.
    pub(super) life: Life,
    pub(super) profile: Arc<Profile>,
}

impl Activated {
    /// Asks a plugin what it is, and then what it can do as that.
    pub(super) fn ask(
        name: &DriverName,
        mut send: impl FnMut(&Request<'_>) -> Result<Replied, Failed>,
    ) -> Result<Self, Failed> {
        let mut ask = |method| send(&Request { method, body: &[], is_repeatable: true });
        let Replied { reply, life, .. } = ask(Method::Activate)?;
        let manifest = reported(name, Method::Activate, &reply, Manifest::decode)?;
        let mut profile = Profile { network: None, ipam: None, spaces: None };
        if manifest.network {
            let method = Method::NetworkCapabilities;
            let reply = ask(method)?.reply;
            profile.network = Some(reported(name, method, &reply, NetworkCapabilities::decode)?);
        }
        if manifest.ipam {
            let method = Method::IpamCapabilities;
            let reply = ask(method)?.reply;
            let reported = reported(name, method, &reply, IpamCapabilities::decode);
            profile.ipam = Some(reported.unwrap_or(NONE));
            profile.spaces = spaces(name, &ask(Method::AddressSpaces)?.reply)?;
        }
        Ok(Self { life, profile: Arc::new(profile) })
    }
}

/// A plugin's answers to the questions of [`Activated::ask`], unchanged. A process that reads them
/// trusts them no more than the plugin itself.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Manuscript {
    /// The plugin that answered.
    whose: String,
    /// The time of the answers ([`clock`]).
    when: u64,
    #[serde(alias = "said")]
    answers: BTreeMap<String, (u16, String)>,
}

/// A change of the plugin goes unnoticed where another program holds its socket, or where it is
/// reached over TCP. Such a plugin is asked again after this time.
const LASTS: Duration = Duration::from_secs(600);

impl Manuscript {
    pub(super) fn new(installed: &Installed) -> Self {
        Self { whose: whose(installed), when: clock(), answers: BTreeMap::new() }
    }

    /// Adds an answer. The whole is discarded once one was no text.
    pub(super) fn take(&mut self, request: &Request<'_>, reply: &Reply) {
        match String::from_utf8(reply.body.clone()) {
            Ok(text) => {
                drop(self.answers.insert(request.method.name().into(), (reply.status, text)))
            }
            Err(_) => self.whose.clear(),
        }
    }

    /// Reads it as the answers of this plugin; `None` where they are another plugin's, or
    /// incomplete.
    pub(super) fn read(&self, name: &DriverName, installed: &Installed) -> Option<Activated> {
        let age = clock().checked_sub(self.when).map(Duration::from_millis);
        if self.whose != whose(installed) || age.is_none_or(|age| age > LASTS) {
            return None;
        }
        let life = installed.life();
        let answers = |request: &Request<'_>| {
            let (status, text) = self.answers.get(request.method.name()).ok_or_else(unanswered)?;
            let reply = Reply { status: *status, body: text.clone().into_bytes() };
            Ok(Replied { reply, life: life.clone(), was_taken: false })
        };
        Activated::ask(name, answers).ok()
    }
}

fn whose(installed: &Installed) -> String {
    format!("{} {}", installed.life().0, installed.address)
}

fn unanswered() -> Failed {
    Failed::new(Error::not_found("that was not asked"), Fate::Unsent)
}

/// Drivers from before there were capabilities do not know the question; libnetwork takes whatever
/// they say to it for this.
const NONE: IpamCapabilities = IpamCapabilities { requires_mac: false, requires_replay: false };

/// Only a pool of no named space needs them: that is refused then, and not the driver.
fn spaces(name: &DriverName, reply: &Reply) -> Result<Option<AddressSpaces>, Failed> {
    match reported(name, Method::AddressSpaces, reply, AddressSpaces::decode) {
        Ok(spaces) => Ok(spaces),
        Err(failed) if matches!(failed.fate, Fate::Refused | Fate::Done) => Ok(None),
        Err(failed) => Err(failed),
    }
}
