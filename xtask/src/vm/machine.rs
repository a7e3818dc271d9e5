//! One run of QEMU, with its console watched. It emulates the processor, so that
//! it works wherever it is started.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};

use crate::exec;

/// The longest that a machine may take, in the time of this one.
#[derive(Clone, Copy)]
pub struct Limits {
    /// The longest time with nothing on the console.
    pub silence: Duration,
    pub whole: Duration,
}

/// Tells how a kernel is run.
pub struct Manner<'a> {
    /// The parameters that the kernel is told.
    pub parameters: &'a str,
    pub memory_mib: u32,
    /// A file for what the machine writes to its second serial line.
    pub results: Option<&'a Path>,
    /// The time that an instruction takes of the machine's.
    pub instruction: Instruction,
    pub limits: Limits,
}

/// The processor is all that QEMU can emulate, but for two things:
///
/// - QEMU 7.2's cmpxchg16b makes the kernel's allocator of slabs panic.
/// - A kernel that is told of fast copies of strings (ERMS, FSRM) copies what goes through
///   its sockets and devices by `rep movsb`. On a real processor that moves 32 bytes and
///   more in a cycle; here each byte is an instruction, with its time. Four copies on the
///   way from a sender to a receiver took a third of the processor at 600 Mb/s. Without,
///   the kernel moves eight bytes at a time.
const PROCESSOR: &str = "max,-cx16,-erms,-fsrm";

/// QEMU takes the time of an instruction as a power of two, of nanoseconds.
#[derive(Clone, Copy)]
pub enum Instruction {
    OneNs = 0,
    TwoNs = 1,
}

/// Tells how the machine came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The machine turned itself off, or panicked.
    Off,
    Silent,
    TooLong,
}

/// Holds what was on the console.
pub struct Console {
    pub lines: Vec<String>,
    pub end: End,
}

/// A machine that runs is killed when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Most often it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Boots a kernel and shows its console as it comes, until the machine is off or
/// the time is over.
pub fn run(kernel: &Path, first_files: &Path, name: &str, manner: &Manner<'_>) -> Result<Console> {
    let program = exec::find_program("qemu-system-x86_64").context("QEMU is missing")?;
    let mut command = Command::new(program);
    command.args(["-nodefaults", "-no-user-config", "-display", "none", "-serial", "stdio"]);
    if let Some(results) = manner.results {
        command.arg("-serial").arg(format!("file:{}", results.display()));
    }
    let memory = format!("{}M", manner.memory_mib);
    command.args(["-no-reboot", "-m", &memory, "-accel", "tcg"]);
    command.args(["-cpu", PROCESSOR]);
    // The machine's time is that of its instructions, and jumps on when there is
    // nothing to do: nothing is late in it, however slow or busy this machine is, and
    // waiting takes no time. With two processors it does not boot.
    let clock = format!("shift={},sleep=off", manner.instruction as u8);
    command.args(["-smp", "1", "-icount", &clock, "-rtc", "clock=vm"]);
    command.arg("-kernel").arg(kernel).arg("-initrd").arg(first_files);
    // A panic ends QEMU. What the kernel says of real errors is shown.
    let parameters = format!("console=ttyS0 panic=-1 oops=panic loglevel=4 {}", manner.parameters);
    command.args(["-append", &parameters]);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut running = Running(command.spawn().context("cannot start QEMU")?);
    let output = running.0.stdout.take().context("QEMU has no output")?;
    let from = read_lines(output);
    let mut lines = Vec::new();
    let begun = Instant::now();
    let end = watch(&from, manner.limits, |line| {
        // With this machine's time: the other's own jumps.
        eprintln!("{name} {:>4} s | {line}", begun.elapsed().as_secs());
        lines.push(line);
    });
    // A last line without an end is read only now.
    drop(running);
    lines.extend(from);
    Ok(Console { lines, end })
}

fn watch(lines: &mpsc::Receiver<String>, limits: Limits, mut each: impl FnMut(String)) -> End {
    let begun = Instant::now();
    loop {
        let left = limits.whole.saturating_sub(begun.elapsed());
        match lines.recv_timeout(left.min(limits.silence)) {
            Ok(line) => each(line),
            Err(RecvTimeoutError::Disconnected) => return End::Off,
            Err(RecvTimeoutError::Timeout) if left > limits.silence => return End::Silent,
            Err(RecvTimeoutError::Timeout) => return End::TooLong,
        }
        if begun.elapsed() >= limits.whole {
            return End::TooLong;
        }
    }
}

/// Lines without what a terminal would do with them: the firmware's first words
/// clear it.
fn read_lines(output: ChildStdout) -> mpsc::Receiver<String> {
    let (to, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n') {
            let Ok(line) = line else { return };
            let text: String =
                String::from_utf8_lossy(&line).chars().filter(|c| !c.is_control()).collect();
            if to.send(text).is_err() {
                return;
            }
        }
    });
    lines
}
