//! Connections that are held while something happens.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use tests::World;

const PROGRAM: &str = concat!(include_str!("within.py"), include_str!("flowing.py"));

/// They end with it.
pub(crate) struct Flowing {
    child: Child,
    asked: ChildStdin,
    said: BufReader<ChildStdout>,
}

impl Flowing {
    /// From the first namespace of each to an address in the second one, as paths in the world.
    #[track_caller]
    pub(crate) fn between(world: &World, ends: &[(&str, &str, &str)]) -> Self {
        let mut command = Command::new("python3");
        command.args(["-c", PROGRAM]);
        for (from, to, address) in ends {
            command.arg(world.path(from));
            command.arg(format!("{},{address}", world.path(to).display()));
        }
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = piped.spawn().expect("python3");
        let (asked, said) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut flowing = Self { child, asked, said: BufReader::new(said) };
        flowing.goes_on();
        flowing
    }

    /// That data still arrives, both ways, over each of them.
    #[track_caller]
    pub(crate) fn goes_on(&mut self) {
        self.asked.write_all(b"data\n").expect("the connections are held");
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        assert_eq!(line, "flows\n");
    }
}

impl Drop for Flowing {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
