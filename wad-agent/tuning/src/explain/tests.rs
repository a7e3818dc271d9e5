//! Against a configuration with every kind of condition.

use wad_common::refused::{Refusal, SocketSetting};
use wad_policy::{
    config::{Config, Value, Window, testing},
    switch::Disabled,
};
use wad_toolbox::refusals::RefusedFlows;

use super::{answer::Verdict, *};
use crate::{instance::Instance, readings::PathState, routes};

const POLICY: &str = r#"
[[path]]
name = "wide"
remote = "10.0.0.0/8"
sndbuf = "1MiB"
[[path]]
name = "web"
remote = "10.5.0.0/16"
remote_port = 443
[[path]]
name = "here"
remote = "10.5.0.0/16"
local = "192.0.2.0/24"
local_port = 22
[[path]]
name = "tokyo"
remote = "10.5.6.0/24"
remote_port = 80
bandwidth = "1Gbit"
rtt = "180ms"
sndbuf = "auto"
rcvbuf = "20MiB"
congestion = "wad_aimd"
additive_increase = 0.529
decrease = 0.3
max_ssthresh = 100
dscp = "le"
[[path]]
name = "six"
remote = "2001:db8::/32"
mode = "observe"
initial_ssthresh = "1MiB"
"#;

fn ask_of(policy: &str, query: &str, disabled: &Disabled) -> Answer {
    let config = Config::parse("wad.toml", policy, &testing::host()).expect("valid");
    let query = Query::parse(query).expect("a query");
    let offline = Offline::new(&config.paths, &Instance::default(), disabled);
    offline.explain(&query, Basis::PolicySet(3))
}

fn ask(query: &str) -> Answer {
    ask_of(POLICY, query, &Disabled::default())
}

fn path(query: &str) -> Option<String> {
    ask(query).path.map(|path| format!("{} by {}", path.name, path.prefix))
}

#[test]
fn the_first_rule_that_fits_is_taken_nearest_prefixes_first() {
    for (query, expected) in [
        ("remote=10.9.9.9", Some("wide by 10.0.0.0/8")),
        ("remote=10.5.1.1", Some("wide by 10.0.0.0/8")),
        ("remote=10.5.1.1:443", Some("web by 10.5.0.0/16")),
        ("remote=10.5.1.1&local=192.0.2.9:22", Some("here by 10.5.0.0/16")),
        ("remote=10.5.1.1&local=192.0.3.9:22", Some("wide by 10.0.0.0/8")),
        ("remote=10.5.6.7:80", Some("tokyo by 10.5.6.0/24")),
        ("remote=10.5.6.7:443", Some("web by 10.5.0.0/16")),
        ("remote=::ffff:10.9.9.9", Some("wide by 10.0.0.0/8")),
        ("remote=2001:db8::1", Some("six by 2001:db8::/32")),
        ("remote=192.0.2.1", None),
        ("remote=::1", None),
    ] {
        assert_eq!(path(query).as_deref(), expected, "{query}");
    }
}

#[test]
fn a_users_path_is_taken_by_that_user() {
    let policy = "
        [[path]]
        name = 'any'
        remote = '10.0.0.0/8'
        remote_port = 443
        sndbuf = '1MiB'
        [[path]]
        name = 'globus'
        remote = '10.0.0.0/8'
        user = 'globus'
        sndbuf = '2MiB'";
    let ask = |query| ask_of(policy, query, &Disabled::default());
    let name = |query| ask(query).path.map(|path| path.name);
    assert_eq!(name("remote=10.0.0.1:443&user=993").as_deref(), Some("globus"));
    assert_eq!(name("remote=10.0.0.1:443&user=0").as_deref(), Some("any"));
    let open = ask("remote=10.0.0.1:443");
    assert_eq!(open.path.map(|path| path.name).as_deref(), Some("any"));
    assert_eq!(open.tried[0].verdict, Verdict::OnlyIf(vec!["user 993".to_owned()]));
    let other = ask("remote=10.0.0.1:443&user=0");
    assert_eq!(other.tried[0].verdict, Verdict::OnlyFor(vec!["user 993".to_owned()]));
}

