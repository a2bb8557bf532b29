//! The firewall that published ports obey, as the operator chose it: one file beside the book, and the table
//! `inet spoke_follow` that is made of it and of the firewall's rules.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use config::Config;
use engine::port::{Prefix, Record, Store};
use linux::Linux;
use linux::follow::{self, Followed, Judgement, State};
use model::{Attachment, AttachmentId, Error, IfName, Layer, LinkKind, Result};
use netlink::Socket;
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};
use store::{Embedded, Roots};

/// Below the durable directory.
const NAME: &str = "firewall.json";
const LOCK: &str = "firewall.lock";
/// The rules of a large host are far below that.
const LONGEST: u64 = 64 << 20;
/// Files that are being written are read again after this.
const AGAIN: Duration = Duration::from_millis(50);
/// Files that are incomplete for so long are not being written, and a ufw that is off for so long is not being
/// reloaded.
const TIMEOUT: Duration = Duration::from_secs(3);

/// What the file says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FollowRecord {
    /// Which firewall.
    pub follow: Followed,
    /// What it did when it could last be read; only of one that keeps its rules nowhere else.
    pub last: Option<Judgement>,
}

/// The choice of this host.
pub struct Follow {
    directory: PathBuf,
    root: PathBuf,
    /// Where the book is, which says behind which interfaces ports are published.
    book: Option<Roots>,
}

impl Follow {
    /// In the durable directory `state`; the firewall's files are below `root`.
    pub fn new(state: &Path, root: &Path) -> Self {
        Self { directory: state.to_owned(), root: root.to_owned(), book: None }
    }

    /// With the book in these directories.
    pub fn with_book(self, runtime: &Path, state: &Path) -> Self {
        let book = Some(Roots { runtime: runtime.to_owned(), state: state.to_owned() });
        Self { book, ..self }
    }

    /// That of this host.
    pub(crate) fn of(config: &Config) -> Self {
        let (runtime, state) = (&config.store.runtime, &config.store.state);
        Self::new(state, Path::new("/")).with_book(runtime, state)
    }

    /// The root of the file system.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The file.
    pub fn path(&self) -> PathBuf {
        self.directory.join(NAME)
    }

