//! The agent as its chart runs it, on a node of a real Kubernetes: install, change of the
//! configuration, updates under load, uninstall. `cargo xtask kubernetes test` builds what it
//! takes.

mod by_the_book;
mod capabilities;
mod pods;

use std::{
    fs,
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use wad_testbed::{
    another_build,
    kubernetes::{ADDRESS, Cluster, Image},
    process::{Place, Process, run_command},
    prometheus::Prometheus,
    say,
    stand::{Stand, until},
    wad::program,
};

use crate::{
    PEER,
    application::{Seen, kind},
    book,
};

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/kubernetes/chart");
const MANIFESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/kubernetes/manifests");
/// These can't be had on one node in namespaces.
const NOT_SHOWN: [&str; 9] = [
    "net.core.rmem_max and wmem_max are raised: they are the machine's, not the node's",
    "profiles of AppArmor: the node has none",
    "a node on which SELinux enforces, and OpenShift's constraints: the node has neither",
    "Prometheus finds the pods by itself: Debian's is built without that, and is told them",
    "a NetworkPolicy holds: the network of the node knows none",
    "PodMonitor and PrometheusRule are taken by their operator: it is not there",
    "several nodes, and an update that goes from one to the next",
    "a node with cgroup v2 alone",
    "kubeconform: an API server of this version has taken all but those two",
];

const SOON: Duration = Duration::from_secs(60);
/// The kubelet takes so long to show a changed ConfigMap, by its defaults.
const CHANGED: Duration = Duration::from_secs(90);
const PORT: u16 = 7000;
const FIRST_BYTES: usize = 100_000;
const SECOND_BYTES: usize = 150_000;

/// Returns the values of the chart for a node in which Linux does not tell `tcp_mem`. Of the
/// paths one is the application's, and one needs room in the node's own network namespace.
fn values(sndbuf: &str) -> String {
    format!(
        "image: {{ pullPolicy: Never }}\nmetrics: {{ dashboard: {{ enabled: true }}, \
         networkPolicy: {{ enabled: true, from: [{{ podSelector: {{}} }}] }} }}\nconfig: |\n  [metrics]\n  listen = '0.0.0.0:9464'\n  \
         [limits]\n  max_memory = '1GiB'\n  [[path]]\n  name = 'node'\n  remote = '{ADDRESS}'\n  \
         remote_port = {PORT}\n  sndbuf = {sndbuf}\n  congestion = 'wad_aimd'\n  [[path]]\n  \
         name = 'far'\n  remote = '192.0.2.0/24'\n  buffers = 'autotune'\n  \
         bandwidth = '1Gbit'\n  rtt = '100ms'\n{}",
        pods::path()
    )
}

/// A path with `buffers = "autotune"` needs more of this than a node has at first.
const ROOM: &str = "net.ipv4.tcp_wmem";

/// The script prints what the chart changes on a node, or might. What is known of pods stays, for
/// the next agent.
const STATE: &str = "\
sysctl --all 2>/dev/null | grep -E '^net\\.(core|ipv4\\.tcp)' | grep -v congestion_control
find /sys/fs/bpf
bpftool cgroup tree /sys/fs/cgroup/unified
ip rule
ip -6 rule
ip route show table all proto 119
find /run/wad /var/lib/wad -mindepth 1 ! -name 'pods-*.json' ! -name 'guards-*.json' 2>/dev/null || true
";

/// Runs all of it, with the programs of Kubernetes, the agent's image and the packed chart.
pub fn on_a_node(programs: &Path, image: &Path, chart: &Path) -> Result<()> {
    let _stand = Stand::set_up("kubernetes")?;
    let folder = tempfile::tempdir()?;
    let begun = Instant::now();
    let cluster = Cluster::start(folder.path(), programs)?;
    say(&format!("a node is there after {:.0} s", begun.elapsed().as_secs_f64()));
    let node = Node { cluster: &cluster, folder: folder.path() };
    node.run(image, chart).inspect_err(|_| say(&cluster.report()))?;
    for what in NOT_SHOWN {
        println!("not shown: {what}");
    }
    Ok(())
}

struct Node<'a> {
    cluster: &'a Cluster,
    folder: &'a Path,
}

