//! A host whose time passes at once: it has tasks, is suspended now and then, reads other
//! configurations, and its tools end when they like, or never.

use std::{cmp::Reverse, collections::BinaryHeap};

use super::*;

pub const HOUR: Moment = Duration::from_secs(3600);

/// A task of a world, in numbers that any are good for.
#[derive(Clone, Debug)]
pub struct Job {
    pub path: u8,
    pub kind: Kind,
    pub every_seconds: u64,
    /// Parts of a period that jitter, slip and time-out have, of their sum and `rest`.
    pub parts: [u32; 3],
    pub rest: u32,
}

#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Ping,
    Bandwidth,
    /// One that wants the processors for itself.
    Busy,
    Command,
}

#[derive(Clone, Debug)]
pub struct World {
    pub seed: u64,
    pub jobs: Vec<Job>,
    /// When the host is suspended, and for how long.
    pub suspended: Vec<(Moment, Duration)>,
    /// When a task is replaced by another one of its name.
    pub replaced: Vec<(Moment, usize)>,
    /// When a run is asked for, and of which task.
    pub asked: Vec<(Moment, usize)>,
}

/// Holds what has become of a world.
#[derive(Debug, Default)]
pub struct History {
    pub tasks: Vec<Lived>,
    pub runs: Vec<Ran>,
    pub rows: Vec<Written>,
}

/// A task, and until when there was one.
#[derive(Debug)]
pub struct Lived {
    pub planned: Planned,
    pub until: Moment,
}

#[derive(Debug)]
pub struct Ran {
    pub task: usize,
    pub cause: Cause,
    pub start: Moment,
    pub end: Moment,
}

#[derive(Debug)]
pub struct Written {
    pub task: usize,
    pub cause: Cause,
    pub at: Moment,
    /// It kept the run from starting; None where it ran.
    pub hindrance: Option<Hindrance>,
}

impl Job {
    pub fn planned(&self, number: usize, first: Moment) -> Planned {
        let every = Duration::from_secs(self.every_seconds);
        let sum = self.parts.iter().sum::<u32>() + self.rest + 1;
        let [jitter, slip, timeout] = self.parts.map(|part| every / sum * part);
        let timing = Timing { every, jitter, slip, timeout: timeout + every / sum };
        Planned {
            name: format!("task-{number}").into(),
            timing,
            first,
            locks: self.locks(),
            there: None,
        }
    }

    fn locks(&self) -> Vec<Lock> {
        let path = format!("path:{}", self.path);
        let peer = format!("peer:{}", self.path / 2);
        let interface = format!("interface:{}", self.path % 3);
        match self.kind {
            Kind::Ping => [path, peer, interface, "host-cpu".into()].map(Lock::shared).into(),
            Kind::Bandwidth => {
                let mut locks = [path, peer, interface].map(Lock::exclusive).to_vec();
                locks.push(Lock::shared("host-cpu"));
                locks
            }
            Kind::Busy => vec![Lock::exclusive("host-cpu"), Lock::shared(path)],
            Kind::Command => vec![Lock::shared(path)],
        }
    }
}

struct Simulation<'w> {
    world: &'w World,
    schedule: Schedule,
    now: Moment,
    /// The place in the history of each task of the world.
    places: Vec<usize>,
    /// The runs that go on, and which of the history they are.
    running: HashMap<RunId, usize>,
    ends: BinaryHeap<Reverse<(Moment, RunId)>>,
    history: History,
}

impl World {
    /// Has an hour pass.
    pub fn live(&self) -> History {
        let mut simulation = Simulation {
            world: self,
            schedule: Schedule::new(Chance::new(self.seed)),
            now: Duration::ZERO,
            places: Vec::new(),
            running: HashMap::new(),
            ends: BinaryHeap::new(),
            history: History::default(),
        };
        for (number, job) in self.jobs.iter().enumerate() {
            simulation.places.push(0);
            simulation.add(number, job);
        }
        let mut orders: Vec<_> =
            self.replaced.iter().map(|(at, task)| (*at, *task, true)).collect();
        orders.extend(self.asked.iter().map(|(at, task)| (*at, *task, false)));
        orders.sort();
        for (at, task, replaces) in orders {
            simulation.go_on_until(at.min(HOUR));
            if replaces {
                simulation.replace(task % self.jobs.len());
            } else {
                let name = format!("task-{}", task % self.jobs.len());
                let (now, patience) = (simulation.now, Duration::from_secs(30));
                assert!(simulation.schedule.ask(&name, now, patience));
            }
        }
        simulation.go_on_until(HOUR);
        (0..self.jobs.len()).for_each(|number| simulation.remove(number));
        assert!(simulation.running.is_empty());
        simulation.history
    }
}

