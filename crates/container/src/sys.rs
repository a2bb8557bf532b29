//! The system calls that `rustix` does not wrap, or not safely.
//!
//! What runs between [`fork`] and `execve` or [`exit`] may allocate: the C library makes its
//! allocator usable in a forked child. It takes no other lock, touches no thread-local state with a
//! destructor, and does not return into its caller.

use std::ffi::{CStr, CString, c_char};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

pub(crate) use netlink::close_all_but;
use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::UnshareFlags;

use crate::seccomp::Filter;

/// The side on which [`fork`] returned.
pub(crate) enum ForkSide {
    /// The new process, with all signals blocked. It must end with [`exit`], whatever happens.
    Child,
    /// The calling process.
    Parent(Pid),
}

fn last() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

fn done(result: libc::c_long) -> Result<(), Errno> {
    if result < 0 { Err(last()) } else { Ok(()) }
}

/// Splits the process in two (fork(2)). Of several threads only the calling one continues in the
/// child.
#[allow(unsafe_code)]
pub(crate) fn fork() -> Result<ForkSide, Errno> {
    let before = block_signals();
    // SAFETY: only the calling thread continues in the child. What that does keeps to the rules at
    // the top of this file, and no handler of the caller runs there, because all signals are
    // blocked.
    let pid = unsafe { libc::fork() };
    let failure = last();
    if pid == 0 {
        return Ok(ForkSide::Child);
    }
    set_signal_mask(&before);
    Pid::from_raw(pid.max(0)).map(ForkSide::Parent).ok_or(failure)
}

/// As [`fork`], in a process that was forked: the new one is its parent's child, as it is itself.
#[allow(unsafe_code)]
pub(crate) fn fork_sibling() -> Result<ForkSide, Errno> {
    let flags = libc::CLONE_PARENT | libc::SIGCHLD;
    // SAFETY: as in `fork`, whose child has one thread and all signals blocked. No memory is shared
    // and no stack given, so that the child continues with a copy of everything.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
    let failure = last();
    if pid == 0 {
        return Ok(ForkSide::Child);
    }
    let pid = i32::try_from(pid).ok().and_then(|pid| Pid::from_raw(pid.max(0)));
    pid.map(ForkSide::Parent).ok_or(failure)
}

/// Ends the process at once: no destructor, no exit handler, nothing flushed twice.
#[allow(unsafe_code)]
pub(crate) fn exit(code: i32) -> ! {
    // SAFETY: ends the process, whatever its state.
    unsafe { libc::_exit(code) }
}

/// Ends the process where it is dropped: a forked child that panics does not continue as its
/// parent.
pub(crate) struct EndHere;

impl Drop for EndHere {
    fn drop(&mut self) {
        exit(101);
    }
}

/// Moves the calling thread into namespaces of its own.
#[allow(unsafe_code)]
pub(crate) fn unshare(flags: UnshareFlags) -> Result<(), Errno> {
    // SAFETY: callers give flags of namespaces only, never CLONE_FILES, so that no descriptor of
    // another thread is affected.
    unsafe { rustix::thread::unshare_unsafe(flags) }
}

/// Which signals are blocked.
pub(crate) struct SignalMask(libc::sigset_t);

impl SignalMask {
    #[allow(unsafe_code)]
    fn all() -> Self {
        // SAFETY: a set of signals is plain numbers, and `sigfillset` writes nothing else.
        unsafe {
            let mut set = std::mem::zeroed();
            libc::sigfillset(&raw mut set);
            Self(set)
        }
    }

    /// None.
    #[allow(unsafe_code)]
    pub(crate) fn none() -> Self {
        // SAFETY: a set of signals is plain numbers, and `sigemptyset` writes nothing else.
        unsafe {
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            Self(set)
        }
    }
}

/// Blocks all signals for the calling thread; which were blocked before.
#[allow(unsafe_code)]
fn block_signals() -> SignalMask {
    let (all, mut before) = (SignalMask::all(), SignalMask::none());
    // SAFETY: both sets are alive; only the mask of the calling thread changes.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all.0, &raw mut before.0) };
    before
}

/// Lets the calling thread have all signals but those in `mask`.
#[allow(unsafe_code)]
pub(crate) fn set_signal_mask(mask: &SignalMask) {
    // SAFETY: the set is alive; only the mask of the calling thread changes.
    unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const mask.0, std::ptr::null_mut());
    }
}