impl Node<'_> {
    fn run(&self, image: &Path, chart: &Path) -> Result<()> {
        self.check_files()?;
        self.import(image)?;
        let _echo = self.echo(PORT)?;
        let before = self.state()?;
        let room = self.setting(ROOM)?;

        self.helm("install", FIRST_BYTES, &["--create-namespace"])?;
        let first = self.rolled_out()?;
        println!("installed: pod {first} is ready");
        let application = Application::start(self)?;
        let tuned = kind("wad_aimd", FIRST_BYTES);
        application.await_more(&tuned, 100)?;
        println!("connections of a pod are tuned");
        let raised = self.setting(ROOM)?;
        ensure!(raised != room, "{ROOM} is {raised} as before");
        println!("{ROOM} is raised from {room} to {raised}");
        self.is_scraped()?;

        self.changes_its_configuration(&application)?;
        ensure!(self.pods()? == [first.clone()], "{:?}", self.pods()?);

        // Another build, and then the first again with all privileges.
        self.helm("upgrade", SECOND_BYTES, &["--set=image.tag=next"])?;
        let second = self.takes_the_place(&first, &application)?;
        println!("another build takes the place of the one before: no connection is untuned");
        let all = "--set=privileges.networkNamespaces=true";
        self.helm("upgrade", SECOND_BYTES, &[all])?;
        let third = self.takes_the_place(&second, &application)?;
        let is_known = || self.knows(&third, application.seen()?.transfer_port);
        until("the transfer of the pod is adopted", SOON, is_known, |is_known| *is_known)?;
        println!("an agent that enters network namespaces adopts the pod's running transfer");
        let third = capabilities::are_needed(self, third, &application)?;
        let pods = pods::Pods::start(self, &third)?;
        // The kubelet is asked for labels every 15 s.
        pods.are_followed(&third, "kubelet", Duration::from_secs(20))?;
        self.helm("upgrade", SECOND_BYTES, &[all, "--set=pods.apiServer=true"])?;
        let fourth = self.takes_the_place(&third, &application)?;
        pods.are_followed(&fourth, "api_server", Duration::from_secs(1))?;
        pods.end()?;

        self.uninstall(&["helm", "uninstall", "wad", "--namespace=wad", "--wait"])?;
        self.is_as(&before)?;
        application.await_others()?;
        println!("uninstalled: the node is as before, and the pod's connections are untuned");
        self.runs_by_kustomize(&before)?;
        application.is_well()?;

        // Last: a kubelet that has pulled an image takes the same one from its node no more by
        // another name.
        by_the_book::installs(self, image, chart)?;
        self.is_as(&before)?;
        println!("two lines of the book install it from a registry");
        Ok(())
    }

    /// Holds the chart against its own linter, its schema, and the plain manifests.
    fn check_files(&self) -> Result<()> {
        self.cluster.helm(&["lint", "--strict", CHART])?;
        let rendered = |more: &[&str]| {
            self.cluster.helm(&[&["template", "wad", CHART, "--namespace=wad"], more].concat())
        };
        let plain = rendered(&["--kube-version=1.37.0"])?;
        let kept = fs::read_to_string(Path::new(MANIFESTS).join("wad.yaml"))?;
        ensure!(
            plain == kept,
            "config/kubernetes/manifests/wad.yaml is not what the chart renders: \
             `cargo xtask kubernetes render` renews it"
        );
        for refused in [
            "image.tagg=x",
            "metrics.port=0",
            "metrics.port=9000",
            "seLinuxOptions.typ=x",
            "extraEnv=x",
        ] {
            let set = format!("--set={refused}");
            ensure!(
                self.cluster.helm(&["template", "wad", CHART, &set]).is_err(),
                "{refused} is taken"
            );
        }
        let enabled = ["service", "podMonitor", "rules", "dashboard", "networkPolicy"]
            .map(|name| format!("--set=metrics.{name}.enabled=true"));
        let mut arguments = vec!["template", "wad", CHART];
        arguments.extend(enabled.iter().map(String::as_str));
        let all = self.cluster.helm(&arguments)?;
        for part in
            ["kind: PodMonitor", "alert: WadAgentDown", "\"uid\": \"wad\"", "kind: NetworkPolicy"]
        {
            ensure!(all.contains(part), "{part} is not rendered");
        }
        self.check_guarded()?;
        // It asks nothing of the API server, unless it is told to.
        let by_server =
            rendered(&["--kube-version=1.37.0", "--set=pods.apiServer=true,pods.kubelet=false"])?;
        let untyped = rendered(&["--kube-version=1.37.0", "--set=seLinuxOptions=null"])?;
        ensure!(plain.contains("seLinuxOptions:\n              type: spc_t\n"), "{plain}");
        ensure!(!untyped.contains("seLinuxOptions"), "{untyped}");
        // Kubelets before 1.37 have no socket.
        let before = rendered(&["--kube-version=1.36.9"])?;
        for (part, is_there) in [
            ("kind: ClusterRoleBinding", [false, true, false]),
            ("verbs: [list, watch]", [false, true, false]),
            ("automountServiceAccountToken: true", [false, true, false]),
            ("mountPath: /var/lib/kubelet/pods-api\n", [true, false, false]),
            ("name: pods-api\n", [true, false, false]),
            ("fieldPath: spec.nodeName", [true, true, true]),
        ] {
            let found = [&plain, &by_server, &before].map(|rendered| rendered.contains(part));
            ensure!(
                found == is_there,
                "{part}: {found:?} in the default, by the API server, before 1.37"
            );
        }
        println!("the chart is linted, and the plain manifests are what it renders");
        Ok(())
    }

    /// Holds the chart against the values of the book's page.
    fn check_guarded(&self) -> Result<()> {
        let log = book::block(book::KUBERNETES, "The log", "yaml")?;
        let guarded = book::block(book::KUBERNETES, "Guarded", "yaml")?;
        let file = self.folder.join("guarded.yaml");
        fs::write(&file, format!("{guarded}{log}"))?;
        let values = format!("--values={}", file.display());
        let config = self.folder.join("guarded.toml");
        fs::write(&config, book::block(book::KUBERNETES, "Guarded", "toml")?)?;
        let config = format!("--set-file=config={}", config.display());
        let rendered = self.cluster.helm(&["template", "wad", CHART, &values, &config])?;
        for part in [
            "    certificate_key = \"/run/secrets/metrics/tls.key\"\n",
            "            defaultMode: 256\n            secretName: wad-metrics\n",
            "            - mountPath: /run/secrets/metrics\n              name: metrics\n",
            "            - name: WAD_LOG\n              value: info,wad::events::summary=warn\n",
            "      scheme: https\n      tlsConfig:\n        ca:\n          secret:\n",
            "        serverName: wad.example.net\n      basicAuth:\n        password:\n",
        ] {
            ensure!(rendered.contains(part), "{part} is not in:\n{rendered}");
        }
        Ok(())
    }

    fn import(&self, image: &Path) -> Result<()> {
        let busybox = Path::new("/usr/bin/busybox");
        let words = ["/usr/bin/busybox", "sleep", "1000000000"];
        let files = [(busybox, words[0])];
        let pause = Image { name: "localhost/pause:1", files: &files, words: &words };
        let next = self.folder.join("next");
        another_build::make(&program()?, &next)?;
        let (own, peer) = (std::env::current_exe()?, format!("/usr/bin/{PEER}"));
        let other = Image {
            name: "localhost/wad:next",
            files: &[(&next, "/usr/bin/wad")],
            words: &["wad"],
        };
        let application = Image {
            name: "localhost/application:1",
            files: &[(&own, &peer)],
            words: &[&peer, "application", &format!("{ADDRESS}:{PORT}")],
        };
        self.cluster.import(image)?;
        for image in [pause, other, application] {
            self.cluster.import(&image.write(self.folder)?)?;
        }
        Ok(())
    }

    /// Has the other end of pods' connections on the node, at this port.
    fn echo(&self, port: u16) -> Result<Process> {
        let program = self.folder.join(PEER);
        if !program.exists() {
            fs::copy(std::env::current_exe()?, &program)?;
        }
        let mut echo = self.cluster.server(program);
        echo.args(["echo", &format!("{ADDRESS}:{port}")]).stdin(Stdio::null());
        Ok(Place::default().spawn(echo)?)
    }

    fn helm(&self, order: &str, sndbuf_bytes: usize, more: &[&str]) -> Result<()> {
        self.helm_with(order, &values(&sndbuf_bytes.to_string()), more)
    }

    fn helm_with(&self, order: &str, values: &str, more: &[&str]) -> Result<()> {
        let file = self.folder.join("values.yaml");
        fs::write(&file, values)?;
        let file = format!("--values={}", file.display());
        self.cluster.helm(&[&[order, "wad", CHART, "--namespace=wad", &file], more].concat())?;
        Ok(())
    }

    /// Waits until all pods are of what was said last, and ready; returns the name of the one.
    fn rolled_out(&self) -> Result<String> {
        let status = ["rollout", "status", "daemonset/wad", "--namespace=wad", "--timeout=120s"];
        self.cluster.kubectl(&status)?;
        let pods = until("one pod is left", SOON, || self.pods(), |pods| pods.len() == 1)?;
        pods.into_iter().next().context("one pod")
    }

    fn pods(&self) -> Result<Vec<String>> {
        let names = "--output=jsonpath={.items[*].metadata.name}";
        let of_agents = "--selector=app.kubernetes.io/name=wad";
        let names = self.cluster.kubectl(&["get", "pods", "--namespace=wad", of_agents, names])?;
        Ok(names.split_whitespace().map(str::to_owned).collect())
    }

    /// Has the kubelet look at the pod's volumes now.
    fn hurry(&self, pod: &str, mark: &str) -> Result<()> {
        let mark = format!("looked={mark}");
        self.cluster.kubectl(&["annotate", "pod", pod, "--namespace=wad", "--overwrite", &mark])?;
        Ok(())
    }

    fn metric(&self, series: &str) -> Result<f64> {
        let page = run_command(self.cluster.command("curl").args(["--silent", "--fail"]).args([
            "--max-time",
            "5",
            "http://127.0.0.1:9464/metrics",
        ]))?;
        let value = page.lines().find_map(|line| line.strip_prefix(series)?.trim().parse().ok());
        value.with_context(|| format!("{series} is not in:\n{page}"))
    }

    fn setting(&self, name: &str) -> Result<String> {
        let read = run_command(self.cluster.command("sysctl").args(["--values", name]))?;
        Ok(read.trim().replace('\t', " "))
    }

    fn state(&self) -> Result<String> {
        Ok(run_command(self.cluster.command("sh").args(["-euc", STATE]))?)
    }

    fn is_as(&self, before: &str) -> Result<()> {
        let is_as_before = |now: &String| now == before;
        match until("the node is as before", SOON, || self.state(), is_as_before) {
            Ok(_) => Ok(()),
            Err(error) => bail!("{error:#}\nbefore:\n{before}"),
        }
    }

    /// A change is in force without a restart, and a wrong one never.
    fn changes_its_configuration(&self, application: &Application<'_>) -> Result<()> {
        self.helm("upgrade", SECOND_BYTES, &[])?;
        let begun = Instant::now();
        application.await_first(&kind("wad_aimd", SECOND_BYTES), CHANGED)?;
        let took_s = begun.elapsed().as_secs_f64();
        println!("a changed ConfigMap is in force after {took_s:.0} s");

        let pods = self.pods()?;
        let pod = pods.first().context("a pod")?;
        let successful = || self.metric("wad_config_last_reload_successful");
        self.helm_with("upgrade", &values("'as much as there is'"), &[])?;
        self.hurry(pod, "wrong")?;
        until("a wrong one is refused", CHANGED, successful, |value| *value == 0.0)?;
        application.await_more(&kind("wad_aimd", SECOND_BYTES), 100)?;
        let log = self.cluster.kubectl(&["logs", "--namespace=wad", pod])?;
        ensure!(log.contains("the policy stays as it was"), "{log}");
        self.helm("upgrade", SECOND_BYTES, &[])?;
        self.hurry(pod, "right")?;
        until("the right one is taken", CHANGED, successful, |value| *value == 1.0)?;
        println!("a wrong one changes nothing, and the metrics say so");
        Ok(())
    }

    /// The pod of an update is ready, the one before is gone, and all connections made
    /// meanwhile are tuned.
    fn takes_the_place(&self, before: &str, application: &Application<'_>) -> Result<String> {
        let pod = self.rolled_out()?;
        ensure!(pod != before, "{pod} is as before");
        application.await_more(&kind("wad_aimd", SECOND_BYTES), 100)?;
        application.is_tuned()?;
        let log = self.cluster.kubectl(&["logs", "--namespace=wad", &pod])?;
        ensure!(log.contains("taking the place of wad"), "{log}");
        Ok(pod)
    }

    /// Whether an agent has a connection with this port among those of the path.
    fn knows(&self, pod: &str, port: u16) -> Result<bool> {
        let flows = ["exec", "--namespace=wad", pod, "--", "wad", "flows", "--json", "--path=node"];
        let reading: Value = serde_json::from_str(&self.cluster.kubectl(&flows)?)?;
        let flows = reading["flows"].as_array().context("a list of flows")?;
        let end = format!(":{port}");
        Ok(flows.iter().any(|flow| flow["local"].as_str().is_some_and(|at| at.ends_with(&end))))
    }

    /// A Prometheus scrapes what the Service has as its endpoints.
    fn is_scraped(&self) -> Result<()> {
        let endpoints = self.cluster.kubectl(&[
            "get",
            "endpointslices",
            "--namespace=wad",
            "--selector=kubernetes.io/service-name=wad",
            "--output=jsonpath={.items[0].endpoints[0].addresses[0]}:{.items[0].ports[0].port}",
        ])?;
        ensure!(endpoints == format!("{ADDRESS}:9464"), "{endpoints}");
        let prometheus = Prometheus::start_by(
            self.cluster.server("prometheus"),
            self.folder,
            endpoints.parse()?,
            &[],
        )?;
        let matched = || -> Result<f64> {
            let url = format!(
                "http://127.0.0.1:{}/api/v1/query?query=wad_connections_matched_total",
                prometheus.port()
            );
            let mut ask = self.cluster.command("curl");
            // It answers nothing at first.
            let Ok(answer) = run_command(ask.args(["--silent", &url])) else { return Ok(0.0) };
            let answer: Value = serde_json::from_str(&answer).unwrap_or_default();
            let results = answer["data"]["result"].as_array().cloned().unwrap_or_default();
            let of_path = results.iter().find(|result| result["metric"]["path"] == "node");
            let value = of_path.and_then(|result| result["value"][1].as_str()?.parse().ok());
            Ok(value.unwrap_or_default())
        };
        until("Prometheus has scraped the pod", SOON, matched, |matched| *matched > 0.0)?;
        println!("Prometheus scrapes the endpoints of the Service");
        Ok(())
    }

    fn uninstall(&self, words: &[&str]) -> Result<()> {
        run_command(self.cluster.command(words[0]).args(&words[1..]))?;
        until("no pod is left", SOON, || self.pods(), Vec::is_empty)?;
        Ok(())
    }

    /// The plain manifests are a base, on which a site puts its own configuration.
    fn runs_by_kustomize(&self, before: &str) -> Result<()> {
        let overlay = self.folder.join("overlay");
        fs::create_dir_all(&overlay)?;
        fs::write(
            overlay.join("kustomization.yaml"),
            format!(
                "resources: [{}]\npatches:\n- patch: |\n    apiVersion: v1\n    kind: ConfigMap\n    \
                 metadata: {{ name: wad, namespace: wad }}\n    data:\n      wad.toml: |\n        \
                 [limits]\n        max_memory = '1GiB'\n        [[path]]\n        name = 'node'\n        \
                 remote = '{ADDRESS}'\n        sndbuf = {FIRST_BYTES}\n",
                relative(&overlay, Path::new(MANIFESTS))?
            ),
        )?;
        let overlay = overlay.display().to_string();
        self.cluster.kubectl(&["apply", "--kustomize", &overlay])?;
        let pod = self.rolled_out()?;
        let status = ["exec", "--namespace=wad", &pod, "--", "wad", "status", "--ready"];
        self.cluster.kubectl(&status)?;
        self.uninstall(&["kubectl", "delete", "--kustomize", &overlay])?;
        self.is_as(before)?;
        println!("the plain manifests do the same by `kubectl apply --kustomize`");
        Ok(())
    }
}

