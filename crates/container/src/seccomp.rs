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
    /// The same of an argument for an OCI runtime, of which one must hold.
    fn of_oci(self, argument: u8) -> Vec<Value> {
        let test = move |value: u32, two: u32, op: &str| json!({"index": argument, "value": value, "valueTwo": two, "op": op});
        match self {
            Self::Is(values) => values.iter().map(|one| test(*one, 0, "SCMP_CMP_EQ")).collect(),
            Self::IsNot(value) => vec![test(value, 0, "SCMP_CMP_NE")],
            Self::Lacks(bits) => vec![test(bits, 0, "SCMP_CMP_MASKED_EQ")],
        }
    }
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
    for Condition { call, tests } in CONDITIONS {
        // All arguments of one rule must fit, and any rule will do.
        let rules = tests.iter().fold(vec![Vec::new()], |rules, (argument, test)| {
            let with =
                |rule: &Vec<Value>, one: &Value| [&rule[..], std::slice::from_ref(one)].concat();
            let one_of = test.of_oci(*argument);
            rules.iter().flat_map(|rule| one_of.iter().map(|one| with(rule, one))).collect()
        });
        calls.extend(
            rules.iter().map(
                |args| json!({"names": [call.name()], "action": "SCMP_ACT_ALLOW", "args": args}),
            ),
        );
    }
    // The C library falls back to clone(2), whose flags can be tested.
    calls.push(json!({"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": libc::ENOSYS}));
    json!({"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": libc::EPERM, "syscalls": calls})
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
    fn namespaces_are_told_apart() {
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
        let not = |index: u8, value: u32| json!({"index": index, "value": value, "valueTwo": 0, "op": "SCMP_CMP_NE"});
        assert_eq!(of("socket"), [&json!([not(0, VSOCK), not(2, UEVENT)])]);
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
