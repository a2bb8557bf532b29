//! An image's file, and what must be right about it.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use model::{Error, Kind, Result};

use super::trust::Trust;
use crate::aci::{self, Manifest, Unpacked};
use crate::{AppName, Digest, Limits, Locator};

/// A signed image is checked as a whole in memory: more than this it may not be, in bytes.
const LONGEST_SIGNED: u64 = 256 << 20;

/// An App Container image's file that is here now.
pub(super) struct Received<'a> {
    pub(super) file: File,
    /// The name that its manifest must have.
    pub(super) name: Option<&'a AppName>,
    /// Gets its detached signature.
    pub(super) signature: &'a dyn Fn() -> Result<Vec<u8>>,
}

impl Received<'_> {
    /// Unpacks it into `directory`, and checks the required signatures; returns the signers.
    pub(super) fn unpack(
        mut self,
        locator: &Locator,
        directory: &Path,
        limits: &Limits,
        trust: &Trust,
    ) -> Result<(Unpacked, BTreeSet<String>)> {
        let pin = locator.pin().map(Digest::algorithm);
        let mut signers = BTreeSet::new();
        if !trust.is_needed() {
            return Ok((aci::unpack(&mut self.file, directory, limits, pin)?, signers));
        }
        let mut bytes = whole(&mut self.file)?;
        let mut check = |name: &str, bytes: &mut Vec<u8>| {
            if trust.is_needed_for(name) {
                signers.extend(trust.verify(name, &signed(self.signature)?, bytes)?);
            }
            Ok(())
        };
        check(&locator.subject(), &mut bytes)?;
        let unpacked = aci::unpack(&mut bytes.as_slice(), directory, limits, pin)?;
        check(&unpacked.manifest.name, &mut bytes)?;
        Ok((unpacked, signers))
    }
}

/// Opens an image's file, without waiting for a writer.
pub(super) fn open(path: &Path) -> Result<File> {
    file::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Error::not_found(format!("{} is not there", path.display())),
        _ => file::failed(format!("opening {}", path.display()), error),
    })
}

/// All of a file whose signature is to be checked.
fn whole(file: &mut File) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = file.take(LONGEST_SIGNED + 1).read_to_end(&mut bytes);
    read.map_err(|error| Error::os("reading it", error))?;
    match bytes.len() as u64 > LONGEST_SIGNED {
        true => Err(Error::invalid(format!("a signed image has {LONGEST_SIGNED} bytes at most"))),
        false => Ok(bytes),
    }
}

fn signed(signature: &dyn Fn() -> Result<Vec<u8>>) -> Result<Vec<u8>> {
    signature().map_err(|error| match error.kind() {
        Kind::NotFound => Error::new(
            Kind::Denied,
            "keys are configured for it, but it is not signed: its .asc file is missing",
        )
        .because(error),
        _ => error.context("its signature"),
    })
}

/// An image that was found under a name must have it ("Validation" of discovered images).
pub(super) fn check_name(wanted: Option<&AppName>, manifest: &Manifest) -> Result<()> {
    let Some(wanted) = wanted else { return Ok(()) };
    let differs = |(key, value): &(&String, &String)| {
        manifest.labels.get(*key).is_some_and(|given| given != *value)
    };
    if wanted.name() != manifest.name {
        let (wanted, found) = (wanted.name(), &manifest.name);
        return Err(denied(&format!("{wanted} was asked for, but the image is {found}")));
    }
    match wanted.labels().iter().find(differs) {
        Some((key, value)) => {
            let found = &manifest.labels[key];
            Err(denied(&format!("{key} {value} was asked for, but the image has {key} {found}")))
        }
        None => Ok(()),
    }
}

pub(super) fn mismatch(found: &str) -> Error {
    denied(&format!("it is not the image that is pinned, but {found}"))
}

fn denied(why: &str) -> Error {
    Error::new(Kind::Denied, why)
}
