//! Names and passwords for registries: the files of `docker login` and `podman login`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::{Error, Result};
use serde::Deserialize;

use crate::{DOCKER_HUB, Reference};

/// A longer file is refused, in bytes.
const LONGEST: u64 = 1 << 20;

/// The Docker Hub's names in these files.
const HUB_KEYS: [&str; 2] = ["index.docker.io", "registry-1.docker.io"];

/// A credential for a registry.
#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    /// Name and password.
    Password {
        /// The name.
        name: String,
        /// The password.
        password: String,
    },
    /// A token that is exchanged for others (OAuth 2, RFC 6749 section 6).
    Identity(String),
}

/// The credentials of the caller. A file is read only when it is needed.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    file: Option<PathBuf>,
}

impl Credentials {
    /// From a file such as `~/.docker/config.json` or `/run/containers/0/auth.json`; without one,
    /// registries are asked without a name.
    pub fn new(file: Option<PathBuf>) -> Self {
        Self { file }
    }

    /// The credential for the registry of `reference`, for this repository if there is one.
    ///
    /// # Errors
    /// Where a file exists and cannot be read, or only names another program that has the
    /// credential.
    pub fn of(&self, reference: &Reference) -> Result<Option<Credential>> {
        let Some(path) = &self.file else { return Ok(None) };
        let doing = |error: Error| error.context(format!("reading {}", path.display()));
        let text = read(path).map_err(doing)?;
        find(&text, reference).map_err(doing)
    }
}

impl fmt::Debug for Credential {
    /// Without what is secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Password { .. } => "Password",
            Self::Identity(_) => "Identity",
        })
    }
}

/// The file, as both programs write it.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Wire {
    auths: BTreeMap<String, Entry>,
    cred_helpers: BTreeMap<String, String>,
    creds_store: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Entry {
    auth: String,
    username: String,
    password: String,
    identitytoken: String,
}

/// The credential for a registry in the text of such a file.
///
/// # Errors
/// As for [`Credentials::of`].
pub fn find(text: &[u8], reference: &Reference) -> Result<Option<Credential>> {
    // serde's words would quote what stands there.
    let wire: Wire = serde_json::from_slice(text).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        if text.starts_with("\u{feff}".as_bytes()) {
            return Error::invalid(file::no_json(text, error).to_string());
        }
        Error::invalid(format!("line {line}, column {column} is not as docker login writes it"))
    })?;
    let entry = keys(reference).into_iter().find_map(|key| {
        wire.auths.iter().find(|(name, _)| normal(name) == key).map(|(_, entry)| entry)
    });
    match entry.map(credential).transpose()?.flatten() {
        Some(found) => Ok(Some(found)),
        None => match helper(&wire, reference) {
            Some(helper) => Err(Error::unsupported(format!(
                "the password of {} is kept by docker-credential-{helper}, which is not asked: \
                 log in with podman login --authfile, and name that file",
                reference.registry()
            ))),
            None => Ok(None),
        },
    }
}

fn helper<'a>(wire: &'a Wire, reference: &Reference) -> Option<&'a str> {
    let keys = keys(reference);
    let own = wire.cred_helpers.iter().find(|(name, _)| keys.contains(&normal(name).to_owned()));
    let entered = wire.auths.keys().any(|name| keys.contains(&normal(name).to_owned()));
    let all = wire.creds_store.as_ref().filter(|_| entered);
    own.map(|(_, helper)| helper).or(all).map(String::as_str)
}

fn credential(entry: &Entry) -> Result<Option<Credential>> {
    if !entry.identitytoken.is_empty() {
        return Ok(Some(Credential::Identity(entry.identitytoken.clone())));
    }
    if entry.auth.is_empty() {
        let (name, password) = (entry.username.clone(), entry.password.clone());
        return Ok((!name.is_empty()).then_some(Credential::Password { name, password }));
    }
    let bad = || Error::invalid("an auth is not the base64 of NAME:PASSWORD");
    let plain = STANDARD.decode(entry.auth.trim()).map_err(|_| bad())?;
    let plain = String::from_utf8(plain).map_err(|_| bad())?;
    let (name, password) = plain.split_once(':').ok_or_else(bad)?;
    let password = password.trim_end_matches('\0').to_owned();
    Ok(Some(Credential::Password { name: name.to_owned(), password }))
}

