//! Public keys (RFC 9580, sections 5.5.2 and 9.1).

use model::{Error, Result};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA384, SHA512, digest};
use ring::signature::{
    ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512,
    RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey,
};

use super::packet::{Reader, damaged};

/// The object identifier of Ed25519 in keys from before RFC 9580.
const ED25519_OID: &[u8] = &[0x2b, 0x06, 0x01, 0x04, 0x01, 0xda, 0x47, 0x0f, 0x01];

/// The hashes that are safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hashed {
    Sha256,
    Sha384,
    Sha512,
}

impl Hashed {
    pub(super) fn read(number: u8) -> Result<Self> {
        match number {
            8 => Ok(Self::Sha256),
            9 => Ok(Self::Sha384),
            10 => Ok(Self::Sha512),
            1..=3 => Err(super::denied("it is signed with a hash that is broken: MD5 or SHA-1")),
            _ => Err(Error::unsupported("it is signed with another hash than SHA-256, -384, -512")),
        }
    }

    fn rsa(self) -> &'static RsaParameters {
        match self {
            Self::Sha256 => &RSA_PKCS1_2048_8192_SHA256,
            Self::Sha384 => &RSA_PKCS1_2048_8192_SHA384,
            Self::Sha512 => &RSA_PKCS1_2048_8192_SHA512,
        }
    }

    fn of(self, message: &[u8]) -> ring::digest::Digest {
        let algorithm = match self {
            Self::Sha256 => &SHA256,
            Self::Sha384 => &SHA384,
            Self::Sha512 => &SHA512,
        };
        digest(algorithm, message)
    }
}

/// A key that verifies.
#[derive(Clone, Debug)]
pub(super) struct Public {
    /// The whole packet: what is hashed where the key is signed.
    pub(super) body: Vec<u8>,
    pub(super) fingerprint: [u8; 20],
    /// Seconds since 1970.
    pub(super) made: u32,
    material: Material,
}

#[derive(Clone, Debug)]
enum Material {
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    Ed25519([u8; 32]),
    /// Of an algorithm that is not read: a subkey for encryption mostly.
    Other(u8),
}

/// The numbers of a signature.
#[derive(Clone, Debug)]
pub(super) enum Numbers {
    Rsa(Vec<u8>),
    Ed25519([u8; 64]),
}

impl Public {
    pub(super) fn parse(body: &[u8]) -> Result<Self> {
        let mut reader = Reader(body);
        let version = reader.byte().ok_or_else(damaged)?;
        if version != 4 {
            return Err(Error::unsupported(format!(
                "its key has version {version} of OpenPGP: only 4 is supported"
            )));
        }
        let made = reader.long().ok_or_else(damaged)?;
        let algorithm = reader.byte().ok_or_else(damaged)?;
        let material = material(algorithm, &mut reader).ok_or_else(damaged)?;
        let hashed = digest(&SHA1_FOR_LEGACY_USE_ONLY, &framed(body));
        let fingerprint = hashed.as_ref().try_into().map_err(|_| damaged())?;
        Ok(Self { body: body.to_vec(), fingerprint, made, material })
    }

    /// Whether `numbers` are this key's signature of `message`.
    pub(super) fn verifies(&self, message: &[u8], hashed: Hashed, numbers: &Numbers) -> Result<()> {
        let good = match (&self.material, numbers) {
            (Material::Rsa { modulus, exponent }, Numbers::Rsa(signature)) => {
                let mut padded = vec![0; modulus.len().saturating_sub(signature.len())];
                padded.extend(signature);
                let key = RsaPublicKeyComponents { n: modulus, e: exponent };
                key.verify(hashed.rsa(), message, &padded)
            }
            (Material::Ed25519(point), Numbers::Ed25519(signature)) => {
                let key = UnparsedPublicKey::new(&ED25519, point);
                key.verify(hashed.of(message).as_ref(), signature)
            }
            (Material::Other(number), _) => {
                return Err(Error::unsupported(format!(
                    "it is signed with the OpenPGP algorithm {number}: only RSA and Ed25519 are \
                     supported"
                )));
            }
            _ => return Err(damaged()),
        };
        good.map_err(|_| super::denied("its signature is wrong: it is not what was signed"))
    }
}

fn material(algorithm: u8, reader: &mut Reader<'_>) -> Option<Material> {
    Some(match algorithm {
        1 | 3 => Material::Rsa {
            modulus: reader.number()?.to_vec(),
            exponent: reader.number()?.to_vec(),
        },
        22 => {
            let length = u32::from(reader.byte()?);
            let curve = reader.bytes(length)?;
            match (curve == ED25519_OID, reader.number()?) {
                (true, [0x40, point @ ..]) => Material::Ed25519(point.try_into().ok()?),
                _ => Material::Other(algorithm),
            }
        }
        27 => Material::Ed25519(reader.bytes(32)?.try_into().ok()?),
        other => Material::Other(other),
    })
}

impl Numbers {
    /// Reads what a signature of `algorithm` consists of.
    pub(super) fn read(algorithm: u8, reader: &mut Reader<'_>) -> Result<Self> {
        let numbers = match algorithm {
            1 | 3 => reader.number().map(|number| Self::Rsa(number.to_vec())),
            22 => halves(reader).map(Self::Ed25519),
            27 => reader.bytes(64).and_then(|bytes| bytes.try_into().ok()).map(Self::Ed25519),
            other => {
                return Err(Error::unsupported(format!(
                    "it is signed with the OpenPGP algorithm {other}: only RSA and Ed25519 are \
                     supported"
                )));
            }
        };
        numbers.ok_or_else(damaged)
    }
}

/// Two numbers, whose leading zeros were left out.
fn halves(reader: &mut Reader<'_>) -> Option<[u8; 64]> {
    let mut both = [0; 64];
    for half in both.chunks_exact_mut(32) {
        let number = reader.number()?;
        let start = half.len().checked_sub(number.len())?;
        half.get_mut(start..)?.copy_from_slice(number);
    }
    Some(both)
}

/// A key as it is hashed: with its length in front.
pub(super) fn framed(body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(body.len()).unwrap_or(u16::MAX).to_be_bytes();
    [&[0x99], &length[..], body].concat()
}
