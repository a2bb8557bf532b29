//! Published ports, each counted by the packet filter.

use linux::filter::counted::{self, Counted};
use linux::identity::Identity;
use model::{Attachment, Result};
use netlink::{Count, Counters, Socket};

use super::Look;

/// Those of these attachments.
pub(super) fn look<'a>(links: &[&'a Attachment]) -> Result<Vec<Look<'a>>> {
    let all = counted::read(&mut Socket::netfilter()?)?;
    let mut looks = Vec::new();
    for link in links {
        let digits = Identity::of(&link.id).digits();
        let own = all.iter().filter(|counted| counted.digits == digits);
        looks.extend(own.map(|counted| Look {
            link,
            port: Some(format!("{}/{}", counted.port, counted.protocol)),
            counters: counters(counted),
        }));
    }
    Ok(looks)
}

fn counters(counted: &Counted) -> Counters {
    let count = |(packets, bytes)| Count { packets, bytes, ..Count::default() };
    Counters { receive: count(counted.received), transmit: count(counted.sent) }
}
