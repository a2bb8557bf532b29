//! Which plugins are installed, and where they serve (moby `pkg/plugins/discovery.go`).

use std::collections::BTreeSet;
use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use model::{DriverName, Error, Result};
use serde_json::Value;

use super::address::{Address, Trust, TrustFiles, Url};
use super::calls::Life;
use libnetwork::{Refusal, object::Object};

/// The longest description that is read, in bytes.
const LONGEST: u64 = 64 << 10;
/// More plugins are on no host.
const MOST: usize = 4096;

/// The directories in which plugins are searched, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginDirectories {
    /// For `NAME.sock` and `NAME/NAME.sock`: Docker's is `/run/docker/plugins`.
    pub sockets: Vec<PathBuf>,
    /// For `NAME.spec`, `NAME/NAME.spec`, `NAME.json` and `NAME/NAME.json`: Docker's are
    /// `/etc/docker/plugins` and `/usr/lib/docker/plugins`.
    pub descriptions: Vec<PathBuf>,
}

/// A plugin that is installed.
#[derive(Clone, Debug)]
pub struct Installed {
    /// Its socket, or the file that describes it.
    pub place: PathBuf,
    /// Where it serves.
    pub address: Address,
    /// Warnings for an administrator: for example that the certificate is not checked.
    pub warnings: Vec<String>,
    /// The files that all this was read from, as they were.
    seen: Vec<(PathBuf, Stamp)>,
}

/// A file's identity and state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    changed: (i64, i64),
    length: u64,
}

impl Stamp {
    fn of(file: &Metadata) -> Self {
        Self {
            device: file.dev(),
            inode: file.ino(),
            changed: (file.ctime(), file.ctime_nsec()),
            length: file.len(),
        }
    }

    fn at(path: &Path) -> Option<Self> {
        fs::metadata(path).ok().map(|file| Self::of(&file))
    }
}

impl PluginDirectories {
    /// Finds a plugin. [`model::Kind::NotFound`], with the searched places, if it is not installed.
    /// The first file that describes it counts, even if it is unusable.
    ///
    /// The earlier result is used again where no file has changed.
    pub fn find(&self, name: &DriverName, before: Option<&Installed>) -> Result<Installed> {
        let candidates = self.candidates(name);
        for place in &candidates {
            match fs::metadata(place) {
                Ok(file) if is_candidate(place, &file) => {
                    let is_same = |before: &&Installed| before.place == *place && before.is_same();
                    if let Some(before) = before.filter(is_same) {
                        return Ok(before.clone());
                    }
                    return Installed::read(place.clone(), &file)
                        .map_err(|error| error.context(format!("plugin {name}")));
                }
                Ok(_) => {}
                Err(error) if is_missing(error.kind()) => {}
                Err(error) => {
                    let what = format!("plugin {name}: looking at {}", place.display());
                    return Err(Error::os(what, error));
                }
            }
        }
        let places: Vec<_> = candidates.iter().map(|place| place.display().to_string()).collect();
        let places = places.join(", ");
        Err(Error::not_found(format!("plugin {name} is not installed: there is none of {places}")))
    }

    fn candidates(&self, name: &DriverName) -> Vec<PathBuf> {
        let of = |folder: &Path, kind: &str| {
            let file = format!("{name}.{kind}");
            [folder.join(&file), folder.join(name.as_str()).join(file)]
        };
        let sockets = self.sockets.iter().flat_map(|folder| of(folder, "sock"));
        let described = |folder: &PathBuf| ["spec", "json"].map(|kind| of(folder, kind));
        let described = self.descriptions.iter().flat_map(described).flatten();
        sockets.chain(described).collect()
    }

    /// Every plugin that is installed, whatever it is good for.
    pub fn names(&self) -> BTreeSet<DriverName> {
        let sockets = self.sockets.iter().map(|folder| (folder, &["sock"][..]));
        let described = self.descriptions.iter().map(|folder| (folder, &["spec", "json"][..]));
        let mut names = BTreeSet::new();
        for (folder, kinds) in sockets.chain(described) {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten().take(MOST);
            names.extend(entries.filter_map(|entry| named(&entry.path(), kinds)));
        }
        names
    }
}

/// The name of the plugin that has a file or a folder in a directory of plugins.
fn named(path: &Path, kinds: &[&str]) -> Option<DriverName> {
    let is_there = |path: &Path| fs::metadata(path).is_ok_and(|file| is_candidate(path, &file));
    if path.is_dir() {
        let name = path.file_name()?.to_str()?;
        let own = |kind: &&str| is_there(&path.join(format!("{name}.{kind}")));
        return kinds.iter().any(own).then(|| name.parse().ok()).flatten();
    }
    let kind = path.extension()?.to_str()?;
    let is_one = kinds.contains(&kind) && is_there(path);
    is_one.then(|| path.file_stem()?.to_str()?.parse().ok()).flatten()
}

