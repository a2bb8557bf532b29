//! The user data of a set in which nft(8) notes the expressions of its key. The kernel only stores
//! it; without it nft(8) can neither show nor load a set of plain numbers.

use super::Field;

/// `NFTNL_UDATA_SET_KEYBYTEORDER` and `NFTNL_UDATA_SET_KEY_TYPEOF` of libnftnl.
const BYTE_ORDER: u8 = 0;
const TYPEOF: u8 = 3;
/// `enum byteorder` of nft(8): mixed, and that of the network.
const MIXED: u32 = 0;
const NETWORK: u32 = 2;
/// `enum expr_types` of nft(8).
const PAYLOAD: u32 = 7;
const META: u32 = 9;
const CONCATENATION: u32 = 13;
/// `PROTO_BASE_TRANSPORT_HDR` of nft(8).
const TRANSPORT: u32 = 3;
/// `NFT_META_IIFNAME`.
const INPUT_NAME: u32 = 6;
/// `NFT_META_MARK`.
const MARK: u32 = 3;

/// The user data of a set whose key has bytes of a header; `None` where types say enough.
pub(super) fn typeof_key(key: &[Field]) -> Option<Vec<u8>> {
    if !key.iter().any(|field| matches!(field, Field::Transport { .. })) {
        return None;
    }
    let parts: Vec<_> = key.iter().map(expression).collect::<Option<_>>()?;
    let (order, whole) = match parts.as_slice() {
        [alone] => (NETWORK, alone.clone()),
        _ => {
            let numbered = parts.iter().zip(0..).flat_map(|(part, number)| tagged(number, part));
            let inner: Vec<u8> = numbered.collect();
            (MIXED, [word(0, CONCATENATION), tagged(1, &inner)].concat())
        }
    };
    Some([word(BYTE_ORDER, order), tagged(TYPEOF, &whole)].concat())
}

fn expression(field: &Field) -> Option<Vec<u8>> {
    let (kind, data) = match field {
        Field::Interface => (META, word(0, INPUT_NAME)),
        Field::Mark => (META, word(0, MARK)),
        Field::Transport { offset, length } => {
            let bits = |bytes: u8| u32::from(bytes) * 8;
            let place = [word(2, TRANSPORT), word(3, bits(*offset)), word(4, bits(*length))];
            // Of no protocol that has a name, and no field of it.
            (PAYLOAD, [word(0, 0), word(1, 0), place.concat()].concat())
        }
        Field::Family
        | Field::Ipv4
        | Field::Ipv6
        | Field::Protocol
        | Field::Service
        | Field::Ethernet => return None,
    };
    Some([word(0, kind), tagged(1, &data)].concat())
}

fn word(kind: u8, value: u32) -> Vec<u8> {
    tagged(kind, &value.to_ne_bytes())
}

/// Type, length, value. Nothing that is made here is longer than a byte counts.
fn tagged(kind: u8, value: &[u8]) -> Vec<u8> {
    let length = u8::try_from(value.len()).unwrap_or(u8::MAX);
    [&[kind, length], value].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As nft 1.0.6 writes it.
    #[cfg(target_endian = "little")]
    #[test]
    fn is_what_nft_writes() {
        let hex = |bytes: Option<Vec<u8>>| -> Option<String> {
            Some(bytes?.iter().map(|byte| format!("{byte:02x}")).collect())
        };
        let address = Field::Transport { offset: 8, length: 16 };
        let alone = "000402000000\
                     0326000407000000011e\
                     000400000000010400000000020403000000030440000000040480000000";
        assert_eq!(hex(typeof_key(&[address])).as_deref(), Some(alone));
        let mac = Field::Transport { offset: 10, length: 6 };
        let pair = "000400000000\
                    034000040d0000000138\
                    000e00040900000001060004060000000126\
                    000407000000011e\
                    000400000000010400000000020403000000030450000000040430000000";
        assert_eq!(hex(typeof_key(&[Field::Interface, mac])).as_deref(), Some(pair));
        assert_eq!(typeof_key(&[Field::Interface, Field::Ipv4]), None);
    }
}
