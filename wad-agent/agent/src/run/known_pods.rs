//! Pods of this node are followed where paths depend on them, and where this is a node of
//! Kubernetes, so that flows have their names. Those that paths depend on are kept for the
//! next agent, to whom nobody may tell of them at first.

use std::{
    env,
    future::pending,
    sync::{Arc, Mutex},
    time::{Duration, Instant, SystemTime},
};

use tokio::{sync::watch, time::timeout};
use tracing::{info, warn};
use wad_linux::{
    cgroup,
    cgroup_tree::{Cgroups, Tree},
};
use wad_observing::metrics::PodsReading;
use wad_policy::{
    config::{KubernetesSettings, PathPolicy},
    pod::Pods,
};
use wad_toolbox::mutex::locked;

use crate::pods::{self, Cache, Known, Origin, PodCgroups};

/// So long the start waits to hear of pods: connections of theirs that run are not to leave
/// their paths because an agent has taken the place of another. The API server is asked when
/// the kubelet has not answered for some seconds.
const START_PATIENCE: Duration = Duration::from_secs(6);

/// The pods that are kept are written anew so often at least, as they count for an hour.
const KEEP_INTERVAL: Duration = Duration::from_secs(600);

/// Kubernetes gives it to every container.
const SERVICE: &str = "KUBERNETES_SERVICE_HOST";

/// The pods, while they are followed.
pub struct Followed {
    source: Option<(KubernetesSettings, watch::Receiver<Known>)>,
    /// The latest that was heard.
    known: Known,
    /// A path depends on them.
    paths_depend: bool,
    /// Whoever answers tells this.
    pub told: Arc<Mutex<Option<PodsReading>>>,
    cache: Cache,
    kept: Option<Kept>,
}

/// The pods that are on the disk, and since when.
struct Kept {
    at: Instant,
    pods: Arc<Pods>,
    cgroups: PodCgroups,
}

impl Followed {
    pub fn nothing(cache: Cache) -> Self {
        Self {
            source: None,
            known: Known::default(),
            paths_depend: false,
            told: Arc::default(),
            cache,
            kept: None,
        }
    }

    /// Follows them where paths depend on them or this host is a node, else not any more.
    /// Needs a tokio runtime.
    pub fn follow_for(&mut self, settings: &KubernetesSettings, paths_depend: bool) {
        self.follow(settings, paths_depend, is_node(settings));
    }

    fn follow(&mut self, settings: &KubernetesSettings, paths_depend: bool, is_node: bool) {
        self.paths_depend = paths_depend;
        if !self.paths_depend && !is_node {
            let told = Arc::clone(&self.told);
            *locked(&told) = None;
            *self = Self { told, ..Self::nothing(self.cache.clone()) };
        } else if self.source.as_ref().is_none_or(|(before, _)| before != settings) {
            let before = self.before();
            self.source = Some((settings.clone(), pods::follow(settings, before)));
            locked(&self.told).get_or_insert_default();
        }
        self.tell();
    }

    /// Returns the pods that were known before others are asked, by an agent before this one if
    /// nobody was asked yet.
    fn before(&self) -> Arc<Pods> {
        if self.source.is_some() || !self.paths_depend {
            return Arc::clone(&self.known.pods);
        }
        let tree = cgroup::root().map_err(anyhow::Error::from);
        let tree = tree.and_then(|root| Ok(Tree::open(&root)?));
        let there = tree.map(|tree| pods::of_pods(tree.cgroups()));
        let read = there
            .and_then(|there| Ok(self.cache.read(SystemTime::now(), &there)?))
            .inspect_err(|error| warn!("pods are learned anew: {error:#}"));
        Arc::new(read.unwrap_or_default())
    }

    /// Keeps what is known for the next agent, where paths depend on it.
    pub fn keep(&mut self, cgroups: &Cgroups) {
        if !self.paths_depend || self.known.origin.is_none() {
            return;
        }
        let (pods, cgroups) = (Arc::clone(&self.known.pods), pods::of_pods(cgroups));
        let is_kept = |kept: &Kept| {
            kept.at.elapsed() < KEEP_INTERVAL && kept.pods == pods && kept.cgroups == cgroups
        };
        if !self.kept.as_ref().is_some_and(is_kept) {
            self.cache.keep(SystemTime::now(), Arc::clone(&pods), cgroups.clone());
            self.kept = Some(Kept { at: Instant::now(), pods, cgroups });
        }
    }

