//! The traffic of containers: `spoke top`, `spoke flows`, `spoke capture`.

mod addresses;
mod capture;
mod flows;
mod known;
mod port;
mod screen;
mod summary;
mod top;
pub(crate) mod unit;

use std::io::Write;

use model::Result;

use crate::answer::Answer;
use crate::args::TrafficCommand;
use crate::context::CommandContext;
use crate::output::Output;

pub(crate) fn run(
    command: &TrafficCommand,
    output: Output,
    context: &CommandContext,
    out: &mut dyn Write,
) -> Result<Answer> {
    match command {
        TrafficCommand::Top(wanted) => top::run(wanted, output, context, out),
        TrafficCommand::Flows(wanted) => flows::run(wanted, output, context, out),
        TrafficCommand::Capture(wanted) => capture::run(wanted, output, context, out),
    }
}
