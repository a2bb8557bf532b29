//! Which system calls a container that is not privileged may make (seccomp(2)): what the engines'
//! default profile allows, less what makes namespaces and mounts. Those engines forbid without
//! `CAP_SYS_ADMIN`; a network plugin has that capability, because entering a network namespace takes
//! it, and nothing else of what it allows.

mod filter;
mod profile;

use serde_json::{Value, json};

pub(crate) use filter::Filter;
use profile::{ALLOWED, OLDER, WITH_CAPABILITY};

use crate::capability::Capability;

/// One system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    /// `SYS_` and its name.
    label: &'static str,
    number: u32,
}

impl Call {
    /// None has a number beyond 32 bits.
    const fn new(label: &'static str, number: libc::c_long) -> Self {
        Self { label, number: number as u32 }
    }

    fn name(self) -> &'static str {
        self.label.strip_prefix("SYS_").unwrap_or(self.label)
    }
}

/// The test of one argument for an allowed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Test {
    /// One of these.
    Is(&'static [u32]),
    /// Not this.
    IsNot(u32),
    /// None of these bits is set.
    Lacks(u32),
}

impl Test {
    /// The same of an argument for an OCI runtime, of which one must hold. The runtime's library compares all
    /// 64 bits, so what must not be is no test: with a bit of the upper half any number would pass.
    fn of_oci(self, argument: u8) -> Vec<Value> {
        match self {
            Self::Is(values) => {
                values.iter().map(|one| compared(argument, *one, "SCMP_CMP_EQ")).collect()
            }
            // Nothing fulfils it: such a call has rules of its own, as [`sockets`].
            Self::IsNot(_) => Vec::new(),
            Self::Lacks(bits) => vec![compared(argument, bits, "SCMP_CMP_MASKED_EQ")],
        }
    }
}

/// One comparison of an OCI runtime's.
fn compared(argument: u8, value: u32, op: &str) -> Value {
    json!({"index": argument, "value": value, "valueTwo": 0, "op": op})
}

/// A call that is allowed with some arguments only. The lower half of an argument is compared: the
/// kernel uses no more of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Condition {
    pub(crate) call: Call,
    /// Numbers of arguments with their tests, each of which must hold.
    pub(crate) tests: &'static [(u8, Test)],
}

/// The flags that make namespaces (namespaces(7)).
const NAMESPACES: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWCGROUP) as u32;
const NETWORK: u32 = libc::CLONE_NEWNET as u32;
/// `CLONE_NEWTIME`, which only unshare(2) and clone3(2) know.
const TIME: u32 = 0x80;
const VSOCK: u32 = libc::AF_VSOCK as u32;
/// Who may send to these sockets is taken for the kernel by udev, which loads modules and starts units. The
/// number is no other family's protocol that a plugin uses.
const UEVENT: u32 = libc::NETLINK_KOBJECT_UEVENT as u32;

const NETLINK: u32 = libc::AF_NETLINK as u32;
/// The last family of sockets (`linux/socket.h`), and the last protocol of netlink (`linux/netlink.h`).
const LAST_FAMILY: u32 = 45;
const LAST_OF_NETLINK: u32 = 22;

/// The allowed arguments of `personality(2)`: Linux and its 32-bit kind, without randomisation of
/// addresses or with it, and the query.
const PERSONALITIES: &[u32] = &[0, 0x8, 0x2_0000, 0x2_0008, 0xffff_ffff];

/// Calls with conditions.
pub(crate) const CONDITIONS: [Condition; 5] = [
    Condition {
        call: Call::new("SYS_clone", libc::SYS_clone),
        tests: &[(0, Test::Lacks(NAMESPACES))],
    },
    // A network namespace of its own does no harm, and some plugins need it.
    Condition {
        call: Call::new("SYS_unshare", libc::SYS_unshare),
        tests: &[(0, Test::Lacks((NAMESPACES & !NETWORK) | TIME))],
    },
    // Only a network namespace may be entered: with no kind named, any could be.
    Condition {
        call: Call::new("SYS_setns", libc::SYS_setns),
        tests: &[(1, Test::Is(&[NETWORK]))],
    },
    Condition {
        call: Call::new("SYS_socket", libc::SYS_socket),
        tests: &[(0, Test::IsNot(VSOCK)), (2, Test::IsNot(UEVENT))],
    },
    Condition {
        call: Call::new("SYS_personality", libc::SYS_personality),
        tests: &[(0, Test::Is(PERSONALITIES))],
    },
];

