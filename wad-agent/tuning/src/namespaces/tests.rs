use wad_common::growth::Holder;
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
    let mut namespaces = Namespaces::default();
    let flows = [flow(7, 0), flow(7, 0), flow(7, 1), flow(8, 1), flow(9, 2)];
    namespaces.want(needs(PATHS, true), false);
    let wanted = namespaces.wanted(&flows);
    assert_eq!(wanted.len(), 2);
    assert_eq!((wanted[&7].tuned_bytes, wanted[&7].has_metrics), (2_500_000, true));
    assert_eq!(wanted[&7].paths.len(), 2);
    assert_eq!((wanted[&8].tuned_bytes, wanted[&8].has_metrics), (0, true));
    // Queues are for whatever path.
    namespaces.want(HashMap::new(), true);
    assert_eq!(namespaces.wanted(&flows).len(), 3);
}
