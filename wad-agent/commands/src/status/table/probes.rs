//! Lines on probes, and on runs that both ends agree to.

use std::io::{self, Write};

use wad_agent::status::ProbesStatus;
use wad_probing::schedule::Reservations;
use wad_toolbox::amounts::Bytes;

use super::Uptime;

pub fn write(probes: &ProbesStatus, out: &mut dyn Write) -> io::Result<()> {
    let ProbesStatus { tasks, max_bytes_per_day, running, next_task, next_in_seconds, .. } = probes;
    let s = if *tasks == 1 { "" } else { "s" };
    write!(out, "probes   {tasks} task{s}, {} a day at most", Bytes(*max_bytes_per_day))?;
    if *running > 0 {
        write!(out, "; {running} of them run")?;
    }
    match next_task.as_deref().zip(*next_in_seconds) {
        // Saturates.
        Some((task, seconds)) => writeln!(out, "; next {task} in {}", Uptime(seconds as u64))?,
        None => writeln!(out)?,
    }
    write_reservations(&probes.reservations, out)
}

fn write_reservations(reservations: &Reservations, out: &mut dyn Write) -> io::Result<()> {
    let Reservations { granted, refused, unanswered, given, declined, expired, held } =
        reservations;
    if granted + refused + unanswered > 0 {
        write!(out, "reserved at peers: {granted} granted, {refused} refused")?;
        writeln!(out, ", {unanswered} unanswered")?;
    }
    if given + declined > 0 {
        write!(out, "reserved for peers: {given} granted, {declined} refused")?;
        writeln!(out, ", {expired} expired; {held} of them now")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_are_said_to_go_on() {
        let mut probes = ProbesStatus {
            tasks: 2,
            max_bytes_per_day: 5 << 30,
            running: 1,
            next_task: Some("tokyo-rtt".to_owned()),
            next_in_seconds: Some(34.6),
            reservations: Reservations::default(),
        };
        let text = |probes: &ProbesStatus| {
            let mut out = Vec::new();
            write(probes, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let line =
            "probes   2 tasks, 5.0 GiB a day at most; 1 of them run; next tokyo-rtt in 34 s\n";
        assert_eq!(text(&probes), line);
        (probes.tasks, probes.running, probes.next_task) = (1, 0, None);
        assert_eq!(text(&probes), "probes   1 task, 5.0 GiB a day at most\n");
        let reservations = Reservations { granted: 5, refused: 2, ..Reservations::default() };
        probes.reservations = Reservations { given: 3, expired: 1, held: 1, ..reservations };
        let lines = "reserved at peers: 5 granted, 2 refused, 0 unanswered\n\
                     reserved for peers: 3 granted, 0 refused, 1 expired; 1 of them now\n";
        assert!(text(&probes).ends_with(lines), "{}", text(&probes));
    }
}
