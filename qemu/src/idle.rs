//! What an idle guest costs its host: QEMU's CPU time while every core of the guest sleeps.

use crate::guest::{Event, Guest};
use crate::problem::{Problem, Result, stop};
use std::time::{Duration, Instant};

const MEASURED: Duration = Duration::from_secs(10);

/// Per cent of one host core that `guest` uses; none where the host does not tell.
pub fn measure(guest: &mut Guest) -> Result<Option<f64>> {
    let Some(before) = cpu_time(guest.id())? else {
        return Ok(None);
    };
    let began = Instant::now();
    loop {
        match guest.next(began + MEASURED) {
            Event::Console(_) => {}
            Event::Gone => stop!("the guest ended while it should have been idle"),
            Event::Late => break,
        }
    }
    let elapsed = began.elapsed();
    let used = cpu_time(guest.id())?.map(|after| after.saturating_sub(before));
    Ok(used.map(|used| 100.0 * used.as_secs_f64() / elapsed.as_secs_f64()))
}

/// CPU time of a process, all its threads, user and system.
fn cpu_time(process: u32) -> Result<Option<Duration>> {
    if !cfg!(target_os = "linux") {
        return Ok(None);
    }
    let path = format!("/proc/{process}/stat");
    let stat =
        std::fs::read_to_string(&path).map_err(|error| Problem::new(format!("{path}: {error}")))?;
    let Some(ticks) = ticks(&stat) else {
        stop!("{path} is not understood")
    };
    let seconds = ticks as f64 / rustix::param::clock_ticks_per_second() as f64;
    Ok(Some(Duration::from_secs_f64(seconds)))
}

/// Fields 14 and 15. The second is a name in parentheses that may hold anything.
fn ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_found_behind_any_process_name() {
        let stat = "77 (a) b (c) S 1 77 77 0 -1 4194304 9 0 0 0 120 35 0 0 20 0 5 0 1 2 3";
        assert_eq!(ticks(stat), Some(155));
        assert_eq!(ticks("77 (a) S"), None);
    }
}
