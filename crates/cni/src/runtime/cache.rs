//! The results of attachments, as libcni keeps them: `<directory>/results/<network>-<id>-<ifname>`.

use std::fs::{self, DirBuilder, File};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::{ContainerId, Error, NetworkName, Result};
use rustix::fs::{FlockOperation, flock};
use serde_json::{Map, Value, json};

use super::{NetworkList, Target};
use crate::wire::{LONGEST, Object, Success, Version};

/// The kind of the files that are written; older ones are a bare result.
const KIND: &str = "cniCacheV1";

/// A file has a configuration in base64, a result, and arguments, each bounded by [`LONGEST`].
const LARGEST: u64 = 4 * LONGEST;

/// How the name of a file begins that is being written; no network's does.
const DRAFT: &str = ".";

/// A directory of results.
#[derive(Clone, Debug)]
pub struct Cache {
    results: PathBuf,
}

/// An attachment that is remembered.
#[derive(Clone, Debug, PartialEq)]
pub struct CachedAttachment {
    /// Its network.
    pub network: NetworkName,
    /// Its identity, with its plugins' parameters.
    pub target: Target,
    /// The list that it was made with.
    pub config: Vec<u8>,
    /// Its result.
    pub result: Value,
}

/// Keeps others from collecting, or from working meanwhile, until it is dropped.
pub(super) struct CacheLock {
    #[expect(dead_code, reason = "closing it gives the turn back")]
    held: Option<File>,
}

impl Cache {
    /// The cache below `directory`, which libcni has at [`super::CACHE`]. Made when it is needed.
    pub fn new(directory: &Path) -> Self {
        Self { results: directory.join("results") }
    }

    fn file(&self, network: &NetworkName, target: &Target) -> PathBuf {
        self.results.join(format!("{network}-{}-{}", target.container, target.ifname))
    }

    /// The path of an unfinished file. One that a dead process left is removed with the attachment.
    fn draft(&self, network: &NetworkName, target: &Target) -> PathBuf {
        self.results.join(format!(".{network}-{}-{}.new", target.container, target.ifname))
    }

