//! The lab and the tests use packages of the distribution.

use std::{path::Path, process::Command};

use anyhow::{Result, bail};

use crate::exec;

/// One package of the distribution.
pub struct Package {
    /// The name that Debian gives it.
    pub name: &'static str,
    /// The reason why it is needed.
    pub why: &'static str,
    /// A program or a folder of it: where that is found, the package is there.
    pub program: &'static str,
    /// The service that it would start with the machine. Nobody asked for that.
    service: Option<&'static str>,
    /// Tells whether the demonstration cannot do without the package.
    pub for_demo: bool,
    /// The only thing that the package is for, if it is not for all tests.
    pub only: Option<Only>,
}

/// One thing that only some commands do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Only {
    /// Virtual machines.
    Machines,
    /// The binaries to ship.
    Shipping,
    /// libFuzzer.
    Fuzzing,
    /// A look at images from outside.
    Images,
    /// A node of Kubernetes.
    Kubernetes,
    /// A look at packages from outside, by what takes a hundred packages itself.
    Packages,
}

/// The C library's headers for the other one of the machines that wad is shipped for: the
/// package and the folder.
#[cfg(target_arch = "x86_64")]
const HEADERS: (&str, &str) = ("libc6-dev-arm64-cross", "/usr/aarch64-linux-gnu/include");
#[cfg(not(target_arch = "x86_64"))]
const HEADERS: (&str, &str) = ("libc6-dev-amd64-cross", "/usr/x86_64-linux-gnu/include");

/// The folder of these headers.
pub const OTHER_HEADERS: &str = HEADERS.1;

/// This list has all packages.
pub const ALL: [Package; 33] = [
    Package::new("iproute2", "ip", "network namespaces, `ss`").for_demo(),
    Package::new("iperf3", "iperf3", "a real client in tests and lab"),
    Package::new("iputils-ping", "ping", "a real tool of probes in tests"),
    Package::new("nginx-light", "nginx", "a real server in tests").service("nginx"),
    Package::new("curl", "curl", "a real client in tests"),
    Package::new("prometheus", "promtool", "checks and scrapes /metrics").service("prometheus"),
    Package::new("openssl", "openssl", "certificates in tests"),
    Package::new("tcpdump", "tcpdump", "shows the first flight of a connection"),
    Package::new("ethtool", "ethtool", "turns segment offloads off in benchmarks"),
    Package::new("tmux", "tmux", "a terminal for `wad top` in tests"),
    Package::new("bpftool", "bpftool", "an outside view of programs and maps"),
    Package::new("util-linux", "taskset", "processors of benchmarks, mounts of machines"),
    Package::new("systemd", "systemctl", "holds the agent as its unit says"),
    Package::new("zstd", "zstd", "an outside view of packed traces"),
    Package::new("sqlite3", "sqlite3", "an outside view of results of probes"),
    Package::new("clang", "clang", "compiles C for other machines").only(Only::Shipping),
    Package::new(HEADERS.0, HEADERS.1, "C for other machines").only(Only::Shipping),
    Package::new("skopeo", "skopeo", "an outside view of images").only(Only::Images),
    Package::new("umoci", "umoci", "unpacks images").only(Only::Images),
    Package::new("containerd", "containerd", "holds containers")
        .service("containerd")
        .only(Only::Kubernetes),
    Package::new("runc", "runc", "runs containers").only(Only::Kubernetes),
    Package::new("containernetworking-plugins", "/usr/lib/cni/ptp", "joins pods")
        .only(Only::Kubernetes),
    Package::new("iptables", "iptables", "leads pods to the API server").only(Only::Kubernetes),
    Package::new("docker-registry", "docker-registry", "has images for the node")
        .service("docker-registry")
        .only(Only::Kubernetes),
    Package::new("lintian", "lintian", "an outside view of packages").only(Only::Packages),
    Package::new("rpmlint", "rpmlint", "an outside view of packages").only(Only::Packages),
    Package::new("rpm", "rpm", "installs packages").only(Only::Packages),
    Package::new("debootstrap", "debootstrap", "roots of Debian").only(Only::Packages),
    Package::new("g++", "c++", "compiles libFuzzer").only(Only::Fuzzing),
    Package::new("qemu-system-x86", "qemu-system-x86_64", "boots other kernels")
        .only(Only::Machines),
    Package::new("busybox-static", "busybox", "programs for other kernels").only(Only::Machines),
    Package::new("kmod", "depmod", "modules for other kernels").only(Only::Machines),
    Package::new("xz-utils", "xz", "modules for other kernels").only(Only::Machines),
];

impl Package {
    const fn new(name: &'static str, program: &'static str, why: &'static str) -> Self {
        Self { name, why, program, service: None, for_demo: false, only: None }
    }

    const fn for_demo(self) -> Self {
        Self { for_demo: true, ..self }
    }

    const fn only(self, purpose: Only) -> Self {
        Self { only: Some(purpose), ..self }
    }

    const fn service(self, service: &'static str) -> Self {
        Self { service: Some(service), ..self }
    }

    fn is_missing(&self) -> bool {
        !Path::new(self.program).is_dir() && exec::find_program(self.program).is_none()
    }
}

/// Makes sure that the packages are there, or says which are not and how to get
/// them.
pub fn ensure(packages: &[&Package]) -> Result<()> {
    let missing: Vec<&Package> =
        packages.iter().copied().filter(|package| package.is_missing()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    for package in &missing {
        eprintln!("missing: {} ({}: {})", package.name, package.program, package.why);
    }
    let names: Vec<&str> = missing.iter().map(|package| package.name).collect();
    let command = format!("apt-get install {}", names.join(" "));
    if exec::find_program("apt-get").is_none() {
        bail!("install what is missing; on Debian it would be `{command}`");
    }
    if !exec::is_root()? {
        bail!("install what is missing with `sudo {command}`");
    }

    let services: Vec<&str> = missing.iter().filter_map(|package| package.service).collect();
    exec::prepare(
        Command::new("/bin/sh")
            .args(["-euc", INSTALL, "install"])
            .arg(services.join(" "))
            .args(&names)
            .env("DEBIAN_FRONTEND", "noninteractive"),
    )?;
    match missing.iter().find(|package| package.is_missing()) {
        None => Ok(()),
        Some(package) => {
            bail!("{} was installed, but {} is missing", package.name, package.program)
        }
    }
}

/// Installs the packages named from the second argument on, and keeps the
/// services in the first from running: now, by Debian's policy-rc.d, and at the
/// next boot. A shell script, as its trap also holds when it is interrupted.
const INSTALL: &str = r#"
    services=$1; shift
    guard=/usr/sbin/policy-rc.d
    if [ ! -e "$guard" ] && [ ! -L "$guard" ]; then
        trap 'rm -f "$guard"' EXIT
        trap 'exit 1' HUP INT TERM
        printf '#!/bin/sh\nexit 101\n' >"$guard"
        chmod 755 "$guard"
    fi
    install() { apt-get -qq -o Dpkg::Use-Pty=0 install --yes --no-install-recommends "$@"; }
    # The lists of packages may be old, or not there at all.
    install "$@" || { apt-get -qq update && install "$@"; }
    if command -v systemctl >/dev/null; then
        for service in $services; do systemctl --quiet disable "$service"; done
    fi
"#;