/// The calls that are allowed with any arguments to processes with the capabilities `mask`.
fn allowed(mask: u64) -> impl Iterator<Item = Call> {
    let more = WITH_CAPABILITY.iter().filter(move |(name, _)| {
        name.parse::<Capability>().is_ok_and(|one| mask & (1 << one.number()) != 0)
    });
    ALLOWED.iter().chain(OLDER).chain(more.flat_map(|(_, calls)| calls.iter())).copied()
}

/// The filter for processes with the capabilities `mask`.
pub(crate) fn filter(mask: u64) -> Filter {
    Filter::new(allowed(mask).map(|call| call.number).collect(), &CONDITIONS)
}

/// The same for an OCI runtime (OCI runtime specification, config-linux.md, "Seccomp").
pub(crate) fn of_oci(mask: u64) -> Value {
    let names: Vec<_> = allowed(mask).map(Call::name).collect();
    let mut calls = vec![json!({"names": names, "action": "SCMP_ACT_ALLOW"})];
    for condition in &CONDITIONS {
        let name = condition.call.name();
        calls.extend(
            rules(condition)
                .iter()
                .map(|args| json!({"names": [name], "action": "SCMP_ACT_ALLOW", "args": args})),
        );
    }
    // The C library falls back to clone(2), whose flags can be tested.
    calls.push(json!({"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": libc::ENOSYS}));
    json!({"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": libc::EPERM, "syscalls": calls})
}

/// The rules of one call. All arguments of one rule must fit, and any rule will do.
fn rules(Condition { call, tests }: &Condition) -> Vec<Vec<Value>> {
    if i64::from(call.number) == libc::SYS_socket {
        return sockets();
    }
    tests.iter().fold(vec![Vec::new()], |rules, (argument, test)| {
        let with = |rule: &Vec<Value>, one: &Value| [&rule[..], std::slice::from_ref(one)].concat();
        let one_of = test.of_oci(*argument);
        rules.iter().flat_map(|rule| one_of.iter().map(|one| with(rule, one))).collect()
    })
}

