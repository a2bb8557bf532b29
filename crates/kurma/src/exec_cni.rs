//! CNI plugins out of images, for any runtime: the program is found in the image, and runs in its
//! container with the environment and the input that it is given. What is in these is the caller's
//! affair; here only the path of the network namespace is translated, because a container has its
//! own mounts.

mod mark;
mod unused;

use std::path::{Path, PathBuf};

use container::{Ended, Ending};
use model::{Error, Result};
use netlink::Netns;

use crate::plugin::{Direct, NetworkingPod, PluginSpec};
use crate::volume::{INSIDE, Volume};

use mark::Mark;
pub use mark::{forget, forgotten};
pub use unused::{Fate, Unused, clear, unused};

/// The name of the environment variable with the namespace's path (CNI 1.1.0 §2).
const NETNS: &str = "CNI_NETNS";

/// The prefix of runtimes' namespaces in the volume.
const PREFIX: &str = "cni-";

/// A network namespace as the runtime names it, and as plugins see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The name in the volume; a function of the attachment.
    pub name: String,
    /// The runtime's path; empty where it gave none (CNI 1.1.0 §2, DEL).
    pub path: String,
    /// Where it is opened, if not there.
    opened: Option<PathBuf>,
}

/// Whether the plugin is the last to need the namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tenancy {
    /// It stays visible until it has to be undone (ADD, CHECK, GC, STATUS): a plugin's processes
    /// may use the path, and the store of Spoke's own plugins uses it to check whether a container
    /// exists.
    Stays,
    /// It goes if the plugin succeeds (DEL).
    Ends,
}

impl Shown {
    /// The namespace at `path` of an attachment. `parts` distinguish it from every other one:
    /// container, interface, network and plugin.
    pub fn new(path: &str, parts: &[&str]) -> Self {
        let joined = parts.join("\0");
        let name: String = crate::plugin::hex(&[joined.as_bytes()]).chars().take(24).collect();
        Self { name: format!("{PREFIX}{name}"), path: path.to_owned(), opened: None }
    }

    /// The same, to be opened at another path: the caller's mounts may be others than the runtime's.
    #[must_use]
    pub fn open_at(self, path: PathBuf) -> Self {
        Self { opened: Some(path), ..self }
    }

    /// The path that the plugin is given.
    fn inside(&self) -> String {
        format!("{INSIDE}/{}", self.name)
    }

    /// The runtime's text, for the plugin.
    fn inwards(&self, text: &[u8]) -> Vec<u8> {
        replace(text, &self.path, &self.inside())
    }

    /// The plugin's text, for the runtime.
    fn outwards(&self, text: &[u8]) -> Vec<u8> {
        replace(text, &self.inside(), &self.path)
    }
}

/// Runs a CNI plugin out of an image. `CNI_NETNS` is added to its environment, and in its input and
/// its answer the one path stands for the other, wherever it is the whole of a string.
///
/// # Errors
/// [`model::Kind::NotFound`] where the image has no such plugin; [`model::Kind::TryAgain`] where
/// its container does not start; why the image cannot be fetched or run; [`model::Kind::Invalid`]
/// where the path is no network namespace, unless this is its end.
pub fn run(
    pod: &NetworkingPod,
    wanted: &PluginSpec,
    call: &Direct<'_>,
    shown: &Shown,
    tenancy: Tenancy,
) -> Result<Ended> {
    let volume = Volume::new(&pod.directories.netns);
    volume.prepare()?;
    let mark = Mark::new(&pod.directories, &shown.name);
    // Whether an earlier call has begun; before there were marks, a namespace that is shown said so.
    let was_shown = volume.shows(&shown.name);
    let was_called = was_shown || mark.is_set()?;
    // A caller that is killed while the image is fetched has shown nothing.
    let reached = if was_shown { Ok(()) } else { pod.reach(wanted) };
    let shows = (volume, shown, tenancy);
    let ended = match reached.and_then(|()| called(pod, wanted, call, shows, &mark)) {
        Ok(ended) => ended?,
        Err(error) => {
            if !was_shown {
                volume.hide(&shown.name)?;
            }
            if !was_called {
                mark.clear()?;
            }
            if tenancy == Tenancy::Ends && was_called {
                // Its DEL comes again and again: that the plugin has something to end is not forgotten meanwhile.
                let _lock = volume.lock()?;
                mark.refresh()?;
            }
            if tenancy != Tenancy::Ends || was_called {
                return Err(error);
            }
            // An ADD that failed for want of the image is followed by a DEL, which must not fail for ever.
            let status = Ending::Exited(0);
            Ended { status, stdout: Vec::new(), stderr: Vec::new(), truncated: false }
        }
    };
    if tenancy == Tenancy::Ends && ended.status == Ending::Exited(0) {
        volume.hide(&shown.name)?;
        mark.clear()?;
    }
    let stdout = shown.outwards(&ended.stdout);
    let stderr = shown.outwards(&ended.stderr);
    Ok(Ended { stdout, stderr, ..ended })
}

