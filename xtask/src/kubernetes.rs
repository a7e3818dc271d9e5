//! `cargo xtask kubernetes`: the agent as its chart runs it, on a node of a real Kubernetes.
//! No registry of packages has that as programs: all of them, with helm, are built from Go
//! modules as one, once, into the user's cache.

use std::{
    env::consts::ARCH,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use clap::Subcommand;
use wad_toolchain::tool_folders;

use crate::{
    chart, dist, exec, go, image, installed, programs,
    setup::{self, For},
    source::Source,
};

const VERSION: &str = "1.37.2";
const HELM_VERSION: &str = "4.3.1";
const MODULE: [(&str, &str); 3] = [
    ("main.go", include_str!("kubernetes/main.go")),
    ("go.mod", include_str!("kubernetes/go.mod")),
    ("go.sum", include_str!("kubernetes/go.sum")),
];
/// Programs that the one is, by the name that it is called by.
const NAMES: [&str; 7] = [
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kubectl",
    "helm",
];
/// Manifests are rendered for clusters of this version.
const KUBE_VERSION: &str = "--kube-version=1.37.0";
const RENDERED: &str = "config/kubernetes/manifests/wad.yaml";

#[derive(Subcommand)]
pub enum Order {
    /// Build Kubernetes and helm, unless they are there: it takes Go 1.26, some ten minutes,
    /// 4 GB of memory and, while it builds, 6 GB of disk
    Build,
    /// Renew the plain manifests from the chart
    Render,
    /// Install the chart on a node in namespaces, change its configuration, update it under
    /// load, and uninstall it
    Test,
}

pub fn run(order: &Order) -> Result<()> {
    match order {
        Order::Build => {
            println!("{}", ensure()?.display());
            Ok(())
        }
        Order::Render => render(),
        Order::Test => test(),
    }
}

fn render() -> Result<()> {
    let mut helm = Command::new(ensure()?.join("helm"));
    helm.args(["template", "wad", chart::FOLDER, "--namespace=wad", KUBE_VERSION]);
    helm.current_dir(exec::root());
    let rendered = exec::output(&mut helm).context("helm does not render the chart")?;
    fs::write(exec::root().join(RENDERED), rendered).context(RENDERED)
}

fn test() -> Result<()> {
    ensure!(exec::is_root()?, "run it as root: it runs a node");
    setup::run(For::Kubernetes)?;
    let kubernetes = ensure()?;
    let target = setup::own_target()?;
    let tests = programs::end_to_end(target)?;
    let image = image::build(&[ARCH.to_owned()], None)?;
    let chart = chart::pack(&Source::read()?)?;
    let wad = dist::folder(target).join("wad");
    let mut command = exec::command(&tests);
    command.arg("--kubernetes").arg(kubernetes).arg("--image").arg(image).arg("--chart").arg(chart);
    exec::run(command.env("WAD_BIN", wad))
}

/// Makes sure that the programs are there, and returns in which folder.
fn ensure() -> Result<PathBuf> {
    let name = format!("kubernetes-{VERSION}-helm-{HELM_VERSION}");
    let folder = tool_folders::folder(exec::root(), &name);
    let works = |folder: &Path| {
        let has = |name: &str| folder.join(name).exists();
        let version = exec::output(Command::new(folder.join("kubelet")).arg("--version"));
        NAMES.into_iter().all(has) && version.is_some_and(|printed| printed.contains(VERSION))
    };
    installed::ensure(&folder, works, make)?;
    Ok(folder)
}

fn make(folder: &Path) -> Result<()> {
    let mut go = go::command("Kubernetes", "1.26")?;
    eprintln!("building Kubernetes {VERSION} and helm {HELM_VERSION}, once for these versions");
    let build = folder.join("build");
    fs::create_dir(&build).with_context(|| build.display().to_string())?;
    for (name, text) in MODULE {
        let file = build.join(name);
        fs::write(&file, text).with_context(|| file.display().to_string())?;
    }
    // Without its version an API server takes itself for one that nobody's kubelet fits.
    let mut versions = String::from("-s -w");
    let minor = VERSION.split('.').nth(1).unwrap_or_default();
    for (variable, value) in [
        ("k8s.io/component-base/version.gitVersion", format!("v{VERSION}")),
        ("k8s.io/component-base/version.gitMajor", "1".to_owned()),
        ("k8s.io/component-base/version.gitMinor", minor.to_owned()),
        ("k8s.io/client-go/pkg/version.gitVersion", format!("v{VERSION}")),
    ] {
        versions.push_str(&format!(" -X {variable}={value}"));
    }
    exec::prepare(
        go.args(["build", "-mod=readonly", "-modcacherw", "-trimpath", "-ldflags"])
            .arg(&versions)
            .arg("-o")
            .arg(folder.join("node"))
            .arg(".")
            // They take some gigabytes, and nothing else is of them.
            .env("GOCACHE", build.join("cache"))
            .env("GOMODCACHE", build.join("modules"))
            .current_dir(&build),
    )?;
    for name in NAMES {
        symlink("node", folder.join(name)).context(name)?;
    }
    fs::remove_dir_all(&build).with_context(|| build.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str) -> &'static str {
        MODULE.iter().find(|(known, _)| *known == name).expect("of the module").1
    }

    #[test]
    fn the_module_is_of_these_versions() {
        assert!(file("go.mod").contains(&format!("k8s.io/kubernetes v{VERSION}\n")));
        assert!(file("go.mod").contains(&format!("helm.sh/helm/v4 v{HELM_VERSION}\n")));
        for name in NAMES {
            assert!(file("main.go").contains(&format!("case \"{name}\":")), "{name}");
        }
    }

    #[test]
    fn pods_are_learned_from_the_kubelet_and_nothing_is_asked_of_the_api_server() {
        let rendered = fs::read_to_string(exec::root().join(RENDERED)).unwrap();
        let mount = "mountPath: /var/lib/kubelet/pods-api\n              readOnly: true\n";
        let folder = "path: /var/lib/kubelet/pods-api\n            type: DirectoryOrCreate\n";
        for part in [mount, folder, "automountServiceAccountToken: false\n"] {
            assert!(rendered.contains(part), "{part}");
        }
        assert!(!rendered.contains("ClusterRole") && !rendered.contains("Token: true"));
    }

    #[test]
    fn the_chart_is_of_this_version() {
        let chart =
            fs::read_to_string(exec::root().join(chart::FOLDER).join("Chart.yaml")).unwrap();
        for key in ["version", "appVersion"] {
            let line = format!("\n{key}: {}\n", env!("CARGO_PKG_VERSION"));
            assert!(chart.contains(&line), "{key}");
        }
        let rendered = fs::read_to_string(exec::root().join(RENDERED)).unwrap();
        assert!(
            rendered.contains(&format!("image: localhost/wad:{}\n", env!("CARGO_PKG_VERSION")))
        );
    }
}
