//! Takes from this process what no part of it ever needs, before it reads anything that
//! others have written: should one of its parsers be broken into, less is to be had.
//!
//! It is on top of what a unit of systemd or a container takes, and for agents that run
//! without either. What is taken stays away from programs that it starts.

use std::{collections::BTreeMap, io};

use nix::unistd::{getgid, getuid};
use rustix::{
    io::Errno,
    thread::{
        CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
        remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
    },
};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction,
    SeccompCmpArgLen::Dword,
    SeccompCmpOp::{MaskedEq, Ne},
    SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};
use thiserror::Error;

/// Says what could not be taken.
#[derive(Debug, Error)]
pub enum ConfinementError {
    #[error("capabilities that are not needed stay")]
    Capabilities(#[source] io::Error),
    #[error("programs that are started may gain privileges (no_new_privs)")]
    NewPrivileges(#[source] io::Error),
    #[error("system calls that are not needed stay allowed")]
    Filter(#[from] BackendError),
    #[error("system calls that are not needed stay allowed (seccomp)")]
    Seccomp(#[from] seccompiler::Error),
}

/// The capabilities that some part may need where they are there: those that `privileges`
/// checks, and those for files of the configuration that are anybody's, for the group of the
/// API's socket, and for ports below 1024. Of the latter the unit keeps only CAP_CHOWN.
const KEPT: CapabilitySet = CapabilitySet::BPF
    .union(CapabilitySet::PERFMON)
    .union(CapabilitySet::NET_ADMIN)
    .union(CapabilitySet::SYS_ADMIN)
    .union(CapabilitySet::SYS_PTRACE)
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::CHOWN)
    .union(CapabilitySet::NET_BIND_SERVICE);

/// The file of ping has this one, and the kernel starts no program that could not have what
/// its file has. It stays among what such programs could have; they get none of it, as
/// no_new_privs is set.
const OF_PING: CapabilitySet = CapabilitySet::NET_RAW;

/// libc has no name for it where programs for aarch64 are linked with musl
/// (include/uapi/asm-generic/unistd.h).
#[cfg(target_arch = "aarch64")]
const KEXEC_FILE_LOAD: i64 = 294;
#[cfg(not(target_arch = "aarch64"))]
const KEXEC_FILE_LOAD: i64 = libc::SYS_kexec_file_load;

/// System calls that the agent never makes, and that are worth something to an intruder.
/// mount(2) and setns(2) are not among them: the BPF file system, and namespaces of
/// containers. Nor is capset(2): it can only take more away now, and ping does.
const REFUSED: &[i64] = &[
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // The kernel, and the machine.
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    KEXEC_FILE_LOAD,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    // Other views of the file system.
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_unshare,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_mknodat,
    libc::SYS_fanotify_init,
    // Other users.
    libc::SYS_setreuid,
    libc::SYS_setregid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_setgroups,
    libc::SYS_setfsuid,
    libc::SYS_setfsgid,
    // Ways around the above, and code that many faults of kernels have been in.
    libc::SYS_execveat,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_userfaultfd,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_personality,
];

/// Takes it, from this thread and all that come of it. Returns what could not be taken.
pub fn confine() -> Vec<ConfinementError> {
    let taken = [
        drop_capabilities().map_err(|error| ConfinementError::Capabilities(error.into())),
        set_no_new_privs(true).map_err(|error| ConfinementError::NewPrivileges(error.into())),
        refuse_calls(),
    ];
    taken.into_iter().filter_map(Result::err).collect()
}

fn drop_capabilities() -> Result<(), Errno> {
    let CapabilitySets { effective, permitted, .. } = capabilities(None)?;
    // Without CAP_SETPCAP there is no way; it is for programs that are started alone.
    if effective.contains(CapabilitySet::SETPCAP) {
        for capability in KEPT.union(OF_PING).complement().iter() {
            match remove_capability_from_bounding_set(capability) {
                // This kernel knows it not.
                Ok(()) | Err(Errno::INVAL) => {}
                Err(error) => return Err(error),
            }
        }
    }
    // Before Linux 4.3 there is none.
    let _ = clear_ambient_capability_set();
    let kept = CapabilitySets {
        effective: effective & KEPT,
        permitted: permitted & KEPT,
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, kept)
}

fn refuse_calls() -> Result<(), ConfinementError> {
    let filter = SeccompFilter::new(
        refusals()?,
        SeccompAction::Allow,
        SeccompAction::Errno(libc::EPERM as u32),
        TargetArch::try_from(std::env::consts::ARCH)?,
    )?;
    let program: BpfProgram = filter.try_into()?;
    Ok(seccompiler::apply_filter(&program)?)
}

/// Returns the calls that are refused: a few only with certain arguments.
fn refusals() -> Result<BTreeMap<i64, Vec<SeccompRule>>, BackendError> {
    let mut refusals: BTreeMap<_, _> = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    // Another user or group than the own one; ping makes sure that it has that.
    for (call, own) in
        [(libc::SYS_setuid, getuid().as_raw()), (libc::SYS_setgid, getgid().as_raw())]
    {
        let other = SeccompCondition::new(0, Dword, Ne, own.into())?;
        refusals.insert(call, vec![SeccompRule::new(vec![other])?]);
    }
    // Memory that is written and run, or made such that it can be run.
    let (write, exec) = (libc::PROT_WRITE as u64, libc::PROT_EXEC as u64);
    for (call, bits) in [
        (libc::SYS_mmap, write | exec),
        (libc::SYS_mprotect, exec),
        (libc::SYS_pkey_mprotect, exec),
    ] {
        let protection = SeccompCondition::new(2, Dword, MaskedEq(bits), bits)?;
        refusals.insert(call, vec![SeccompRule::new(vec![protection])?]);
    }
    Ok(refusals)
}

#[cfg(test)]
mod tests {
    use std::{fs, thread};

    use rustix::thread::capability_is_in_bounding_set;

    use super::*;

    /// It is for a thread as for a process, and each test has one of its own.
    #[test]
    fn what_is_taken_is_gone_and_what_is_needed_is_there() {
        let confined = || {
            let ping_could_start = capability_is_in_bounding_set(CapabilitySet::NET_RAW).unwrap();
            assert!(confine().is_empty());
            let can_start = capability_is_in_bounding_set(CapabilitySet::NET_RAW).unwrap();
            assert_eq!(can_start, ping_could_start);
            let status = fs::read_to_string("/proc/thread-self/status").unwrap();
            let field = |name| {
                let line = status.lines().find_map(|line| line.strip_prefix(name));
                line.unwrap_or_else(|| panic!("{name} in {status}")).trim().to_owned()
            };
            assert_eq!((field("NoNewPrivs:"), field("Seccomp:")), ("1".into(), "2".into()));
            let effective = u64::from_str_radix(&field("CapEff:"), 16).unwrap();
            assert_eq!(effective & !KEPT.bits(), 0);
            // SAFETY: neither call has pointers.
            let refused = unsafe {
                [
                    libc::syscall(libc::SYS_unshare, 0),
                    libc::syscall(libc::SYS_personality, 0xffff_ffff_u64),
                    libc::syscall(libc::SYS_setuid, getuid().as_raw() + 1),
                ]
            };
            assert_eq!(refused, [-1; 3]);
            assert_eq!(io::Error::last_os_error().kind(), io::ErrorKind::PermissionDenied);
            // SAFETY: as above; nothing changes.
            assert_eq!(unsafe { libc::syscall(libc::SYS_setuid, getuid().as_raw()) }, 0);
            let map = |protection| {
                // SAFETY: new memory, which is left.
                let mapped = unsafe {
                    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
                    libc::mmap(std::ptr::null_mut(), 4096, protection, flags, -1, 0)
                };
                mapped != libc::MAP_FAILED
            };
            assert!(map(libc::PROT_READ | libc::PROT_WRITE));
            assert!(!map(libc::PROT_WRITE | libc::PROT_EXEC));
            // Threads and processes of its own go on.
            thread::spawn(|| ()).join().unwrap();
            let started = std::process::Command::new("true").status();
            assert!(started.is_ok_and(|status| status.success()));
        };
        thread::spawn(confined).join().unwrap();
    }
}