    /// What was chosen; `None`: nothing is followed.
    ///
    /// # Errors
    /// Where the file cannot be read.
    pub fn kept(&self) -> Result<Option<FollowRecord>> {
        let path = self.path();
        let doing = || format!("reading {}; choose again: spoke firewall follow", path.display());
        let bytes = match file::read(&path, LONGEST) {
            Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(None),
            bytes => bytes.map_err(|cause| file::failed(doing(), cause))?,
        };
        serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|cause| Error::invalid(cause.to_string()).context(doing()))
    }

    /// Chooses, and makes the kernel do it.
    ///
    /// # Errors
    /// Where the file cannot be written, or the kernel refuses. What was chosen is done later then.
    pub fn choose(&self, followed: Option<Followed>) -> Result<Option<Judgement>> {
        let _lock = self.lock()?;
        match followed {
            Some(follow) => {
                self.write(&self.chosen(follow))?;
                self.sync()?;
            }
            None => match fs::remove_file(self.path()) {
                Err(cause) if cause.kind() != ErrorKind::NotFound => {
                    let doing = format!("removing {}", self.path().display());
                    return Err(file::failed(doing, cause));
                }
                _ => {}
            },
        }
        self.refresh_locked()
    }

    /// What it did last is kept, where it was chosen before: it may be away now.
    fn chosen(&self, follow: Followed) -> FollowRecord {
        let before = self.kept().ok().flatten().filter(|kept| kept.follow == follow);
        FollowRecord { follow, last: before.and_then(|kept| kept.last) }
    }

    fn write(&self, kept: &FollowRecord) -> Result<()> {
        let bytes = serde_json::to_vec(kept)
            .map_err(|cause| Error::bug(format!("writing {}: {cause}", self.path().display())))?;
        let draft = self.directory.join(format!("{NAME}.new"));
        file::replace(&self.path(), &draft, &bytes)
            .map_err(|cause| file::failed(format!("writing {}", self.path().display()), cause))
    }

    /// Lets the choice outlive a power cut.
    fn sync(&self) -> Result<()> {
        for path in [self.path(), self.directory.clone()] {
            File::open(&path)
                .and_then(|file| file.sync_all())
                .map_err(|cause| file::failed(format!("writing {}", path.display()), cause))?;
        }
        Ok(())
    }

    /// Of several processes one works at a time.
    pub fn lock(&self) -> Result<File> {
        let path = self.directory.join(LOCK);
        let doing = |cause| file::failed(format!("locking {}", path.display()), cause);
        fs::create_dir_all(&self.directory).map_err(doing)?;
        let mut options = OpenOptions::new();
        let lock = options.write(true).create(true).mode(0o600).open(&path).map_err(doing)?;
        file::lock(&lock, FlockOperation::LockExclusive).map_err(doing)?;
        Ok(lock)
    }

    /// Reads the firewall again, and makes the kernel do the same. What holds; `None` where nothing is
    /// followed.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn refresh(&self) -> Result<Option<Judgement>> {
        let mut socket = Socket::netfilter()?;
        let is_none = !follow::is_loaded(&mut socket)? && !follow::is_shut(&mut socket)?;
        if !self.path().exists() && is_none {
            return Ok(None);
        }
        let _lock = self.lock()?;
        self.refresh_locked()
    }

    fn refresh_locked(&self) -> Result<Option<Judgement>> {
        let mut socket = Socket::netfilter()?;
        let judgement = match self.kept() {
            Ok(None) => {
                follow::unload(&mut socket)?;
                follow::open(&mut socket)?;
                return Ok(None);
            }
            Ok(Some(kept)) => self.judgement(&kept, &mut socket)?,
            // Which one is not known: everything stays shut until that is chosen again.
            Err(error) => Judgement::unknown(Followed::Ufw, error.to_string()),
        };
        if !follow::is_kept(&mut socket, &judgement)? {
            follow::keep(&mut socket, &judgement, &self.behind(None)?)?;
        }
        Ok(Some(judgement))
    }

    /// Whether published ports are withdrawn, of this process or of one before it.
    ///
    /// # Errors
    /// Where the kernel cannot be asked.
    pub fn is_withdrawn(&self) -> Result<bool> {
        follow::is_shut(&mut Socket::netfilter()?)
    }

    /// Withdraws published ports, as long as the table is contested, or brings them back behind it: where a
    /// firewall is followed and its table is not there, they stay as they are.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn withdraw(&self, withdraws: bool) -> Result<()> {
        let mut socket = Socket::netfilter()?;
        // Checked under the lock: what is followed no more withdraws nothing.
        let _lock = if withdraws { Some(self.lock()?) } else { None };
        match (withdraws, self.path().exists()) {
            (true, true) if follow::is_shut(&mut socket)? => Ok(()),
            (true, true) => follow::shut(&mut socket, &self.behind(None)?),
            (false, true) if !follow::is_loaded(&mut socket)? => Ok(()),
            (_, _) => follow::open(&mut socket),
        }
    }

    /// What the firewall does now or, where it is away, did last.
    fn judgement(&self, kept: &FollowRecord, socket: &mut Socket) -> Result<Judgement> {
        if kept.follow == Followed::Ufw {
            return self.written(kept.follow, socket);
        }
        let now = follow::read(kept.follow, &self.root, socket)?;
        match (&now.state, &kept.last) {
            (State::Unknown(_), Some(last)) => Ok(last.clone()),
            (State::Unknown(_), None) => Ok(now),
            (_, Some(last)) if *last == now => Ok(now),
            _ => {
                self.write(&FollowRecord { follow: kept.follow, last: Some(now.clone()) })?;
                Ok(now)
            }
        }
    }

    /// Whether a firewall is followed, and its table is not there.
    ///
    /// # Errors
    /// Where the kernel cannot be asked.
    pub fn is_lost(&self) -> Result<bool> {
        Ok(self.path().exists() && !follow::is_loaded(&mut Socket::netfilter()?)?)
    }

    /// What files say. While they are being written, or ufw is being reloaded, the table stays as it is;
    /// without a table everything is refused at once.
    fn written(&self, followed: Followed, socket: &mut Socket) -> Result<Judgement> {
        let now = settled(TIMEOUT, || {
            let now = follow::read(followed, &self.root, socket)?;
            let is_settled = matches!(now.state, State::On)
                || !follow::is_loaded(socket)?
                || follow::is_kept(socket, &now)?;
            Ok((now, is_settled))
        })?;
        match now.state {
            State::Off if follow::refuses_input(socket)? => {
                let why = "ufw is off by its files, but the kernel still refuses what comes to this host: \
                           a start or stop of ufw has failed; ufw enable, or ufw disable";
                Ok(Judgement::unknown(followed, why.to_owned()))
            }
            State::On | State::Off | State::Unknown(_) => Ok(now),
        }
    }

    /// Before a port is opened: makes the table, where a firewall is followed and its table is not there.
    ///
    /// # Errors
    /// As [`Follow::refresh`]; then no port may be opened.
    pub(crate) fn ensure(&self, attachment: &Attachment) -> Result<()> {
        if is_published(attachment) { self.ensure_any() } else { Ok(()) }
    }

    /// The same for any port.
    ///
    /// # Errors
    /// As [`Follow::ensure`].
    pub(crate) fn ensure_any(&self) -> Result<()> {
        if self.is_lost()? { self.refresh().map(drop) } else { Ok(()) }
    }

    /// The interfaces behind which containers of the book publish ports, but for one layer of it.
    fn behind(&self, but: Option<(&AttachmentId, Layer)>) -> Result<BTreeSet<IfName>> {
        let Some(roots) = &self.book else { return Ok(BTreeSet::new()) };
        let store = Embedded::open(roots.clone(), &store::boot_id()?)?;
        let mut all = BTreeSet::new();
        for (_, versioned) in store.list(&Prefix::Attachments)? {
            let Record::Attachment(record) = versioned.record else { continue };
            if is_published(&record) && but != Some((&record.id, record.layer)) {
                all.extend(Linux::judged_behind(&led_to(&record))?);
            }
        }
        Ok(all)
    }

    /// Before a port is opened, and after it, when there is a way to the container: judges what goes out by the
    /// container's interface too.
    ///
    /// # Errors
    /// Where the process may not change it.
    pub(crate) fn opened(&self, attachment: &Attachment, linux: &Linux) -> Result<()> {
        match self.judges(attachment) {
            true => linux.follow_behind(&led_to(attachment)),
            false => Ok(()),
        }
    }

    /// Detaches by this work: its container's interface, too, is none that is judged any more.
    ///
    /// # Errors
    /// Of the work, or where the process may not change the table.
    pub(crate) fn closed(
        &self,
        attachment: &Attachment,
        linux: &Linux,
        work: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        if !self.judges(attachment) {
            return work();
        }
        let but = Some((&attachment.id, attachment.layer));
        let is_needed = |interface: &IfName| Ok(self.behind(but)?.contains(interface));
        linux.leave_behind(&led_to(attachment), &is_needed, work)
    }

    fn judges(&self, attachment: &Attachment) -> bool {
        is_published(attachment) && self.path().exists()
    }
}

