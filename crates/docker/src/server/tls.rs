//! TLS with certificates on both sides.

use std::fmt;
use std::sync::Arc;

use model::{Error, Result};
use rustls::RootCertStore;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use tokio_rustls::TlsAcceptor;

/// The certificates, as PEM texts.
#[derive(Clone)]
pub struct Pem {
    /// Spoke's certificate, and the chain to an authority that the engine trusts.
    pub certificates: Vec<u8>,
    /// Its key (PKCS #8, PKCS #1 or SEC 1).
    pub key: Vec<u8>,
    /// The authorities that may certify an engine.
    pub client_authorities: Vec<u8>,
}

/// A listener's side of TLS 1.2 and 1.3. Peers without a certificate of the configured authority
/// are refused.
#[derive(Clone)]
pub struct Tls(Arc<ServerConfig>);

impl Tls {
    /// Fails with [`model::Kind::Invalid`], naming the text that cannot be used.
    pub fn mutual(pem: &Pem) -> Result<Self> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = verifier(&provider, &pem.client_authorities)?;
        let key = PrivateKeyDer::from_pem_slice(&pem.key)
            .map_err(|error| Error::invalid("the TLS key cannot be read").because(error))?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::bug("TLS has no versions").because(error))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(certificates("the TLS certificate", &pem.certificates)?, key)
            .map_err(|error| {
                Error::invalid("the TLS certificate and key do not fit").because(error)
            })?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(Arc::new(config)))
    }

    pub(super) fn acceptor(self) -> TlsAcceptor {
        TlsAcceptor::from(self.0)
    }
}

fn verifier(
    provider: &Arc<CryptoProvider>,
    authorities: &[u8],
) -> Result<Arc<dyn ClientCertVerifier>> {
    let what = "the TLS authority for clients";
    let unusable = |error| Error::invalid(format!("{what} cannot be used: {error}"));
    let mut roots = RootCertStore::empty();
    for authority in certificates(what, authorities)? {
        roots.add(authority).map_err(|error| unusable(error.to_string()))?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .build()
        .map_err(|error| unusable(error.to_string()))
}

fn certificates(what: &str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| Error::invalid(format!("{what} cannot be read")).because(error))?;
    match certificates.is_empty() {
        true => Err(Error::invalid(format!("{what} holds no certificate"))),
        false => Ok(certificates),
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}
