use std::{
    fs,
    future::ready,
    time::{Duration, Instant},
};

use wad_policy::config::{Config, Host, Metric};
use wad_toolbox::causes::told;

use super::*;
use crate::{
    archive::Query,
    row::{Ending, Hindrance, Row},
    task::Task,
};

/// A service with an archive of its own.
struct Prober {
    folder: tempfile::TempDir,
    runtime: tokio::runtime::Runtime,
    service: Service,
}

fn probe(text: &str) -> Probe {
    Config::parse("wad.toml", text, &Host::default()).unwrap().probe.unwrap()
}

/// Echoes of an answerer on the loopback, of which each is waited for a moment.
fn task(name: &str, port: u16, more: &str) -> String {
    format!(
        "[[probe.task]]\nname = '{name}'\nhost = '127.0.0.1'\ntool = 'rtt'\necho = 'udp'\n\
         port = {port}\ncount = 3\ninterval = '10ms'\nevery = '10s'\njitter = '0s'\n{more}\n"
    )
}

impl Prober {
    fn start(text: &str, passive: Passive) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), text, passive)
    }

    fn start_in(folder: tempfile::TempDir, text: &str, passive: Passive) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let file = folder.path().join("probes.sqlite");
        let probe = probe(text);
        let peers: AskPeer = Arc::new(|_, _| Box::pin(ready(Err("there is none".to_owned()))));
        let others = Others { passive, peers };
        let mut service = Service::start(&file, &probe, Chance::new(1), others).unwrap();
        let ready = service.prepare(&probe).unwrap();
        service.put_in_force(ready);
        Self { folder, runtime, service }
    }

    fn change(&mut self, text: &str) {
        let ready = self.service.prepare(&probe(text)).unwrap();
        self.service.put_in_force(ready);
    }

    fn ask(&self, name: &str) -> Vec<Asked> {
        let asker = self.service.asker();
        self.runtime.block_on(asker.ask(vec![name.to_owned()]))
    }

    fn rows(&self) -> Vec<Row> {
        self.service.archive.query(&Query::default()).unwrap()
    }

    /// Waits for the row of a run that was asked for.
    fn row(&self, asked: &Asked) -> Row {
        let until = Instant::now() + Duration::from_secs_f64(asked.within_seconds);
        while Instant::now() < until {
            let is_it = |row: &Row| row.task == asked.task && row.period == asked.period;
            if let Some(row) = self.rows().into_iter().find(is_it) {
                return row;
            }
            thread::sleep(Duration::from_millis(5));
        }
        panic!("no row of {asked:?}: {:?}", self.rows());
    }

    fn finish(self) -> Vec<Row> {
        let archive = Arc::clone(&self.service.archive);
        self.runtime.block_on(self.service.finish());
        assert!(fs::metadata(self.folder.path().join("probes.sqlite")).unwrap().len() > 0);
        archive.query(&Query::default()).unwrap()
    }
}

fn no_flows() -> Passive {
    Arc::new(|_, _, _| false)
}

/// A port that is free, as far as anyone can tell.
fn free_port() -> u16 {
    let socket = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    socket.local_addr().unwrap().port()
}

fn answering(port: u16) -> String {
    format!("[probe]\nanswer = '127.0.0.1:{port}'\nanswer_to = '127.0.0.1'\n")
}

#[test]
fn a_run_that_is_asked_for_measures_and_has_its_row() {
    let port = free_port();
    let host = Prober::start(&(answering(port) + &task("a", port, "")), no_flows());
    let asked = host.ask("a");
    let [one] = &asked[..] else { panic!("{asked:?}") };
    let row = host.row(one);
    let Ending::Measured(measured) = &row.ending else { panic!("{row:?}") };
    assert_eq!(measured.rtt.map(|rtt| rtt.samples), Some(3));
    assert_eq!(row.address, Some([127, 0, 0, 1].into()));
    assert!(row.started.is_some() && row.took > Duration::ZERO);
    // By the host's name as well; of others there is none.
    assert_eq!(host.ask("127.0.0.1").len(), 1);
    assert_eq!(host.ask("b"), []);
    let latest = host.service.results().latest().unwrap();
    assert_eq!(latest.iter().map(|it| &*it.last.task).collect::<Vec<_>>(), ["a"]);
    host.finish();
}

#[test]
fn each_period_runs_by_itself() {
    let port = free_port();
    let host = Prober::start(&(answering(port) + &task("a", port, "")), no_flows());
    let until = Instant::now() + Duration::from_secs(15);
    while host.rows().is_empty() {
        assert!(Instant::now() < until, "no row within a period");
        thread::sleep(Duration::from_millis(20));
    }
    let rows = host.finish();
    assert!(rows.iter().any(|row| matches!(row.ending, Ending::Measured(_))), "{rows:?}");
}