/// What the first look finds that is settled, or that comes after so long.
fn settled<T>(timeout: Duration, mut look: impl FnMut() -> Result<(T, bool)>) -> Result<T> {
    let began = Instant::now();
    loop {
        let (found, is_settled) = look()?;
        if is_settled || began.elapsed() >= timeout {
            return Ok(found);
        }
        thread::sleep(AGAIN);
    }
}

fn is_published(attachment: &Attachment) -> bool {
    attachment.wiring.publish.as_ref().is_some_and(|publish| !publish.ports.is_empty())
}

/// The attachment as the way to it is found: where a third party made the link, by the host's routes.
fn led_to(attachment: &Attachment) -> Cow<'_, Attachment> {
    match attachment.wiring.link.as_ref().map(|link| &link.kind) {
        Some(LinkKind::Chain(_) | LinkKind::Remote(_)) => Cow::Owned(attachment.without_link()),
        Some(_) | None => Cow::Borrowed(attachment),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chosen_again_keeps_what_it_did_last() {
        let state = tempfile::tempdir().unwrap();
        let follow = Follow::new(state.path(), Path::new("/nonexistent"));
        let last = Some(Judgement::unknown(Followed::Firewalld, "a test".to_owned()));
        let kept = FollowRecord { follow: Followed::Firewalld, last };
        follow.write(&kept).unwrap();
        assert_eq!(follow.chosen(Followed::Firewalld), kept);
        assert_eq!(
            follow.chosen(Followed::Ufw),
            FollowRecord { follow: Followed::Ufw, last: None }
        );
        std::fs::write(follow.path(), "{").unwrap();
        assert_eq!(follow.chosen(Followed::Firewalld).last, None);
    }

    #[test]
    fn what_is_being_written_is_read_again() {
        let looks = |timeout: Duration| {
            let mut count = 0;
            settled(timeout, || {
                count += 1;
                Ok((count, count == 3))
            })
        };
        assert_eq!((looks(Duration::MAX).unwrap(), looks(Duration::ZERO).unwrap()), (3, 1));
        let failed = settled::<()>(Duration::MAX, || Err(Error::try_again("busy")));
        assert!(failed.is_err());
    }
}
