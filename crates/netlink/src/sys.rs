//! The system calls that `rustix` does not wrap.

pub(crate) mod capture;
mod mark;
pub(crate) mod ring;

use std::os::fd::{AsFd, AsRawFd, RawFd};

use model::{IfName, Mac};
use rustix::io::Errno;

pub use mark::set_mark;

/// A boolean option of a netlink socket (netlink(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum SocketOption {
    /// `NETLINK_CAP_ACK`: an error does not repeat the request.
    CapAck = 10,
    /// `NETLINK_EXT_ACK`: an error says what is wrong.
    ExtAck = 11,
    /// `NETLINK_GET_STRICT_CHK`: a dump's header filters, and what the kernel does not know is
    /// refused.
    StrictCheck = 12,
}

/// Switches `option` on.
pub(crate) fn enable(socket: impl AsFd, option: SocketOption) -> Result<(), Errno> {
    set_option(socket, (libc::SOL_NETLINK, option as libc::c_int), 1)
}

/// Sets a number that is an option of a socket (setsockopt(2)).
#[allow(unsafe_code)]
fn set_option(
    socket: impl AsFd,
    (level, option): (libc::c_int, libc::c_int),
    value: u32,
) -> Result<(), Errno> {
    let length = libc::socklen_t::try_from(size_of_val(&value)).map_err(|_| Errno::INVAL)?;
    // SAFETY: the descriptor is borrowed for the whole call, and the kernel reads `length` bytes
    // of `value`, which is alive and that long.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            length,
        )
    };
    if result == 0 { Ok(()) } else { Err(last()) }
}

/// Fills `value` with what a socket's option is (getsockopt(2)); its bytes are the question too.
#[allow(unsafe_code)]
pub(crate) fn get_option(
    socket: impl AsFd,
    (level, option): (libc::c_int, libc::c_int),
    value: &mut [u8],
) -> Result<(), Errno> {
    let mut length = libc::socklen_t::try_from(value.len()).map_err(|_| Errno::INVAL)?;
    // SAFETY: the descriptor is borrowed for the whole call; the kernel reads and writes at most
    // `length` bytes of `value`, which is that long, initialized and not shared.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            value.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result == 0 { Ok(()) } else { Err(last()) }
}

fn last() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// Which kind of namespace `namespace` is: one of `CLONE_NEW*` (ioctl_nsfs(2)).
#[allow(unsafe_code)]
pub(crate) fn namespace_type(namespace: impl AsFd) -> Result<libc::c_int, Errno> {
    // SAFETY: the descriptor is borrowed for the whole call, and NS_GET_NSTYPE takes no argument.
    let kind = unsafe { libc::ioctl(namespace.as_fd().as_raw_fd(), libc::NS_GET_NSTYPE) };
    if kind < 0 { Err(last()) } else { Ok(kind) }
}

/// Attaches an open `/dev/net/tun` to a device (`TUNSETIFF`); `request` is a `struct ifreq`.
#[allow(unsafe_code)]
pub(crate) fn tun_set_interface(driver: impl AsFd, request: &[u8; 40]) -> Result<(), Errno> {
    let mut request = *request;
    // SAFETY: the descriptor is borrowed for the whole call; the kernel reads and writes a `struct
    // ifreq`, which is not longer than `request`, which is valid and not shared.
    let result = unsafe {
        libc::ioctl(driver.as_fd().as_raw_fd(), libc::TUNSETIFF as _, request.as_mut_ptr())
    };
    if result < 0 { Err(last()) } else { Ok(()) }
}

/// A number of a device that an open `/dev/net/tun` is attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TunSetting {
    /// The user that may open it.
    Owner,
    /// Which group may.
    Group,
    /// Whether it stays while no program has it open.
    Persist,
}