/// Kustomize takes a base by a relative path alone.
fn relative(from: &Path, to: &Path) -> Result<String> {
    let (from, to) = (fs::canonicalize(from)?, fs::canonicalize(to)?);
    let up = "../".repeat(from.components().count() - 1);
    Ok(format!("{up}{}", to.display().to_string().trim_start_matches('/')))
}

/// A plain pod with connections to the node.
struct Application<'a>(&'a Node<'a>);

impl<'a> Application<'a> {
    fn start(node: &'a Node<'a>) -> Result<Self> {
        let pod = "apiVersion: v1\nkind: Pod\nmetadata: { name: application }\nspec:\n  \
                   restartPolicy: Never\n  terminationGracePeriodSeconds: 0\n  containers:\n  \
                   - { name: application, image: 'localhost/application:1', \
                   imagePullPolicy: Never }\n";
        let file = node.folder.join("application.yaml");
        fs::write(&file, pod)?;
        node.cluster.kubectl(&["apply", "--filename", &file.display().to_string()])?;
        Ok(Self(node))
    }

    fn seen(&self) -> Result<Seen> {
        let told = self.0.cluster.kubectl(&["logs", "--ignore-errors", "application", "--tail=1"]);
        Ok(serde_json::from_str(&told.unwrap_or_default()).unwrap_or_default())
    }