/// Gives every signal its default effect.
#[allow(unsafe_code)]
pub(crate) fn reset_signals() {
    // The kernel's `struct sigaction`, which is no longer than this: no handler, flag or mask.
    let default = [0_u64; 4];
    for signal in 1..=64 {
        // SAFETY: the default is no function of this program, and the kernel reads an initialised
        // value. The C library would leave out its own signals, which may have been ignored before,
        // too.
        unsafe {
            let none = std::ptr::null_mut::<u64>();
            libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), none, 8);
        }
    }
}

/// Writes as much of `text` as fits over a part of the calling process's memory, which was forked,
/// and zeros over the rest of it.
#[allow(unsafe_code)]
pub(crate) fn overwrite(area: &Range<usize>, text: &[u8]) {
    let text = text.get(..text.len().min(area.len().saturating_sub(1))).unwrap_or_default();
    let at = std::ptr::with_exposed_provenance_mut::<u8>(area.start);
    // SAFETY: the kernel put the arguments and the environment there when the program was executed,
    // on a stack that stays mapped and writable. The forked child has one thread, and reads neither
    // again, because what it executes was prepared before.
    unsafe {
        std::ptr::write_bytes(at, 0, area.len());
        std::ptr::copy_nonoverlapping(text.as_ptr(), at, text.len());
    }
}

/// A descriptor that reports blocked signals, all of them (signalfd(2)).
#[allow(unsafe_code)]
pub(crate) fn signals() -> Result<OwnedFd, Errno> {
    let all = SignalMask::all();
    // SAFETY: the set is valid, and the result is a new descriptor without another owner.
    unsafe {
        let fd = libc::signalfd(-1, &raw const all.0, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        if fd < 0 { Err(last()) } else { Ok(OwnedFd::from_raw_fd(fd)) }
    }
}

/// The signal that [`signals`] reports next.
pub(crate) fn next_signal(signals: impl AsFd) -> Option<i32> {
    let mut reported = [0; size_of::<libc::signalfd_siginfo>()];
    let length = rustix::io::read(signals, &mut reported).ok()?;
    // Its first field is the number.
    let number = reported.first_chunk().filter(|_| length == reported.len())?;
    i32::try_from(u32::from_ne_bytes(*number)).ok()
}

/// Becomes the program at `path` (execve(2)); returns only if that fails.
#[allow(unsafe_code)]
pub(crate) fn execute(path: &CStr, args: &[CString], env: &[CString]) -> Errno {
    let (args, env) = (pointers(args), pointers(env));
    // SAFETY: the path and every string are alive and end with a zero, and both lists end with a
    // null pointer.
    unsafe { libc::execve(path.as_ptr(), args.as_ptr(), env.as_ptr()) };
    last()
}

fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|one| one.as_ptr()).chain([std::ptr::null()]).collect()
}

/// Subjects the calling process and its descendants to `filter` permanently (seccomp(2)).
#[allow(unsafe_code)]
pub(crate) fn filter(filter: &Filter) -> Result<(), Errno> {
    let program = filter.instructions();
    let length = u16::try_from(program.len()).map_err(|_| Errno::TOOBIG)?;
    let program = libc::sock_fprog {
        len: length,
        filter: program.as_ptr().cast::<libc::sock_filter>().cast_mut(),
    };
    // SAFETY: `Instruction` has the layout of `struct sock_filter`; the kernel reads as many of them
    // as there are, and keeps a copy.
    done(unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program)
    })
}

/// `struct mount_attr` (mount_setattr(2)).
#[repr(C)]
pub(crate) struct MountAttributes {
    /// `MOUNT_ATTR_*` to set.
    pub(crate) set: u64,
    /// `MOUNT_ATTR_*` to clear.
    pub(crate) clear: u64,
    /// `MS_PRIVATE` and its like; 0 for as it is.
    pub(crate) propagation: u64,
    /// For `MOUNT_ATTR_IDMAP`.
    pub(crate) user_namespace: u64,
}

/// `MOUNT_ATTR_RDONLY`.
pub(crate) const READ_ONLY: u64 = 1;
/// `MS_PRIVATE`.
pub(crate) const PRIVATE: u64 = libc::MS_PRIVATE;

/// Changes a mount, and with `recursive` all below it (Linux 5.12).
#[allow(unsafe_code)]
pub(crate) fn set_mount(
    mount: impl AsFd,
    recursive: bool,
    attributes: &MountAttributes,
) -> Result<(), Errno> {
    let below = if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the descriptor is borrowed for the whole call, the path is an empty string, and the
    // kernel reads no more bytes of `attributes` than the given length.
    done(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_fd().as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | below,
            std::ptr::from_ref(attributes),
            size_of::<MountAttributes>(),
        )
    })
}
