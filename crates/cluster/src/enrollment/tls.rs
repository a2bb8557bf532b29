//! TLS between hosts.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::{Error, Kind, Result};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, ServerConfig,
    ServerConnection, SignatureScheme, Stream,
};
use web::Timed;

use super::wire::{self, Ask, Reply};
use crate::trust::pem::{damaged, pair, provider};
use crate::trust::{Trusted, digest};

/// How long the other host has to accept a connection.
const CONNECT: Duration = Duration::from_secs(3);
/// How long an exchange may take.
const LIMIT: Duration = Duration::from_secs(10);

/// Why a host may not be known by the digest of its authority.
const OTHER_AUTHORITY: &str = ": the token is of another cluster, or of before the cluster changed its authority; make a \
    new one with `spoke host token create`";

/// An authority that is known by the digest of its certificate only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pinned(pub String);

/// A question, and the certificate that the asking host has shown, as DER.
#[derive(Debug)]
pub struct PeerQuestion {
    /// What is asked.
    pub ask: Ask,
    /// SHA-256 of the certificate, in hexadecimal digits; none where there was none.
    pub certificate: Option<String>,
}

/// What a host that is asked shows, and whom it believes: certificates of these authorities, or none.
///
/// # Errors
/// `Invalid` where one of them is damaged. All are PEM; `own` has a certificate and its key.
pub fn server(authority: &str, own: &str) -> Result<Arc<ServerConfig>> {
    let (trusted, (certificate, key)) = (Trusted::read(authority)?, pair(own)?);
    let mut chain = vec![certificate];
    chain.extend_from_slice(trusted.certificates());
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(trusted.roots()?), provider())
            .allow_unauthenticated()
            .build()
            .map_err(|cause| damaged().because(cause))?;
    let builder =
        ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    let config = builder
        .map_err(|cause| Error::bug("TLS without versions").because(cause))?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key);
    config.map(Arc::new).map_err(|cause| damaged().because(cause))
}

impl PeerQuestion {
    /// Answers one question.
    ///
    /// # Errors
    /// Where the other end does not ask, or does not wait for the answer.
    pub fn answer(
        stream: TcpStream,
        config: Arc<ServerConfig>,
        work: impl FnOnce(Self) -> Result<Reply>,
    ) -> Result<bool> {
        let connection = ServerConnection::new(config);
        let mut connection = connection.map_err(|cause| Error::bug("TLS").because(cause))?;
        let mut socket = Timed::new(OwnedFd::from(stream), Instant::now() + LIMIT);
        let mut stream = Stream::new(&mut connection, &mut socket);
        let ask = wire::read(&mut stream)?;
        let shown = stream.conn.peer_certificates().and_then(<[_]>::first);
        let certificate = shown.map(|shown| digest(shown));
        let (reply, is_done) = match work(Self { ask, certificate }) {
            Ok(reply) => (reply, true),
            Err(error) => (Reply::failed(&error), false),
        };
        wire::write(&mut stream, &reply)?;
        stream.conn.send_close_notify();
        // The answer has gone; that no more follows is a courtesy.
        let _ = stream.flush();
        Ok(is_done)
    }
}

/// Asks a host whose authority is known by its digest.
///
/// # Errors
/// `TryAgain` where it does not answer, `Denied` where it is another one; those that it says.
pub fn ask_pinned(at: SocketAddr, pinned: Pinned, ask: &Ask) -> Result<Reply> {
    let config = client()?.dangerous();
    let config = config.with_custom_certificate_verifier(Arc::new(ByDigest(pinned)));
    exchange(at, config.with_no_client_auth(), (ask, LIMIT), OTHER_AUTHORITY)
}

/// Asks a host of the cluster, with this host's certificate, for at most `limit`.
///
/// # Errors
/// As [`ask_pinned`], and `Invalid` where a file is damaged.
pub fn ask_with(
    at: SocketAddr,
    (authority, own): (&str, &str),
    ask: &Ask,
    limit: Duration,
) -> Result<Reply> {
    let (certificate, key) = pair(own)?;
    let config = client()?.with_root_certificates(Trusted::read(authority)?.roots()?);
    let config = config.with_client_auth_cert(vec![certificate], key);
    exchange(at, config.map_err(|cause| damaged().because(cause))?, (ask, limit), "")
}

/// Whether TLS has refused the host that was asked, before it was asked anything.
pub fn is_other(error: &Error) -> bool {
    let source = std::error::Error::source(error);
    let cause = source.and_then(|source| source.downcast_ref::<std::io::Error>());
    cause.is_some_and(|cause| web::tls_error(cause).is_some())
}

fn client() -> Result<rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>> {
    let builder = ClientConfig::builder_with_provider(provider());
    let builder = builder.with_safe_default_protocol_versions();
    builder.map_err(|cause| Error::bug("TLS without versions").because(cause))
}

fn exchange(
    at: SocketAddr,
    config: ClientConfig,
    (ask, limit): (&Ask, Duration),
    hint: &str,
) -> Result<Reply> {
    let end = Instant::now() + limit.min(LIMIT);
    let silent =
        |cause| Error::try_again(format!("the host at {at} does not answer")).because(cause);
    let connected = TcpStream::connect_timeout(&at, CONNECT.min(limit)).map_err(silent)?;
    let name = ServerName::IpAddress(at.ip().into());
    let connection = ClientConnection::new(Arc::new(config), name);
    let mut connection = connection.map_err(|cause| Error::bug("TLS").because(cause))?;
    let mut socket = Timed::new(OwnedFd::from(connected), end);
    while connection.is_handshaking() {
        let done = connection.complete_io(&mut socket);
        done.map_err(|cause| match web::tls_error(&cause).is_some() {
            true => {
                let what = format!("the host at {at} is not the one that was meant{hint}");
                Error::new(Kind::Denied, what).because(cause)
            }
            false => silent(cause),
        })?;
    }
    let mut stream = Stream::new(&mut connection, &mut socket);
    wire::write(&mut stream, ask)?;
    wire::read::<Reply>(&mut stream)?.checked()
}

/// Believes the authority that the server itself shows, if it has the digest, and then what that signed.
#[derive(Debug)]
struct ByDigest(Pinned);

impl ServerCertVerifier for ByDigest {
    fn verify_server_cert(
        &self,
        server: &CertificateDer<'_>,
        shown: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        let unknown = || rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
        let meant = shown.iter().find(|shown| digest(shown) == self.0.0);
        let mut roots = RootCertStore::empty();
        roots.add(meant.ok_or_else(unknown)?.clone().into_owned())?;
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider());
        let verifier = verifier.build().map_err(|_| unknown())?;
        verifier.verify_server_cert(server, &[], name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let known = provider().signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, &known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let known = provider().signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, &known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}