    /// Remembers the result of an attachment, in the version that it has.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn put(&self, list: &NetworkList, target: &Target, result: &Value) -> Result<()> {
        let mut cached = Map::new();
        cached.insert("kind".into(), json!(KIND));
        cached.insert("containerId".into(), json!(target.container.as_str()));
        cached.insert("config".into(), json!(STANDARD.encode(list.text())));
        cached.insert("ifName".into(), json!(target.ifname.as_str()));
        cached.insert("networkName".into(), json!(list.name.as_str()));
        if !target.netns.is_empty() {
            cached.insert("netns".into(), json!(target.netns));
        }
        if !target.args.is_empty() {
            cached.insert("cniArgs".into(), json!(target.args));
        }
        if !target.capabilities.is_empty() {
            cached.insert("capabilityArgs".into(), Value::Object(target.capabilities.clone()));
        }
        cached.insert("result".into(), result.clone());
        let file = self.file(&list.name, target);
        let failed = |cause| Error::os(format!("writing {}", file.display()), cause);
        self.make().map_err(failed)?;
        let draft = self.draft(&list.name, target);
        let text = Value::Object(cached).to_string();
        file::replace(&file, &draft, text.as_bytes()).map_err(failed)
    }

    fn make(&self) -> std::io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.results)
    }

    /// The result of an attachment in `version`; none where none is known.
    ///
    /// # Errors
    /// Where the file holds none, or one that `version` cannot say.
    pub fn result(
        &self,
        network: &NetworkName,
        target: &Target,
        version: Version,
    ) -> Result<Option<Value>> {
        let Some(text) = self.text(network, target) else { return Ok(None) };
        let broken = |why: &dyn std::fmt::Display| {
            Error::invalid(format!(
                "failed to decode the cached result of network {network}: {why}"
            ))
        };
        let whole: Value = serde_json::from_slice(&text).map_err(|why| broken(&why))?;
        let result = match whole.get("kind").and_then(Value::as_str) {
            Some(KIND) => whole.get("result").cloned().unwrap_or_else(|| json!({})),
            _ => whole,
        };
        let object = result.as_object().ok_or_else(|| broken(&"it is not an object"))?;
        let success = Success::parse(&Object::new("result", object), Version::V010)?;
        let reported = success.render(version);
        let doing = || format!("failed to convert cached result to config version {version:?}");
        reported.map(Some).map_err(|error| error.context(doing()))
    }

    /// Whether anything is known of an attachment.
    pub fn knows(&self, network: &NetworkName, target: &Target) -> bool {
        self.text(network, target).is_some()
    }

    /// Deletes the file of an attachment; a missing one is no error.
    ///
    /// # Errors
    /// Where the file cannot be removed.
    pub fn remove(&self, network: &NetworkName, target: &Target) -> Result<()> {
        let file = self.file(network, target);
        // Mostly there is none.
        let _ = fs::remove_file(self.draft(network, target));
        if self.is_of_another(network, target) {
            return Ok(());
        }
        match fs::remove_file(&file) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(Error::os(format!("removing {}", file.display()), error))
            }
            _ => Ok(()),
        }
    }

    /// The stored attachments, of one container or of all, in the order of the files' names. Files
    /// of another format are skipped, as in libcni.
    ///
    /// # Errors
    /// Where the directory exists and cannot be read.
    pub fn attachments(&self, container: Option<&ContainerId>) -> Result<Vec<CachedAttachment>> {
        let entries = match fs::read_dir(&self.results) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => {
                return Err(Error::os(format!("reading {}", self.results.display()), error));
            }
        };
        // A process that died while writing left an unfinished file, of a result that was never
        // returned.
        let is_draft =
            |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with(DRAFT);
        let files = entries.flatten().filter(|entry| !is_draft(entry));
        let mut files: Vec<PathBuf> = files.map(|entry| entry.path()).collect();
        files.sort();
        let known = files.iter().filter_map(|file| parse(&read(file).ok()?));
        Ok(known.filter(|it| container.is_none_or(|id| it.target.container == *id)).collect())
    }

    /// The stored result of the attachment.
    pub fn recall(&self, network: &NetworkName, target: &Target) -> Option<CachedAttachment> {
        parse(&self.text(network, target)?)
    }

    /// The contents of the attachment's file, of any form.
    fn text(&self, network: &NetworkName, target: &Target) -> Option<Vec<u8>> {
        let there = read(&self.file(network, target)).ok()?;
        (!self.is_of_another(network, target)).then_some(there)
    }

    /// Whether the file is another attachment's: libcni's names do not say where one part of them
    /// ends, `a-b` and `c` is `a` and `b-c`.
    fn is_of_another(&self, network: &NetworkName, target: &Target) -> bool {
        let known = read(&self.file(network, target)).ok().and_then(|text| parse(&text));
        let is_its = |it: &CachedAttachment| {
            it.network == *network && it.target.container == target.container
        };
        known.is_some_and(|known| !is_its(&known))
    }

    /// A turn to attach or detach, as others may at the same time.
    pub(super) fn lock_shared(&self) -> CacheLock {
        self.lock(FlockOperation::LockShared)
    }

    /// An exclusive turn, for a collection.
    pub(super) fn lock_exclusive(&self) -> CacheLock {
        self.lock(FlockOperation::LockExclusive)
    }

    /// Where there is nothing to lock there is nothing to collect. libcni takes no lock: it is for
    /// ourselves.
    fn lock(&self, operation: FlockOperation) -> CacheLock {
        let held = File::open(&self.results).ok();
        let locked = held.filter(|directory| flock(directory, operation).is_ok());
        CacheLock { held: locked }
    }
}

impl CachedAttachment {
    /// The contents of a file of the kind that is written; `None` for any other.
    pub fn parse(text: &[u8]) -> Option<Self> {
        parse(text)
    }
}

/// Reads a file of the kind that is written.
fn parse(text: &[u8]) -> Option<CachedAttachment> {
    let Value::Object(cached) = serde_json::from_slice(text).ok()? else { return None };
    let object = Object::new("", &cached);
    if object.text("kind").ok()?? != KIND {
        return None;
    }
    let pairs = object.list("cniArgs").ok()?;
    let pair = |node: &crate::wire::Node<'_>| {
        let pair = node.list().ok()?;
        let [key, value] = pair.as_slice() else { return None };
        Some((key.text().ok()?.to_owned(), value.text().ok()?.to_owned()))
    };
    let capabilities = cached.get("capabilityArgs").and_then(Value::as_object);
    let target = Target {
        container: object.parse("containerId").ok()??,
        netns: match object.text("netns").ok()? {
            Some(netns) => netns.to_owned(),
            None => sandbox_in(&cached).unwrap_or_default(),
        },
        ifname: object.parse("ifName").ok()??,
        args: pairs.iter().map(pair).collect::<Option<_>>()?,
        capabilities: capabilities.cloned().unwrap_or_default(),
    };
    let config = object.text("config").ok()?.unwrap_or_default();
    Some(CachedAttachment {
        network: object.parse("networkName").ok()??,
        target,
        config: STANDARD.decode(config).ok()?,
        result: cached.get("result").cloned().unwrap_or(Value::Null),
    })
}

