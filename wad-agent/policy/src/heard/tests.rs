use std::time::Duration;

use ipnet::IpNet;
use proptest::prelude::*;
use wad_common::control::{Control, Pacing};

use super::*;
use crate::{
    capacity::Capacity,
    config::{
        Config, Congestion, DEFAULT_BAND, HostChanges, MAX_BUFFER_BYTES, PathPolicy, fair,
        is_bounded, testing::host,
    },
    law::Law,
    tuning_plan::{self, Bounds, KernelBuffers},
};

const KERNEL: KernelBuffers = KernelBuffers { sndbuf_bytes: 4 << 20, rcvbuf_bytes: 6 << 20 };
const NOW: Moment = Duration::from_secs(1_000);
const PERIODS: Duration = Duration::from_secs(90);

fn bounds() -> Bounds {
    Bounds::new(Some(512 << 20), 1 << 40, KERNEL)
}

fn read(paths: &str) -> Vec<PathPolicy> {
    let text = paths.replace("[p]", "[[path]]\nname = 'p'\nremote = '192.0.2.0/25'\n");
    // Whether there is such a peer is another matter.
    let peers = "[peers]\ncertificate = '/c'\nkey = '/k'\nca = '/a'\nlisten = '[::]:4825'\n\
                 [[peer]]\nname = 'tokyo'\nidentity = 'wad://tokyo'\n";
    let text = peers.to_owned() + &text;
    Config::parse("wad.toml", &text, &host()).unwrap_or_else(|error| panic!("{error}")).paths
}

fn path(keys: &str) -> PathPolicy {
    read(&format!("[p]\n{keys}\n")).remove(0)
}

fn heard(said: Said) -> Heard {
    Heard {
        peer: "tokyo".to_owned(),
        prefixes: nets(&["192.0.2.0/24"]),
        own_nic_bits_per_second: None,
        grant_buffer_bytes: None,
        said,
        heard_at: NOW,
        ends_at: NOW + PERIODS,
    }
}

fn nets(nets: &[&str]) -> Vec<IpNet> {
    nets.iter().map(|net| net.parse().expect("a prefix")).collect()
}

fn value<T>(value: T) -> Option<Value<T>> {
    Some(Value { value, age: Duration::ZERO, source: Source::File })
}

fn wants(bytes: u64) -> Said {
    let sending = Direction { wanted_window_bytes: value(bytes), ..Direction::default() };
    Said { sending, ..Said::default() }
}

fn consents(max_bits_per_second: Option<f64>) -> Said {
    let consent = Consent { max_bits_per_second, prefixes: Vec::new(), ends_in: None };
    Said { consent: Some(consent), ..Said::default() }
}

/// The path as it is by that word.
fn followed(path: &PathPolicy, heard: &Heard) -> PathPolicy {
    let mut paths = vec![path.clone()];
    follow(&counted(std::slice::from_ref(heard), heard.heard_at), &mut paths, bounds());
    let path = paths.remove(0);
    let fallback = path.measured.map(|measured| measured.fallback);
    tuning_plan::policy(&path, fallback.unwrap_or_default(), bounds())
}

/// The path without a trace of why.
fn bare(path: &PathPolicy) -> PathPolicy {
    let mut path = path.clone();
    path.origin.by_peer = None;
    path
}

const AGGRESSIVE: &str = "congestion = 'wad_highspeed'\nbandwidth = '10Gbit'\nrtt = '100ms'\n\
                          sndbuf = 'auto'\nallow = 'peer:tokyo'";

#[test]
fn a_receiver_without_a_path_gets_one_with_the_buffer_that_is_needed() {
    let heard = heard(wants(20_000_000));
    let counted = counted(&[heard], NOW);
    let [path] = &paths(&counted, &[], bounds())[..] else { panic!("one path") };
    assert_eq!((path.name.as_str(), &path.remote), ("peer-tokyo", &nets(&["192.0.2.0/24"])));
    assert_eq!(path.rcvbuf_bytes, Some(20_000_000));
    assert!(path.origin.buffers.rcvbuf && path.congestion.is_none() && path.sndbuf_bytes.is_none());
    assert_eq!(path.origin.capacity, Capacity::default());
}