/// Shows the namespace, and calls the plugin. The outer error means that nothing began.
fn called(
    pod: &NetworkingPod,
    wanted: &PluginSpec,
    call: &Direct<'_>,
    (volume, shown, tenancy): (Volume<'_>, &Shown, Tenancy),
    mark: &Mark,
) -> Result<Result<Ended>> {
    // GC and STATUS are of no attachment.
    if tenancy == Tenancy::Stays && !shown.path.is_empty() {
        let _lock = volume.lock()?;
        mark.set()?;
    }
    let is_there = show(volume, shown, tenancy)?;
    let inside = shown.inside();
    let netns = if is_there { inside.as_str() } else { shown.path.as_str() };
    let mut environment = call.environment.to_vec();
    environment.retain(|(key, _)| *key != NETNS);
    environment.push((NETNS, netns));
    let input = if is_there { shown.inwards(call.input) } else { call.input.to_vec() };
    pod.direct(wanted, &Direct { environment: &environment, input: &input, ..*call })
}

/// Makes the namespace visible to plugins; whether it is.
fn show(volume: Volume<'_>, shown: &Shown, tenancy: Tenancy) -> Result<bool> {
    match (shown.path.as_str(), tenancy) {
        // The namespace that ADD saw is still there, whatever happened to the runtime's path.
        (_, Tenancy::Ends) if volume.shows(&shown.name) => Ok(true),
        ("", _) => Ok(false),
        (path, tenancy) => match Netns::open(shown.opened.as_deref().unwrap_or(Path::new(path))) {
            Ok(netns) => {
                let _lock = volume.lock()?;
                volume.show(&shown.name, &netns).map(|()| true)
            }
            Err(_) if tenancy == Tenancy::Ends => Ok(false),
            Err(error) => Err(Error::context(error, NETNS)),
        },
    }
}

/// Puts one JSON string for another.
fn replace(text: &[u8], from: &str, to: &str) -> Vec<u8> {
    let (Ok(text), false) = (str::from_utf8(text), from.is_empty()) else { return text.to_vec() };
    let quote = |text: &str| serde_json::Value::from(text).to_string();
    text.replace(&quote(from), &quote(to)).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_strings_are_replaced() {
        let shown = Shown::new("/run/netns/a", &["container", "eth0"]);
        assert_eq!(shown.name.len(), 28);
        let text = r#"{"sandbox":"/run/netns/a","other":"/run/netns/ab"}"#;
        let inside = shown.inwards(text.as_bytes());
        let expected =
            format!(r#"{{"sandbox":"{INSIDE}/{}","other":"/run/netns/ab"}}"#, shown.name);
        assert_eq!(String::from_utf8(inside.clone()).unwrap(), expected);
        assert_eq!(shown.outwards(&inside), text.as_bytes());
        assert_ne!(Shown::new("/run/netns/a", &["container", "eth1"]).name, shown.name);
        let none = Shown::new("", &["x"]);
        assert_eq!(none.inwards(b"\"\""), b"\"\"");
        assert_eq!(shown.inwards(b"\xff"), b"\xff");
    }
}
