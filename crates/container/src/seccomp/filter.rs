//! A list of calls as a program of the kernel's (`linux/filter.h`, `linux/seccomp.h`).

use super::{Condition, Test};

/// One instruction, as the kernel reads it: `struct sock_filter`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instruction {
    code: u16,
    /// How many instructions are left out if the comparison is true.
    then: u8,
    /// The same if it is false.
    otherwise: u8,
    value: u32,
}

/// A program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Filter(Vec<Instruction>);

const LOAD: u16 = 0x20;
const AND: u16 = 0x54;
const EQUAL: u16 = 0x15;
const GREATER: u16 = 0x25;
const AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;

const ALLOW: u32 = 0x7fff_0000;
const ERROR: u32 = 0x0005_0000;

/// Offsets in `struct seccomp_data`; of its arguments the lower half, on little-endian machines.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;

/// `AUDIT_ARCH_*` (`linux/audit.h`).
#[cfg(target_arch = "x86_64")]
const OURS: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const OURS: u32 = 0xc000_00b7;

impl Instruction {
    fn load(offset: u32) -> Self {
        Self { code: LOAD, then: 0, otherwise: 0, value: offset }
    }

    fn jump(code: u16, value: u32, then: u8, otherwise: u8) -> Self {
        Self { code, then, otherwise, value }
    }

    fn end(value: u32) -> Self {
        Self { code: RETURN, then: 0, otherwise: 0, value }
    }

    fn refuse(errno: i32) -> Self {
        Self::end(ERROR | errno.cast_unsigned())
    }
}

impl Filter {
    /// Allows the calls `numbers`, and those that fulfil their condition. Calls that were added to the
    /// kernel later than all of them are unknown (ENOSYS), so that programs fall back to older ones;
    /// all others are refused (EPERM).
    pub(super) fn new(mut numbers: Vec<u32>, conditions: &[Condition]) -> Self {
        numbers.sort_unstable();
        numbers.dedup();
        let mut program = vec![
            Instruction::load(ARCHITECTURE),
            Instruction::jump(EQUAL, OURS, 1, 0),
            Instruction::refuse(libc::EPERM),
            Instruction::load(NUMBER),
        ];
        conditions.iter().for_each(|condition| conditional(&mut program, condition));
        let clone3 = u32::try_from(libc::SYS_clone3).unwrap_or(u32::MAX);
        // The C library falls back to clone(2), whose flags can be tested.
        program.push(Instruction::jump(EQUAL, clone3, 0, 1));
        program.push(Instruction::refuse(libc::ENOSYS));
        for (first, last) in ranges(&numbers) {
            program.extend([
                Instruction::jump(AT_LEAST, first, 0, 2),
                Instruction::jump(GREATER, last, 2, 0),
                Instruction::end(ALLOW),
                Instruction::refuse(libc::EPERM),
            ]);
        }
        program.push(Instruction::refuse(libc::ENOSYS));
        Self(program)
    }

    /// Its instructions.
    pub(crate) fn instructions(&self) -> &[Instruction] {
        &self.0
    }

    /// The filter's result for a call: the error, or `None` if the call is allowed.
    #[cfg(test)]
    pub(super) fn run(&self, number: u32, arguments: [u64; 6]) -> Option<i32> {
        let (mut at, mut held) = (0, 0_u32);
        loop {
            let Instruction { code, then, otherwise, value } = self.0[at];
            let is_true = match code {
                LOAD => {
                    held = match value {
                        NUMBER => number,
                        ARCHITECTURE => OURS,
                        at => {
                            let argument = arguments[((at - ARGUMENTS) / 8) as usize];
                            u32::try_from(argument & 0xffff_ffff).unwrap()
                        }
                    };
                    true
                }
                AND => {
                    held &= value;
                    true
                }
                EQUAL => held == value,
                GREATER => held > value,
                AT_LEAST => held >= value,
                _ if value == ALLOW => return None,
                _ => return Some((value & 0xffff).cast_signed()),
            };
            at += 1 + usize::from(if is_true { then } else { otherwise });
        }
    }
}

/// The end of `condition`'s call, if this is it.
fn conditional(program: &mut Vec<Instruction>, condition: &Condition) {
    let mut body = Vec::new();
    for (argument, test) in condition.tests {
        body.push(Instruction::load(ARGUMENTS + 8 * u32::from(*argument)));
        refuse_unless(&mut body, *test);
    }
    body.push(Instruction::end(ALLOW));
    let length = u8::try_from(body.len()).unwrap_or(u8::MAX);
    program.push(Instruction::jump(EQUAL, condition.call.number, 0, length));
    program.extend(body);
}

/// Goes on where the argument that was loaded fulfils `test`.
fn refuse_unless(body: &mut Vec<Instruction>, test: Test) {
    match test {
        Test::Is(values) => {
            // Over the other values and the refusal.
            let beyond = (1..=values.len()).rev().map(|left| u8::try_from(left).unwrap_or(u8::MAX));
            let jumps = values.iter().zip(beyond);
            body.extend(jumps.map(|(value, beyond)| Instruction::jump(EQUAL, *value, beyond, 0)));
        }
        Test::IsNot(value) => body.push(Instruction::jump(EQUAL, value, 0, 1)),
        Test::Lacks(bits) => {
            body.push(Instruction::jump(AND, bits, 0, 0));
            body.push(Instruction::jump(EQUAL, 0, 1, 0));
        }
    }
    body.push(Instruction::refuse(libc::EPERM));
}

/// Numbers that follow each other, as first and last.
fn ranges(sorted: &[u32]) -> Vec<(u32, u32)> {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for number in sorted {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => ranges.push((*number, *number)),
        }
    }
    ranges
}
