//! Yes, no, or not known.

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tri {
    Yes,
    No,
    Unknown,
}

impl Tri {
    /// The opposite, where `not` is true.
    pub(crate) fn flipped(self, not: bool) -> Self {
        match (self, not) {
            (Self::Yes, true) => Self::No,
            (Self::No, true) => Self::Yes,
            _ => self,
        }
    }

    /// Whether both hold.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::No, _) | (_, Self::No) => Self::No,
            (Self::Yes, Self::Yes) => Self::Yes,
            _ => Self::Unknown,
        }
    }
}

impl From<bool> for Tri {
    fn from(is: bool) -> Self {
        if is { Self::Yes } else { Self::No }
    }
}

impl From<Option<bool>> for Tri {
    fn from(is: Option<bool>) -> Self {
        is.map_or(Self::Unknown, Self::from)
    }
}
