//! Why one container does not reach another.
//!
//! The way of a packet is followed hop by hop, from the kernel's own state and the address book:
//! nothing is executed, changed or sent. [`walk()`] is pure: it asks the kernel through the port
//! [`Kernel`], which [`Netlink`] implements. What is not understood is said to be so.

mod frozen;
mod judge;
mod netlink_kernel;
mod packet;
mod port;
mod rules;
mod tri;
mod walk;

pub use frozen::Frozen;
pub use judge::judge;
pub use netlink_kernel::Netlink;
pub use packet::{Carried, Device, Packet};
pub use port::{Kernel, Space, Which};
pub use rules::{Author, Filter, Point, RuleLocation, Rules, Ruling, Translation, author};
pub use walk::{
    Bridging, Elsewhere, End, Follows, Hop, Plug, Published, Report, Site, Standing, Status, Trip,
    Verdict, forward, walk,
};
