//! The certificate authorities that TLS trusts.

use std::sync::Arc;

use model::{Error, Result};
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};

/// The system's authorities; anybody, where the host is one that need not have TLS at all.
pub(super) fn config(is_insecure: bool) -> Result<TlsConfig> {
    let roots = if is_insecure { Vec::new() } else { authorities()? };
    Ok(TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .root_certs(RootCerts::Specific(Arc::new(roots)))
        .disable_verification(is_insecure)
        .build())
}

fn authorities() -> Result<Vec<Certificate<'static>>> {
    let found = rustls_native_certs::load_native_certs().certs;
    match found.is_empty() {
        true => Err(Error::invalid(
            "this host trusts no certificate authority: install its ca-certificates, or list the \
             image's host as insecure",
        )),
        false => Ok(found.iter().map(|root| Certificate::from_der(root).to_owned()).collect()),
    }
}
