//! Comments, as nft(8) writes them.

use std::str::FromStr;

use model::{Error, Result};

use super::abi;

/// The comment of a table, rule or element: 1 to 127 printable bytes without quotes; or up to 252, which nft(8)
/// does not show.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Comment(String);

impl Comment {
    /// nft(8) takes no longer ones.
    pub const LONGEST: usize = 127;
    /// The kernel takes no longer ones with an element: it counts user data and what is before them in a byte.
    pub const LONGEST_UNSEEN: usize = 252;

    /// One that may be longer than nft(8) takes it.
    ///
    /// # Errors
    /// Where it is longer than the kernel takes it, or has bytes that no comment may have.
    pub fn unseen(text: &str) -> Result<Self> {
        Self::within(text, Self::LONGEST_UNSEEN)
    }

    fn within(text: &str, longest: usize) -> Result<Self> {
        let printable = |c: char| !c.is_control() && c != '"';
        if (1..=longest).contains(&text.len()) && text.chars().all(printable) {
            return Ok(Self(text.to_owned()));
        }
        let what = format!("is not 1 to {longest} bytes without quotes and control characters");
        Err(Error::invalid(format!("nftables comment {text:?} {what}")))
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// As user data: type, length, text with its terminating zero, which nft(8) needs.
    pub(crate) fn userdata(&self) -> Vec<u8> {
        let text = self.0.as_bytes();
        let (kind, end): (u8, &[u8]) = match text.len() > Self::LONGEST {
            true => (abi::USERDATA_LONG, &[]),
            false => (abi::USERDATA_COMMENT, &[0]),
        };
        let length = u8::try_from(text.len() + end.len()).unwrap_or(u8::MAX);
        [&[kind, length], text, end].concat()
    }

    /// The comment in user data of any program.
    pub(crate) fn read(userdata: &[u8]) -> Option<Self> {
        let mut rest = userdata;
        while let [kind, length, tail @ ..] = rest {
            let value = tail.get(..usize::from(*length))?;
            if *kind == abi::USERDATA_COMMENT {
                let text = value.strip_suffix(&[0]).unwrap_or(value);
                return std::str::from_utf8(text).ok()?.parse().ok();
            }
            if *kind == abi::USERDATA_LONG {
                return Self::unseen(std::str::from_utf8(value).ok()?).ok();
            }
            rest = tail.get(usize::from(*length)..)?;
        }
        None
    }
}

impl FromStr for Comment {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::within(text, Self::LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn comments_are_nfts() {
        let comment: Comment = "own".parse().unwrap();
        assert_eq!(comment.userdata(), [0, 4, b'o', b'w', b'n', 0]);
        assert_eq!(Comment::read(&[9, 1, 7, 0, 4, b'o', b'w', b'n', 0]), Some(comment));
        assert!("".parse::<Comment>().is_err() && "a\"b".parse::<Comment>().is_err());
        assert!("x".repeat(128).parse::<Comment>().is_err());
    }

    proptest! {
        #[test]
        fn any_userdata_is_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Comment::read(&bytes);
        }

        #[test]
        fn comments_round_trip(text in "[ -!#-~]{1,127}") {
            let comment: Comment = text.parse().unwrap();
            prop_assert_eq!(Comment::read(&comment.userdata()), Some(comment));
        }

        #[test]
        fn long_comments_round_trip(text in "[ -!#-~]{128,252}") {
            let comment = Comment::unseen(&text).unwrap();
            prop_assert!(comment.userdata().len() < 255);
            prop_assert_eq!(Comment::read(&comment.userdata()), Some(comment));
            prop_assert!(text.parse::<Comment>().is_err());
        }
    }
}
