//! Tokens, by which a host becomes a member.

use std::net::SocketAddr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use model::{Error, Result};
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};

use crate::etcd::Url;
use crate::record::TokenId;

/// What tokens begin with.
const BEGIN: &str = "spoke1-";
/// Longer ones are refused, in bytes.
const LONGEST: usize = 4096;
/// A cluster is named by no more servers than this.
const MOST_SERVERS: usize = 16;

/// What proves that a host was asked to join: 32 random bytes in hexadecimal digits.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret(String);

impl Secret {
    /// SHA-256 of it, in hexadecimal digits: what the cluster knows of it.
    pub fn digest(&self) -> String {
        hex(digest(&SHA256, self.0.as_bytes()).as_ref())
    }

    /// SHA-256 of it and of what the host that used it is known by, in hexadecimal digits.
    pub fn digest_of(&self, user: &str) -> String {
        hex(digest(&SHA256, format!("{}\n{user}", self.0).as_bytes()).as_ref())
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

/// Where a host that joins asks for its certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Door {
    /// The hosts that have the authority's key.
    #[serde(rename = "h")]
    pub hosts: Vec<SocketAddr>,
    /// SHA-256 of the authority's certificate, in hexadecimal digits.
    #[serde(rename = "a")]
    pub authority: String,
}

/// A token: where the cluster is, and a secret that is worth something once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinToken {
    /// The servers of etcd; none where the host learns them at the door.
    #[serde(rename = "e", default, skip_serializing_if = "Vec::is_empty")]
    pub etcd: Vec<Url>,
    /// Which one.
    #[serde(rename = "i")]
    pub id: TokenId,
    /// Its secret.
    #[serde(rename = "s")]
    pub secret: Secret,
    /// Where the cluster has an etcd of its own.
    #[serde(rename = "d", default, skip_serializing_if = "Option::is_none")]
    pub door: Option<Door>,
}

impl JoinToken {
    /// A new one.
    ///
    /// # Errors
    /// `Kernel` where there is no randomness.
    pub fn new(etcd: Vec<Url>) -> Result<Self> {
        let mut bytes = [0; 40];
        let refused = |_| Error::new(model::Kind::Kernel, "the kernel gives no random bytes");
        SystemRandom::new().fill(&mut bytes).map_err(refused)?;
        let (id, secret) = bytes.split_at(8);
        let (id, secret) = (TokenId::try_from(hex(id))?, Secret(hex(secret)));
        Ok(Self { etcd, id, secret, door: None })
    }

    /// A new one for a cluster with an etcd of its own.
    ///
    /// # Errors
    /// As [`JoinToken::new`].
    pub fn at(door: Door) -> Result<Self> {
        Ok(Self { door: Some(door), ..Self::new(Vec::new())? })
    }

    /// As people pass it on.
    ///
    /// # Errors
    /// `Bug` where it cannot be written, which no token can cause.
    pub fn text(&self) -> Result<String> {
        let json = serde_json::to_vec(self);
        let json = json.map_err(|cause| Error::bug("a token as JSON").because(cause))?;
        Ok(format!("{BEGIN}{}", URL_SAFE_NO_PAD.encode(json)))
    }

    /// What was passed on.
    ///
    /// # Errors
    /// `Invalid` where it is no token; the token is not in the sentence.
    pub fn read(text: &str) -> Result<Self> {
        let invalid = || {
            Error::invalid(
                "this is no token, or not all of it; `spoke host token create` makes one on a host \
                 of the cluster",
            )
        };
        let text = text.trim();
        let encoded = text.strip_prefix(BEGIN).filter(|rest| rest.len() <= LONGEST);
        let json = URL_SAFE_NO_PAD.decode(encoded.ok_or_else(invalid)?).map_err(|_| invalid())?;
        let token: Self = serde_json::from_slice(&json).map_err(|_| invalid())?;
        let servers = token.door.as_ref().map_or(token.etcd.len(), |door| door.hosts.len());
        match servers == 0 || servers > MOST_SERVERS || token.etcd.len() > MOST_SERVERS {
            true => Err(invalid()),
            false => Ok(token),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_as_it_was_written() {
        let etcd = vec!["http://192.0.2.1:2379".parse().unwrap()];
        let token = JoinToken::new(etcd.clone()).unwrap();
        let text = token.text().unwrap();
        assert_eq!(JoinToken::read(&format!(" {text}\n")).unwrap(), token);
        assert_ne!(JoinToken::new(etcd).unwrap().secret, token.secret);
        assert!(!format!("{token:?}").contains(&token.secret.0));
        assert_eq!(token.secret.digest().len(), 64);
    }

    #[test]
    fn what_is_no_token_is_refused_and_not_repeated() {
        let etcd = vec!["http://192.0.2.1:2379".parse().unwrap()];
        let text = JoinToken::new(etcd).unwrap().text().unwrap();
        for bad in ["", "spoke1-", "spoke1-****", &text[..text.len() - 3], &text[7..]] {
            let error = JoinToken::read(bad).unwrap_err().to_string();
            assert!(error.starts_with("this is no token"), "{error}");
        }
    }
}