impl Simulation<'_> {
    fn add(&mut self, number: usize, job: &Job) {
        let name = format!("task-{number}");
        let chance = Chance::new(self.world.seed).of_text(&name);
        let timing = job.planned(number, Duration::ZERO).timing;
        let first = timing.first(chance, self.now, Duration::from_secs(1_800_000_000) + self.now);
        let planned = job.planned(number, first);
        self.places[number] = self.history.tasks.len();
        self.schedule.add(planned.clone());
        self.history.tasks.push(Lived { planned, until: HOUR });
    }

    fn remove(&mut self, number: usize) {
        let place = self.places[number];
        self.history.tasks[place].until = self.now;
        let Removed { running, waiting } =
            self.schedule.remove(&format!("task-{number}"), self.now);
        if let Some(run) = running {
            self.end(&run);
        }
        for cause in waiting {
            let hindrance = Some(Hindrance::NotRunning);
            self.history.rows.push(Written { task: place, cause, at: self.now, hindrance });
        }
    }

    fn replace(&mut self, number: usize) {
        self.remove(number);
        let job = &self.world.jobs[number];
        let every_seconds = (job.every_seconds / 2).max(20);
        self.add(number, &Job { every_seconds, ..job.clone() });
    }

    fn go_on_until(&mut self, until: Moment) {
        loop {
            let next = self.do_all();
            let end = self.ends.peek().map(|Reverse((end, _))| *end);
            let next = next.into_iter().chain(end).min();
            let Some(next) = next.filter(|next| *next <= until) else { break };
            assert!(next >= self.now, "time does not go back");
            self.now = self.awake(next);
            while let Some(Reverse((end, id))) = self.ends.peek().copied()
                && end <= self.now
            {
                self.ends.pop();
                // Unless it was ended before.
                if self.running.contains_key(&id) {
                    self.schedule.ended(id);
                    self.end_run(id);
                }
            }
            if self.now > until {
                return;
            }
        }
        self.now = self.now.max(until);
    }

    /// Nothing happens while the host is suspended.
    fn awake(&self, at: Moment) -> Moment {
        let is_within =
            |(begin, length): &&(Moment, Duration)| (*begin..*begin + *length).contains(&at);
        match self.world.suspended.iter().find(is_within) {
            Some((begin, length)) => self.awake(*begin + *length),
            None => at,
        }
    }

    /// Does what is to be done now, and returns until when there is nothing more.
    fn do_all(&mut self) -> Option<Moment> {
        loop {
            let chance = Chance::new(self.world.seed).of(self.now.as_nanos() as u64);
            let hindered = |name: &str| {
                let is_known = chance.of_text(name).part_of(seconds(16)) < seconds(1);
                is_known.then_some(Hindrance::KnownFromFlows)
            };
            match self.schedule.step(self.now, hindered) {
                Step::Start(run) => self.start(run),
                Step::TimeOut(run) => self.end(&run),
                Step::Ask { .. } | Step::Refused { .. } => panic!("no task here has a peer"),
                Step::Missed { task, cause, hindrance } => {
                    let task = self.place(&task);
                    let hindrance = Some(hindrance);
                    self.history.rows.push(Written { task, cause, at: self.now, hindrance });
                }
                Step::Wait(until) => {
                    assert!(until.is_none_or(|until| until > self.now), "it waits for the past");
                    return until;
                }
            }
        }
    }

    fn place(&self, name: &str) -> usize {
        self.places[name.trim_start_matches("task-").parse::<usize>().unwrap()]
    }

    fn start(&mut self, run: Run) {
        let task = self.place(&run.task);
        let timeout = run.until - self.now;
        // An eighth of the tools hang; some fail at once.
        let length = Chance::new(self.world.seed).of(run.id.0).part_of(timeout * 10 / 8);
        let length = length.saturating_sub(timeout / 8);
        if length < timeout {
            self.ends.push(Reverse((self.now + length, run.id)));
        }
        self.running.insert(run.id, self.history.runs.len());
        let (start, end) = (self.now, Duration::MAX);
        self.history.runs.push(Ran { task, cause: run.cause, start, end });
    }

    fn end(&mut self, run: &Run) {
        self.end_run(run.id);
    }

    fn end_run(&mut self, id: RunId) {
        let ran = self.running.remove(&id).expect("it runs");
        let ran = &mut self.history.runs[ran];
        ran.end = self.now;
        let (task, cause) = (ran.task, ran.cause);
        self.history.rows.push(Written { task, cause, at: self.now, hindrance: None });
    }
}
