//! A plugin as a process, bounded in time and in what it may say.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::wire::LONGEST;

/// How much of a plugin's standard error is kept, in bytes; the rest is read and dropped.
const COMPLAINT: u64 = 64 << 10;

/// Gives what will be started a process group of its own, so that it can be killed with all that it starts.
pub fn prepare(program: &mut Command, stdin: Stdio) {
    program.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
}

/// The output of a prepared plugin, with at most one byte more than [`LONGEST`] of what it prints. It reads
/// `input` where its standard input is a pipe.
///
/// # Errors
/// [`ErrorKind::TimedOut`] where it was killed after `limit`, with all that it had started; those of reading.
pub fn finish(mut child: Child, input: String, limit: Duration) -> io::Result<Output> {
    let pid = Pid::from_child(&child);
    if let Some(mut stdin) = child.stdin.take() {
        // A plugin may answer before it has read everything, or without reading at all.
        thread::spawn(move || stdin.write_all(input.as_bytes()));
    }
    let (output, errors) = (child.stdout.take(), child.stderr.take());
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let aside = thread::spawn(move || complaint(errors));
        let stdout = answer(output);
        let stderr = aside.join().unwrap_or_default();
        // Not reaped here, so that its number cannot be another process's yet.
        let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
        sender.send(stdout.map(|stdout| (stdout, stderr)))
    });
    let Ok(heard) = receiver.recv_timeout(limit) else {
        // It may have ended already.
        let _ = kill_process_group(pid, Signal::KILL);
        let _ = child.wait();
        let what = format!("it did not end within {} s and was killed", limit.as_secs_f32());
        return Err(io::Error::new(ErrorKind::TimedOut, what));
    };
    let status = child.wait()?;
    let (stdout, stderr) = heard?;
    Ok(Output { status, stdout, stderr })
}

fn answer(output: Option<impl Read>) -> io::Result<Vec<u8>> {
    let mut answer = Vec::new();
    if let Some(output) = output {
        output.take(LONGEST + 1).read_to_end(&mut answer)?;
    }
    Ok(answer)
}

/// To the end, so that the plugin can always write.
fn complaint(errors: Option<impl Read>) -> Vec<u8> {
    let mut kept = Vec::new();
    let Some(mut errors) = errors else { return kept };
    // What cannot be read is not shown.
    let _ = errors.by_ref().take(COMPLAINT).read_to_end(&mut kept);
    let _ = io::copy(&mut errors, &mut io::sink());
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(script: &str) -> Child {
        let mut program = Command::new("/bin/sh");
        program.args(["-c", script]);
        prepare(&mut program, Stdio::piped());
        program.spawn().unwrap()
    }

    #[test]
    fn hears_no_more_than_it_must() {
        let body = "x".repeat(1 << 20);
        let output = finish(start("yes"), body.clone(), Duration::from_secs(60)).unwrap();
        assert_eq!(output.stdout.len() as u64, LONGEST + 1);
        assert!(!output.status.success());
        let script = "yes | head -c 1000000 >&2; echo done";
        let output = finish(start(script), body, Duration::from_secs(60)).unwrap();
        assert_eq!((output.stderr.len() as u64, &output.stdout[..]), (COMPLAINT, &b"done\n"[..]));
    }

    /// Also where it does not read its input, of which a pipe holds 64 KiB.
    #[test]
    fn what_hangs_ends_with_what_it_started() {
        let root = tempfile::tempdir().unwrap();
        let alive = root.path().join("alive");
        rustix::fs::mkfifoat(rustix::fs::CWD, &alive, 0o600.into()).unwrap();
        let child = start(&format!("sleep 1000 3>{} & wait", alive.display()));
        // Opens when the grandchild has, and ends when the last of them is gone.
        let mut opened = std::fs::File::open(&alive).unwrap();
        let error = finish(child, "x".repeat(1 << 20), Duration::from_millis(100)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
        assert_eq!(opened.read_to_end(&mut Vec::new()).unwrap(), 0);
    }
}
