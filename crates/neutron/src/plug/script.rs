//! Programs of the operator's for VIF types that we do not know, in the place and with the arguments
//! that kuryr-lib 3.5 gives them (`kuryr/lib/binding/drivers/veth.py`).

use std::fs;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use model::{Error, IfName, Kind, Result, ScriptName};
use netlink::{At, Socket};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use serde_json::Value;

use super::{SwitchPort, python};
use crate::config::Plugging;

/// How long a program may take.
const LIMIT: Duration = Duration::from_secs(60);

/// How much of its standard error is kept, in bytes; the rest is read and dropped.
const COMPLAINT: usize = 4 << 10;

/// All that a program finds in its environment: where others are.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Connects the end: `bind PORT IFNAME ENDPOINT MAC NETWORK PROJECT DETAILS`.
pub(super) fn bind(
    switch_port: &SwitchPort<'_>,
    end: &IfName,
    (name, details): (&ScriptName, &str),
    plugging: &Plugging,
) -> Result<()> {
    let file = find(name, plugging)?;
    let mut command = Command::new(file);
    command.args(["bind", switch_port.port.as_str(), end.as_str(), switch_port.device]);
    command.args([
        &switch_port.mac.to_string(),
        switch_port.network.as_str(),
        switch_port.project,
        &reported(details),
    ]);
    run(command, LIMIT)
}

/// The opposite: `unbind PORT IFNAME ENDPOINT MAC DETAILS NETWORK`. A program may fail because
/// there is nothing to do any more: such a failure counts only while the port is connected.
pub(super) fn unbind(
    switch_port: &SwitchPort<'_>,
    end: &IfName,
    (name, details): (&ScriptName, &str),
    plugging: &Plugging,
) -> Result<()> {
    let ended = find(name, plugging).and_then(|file| {
        let mut command = Command::new(file);
        command.args(["unbind", switch_port.port.as_str(), end.as_str(), switch_port.device]);
        command.args([
            &switch_port.mac.to_string(),
            &reported(details),
            switch_port.network.as_str(),
        ]);
        run(command, LIMIT)
    });
    match ended {
        Err(_) if Socket::route()?.link(At::Name(end))?.is_none() => Ok(()),
        ended => ended,
    }
}

/// Details as upstream passes them: in double quotes, and `None` where there are none.
fn reported(details: &str) -> String {
    match serde_json::from_str::<Value>(details) {
        Ok(Value::Object(members)) if !members.is_empty() => {
            format!("\"{}\"", python::repr(&Value::Object(members)))
        }
        _ => "None".to_owned(),
    }
}

fn find(name: &ScriptName, plugging: &Plugging) -> Result<PathBuf> {
    let missing = |reported: String| {
        Error::not_found(format!(
            "VIF type {} needs a program of that name, {reported}",
            name.as_str()
        ))
    };
    let Some(bindir) = &plugging.bindir else {
        return Err(missing("and no directory of such is set (bindir)".to_owned()));
    };
    let file = bindir.join(name.as_str());
    match fs::metadata(&file) {
        Ok(found) if found.is_file() => Ok(file),
        Ok(_) | Err(_) => Err(missing(format!("which is not in {} (bindir)", bindir.display()))),
    }
}

fn run(mut command: Command, limit: Duration) -> Result<()> {
    let reported = format!("executing {}", command.get_program().display());
    command.env_clear().env("PATH", PATH).env("LC_ALL", "C").current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn().map_err(|error| Error::os(reported.clone(), error))?;
    let ended = watch(&mut child, Instant::now() + limit);
    if !matches!(ended, Ok(Some(_))) {
        if let Some(pid) = pid(&child) {
            // It may have ended already.
            let _ = kill_process_group(pid, Signal::KILL);
        }
        let _ = child.wait();
    }
    match ended {
        Ok(Some((status, _))) if status.success() => Ok(()),
        Ok(Some((status, complaint))) => {
            Err(Error::new(Kind::Kernel, format!("{reported}: {status}: {}", complaint.trim())))
        }
        Ok(None) => Err(Error::try_again(format!(
            "{reported}: it took longer than {} s and was killed",
            limit.as_secs()
        ))),
        Err(errno) => Err(Error::os(reported, errno.into())),
    }
}

/// How the child ended, and what it complained of; none where it did not end in time. What it left
/// running may have its standard error open still.
fn watch(child: &mut Child, deadline: Instant) -> Result<Option<(ExitStatus, String)>, Errno> {
    let mut stderr = child.stderr.take();
    let process = pidfd_open(pid(child).ok_or(Errno::SRCH)?, PidfdFlags::empty())?;
    let mut complaint = Vec::new();
    loop {
        let remaining = deadline.saturating_duration_since(Instant::now());
        if remaining.is_zero() {
            return Ok(None);
        }
        let [has_ended, has_sent] = ready(&process, stderr.as_ref(), remaining)?;
        if has_sent && !listen(&mut stderr, &mut complaint) {
            stderr = None;
        }
        if has_ended && !has_sent {
            let status = child.wait().map_err(|_| Errno::CHILD)?;
            return Ok(Some((status, String::from_utf8_lossy(&complaint).into_owned())));
        }
    }
}

/// Whether the process has ended, and whether something can be read.
fn ready(
    process: impl AsFd,
    stderr: Option<&ChildStderr>,
    remaining: Duration,
) -> Result<[bool; 2], Errno> {
    let mut fds = vec![PollFd::from_borrowed_fd(process.as_fd(), PollFlags::IN)];
    fds.extend(stderr.map(|stderr| PollFd::new(stderr, PollFlags::IN)));
    match poll(&mut fds, Timespec::try_from(remaining).ok().as_ref()) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(errno) => return Err(errno),
    }
    let is_ready = |index: usize| fds.get(index).is_some_and(|fd| !fd.revents().is_empty());
    Ok([is_ready(0), is_ready(1)])
}

/// Whether there may be more to come.
fn listen(stderr: &mut Option<ChildStderr>, complaint: &mut Vec<u8>) -> bool {
    let mut buffer = [0; 4096];
    let read = stderr.as_mut().map_or(Ok(0), |stderr| stderr.read(&mut buffer));
    let length = read.unwrap_or(0);
    let room = COMPLAINT.saturating_sub(complaint.len());
    complaint.extend(buffer.iter().take(length.min(room)));
    length > 0
}

fn pid(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

#[cfg(test)]
mod tests;
