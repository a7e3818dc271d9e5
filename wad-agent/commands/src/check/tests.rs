//! These tests compare what `wad check` prints, whole pages.

use serde_json::{Value, json};
use wad_policy::{
    config::{
        Loadable,
        testing::{compare, root},
    },
    kernel_algorithm,
};

use super::{host::Pods, *};

fn page(text: &str, sysctl_bytes: Option<u64>) -> String {
    told(text, sysctl_bytes, |page| page.to_string())
}

fn report(text: &str) -> Value {
    told(text, None, |page| serde_json::to_value(Report::of(page)).expect("JSON"))
}

fn told<T>(text: &str, sysctl_bytes: Option<u64>, tell: impl FnOnce(&Page<'_>) -> T) -> T {
    let loadable = Loadable::Known(["bbr", "highspeed", "scalable"].map(str::to_owned).to_vec());
    let congestion_controls = vec!["reno".to_owned()];
    let host = Host { congestion_controls, loadable, ..Host::default() };
    let config = Config::parse("wad.toml", text, &host).expect("valid");
    let ceilings = Ceiling::all(&config, |_| sysctl_bytes);
    let memory = Memory::of(&config, Some(64 << 20));
    let cgroups = Some([("a.slice/x.service".into(), 7)].into());
    let lacking = "paths with `pods` match nothing: the kubelet has no socket";
    let pods = Pods::Agent { lacking: Some(lacking.to_owned()) };
    let there = There { cgroups, interfaces: Some(vec!["eth1".to_owned()]), pods };
    let file = Path::new("wad.toml");
    let (sets, fragments) = (sets::read(&config), Vec::new());
    let (config, host, files) = (&config, &host, Vec::new());
    tell(&Page { file, fragments, config, host, ceilings, memory, there, sets, files })
}

/// A path under BBR, by its number.
fn bbr(n: u32) -> String {
    format!(
        "[[path]]\nname = 'p{n}'\nremote = '10.0.0.{n}'\ncongestion = 'bbr'\n\
         allow = 'aggressive'\n"
    )
}

const TWO: &str = r#"
    [[path]]
    name = "bob"
    remote = ["10.5.128.74", "2001:db8:5::/48"]
    sndbuf = "4MiB"
    initial_window = 24
    wadai = 6
    wadmd = 0.3
    allow = "aggressive"
    [[path]]
    name = "rest"
    remote = "::/0"
    congestion = "reno"
"#;

#[test]
fn what_a_path_would_rather_have_is_told() {
    let list = |list| {
        let path = "[[path]]\nname = 'p'\nremote = '10.0.0.1'\nallow = 'aggressive'\n";
        format!("{path}congestion = {list}\n")
    };
    let chosen = page(&list("['brutal', 'bbr', 'reno']"), None);
    let why = "path p: congestion is the first of its list that can be had: the kernel has no \
               brutal\n";
    assert!(chosen.contains(why) && chosen.contains("has the kernel load tcp_bbr\n"), "{chosen}");
    let first = page(&list("['reno']"), None);
    assert!(!first.contains("first of its list"), "{first}");
}

#[test]
fn buffers_that_max_buffer_cuts_are_told_and_no_others() {
    let text = "[limits]\nmax_buffer = '4MiB'\n\
                [[path]]\nname = 'wide'\nremote = '10.0.0.1'\nsndbuf = '64MiB'\nrcvbuf = '32MiB'\n\
                [[path]]\nname = 'fits'\nremote = '10.0.0.2'\nsndbuf = '4MiB'\n";
    let page = page(text, None);
    let note = "path wide: [limits] max_buffer cuts sndbuf from 67108864 to 4194304 bytes, \
                [limits] max_buffer cuts rcvbuf from 33554432 to 4194304 bytes\n";
    assert!(page.contains(note) && !page.contains("path fits: "), "{page}");
}

#[test]
fn what_no_cgroup_fits_is_no_error() {
    let of = |unit| format!("[[path]]\nname = 'p'\nremote = '10.0.0.1'\nunit = '{unit}'\n");
    let none = page(&of("y.service"), None);
    assert!(none.contains("path p: nothing fits unit y.service on this host now\n"), "{none}");
    let one = page(&of("x.service"), None);
    assert!(one.contains("unit x.service") && !one.contains("nothing fits"), "{one}");
}

#[test]
fn pods_that_nobody_tells_of_are_no_error() {
    let path = "[[path]]\nname = 'p'\nremote = '10.0.0.1'\npods = { namespace = 'transfer' }\n";
    let page = page(path, None);
    let note = "path p: lacking pods of transfer, by the agent that runs: paths with `pods` match \
                nothing: the kubelet has no socket\n";
    assert!(page.contains("path p: pods of transfer\n") && page.contains(note), "{page}");
    let there = There { pods: Pods::NoAgent, ..There::default() };
    let config = Config::parse("wad.toml", path, &Host::default()).expect("valid");
    let said = there.pods_note(&config.paths[0]).expect("a note");
    assert!(said.contains("asks the API server, or else the kubelet, for pods of transfer"));
    let there = There { pods: Pods::Agent { lacking: None }, ..There::default() };
    assert_eq!(there.pods_note(&config.paths[0]), None);
}

#[test]
fn what_no_interface_fits_is_no_error() {
    let of = |name| format!("[[path]]\nname = 'p'\nremote = '10.0.0.1'\ninterface = '{name}'\n");
    let none = page(&of("eth2*"), None);
    let note = "path p: nothing fits interface eth2* in this network namespace now\n";
    assert!(none.contains(note), "{none}");
    let one = page(&of("eth*"), None);
    assert!(one.contains("interface eth*") && !one.contains("nothing fits"), "{one}");
}

#[test]
fn a_page_shows_paths_ceilings_and_notes() {
    let expected = "\
PATH  REMOTE             SNDBUF   RCVBUF  IW  CONGESTION  AIMD(b, a)  SHARE
bob   10.5.128.74/32 +1  4194304  -       24  wad_aimd    0.3, 6      3.37
rest  ::/0               -        -       -   reno        -           -

Rate over that of a CUBIC flow (RFC 9438), at the same losses and RTT, in packets of
1500 bytes:
PATH     LAW       1e-3  1e-4  1e-5  1e-6  1e-7  FILLING THE PATH
bob (*)  wad_aimd  3.37  3.37  3.37  3.37  3.37  -
(*) no `rtt` is given: over the least that CUBIC takes at any

net.core.wmem_max is 212992; `wad run` raises it to 4194304 while it runs
a flow holds 8.0 MiB of memory at most (path bob)
max_memory is 64.0 MiB (the first number of tcp_mem), in which 8 such fit whole;
near it buffers grow no more, beyond it the largest shrink, none goes untuned
but buffers of a given size stay: 8.0 MiB a flow, and path bob has no max_flows
guarded, and back at the kernel's defaults where they hurt: bob, rest
path rest: ::/0 also covers IPv4, whose addresses are looked up as IPv6
wad.toml: 2 paths, no error
";
    assert_eq!(page(TWO, Some(212_992)), expected);
}

#[test]
fn a_ceiling_that_is_high_enough_or_unknown_is_said_so() {
    assert!(page(TWO, Some(4 << 20)).contains("is 4194304, which is enough"));
    assert!(page(TWO, None).contains("must be 4194304 or more"));
}

#[test]
fn changes_of_the_host_are_told_and_what_is_lacking_without() {
    let paths = "[[path]]\nname = 'a'\nremote = '10.0.0.0/8'\nreorder = 19\n\
                 [[path]]\nname = 'b'\nremote = '11.0.0.0/8'\nreorder = 19\ndecrease = 0.5\n";
    let without = page(paths, None);
    assert!(without.contains("path a: reorder 19\n"), "{without}");
    assert!(without.contains("path a: reorder takes [host] routes\n"), "{without}");
    assert!(without.contains("routes; wad_aimd takes a decrease back"), "{without}");
    let host = "[host]\nroutes = true\ntransmit_queue_length = { eth0 = 9 }\n\
                netdev_max_backlog = 8\n";
    let with = page(&format!("{host}{paths}"), None);
    assert!(with.contains("makes 2 rules") && !with.contains("takes [host]"), "{with}");
    assert!(with.contains("transmit queue of eth0 to 9 packets"), "{with}");
    assert!(with.contains("net.core.netdev_max_backlog to 8"), "{with}");
}

#[test]
fn whom_a_ceiling_of_tuned_buffers_touches_is_said() {
    let text = "[[path]]\nname = 'a'\nremote = '10.0.0.1'\nbandwidth = '622Mbit'\nrtt = '70ms'\n\
                buffers = 'autotune'\n";
    let page = page(text, Some(6_291_456));
    for sysctl in ["tcp_wmem", "tcp_rmem"] {
        let said = format!(
            "the last of net.ipv4.{sysctl} is 6291456; `wad run` raises it to 13606250 while it \
             runs, for all flows of its network namespace that the kernel tunes\n"
        );
        assert!(page.contains(&said), "{page}");
    }
    assert!(page.contains("path a: buffers autotuned by the kernel"), "{page}");
}

#[test]
fn json_has_what_the_page_shows_and_what_it_cuts_off() {
    let told = report(TWO);
    let effect = &told["effect"];
    assert_eq!((&told["error_count"], &told["errors"]), (&json!(0), &json!([])));
    let bob = &effect["paths"][0];
    assert_eq!(bob["remote"], json!(["10.5.128.74/32", "2001:db8:5::/48"]));
    assert_eq!(bob["settings"]["sndbuf_bytes"], 4_194_304);
    assert_eq!(bob["settings"]["congestion"], "wad_aimd");
    assert_eq!((&bob["state"], &bob["share"]["exceeds_fair"]), (&json!("tuned"), &json!(true)));
    assert_eq!(
        (&bob["share"]["rtt_known"], &bob["share"]["most"]["loss"]),
        (&json!(false), &json!(1e-3))
    );
    assert_eq!(effect["ceilings"][0]["needed_bytes"], 4_194_304);
    assert_eq!(effect["memory"]["most"], json!({ "path": "bob", "bytes": 8 << 20 }));
    assert!(effect["notes"][0].as_str().is_some_and(|note| note.contains("also covers IPv4")));

    let many: String = (1..=60).map(bbr).collect();
    assert!(page(&many, None).contains("and 10 more; --json has them all\n"));
    let effect = &report(&many)["effect"];
    assert_eq!(effect["paths"].as_array().map(Vec::len), Some(60));
    assert!(effect["notes"][0].as_str().is_some_and(|note| note.contains("p59, p60: bbr left")));
    assert_eq!(effect["modules"], json!(["tcp_bbr"]));
}

#[test]
fn no_path_is_no_table() {
    assert_eq!(page("", None), "wad.toml: 0 paths, no error\n");
}

#[test]
fn every_law_and_setting_shows_in_a_hundred_columns() {
    // The second has shares beside CUBIC on many paths.
    for file in ["laws.toml", "shares.toml"] {
        let file = root().join("tests/config/valid").join(file);
        let text = page(&fs::read_to_string(&file).expect("readable"), Some(212_992));
        compare(&text, &file.with_extension("stdout"));
        for line in text.lines() {
            assert!(line.chars().count() <= 100, "{line}");
        }
    }
}

#[test]
fn what_bbr_leaves_to_others_is_said_of_the_paths_that_have_it() {
    let said = "bbr left a cubic flow 0.02 to 0.28 of its fair share in the lab\n";
    assert!(page(&bbr(1), None).contains(&format!("path p1: {said}")));
    let many: String = (1..=7).map(bbr).collect();
    assert!(page(&many, None).contains(&format!("paths p1, p2, p3, p4, p5 and 2 more: {said}")));
    let observed = format!("{}mode = 'observe'\n", bbr(1));
    assert!(
        !page(&observed, None).contains("cubic flow") && !page(TWO, None).contains("cubic flow")
    );
}

/// Whoever doubts the figures is to find what they are of.
#[test]
fn what_bbr_left_to_others_was_seen_in_a_scenario_of_the_lab() {
    let scenario = root().join("tests/lab/scenarios/shared.toml");
    let scenario = fs::read_to_string(scenario).expect("readable");
    let has = |line: &str| assert!(scenario.lines().any(|it| it == line), "{line}");
    let measured = kernel_algorithm::ALL.iter().filter(|known| known.left_to_cubic.is_some());
    for name in measured.map(|known| known.name) {
        has(&format!("name = \"{name}+cubic\""));
        has(&format!("name = \"cubic+{name}\""));
    }
    has("rate = \"200Mbit\"");
    has("rtt = [\"20ms\", \"120ms\"]");
    has("queue_bdp = [0.1, 0.5, 1.0]");
}

#[test]
fn sinks_of_events_are_said() {
    let sinks = page(
        "[[sink]]\nname = 'a'\nkind = 'stdout'\n[[sink]]\nname = 'b'\nkind = 'syslog'\n",
        None,
    );
    assert!(sinks.starts_with("`wad run` tells events to a (stdout), b (syslog)\n"), "{sinks}");
}

#[test]
fn traces_are_said_with_their_bounds() {
    let text = "[[trace]]\nname = 'a'\nfile = '/var/log/a.jsonl'\nkeep = 3\n";
    let said = page(text, None);
    let line = "`wad run` writes trace a to /var/log/a.jsonl, 3 of 64.0 MiB at most\n";
    assert!(said.starts_with(line), "{said}");
}

#[test]
fn an_export_of_metrics_is_said() {
    let said = page("[otlp]\nurl = 'http://collector:4318'\ninterval = '5s'\n", None);
    let line = "`wad run` exports metrics to http://collector:4318/v1/metrics, by OTLP, each 5 s\n";
    assert!(said.starts_with(line), "{said}");
}

#[test]
fn what_is_measured_is_said_with_what_it_takes() {
    let probe = "[probe]\nanswer = '[::]:4824'\nanswer_to = '10.0.0.0/8'\n";
    let said = page(probe, None);
    let line = "`wad run` measures no path itself, and answers others' probes at [::]:4824\n";
    assert!(said.starts_with(line), "{said}");
    let task = "[[probe.task]]\nname = 'a'\nhost = '192.0.2.1'\ntool = 'bandwidth'\n\
                every = '6h'\nmax_bytes = '256MiB'\n";
    let said = page(task, None);
    assert!(said.starts_with("`wad run` measures by 1 task, at most 1.0 GiB a day\n"), "{said}");
}

#[test]
fn what_stays_at_the_end_is_said() {
    let kept = page("[agent]\non_exit = 'keep'\n", None);
    assert!(kept.contains("all of it stays until the next start or `wad cleanup`"), "{kept}");
    assert!(!page("[agent]\non_exit = 'restore'\n", None).contains("stays"));
}

#[test]
fn derived_events_are_told_with_what_they_measure() {
    let text = "[[derived]]\nname = 'AveBW'\nvalue = '8 * HCDataOctetsOut / ElapsedSecs'\n\
                unit = 'bit/s'\nmetric = true\n\
                [[derived]]\nname = 'Slow'\nvalue = 'AveBW'\nunit = 'bit/s'\nbelow = 1e6\n\
                for = '5s'\npaths = 'a'\n[[path]]\nname = 'a'\nremote = '10.0.0.0/8'\n";
    let page = page(text, None);
    let expected = "derived AveBW: 8 * HCDataOctetsOut / ElapsedSecs (octets/s), a metric\n\
                    derived Slow: AveBW (octets/s), an event below 1000000 bit/s for 5 s on a\n";
    assert!(page.contains(expected), "{page}");
}

#[test]
fn ports_are_shown_as_the_file_has_them() {
    let path = |ports: &str| format!("[[path]]\nname = 'p'\nremote = '10.0.0.0/8'\n{ports}\n");
    let ports = "remote_port = [443, '50000-51000']\nlocal_port = 22";
    let shown = page(&path(ports), None);
    assert!(shown.contains("remote ports 443, 50000-51000"), "{shown}");
    assert!(shown.contains("local port 22"), "{shown}");
    assert!(!page(&path("remote_port = 0"), None).contains("port"));
}

#[test]
fn the_port_that_no_rule_of_routes_can_choose_is_told() {
    let with = |keys: &str| {
        let text = "[host]\nroutes = true\n[[path]]\nname = 'p'\nremote = '10.0.0.0/8'\n";
        page(&format!("{text}{keys}"), None)
    };
    let told = "path p: rules of routes end at port 65534: connections of port 65535 are without";
    let shown = with("reorder = 19\nremote_port = [443, '60000-65535']\n");
    assert!(shown.contains(told), "{shown}");
    for keys in ["reorder = 19\n", "reorder = 19\nlocal_port = 65534\n", "local_port = 65535\n"] {
        assert!(!with(keys).contains("rules of routes end"), "{keys}");
    }
}

#[test]
fn where_pods_are_learned_from_is_told_unless_it_is_the_usual() {
    let told = page("[kubernetes]\nnode = 'n1'\napi_server = 'https://10.0.0.1'\n", None);
    let place = "from the kubelet, at /var/lib/kubelet/pods-api/pods-api.sock";
    let server = "the API server https://10.0.0.1";
    let expected = format!("learns the pods of n1 from {server}, or else {place}\n");
    assert!(told.contains(&expected), "{told}");
    let told = page("[kubernetes]\nkubelet_socket = '/k'\n", None);
    let expected = "pods of this node from the API server, or else from the kubelet, at /k\n";
    assert!(told.contains(expected), "{told}");
    assert!(!page("[kubernetes]\n", None).contains("kubelet"));
}

#[test]
fn what_is_learned_beside_the_paths_is_told() {
    let path = |rest| format!("[[path]]\nname = 'p'\nremote = '10.0.0.0/8'\n{rest}\n");
    let told = page(&(path("remote_port = 443") + "[learn]\nmax_paths = 9\n"), None);
    assert!(told.contains("learns up to 9 paths, from connections on none of these\n"), "{told}");
    assert!(told.contains("path p: nothing is learned for its addresses"), "{told}");
    for all in [path("remote_port = 443"), path("") + "[learn]\n"] {
        assert!(!page(&all, None).contains("nothing is learned"), "{all}");
    }
}

#[test]
fn paths_with_a_guard_are_said() {
    let text = format!("{TWO}[[path]]\nname = 'sized'\nremote = '10.6.0.0/16'\nsndbuf = '1MiB'\n");
    // Each that has a congestion control.
    let line = "guarded, and back at the kernel's defaults where they hurt: bob, rest\n";
    assert!(page(&text, None).contains(line));
    assert_eq!(report(&text)["effect"]["guarded"], json!(["bob", "rest"]));
    let dry = page(&format!("[guard]\npaths = 'all'\ndry_run = true\n{text}"), None);
    assert!(dry.contains("guarded, and named where they hurt: bob, rest, sized\n"), "{dry}");
    let none = page(&format!("[guard]\npaths = 'none'\n{TWO}"), None);
    assert!(!none.contains("guarded"), "{none}");
}