#[test]
fn a_path_of_the_file_goes_before_it() {
    let heard = heard(wants(20_000_000));
    let counted = counted(&[heard], NOW);
    let around = read("[[path]]\nname = 'a'\nremote = '192.0.0.0/16'\n");
    assert_eq!(paths(&counted, &around, bounds()), []);
    // Within the peer's prefixes both are of use.
    let within = path("");
    let [added] = &paths(&counted, &[within], bounds())[..] else { panic!("one path") };
    assert_eq!(added.remote, nets(&["192.0.2.0/24"]));
    let taken = read("[[path]]\nname = 'peer-tokyo'\nremote = '10.0.0.1'\n");
    assert_eq!(paths(&counted, &taken, bounds()), []);
}

#[test]
fn what_the_kernel_gives_by_itself_takes_no_path() {
    let counted = counted(&[heard(wants(3 << 20))], NOW);
    assert_eq!(paths(&counted, &[], bounds()), []);
}

#[test]
fn the_file_bounds_what_is_granted() {
    let granted = |grant_buffer_bytes, wanted| {
        let heard = Heard { grant_buffer_bytes, ..heard(wants(wanted)) };
        let paths = paths(&counted(&[heard], NOW), &[], bounds());
        paths.first().and_then(|path| path.rcvbuf_bytes)
    };
    assert_eq!(granted(Some(16 << 20), 20_000_000), Some(16 << 20));
    assert_eq!(granted(Some(0), 20_000_000), None);
    assert_eq!(granted(None, u64::MAX), Some(512 << 20));
}

#[test]
fn prefixes_that_hold_everything_are_for_no_path() {
    let all =
        Heard { prefixes: nets(&["0.0.0.0/0", "::/0", "10.0.0.0/8"]), ..heard(wants(1 << 28)) };
    let [path] = &paths(&counted(&[all], NOW), &[], bounds())[..] else { panic!() };
    assert_eq!(path.remote, nets(&["10.0.0.0/8"]));
}

#[test]
fn an_own_path_whose_buffer_is_left_out_gets_it_and_others_keep_theirs() {
    let heard = heard(wants(20_000_000));
    assert_eq!(followed(&path(""), &heard).rcvbuf_bytes, Some(20_000_000));
    let given = path("rcvbuf = '8MiB'");
    assert_eq!(bare(&followed(&given, &heard)), given);
    let kernels = path("buffers = 'autotune'\nbandwidth = '1Gbit'\nrtt = '10ms'");
    assert_eq!(bare(&followed(&kernels, &heard)), kernels);
    let counted = path("mode = 'observe'");
    assert_eq!(bare(&followed(&counted, &heard)), counted);
    let elsewhere = read("[[path]]\nname = 'p'\nremote = ['192.0.2.7', '10.0.0.1']\n").remove(0);
    assert_eq!(followed(&elsewhere, &heard), elsewhere);
}

#[test]
fn what_the_other_end_does_not_offer_takes_no_memory_here() {
    let grants = |bytes| heard(Said { max_rcvbuf_bytes: Some(bytes), ..Said::default() });
    // 1 Gbit/s times 400 ms.
    let auto = path("bandwidth = '1Gbit'\nrtt = '400ms'\nsndbuf = 'auto'");
    assert_eq!(auto.sndbuf_bytes, Some(62_500_000));
    assert_eq!(followed(&auto, &grants(10_000_000)).sndbuf_bytes, Some(20_000_000));
    assert_eq!(followed(&auto, &grants(1)).sndbuf_bytes, Some(4 << 20));
    assert_eq!(followed(&auto, &grants(u64::MAX)).sndbuf_bytes, Some(62_500_000));
    let given = path("sndbuf = '60MiB'");
    assert_eq!(bare(&followed(&given, &grants(1))), given);
    let measured = path("bandwidth = '1Gbit'\nrtt = '400ms'\nsndbuf = 'auto'\nmode = 'measured'");
    assert_eq!(followed(&measured, &grants(10_000_000)).sndbuf_bytes, Some(20_000_000));
}