    /// Waits until it is known which pods there are, or that nobody says so; but not for long,
    /// and not at all where no path depends on them.
    pub async fn first(&mut self) {
        let Some((_, source)) = self.source.as_mut().filter(|_| self.paths_depend) else { return };
        let has_heard = |known: &Known| known.origin.is_some() || known.lacking.is_some();
        // What an agent before this one knew holds where nobody has answered.
        let _ = timeout(START_PATIENCE, source.wait_for(has_heard)).await;
        let known = source.borrow_and_update().clone();
        self.hear(known);
    }

    pub const fn pods(&self) -> &Arc<Pods> {
        &self.known.pods
    }

    /// Whether a path depends on them.
    pub const fn paths_depend(&self) -> bool {
        self.paths_depend
    }

    /// Waits until there are others, or other labels; for ever where none are followed.
    pub async fn changed(&mut self) {
        loop {
            let Some((_, source)) = &mut self.source else { return pending().await };
            if source.changed().await.is_err() {
                // Whoever followed them has ended, which is a mistake of ours.
                warn!("pods are not followed any more: restart the agent");
                self.source = None;
                continue;
            }
            let known = source.borrow_and_update().clone();
            if self.hear(known) {
                return;
            }
        }
    }

    /// Counts connections that came under their path while they ran.
    pub fn count_adopted(&self, flows: usize) {
        if let Some(told) = &mut *locked(&self.told) {
            told.adopted = told.adopted.saturating_add(flows as u64);
        }
    }

    /// Takes news in. Returns whether there are other pods.
    fn hear(&mut self, known: Known) -> bool {
        let before = std::mem::replace(&mut self.known, known);
        self.tell();
        let Known { pods, origin, lacking } = &self.known;
        match (self.lacking(), origin) {
            (Some(what), _) if before.lacking != *lacking && self.paths_depend => {
                warn!("lacking: {what}");
            }
            (Some(what), _) if before.lacking != *lacking => info!("lacking: {what}"),
            (None, Some(origin)) if before.origin.map(name) != Some(name(*origin)) => {
                info!(pods = pods.len(), "pods of this node are known, {}", said(*origin));
            }
            _ => {}
        }
        before.pods != *pods
    }

    /// Has whoever answers tell what is known now.
    fn tell(&self) {
        if let Some(told) = &mut *locked(&self.told) {
            told.known = self.known.pods.len() as u64;
            told.origin = self.known.origin.map(name);
            told.lacking = self.lacking();
            told.is_failing = self.paths_depend && told.lacking.is_some();
        }
    }

    /// Says what goes without where nobody says which pods there are, and why that is so.
    fn lacking(&self) -> Option<String> {
        let why = self.known.lacking.as_ref()?;
        let what = match self.known.pods.len() {
            0 if self.paths_depend => "paths with `pods` match nothing".to_owned(),
            0 => "connections have no names of pods".to_owned(),
            known if self.paths_depend => {
                format!("paths with `pods` go by the {known} pods that were known last")
            }
            known => format!("connections have names of the {known} pods that were known last"),
        };
        Some(format!("{what}: {why}"))
    }
}

/// Whether any of these paths is for pods.
pub fn are_named_by(paths: &[PathPolicy]) -> bool {
    let of_pods = |path: &PathPolicy| path.cgroup.as_ref().is_some_and(|it| it.is_of_pods());
    paths.iter().any(of_pods)
}

/// Whether this host is a node of Kubernetes, as far as is seen without asking.
fn is_node(settings: &KubernetesSettings) -> bool {
    settings.api_server.is_some()
        || env::var_os(SERVICE).is_some()
        || settings.kubelet_socket.exists()
}

const fn name(origin: Origin) -> &'static str {
    match origin {
        Origin::Kubelet => "kubelet",
        Origin::ApiServer => "api_server",
    }
}

