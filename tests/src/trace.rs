//! Which system calls a plugin made.

use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::{Answer, Cni, Moment, World};

/// The system calls of a process and its children, in order.
#[derive(Clone, Debug)]
pub struct Trace {
    /// In their order, first the process's own `execve`.
    pub calls: Vec<Call>,
}

/// One system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pid: u32,
    name: String,
    /// What strace(1) shows behind the name.
    arguments: String,
}

impl Trace {
    /// Executes one plugin, and tells what it answered and what it called.
    #[track_caller]
    pub fn of(cni: &Cni<'_>, plugin: &str, verb: &str, stdin: &str) -> (Answer, Self) {
        let file = file();
        let over = ["/usr/bin/strace", "-f", "-qq", "-o", &file];
        let answer = cni.execute_under(&over, plugin, verb, stdin);
        (answer, Self::read(cni.world, &file))
    }

    /// Executes one command, which succeeds, and tells what it called.
    #[track_caller]
    pub fn of_command(world: &World, command: &str) -> Self {
        let file = file();
        world.sh(&format!("/usr/bin/strace -f -qq -o {file} {command}"));
        Self::read(world, &file)
    }

    #[track_caller]
    fn read(world: &World, file: &str) -> Self {
        let path = world.path(file);
        let text = fs::read(&path).expect("strace writes (scripts/setup test)");
        fs::remove_file(&path).expect("the trace is ours");
        Self::parse(&String::from_utf8_lossy(&text))
    }

    /// Of all processes together.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether nothing was called, which cannot be.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// How often any of `names` was called, by whomever.
    pub fn count(&self, names: &[&str]) -> usize {
        self.calls.iter().filter(|call| names.contains(&call.name.as_str())).count()
    }

    /// How often `name` was called with these words among what strace(1) shows of it.
    pub fn count_with(&self, name: &str, words: &str) -> usize {
        let is_one = |call: &&Call| call.name == name && call.arguments.contains(words);
        self.calls.iter().filter(is_one).count()
    }

    /// When the process itself, not one of its children, can be killed and leaves something else each time.
    pub fn moments(&self) -> Vec<Moment> {
        let first = self.calls.first().map(|call| call.pid);
        let own = self.calls.iter().filter(|call| Some(call.pid) == first);
        Moment::of(own.map(|call| (&*call.name, &*call.arguments)))
    }

    /// A call that the kernel began again is one call.
    fn parse(text: &str) -> Self {
        let mut calls = Vec::new();
        for line in text.lines() {
            let Some((pid, rest)) = line.split_once(' ') else { continue };
            let Ok(pid) = pid.parse() else { continue };
            let (rest, again) = (rest.trim_start(), rest.contains("= ? ERESTART"));
            if let Some((name, _)) = rest.strip_prefix("<... ").and_then(|it| it.split_once(' ')) {
                let begun = |call: &Call| call.pid == pid && call.name == name;
                if let Some(at) = calls.iter().rposition(begun).filter(|_| again) {
                    calls.remove(at);
                }
                continue;
            }
            let Some((name, arguments)) = rest.split_once('(') else { continue };
            let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            if is_name && !again {
                calls.push(Call { pid, name: name.to_owned(), arguments: arguments.to_owned() });
            }
        }
        Self { calls }
    }
}

/// Inside of a world, for one trace.
fn file() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("/world/trace.{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_was_interrupted_counts_once() {
        let trace = Trace::parse(
            "29    execve(\"x\", [], 0x0) = 0\n\
             30    sendto(8, [{len=(5)}], 52 <unfinished ...>\n\
             29    close(7)                          = 0\n\
             30    <... sendto resumed>)             = 52\n\
             29    write(7, 0x1, 1)                  = ? ERESTARTNOINTR (To be restarted)\n\
             29    read(7,  <unfinished ...>\n\
             29    <... read resumed>0x1, 1)         = ? ERESTARTSYS (To be restarted)\n\
             30    --- SIGPIPE {si_signo=SIGPIPE} ---\n\
             30    +++ exited with 0 +++\n",
        );
        assert_eq!(trace.len(), 3);
        assert_eq!(trace.count(&["sendto", "execve"]), 2);
        let names: Vec<&str> = trace.calls.iter().map(|call| &*call.name).collect();
        assert_eq!(names, ["execve", "sendto", "close"]);
    }
}