#[test]
fn no_path_is_faster_than_the_slower_interface() {
    let nics = |said: f64, own: f64| Heard {
        own_nic_bits_per_second: Some(own),
        ..heard(Said { nic_bits_per_second: Some(said), ..Said::default() })
    };
    for mode in ["static", "measured"] {
        let file =
            path(&format!("bandwidth = '10Gbit'\nrtt = '100ms'\nsndbuf = 'auto'\nmode = '{mode}'"));
        let file = tuning_plan::policy(&file, file.origin.capacity, bounds());
        let rate = |heard| followed(&file, &heard).origin.capacity.bits_per_second;
        assert_eq!(rate(nics(2.5e9, 10e9)), Some(2.5e9), "{mode}");
        assert_eq!(rate(nics(40e9, 1e9)), Some(1e9), "{mode}");
        assert_eq!(rate(nics(1e30, 1e30)), Some(10e9), "{mode}");
        // Further away than a measurement may be.
        assert_eq!(rate(nics(0.9e9, 10e9)), Some(10e9), "{mode}");
        assert_eq!(rate(nics(f64::NAN, 0.0)), Some(10e9), "{mode}");
        let slower = followed(&file, &nics(2.5e9, 10e9));
        assert_eq!(slower.sndbuf_bytes, Some(39_062_500), "{mode}");
    }
}

#[test]
fn a_consent_lets_the_file_have_its_way_for_as_long_as_it_holds() {
    let file = path(AGGRESSIVE);
    let mut given = heard(consents(Some(5e9)));
    let tuned = followed(&file, &given);
    assert_eq!(tuned.congestion, Some(Congestion::Ours(Law::HighSpeed)));
    assert_eq!((tuned.max_pacing_bytes_per_second, tuned.divide), (Some(625_000_000), true));
    assert_eq!(tuned.control.pacing, Pacing::On as u32, "over short paths, too");
    let unbounded = followed(&file, &heard(consents(None)));
    assert_eq!(bare(&unbounded), file);

    let is_fair = |heard: &Heard, now| {
        let mut paths = vec![file.clone()];
        follow(&counted(std::slice::from_ref(heard), now), &mut paths, bounds());
        assert_eq!(paths[0].congestion.is_none(), bare(&paths[0]) == fair(&file));
        paths[0].congestion.is_none()
    };
    let (start, second) = (given.heard_at, Duration::from_secs(1));
    assert!(!is_fair(&given, start + PERIODS - second));
    assert!(is_fair(&given, start + PERIODS));
    let consent = given.said.consent.as_mut().expect("it is there");
    consent.ends_in = Some(10 * second);
    assert_eq!(given.next_end(start), Some(start + 10 * second));
    assert_eq!(given.next_end(start + 10 * second), Some(start + PERIODS));
    assert!(!is_fair(&given, start + 9 * second) && is_fair(&given, start + 10 * second));
    // Of another peer, for other networks, or for next to nothing.
    given.said = consents(None);
    assert!(is_fair(&Heard { peer: "osaka".to_owned(), ..given.clone() }, start));
    assert!(is_fair(&Heard { prefixes: nets(&["192.0.2.128/25"]), ..given.clone() }, start));
    for rate in [1.0, 0.9e9, f64::NAN, -1.0, f64::INFINITY] {
        assert!(is_fair(&Heard { said: consents(Some(rate)), ..given.clone() }, start), "{rate}");
    }
    let mut beyond = given.clone();
    beyond.said.consent.as_mut().expect("it is there").prefixes = nets(&["0.0.0.0/0"]);
    assert!(is_fair(&beyond, start));
    assert!(is_fair(&heard(Said::default()), start));
}

#[test]
fn paths_of_one_consent_share_what_it_is_for() {
    let text =
        format!("[p]\n{AGGRESSIVE}\n[[path]]\nname = 'q'\nremote = '192.0.2.200'\n{AGGRESSIVE}\n");
    let mut paths = read(&text);
    follow(&counted(&[heard(consents(Some(5e9)))], NOW), &mut paths, bounds());
    let rates: Vec<_> = paths.iter().map(|path| path.max_pacing_bytes_per_second).collect();
    assert_eq!(rates, [Some(312_500_000); 2]);
}

const FILES: &[&str] = &[
    "",
    "sndbuf = '32MiB'\nrcvbuf = '32MiB'",
    "bandwidth = '10Gbit'\nrtt = '100ms'\nsndbuf = 'auto'\nrcvbuf = 'auto'",
    "bandwidth = '50Mbit'\nrtt = '1ms'\nsndbuf = 'auto'\nrcvbuf = 'auto'",
    "bandwidth = '10Gbit'\nrtt = '100ms'\nsndbuf = 'auto'\nmode = 'measured'\nmax_cwnd = 'auto'\n\
     initial_ssthresh = 'auto'\npacing = 'auto'\ncongestion = 'wad_delay'",
    AGGRESSIVE,
    "congestion = 'wad_delay'\nstanding_queue = 1000\nallow = 'peer:tokyo'",
    "equivalent_streams = 8\npacing = '600Mbit'\nallow = 'peer:tokyo'",
    "loss = 'auto'\nmode = 'measured'\ninitial_window = 100\nallow = 'peer:tokyo'",
    "dedicated = '1Gbit'\nrtt = '80ms'\nallow = 'peer:tokyo'",
    "initial_window = 30\nallow = 'peer:tokyo'\nmode = 'observe'",
];

