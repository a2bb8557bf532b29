//! What networks were called before commands renamed them.

use crate::{FormerName, Network, NetworkName};

/// So many former names of a network are known; the oldest one goes.
const MOST: usize = 16;

impl Network {
    /// Calls it so from now on. What it was called until now becomes its newest former name, with this number.
    pub fn entitle(&mut self, called: NetworkName, order: u32) {
        let left = self.called().clone();
        self.title = Some(called);
        self.add_former(left, order);
    }

    /// It was called so until now, or for a while: the newest of its former names.
    pub fn add_former(&mut self, name: NetworkName, order: u32) {
        let known = self.order_of(&name).unwrap_or_default();
        let order = order.max(known).max(1);
        self.former.retain(|former| former.name != name);
        self.former.push(FormerName { name, order });
        self.former.retain(|former| former.name != *self.title.as_ref().unwrap_or(&self.name));
        let over = self.former.len().saturating_sub(MOST);
        self.former.drain(..over);
    }

    /// [`FormerName::order`] of this name; 0 for the name in the book of a network that is called otherwise, whose
    /// rename an earlier version of Spoke did not write down. `None` where it never had the name, or has it now.
    pub fn order_of(&self, name: &NetworkName) -> Option<u32> {
        if self.called() == name {
            return None;
        }
        let former = self.former.iter().find(|former| former.name == *name);
        let in_book = (self.name == *name).then_some(0);
        former.map(|former| former.order).or(in_book)
    }

    /// What it was called before, the newest first.
    pub fn former_names(&self) -> Vec<&NetworkName> {
        let mut names: Vec<_> = self.former.iter().rev().map(|former| &former.name).collect();
        if self.called() != &self.name && !names.contains(&&self.name) {
            names.push(&self.name);
        }
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ipam, Runtime, Timestamp, Wiring};

    fn network() -> Network {
        let name = "front".parse().unwrap();
        Network::new(name, Runtime::Spoke, Timestamp(1), Wiring::default(), Ipam::None)
    }

    fn names(network: &Network) -> Vec<&str> {
        network.former_names().into_iter().map(NetworkName::as_str).collect()
    }

    #[test]
    fn former_names_are_kept_in_their_order() {
        let mut network = network();
        assert_eq!(names(&network), Vec::<&str>::new());
        for next in ["edge", "third", "edge", "last"] {
            network.entitle(next.parse().unwrap(), 1);
        }
        assert_eq!(names(&network), ["edge", "third", "front"]);
        assert_eq!(network.order_of(&"third".parse().unwrap()), Some(1));
        assert_eq!(network.order_of(&"last".parse().unwrap()), None);
        network.entitle("front".parse().unwrap(), 1);
        assert_eq!(names(&network), ["last", "edge", "third"]);
    }

    #[test]
    fn the_oldest_goes_and_the_name_in_the_book_stays() {
        let mut network = network();
        for number in 0..=MOST + 1 {
            network.entitle(format!("n{number}").parse().unwrap(), 1);
        }
        assert_eq!(network.former.len(), MOST);
        assert_eq!(network.order_of(&"n0".parse().unwrap()), None);
        assert_eq!(network.order_of(&"n1".parse().unwrap()), Some(1));
        assert_eq!(network.order_of(&"front".parse().unwrap()), Some(0));
    }

    #[test]
    fn an_earlier_version_has_written_no_former_names() {
        let mut network = network();
        network.title = Some("edge".parse().unwrap());
        assert_eq!(names(&network), ["front"]);
        assert_eq!(network.order_of(&"front".parse().unwrap()), Some(0));
    }
}
