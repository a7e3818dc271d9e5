//! The settings of the "untuned" side: those of Debian, all set explicitly, so
//! that nothing of the machine at hand leaks into an experiment.

use std::collections::BTreeMap;

use crate::{
    beside::Beside,
    emulated::wan::{DEVICE, Wan},
    netns::{Netns, NetnsError},
    process::ProcessError,
    qdisc,
    sysctl::{self, Changed, SysctlError, Turn},
};

/// The window that a receiver offers under these settings is half of the most that
/// `tcp_rmem` gives it (`tcp_adv_win_scale` 1).
pub const UNTUNED_WINDOW_BYTES: u32 = 6_291_456 / 2;

/// These settings are per network namespace. Debian's values are the kernel's own
/// defaults, but for `tcp_no_metrics_save`: what one run learns of the path must not
/// help the next.
const NAMESPACE: [(&str, &str); 18] = [
    TCP_RMEM,
    TCP_WMEM,
    ("net.ipv4.tcp_congestion_control", "cubic"),
    (ECN, "2"),
    ("net.ipv4.tcp_moderate_rcvbuf", "1"),
    ("net.ipv4.tcp_window_scaling", "1"),
    ("net.ipv4.tcp_timestamps", "1"),
    ("net.ipv4.tcp_sack", "1"),
    ("net.ipv4.tcp_dsack", "1"),
    ("net.ipv4.tcp_slow_start_after_idle", "1"),
    ("net.ipv4.tcp_adv_win_scale", "1"),
    ("net.ipv4.tcp_notsent_lowat", "4294967295"),
    ("net.ipv4.tcp_mtu_probing", "0"),
    ("net.ipv4.tcp_recovery", "1"),
    ("net.ipv4.tcp_reordering", "3"),
    ("net.ipv4.tcp_max_reordering", "300"),
    ("net.ipv4.tcp_frto", "2"),
    ("net.ipv4.tcp_no_metrics_save", "1"),
];

const TCP_RMEM: (&str, &str) = ("net.ipv4.tcp_rmem", "4096 131072 6291456");
const TCP_WMEM: (&str, &str) = ("net.ipv4.tcp_wmem", "4096 16384 4194304");
/// Receive buffers have this ceiling on the whole host.
const RMEM_MAX: (&str, &str) = ("net.core.rmem_max", "212992");
/// Send buffers have this ceiling on the whole host.
pub const WMEM_MAX: (&str, &str) = ("net.core.wmem_max", "212992");
/// The ceilings on buffers are this many bytes where tests run beside each other, or in a
/// network namespace of their own: no policy of theirs needs more.
const RAISED_BYTES: &str = "33554432";
/// The memory that TCP may hold on the whole host, in pages: the kernel's own, by the
/// memory of the machine. The agent's default bound is made of it.
const TCP_MEM: &str = "net.ipv4.tcp_mem";
const ECN: &str = "net.ipv4.tcp_ecn";
const ALLOWED: &str = "net.ipv4.tcp_allowed_congestion_control";

