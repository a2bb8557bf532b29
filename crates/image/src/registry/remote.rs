//! A repository of a registry, over HTTP (OCI distribution specification 1.1, "Pull").

use std::cell::{OnceCell, RefCell};
use std::fs::File;
use std::io::{Read, Seek};

use model::{Error, Result};

use super::{Credential, Credentials, token};
use crate::cache::Staging;
use crate::layout::Blobs;
use crate::manifest::{ACCEPTED, Descriptor, LONGEST};
use crate::transport::{Call, Reply, Transport, save};
use crate::{DOCKER_HUB, Limits, Reference, Url};

/// Where the interface of the Docker Hub is, which is not where its name says.
const HUB_INTERFACE: &str = "registry-1.docker.io";

/// A blob that breaks off is fetched so often.
const TRIES: u32 = 3;

/// A repository that is being asked.
pub(super) struct Remote<'a> {
    pub(super) transport: &'a Transport,
    pub(super) credentials: &'a Credentials,
    pub(super) reference: &'a Reference,
    pub(super) staging: &'a Staging,
    pub(super) limits: &'a Limits,
    /// Whether it uses TLS, after the first answer.
    pub(super) is_secure: OnceCell<bool>,
    /// The credential that it asked for.
    pub(super) authorization: RefCell<Option<String>>,
}

impl Remote<'_> {
    /// The manifest or index that a tag or a digest is, and as what it was given.
    pub(super) fn top(&self, version: &str) -> Result<(Vec<u8>, Option<String>)> {
        let reply = self.get(&format!("manifests/{version}"), ACCEPTED)?;
        let kind = reply.header("content-type").map(ToOwned::to_owned);
        Ok((reply.into_bytes(LONGEST)?, kind))
    }

    /// The host to ask.
    fn host(&self) -> &str {
        match self.reference.registry() {
            DOCKER_HUB => HUB_INTERFACE,
            other => other,
        }
    }

    fn url(&self, path: &str) -> Result<Url> {
        Url::new(self.is_secure()?, self.host(), path)
    }

    /// TLS, unless the host may do without and does.
    fn is_secure(&self) -> Result<bool> {
        if let Some(known) = self.is_secure.get() {
            return Ok(*known);
        }
        let host = self.host();
        let is_secure = !self.transport.may_be_plain(host)
            || self.transport.is_there(&Url::new(true, host, "/v2/")?);
        Ok(*self.is_secure.get_or_init(|| is_secure))
    }

    fn get(&self, path: &str, accept: &str) -> Result<Reply> {
        let url = self.url(&format!("/v2/{}/{path}", self.reference.repository()))?;
        let ask = || {
            let authorization = self.authorization.borrow().clone();
            let authorization = authorization.as_deref();
            self.transport.call(&Call { accept, authorization, ..Call::get(&url) })
        };
        let mut reply = ask()?;
        if reply.status() == 401 && reply.is_own() {
            let credential = self.credentials.of(self.reference)?;
            let reported = self.authorize(&url, &reply, credential.as_ref())?;
            *self.authorization.borrow_mut() = Some(reported);
            reply = ask()?;
        }
        match reply.status() {
            200 => Ok(reply),
            401 | 403 if reply.is_own() => Err(self.denied(reply)?),
            _ => Err(reply.refused()),
        }
    }

    fn authorize(&self, url: &Url, reply: &Reply, who: Option<&Credential>) -> Result<String> {
        let challenges = reply.headers("www-authenticate").collect::<Vec<_>>().join(", ");
        let scope = format!("repository:{}:pull", self.reference.repository());
        token::authorization(
            self.transport,
            &token::AuthenticationRequest { url, challenges: &challenges, scope },
            who,
        )
        .map_err(|error| error.context(format!("asking {} for a token", self.host())))
    }

    fn denied(&self, reply: Reply) -> Result<Error> {
        let has_name = self.credentials.of(self.reference)?.is_some();
        let error = reply.refused();
        Ok(match has_name {
            true => error.context(format!("{} does not let us", self.host())),
            false => error.context(format!(
                "{} wants to know who asks, or has no such image (podman login --authfile FILE, and \
                 name FILE as auth)",
                self.host()
            )),
        })
    }

    /// Fetches a blob into a file.
    fn fetch(&self, blob: &Descriptor) -> Result<File> {
        if blob.size > self.limits.compressed {
            let (size, most) = (blob.size, self.limits.compressed);
            return Err(Error::invalid(format!(
                "{} has {size} bytes; {most} are allowed",
                blob.digest
            )));
        }
        let (_, mut file) = self.staging.file()?;
        let mut tries = 1;
        loop {
            let reply = self.get(&format!("blobs/{}", blob.digest), "*/*")?;
            // One byte more, so that what is too long isn't taken for what it should be.
            match save(&mut reply.into_reader(u64::MAX).take(blob.size + 1), &mut file)? {
                Ok(count) if count >= blob.size => break,
                Ok(_) | Err(_) if tries < TRIES => tries += 1,
                Ok(count) => {
                    let (digest, size) = (&blob.digest, blob.size);
                    return Err(Error::try_again(format!(
                        "{digest} breaks off after {count} of {size} bytes"
                    )));
                }
                Err(error) => {
                    let what = format!("{} breaks off", blob.digest);
                    return Err(Error::try_again(what).because(error));
                }
            }
            file.set_len(0)
                .and_then(|()| file.rewind())
                .map_err(|error| Error::os("emptying a file", error))?;
        }
        file.rewind().map_err(|error| Error::os("reading a file again", error))?;
        Ok(file)
    }
}

impl Blobs for Remote<'_> {
    fn document(&self, blob: &Descriptor) -> Result<(Vec<u8>, Option<String>)> {
        self.top(&blob.digest.to_string())
    }

    fn open(&self, blob: &Descriptor) -> Result<Box<dyn Read + '_>> {
        Ok(Box::new(self.fetch(blob)?))
    }
}
