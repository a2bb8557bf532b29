//! A program as the kernel wants it, and the process that it becomes.

use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use model::{Error, Result};
use rustix::io::{Errno, fcntl_dupfd_cloexec, read, write};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, WaitOptions, chdir, setsid, waitpid};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

use crate::fault::{Class, Doing, Fault};
use crate::privileges::{Privileges, User, assume};
use crate::spec::Process;
use crate::sys::{self, ForkSide, SignalMask};

/// Everything that is needed to become it.
#[derive(Debug)]
pub(crate) struct Program {
    /// Where it may be.
    paths: Vec<CString>,
    args: Vec<CString>,
    env: Vec<CString>,
    cwd: CString,
    user: User,
    privileges: Privileges,
}

/// A process's standard files.
#[derive(Clone, Copy)]
pub(crate) struct Files<'f> {
    pub(crate) input: BorrowedFd<'f>,
    pub(crate) output: BorrowedFd<'f>,
    pub(crate) errors: BorrowedFd<'f>,
}

impl Program {
    pub(crate) fn new(process: &Process, privileges: Privileges) -> Result<Self> {
        let first = process.args.first().filter(|first| !first.is_empty());
        let first = first.ok_or_else(|| Error::invalid("a process needs a program"))?;
        if !process.cwd.is_absolute() {
            let what = format!("working directory {} is not absolute", process.cwd.display());
            return Err(Error::invalid(what));
        }
        Ok(Self {
            paths: candidates(first, process)?,
            args: process.args.iter().map(|arg| joined(&[arg])).collect::<Result<_>>()?,
            env: process
                .env
                .iter()
                .map(|(name, value)| joined(&[name, OsStr::new("="), value]))
                .collect::<Result<_>>()?,
            cwd: joined(&[process.cwd.as_os_str()])?,
            user: User::of(process),
            privileges,
        })
    }

    /// Runs it in a process of its own with `files` and no other, and returns when it runs. Only
    /// for processes with one thread.
    pub(crate) fn spawn(&self, files: Files<'_>) -> Result<Pid, Fault> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).doing("making a pipe")?;
        match sys::fork().doing("making a process")? {
            ForkSide::Child => {
                let _end = sys::EndHere;
                if let Err(fault) = self.run(files, &writer) {
                    // If the starter is gone, there is no receiver.
                    let _ = write(&writer, &fault.to_bytes());
                }
                sys::exit(127);
            }
            ForkSide::Parent(pid) => {
                drop(writer);
                let Some(fault) = heard(&reader) else { return Ok(pid) };
                // It only reaps the child.
                let _ = waitpid(Some(pid), WaitOptions::empty());
                Err(fault)
            }
        }
    }

    fn run(&self, files: Files<'_>, fault: &OwnedFd) -> Result<(), Fault> {
        // It fails only for the leader of a session, which is one already.
        let _ = setsid();
        // Where the starter has closed its own, these may have the numbers 0 to 2.
        let high = |fd: BorrowedFd<'_>| fcntl_dupfd_cloexec(fd, 3).doing("keeping a file");
        let (input, output) = (high(files.input)?, high(files.output)?);
        let (errors, reported) = (high(files.errors)?, high(fault.as_fd())?);
        dup2_stdin(&input).doing("setting standard input")?;
        dup2_stdout(&output).doing("setting standard output")?;
        dup2_stderr(&errors).doing("setting standard error")?;
        sys::close_all_but(&mut [0, 1, 2, reported.as_raw_fd()]);
        let ran = self.become_it();
        // If the starter is gone, there is no receiver.
        let _ = write(&reported, &ran.to_bytes());
        sys::exit(127)
    }

    /// Returns only what went wrong.
    fn become_it(&self) -> Fault {
        sys::reset_signals();
        sys::set_signal_mask(&SignalMask::none());
        if let Err(fault) = assume(&self.user, self.privileges) {
            return fault;
        }
        if let Err(fault) = chdir(&self.cwd).wanted(format_args!("entering {:?}", self.cwd)) {
            return fault;
        }
        let mut worst = Errno::NOENT;
        for path in &self.paths {
            match sys::execute(path, &self.args, &self.env) {
                Errno::NOENT | Errno::NOTDIR => {}
                other => worst = other,
            }
        }
        let class = if worst == Errno::NOENT { Class::Program } else { Class::System };
        Fault::new(class, format_args!("executing {:?}", self.args.first()), worst)
    }
}

fn heard(reader: &OwnedFd) -> Option<Fault> {
    let mut bytes = [0; 1024];
    loop {
        match read(reader, &mut bytes) {
            Ok(0) => return None,
            Ok(length) => return bytes.get(..length).and_then(Fault::of_bytes),
            Err(Errno::INTR) => {}
            Err(errno) => return Some(Fault::new(Class::System, "hearing of a process", errno)),
        }
    }
}

fn candidates(program: &OsStr, process: &Process) -> Result<Vec<CString>> {
    if program.as_bytes().contains(&b'/') {
        return Ok(vec![joined(&[program])?]);
    }
    let path = process.env.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.as_bytes());
    let directories = path.unwrap_or(b"/usr/bin:/bin").split(|byte| *byte == b':');
    directories
        .filter(|directory| directory.starts_with(b"/"))
        .map(|directory| joined(&[OsStr::from_bytes(directory), OsStr::new("/"), program]))
        .collect()
}

fn joined(parts: &[&OsStr]) -> Result<CString> {
    let bytes: Vec<u8> = parts.iter().flat_map(|part| part.as_bytes()).copied().collect();
    CString::new(bytes).map_err(|error| {
        Error::invalid("an argument, variable or path holds a zero byte").because(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Privileges = Privileges { capabilities: Some(0), no_new_privileges: true };

    #[test]
    fn a_program_is_looked_for_in_its_own_path() {
        let mut process = Process::new(["ip"]);
        process.env = vec![("PATH".into(), "/a::b:/c/d".into())];
        let program = Program::new(&process, NONE).unwrap();
        assert_eq!(program.paths, [c"/a/ip".to_owned(), c"/c/d/ip".to_owned()]);
        process.args = vec!["./ip".into()];
        assert_eq!(Program::new(&process, NONE).unwrap().paths, [c"./ip".to_owned()]);
    }

    #[test]
    fn what_the_kernel_cannot_take_is_refused() {
        for process in [
            Process::new([""; 0]),
            Process::new([""]),
            Process::new(["a\0b"]),
            Process { cwd: "tmp".into(), ..Process::new(["a"]) },
        ] {
            let error = Program::new(&process, NONE).unwrap_err();
            assert_eq!(error.kind(), model::Kind::Invalid, "{error}");
        }
    }
}