#[test]
fn a_pods_path_is_open_where_nobody_knows_the_pods() {
    let policy = "
        [[path]]
        name = 'dtn'
        remote = '10.0.0.0/8'
        pods = { namespace = 'transfer', labels = { app = 'dtn' } }
        sndbuf = '1MiB'";
    let cgroup = "kubepods/pod1f2e3d4c-5b6a-7980-a1b2-c3d4e5f60718";
    for whose in [String::new(), format!("&cgroup={cgroup}"), "&pod=transfer/dtn-0".to_owned()] {
        let answer = ask_of(policy, &format!("remote=10.0.0.1{whose}"), &Disabled::default());
        assert!(answer.path.is_none());
        let open = vec!["pods of transfer with app=dtn".to_owned()];
        assert_eq!(answer.tried[0].verdict, Verdict::OnlyIf(open), "{whose}");
    }
}

#[test]
fn a_cgroups_path_is_taken_within_it() {
    let policy = "
        [[path]]
        name = 'any'
        remote = '10.0.0.0/8'
        sndbuf = '1MiB'
        [[path]]
        name = 'unit'
        remote = '10.0.0.0/8'
        unit = 'x@*.service'
        sndbuf = '2MiB'";
    let ask = |query| ask_of(policy, query, &Disabled::default());
    let name = |query| ask(query).path.map(|path| path.name);
    assert_eq!(name("remote=10.0.0.1&cgroup=/a.slice/x@1.service/worker").as_deref(), Some("unit"));
    assert_eq!(name("remote=10.0.0.1&cgroup=a.slice").as_deref(), Some("any"));
    let open = ask("remote=10.0.0.1");
    assert_eq!(open.path.map(|path| path.name).as_deref(), Some("any"));
    assert_eq!(open.tried[0].verdict, Verdict::OnlyIf(vec!["unit x@*.service".to_owned()]));
}

#[test]
fn a_path_is_taken_by_its_marks_and_its_interfaces() {
    let policy = "
        [[path]]
        name = 'any'
        remote = '10.0.0.0/8'
        [[path]]
        name = 'marked'
        remote = '10.0.0.0/8'
        mark = '0x10/0xff'
        [[path]]
        name = 'both'
        remote = '10.0.0.0/8'
        mark = '0x10/0xff'
        interface = 'eth*'";
    let ask = |query| ask_of(policy, query, &Disabled::default());
    for (query, expected) in [
        ("remote=10.0.0.1&mark=272&interface=eth1", "both"),
        ("remote=10.0.0.1&mark=0x10&interface=lo", "marked"),
        ("remote=10.0.0.1&mark=0x11&interface=eth1", "any"),
        ("remote=10.0.0.1", "any"),
    ] {
        assert_eq!(ask(query).path.map(|path| path.name).as_deref(), Some(expected), "{query}");
    }
    let tried = |query| ask(query).tried.into_iter().map(|tried| tried.verdict);
    let [mark, interface] = ["mark 0x10/0xff".to_owned(), "interface eth*".to_owned()];
    let open = tried("remote=10.0.0.1").collect::<Vec<_>>();
    let both = vec![mark.clone(), interface.clone()];
    assert_eq!(open, [Verdict::OnlyIf(both), Verdict::OnlyIf(vec![mark])]);
    let other = tried("remote=10.0.0.1&mark=16&interface=lo").collect::<Vec<_>>();
    assert_eq!(other, [Verdict::OnlyFor(vec![interface])]);
}

