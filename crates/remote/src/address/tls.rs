//! The trusted authorities, and Spoke's own certificate (moby `pkg/plugins`, go-connections
//! `tlsconfig`).

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::{Error, Result};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme,
};

use super::Host;

/// The longest PEM file that is read, in bytes.
const LONGEST_PEM: u64 = 1 << 20;

/// The TLS part of a description: its `TLSConfig`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustFiles {
    /// Any certificate will do.
    pub trusts_all: bool,
    /// The authorities that may certify the plugin.
    pub authorities: Option<PathBuf>,
    /// Our certificate.
    pub certificate: Option<PathBuf>,
    /// Its key.
    pub key: Option<PathBuf>,
}

/// One side of TLS 1.2 and 1.3, and the name that the other side must have.
#[derive(Clone)]
pub struct Trust {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Trust {
    /// For the plugin on this host: trusting the authorities that the description names, or this
    /// host's own where there is no description of trust at all.
    pub fn read(host: &Host, files: Option<&TrustFiles>) -> Result<Self> {
        let name = ServerName::try_from(host.name.clone())
            .map_err(|error| Error::invalid(format!("{host} is no name for TLS")).because(error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::bug("TLS has no versions").because(error))?
            .dangerous()
            .with_custom_certificate_verifier(verifier(provider, files)?);
        let own = files.map(identity).transpose()?.flatten();
        let mut config = match own {
            None => builder.with_no_client_auth(),
            Some((certificates, key)) => {
                builder.with_client_auth_cert(certificates, key).map_err(|error| {
                    Error::invalid("the TLS certificate and key do not fit").because(error)
                })?
            }
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { config: Arc::new(config), name })
    }

    /// A conversation that begins.
    pub(crate) fn begin(&self) -> Result<ClientConnection, rustls::Error> {
        ClientConnection::new(Arc::clone(&self.config), self.name.clone())
    }
}

fn verifier(
    provider: Arc<CryptoProvider>,
    files: Option<&TrustFiles>,
) -> Result<Arc<dyn ServerCertVerifier>> {
    let mut roots = RootCertStore::empty();
    match files {
        Some(files) if files.trusts_all => return Ok(Arc::new(TrustsAll(provider))),
        Some(TrustFiles { authorities: Some(path), .. }) => {
            for authority in certificates(path)? {
                roots.add(authority).map_err(|error| unusable(path).because(error))?;
            }
        }
        _ => drop(roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs)),
    }
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
    verifier.map(|verifier| -> Arc<dyn ServerCertVerifier> { verifier }).map_err(|error| {
        Error::invalid("no TLS authority is trusted: name one as CAFile").because(error)
    })
}

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn identity(files: &TrustFiles) -> Result<Option<Identity>> {
    match (&files.certificate, &files.key) {
        (None, None) => Ok(None),
        (Some(certificate), Some(key)) => {
            let own = PrivateKeyDer::from_pem_slice(&pem(key)?)
                .map_err(|error| unusable(key).because(error))?;
            Ok(Some((certificates(certificate)?, own)))
        }
        _ => Err(Error::invalid("TLSConfig needs both of CertFile and KeyFile, or neither")),
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let pem = pem(path)?;
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .map_err(|error| unusable(path).because(error))?;
    match certificates.is_empty() {
        true => Err(Error::invalid(format!("{} holds no certificate", path.display()))),
        false => Ok(certificates),
    }
}

fn pem(path: &Path) -> Result<Vec<u8>> {
    file::read(path, LONGEST_PEM)
        .map_err(|error| file::failed(format!("reading {}", path.display()), error))
}

fn unusable(path: &Path) -> Error {
    Error::invalid(format!("{} cannot be used for TLS", path.display()))
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Trust({:?})", self.name)
    }
}

/// For descriptions with `InsecureSkipVerify`: the server proves only that it has the key of its
/// certificate.
#[derive(Debug)]
struct TrustsAll(Arc<CryptoProvider>);

impl ServerCertVerifier for TrustsAll {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.pem");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        assert!(certificates(&path).unwrap_err().to_string().contains("a FIFO"));
    }
}
