//! How a process ended: exit code, signal, time limit.

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// By itself, with this code.
    Exited(i32),
    /// By this signal.
    Signaled(i32),
    /// It ran for longer than it was allowed, and was ended with all its descendants.
    TimedOut,
    /// Unknown: with its whole container, or with the host.
    Unseen,
}

/// How a container ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastEnd {
    /// Its first process.
    pub process: model::Process,
    /// How its main process ended.
    pub ending: Ending,
    /// The end of what that wrote, on either output: at most 1 KiB.
    pub words: String,
    /// The kernel ended processes of it because its memory was used up.
    pub was_short_of_memory: bool,
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
            Self::Unseen => "unseen\n".to_owned(),
        }
    }

    /// Reads what [`Ending::to_text`] wrote; any other text counts as unknown.
    pub(crate) fn of_text(text: &str) -> Self {
        Self::and_words(text).0
    }

    /// The same, with what stands behind it.
    pub(crate) fn and_words(text: &str) -> (Self, &str) {
        let (line, words) = text.split_once('\n').unwrap_or((text, ""));
        let read = |number: &str| number.parse().ok();
        let ending = match line.split_once(' ') {
            Some(("exited", code)) => read(code).map_or(Self::Unseen, Self::Exited),
            Some(("signaled", signal)) => read(signal).map_or(Self::Unseen, Self::Signaled),
            _ if line == "timed-out" => Self::TimedOut,
            _ => Self::Unseen,
        };
        (ending, words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ending_is_read_as_written() {
        for one in [Ending::Exited(3), Ending::Signaled(9), Ending::TimedOut, Ending::Unseen] {
            assert_eq!(Ending::of_text(&one.to_text()), one);
            let reported = format!("{}no such\nfile\n", one.to_text());
            assert_eq!(Ending::and_words(&reported), (one, "no such\nfile\n"));
        }
        for damaged in ["exited", "exited x\n", "sig", "\0"] {
            assert_eq!(Ending::of_text(damaged), Ending::Unseen);
        }
    }
}