/// Nobody sends anything back.
#[test]
fn a_change_ends_what_runs_and_says_so() {
    let silent = std::net::UdpSocket::bind(("127.0.0.1", 0)).unwrap();
    let port = silent.local_addr().unwrap().port();
    let mut host = Prober::start(&task("a", port, ""), no_flows());
    let asked = host.ask("a").remove(0);
    // Until it has begun to send.
    silent.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    silent.recv(&mut [0; 2000]).unwrap();
    host.change(&task("a", port, "slip = '1s'"));
    let row = host.row(&asked);
    assert_eq!(row.ending, Ending::Killed("its task was changed".to_owned()));
    // One that is as it was goes on until the end.
    let asked = host.ask("a").remove(0);
    silent.recv(&mut [0; 2000]).unwrap();
    host.change(&(task("a", port, "slip = '1s'") + &task("b", port, "")));
    let rows = host.finish();
    let row = rows.iter().find(|row| row.task == "a" && row.period == asked.period);
    let row = row.unwrap_or_else(|| panic!("{rows:?}"));
    assert!(matches!(&row.ending, Ending::Killed(why) if why == "the service stops"), "{row:?}");
}

/// The one before this was killed 100 s ago.
#[test]
fn periods_without_a_service_have_one_row() {
    let port = free_port();
    let text = answering(port) + &task("a", port, "");
    let folder = tempfile::tempdir().unwrap();
    let config = probe(&text);
    let task = Task::new(config.tasks[0].clone());
    let ago = Timestamp::now() - Duration::from_secs(100);
    let archive = Archive::open(&folder.path().join("probes.sqlite"), bounds(&config));
    archive.append(&task.row(ago, Ending::TimedOut));
    drop(archive);
    let host = Prober::start_in(folder, &text, no_flows());
    let until = Instant::now() + Duration::from_secs(15);
    let stopped = loop {
        assert!(Instant::now() < until, "no row: {:?}", host.rows());
        let is_it = |row: &Row| matches!(row.ending, Ending::Missed(Hindrance::Stopped { .. }));
        match host.rows().into_iter().find(is_it) {
            Some(row) => break row,
            None => thread::sleep(Duration::from_millis(20)),
        }
    };
    // The one that has a row is not among them, and neither is the one that is to come.
    assert!((9..=11).contains(&stopped.periods()), "{stopped:?}");
    assert!((0.0..10.2).contains(&stopped.period.duration_since(ago).as_secs_f64()), "{stopped:?}");
    let outlook = host.service.asker().outlook();
    assert_eq!((outlook.tasks, outlook.bytes_per_day), (1, config.bytes_per_day()));
    assert_eq!(outlook.next_in().map(|(task, _)| task), Some("a"));
    host.finish();
}

#[test]
fn a_path_whose_flows_have_shown_it_is_not_measured() {
    let port = free_port();
    let path = "[[path]]\nname = 'p'\nremote = '127.0.0.1'\nsndbuf = '1MiB'\n";
    let text = path.to_owned() + &answering(port) + &task("a", port, "path = 'p'");
    let passive: Passive = Arc::new(|path, metric, within| {
        assert_eq!((path, metric, within), ("p", Metric::Rtt, Duration::from_secs(10)));
        true
    });
    let host = Prober::start(&text, passive);
    let until = Instant::now() + Duration::from_secs(15);
    while host.rows().is_empty() {
        assert!(Instant::now() < until, "no row within a period");
        thread::sleep(Duration::from_millis(20));
    }
    let rows = host.finish();
    assert_eq!(rows.last().unwrap().ending, Ending::Missed(Hindrance::KnownFromFlows));
}

#[test]
fn an_address_that_is_taken_is_no_answer() {
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let host = Prober::start(&task("a", 9, ""), no_flows());
    let error = host.service.prepare(&probe(&answering(port))).err().expect("it is taken");
    let said = told(&error);
    assert!(said.contains(&format!("127.0.0.1:{port}")), "{said}");
    host.finish();
}

#[test]
fn an_address_that_is_free_late_is_answered_at_late() {
    let port = free_port();
    let mut host = Prober::start(&(answering(port) + &task("a", port, "")), no_flows());
    // While it changes hands, another program has the port.
    host.service.leave();
    let taken = loop {
        match std::net::TcpListener::bind(("127.0.0.1", port)) {
            Ok(taken) => break taken,
            Err(_) => thread::sleep(Duration::from_millis(5)),
        }
    };
    let text = answering(port) + &task("a", port, "");
    let answering = probe(&text).answer.unwrap();
    let ready = Ready { probe: probe(&text), answerer: Next::Here(answering) };
    host.service.put_in_force(ready);
    let measures = |host: &Prober| {
        let row = host.row(&host.ask("a")[0]);
        matches!(row.ending, Ending::Measured(measured) if measured.rtt.is_some())
    };
    assert!(!measures(&host));
    drop(taken);
    let until = Instant::now() + Duration::from_secs(30);
    while !measures(&host) {
        assert!(Instant::now() < until, "nobody answers");
    }
    host.finish();
}
