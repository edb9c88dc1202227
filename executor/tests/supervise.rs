//! Supervisors: tasks that are started again when they fail.
#![cfg(not(loom))]

use executor::{
    Runtime,
    task::{self, ChildError, Strategy, Supervisor, TaskError, spawn, yield_now},
    time::{Duration, Instant, sleep},
};
use std::{
    future::pending,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::*},
    },
};

const SECOND: Duration = Duration::from_secs(1);

/// One core, and time that costs none.
fn runtime() -> Runtime {
    let builder = Runtime::builder().workers(1);
    builder.virtual_clock().build().unwrap()
}

/// What happened, in order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn write(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// Writes down that a child ends.
struct Ends(Log, &'static str);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.write(format!("{} ends", self.1));
    }
}

/// A child that lives until it is cancelled.
fn steady(
    supervisor: Supervisor<&'static str>,
    log: &Log,
    name: &'static str,
) -> Supervisor<&'static str> {
    let log = log.clone();
    supervisor.child(name, move || {
        let log = log.clone();
        async move {
            log.write(format!("{name} begins"));
            let _ends = Ends(log, name);
            pending().await
        }
    })
}

/// A child that fails `times` times, each a second after its start, and is then done.
fn flaky(
    supervisor: Supervisor<&'static str>,
    log: &Log,
    name: &'static str,
    times: usize,
) -> Supervisor<&'static str> {
    let log = log.clone();
    let tries = Arc::new(AtomicUsize::new(0));
    supervisor.child(name, move || {
        let (log, tries) = (log.clone(), tries.clone());
        async move {
            log.write(format!("{name} begins"));
            sleep(SECOND).await;
            log.write(format!("{name} ends"));
            if tries.fetch_add(1, Relaxed) < times {
                Err("no")
            } else {
                Ok(())
            }
        }
    })
}

/// What happens with steady `a`, flaky `b` and steady `c`, in two seconds and a half.
fn happens(strategy: Strategy) -> Vec<String> {
    let log = Log::default();
    runtime().block_on(async {
        let supervisor = steady(Supervisor::new(strategy), &log, "a");
        let supervisor = steady(flaky(supervisor, &log, "b", 1), &log, "c");
        let handle = spawn(supervisor.run());
        sleep(SECOND / 2).await;
        let mut began = log.take();
        // The newest first, on one core.
        began.sort();
        assert_eq!(began, ["a begins", "b begins", "c begins"]);
        sleep(SECOND).await;
        let happened = log.take();
        sleep(SECOND).await;
        assert_eq!(log.take(), ["b ends"], "done, it is not started again");
        assert!(!handle.is_finished());
        handle.cancel();
        assert!(handle.await.unwrap_err().is_cancelled());
        yield_now().await;
        let mut ended = log.take();
        ended.sort();
        assert_eq!(ended, ["a ends", "c ends"]);
        happened
    })
}

#[test]
fn one_for_one_restarts_only_what_failed() {
    assert_eq!(happens(Strategy::OneForOne), ["b ends", "b begins"]);
}

#[test]
fn one_for_all_restarts_all_when_all_have_ended() {
    let mut happened = happens(Strategy::OneForAll);
    assert_eq!(happened[0], "b ends");
    happened[1..3].sort();
    assert_eq!(happened[1..3], ["a ends", "c ends"]);
    happened[3..].sort();
    assert_eq!(happened[3..], ["a begins", "b begins", "c begins"]);
}

#[test]
fn rest_for_one_restarts_what_failed_and_those_after_it() {
    let mut happened = happens(Strategy::RestForOne);
    assert_eq!(happened[..2], ["b ends", "c ends"]);
    happened[2..].sort();
    assert_eq!(happened[2..], ["b begins", "c begins"]);
}

#[test]
fn a_supervisor_gives_up_after_too_many_restarts() {
    runtime().block_on(async {
        let log = Log::default();
        let begin = Instant::now();
        let supervisor = Supervisor::new(Strategy::OneForOne).limit(4, 10 * SECOND);
        let supervisor = flaky(steady(supervisor, &log, "a"), &log, "b", usize::MAX);
        let gave_up = supervisor.run().await.unwrap_err();
        assert_eq!(gave_up.child, "b");
        assert!(matches!(gave_up.cause, Some(ChildError::Failed("no"))));
        assert_eq!(begin.elapsed(), 5 * SECOND, "four restarts");
        let log = log.take();
        assert_eq!(log.iter().filter(|line| *line == "b begins").count(), 5);
        assert_eq!(
            log.last().unwrap(),
            "a ends",
            "all are done before it returns"
        );
    });
}

#[test]
fn restarts_that_are_far_between_are_no_reason_to_give_up() {
    runtime().block_on(async {
        let supervisor = Supervisor::new(Strategy::OneForOne).limit(1, SECOND / 2);
        flaky(supervisor, &Log::default(), "a", 100)
            .run()
            .await
            .unwrap();
    });
}

#[test]
fn without_any_restart_it_gives_up_at_once() {
    runtime().block_on(async {
        let supervisor = Supervisor::new(Strategy::OneForAll).limit(0, SECOND);
        let gave_up = flaky(supervisor, &Log::default(), "a", 1).run().await;
        assert_eq!(
            gave_up.unwrap_err().to_string(),
            "`a` ended too often, last with: no"
        );
    });
}

