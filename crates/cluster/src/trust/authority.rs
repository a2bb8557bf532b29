//! The authority of a cluster.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use model::{Error, HostName, Result, Timestamp};
use rcgen::SigningKey;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DistinguishedName,
    DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P256_SHA256, PublicKeyData, RevokedCertParams, SanType, SerialNumber,
    SignatureAlgorithm,
};
use rustls::pki_types::CertificateDer;
use time::OffsetDateTime;

use super::rotation::Successor;
use super::serial::{CertificateRecord, PublicKey, Serial};
use super::trusted::{self, Trusted};

/// What it is called in its certificates.
const NAME: &str = "Spoke cluster";
/// Its own certificate is worth something for so long: nothing renews it. In seconds, 30 years.
const LIFE: u64 = 30 * 365 * 24 * 3600;
/// Clocks of hosts may be behind by so much, in seconds.
const SKEW: u64 = 3600;

/// What a certificate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// A host shows it to others. It names no address: a host may have several.
    Client,
    /// A server of etcd has it at this address, and shows it to the other servers.
    Server(IpAddr),
}

/// From when on, and for how many seconds, a certificate is worth something.
#[derive(Clone, Copy, Debug)]
pub struct Validity {
    /// The present.
    pub now: Timestamp,
    /// In seconds.
    pub life: u32,
}

/// An authority, with its key.
pub struct Authority {
    certificate: String,
    der: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// A new one.
    ///
    /// # Errors
    /// `Kernel` where there is no randomness.
    pub fn new(now: Timestamp) -> Result<Self> {
        let key = new_key()?;
        let mut params = params();
        params.not_before = at(now.0.saturating_sub(SKEW))?;
        params.not_after = at(now.0.saturating_add(LIFE))?;
        let made =
            params.self_signed(&key).map_err(|cause| failed("making an authority", cause))?;
        let certificate = made.pem();
        Ok(Self { certificate, der: made.der().clone(), issuer: Issuer::new(params, key) })
    }

    /// The authority that was written down, with its key in PEM: the one of these certificates that has the key.
    ///
    /// # Errors
    /// `Invalid` where one of them is damaged.
    pub fn read(certificates: &str, key: &str) -> Result<Self> {
        let invalid = || Error::invalid("the authority's certificate or key is damaged");
        let trusted = Trusted::read(certificates)?;
        let key = KeyPair::from_pem(key).map_err(|_| invalid())?;
        let der = trusted.with_key(key.public_key_raw());
        let der = der
            .ok_or_else(|| Error::invalid("the authority's key is not that of its certificate"))?;
        let certificate = trusted::pem(&der);
        Ok(Self { certificate, der, issuer: Issuer::new(params(), key) })
    }

    /// `next`, with the signature of this one that it follows.
    ///
    /// # Errors
    /// `Kernel` where there is no randomness.
    pub fn endorse(&self, next: &Self) -> Result<Successor> {
        let next = Trusted::read(&next.certificate)?;
        let signed = self.issuer.key().sign(&trusted::follows(&next));
        let signed = signed.map_err(|cause| failed("signing the next authority", cause))?;
        Successor::new(next, signed)
    }

    /// Its certificate, in PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// SHA-256 of its certificate as DER, in hexadecimal digits.
    pub fn digest(&self) -> String {
        super::digest(&self.der)
    }

    /// Its key, in PEM.
    pub fn key(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// A certificate for a host's key, in PEM, and what is to be known of it.
    ///
    /// # Errors
    /// `Invalid` where a time is none.
    pub fn sign(
        &self,
        key: &PublicKey,
        (host, usage): (&HostName, Usage),
        serial: &Serial,
        Validity { now, life }: Validity,
    ) -> Result<(String, CertificateRecord)> {
        let expires = Timestamp(now.0.saturating_add(life.into()));
        let mut params = CertificateParams::default();
        params.distinguished_name = name(host.as_str());
        params.serial_number = Some(SerialNumber::from_slice(&serial.bytes()));
        params.not_before = at(now.0.saturating_sub(SKEW))?;
        params.not_after = at(expires.0)?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        if let Usage::Server(address) = usage {
            params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
            params.subject_alt_names =
                [address, Ipv4Addr::LOCALHOST.into()].map(SanType::IpAddress).to_vec();
        }
        let signed = params.signed_by(key, &self.issuer);
        let signed = signed.map_err(|cause| failed("signing a certificate", cause))?;
        let record = CertificateRecord { digest: super::digest(signed.der()), expires };
        Ok((signed.pem(), record))
    }

    /// The list of certificates that are worth nothing, in PEM.
    ///
    /// # Errors
    /// `Invalid` where a time is none.
    pub fn revocations(
        &self,
        revoked: &BTreeMap<Serial, Timestamp>,
        now: Timestamp,
    ) -> Result<String> {
        let this_update = at(now.0.saturating_sub(SKEW))?;
        let entry = |serial: &Serial| RevokedCertParams {
            serial_number: SerialNumber::from_slice(&serial.bytes()),
            revocation_time: this_update,
            reason_code: None,
            invalidity_date: None,
        };
        let params = CertificateRevocationListParams {
            this_update,
            next_update: at(now.0.saturating_add(LIFE))?,
            crl_number: SerialNumber::from(now.0),
            issuing_distribution_point: None,
            revoked_certs: revoked.keys().map(entry).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = params.signed_by(&self.issuer).and_then(|list| list.pem());
        list.map_err(|cause| failed("signing the list of revoked certificates", cause))
    }
}

/// A key of a host.
pub(super) fn new_key() -> Result<KeyPair> {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(|cause| failed("making a key", cause))
}

impl PublicKeyData for PublicKey {
    fn der_bytes(&self) -> &[u8] {
        self.bytes()
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

fn params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = name(NAME);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn name(common: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common);
    name
}

fn at(seconds: u64) -> Result<OffsetDateTime> {
    let at = i64::try_from(seconds).ok().map(OffsetDateTime::from_unix_timestamp);
    match at {
        Some(Ok(at)) => Ok(at),
        Some(Err(_)) | None => Err(Error::invalid(format!("{seconds} seconds are no time"))),
    }
}

fn failed(doing: &str, cause: rcgen::Error) -> Error {
    Error::new(model::Kind::Kernel, format!("{doing} failed")).because(cause)
}