const fn said(origin: Origin) -> &'static str {
    match origin {
        Origin::Kubelet => "from the kubelet",
        Origin::ApiServer => "from the API server",
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use wad_policy::{
        config::{CgroupSelector, PodSelector},
        pod::Pod,
    };

    use super::*;

    fn nothing() -> Followed {
        Followed::nothing(Cache::new(Path::new("/nonexistent"), "test"))
    }

    fn following(paths_depend: bool) -> (watch::Sender<Known>, Followed) {
        let (sender, source) = watch::channel(Known::default());
        let source = Some((KubernetesSettings::default(), source));
        let told = Arc::new(Mutex::new(Some(PodsReading::default())));
        (sender, Followed { source, paths_depend, told, ..nothing() })
    }

    fn known(label: &str) -> Known {
        let pod = Pod {
            namespace: "transfer".to_owned(),
            name: "dtn-0".to_owned(),
            labels: [("app".to_owned(), label.to_owned())].into(),
            containers: [].into(),
        };
        let pods = Arc::new([("uid".to_owned(), pod)].into());
        Known { pods, origin: Some(Origin::Kubelet), lacking: None }
    }

    async fn has_changed(followed: &mut Followed) -> bool {
        timeout(Duration::from_millis(20), followed.changed()).await.is_ok()
    }

    #[tokio::test]
    async fn only_other_pods_or_labels_are_news() {
        let (sender, mut followed) = following(true);
        assert!(!has_changed(&mut followed).await);
        sender.send_replace(known("web"));
        assert!(has_changed(&mut followed).await && followed.pods().len() == 1);
        sender.send_replace(known("web"));
        assert!(!has_changed(&mut followed).await);
        sender.send_replace(known("dtn"));
        assert!(has_changed(&mut followed).await);
        // Whoever followed them has gone: they are as they were.
        drop(sender);
        assert!(!has_changed(&mut followed).await && followed.pods().len() == 1);
    }

    #[tokio::test]
    async fn the_start_waits_for_the_first_word() {
        let (sender, mut followed) = following(true);
        let late = tokio::spawn(async move {
            sender.send_replace(known("dtn"));
            sender
        });
        followed.first().await;
        assert_eq!(followed.pods().len(), 1);
        assert!(!has_changed(&mut followed).await);
        drop(late.await);
        // Nobody is asked, and no path depends on them.
        nothing().first().await;
        let (_sender, mut followed) = following(false);
        let begun = tokio::time::Instant::now();
        followed.first().await;
        assert!(begun.elapsed() < START_PATIENCE);
    }

    #[tokio::test]
    async fn what_is_lacking_is_told_with_what_goes_without() {
        let told = |followed: &Followed| locked(&followed.told).clone().expect("followed");
        for (paths_depend, at_first, later) in [
            (true, "paths with `pods` match nothing: why", "go by the 1 pods that were known"),
            (false, "connections have no names of pods: why", "names of the 1 pods that were"),
        ] {
            let (sender, mut followed) = following(paths_depend);
            let lacking = || Known { lacking: Some("why".to_owned()), ..Known::default() };
            sender.send_replace(lacking());
            assert!(!has_changed(&mut followed).await);
            assert_eq!(told(&followed).lacking.as_deref(), Some(at_first));
            assert_eq!(told(&followed).is_failing, paths_depend);
            sender.send_replace(known("dtn"));
            assert!(has_changed(&mut followed).await);
            let PodsReading { known: pods, origin, lacking: none, .. } = told(&followed);
            assert_eq!((pods, origin, none), (1, Some("kubelet"), None));
            sender.send_replace(Known { pods: known("dtn").pods, ..lacking() });
            assert!(!has_changed(&mut followed).await);
            let PodsReading { known: pods, origin, lacking: some, .. } = told(&followed);
            assert_eq!((pods, origin), (1, None));
            assert!(some.as_ref().is_some_and(|some| some.contains(later)), "{some:?}");
        }
    }

    #[tokio::test]
    async fn paths_without_pods_on_another_host_follow_nothing() {
        let settings = KubernetesSettings::default();
        let of_pods = PodSelector { namespace: Some("transfer".to_owned()), labels: [].into() };
        let cgroup = Some(CgroupSelector::OfPods(of_pods));
        let paths = [PathPolicy { cgroup, ..PathPolicy::default() }];
        assert!(are_named_by(&paths) && !are_named_by(&[PathPolicy::default()]));
        let mut followed = nothing();
        followed.follow(&settings, true, false);
        assert!(followed.source.is_some() && locked(&followed.told).is_some());
        followed.count_adopted(3);
        followed.follow(&settings, true, false);
        assert_eq!(locked(&followed.told).as_ref().map(|told| told.adopted), Some(3));
        followed.follow(&settings, false, true);
        assert!(followed.source.is_some() && !followed.paths_depend());
        followed.follow(&settings, false, false);
        assert!(followed.source.is_none() && locked(&followed.told).is_none());
    }
}
