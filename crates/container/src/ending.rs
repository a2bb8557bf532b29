//! How processes end.

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// By itself, with this code.
    Exited(i32),
    /// By this signal.
    Signaled(i32),
    /// It ran for longer than it was allowed, and was ended with all its descendants.
    TimedOut,
    /// Nobody saw how: with its whole container, or with the host.
    Unseen,
}

/// A call that ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// How.
    pub status: Ending,
    /// Its standard output, up to the bound.
    pub stdout: Vec<u8>,
    /// Its standard error, up to the bound.
    pub stderr: Vec<u8>,
    /// Whether it wrote more than is here.
    pub truncated: bool,
}

impl Ending {
    /// As it stands in a container's directory.
    pub(crate) fn to_text(self) -> String {
        match self {
            Self::Exited(code) => format!("exited {code}\n"),
            Self::Signaled(signal) => format!("signaled {signal}\n"),
            Self::TimedOut => "timed-out\n".to_owned(),
            Self::Unseen => String::new(),
        }
    }

    /// What [`Ending::to_text`] wrote; anything else says nothing.
    pub(crate) fn of_text(text: &str) -> Self {
        let read = |number: &str| number.trim_end().parse().ok();
        match text.split_once(' ') {
            Some(("exited", code)) => read(code).map_or(Self::Unseen, Self::Exited),
            Some(("signaled", signal)) => read(signal).map_or(Self::Unseen, Self::Signaled),
            _ if text.trim_end() == "timed-out" => Self::TimedOut,
            _ => Self::Unseen,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ending_is_read_as_written() {
        for one in [Ending::Exited(3), Ending::Signaled(9), Ending::TimedOut, Ending::Unseen] {
            assert_eq!(Ending::of_text(&one.to_text()), one);
        }
        for damaged in ["exited", "exited x\n", "sig", "\0"] {
            assert_eq!(Ending::of_text(damaged), Ending::Unseen);
        }
    }
}
