//! Routes that bear the mark of the program that made them (`rtm_protocol`).

use std::collections::BTreeSet;

use model::{Family, Result};

use super::{
    DUMP, Errno, GET, HEADER, MAIN, NEW, NOWHERE, Route, UNICAST, describe, header, read, rta,
    sentence,
};
use crate::Socket;
use crate::address::family;
use crate::wire::{Batch, CREATE, REPLACE, array};

/// The mark of routes between the hosts of a cluster: none of `linux/rtnetlink.h` and of the usual `rt_protos`. They lead
/// to containers of Spoke's on other hosts.
pub const OF_HOSTS: u8 = 83;

impl Batch {
    /// Adds a route with this mark, in place of one to the same destination; returns the message's index.
    /// ENETUNREACH if the gateway is not on a link that is up.
    pub fn set_marked_route(&mut self, route: &Route, mark: u8) -> usize {
        let about = format!("setting {}", sentence(route));
        let mut request = self.request(NEW, CREATE | REPLACE, about);
        request.bytes(&header(route, [mark, route.scope, UNICAST]));
        describe(&mut request, route);
        self.count() - 1
    }

    /// Deletes a route with this mark; returns the message's index. ESRCH if there is none.
    pub fn delete_marked_route(&mut self, route: &Route, mark: u8) -> usize {
        let about = format!("deleting {}", sentence(route));
        let mut request = self.request(super::DELETE, 0, about);
        request.bytes(&header(route, [mark, NOWHERE, 0]));
        describe(&mut request, route);
        self.count() - 1
    }
}

/// `RTPROT_RA`: the kernel's mark of what it learned from routers of IPv6 (RFC 4861 section 4.2, RFC 4191).
const OF_ROUTERS: u8 = 9;

impl Socket {
    /// The indices of the links by which routers of IPv6 have given routes to this namespace, in any table.
    ///
    /// # Errors
    /// As [`Socket::dump`].
    pub fn led_by_routers(&mut self) -> Result<BTreeSet<u32>> {
        let mut batch = Batch::new();
        let mut head = [0; HEADER];
        head[0] = family(Family::V6);
        head[5] = OF_ROUTERS;
        batch.request(GET, DUMP, "listing routes of routers").bytes(&head);
        let routes = self.dump(&mut batch, &[Errno::NOENT], |message| {
            let [protocol] = array(message.payload, 5)?;
            read(message).filter(|_| protocol == OF_ROUTERS)
        })?;
        Ok(routes.into_iter().filter_map(|route| route.link).collect())
    }

    /// Of routes of the main table those that are not between the hosts of a cluster.
    ///
    /// # Errors
    /// As [`Socket::dump`].
    pub fn besides_hosts(&mut self, of: Family, mut routes: Vec<Route>) -> Result<Vec<Route>> {
        let between = self.marked_routes(of, OF_HOSTS)?;
        routes.retain(|route| !between.contains(route));
        Ok(routes)
    }

    /// The routes of the main table that have this mark.
    ///
    /// # Errors
    /// As [`Socket::dump`].
    pub fn marked_routes(&mut self, of: Family, mark: u8) -> Result<Vec<Route>> {
        let mut batch = Batch::new();
        let mut head = [0; HEADER];
        head[0] = family(of);
        // A kernel that checks requests strictly selects by these; others list everything.
        head[5] = mark;
        batch.request(GET, DUMP, "listing routes").bytes(&head).u32(rta::TABLE, MAIN);
        self.dump(&mut batch, &[Errno::NOENT], |message| {
            let [protocol] = array(message.payload, 5)?;
            read(message).filter(|route| protocol == mark && route.table == MAIN)
        })
    }
}