/// Before 1.2 libcni did not keep the namespace: the result says where the interface is.
fn sandbox_in(cached: &Map<String, Value>) -> Option<String> {
    let ifname = cached.get("ifName")?;
    let mut interfaces = cached.get("result")?.get("interfaces")?.as_array()?.iter();
    let sandbox = |it: &Value| Some(it.get("sandbox")?.as_str()?.to_owned());
    interfaces.find_map(|it| sandbox(it).filter(|_| it.get("name") == Some(ifname)))
}

fn read(file: &Path) -> std::io::Result<Vec<u8>> {
    let not_a_file = || std::io::Error::from(ErrorKind::InvalidInput);
    if !fs::symlink_metadata(file)?.is_file() {
        return Err(not_a_file());
    }
    let mut text = Vec::new();
    File::open(file)?.take(LARGEST + 1).read_to_end(&mut text)?;
    match text.len() as u64 > LARGEST {
        true => Err(not_a_file()),
        false => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const LIST: &[u8] = br#"{"name":"n","cniVersion":"1.0.0","plugins":[{"type":"x"}]}"#;

    fn target() -> Target {
        let mut target = Target::new("c".parse().unwrap(), "/n", "eth0".parse().unwrap());
        target.args = vec![("IgnoreUnknown".into(), "1".into())];
        target
    }

    #[test]
    fn what_is_kept_is_read_again_as_the_reference_keeps_it() {
        let root = tempfile::tempdir().unwrap();
        let cache = Cache::new(root.path());
        let list = NetworkList::parse(LIST).unwrap();
        assert!(cache.attachments(None).unwrap().is_empty());
        let result = json!({"cniVersion": "1.0.0", "ips": [{"address": "10.0.0.2/24"}]});
        cache.put(&list, &target(), &result).unwrap();
        let file = root.path().join("results/n-c-eth0");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let reported: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        assert_eq!(reported["config"], json!(STANDARD.encode(LIST)));
        assert_eq!(reported["cniArgs"], json!([["IgnoreUnknown", "1"]]));
        assert!(reported.get("capabilityArgs").is_none());
        let known = cache.attachments(Some(&"c".parse().unwrap())).unwrap();
        assert_eq!(known[0].target, target());
        assert_eq!((known[0].config.as_slice(), &known[0].result), (LIST, &result));
        assert!(cache.attachments(Some(&"d".parse().unwrap())).unwrap().is_empty());
        fs::copy(&file, root.path().join("results/.1.ThreadId(1)")).unwrap();
        assert_eq!(cache.attachments(None).unwrap().len(), 1, "a draft is none");
        let old = cache.result(&list.name, &target(), Version::V040).unwrap().unwrap();
        assert_eq!(old["ips"][0]["version"], json!("4"));
        cache.remove(&list.name, &target()).unwrap();
        cache.remove(&list.name, &target()).unwrap();
        assert_eq!(cache.result(&list.name, &target(), Version::V040).unwrap(), None);
    }

    #[test]
    fn a_bare_result_is_one_and_anything_else_is_none() {
        let root = tempfile::tempdir().unwrap();
        let cache = Cache::new(root.path());
        let name: NetworkName = "n".parse().unwrap();
        fs::create_dir(root.path().join("results")).unwrap();
        let put = |text: &str| fs::write(root.path().join("results/n-c-eth0"), text).unwrap();
        put(r#"{"cniVersion":"0.2.0","ip4":{"ip":"10.0.0.2/24"},"dns":{}}"#);
        let result = cache.result(&name, &target(), Version::V100).unwrap().unwrap();
        assert_eq!(result["ips"][0]["address"], json!("10.0.0.2/24"));
        assert!(cache.attachments(None).unwrap().is_empty());
        for bad in ["", "{", "[]", r#"{"cniVersion":"7"}"#] {
            put(bad);
            assert!(cache.result(&name, &target(), Version::V100).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_file_of_the_same_name_is_another_attachments() {
        let root = tempfile::tempdir().unwrap();
        let cache = Cache::new(root.path());
        let list = NetworkList::parse(LIST).unwrap();
        let named = |container: &str| Target { container: container.parse().unwrap(), ..target() };
        let (its, other) = (named("b-c"), named("c"));
        cache.put(&list, &its, &json!({"cniVersion": "1.0.0"})).unwrap();
        let network: NetworkName = "n-b".parse().unwrap();
        assert!(cache.knows(&list.name, &its) && !cache.knows(&network, &other));
        assert!(cache.recall(&network, &other).is_none());
        assert_eq!(cache.result(&network, &other, Version::V100).unwrap(), None);
        cache.remove(&network, &other).unwrap();
        assert!(cache.knows(&list.name, &its));
    }
}