fn any_rate() -> impl Strategy<Value = Option<f64>> {
    prop::option::of(prop_oneof![
        any::<f64>(),
        (-30.0_f64..30.0).prop_map(|exponent| 10_f64.powf(exponent)),
        Just(1e30),
        Just(0.0),
    ])
}

fn any_bytes() -> impl Strategy<Value = Option<u64>> {
    prop::option::of(prop_oneof![any::<u64>(), 0_u64..1 << 31, Just(1)])
}

fn any_prefixes() -> impl Strategy<Value = Vec<IpNet>> {
    let some = ["0.0.0.0/0", "192.0.2.0/24", "192.0.2.0/25", "192.0.2.7/32", "::/0", "10.0.0.0/8"];
    prop::sample::subsequence(some.to_vec(), 0..=some.len()).prop_map(|some| nets(&some))
}

prop_compose! {
    fn any_said()(
        nic_bits_per_second in any_rate(),
        max_rcvbuf_bytes in any_bytes(),
        wanted in any_bytes(),
        age in any::<u32>(),
        rate in any_rate(),
        prefixes in any_prefixes(),
        ends_in in prop::option::of(any::<u64>()),
        consents in any::<bool>(),
    ) -> Said {
        let age = Duration::from_secs(age.into());
        let wanted = wanted.map(|value| Value { value, age, source: Source::Measured });
        let sending = Direction { wanted_window_bytes: wanted, ..Direction::default() };
        let ends_in = ends_in.map(Duration::from_millis);
        let consent = Consent { max_bits_per_second: rate, prefixes, ends_in };
        let consent = consents.then_some(consent);
        Said { nic_bits_per_second, max_rcvbuf_bytes, sending, consent, ..Said::default() }
    }
}

prop_compose! {
    fn any_heard()(
        said in any_said(),
        own_nic_bits_per_second in any_rate(),
        grant_buffer_bytes in any_bytes(),
        prefixes in any_prefixes(),
    ) -> Heard {
        Heard { prefixes, own_nic_bits_per_second, grant_buffer_bytes, ..heard(said) }
    }
}