#[test]
fn what_a_question_leaves_open_is_a_condition() {
    let answer = ask("remote=10.5.6.7");
    let tried: Vec<_> =
        answer.tried.iter().map(|tried| (tried.path.as_str(), &tried.verdict)).collect();
    let only_if = |conditions: &[&str]| {
        Verdict::OnlyIf(conditions.iter().map(|text| (*text).to_owned()).collect())
    };
    assert_eq!(
        tried,
        [
            ("tokyo", &only_if(&["remote port 80"])),
            ("web", &only_if(&["remote port 443"])),
            ("here", &only_if(&["local port 22", "local address in 192.0.2.0/24"])),
        ]
    );
    let other = ask("remote=10.5.6.7:81&local=192.0.3.1");
    assert_eq!(other.tried[0].verdict, Verdict::OnlyFor(vec!["remote port 80".to_owned()]));
    assert_eq!(
        other.tried[2].verdict,
        Verdict::OnlyFor(vec!["local address in 192.0.2.0/24".to_owned()])
    );
}

#[test]
fn ranges_and_lists_of_ports_are_conditions() {
    let policy = "[[path]]\nname = 'wide'\nremote = '10.0.0.0/8'\n\
                  [[path]]\nname = 'gridftp'\nremote = '10.0.0.0/8'\n\
                  remote_port = ['50000-51000', 2811]\n\
                  [[path]]\nname = 'served'\nremote = '10.0.0.0/8'\nlocal_port = '40000-40009'\n";
    let ask = |query: &str| ask_of(policy, query, &Disabled::default());
    let path = |query: &str| ask(query).path.map(|path| path.name);
    for (port, expected) in [
        (2811, "gridftp"),
        (2812, "wide"),
        (49_999, "wide"),
        (50_000, "gridftp"),
        (51_000, "gridftp"),
        (51_001, "wide"),
    ] {
        let found = path(&format!("remote=10.0.0.1:{port}&local=192.0.2.1:5"));
        assert_eq!(found.as_deref(), Some(expected), "{port}");
    }
    let served = path("remote=10.0.0.1:50500&local=192.0.2.1:40009");
    assert_eq!(served.as_deref(), Some("served"));
    let conditions: Vec<_> =
        ask("remote=10.0.0.1").tried.into_iter().map(|tried| tried.verdict).collect();
    let only_if = |text: &str| Verdict::OnlyIf(vec![text.to_owned()]);
    assert_eq!(
        conditions,
        [
            only_if("remote port 2811"),
            only_if("local port 40000-40009"),
            only_if("remote port 50000-51000")
        ]
    );
    // The path's own other ports are none.
    let tried = ask("remote=10.0.0.1:50500&local=192.0.2.1:5").tried;
    assert_eq!(tried.iter().map(|tried| tried.path.as_str()).collect::<Vec<_>>(), ["served"]);
}

#[test]
fn the_answer_for_people_is_as_agreed() {
    let expected = "\
10.5.6.7:80 falls under path tokyo, by 10.5.6.0/24 (policy set 3, in force)

sndbuf                  28125000 bytes
rcvbuf                  20971520 bytes
congestion              wad_aimd
additive_increase       0.529
decrease                0.3
max_ssthresh            100 segments
dscp                    1
- sndbuf grows with need up to that, 1.25 times what the path holds: 1 Gbit/s times 180 ms are 22500000 bytes
- rcvbuf is 20971520 bytes because the configuration says so; 1 Gbit/s times 180 ms are 22500000 bytes, of which it is 0.93 times as much
- the kernel doubles both buffers, for structures of its own
- its flows take no more than a CUBIC flow's share, at the same losses and round trip time
";
    assert_eq!(ask("remote=10.5.6.7:80").to_string(), expected);
    let expected = "\
10.5.6.7:443 falls under path web, by 10.5.0.0/16 (policy set 3, in force)
  path tokyo, by 10.5.6.0/24: not as it is for remote port 80

it has no settings: flows are only counted
";
    assert_eq!(ask("remote=10.5.6.7:443").to_string(), expected);
    let none = ask("remote=192.0.2.1").to_string();
    assert!(none.ends_with(
        "falls under no path (policy set 3, in force)\n\nits flows are as without wad\n"
    ));
}