/// Tells what went wrong with a setting.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error(transparent)]
    Sysctl(#[from] SysctlError),
    #[error(transparent)]
    Netns(#[from] NetnsError),
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error("{name} differs between the two ends: \"{a}\" and \"{b}\"")]
    Differs { name: &'static str, a: String, b: String },
}

/// The host's part of the settings is set for as long as experiments run; it is undone
/// on drop.
#[derive(Debug)]
pub struct HostDefaults {
    // Restored before the next experiment has its turn. None where this one runs beside
    // others: whoever started them has set the host.
    _changed: Option<[Changed; 5]>,
    _turn: Option<Turn>,
}

impl HostDefaults {
    /// # Errors
    /// Without root, or where the kernel has no cubic.
    pub fn set() -> Result<Self, SysctlError> {
        if Beside::this().is_some() {
            return Ok(Self { _changed: None, _turn: None });
        }
        let turn = Turn::take()?;
        // Only what the host allows can be the default of another namespace.
        let cubic = Changed::with_word(ALLOWED, "cubic")?;
        let rmem = Changed::to(RMEM_MAX.0, RMEM_MAX.1)?;
        let wmem = Changed::to(WMEM_MAX.0, WMEM_MAX.1)?;
        // Where the agent is, which asks what the kernel gives by itself.
        let tcp_rmem = Changed::to(TCP_RMEM.0, TCP_RMEM.1)?;
        let tcp_wmem = Changed::to(TCP_WMEM.0, TCP_WMEM.1)?;
        let changed = [cubic, rmem, wmem, tcp_rmem, tcp_wmem];
        Ok(Self { _changed: Some(changed), _turn: Some(turn) })
    }
}

/// The ceilings on buffers are as high as any test needs them; undone on drop. An agent that
/// stops lowers what it has raised, whoever else needs it, and one in a namespace of its own
/// can raise none.
#[derive(Debug)]
pub struct RaisedCeilings {
    _changed: [Changed; 2],
}

impl RaisedCeilings {
    /// # Errors
    /// When the kernel refuses a value.
    pub fn set() -> Result<Self, SysctlError> {
        let raise = |name| Changed::to(name, RAISED_BYTES);
        Ok(Self { _changed: [raise(RMEM_MAX.0)?, raise(WMEM_MAX.0)?] })
    }
}

/// The settings of the namespace that this process is in are set for as long as an end of
/// a path is in it; they are undone on drop.
#[derive(Debug)]
pub struct OwnDefaults {
    _changed: Vec<Changed>,
}

impl OwnDefaults {
    /// # Errors
    /// When the kernel refuses a value.
    pub fn set() -> Result<Self, SysctlError> {
        let changed = NAMESPACE.iter().map(|(name, value)| Changed::to(name, value));
        Ok(Self { _changed: changed.collect::<Result<_, _>>()? })
    }
}

/// Sets both ends of the path.
///
/// # Errors
/// When the kernel refuses a value.
pub fn apply(wan: &Wan) -> Result<(), SettingsError> {
    for netns in [wan.a(), wan.b()] {
        apply_to(netns)?;
    }
    // A wire before the path has the discipline that the experiment is about.
    if wan.near_device() == DEVICE {
        qdisc::set_fq_codel(wan.a(), DEVICE);
    }
    qdisc::set_fq_codel(wan.b(), DEVICE);
    Ok(())
}

/// Explicit Congestion Notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ecn {
    /// RFC 3168.
    Classic,
    /// RFC 9768, from Linux 7.0 on.
    Accurate,
}

/// Has new connections ask for Explicit Congestion Notification. By default they only accept it.
///
/// # Errors
/// When the kernel refuses it.
pub fn ask_for_ecn(wan: &Wan, ecn: Ecn) -> Result<(), SettingsError> {
    let value = match ecn {
        Ecn::Classic => "1",
        Ecn::Accurate => "3",
    };
    for netns in [wan.a(), wan.b()] {
        netns.run(|| sysctl::set(ECN, value))??;
    }
    Ok(())
}

/// Sets other values of the namespaces' settings, at both ends.
///
/// # Errors
/// When the kernel refuses one.
pub fn change(wan: &Wan, sysctls: &BTreeMap<String, String>) -> Result<(), SettingsError> {
    for netns in [wan.a(), wan.b()] {
        netns.run(|| sysctls.iter().try_for_each(|(name, value)| sysctl::set(name, value)))??;
    }
    Ok(())
}

/// Tells whether a setting is one of those that are set and reported.
#[must_use]
pub fn is_known(sysctl: &str) -> bool {
    NAMESPACE.iter().any(|(name, _)| *name == sysctl)
}

/// Sets the settings of one namespace.
///
/// # Errors
/// When the kernel refuses a value.
pub fn apply_to(netns: &Netns) -> Result<(), SettingsError> {
    netns.run(|| NAMESPACE.iter().try_for_each(|(name, value)| sysctl::set(name, value)))??;
    Ok(())
}

/// Returns the values in force now, by name; those of the namespaces hold at both ends.
///
/// # Errors
/// When one cannot be read, or the ends differ.
pub fn effective(wan: &Wan) -> Result<BTreeMap<String, String>, SettingsError> {
    let mut values = BTreeMap::new();
    let (a, b) = (read(wan.a())?, read(wan.b())?);
    for ((name, _), (a, b)) in NAMESPACE.iter().zip(a.into_iter().zip(b)) {
        if a != b {
            return Err(SettingsError::Differs { name, a, b });
        }
        values.insert((*name).to_owned(), a);
    }
    for name in [RMEM_MAX.0, WMEM_MAX.0, TCP_MEM] {
        values.insert(name.to_owned(), sysctl::get(name)?);
    }
    values.insert("qdisc".to_owned(), qdisc::shown(wan.a(), wan.near_device())?);
    Ok(values)
}

fn read(netns: &Netns) -> Result<Vec<String>, SettingsError> {
    let values = netns.run(|| NAMESPACE.iter().map(|(name, _)| sysctl::get(name)).collect());
    let values: Result<Vec<String>, SysctlError> = values?;
    Ok(values?)
}