proptest! {
    /// Whatever a peer says, no setting is larger than the file allows, and none smaller than
    /// what the kernel gives by itself.
    #[test]
    fn a_peer_makes_no_flow_faster_than_the_file_nor_slower_than_the_kernel(
        heard in any_heard(),
        place in 0..FILES.len(),
        after in 0_u64..200,
    ) {
        let path = path(FILES[place]);
        let now = heard.heard_at + Duration::from_secs(after);
        let counted = counted(std::slice::from_ref(&heard), now);
        let mut followed = vec![path.clone()];
        follow(&counted, &mut followed, bounds());
        let policy = |path: &PathPolicy| {
            let fallback = path.measured.map(|it| it.fallback).unwrap_or_default();
            tuning_plan::policy(path, fallback, bounds())
        };
        let (file, tuned) = (policy(&path), policy(&followed[0]));
        let grant = heard.grant_buffer_bytes.unwrap_or(MAX_BUFFER_BYTES).min(512 << 20);

        prop_assert!(tuned.congestion == file.congestion || tuned.congestion.is_none());
        let is_files = tuned.congestion == file.congestion;
        let consents = counted.first().is_some_and(|it| it.consent.is_some());
        if path.allow.is_some() && !consents {
            prop_assert_eq!(tuned.congestion.clone(), fair(&path).congestion);
            prop_assert_eq!(tuned.initial_window_segments, fair(&path).initial_window_segments);
            prop_assert_eq!(tuned.control.standing_queue_segments, 0);
        }
        prop_assert!(tuned.initial_window_segments <= file.initial_window_segments);
        let is_control_of_file = |control: Control| {
            control.dedicated_bytes_per_second <= file.control.dedicated_bytes_per_second
                && control.standing_queue_segments <= file.control.standing_queue_segments
                && (control.aimd == file.control.aimd || !is_files)
        };
        prop_assert!(is_control_of_file(tuned.control), "{:?}", tuned.control);
        let least = |bytes: Option<u32>| u64::from(bytes.unwrap_or(u32::MAX)) * 2;
        if let Some(bytes) = tuned.sndbuf_bytes {
            prop_assert!(Some(bytes) <= file.sndbuf_bytes);
        }
        if tuned.sndbuf_bytes != file.sndbuf_bytes {
            prop_assert!(least(tuned.sndbuf_bytes) >= KERNEL.sndbuf_bytes);
        }
        match (tuned.rcvbuf_bytes, file.rcvbuf_bytes) {
            (Some(bytes), Some(of_file)) => prop_assert!(bytes <= of_file),
            (Some(bytes), None) => prop_assert!(u64::from(bytes) <= grant, "{bytes}"),
            _ => {}
        }
        if tuned.rcvbuf_bytes != file.rcvbuf_bytes {
            prop_assert!(least(tuned.rcvbuf_bytes) >= KERNEL.rcvbuf_bytes);
        }
        if let Some(rate) = file.max_pacing_bytes_per_second {
            prop_assert!(tuned.max_pacing_bytes_per_second.is_some_and(|it| it <= rate));
        }
        if let Some(rate) = tuned.max_pacing_bytes_per_second {
            prop_assert!(file.max_pacing_bytes_per_second == Some(rate) || rate >= 125_000);
        }
        let (of_file, bounded) = (file.origin.capacity, tuned.origin.capacity);
        if let Some((of_file, rate)) = of_file.bits_per_second.zip(bounded.bits_per_second) {
            prop_assert!(rate <= of_file && rate * f64::from(DEFAULT_BAND) >= of_file);
        }
        prop_assert_eq!(tuned.remote, file.remote);
        prop_assert_eq!(tuned.observe, file.observe);
    }

    /// A path by a peer's word has a receive buffer, within what the file grants, and nothing
    /// else; only for prefixes that the peer may speak for.
    #[test]
    fn a_path_by_a_peers_word_is_a_receive_buffer_for_its_prefixes(heard in any_heard()) {
        let counted = counted(std::slice::from_ref(&heard), heard.heard_at);
        let grant = heard.grant_buffer_bytes.unwrap_or(MAX_BUFFER_BYTES).min(512 << 20);
        for mut path in paths(&counted, &[], bounds()) {
            let bytes = path.rcvbuf_bytes.take().expect("it is what the path is for");
            prop_assert!(u64::from(bytes) <= grant && u64::from(bytes) * 2 > KERNEL.rcvbuf_bytes);
            let is_its = |net: &IpNet| heard.prefixes.contains(net) && is_bounded(*net);
            prop_assert!(path.remote.iter().all(is_its) && !path.remote.is_empty());
            let mut all = Vec::new();
            prop_assert_eq!(add(vec![path.clone()], (&mut all, &HostChanges::default())), Ok(()));
            let nothing = PathPolicy {
                name: path.name.clone(),
                remote: path.remote.clone(),
                origin: path.origin.clone(),
                ..PathPolicy::default()
            };
            prop_assert_eq!(path, nothing);
        }
    }

    /// Nothing of it panics, or is left when it has ended.
    #[test]
    fn nothing_counts_after_its_end(heard in any_heard(), after in 90_u64..1 << 40) {
        let now = heard.heard_at + Duration::from_secs(after);
        prop_assert_eq!(counted(std::slice::from_ref(&heard), now), []);
        prop_assert_eq!(heard.next_end(now), None);
    }
}

#[test]
fn an_address_is_a_peers_by_its_prefixes() {
    let prefixes: Vec<IpNet> =
        ["192.0.2.0/24", "2001:db8::/32"].map(|net| net.parse().unwrap()).to_vec();
    let is_spoken_for = |address: &str| is_spoken_for(&prefixes, address.parse().unwrap());
    assert!(["192.0.2.9", "::ffff:192.0.2.9", "2001:db8::1"].into_iter().all(is_spoken_for));
    assert!(!["192.0.3.9", "::ffff:192.0.3.9", "2001:db9::1"].into_iter().any(is_spoken_for));
}