#[test]
fn the_share_beside_cubic_is_explained() {
    let share = |keys: &str| {
        let policy =
            format!("[[path]]\nname = 'p'\nremote = '10.0.0.1'\nallow = 'aggressive'\n{keys}\n");
        let path = ask_of(&policy, "remote=10.0.0.1", &Disabled::default()).path.expect("a path");
        path.why.into_iter().find(|why| why.contains("CUBIC"))
    };
    let line = "bandwidth = '1Gbit'\nrtt = '180ms'";
    let beside = "a CUBIC flow's share, at the same losses";
    let known = format!("{beside} and round trip time");
    for (keys, expected) in [
        (
            format!("congestion = 'wad_highspeed'\n{line}"),
            Some(format!("its flows take up to 1.36 times {known}: the most at a loss rate of 7.9e-7")),
        ),
        (
            "equivalent_streams = 4".to_owned(),
            Some(format!(
                "its flows take up to 4.00 times {beside} (no round trip time is known: over its \
                 least at any): the most at a loss rate of 1.0e-3"
            )),
        ),
        (
            format!("congestion = 'wad_binomial'\n{line}"),
            Some(format!("its flows take no more than {known}")),
        ),
        (
            "loss = 'leaky'".to_owned(),
            Some("its flows take what there is, whatever a CUBIC flow's share".to_owned()),
        ),
        (
            "congestion = 'bbr'".to_owned(),
            Some(
                "bbr may take more than a CUBIC flow's share: it goes by its own model of the path, \
                 and left CUBIC 0.02 to 0.28 of its fair share"
                    .to_owned(),
            ),
        ),
        ("congestion = 'reno'".to_owned(), None),
        ("sndbuf = '4MiB'".to_owned(), None),
    ] {
        assert_eq!(share(&keys), expected, "{keys}");
    }
}

#[test]
fn a_buffer_that_max_buffer_cuts_is_said_to_be_cut() {
    let why = |keys: &str| {
        let policy = format!(
            "[limits]\nmax_buffer = '4MiB'\n[[path]]\nname = 'p'\nremote = '10.0.0.1'\n{keys}\n"
        );
        ask_of(&policy, "remote=10.0.0.1", &Disabled::default()).path.expect("a path").why
    };
    let given = "sndbuf is 4194304 bytes because [limits] max_buffer cuts it from the 67108864 that \
                 the path asks for";
    assert_eq!(why("sndbuf = '64MiB'")[0], given);
    let within = "sndbuf is 4194304 bytes because the configuration says so";
    assert_eq!(why("sndbuf = '4MiB'")[0], within);
    let line = "bandwidth = '1Gbit'\nrtt = '180ms'\n";
    let auto = "sndbuf grows with need up to that, which [limits] max_buffer cuts from 28125000 \
                bytes, 1.25 times what the path holds: 1 Gbit/s times 180 ms are 22500000 bytes";
    assert_eq!(why(&format!("{line}sndbuf = 'auto'"))[0], auto);
    let autotuned = "the kernel sizes both buffers, up to 2 times 4194304 bytes, to which [limits] \
                     max_buffer cuts 1.25 times the 22500000 bytes that the path holds: ";
    let tuned = why(&format!("{line}buffers = 'autotune'"));
    assert!(tuned[0].starts_with(autotuned), "{tuned:?}");
}

#[test]
fn a_buffer_is_held_against_what_the_path_holds() {
    let why = |size: u32| {
        let policy = format!(
            "[[path]]\nname = 'p'\nremote = '10.0.0.1'\nbandwidth = '1Gbit'\nrtt = '180ms'\n\
             sndbuf = {size}\nrcvbuf = 'auto'\n"
        );
        ask_of(&policy, "remote=10.0.0.1", &Disabled::default()).path.expect("a path").why
    };
    for (size, share) in [
        (4_096, "less than a hundredth"),
        (224_999, "less than a hundredth"),
        (225_000, "0.01 times as much"),
        (45_000_000, "2.00 times as much"),
    ] {
        let told = format!(
            "sndbuf is {size} bytes because the configuration says so; 1 Gbit/s times 180 ms are \
             22500000 bytes, of which it is {share}"
        );
        assert_eq!(why(size)[0], told);
    }
}

