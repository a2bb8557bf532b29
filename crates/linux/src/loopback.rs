//! The loopback device of a sandbox.

use model::Result;
use netlink::{Netns, Socket};

use crate::apply::Hands;
use crate::plan::Step;

/// Sets the device up.
pub(crate) fn up(sandbox: &Netns) -> Result<()> {
    apply(sandbox, Step::Up("lo".parse()?))
}

/// Sets the device down.
pub(crate) fn down(sandbox: &Netns) -> Result<()> {
    apply(sandbox, Step::Down("lo".parse()?))
}

fn apply(sandbox: &Netns, step: Step) -> Result<()> {
    sandbox.enter(|| Hands::new(&mut Socket::route()?, None).apply(&[step]))?
}
