//! Telling Neutron whose ports are. A thread of its own: containers run already, and whoever looks at
//! Neutron should not have to wait for ports that are being made.

use std::os::fd::AsFd;
use std::time::Duration;

use model::{Error, Result};
use neutron::Neutron;
use neutron::naming::{Clerk, Lost, Round};
use neutron::stock::Woken;

use super::{AGAIN, Daemon};
use crate::config::Level;
use crate::event::{Event, What};
use crate::host;

/// Tells Neutron whatever is written down, until the daemon stops.
pub(super) fn keep(daemon: &Daemon, neutron: &Neutron) {
    let mut is_told = false;
    loop {
        match serve(daemon, neutron) {
            Ok(()) => return,
            Err(error) if !is_told => daemon.journal.failed("naming Neutron's ports", &error),
            Err(_) => {}
        }
        is_told = true;
        if daemon.sleep(AGAIN) {
            return;
        }
    }
}

fn serve(daemon: &Daemon, neutron: &Neutron) -> Result<()> {
    let bell = neutron.naming_bell()?;
    let mut clerk: Option<Clerk<'_>> = None;
    let mut is_troubled = false;
    loop {
        if clerk.is_none() {
            // Another daemon of this host may be ending.
            clerk = neutron.clerk()?;
        }
        let next = match &mut clerk {
            Some(clerk) => {
                let round = clerk.round(&|| daemon.sleep(Duration::ZERO));
                report(daemon, &round, &mut is_troubled);
                round.next
            }
            None => AGAIN,
        };
        if bell.wait(daemon.stop.as_fd(), next)? == Woken::Stopped {
            return Ok(());
        }
    }
}

/// Trouble is told when it begins and when it ends.
fn report(daemon: &Daemon, round: &Round, is_troubled: &mut bool) {
    let journal = &daemon.journal;
    for lost in &round.lost {
        let event = Event::new(What::Failed, host::now(), told(lost));
        journal.tell(&event.to(&lost.of));
    }
    if round.named > 0 {
        let message = format!("{} of Neutron's ports have their names", round.named);
        journal.log.say(Level::Debug, &message, &[]);
    }
    match round.failures.first() {
        Some(error) if !*is_troubled => {
            *is_troubled = true;
            journal.failed("naming Neutron's ports", error);
        }
        Some(error) => journal.log.say(Level::Debug, &Error::to_string(error), &[]),
        None if *is_troubled && round.named > 0 => {
            *is_troubled = false;
            journal.log.say(Level::Info, "Neutron's ports have their names again", &[]);
        }
        None => {}
    }
}

fn told(lost: &Lost) -> String {
    let Lost { port, of } = lost;
    format!(
        "somebody deleted port {port} in Neutron: {of} reaches nobody until it is started again"
    )
}
