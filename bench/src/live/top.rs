//! `spoke top` on a terminal, as it runs.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Stdio};
use std::time::Instant;

use model::{Error, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::spoke;
use crate::args::Args;
use crate::chain::Runtime;
use crate::execute::{processor, program};
use crate::samples::Figure;
use crate::stats::{Book, Summary};

const CASE: &str = "spoke top, a look each second";
const SHARE: &str = "of a processor";
/// The looks of one turn.
const LOOKS: usize = 10;
/// What each look begins with.
const HOME: &[u8] = b"\x1b[H";
/// A terminal that says first whose process it shows.
const TERMINAL: &str = "stty rows 50 cols 200; echo $$; exec \"$SPOKE\" top";

/// Notes the share of a processor that it takes once it has begun.
pub(super) fn measure(
    runtime: Runtime<'_>,
    who: &'static str,
    args: &Args,
    book: &mut Book,
) -> Result<()> {
    let mut top = Top::start(runtime)?;
    top.look()?;
    for turn in 0..args.either(1, 3) {
        let (began, before) = (Instant::now(), processor(top.pid)?);
        for _ in 0..LOOKS {
            top.look()?;
        }
        let spent = processor(top.pid)?.saturating_sub(before);
        let share = 100.0 * spent.as_secs_f64() / began.elapsed().as_secs_f64();
        let place = Figure { case: CASE, verb: SHARE, who, unit: "%" };
        book.samples(place).values.insert(turn, share);
    }
    Ok(())
}

/// What was noted.
pub(super) fn share(book: &Book, who: &str) -> Option<Summary> {
    book.sampled(CASE, SHARE, who)?.summary()
}

/// It ends with this.
struct Top {
    pid: Pid,
    terminal: Child,
    drawn: BufReader<ChildStdout>,
}

impl Top {
    fn start(runtime: Runtime<'_>) -> Result<Self> {
        let failed = |error| Error::os("starting spoke top on a terminal (script)", error);
        let mut command = program("script");
        command.args(["--quiet", "--flush", "--command", TERMINAL, "/dev/null"]);
        let spoke = spoke(runtime);
        command.env("SPOKE", spoke.get_program()).env("TERM", "xterm").env("SHELL", "/bin/sh");
        command.envs(spoke.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut terminal = runtime.host.within(|| Ok(command.spawn()))?.map_err(failed)?;
        let Some(drawn) = terminal.stdout.take() else {
            return Err(Error::bug("a pipe is missing"));
        };
        let (mut drawn, mut line) = (BufReader::new(drawn), String::new());
        drawn.read_line(&mut line).map_err(failed)?;
        let pid = line.trim().parse().map(Pid::from_raw);
        let pid = pid.map_err(|_| Error::bug(format!("the terminal says {line:?}")))?;
        Ok(Self { pid, terminal, drawn })
    }

    /// Waits until it draws the next table.
    fn look(&mut self) -> Result<()> {
        let mut read = Vec::new();
        while !read.ends_with(HOME) {
            let last = HOME.last().copied().unwrap_or_default();
            let length = self.drawn.read_until(last, &mut read);
            if length.map_err(|error| Error::os("reading what spoke top draws", error))? == 0 {
                return Err(Error::try_again("spoke top ended"));
            }
        }
        Ok(())
    }
}

impl Drop for Top {
    fn drop(&mut self) {
        // It may have ended by itself, and the terminal with it.
        let _ = kill(self.pid, Signal::SIGTERM);
        let _ = self.terminal.wait();
    }
}