fn is_socket(place: &Path) -> bool {
    place.extension().is_some_and(|kind| kind == "sock")
}

fn is_candidate(place: &Path, file: &Metadata) -> bool {
    if is_socket(place) { file.file_type().is_socket() } else { file.is_file() }
}

fn is_missing(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::NotFound | ErrorKind::NotADirectory)
}

impl Installed {
    fn read(place: PathBuf, file: &Metadata) -> Result<Self> {
        let seen = vec![(place.clone(), Stamp::of(file))];
        let address = Address::Unix(place.clone());
        let mut this = Self { place, address, warnings: Vec::new(), seen };
        if is_socket(&this.place) {
            return Ok(this);
        }
        let at = this.place.display().to_string();
        this.describe().map_err(|error| error.context(at))?;
        // Each life of a plugin makes its socket again, also one that a description names.
        if let Address::Unix(socket) = &this.address
            && let Some(stamp) = Stamp::at(socket)
        {
            this.seen.push((socket.clone(), stamp));
        }
        Ok(this)
    }

    fn describe(&mut self) -> Result<()> {
        let failed = |error| file::failed("reading the plugin's description", error);
        let text = file::text(&self.place, LONGEST).map_err(failed)?;
        if self.place.extension().is_some_and(|kind| kind == "spec") {
            return self.lead_to(Url::read(&text)?, None);
        }
        let described: Value = serde_json::from_str(&text)
            .map_err(|error| Error::invalid("the description is no JSON").because(error))?;
        let (url, files) = described_as(&described).map_err(|refusal| match refusal {
            Refusal::Syntax(what) => Error::invalid(what),
            Refusal::Value(error) => error,
        })?;
        self.lead_to(url, files)
    }

    fn lead_to(&mut self, url: Url, files: Option<TrustFiles>) -> Result<()> {
        self.address = match url {
            Url::Secure(host) => {
                let files = files.map(|files| self.warned(files));
                let trust = Trust::read(&host, files.as_ref())?;
                Address::Tls(host, trust)
            }
            Url::Unix(path) => Address::Unix(path),
            Url::Plain(host) => {
                if files.is_some() {
                    self.warn("TLSConfig is passed over, as Addr is not https://");
                }
                Address::Tcp(host)
            }
        };
        Ok(())
    }

    /// Docker's rule: a description without an authority trusts every server.
    fn warned(&mut self, mut files: TrustFiles) -> TrustFiles {
        if files.authorities.is_none() && !files.trusts_all {
            files.trusts_all = true;
            self.warn("TLSConfig names no CAFile: anybody could answer in the plugin's place");
        } else if files.trusts_all {
            self.warn("InsecureSkipVerify is set: anybody could answer in the plugin's place");
        }
        let paths = [&files.authorities, &files.certificate, &files.key];
        let stamps = paths.into_iter().flatten().filter_map(|p| Some((p.clone(), Stamp::at(p)?)));
        self.seen.extend(stamps.collect::<Vec<_>>());
        files
    }

    fn warn(&mut self, what: &str) {
        self.warnings.push(format!("{}: {what}", self.place.display()));
    }

    /// Nothing has changed since it was found.
    fn is_same(&self) -> bool {
        self.seen.iter().all(|(path, stamp)| Stamp::at(path) == Some(*stamp))
    }

    /// Which life of the plugin serves there: its socket's, or its description's.
    pub fn life(&self) -> Life {
        let stamp = match &self.address {
            Address::Unix(_) => self.seen.last(),
            Address::Tcp(_) | Address::Tls(..) => self.seen.first(),
        };
        let shown = |stamp: &Stamp| {
            let Stamp { device, inode, changed: (seconds, nanos), length } = stamp;
            format!("{device:x}.{inode:x}.{seconds:x}.{nanos:x}.{length:x}")
        };
        Life(stamp.map(|(_, stamp)| shown(stamp)).unwrap_or_default())
    }
}

fn described_as(value: &Value) -> Result<(Url, Option<TrustFiles>), Refusal> {
    let object = Object::root(value)?;
    let url = object.text("Addr")?.ok_or_else(|| Error::invalid("Addr is missing"))?;
    let tls = object.object("TLSConfig")?;
    let path = |key| Ok::<_, Refusal>(tls.text(key)?.map(PathBuf::from));
    let files = TrustFiles {
        trusts_all: tls.flag("InsecureSkipVerify")?.unwrap_or(false),
        authorities: path("CAFile")?,
        certificate: path("CertFile")?,
        key: path("KeyFile")?,
    };
    Ok((Url::read(url)?, tls.is_present().then_some(files)))
}
