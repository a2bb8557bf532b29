//! The lock file's contents: the sequence that revisions come from, and the journal of the one
//! transaction that may be under way.
//!
//! Little endian: sequence (8 bytes), state (2), layout of the records (2), length of the journal (4),
//! checksum of the journal (8), the journal. A transaction of several changes first prepares each new file beside
//! its place, then writes this file in one call, which is the moment at which it has happened, and
//! then moves the files. A process that was killed within that call leaves a checksum that is
//! wrong: such a journal never happened.

use engine::port::Revision;

/// The size of what precedes the journal, in bytes.
pub(super) const SIZE: usize = 24;

/// No journal is longer, in bytes.
pub(super) const LONGEST: usize = 4 << 20;

/// The layout of this version's records in the store; that of a backup is `archive`'s. A later one upgrades them, and writes its number; then this
/// version refuses the store, because it would misread it.
const STORE_LAYOUT: u16 = 0;

/// Why bytes are no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unread {
    /// A later version of Spoke wrote the records, in this layout.
    Layout(u16),
    /// Anything else.
    Damaged,
}

/// The header before the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// The revision that was given last.
    pub(super) sequence: u64,
    /// Whether a transaction is under way.
    pub(super) state: State,
}

/// Whether a transaction is in progress. Its own process moves its files or, after that process's
/// death, the next holder of the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// None.
    Calm,
    /// The one in the journal that follows.
    Journal { length: u32, checksum: u64 },
    /// The one in the durable half's journal, which concerns both halves.
    Elsewhere,
}

/// One step of a transaction, repeatable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// In the durable half.
    pub(super) durable: bool,
    /// The prepared file; none to delete.
    pub(super) prepared: Option<String>,
    /// Where the record's file is.
    pub(super) path: String,
}

impl Header {
    /// With a journal, if `journal` is not empty.
    pub(super) fn with_journal(revision: Revision, journal: &[u8]) -> Vec<u8> {
        let state = match u32::try_from(journal.len()) {
            Ok(0) | Err(_) => State::Calm,
            Ok(length) => State::Journal { length, checksum: checksum(journal) },
        };
        let mut bytes = Self { sequence: revision.0, state }.encode().to_vec();
        bytes.extend_from_slice(journal);
        bytes
    }