#[test]
fn what_would_be_applied_is_shown_though_it_is_not() {
    let observed = ask("remote=2001:db8::1").path.expect("a path");
    assert_eq!(observed.state, PathState::Observed);
    let ssthresh = observed.settings.get("initial_ssthresh");
    assert_eq!(ssthresh, Some(&Value::Window(Window::Bytes(1 << 20))));
    assert!(observed.why[0].contains("mode = \"observe\""));
    let disabled = Disabled { all: false, paths: ["wide".to_owned()].into() };
    let disabled = ask_of(POLICY, "remote=10.9.9.9", &disabled).path.expect("a path");
    assert_eq!(disabled.state, PathState::Disabled);
    assert_eq!(disabled.settings.get("sndbuf_bytes"), Some(&Value::Whole(1 << 20)));
    assert!(disabled.why[0].contains("`wad enable`"));
}

#[test]
fn the_answer_is_read_back_from_its_json() {
    let answer = ask("remote=10.5.6.7:80");
    let json = serde_json::to_value(&answer).unwrap();
    assert_eq!(json["path"]["settings"]["sndbuf_bytes"], 28_125_000);
    assert_eq!(json["path"]["state"], "tuned");
    assert_eq!(json["from"]["policy_set"], 3);
    assert_eq!(serde_json::from_value::<Answer>(json).unwrap(), answer);
    let open = serde_json::to_value(ask("remote=10.5.1.1")).unwrap();
    assert_eq!(open["tried"][0]["only_if"][0], "remote port 443");
}

#[test]
fn a_default_route_for_both_families_is_found() {
    let policy = "[[path]]\nname = 'all'\nremote = '::/0'\n";
    let answer = ask_of(policy, "remote=192.0.2.1", &Disabled::default());
    assert_eq!(answer.path.expect("a path").prefix.to_string(), "::/0");
}

#[test]
fn the_means_of_reorder_and_of_acknowledgements_are_named() {
    let policy = "[[path]]\nname = 'p'\nremote = '10.0.0.0/8'\nreorder = 19\ndelayed_ack = false\n\
                  congestion = 'wad_aimd'\n";
    let answer = |disabled: &Disabled, routes: &routes::RoutesState| {
        let answer = ask_of(policy, "remote=10.0.0.1", disabled).with_means(routes);
        answer.path.expect("it falls under p")
    };
    let enabled = Disabled::default();
    let path = answer(&enabled, &routes::RoutesState::Off);
    assert_eq!(path.settings.get("reorder_segments"), Some(&Value::Whole(19)));
    assert_eq!(path.settings.get("delayed_ack"), Some(&Value::Flag(false)));
    assert!(path.why[1].contains("the law takes its decrease back"), "{:?}", path.why);
    assert!(path.why[2].contains("two ticks"), "{:?}", path.why);
    let in_force = routes::RoutesState::InForce(routes::Report::default());
    assert!(answer(&enabled, &in_force).why[1].contains("table 1190039"));
    // Its flows have neither.
    let path = answer(&Disabled { all: true, ..Disabled::default() }, &in_force);
    assert!(!path.why.concat().contains("table"), "{:?}", path.why);
}

#[test]
fn what_the_kernel_has_refused_is_said_with_its_errno() {
    let mut answer = ask("remote=10.9.9.9");
    let json = serde_json::to_value(&answer).unwrap();
    assert_eq!(json["path"].get("refused"), None, "nothing was refused");
    let refusal =
        Refusal { policy: 0, setting: SocketSetting::Sndbuf as u16, reason: libc::ENOMEM as u16 };
    answer.path.as_mut().unwrap().refused = vec![RefusedFlows::new(refusal, 3)];
    let text = answer.to_string();
    let line = "\n- the kernel has refused sndbuf (ENOMEM) to 3 of its flows\n";
    assert!(text.contains(line), "{text}");
    let json = serde_json::to_value(&answer).unwrap();
    let expected = serde_json::json!([{ "setting": "sndbuf", "errno": "ENOMEM", "flows": 3 }]);
    assert_eq!(json["path"]["refused"], expected);
    assert_eq!(serde_json::from_value::<Answer>(json).unwrap(), answer);
}
