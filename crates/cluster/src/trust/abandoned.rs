//! Which authorities were given up before they signed anything: who has the record of such a change could write it into etcd
//! once more.

use model::Result;

use super::files::Files;
use super::rotation::{AuthorityRecord, Successor};
use super::trusted::Trusted;

/// So many are remembered, the latest ones: each is of a change that an operator began.
const MOST: usize = 64;
/// SHA-256 in hexadecimal digits.
const DIGEST: usize = 64;
const FILE: &str = "abandoned";
/// Those that this host has ceased to trust, and other hosts perhaps not.
const UNSETTLED: &str = "abandoning";

/// Authorities that are never followed, by their digests; those that were given up last are at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Abandoned(Vec<String>);

impl Abandoned {
    /// Whether an authority is one of them.
    pub fn has(&self, next: &Successor) -> bool {
        self.0.iter().any(|known| known == next.digest())
    }

    /// Their digests.
    pub fn digests(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    fn with(mut self, digest: &str) -> Self {
        if !self.0.iter().any(|known| known == digest) {
            self.0.push(digest.to_owned());
        }
        // The first ones go where they are too many.
        Self::read(&self.text())
    }

    fn read(text: &str) -> Self {
        let is_digest =
            |line: &&str| line.len() == DIGEST && line.bytes().all(|it| it.is_ascii_hexdigit());
        let all: Vec<String> = text.lines().filter(is_digest).map(str::to_owned).collect();
        Self(all[all.len().saturating_sub(MOST)..].to_vec())
    }

    fn text(&self) -> String {
        self.0.iter().map(|digest| format!("{digest}\n")).collect()
    }
}

impl Files {
    /// The authorities that this host never follows.
    ///
    /// # Errors
    /// Where the file cannot be read.
    pub fn abandoned(&self) -> Result<Abandoned> {
        Ok(Abandoned::read(&self.text(FILE)?.unwrap_or_default()))
    }

    /// The authorities that etcd has said were given up, before it was known that no host has a certificate of them.
    ///
    /// # Errors
    /// Where the file cannot be read.
    pub fn abandoning(&self) -> Result<Abandoned> {
        Ok(Abandoned::read(&self.text(UNSETTLED)?.unwrap_or_default()))
    }

    /// Remembers that etcd has said so of this one.
    ///
    /// # Errors
    /// Where that cannot be written.
    pub fn begin_abandoning(&self, next: &Successor) -> Result<()> {
        let all = self.abandoning()?;
        match all.has(next) || self.abandoned()?.has(next) {
            true => Ok(()),
            false => self.write(UNSETTLED, &all.with(next.digest()).text()),
        }
    }

    /// Never follows this one any more.
    ///
    /// # Errors
    /// Where that cannot be written.
    pub fn abandon(&self, digest: &str) -> Result<()> {
        self.write(FILE, &self.abandoned()?.with(digest).text())?;
        let mut others = self.abandoning()?;
        others.0.retain(|known| known != digest);
        self.write(UNSETTLED, &others.text())
    }
}

impl AuthorityRecord {
    /// Refuses to follow an authority that none of the trusted ones has signed, or that was given up before. A member can
    /// write such a record, and etcd that was restored from a backup can have one.
    ///
    /// # Errors
    /// `Denied`, with what to do.
    pub fn refuse_unfit(&self, trusted: &Trusted, abandoned: &Abandoned) -> Result<()> {
        // Also where the latest one is named again: no host goes back to the one before.
        let is_latest = || trusted.digests().last().is_some_and(|last| last == self.next.digest());
        let why = match () {
            () if abandoned.has(&self.next) => "was given up before",
            () if !is_latest() && !trusted.endorses(&self.next) => {
                "is not one that this host's authority has signed"
            }
            () => return Ok(()),
        };
        let what = match self.phase.is_going_on() {
            true => {
                "`spoke host ca abandon` ends that change, and `spoke host ca rotate` begins another one"
            }
            false => "`spoke host ca rotate` begins another change, whose record takes its place",
        };
        Err(model::Error::new(
            model::Kind::Denied,
            format!("the authority that etcd names {why}, and is not used; {what}"),
        ))
    }
}

#[cfg(test)]
mod tests {
    use model::Timestamp;

    use super::*;
    use crate::trust::Authority;

    #[test]
    fn only_so_many_are_remembered_and_what_is_none_is_left_out() {
        let digest = |number: usize| format!("{number:064x}");
        let text: String = (0..=MOST).map(|number| digest(number) + "\n").collect();
        let read = Abandoned::read(&format!("{text}xyz\n\n"));
        assert_eq!((read.0.len(), read.0.last()), (MOST, Some(&digest(MOST))));
        assert_eq!(read.0[0], digest(1));
    }

    #[test]
    fn what_was_given_up_is_remembered_on_disk() {
        let directory = tempfile::tempdir().unwrap();
        let files = Files::below(directory.path());
        let authority = || Authority::new(Timestamp(1)).unwrap();
        let (one, two, three) = (authority(), authority(), authority());
        let [two, three] = [&two, &three].map(|next| one.endorse(next).unwrap());
        for _ in 0..2 {
            [&two, &three].into_iter().for_each(|next| files.begin_abandoning(next).unwrap());
        }
        assert_eq!(files.abandoned().unwrap(), Abandoned::default());
        assert_eq!(files.abandoning().unwrap().0, [two.digest(), three.digest()]);
        for _ in 0..2 {
            files.abandon(two.digest()).unwrap();
        }
        files.begin_abandoning(&two).unwrap();
        let all = files.abandoned().unwrap();
        assert!(all.has(&two) && !all.has(&three) && all.0.len() == 1);
        assert_eq!(files.abandoning().unwrap().0, [three.digest()]);
    }
}