#[test]
fn delays_double_and_others_are_looked_after_meanwhile() {
    runtime().block_on(async {
        let begin = Instant::now();
        let log = Log::default();
        let supervisor = Supervisor::new(Strategy::OneForOne)
            .limit(10, 1000 * SECOND)
            .delay(10 * SECOND, 30 * SECOND);
        // Fails at 1, 12, 33 and 64 s, and is done at 95 s.
        let supervisor = flaky(supervisor, &log, "a", 4);
        let quick = log.clone();
        let supervisor = supervisor.child("b", move || {
            let log = quick.clone();
            async move {
                sleep(5 * SECOND).await;
                log.write("b is done");
                Ok(())
            }
        });
        supervisor.run().await.unwrap();
        assert_eq!(begin.elapsed(), 95 * SECOND);
        assert_eq!(
            log.take()[..4],
            ["a begins", "a ends", "b is done", "a begins"]
        );
    });
}

#[test]
fn a_panic_is_a_failure_and_a_cancellation_is_not() {
    runtime().block_on(async {
        let tries = Arc::new(AtomicUsize::new(0));
        let seen = tries.clone();
        let supervisor = Supervisor::<()>::new(Strategy::OneForOne)
            .limit(2, SECOND)
            .child("panics", move || {
                // In the factory, too.
                if tries.fetch_add(1, Relaxed) == 1 {
                    panic!("on purpose");
                }
                async { panic!("on purpose") }
            })
            .child("is cancelled", || async {
                task::current().cancel();
                pending().await
            });
        let gave_up = supervisor.run().await.unwrap_err();
        assert_eq!(gave_up.child, "panics");
        assert!(matches!(
            gave_up.cause,
            Some(ChildError::Task(TaskError::Panicked(_)))
        ));
        assert_eq!(seen.load(Relaxed), 3);
        let cancelled = Supervisor::<()>::new(Strategy::OneForOne).permanent("once", || async {
            task::current().cancel();
            pending().await
        });
        cancelled.run().await.unwrap();
    });
}

#[test]
fn permanent_children_are_restarted_always_and_temporary_ones_never() {
    runtime().block_on(async {
        let (always, never) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (count, count_never) = (always.clone(), never.clone());
        let supervisor = Supervisor::new(Strategy::OneForOne)
            .permanent("always", move || {
                count.fetch_add(1, Relaxed);
                async {
                    sleep(SECOND).await;
                    Ok(())
                }
            })
            .temporary("never", move || {
                count_never.fetch_add(1, Relaxed);
                async { Err("nobody minds") }
            });
        let gave_up = supervisor.limit(5, 100 * SECOND).run().await.unwrap_err();
        assert!(gave_up.cause.is_none());
        assert_eq!((always.load(Relaxed), never.load(Relaxed)), (6, 1));
    });
}

#[test]
fn supervisors_nest() {
    runtime().block_on(async {
        let log = Log::default();
        let outer = Supervisor::new(Strategy::OneForOne).limit(1, 100 * SECOND);
        let of_inner = log.clone();
        let outer = outer.child("inner", move || {
            let log = of_inner.clone();
            let inner = Supervisor::new(Strategy::OneForOne).limit(1, 100 * SECOND);
            let inner = flaky(steady(inner, &log, "steady"), &log, "flaky", usize::MAX);
            async move { inner.run().await.map_err(|_| "the inner one gave up") }
        });
        let gave_up = outer.run().await.unwrap_err();
        assert!(matches!(
            gave_up.cause,
            Some(ChildError::Failed("the inner one gave up"))
        ));
        let log = log.take();
        let count = |what: &str| log.iter().filter(|line| *line == what).count();
        assert_eq!((count("flaky begins"), count("steady begins")), (4, 2));
        assert_eq!(count("steady ends"), 2);
    });
}

#[test]
fn children_have_names_and_know_their_parent() {
    runtime().block_on(async {
        let me = task::id();
        let supervisor =
            Supervisor::<()>::new(Strategy::OneForOne).child("child", move || async move {
                assert_eq!(task::parent(), Some(me));
                assert_eq!(task::current().name(), Some("child"));
                Ok(())
            });
        supervisor.run().await.unwrap();
    });
}

#[test]
fn many_failures_on_many_cores_are_all_seen() {
    let runtime = Runtime::builder().workers(4).build().unwrap();
    for strategy in [
        Strategy::OneForOne,
        Strategy::OneForAll,
        Strategy::RestForOne,
    ] {
        let done = Arc::new(AtomicUsize::new(0));
        let mut supervisor = Supervisor::new(strategy).limit(usize::MAX, SECOND);
        for number in 0..20 {
            let (tries, done) = (Arc::new(AtomicUsize::new(0)), done.clone());
            supervisor = supervisor.child("child", move || {
                let (tries, done) = (tries.clone(), done.clone());
                async move {
                    yield_now().await;
                    if tries.fetch_add(1, Relaxed) < number {
                        return Err(());
                    }
                    done.fetch_add(1, Relaxed);
                    Ok(())
                }
            });
        }
        runtime.block_on(supervisor.run()).unwrap();
        assert_eq!(done.load(Relaxed), 20);
    }
}
