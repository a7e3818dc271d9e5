use wad_common::growth::Holder;
use wad_linux::sysctl::testing;
use wad_policy::config::{Config, testing::host};

use super::*;

/// Returns what the paths of a configuration need, by their number.
fn needs(paths: &str, has_routes: bool) -> HashMap<u32, Needs> {
    let config = Config::parse("wad.toml", paths, &host()).unwrap();
    let needs = |path: &PathPolicy| Needs::of(path, has_routes);
    (0..).zip(&config.paths).filter_map(|(index, path)| Some((index, needs(path)?))).collect()
}

const PATHS: &str = "[host]\nroutes = true\n\
    [[path]]\nname = 'a'\nremote = '10.0.0.1'\nbandwidth = '100Mbit'\nrtt = '80ms'\n\
    buffers = 'autotune'\n\
    [[path]]\nname = 'b'\nremote = '10.0.0.2'\nreorder = 19\n\
    [[path]]\nname = 'c'\nremote = '10.0.0.3'\nsndbuf = '1MiB'\n\
    [[path]]\nname = 'd'\nremote = '10.0.0.4'\nmode = 'observe'\nreorder = 19\n";

fn flow(netns: u32, policy: u32) -> Holding {
    Holding { holder: Holder { policy, ..Holder::default() }, netns, ..Holding::default() }
}

#[test]
fn a_path_needs_what_no_option_of_a_socket_gives() {
    let with_routes = needs(PATHS, true);
    assert_eq!(with_routes.len(), 2);
    assert_eq!((with_routes[&0].tuned_bytes, with_routes[&0].has_metrics), (2_500_000, false));
    assert_eq!((with_routes[&1].tuned_bytes, with_routes[&1].has_metrics), (0, true));
    assert_eq!(needs(PATHS, false).len(), 1);
}

#[test]
fn a_namespace_gets_what_the_paths_of_its_flows_need() {
    let wants = Wants { needs: needs(PATHS, true), queues: Vec::new() };
    let flows = [flow(7, 0), flow(7, 0), flow(7, 1), flow(8, 1), flow(9, 2)];
    let wanted = wants.of(&flows);
    assert_eq!(wanted.len(), 2);
    assert_eq!((wanted[&7].tuned_bytes, wanted[&7].has_metrics), (2_500_000, true));
    assert_eq!(wanted[&7].paths.len(), 2);
    assert_eq!((wanted[&8].tuned_bytes, wanted[&8].has_metrics), (0, true));
    // Queues are for whatever path.
    let queues = vec![TransmitQueue { interface: "eth0".to_owned(), packets: 5000 }];
    assert_eq!(Wants { needs: HashMap::new(), queues }.of(&flows).len(), 3);
}

/// The means of a pass, on a host that has nothing to be changed.
struct Stage {
    _state: tempfile::TempDir,
    _root: tempfile::TempDir,
    means: Means,
    _rules: watch::Sender<Vec<Selected>>,
}

impl Stage {
    fn new() -> Self {
        let (root, sysctl) = testing::tree(&[]);
        let state = tempfile::tempdir().unwrap();
        let journal = Journal::open(state.path(), "default", sysctl).unwrap();
        let (sender, rules) = watch::channel(Vec::new());
        let means = Means {
            wants: Arc::new(Wants { needs: needs(PATHS, true), queues: Vec::new() }),
            rules,
            journal: Arc::new(Mutex::new(journal)),
            stop: Arc::default(),
        };
        Self { _state: state, _root: root, means, _rules: sender }
    }
}

/// No namespace has such a number: they are larger.
const NOWHERE: u32 = 7;

#[test]
fn a_namespace_that_is_nowhere_is_counted_and_named_and_tried_again_later() {
    let stage = Stage::new();
    let standing = Standing::default();
    let mut namespaces = Namespaces::new(&HashSet::new(), standing.clone());
    let followed = namespaces.follow(&[flow(NOWHERE, 0)], &stage.means);
    assert_eq!(followed.skipped.missing, 1);
    assert_eq!(standing.of("a"), [format!("not in network namespace 7: {UNSEEN}")]);
    let followed = namespaces.follow(&[flow(NOWHERE, 0)], &stage.means);
    assert_eq!((followed.skipped.missing, followed.has_changed), (0, false));
    namespaces.held.get_mut(&7).unwrap().again = Instant::now();
    assert_eq!(namespaces.follow(&[flow(NOWHERE, 0)], &stage.means).skipped.missing, 1);
    // Where it was well, too: another namespace may have that number by now.
    let held = namespaces.held.get_mut(&7).unwrap();
    (held.failed, held.again) = (None, Instant::now());
    assert_eq!(namespaces.follow(&[flow(NOWHERE, 0)], &stage.means).skipped.missing, 1);
}

#[test]
fn a_namespace_is_left_when_it_has_had_no_flow_for_long_or_something_else_is_wanted() {
    let mut stage = Stage::new();
    let mut namespaces = Namespaces::default();
    namespaces.follow(&[flow(NOWHERE, 0)], &stage.means);
    // Others may come.
    namespaces.follow(&[], &stage.means);
    assert_eq!(namespaces.held.len(), 1);
    namespaces.held.get_mut(&7).unwrap().seen -= STAY;
    // It is not missed any more.
    assert_eq!(namespaces.follow(&[], &stage.means).skipped.missing, 0);
    assert!(namespaces.held.is_empty());

    namespaces.follow(&[flow(NOWHERE, 0)], &stage.means);
    stage.means.wants = Arc::default();
    namespaces.follow(&[flow(NOWHERE, 0)], &stage.means);
    assert!(namespaces.held.is_empty() && namespaces.is_idle(&stage.means.wants));
}

#[test]
fn what_an_agent_before_has_changed_is_left_at_the_first_pass_unless_it_is_stopped() {
    let stage = Stage::new();
    let place: Identity = serde_json::from_str("{\"device\":0,\"inode\":7}").unwrap();
    let mut namespaces = Namespaces::new(&[place].into(), Standing::default());
    assert!(!namespaces.is_idle(&Wants::default()));
    stage.means.stop.store(true, Ordering::Relaxed);
    namespaces.follow(&[], &stage.means);
    assert_eq!(namespaces.held.len(), 1);
    stage.means.stop.store(false, Ordering::Relaxed);
    namespaces.follow(&[], &stage.means);
    assert!(namespaces.held.is_empty());
}

#[test]
fn there_is_room_for_so_many_and_the_rest_is_named() {
    let mut namespaces = Namespaces::default();
    let wanted = (0..MAX_NAMESPACES as u64 + 3).map(|inode| (inode, Wanted::default())).collect();
    let (changing, beyond) = namespaces.changing(wanted, false, Instant::now());
    assert_eq!((changing.len(), beyond.len()), (MAX_NAMESPACES, 3));
}