/// Those of `socket(2)`: each family but `VSOCK`, and of netlink each protocol but `UEVENT`.
fn sockets() -> Vec<Vec<Value>> {
    let family = |number: u32| compared(0, number, "SCMP_CMP_EQ");
    let of_netlink = |number: u32, op: &str| vec![family(NETLINK), compared(2, number, op)];
    let families = (0..=LAST_FAMILY).filter(|one| ![NETLINK, VSOCK].contains(one));
    let above = (UEVENT + 1..=LAST_OF_NETLINK).map(|one| of_netlink(one, "SCMP_CMP_EQ"));
    let below = std::iter::once(of_netlink(UEVENT, "SCMP_CMP_LT"));
    families.map(|one| vec![family(one)]).chain(below).chain(above).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLUGIN: u64 = 0x2435fb;

    #[test]
    fn what_leads_out_is_not_allowed() {
        let filter = filter(PLUGIN);
        let out = [
            libc::SYS_mount,
            libc::SYS_umount2,
            libc::SYS_pivot_root,
            libc::SYS_move_mount,
            libc::SYS_open_tree,
            libc::SYS_fsopen,
            libc::SYS_mount_setattr,
            libc::SYS_open_by_handle_at,
            libc::SYS_init_module,
            libc::SYS_finit_module,
            libc::SYS_kexec_load,
            libc::SYS_bpf,
            libc::SYS_perf_event_open,
            libc::SYS_ptrace,
            libc::SYS_keyctl,
            libc::SYS_reboot,
            libc::SYS_userfaultfd,
            libc::SYS_io_uring_setup,
            libc::SYS_pidfd_getfd,
        ];
        for number in out {
            assert_eq!(filter.run(u32::try_from(number).unwrap(), [0; 6]), Some(libc::EPERM));
        }
        assert_eq!(
            filter.run(u32::try_from(libc::SYS_clone3).unwrap(), [0; 6]),
            Some(libc::ENOSYS)
        );
        assert_eq!(filter.run(0x4000_0000, [0; 6]), Some(libc::ENOSYS), "x32");
        for number in [libc::SYS_read, libc::SYS_execve, libc::SYS_seccomp, libc::SYS_statx] {
            assert_eq!(filter.run(u32::try_from(number).unwrap(), [0; 6]), None);
        }
    }

    #[test]
    fn namespaces_are_distinguished() {
        let filter = filter(PLUGIN);
        let run = |number: i64, args: [u64; 6]| filter.run(u32::try_from(number).unwrap(), args);
        let flag = |flag: i32| u64::from(flag.cast_unsigned());
        let entered = |kind: u64| run(libc::SYS_setns, [3, kind, 0, 0, 0, 0]);
        assert_eq!(entered(flag(libc::CLONE_NEWNET)), None);
        assert_eq!(entered(0), Some(libc::EPERM));
        assert_eq!(entered(flag(libc::CLONE_NEWNS)), Some(libc::EPERM));
        assert_eq!(entered(flag(libc::CLONE_NEWNET | libc::CLONE_NEWNS)), Some(libc::EPERM));
        let made = |number: i64, kind: i32| run(number, [flag(kind), 0, 0, 0, 0, 0]);
        assert_eq!(made(libc::SYS_unshare, libc::CLONE_NEWNET | libc::CLONE_FS), None);
        assert_eq!(made(libc::SYS_clone, libc::SIGCHLD | libc::CLONE_VM), None);
        for kind in [libc::CLONE_NEWNS, libc::CLONE_NEWUSER, libc::CLONE_NEWPID] {
            assert_eq!(made(libc::SYS_unshare, kind), Some(libc::EPERM));
            assert_eq!(made(libc::SYS_clone, kind | libc::SIGCHLD), Some(libc::EPERM));
        }
        assert_eq!(made(libc::SYS_unshare, 0x80), Some(libc::EPERM));
        assert_eq!(run(libc::SYS_socket, [40, 1, 0, 0, 0, 0]), Some(libc::EPERM));
        assert_eq!(run(libc::SYS_socket, [16, 3, 0, 0, 0, 0]), None);
        assert_eq!(run(libc::SYS_socket, [16, 3, 15, 0, 0, 0]), Some(libc::EPERM));
        assert_eq!(run(libc::SYS_socket, [16, 3, (1 << 32) + 15, 0, 0, 0]), Some(libc::EPERM));
        assert_eq!(run(libc::SYS_socket, [16, 3, 16, 0, 0, 0]), None);
        let personality = |kind: u64| run(libc::SYS_personality, [kind, 0, 0, 0, 0, 0]);
        for kind in PERSONALITIES {
            assert_eq!(personality(u64::from(*kind)), None, "{kind}");
        }
        assert_eq!(personality(0x40_0000), Some(libc::EPERM));
    }

    /// All tests of a call are in each of its rules.
    #[test]
    fn an_oci_runtime_tests_all_arguments() {
        let document = of_oci(PLUGIN);
        let of = |name: &str| -> Vec<&Value> {
            let calls = document["syscalls"].as_array().unwrap().iter();
            calls.filter(|call| call["names"] == json!([name])).map(|call| &call["args"]).collect()
        };
        // No rule compares for inequality: a bit of the upper half, which the kernel drops, would pass.
        assert!(!document.to_string().contains("SCMP_CMP_NE"), "{document}");
        let is =
            |value: u32| json!({"index": 0, "value": value, "valueTwo": 0, "op": "SCMP_CMP_EQ"});
        let sockets = of("socket");
        for one in 0..=45 {
            let rules = sockets.iter().filter(|args| args[0] == is(one)).count();
            let expected = match one {
                40 => 0,
                16 => 8,
                _ => 1,
            };
            assert_eq!(rules, expected, "{one}");
        }
        assert_eq!(sockets.len(), 44 + 8);
        for args in sockets.iter().filter(|args| args[0] == is(16)) {
            let (value, op) = (args[1]["value"].as_u64().unwrap(), args[1]["op"].as_str().unwrap());
            assert_eq!(args[1]["index"], 2);
            assert!((value, op) == (15, "SCMP_CMP_LT") || (16..=22).contains(&value), "{args}");
        }
        assert_eq!(of("personality").len(), PERSONALITIES.len());
        assert!(of("personality").iter().all(|args| args.as_array().unwrap().len() == 1));
    }

    #[test]
    fn a_granted_capability_brings_its_calls() {
        let number = u32::try_from(libc::SYS_finit_module).unwrap();
        assert_eq!(filter(1 << 16).run(number, [0; 6]), None);
        assert_eq!(filter(0).run(number, [0; 6]), Some(libc::EPERM));
        let text = of_oci(1 << 16).to_string();
        assert!(text.contains("\"finit_module\"") && !text.contains("\"mount\""), "{text}");
    }
}
