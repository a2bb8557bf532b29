//! The main process of a container that has none, where an OCI runtime wants one.

use model::{Error, Result};

/// Where the program is seen in the container.
pub(crate) const PATH: &str = "/.spoke-idle";

/// Blocks SIGTERM and SIGINT, waits for either, and exits with 0, for x86-64.
const CODE: [u8; 50] = [
    0x68, 0x02, 0x40, 0x00, 0x00, // push 0x4002: the set
    0x48, 0x89, 0xe6, // mov rsi, rsp
    0x31, 0xff, // xor edi, edi: SIG_BLOCK
    0x31, 0xd2, // xor edx, edx
    0x6a, 0x08, 0x41, 0x5a, // push 8; pop r10
    0xb8, 0x0e, 0x00, 0x00, 0x00, 0x0f, 0x05, // rt_sigprocmask
    0x48, 0x89, 0xe7, // again: mov rdi, rsp
    0x31, 0xf6, // xor esi, esi
    0x31, 0xd2, // xor edx, edx
    0xb8, 0x80, 0x00, 0x00, 0x00, 0x0f, 0x05, // rt_sigtimedwait
    0x85, 0xc0, // test eax, eax
    0x78, 0xee, // js again
    0x31, 0xff, // xor edi, edi
    0xb8, 0x3c, 0x00, 0x00, 0x00, 0x0f, 0x05, // exit
];

/// An executable that waits for the signal to end (elf(5)): an image need not bring one.
pub(crate) fn program() -> Result<Vec<u8>> {
    if !cfg!(target_arch = "x86_64") {
        let what = "a container without a main process with an OCI runtime, on this processor";
        return Err(Error::unsupported(what));
    }
    const HEADERS: u64 = 64 + 56;
    const AT: u64 = 0x40_0000;
    let length = HEADERS + CODE.len() as u64;
    let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let half = |values: &[u16]| values.iter().flat_map(|it| it.to_le_bytes()).collect::<Vec<_>>();
    // An executable for x86-64, with one program header and no section.
    let (kind, rest) = (half(&[2, 62, 1, 0]), half(&[64, 56, 1, 64, 0, 0]));
    file.extend(kind);
    for value in [AT + HEADERS, 64, 0] {
        file.extend(value.to_le_bytes());
    }
    file.extend([0; 4]);
    file.extend(rest);
    // All of it is loaded, to be read and executed.
    file.extend(half(&[1, 0, 5, 0]));
    for value in [0, AT, AT, length, length, 0x1000] {
        file.extend(value.to_le_bytes());
    }
    file.extend(CODE);
    Ok(file)
}
