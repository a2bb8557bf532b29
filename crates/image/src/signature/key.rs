//! Keys with their subkeys, as far as they prove themselves (RFC 9580, section 10.1).

use model::Result;

use super::packet::{Packet, Tag, packets};
use super::public::{Public, framed};
use super::statement::{SignaturePacket, Type};

/// A key that is valid now, and the keys that sign for it.
#[derive(Debug)]
pub(super) struct Key {
    primary: Public,
    /// The primary key itself among them, where it may sign.
    signing: Vec<Public>,
}

/// The keys in `bytes`; an error instead of one that cannot be used.
pub(super) fn read(bytes: &[u8], now: u64) -> Result<Vec<Result<Key>>> {
    let all: Vec<Packet<'_>> = packets(bytes).collect::<Result<_>>()?;
    let starts = |packet: &Packet<'_>| packet.tag == Tag::PublicKey;
    let keys =
        all.chunk_by(|_, next| !starts(next)).filter(|chunk| chunk.first().is_some_and(starts));
    Ok(keys.map(|chunk| Key::new(chunk, now)).collect())
}

impl Key {
    /// The fingerprint of the primary key, in hexadecimal digits.
    pub(super) fn fingerprint(&self) -> String {
        crate::digest::hex(&self.primary.fingerprint)
    }

    /// Whether `statement` is this key's signature over `message`; `None` where another key is named.
    pub(super) fn check(
        &self,
        statement: &SignaturePacket,
        message: &mut Vec<u8>,
    ) -> Option<Result<()>> {
        let mut tried = self.signing.iter().filter(|key| statement.is_by(key));
        let first = tried.next()?.clone();
        let mut result = statement.check(&first, message);
        for key in tried {
            result = result.or_else(|_| statement.check(key, message));
        }
        Some(result)
    }

    fn new(chunk: &[Packet<'_>], now: u64) -> Result<Self> {
        let primary = Public::parse(chunk.first().map_or(&[], |packet| packet.body))?;
        let name = crate::digest::hex(&primary.fingerprint);
        let refused = |why: &str| Err(super::denied(&format!("key {name} {why}")));
        let parts: Vec<&[Packet<'_>]> =
            chunk.chunk_by(|_, next| next.tag == Tag::Signature).collect();
        let whole = framed(&primary.body);
        let mut own: Option<SignaturePacket> = None;
        let mut signing = Vec::new();
        for part in parts {
            let Some((subject, signatures)) = part.split_first() else { continue };
            let revoked = is_revoked(signatures);
            let signatures = Signatures::read(signatures, &primary);
            match subject.tag {
                Tag::PublicKey if revoked => return refused("is revoked"),
                Tag::PublicKey => {
                    newest(&mut own, signatures.best(Type::Direct, &whole));
                }
                Tag::UserId | Tag::UserAttribute => {
                    let message = [&whole[..], &named(subject)].concat();
                    newest(&mut own, signatures.best(Type::Certification, &message));
                }
                Tag::PublicSubkey if revoked => {}
                Tag::PublicSubkey => signing.extend(subkey(subject, &signatures, &primary, now)),
                Tag::Signature | Tag::Other => {}
            }
        }
        let Some(own) = own else {
            return refused("has no valid signature of its own with SHA-256 or better");
        };
        if is_expired(&primary, &own, now) {
            return refused("has expired");
        }
        if own.may_sign.unwrap_or(true) {
            signing.push(primary.clone());
        }
        Ok(Self { primary, signing })
    }
}

/// A subkey that may sign, and that belongs to `primary` in its own words as well.
fn subkey(
    packet: &Packet<'_>,
    signatures: &Signatures<'_>,
    primary: &Public,
    now: u64,
) -> Option<Public> {
    let subkey = Public::parse(packet.body).ok()?;
    let message = [framed(&primary.body), framed(&subkey.body)].concat();
    let binding = signatures.best(Type::SubkeyBinding, &message)?;
    let back = SignaturePacket::parse(binding.embedded.as_ref()?).ok()?;
    let agreed =
        back.kind == Type::PrimaryBinding && back.check(&subkey, &mut message.clone()).is_ok();
    let usable = binding.may_sign == Some(true) && !binding.is_over(now);
    (agreed && usable && !is_expired(&subkey, &binding, now)).then_some(subkey)
}

/// Whether a revocation of a key or subkey is among them. It is not checked: the operator who
/// configured the key can remove a wrong one, but a key must not be trusted because its revocation
/// has an old format.
fn is_revoked(signatures: &[Packet<'_>]) -> bool {
    let kinds = signatures.iter().map(|packet| packet.body.get(1));
    kinds.flatten().any(|kind| matches!(kind, 0x20 | 0x28))
}

fn is_expired(key: &Public, statement: &SignaturePacket, now: u64) -> bool {
    statement.key_lasts != 0 && u64::from(key.made) + statement.key_lasts <= now
}

fn newest(own: &mut Option<SignaturePacket>, statement: Option<SignaturePacket>) {
    if statement.as_ref().map(|statement| statement.made) > own.as_ref().map(|own| own.made) {
        *own = statement;
    }
}

/// A name as it is hashed.
fn named(packet: &Packet<'_>) -> Vec<u8> {
    let prefix = if packet.tag == Tag::UserId { 0xb4 } else { 0xd1 };
    let length = u32::try_from(packet.body.len()).unwrap_or(u32::MAX).to_be_bytes();
    [&[prefix], &length[..], packet.body].concat()
}

/// A key's signatures about one of its parts.
struct Signatures<'a> {
    primary: &'a Public,
    all: Vec<SignaturePacket>,
}

impl<'a> Signatures<'a> {
    /// Unknown signatures are ignored, and so are other keys'.
    fn read(packets: &[Packet<'_>], primary: &'a Public) -> Self {
        let statement =
            packets.iter().filter_map(|packet| SignaturePacket::parse(packet.body).ok());
        Self { primary, all: statement.filter(|statement| statement.is_by(primary)).collect() }
    }

    /// The newest valid one.
    fn best(&self, kind: Type, message: &[u8]) -> Option<SignaturePacket> {
        let mut message = message.to_vec();
        let of_kind = self.all.iter().filter(|statement| statement.kind == kind);
        let valid = of_kind.filter(|statement| statement.check(self.primary, &mut message).is_ok());
        valid.max_by_key(|statement| statement.made).cloned()
    }
}