    pub(super) fn encode(self) -> [u8; SIZE] {
        let (state, length, checksum) = match self.state {
            State::Calm => (0u16, 0, 0),
            State::Journal { length, checksum } => (1, length, checksum),
            State::Elsewhere => (2, 0, 0),
        };
        let mut bytes = [0; SIZE];
        bytes[0..8].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[8..10].copy_from_slice(&state.to_le_bytes());
        bytes[10..12].copy_from_slice(&STORE_LAYOUT.to_le_bytes());
        bytes[12..16].copy_from_slice(&length.to_le_bytes());
        bytes[16..24].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads what [`Header::encode`] wrote.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Unread> {
        let (sequence, state, layout, length, checksum) = fields(bytes).ok_or(Unread::Damaged)?;
        let state = match state {
            0 => State::Calm,
            1 if length as usize <= LONGEST => State::Journal { length, checksum },
            2 => State::Elsewhere,
            _ => return Err(Unread::Damaged),
        };
        match layout {
            STORE_LAYOUT => Ok(Self { sequence, state }),
            layout => Err(Unread::Layout(layout)),
        }
    }
}

/// In the order of the file.
fn fields(bytes: &[u8]) -> Option<(u64, u16, u16, u32, u64)> {
    let (sequence, rest) = bytes.split_first_chunk()?;
    let (state, rest) = rest.split_first_chunk()?;
    let (layout, rest) = rest.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    let (checksum, _) = rest.split_first_chunk()?;
    let (sequence, checksum) = (u64::from_le_bytes(*sequence), u64::from_le_bytes(*checksum));
    let (state, layout) = (u16::from_le_bytes(*state), u16::from_le_bytes(*layout));
    Some((sequence, state, layout, u32::from_le_bytes(*length), checksum))
}

/// Each field ends with a zero byte, which no path holds.
pub(super) fn encode_steps(boot_id: &str, steps: &[Step]) -> Vec<u8> {
    let mut text = format!("{boot_id}\0");
    for step in steps {
        text.push_str(if step.durable { "durable\0" } else { "boot\0" });
        text.push_str(step.prepared.as_deref().unwrap_or_default());
        text.push('\0');
        text.push_str(&step.path);
        text.push('\0');
    }
    text.into_bytes()
}

/// The boot in which the journal was written, and its steps. None where it is no journal.
pub(super) fn decode_steps(bytes: &[u8]) -> Option<(&str, Vec<Step>)> {
    let text = std::str::from_utf8(bytes).ok()?.strip_suffix('\0')?;
    let mut fields = text.split('\0');
    let boot_id = fields.next()?;
    let mut steps = Vec::new();
    while let Some(half) = fields.next() {
        let durable = match half {
            "durable" => true,
            "boot" => false,
            _ => return None,
        };
        let prepared = Some(fields.next()?).filter(|path| !path.is_empty()).map(str::to_owned);
        let path = fields.next()?.to_owned();
        let inside = |path: &str| path.split('/').all(|part| !matches!(part, "" | "." | ".."));
        if !inside(&path) || prepared.as_deref().is_some_and(|path| !inside(path)) {
            return None;
        }
        steps.push(Step { durable, prepared, path });
    }
    Some((boot_id, steps))
}

/// FNV-1a, 64 bits. It detects writes that were cut short, not forgeries.
pub(super) fn checksum(bytes: &[u8]) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325;
    bytes.iter().fold(start, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn steps() -> Vec<Step> {
        let prepared = Some("leases/@host/.0.new".to_owned());
        vec![
            Step { durable: false, prepared, path: "leases/@host/10.0.0.1".to_owned() },
            Step { durable: true, prepared: None, path: "sticky/n/=a b".to_owned() },
        ]
    }

    #[test]
    fn round_trips() {
        let journal = encode_steps("boot", &steps());
        assert_eq!(decode_steps(&journal), Some(("boot", steps())));
        let bytes = Header::with_journal(Revision(9), &journal);
        let header = Header::decode(&bytes).unwrap();
        let (length, sum) = (u32::try_from(journal.len()).unwrap(), checksum(&journal));
        assert_eq!(header.sequence, 9);
        assert_eq!(header.state, State::Journal { length, checksum: sum });
        for state in [State::Calm, State::Elsewhere] {
            let header = Header { sequence: 3, state };
            assert_eq!(Header::decode(&header.encode()), Ok(header));
        }
    }

    #[test]
    fn a_later_layout_is_no_damage() {
        let mut bytes = Header { sequence: 3, state: State::Calm }.encode();
        bytes[10] = 1;
        assert_eq!(Header::decode(&bytes), Err(Unread::Layout(1)));
        assert_eq!(Header::decode(&bytes[..20]), Err(Unread::Damaged));
    }

    #[test]
    fn refuses_paths_that_lead_outside() {
        for bad in
            ["b\0boot\0\0../x\0", "b\0boot\0\0/etc/passwd\0", "b\0boot\0..\0x\0", "b\0boot\0x\0"]
        {
            assert_eq!(decode_steps(bad.as_bytes()), None, "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn hostile_bytes_are_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = Header::decode(&bytes);
            let _ = decode_steps(&bytes);
        }

        #[test]
        fn a_cut_journal_has_another_checksum(cut in 0usize..60) {
            let journal = encode_steps("boot", &steps());
            let cut = cut.min(journal.len() - 1);
            let mut torn = journal.clone();
            torn[cut..].fill(0);
            prop_assert!(torn == journal || checksum(&torn) != checksum(&journal));
        }
    }
}
