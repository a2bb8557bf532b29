//! Ports that have nothing to decide.

use std::time::Duration;

use engine::Members;
use engine::port::{Granted, Host, Ipam, Occupied};
use model::{Attachment, Network, Process, Result, Timestamp};

/// A host with one process, which does not end, at a time that stands still.
#[derive(Clone, Copy, Debug)]
pub struct OneProcess(pub Timestamp);

impl Host for OneProcess {
    fn me(&self) -> Process {
        Process { pid: 1, start: 1 }
    }

    fn now(&self) -> Timestamp {
        self.0
    }

    fn is_running(&self, _: &Process) -> bool {
        true
    }

    fn occupied(&self) -> Result<Vec<Occupied>> {
        Ok(Vec::new())
    }

    fn wait_for_end(&self, _: &Process, _: Duration) -> bool {
        false
    }
}

/// No source of addresses beside the book.
#[derive(Clone, Copy, Debug)]
pub struct BookOnly;

impl Ipam for BookOnly {
    fn lease(&self, _: &Attachment) -> Result<Granted> {
        Ok(Granted::Chosen)
    }

    fn release(&self, _: &Attachment) -> Result<()> {
        Ok(())
    }

    fn check(&self, _: &Attachment) -> Result<()> {
        Ok(())
    }

    fn gc(&self, _: &Network, _: &Members) -> Result<()> {
        Ok(())
    }

    fn status(&self, _: &Network) -> Result<()> {
        Ok(())
    }

    fn remove(&self, _: &Network) -> Result<()> {
        Ok(())
    }
}

/// Implements [`engine::port::HostDataplane`] for a dataplane on which nothing is left over.
#[macro_export]
macro_rules! no_strays {
    ($dataplane:ty) => {
        impl engine::port::HostDataplane for $dataplane {
            fn strays(
                &self,
                _: &dyn Fn() -> model::Result<Vec<model::Attachment>>,
            ) -> model::Result<Vec<(engine::port::Stray, engine::port::Presence)>> {
                Ok(Vec::new())
            }

            fn remove_stray(&self, _: &engine::port::Stray) -> model::Result<()> {
                Ok(())
            }
        }
    };
}