    fn await_more(&self, kind: &str, more: u64) -> Result<()> {
        let now = self.seen()?.connections.get(kind).copied().unwrap_or_default();
        let is_more =
            |seen: &Seen| seen.connections.get(kind).is_some_and(|count| *count >= now + more);
        until("more connections are tuned", SOON, || self.seen(), is_more)?;
        Ok(())
    }

    fn await_first(&self, kind: &str, limit: Duration) -> Result<()> {
        let is_there = |seen: &Seen| seen.connections.contains_key(kind);
        until("connections have what was changed", limit, || self.seen(), is_there)?;
        Ok(())
    }

    /// No connection has got anything but what one policy or the other gives.
    fn is_tuned(&self) -> Result<()> {
        let seen = self.seen()?;
        let of_policies = [FIRST_BYTES, SECOND_BYTES].map(|bytes| kind("wad_aimd", bytes));
        let untuned = seen.connections.keys().find(|kind| !of_policies.contains(kind));
        ensure!(untuned.is_none(), "{seen:?}");
        self.is_well()
    }

    /// Connections get what the kernel gives by itself.
    fn await_others(&self) -> Result<()> {
        let is_other =
            |seen: &Seen| seen.connections.keys().any(|kind| !kind.starts_with("wad_aimd"));
        until("connections are untuned", SOON, || self.seen(), is_other)?;
        Ok(())
    }

    /// Its transfer goes on, and each byte came back as it was sent.
    fn is_well(&self) -> Result<()> {
        let before = self.seen()?.blocks;
        until("the transfer goes on", SOON, || self.seen(), |seen| seen.blocks > before)?;
        Ok(())
    }
}
