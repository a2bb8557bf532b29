//! Carries out port updates. It is a thread of its own: containers run already, and users of
//! Neutron should not have to wait for ports that are being made.

use std::os::fd::AsFd;
use std::time::Duration;

use config::Level;
use host::event::{Event, What};
use host::time;
use model::{Error, Result};
use neutron::Neutron;
use neutron::notifier::Woken;
use neutron::port_update::{Lost, Round, Worker};

use super::{AGAIN, Daemon};

/// Sends queued port updates to Neutron, until the daemon stops.
pub(super) fn keep(daemon: &Daemon, neutron: &Neutron) {
    let mut is_reported = false;
    loop {
        match serve(daemon, neutron) {
            Ok(()) => return,
            Err(error) if !is_reported => daemon.journal.failed("naming Neutron's ports", &error),
            Err(_) => {}
        }
        is_reported = true;
        if daemon.sleep(AGAIN) {
            return;
        }
    }
}

fn serve(daemon: &Daemon, neutron: &Neutron) -> Result<()> {
    let notifier = neutron.port_update_notifier()?;
    let mut worker: Option<Worker<'_>> = None;
    let mut is_troubled = false;
    loop {
        if worker.is_none() {
            // Another daemon of this host may be ending.
            worker = neutron.worker()?;
        }
        let next = match &mut worker {
            Some(worker) => {
                let round = worker.round(&|| daemon.sleep(Duration::ZERO));
                report(daemon, &round, &mut is_troubled);
                round.next
            }
            None => AGAIN,
        };
        if notifier.wait(daemon.stop.as_fd(), next)? == Woken::Stopped {
            return Ok(());
        }
    }
}

/// A failure is reported when it begins and when it ends.
fn report(daemon: &Daemon, round: &Round, is_troubled: &mut bool) {
    let journal = &daemon.journal;
    for lost in &round.lost {
        let event = Event::new(What::Failed, time::now(), reported(lost));
        journal.report(&event.to(&lost.of));
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

fn reported(lost: &Lost) -> String {
    let Lost { port, of } = lost;
    format!("port {port} was deleted in Neutron: {of} has no network until it is started again")
}
