//! The host's own routers of IPv6, of which it hears by advertisements (RFC 4861).
//!
//! A host that begins to forward forgets every route that a router gave it, and hears no more of them, but where
//! `accept_ra` is 2 (the kernel's `ip-sysctl`). So that becomes 2 before on each interface that has such a route,
//! and 1 again once the host forwards no more. The interface's [`Tag`] says that it was 1. An interface whose
//! number another program uses keeps 2.

use model::{Family, Kind, Result};
use netlink::{Link, Links, Socket, sysctl};

use super::{of_all, parameter};
use crate::identity::is_ours_by;
use crate::tag::Tag;

/// For before the host forwards IPv6.
pub(super) fn keep(route: &mut Socket) -> Result<()> {
    let led = route.led_by_routers()?;
    if led.is_empty() {
        return Ok(());
    }
    for link in route.links(Links::default())? {
        if led.contains(&link.index) && !is_ours_by(link.group) && hears_as_host(&link) {
            keep_of(&link)?;
        }
    }
    Ok(())
}

fn hears_as_host(link: &Link) -> bool {
    let is = |name, wanted| sysctl::read(name).is_ok_and(|value| value == wanted);
    is(accept(link), "1") && is(parameter(Family::V6, link.name.as_str()), "0")
}

fn keep_of(link: &Link) -> Result<()> {
    if let Some(tag) = Tag::read(&link.name) {
        // Where that cannot be written, the parameter cannot either, and that error says more.
        drop(Tag { keeps_routers: true, ..tag }.write(&link.name));
    }
    unless_gone(sysctl::write(accept(link), "2")).map_err(|error| {
        let what = format!("keeping the route that a router gave {}", link.name);
        error.context(what)
    })
}

/// An interface that is gone has nothing to change.
fn unless_gone(written: Result<()>) -> Result<()> {
    match written {
        Err(error) if error.kind() == Kind::NotFound => Ok(()),
        written => written,
    }
}

/// For after the host has stopped forwarding because of Spoke. Where its administrator took over, the routes stay as
/// they are.
pub(super) fn give_back(route: &mut Socket) -> Result<()> {
    let forwards = !sysctl::read(of_all(Family::V6)).is_ok_and(|on| on == "0");
    for link in route.links(Links::default())? {
        let Some(tag) = Tag::read(&link.name).filter(|tag| tag.keeps_routers) else { continue };
        if !forwards && sysctl::read(accept(&link)).is_ok_and(|value| value == "2") {
            unless_gone(sysctl::write(accept(&link), "1"))?;
        }
        unless_gone(Tag { keeps_routers: false, ..tag }.write(&link.name))?;
    }
    Ok(())
}

fn accept(link: &Link) -> String {
    format!("net/ipv6/conf/{}/accept_ra", link.name)
}
