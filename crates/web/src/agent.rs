//! Agents of `ureq`, one for each server.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use model::{Error, Result};
use ureq::config::ConfigBuilder;
use ureq::tls::{Certificate, ClientCert, PemItem, RootCerts, TlsConfig, TlsProvider};
use ureq::typestate::AgentScope;
use ureq::{Agent, Timeout};

use crate::Proxies;

/// A larger file of authorities is refused, in bytes.
const LARGEST_AUTHORITIES: u64 = 16 << 20;

/// How long a server is waited for until it accepts, at most.
const CONNECT: Duration = Duration::from_secs(10);

/// Agents with their connections, by server: few.
#[derive(Default)]
pub struct Agents(Mutex<Vec<(String, Agent)>>);

impl Agents {
    /// The agent for a server such as `https://HOST:PORT`, made by `make` if there is none yet.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn of(&self, server: &str, make: impl FnOnce() -> Result<Agent>) -> Result<Agent> {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let find = |agents: &[(String, Agent)]| {
            agents.iter().find(|(known, _)| known == server).map(|(_, agent)| agent.clone())
        };
        if let Some(agent) = find(&lock()) {
            return Ok(agent);
        }
        let made = make()?;
        let mut agents = lock();
        Ok(find(&agents).unwrap_or_else(|| {
            agents.push((server.to_owned(), made.clone()));
            made
        }))
    }
}

/// The certificates that a server may have.
#[derive(Clone, Copy, Debug)]
pub enum Trust<'a> {
    /// Any.
    Anybody,
    /// Those of the authorities in a PEM file.
    File(&'a Path),
    /// Those of this host's authorities. Where there is none, the error says what else to do.
    Host {
        /// `name the cloud's as cafile`.
        otherwise: &'a str,
    },
}

/// The common settings of all agents: every status is an answer, redirections too; `scheme` is
/// `http` or `https`, `host` has no port.
///
/// # Errors
/// Where the proxy or the authorities cannot be used.
pub fn config(
    (scheme, host): (&str, &str),
    proxies: &Proxies,
    timeout: Duration,
    trust: Trust<'_>,
) -> Result<ConfigBuilder<AgentScope>> {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .user_agent(concat!("spoke/", env!("CARGO_PKG_VERSION")))
        .proxy(proxies.way(scheme, host)?)
        .timeout_global(Some(timeout))
        .timeout_connect(Some(timeout.min(CONNECT)));
    match scheme {
        "https" => Ok(config.tls_config(tls(trust, None)?)),
        _ => Ok(config),
    }
}

/// The files of a client's certificate.
#[derive(Clone, Copy, Debug)]
pub struct ClientFiles<'a> {
    /// The certificate, and those between it and the authority, in PEM.
    pub certificate: &'a Path,
    /// Its key, in PEM.
    pub key: &'a Path,
}

/// The settings of TLS.
///
/// # Errors
/// Where a file cannot be read, or has not what it should have.
pub fn tls(trust: Trust<'_>, client: Option<ClientFiles<'_>>) -> Result<TlsConfig> {
    let roots = match trust {
        Trust::Anybody => Vec::new(),
        Trust::File(path) => authorities_of(path)?,
        Trust::Host { otherwise } => authorities_of_the_host(otherwise)?,
    };
    Ok(TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .root_certs(RootCerts::Specific(Arc::new(roots)))
        .disable_verification(matches!(trust, Trust::Anybody))
        .client_cert(client.map(client_certificate).transpose()?)
        .build())
}

fn client_certificate(files: ClientFiles<'_>) -> Result<ClientCert> {
    let chain = certificates(files.certificate, "certificate")?;
    let doing = || format!("reading the key {}", files.key.display());
    let pem =
        file::read(files.key, LARGEST_AUTHORITIES).map_err(|error| file::failed(doing(), error))?;
    let mut items = ureq::tls::parse_pem(&pem);
    let key = items.find_map(|item| match item {
        Ok(PemItem::PrivateKey(key)) => Some(key),
        _ => None,
    });
    let key = key.ok_or_else(|| Error::invalid("it has no key in PEM").context(doing()))?;
    Ok(ClientCert::new_with_certs(&chain, key))
}

fn authorities_of(path: &Path) -> Result<Vec<Certificate<'static>>> {
    certificates(path, "authorities")
}

fn certificates(path: &Path, what: &str) -> Result<Vec<Certificate<'static>>> {
    let doing = || format!("reading the {what} {}", path.display());
    let pem =
        file::read(path, LARGEST_AUTHORITIES).map_err(|error| file::failed(doing(), error))?;
    let found = ureq::tls::parse_pem(&pem).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    });
    let found: Vec<_> = found.collect();
    match found.is_empty() {
        true => Err(Error::invalid("it has no certificate in PEM").context(doing())),
        false => Ok(found),
    }
}

fn authorities_of_the_host(otherwise: &str) -> Result<Vec<Certificate<'static>>> {
    let found = rustls_native_certs::load_native_certs().certs;
    match found.is_empty() {
        true => Err(Error::invalid(format!(
            "this host trusts no certificate authority: install its ca-certificates, or {otherwise}"
        ))),
        false => Ok(found.iter().map(|root| Certificate::from_der(root).to_owned()).collect()),
    }
}

/// Why there is no answer, for sentences.
pub fn why(cause: &ureq::Error) -> String {
    match cause {
        ureq::Error::Io(error) => error.to_string(),
        ureq::Error::HostNotFound => "its name is not known".to_owned(),
        ureq::Error::Timeout(Timeout::Resolve) => "its name is not found in time".to_owned(),
        ureq::Error::Timeout(Timeout::Connect) => "it does not accept in time".to_owned(),
        ureq::Error::Timeout(_) => "it takes too long".to_owned(),
        other => other.to_string(),
    }
}

/// Whether the server cannot have got the request: no connection to it came about.
pub fn is_unsent(cause: &ureq::Error) -> bool {
    use io::ErrorKind::{AddrNotAvailable, ConnectionRefused, HostUnreachable, NetworkUnreachable};
    const UNREACHABLE: [io::ErrorKind; 4] =
        [ConnectionRefused, HostUnreachable, NetworkUnreachable, AddrNotAvailable];
    match cause {
        ureq::Error::Io(error) => {
            UNREACHABLE.contains(&error.kind()) || is_lookup(error) || tls_error(error).is_some()
        }
        ureq::Error::Timeout(timeout) => matches!(timeout, Timeout::Resolve | Timeout::Connect),
        ureq::Error::HostNotFound
        | ureq::Error::ConnectionFailed
        | ureq::Error::ConnectProxyFailed(_)
        | ureq::Error::Tls(_)
        | ureq::Error::Rustls(_)
        | ureq::Error::BadUri(_) => true,
        _ => false,
    }
}

/// The TLS error behind an error.
pub fn tls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref().and_then(|inner| inner.downcast_ref())
}

/// Whether a name was not found. The resolver's errors have no kind of their own.
pub fn is_lookup(error: &io::Error) -> bool {
    error.raw_os_error().is_none() && error.to_string().starts_with("failed to lookup address")
}
