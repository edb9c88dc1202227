//! `trace` and `bench`: what each core did in the last moments, and how long a few things take here and now.

use crate::println;
use executor::{
    spawn,
    sync::{Mutex, channel::bounded},
    task::yield_now,
    time::{Duration, Instant},
};

/// For how long `trace` notes, unless told otherwise, and at most.
#[cfg(feature = "trace")]
const USUAL: u64 = 20;
#[cfg(feature = "trace")]
const LONGEST: u64 = 10_000;

/// Notes what happens on each core for so many milliseconds, and shows it.
#[cfg(feature = "trace")]
pub(super) async fn trace(argument: &str) {
    let millis = match argument {
        "" => Ok(USUAL),
        text => text.parse(),
    };
    let Ok(millis @ 1..=LONGEST) = millis else {
        println!("  trace [<milliseconds>]: for how long, 1 to {LONGEST}");
        return;
    };
    traced::show(Duration::from_millis(millis)).await;
}

#[cfg(not(feature = "trace"))]
pub(super) async fn trace(_: &str) {
    println!("  this image notes nothing: it was built without the feature `trace`");
}

#[cfg(feature = "trace")]
mod traced {
    use crate::println;
    use alloc::{collections::BTreeMap, format, string::String, vec::Vec};
    use executor::{
        stats,
        task::TaskId,
        time::{Duration, sleep},
        trace::{self, Event, Kind},
    };

    /// Events that are kept for each core.
    const KEPT: usize = 1024;
    /// Of those, so many are shown.
    const SHOWN: usize = 12;

    pub async fn show(duration: Duration) {
        trace::start(KEPT);
        let began = hal::clock::now();
        sleep(duration).await;
        trace::stop();
        let names: BTreeMap<TaskId, String> = stats::tasks()
            .into_iter()
            .filter_map(|task| Some((task.id, task.name?)))
            .collect();
        for core in hal::cores::online().iter() {
            let (mut events, _) = trace::events(core);
            events.retain(|event| event.time >= began);
            // The ring keeps the latest: what is between the first kept and the first noted is lost.
            let of = |kind| events.iter().filter(|event| event.kind == kind).count();
            println!(
                "  core {core}: {} polls, {} wakes, {} spawns, {} steals, {} interrupts, {} sleeps{}",
                of(Kind::PollBegin),
                of(Kind::Wake),
                of(Kind::Spawn),
                of(Kind::Steal),
                of(Kind::Interrupt),
                of(Kind::Park),
                if events.len() == KEPT {
                    "; and more before them"
                } else {
                    ""
                }
            );
            last(&events, began, &names);
        }
    }

    /// The latest events of a core.
    fn last(events: &[Event], began: u64, names: &BTreeMap<TaskId, String>) {
        let name = |task: Option<TaskId>| {
            task.map_or(String::new(), |task| match names.get(&task) {
                Some(name) => format!(" {name}"),
                None => format!(" {task}"),
            })
        };
        let skipped = events.len().saturating_sub(SHOWN);
        let shown: Vec<&Event> = events.iter().skip(skipped).collect();
        for event in shown {
            let by = match event.by {
                Some(_) => format!(" by{}", name(event.by)),
                None => String::new(),
            };
            let what = match event.kind {
                Kind::Spawn => "spawn",
                Kind::PollBegin => "poll",
                Kind::PollEnd => "poll ends",
                Kind::Wake => "wake",
                Kind::Steal => "steal",
                Kind::Park => "sleep",
                Kind::Unpark => "awake",
                Kind::Interrupt => "interrupt",
            };
            let micros = event.time.saturating_sub(began) / 1000;
            println!("    {micros:8} us  {what}{}{by}", name(event.task));
        }
    }
}

/// How often each thing is done.
const ROUNDS: u32 = 10_000;

/// How long a few things take, by the clock: other tasks and the host take their share.
pub(super) async fn bench(argument: &str) {
    let rounds = match argument {
        "" => Ok(ROUNDS),
        text => text.parse(),
    };
    let Ok(rounds @ 1..=1_000_000) = rounds else {
        println!("  bench [<rounds>]: how often each thing is done, 1 to 1000000");
        return;
    };
    let each = |what: &str, took: Duration| {
        println!(
            "  {what:<36} {:>8} ns",
            took.as_nanos() / u128::from(rounds)
        );
    };
    let began = Instant::now();
    for _ in 0..rounds {
        yield_now().await;
    }
    each("yield", began.elapsed());

    let began = Instant::now();
    for _ in 0..rounds {
        // Nobody cancels it.
        let _ = spawn(async {}).await;
    }
    each("spawn, run, join", began.elapsed());

    let mutex = Mutex::new(0);
    let began = Instant::now();
    for _ in 0..rounds {
        *mutex.lock().await += 1;
    }
    each("lock, unlock", began.elapsed());

    let (sender, receiver) = bounded(16);
    let began = Instant::now();
    for round in 0..rounds {
        // There is room, and something in it.
        let _ = sender.send(round).await;
        let _ = receiver.recv().await;
    }
    each("send, receive", began.elapsed());

    let (there, other) = bounded::<u32>(1);
    let (back, own) = bounded::<u32>(1);
    let echo = spawn(async move {
        while let Ok(value) = other.recv().await {
            if back.send(value).await.is_err() {
                break;
            }
        }
    });
    let began = Instant::now();
    for round in 0..rounds {
        let _ = there.send(round).await;
        let _ = own.recv().await;
    }
    each("to another task and back", began.elapsed());
    drop(there);
    let _ = echo.await;
    println!("  by this machine's clock; `make bench` counts instructions, the same every time");
}
