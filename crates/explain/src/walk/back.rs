//! The answer, and where it goes.

use super::{Arrived, End, Hop, Walked, Walker};
use crate::packet::Packet;
use crate::rules::Author;

impl Walker<'_> {
    /// The answer to what has arrived.
    pub(super) fn answers(&mut self, arrived: &Arrived, packet: &Packet) -> Walked<()> {
        self.is_back = true;
        let mut answer = Packet {
            source: packet.destination,
            destination: packet.source,
            is_reply: true,
            mark: Some(0),
            macs: None,
            input: None,
            output: None,
            ..packet.clone()
        };
        let come = match (arrived, &self.trip.to) {
            (Arrived::Container, _) => {
                let Some(site) = self.receiver(packet.destination) else { return Ok(()) };
                let site = site.clone();
                self.leave(&site, &mut answer)?
            }
            (Arrived::Host, _) => self.sent_by_host(&mut answer)?,
            // Any host out there.
            (Arrived::Beyond, _) => {
                answer.is_dnat = packet.is_dnat;
                self.comes_from_outside(&mut answer)?
            }
        };
        self.comes_back(&come, &answer)?;
        self.is_back = false;
        self.ok("back", "the answer finds its way back");
        Ok(())
    }

    /// That the answer has come to who began.
    fn comes_back(&mut self, come: &Arrived, answer: &Packet) -> Walked<()> {
        let goes = match (come, &self.trip.from) {
            (Arrived::Container, End::Container(_))
            | (Arrived::Host, End::Host)
            | (Arrived::Beyond, End::Outside | End::Address(_)) => return Ok(()),
            (Arrived::Container, _) => "to a container",
            (Arrived::Host, _) => "to this host itself",
            (Arrived::Beyond, _) => "out of this host",
        };
        let (to, from) = (answer.destination, self.trip.from.clone());
        let what = format!("the answer to {to} goes {goes}, not back to {from}");
        let hop = match from.site() {
            // Another address of the container's than that of the book.
            Some(site) if !site.has(to) => {
                let what = format!("{from} sends from {to}, which is none of its own: {what}");
                Hop::new("route", what)
            }
            _ => Hop::new("host-route", what).fixed_if(self.onto_its_bridge(to)),
        };
        Err(self.fail(hop.by(Author::Operator)))
    }
}
