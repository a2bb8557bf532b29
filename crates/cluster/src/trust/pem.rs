//! Certificates and keys out of PEM, and what computes with them.

use std::sync::Arc;

use model::{Error, Result};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

pub(super) fn certificate(pem: &str) -> Result<CertificateDer<'static>> {
    CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|_| damaged())
}

/// A certificate and its key.
pub(crate) fn pair(pem: &str) -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>)> {
    let key = PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| damaged())?;
    Ok((certificate(pem)?, key))
}

pub(crate) fn damaged() -> Error {
    Error::invalid(
        "a certificate or key of this host is damaged; remove the host and join it again",
    )
}