/// From the repository itself up to the registry.
fn keys(reference: &Reference) -> Vec<String> {
    let whole = format!("{}/{}", reference.registry(), reference.repository());
    let mut keys = vec![whole.clone()];
    keys.extend(whole.rmatch_indices('/').map(|(at, _)| whole[..at].to_owned()));
    if reference.registry() == DOCKER_HUB {
        keys.extend(HUB_KEYS.map(ToOwned::to_owned));
    }
    keys
}

/// Docker writes `https://index.docker.io/v1/`, and others `https://HOST`.
fn normal(key: &str) -> &str {
    let bare = key.strip_prefix("https://").or_else(|| key.strip_prefix("http://")).unwrap_or(key);
    let bare = bare.trim_end_matches('/');
    bare.strip_suffix("/v1").or_else(|| bare.strip_suffix("/v2")).unwrap_or(bare)
}

fn read(path: &Path) -> Result<Vec<u8>> {
    file::read(path, LONGEST).map_err(|error| file::failed("it cannot be read", error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn asked(file: &Value, reference: &str) -> Result<Option<String>> {
        let found = find(file.to_string().as_bytes(), &reference.parse().unwrap())?;
        Ok(found.map(|found| match found {
            Credential::Password { name, password } => format!("{name}:{password}"),
            Credential::Identity(token) => format!("token {token}"),
        }))
    }

    fn auth(text: &str) -> Value {
        json!({"auth": STANDARD.encode(text)})
    }

    #[test]
    fn finds_who_is_meant() {
        let file = json!({"auths": {
            "https://index.docker.io/v1/": auth("hub:a"),
            "quay.io": auth("quay:b:c"),
            "quay.io/team": auth("team:d"),
            "quay.io/team/one": auth("one:e"),
            "https://registry.example:5000": {"username": "me", "password": "f"},
            "ghcr.io": {"auth": "x", "identitytoken": "g"},
        }});
        for (reference, expected) in [
            ("busybox", "hub:a"),
            ("docker.io/some/thing", "hub:a"),
            ("quay.io/other/x", "quay:b:c"),
            ("quay.io/team/x", "team:d"),
            ("quay.io/team/one:1", "one:e"),
            ("registry.example:5000/x", "me:f"),
            ("ghcr.io/x/y", "token g"),
        ] {
            assert_eq!(asked(&file, reference).unwrap().as_deref(), Some(expected), "{reference}");
        }
        for stranger in ["quay.io.evil.example/x", "registry.example/x", "example:5000/x"] {
            assert_eq!(asked(&file, stranger).unwrap(), None, "{stranger}");
        }
        assert_eq!(asked(&json!({}), "busybox").unwrap(), None);
    }

    #[test]
    fn says_who_else_knows() {
        let file = json!({"auths": {"quay.io": {}}, "credsStore": "pass"});
        let error = asked(&file, "quay.io/x").unwrap_err();
        assert!(error.to_string().contains("docker-credential-pass"), "{error}");
        assert_eq!(asked(&file, "busybox").unwrap(), None);
        let file = json!({"credHelpers": {"gcr.io": "gcloud"}});
        assert!(asked(&file, "gcr.io/x").is_err());
        assert_eq!(asked(&file, "quay.io/x").unwrap(), None);
    }

    #[test]
    fn tells_nothing_that_is_secret() {
        for file in [
            json!({"auths": {"quay.io": {"auth": "!!geheim!!"}}}),
            json!({"auths": {"quay.io": auth("geheim")}}),
            json!({"auths": {"quay.io": "geheim"}}),
        ] {
            let error = asked(&file, "quay.io/x").unwrap_err().to_string();
            assert!(!error.contains("geheim"), "{error}");
        }
        let secret = Credential::Password { name: "me".to_owned(), password: "geheim".to_owned() };
        assert!(!format!("{secret:?}").contains("geheim"));
    }
}