/// Sets a number of a device (`TUNSETOWNER`, `TUNSETGROUP`, `TUNSETPERSIST`).
#[allow(unsafe_code)]
pub(crate) fn tun_set(driver: impl AsFd, setting: TunSetting, value: u32) -> Result<(), Errno> {
    let request = match setting {
        TunSetting::Owner => libc::TUNSETOWNER,
        TunSetting::Group => libc::TUNSETGROUP,
        TunSetting::Persist => libc::TUNSETPERSIST,
    };
    // SAFETY: the descriptor is borrowed for the whole call, and these take a number, no pointer.
    let result = unsafe {
        libc::ioctl(driver.as_fd().as_raw_fd(), request as _, libc::c_ulong::from(value))
    };
    if result < 0 { Err(last()) } else { Ok(()) }
}

/// One of ethtool's commands about a number of a link (`SIOCETHTOOL`, `struct ethtool_value`); the
/// number afterwards.
#[allow(unsafe_code)]
pub(crate) fn ethtool(
    socket: impl AsFd,
    link: &IfName,
    command: u32,
    value: u32,
) -> Result<u32, Errno> {
    let mut reported = [command, value];
    let mut request = libc::ifreq {
        ifr_name: [0; libc::IFNAMSIZ],
        ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_data: reported.as_mut_ptr().cast() },
    };
    // A name is shorter than its room, which ends with a zero therefore.
    for (to, from) in request.ifr_name.iter_mut().zip(link.as_str().bytes()) {
        *to = from as libc::c_char;
    }
    // SAFETY: the descriptor is borrowed for the whole call; the kernel reads and writes a `struct
    // ifreq`, and through its pointer a `struct ethtool_value` of two numbers, both of which are
    // valid and not shared.
    let result = unsafe {
        libc::ioctl(socket.as_fd().as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request)
    };
    if result < 0 { Err(last()) } else { Ok(reported[1]) }
}

/// Moves the calling thread, and no other, into a new network namespace.
#[allow(unsafe_code)]
pub(crate) fn unshare_network() -> Result<(), Errno> {
    // SAFETY: CLONE_NEWNET changes nothing but which network namespace the calling thread is in;
    // memory, descriptors and the other threads stay as they are.
    let result = unsafe { libc::unshare(libc::CLONE_NEWNET) };
    if result == 0 { Ok(()) } else { Err(last()) }
}

/// The side on which [`fork`] returned.
pub(crate) enum ForkSide {
    /// The new process. It must end with [`exit`], whatever happens.
    Child,
    /// The calling process.
    Parent,
}

/// Splits the process in two (fork(2)). Of several threads only the calling one continues in the
/// child.
#[allow(unsafe_code)]
pub(crate) fn fork() -> Result<ForkSide, Errno> {
    // SAFETY: the child is a copy of a process with one thread, so that no lock is held by a
    // thread that it lacks; `reap` demands that. Where there are more threads, the C library
    // makes its allocator usable in the child, and nothing else that `reap` does there locks.
    match unsafe { libc::fork() } {
        0 => Ok(ForkSide::Child),
        pid if pid > 0 => Ok(ForkSide::Parent),
        _ => Err(last()),
    }
}

/// Ends the process at once: no destructor, no exit handler, nothing flushed twice.
#[allow(unsafe_code)]
pub(crate) fn exit() -> ! {
    // SAFETY: ends the process, whatever its state.
    unsafe { libc::_exit(0) }
}

/// Closes every file of a process that was just forked, except `kept` (`close_range(2)`). Whatever
/// owns the others must not be used or dropped any more: only a child that ends without returning
/// into its caller may call this.
pub fn close_all_but(kept: &mut [RawFd]) {
    kept.sort_unstable();
    let mut first = 0;
    for fd in kept {
        let fd = u32::try_from(*fd).unwrap_or(0);
        if fd > first {
            close_range(first, fd - 1);
        }
        first = fd + 1;
    }
    close_range(first, u32::MAX);
}

#[allow(unsafe_code)]
fn close_range(first: u32, last: u32) {
    // SAFETY: closing has no precondition on memory; that the owners of these descriptors are
    // never used again is what `close_all_but` demands of the child that it is for.
    unsafe {
        if libc::syscall(libc::SYS_close_range, first, last, 0) == 0 {
            return;
        }
        // Before Linux 5.9.
        for fd in first..=last.min(4096) {
            libc::close(fd.cast_signed());
        }
    }
}

