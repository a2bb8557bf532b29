//! Containers of Docker's that the book has not: stopped ones, and those on networks of Docker's own.

use explain::{Hop, Status};

use crate::context::CommandContext;

/// What becomes of a packet from or to one; `None` where no Docker Engine has a container of that name.
pub(super) fn hop(word: &str, context: &CommandContext) -> Option<Hop> {
    let name = ["docker/", "docker:"].iter().find_map(|start| word.strip_prefix(start));
    let name = name.unwrap_or(word);
    Some(match (context.runs)(name)? {
        true => {
            let what = format!(
                "{name} runs in Docker, and Spoke has no record of it by this name: its networks are not Spoke's, or \
                 `spoke ps` has it by another name; of one that has just started, ask again in some seconds"
            );
            Hop { status: Status::Unknown, ..Hop::new("container", what) }
        }
        false => Hop::new("container", format!("{name} is stopped"))
            .fixed(format!("docker start {name}")),
    })
}
