//! The filter of what a machine asks about its own interface.

use crate::sys::Instruction;

const LOAD: u16 = 0x20;
const LOAD_HALF: u16 = 0x28;
const LOAD_BYTE: u16 = 0x30;
const LOAD_HALF_BEHIND: u16 = 0x48;
const LENGTH_OF_HEADER: u16 = 0xb1;
const AND: u16 = 0x54;
const EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;
/// Where the kernel says to whom a packet goes (`SKF_AD_PKTTYPE`), and that it goes out.
const DIRECTION: u32 = 0xffff_f000 + 4;
const OUTGOING: u32 = 4;

/// Classic BPF from the network header on: what comes in, and is a datagram to a server of DHCP or DHCPv6,
/// or a router solicitation.
pub(super) fn filter() -> Vec<Instruction> {
    let step = |code, value| Instruction { code, yes: 0, no: 0, value };
    let equal = |value, yes, no| Instruction { code: EQUAL, yes, no, value };
    vec![
        step(LOAD, DIRECTION),
        equal(OUTGOING, 20, 0),
        step(LOAD_BYTE, 0),
        step(AND, 0xf0),
        equal(0x40, 0, 8),
        step(LOAD_BYTE, 9),
        equal(17, 0, 15),
        step(LOAD_HALF, 6),
        step(AND, 0x3fff),
        equal(0, 0, 12),
        step(LENGTH_OF_HEADER, 0),
        step(LOAD_HALF_BEHIND, 2),
        equal(67, 8, 9),
        equal(0x60, 0, 8),
        step(LOAD_BYTE, 6),
        equal(17, 0, 2),
        step(LOAD_HALF, 42),
        equal(547, 3, 4),
        equal(58, 0, 3),
        step(LOAD_BYTE, 40),
        equal(133, 0, 1),
        step(RETURN, 0x4_0000),
        step(RETURN, 0),
    ]
}