/// One step of a socket's filter (`struct sock_filter`, `linux/filter.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instruction {
    pub(crate) code: u16,
    /// How many steps are passed over where a comparison holds, and where not.
    pub(crate) yes: u8,
    pub(crate) no: u8,
    pub(crate) value: u32,
}

/// Lets `socket` receive only what `filter` accepts (socket(7), SO_ATTACH_FILTER).
#[allow(unsafe_code)]
pub(crate) fn attach_filter(socket: impl AsFd, filter: &[Instruction]) -> Result<(), Errno> {
    let mut steps: Vec<libc::sock_filter> = filter
        .iter()
        .map(|step| libc::sock_filter { code: step.code, jt: step.yes, jf: step.no, k: step.value })
        .collect();
    let program = libc::sock_fprog {
        len: u16::try_from(steps.len()).map_err(|_| Errno::INVAL)?,
        filter: steps.as_mut_ptr(),
    };
    let length = libc::socklen_t::try_from(size_of_val(&program)).map_err(|_| Errno::INVAL)?;
    // SAFETY: the descriptor is borrowed for the whole call, and the kernel reads `length` bytes of
    // `program` and as many steps as it says, all of which are alive.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            length,
        )
    };
    if result == 0 { Ok(()) } else { Err(last()) }
}

/// A link, and a station on it (packet(7)).
pub(crate) struct LinkAddress(libc::sockaddr_ll);

impl LinkAddress {
    /// Packets of `protocol`, an Ethernet type, on the link with this index.
    pub(crate) fn new(link: u32, protocol: u16) -> Self {
        Self(libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: protocol.to_be(),
            sll_ifindex: link.cast_signed(),
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        })
    }

    /// For one station.
    pub(crate) fn to(mut self, station: Mac) -> Self {
        self.0.sll_halen = 6;
        self.0.sll_addr[..6].copy_from_slice(&station.octets());
        self
    }
}

const LINK_ADDRESS: libc::socklen_t = size_of::<libc::sockaddr_ll>() as libc::socklen_t;

/// Binds a packet socket (bind(2)).
#[allow(unsafe_code)]
pub(crate) fn bind_link(socket: impl AsFd, address: &LinkAddress) -> Result<(), Errno> {
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the descriptor is borrowed for the whole call, and the kernel reads an address of the
    // length that it has.
    let result = unsafe { libc::bind(fd, (&raw const address.0).cast(), LINK_ADDRESS) };
    if result == 0 { Ok(()) } else { Err(last()) }
}

/// Sends on a packet socket (sendto(2)).
#[allow(unsafe_code)]
pub(crate) fn send_link(
    socket: impl AsFd,
    packet: &[u8],
    address: &LinkAddress,
) -> Result<(), Errno> {
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the descriptor is borrowed for the whole call, and the kernel reads a packet and an
    // address of the lengths that they have.
    let sent = unsafe {
        libc::sendto(
            fd,
            packet.as_ptr().cast(),
            packet.len(),
            libc::MSG_DONTWAIT,
            (&raw const address.0).cast(),
            LINK_ADDRESS,
        )
    };
    if sent < 0 { Err(last()) } else { Ok(()) }
}

/// Receives on a packet socket, without waiting (recvfrom(2)): how many bytes of `buffer` there are
/// now, and the sender's hardware address.
#[allow(unsafe_code)]
pub(crate) fn receive_link(
    socket: impl AsFd,
    buffer: &mut [u8],
) -> Result<(usize, Option<Mac>), Errno> {
    let mut from = LinkAddress::new(0, 0);
    let mut length = LINK_ADDRESS;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the descriptor is borrowed for the whole call; the kernel writes at most the buffer's
    // length into it, and at most `length` bytes of an address, which is plain numbers.
    let received = unsafe {
        libc::recvfrom(
            fd,
            buffer.as_mut_ptr().cast(),
            buffer.len(),
            libc::MSG_DONTWAIT,
            (&raw mut from.0).cast(),
            &raw mut length,
        )
    };
    let received = usize::try_from(received).map_err(|_| last())?;
    let mac = from.0.sll_addr.first_chunk().filter(|_| from.0.sll_halen == 6);
    Ok((received, mac.map(|octets| Mac::new(*octets))))
}
