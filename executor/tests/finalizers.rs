//! Finalizers: what a task does on its way out.
#![cfg(not(loom))]

use executor::{
    Runtime,
    task::{self, TaskError, on_exit, on_exit_local, spawn, yield_now},
    time::{Duration, sleep},
};
use std::{
    cell::RefCell,
    future::pending,
    rc::Rc,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::*},
    },
};

fn runtime(cores: usize) -> Runtime {
    Runtime::builder().workers(cores).build().unwrap()
}

#[test]
fn finalizers_of_a_task_that_was_woken_in_its_last_poll_may_wait() {
    let runtime = runtime(1);
    runtime.block_on(async {
        for cancel in [false, true] {
            let has_run = Arc::new(AtomicBool::new(false));
            let seen = has_run.clone();
            let handle = spawn(async move {
                on_exit(async move {
                    yield_now().await;
                    sleep(Duration::from_millis(1)).await;
                    has_run.store(true, Relaxed);
                });
                // Queued while it runs, and then it ends.
                task::current().wake();
                if cancel {
                    task::current().cancel();
                    pending::<()>().await;
                }
            });
            assert_eq!(handle.await.is_err(), cancel);
            assert!(seen.load(Relaxed));
        }
    });
}

/// What happened, in order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<&'static str>>>);

impl Log {
    fn write(&self, what: &'static str) {
        self.0.lock().unwrap().push(what);
    }

    fn read(&self) -> Vec<&'static str> {
        self.0.lock().unwrap().clone()
    }
}

#[test]
fn they_run_in_reverse_when_the_task_is_done_and_when_it_is_cancelled() {
    let runtime = runtime(1);
    runtime.block_on(async {
        for cancel in [false, true] {
            let log = Log::default();
            let seen = log.clone();
            let handle = spawn(async move {
                for what in ["first", "second", "third"] {
                    let log = log.clone();
                    on_exit(async move {
                        yield_now().await;
                        log.write(what);
                    });
                }
                log.write("registered");
                if cancel {
                    pending::<()>().await;
                }
            });
            yield_now().await;
            if cancel {
                assert!(handle.cancel());
            }
            assert_eq!(handle.await.is_err(), cancel);
            assert_eq!(seen.read(), ["registered", "third", "second", "first"]);
        }
    });
}

#[test]
fn they_cannot_be_cancelled_and_joiners_wait_for_them() {
    let runtime = runtime(2);
    runtime.block_on(async {
        let is_over = Arc::new(AtomicBool::new(false));
        let seen = is_over.clone();
        let handle = spawn(async move {
            on_exit(async move {
                for _ in 0..20 {
                    assert!(task::is_cancelled());
                    // Passes: it was cancelled, but this is what is done on the way out.
                    task::check_cancelled().await;
                    sleep(Duration::from_micros(200)).await;
                }
                is_over.store(true, Relaxed);
            });
            pending::<()>().await;
        });
        sleep(Duration::from_millis(1)).await;
        for _ in 0..10 {
            assert!(handle.cancel(), "it has not ended as long as they run");
            assert!(!handle.is_finished());
            sleep(Duration::from_micros(100)).await;
        }
        assert!(matches!(handle.await, Err(TaskError::Cancelled)));
        assert!(seen.load(Relaxed));
    });
}

#[test]
fn one_that_registers_another_ends_before_it() {
    let runtime = runtime(1);
    let log = Log::default();
    runtime.block_on(async {
        let log = log.clone();
        spawn(async move {
            let (oldest, older) = (log.clone(), log.clone());
            on_exit(async move { oldest.write("oldest") });
            on_exit(async move {
                let younger = older.clone();
                on_exit(async move { younger.write("younger") });
                yield_now().await;
                older.write("older");
            });
        })
        .await
        .unwrap();
    });
    assert_eq!(log.read(), ["older", "younger", "oldest"]);
}

#[test]
fn a_task_that_never_ran_has_only_those_of_its_destructors() {
    struct Last(Log);
    impl Drop for Last {
        fn drop(&mut self) {
            let log = self.0.clone();
            log.write("dropped");
            on_exit(async move {
                yield_now().await;
                log.write("finalized");
            });
        }
    }
    let runtime = runtime(1);
    let log = Log::default();
    runtime.block_on(async {
        let last = Last(log.clone());
        let handle = spawn(async move {
            last.0.write("ran");
            let unreached = last.0.clone();
            on_exit(async move { unreached.write("registered") });
        });
        handle.cancel();
        assert!(handle.await.is_err());
    });
    assert_eq!(log.read(), ["dropped", "finalized"]);
}

#[test]
fn a_panic_in_one_leaves_the_others() {
    let runtime = runtime(1);
    let log = Log::default();
    let outcome = runtime.block_on(async {
        let log = log.clone();
        spawn(async move {
            let other = log.clone();
            on_exit(async move { other.write("other") });
            on_exit(async { panic!("on purpose") });
            7
        })
        .await
    });
    assert_eq!(outcome.unwrap(), 7, "what the task returned stays");
    assert_eq!(log.read(), ["other"]);
}

#[test]
fn those_of_a_task_that_panicked_run_too() {
    let runtime = runtime(1);
    let log = Log::default();
    runtime.block_on(async {
        let log = log.clone();
        let handle = spawn(async move {
            on_exit(async move { log.write("finalized") });
            panic!("on purpose");
        });
        assert!(matches!(handle.await, Err(TaskError::Panicked(_))));
    });
    assert_eq!(log.read(), ["finalized"]);
}

#[test]
fn those_of_all_tasks_run_when_the_runtime_is_shut_down_now() {
    for cores in [1, 3] {
        let runtime = runtime(cores);
        let (begun, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        for _ in 0..20 {
            let (begun, ended) = (begun.clone(), ended.clone());
            runtime
                .spawn(async move {
                    on_exit(async move {
                        sleep(Duration::from_millis(1)).await;
                        yield_now().await;
                        ended.fetch_add(1, Relaxed);
                    });
                    begun.fetch_add(1, Relaxed);
                    pending::<()>().await;
                })
                .detach();
        }
        runtime.block_on(async {
            while begun.load(Relaxed) < 20 {
                yield_now().await;
            }
        });
        runtime.shutdown_now();
        assert_eq!(ended.load(Relaxed), 20);
        assert_eq!(Arc::strong_count(&ended), 1);
    }
}

#[test]
fn local_tasks_have_some_that_are_not_send() {
    let runtime = runtime(2);
    runtime.block_on(async {
        let log = Rc::new(RefCell::new(Vec::new()));
        let of_task = log.clone();
        task::spawn_local(async move {
            let last = of_task.clone();
            on_exit_local(async move {
                yield_now().await;
                last.borrow_mut().push("last");
            });
            of_task.borrow_mut().push("task");
        })
        .await
        .unwrap();
        assert_eq!(*log.borrow(), ["task", "last"]);
        let error = spawn(async { on_exit_local(async {}) }).await.unwrap_err();
        assert!(error.to_string().contains("use `on_exit`"), "{error}");
    });
}

#[test]
fn it_is_too_late_for_one_when_the_outcome_is_dropped() {
    struct Outcome(Rc<Mutex<Vec<&'static str>>>);
    impl Drop for Outcome {
        fn drop(&mut self) {
            self.0.lock().unwrap().push("dropped");
            // Else this would be dropped by whoever is the last to know of the task, on any core.
            let log = self.0.clone();
            on_exit_local(async move { log.lock().unwrap().push("run") });
        }
    }
    let runtime = runtime(1);
    runtime.block_on(async {
        let log = Rc::new(Mutex::new(Vec::new()));
        let outcome = Outcome(log.clone());
        let (give, got) = executor::sync::oneshot::channel();
        task::spawn_local(async move {
            assert!(give.send(task::current()).is_ok());
            outcome
        })
        .detach();
        let task = got.await.unwrap();
        while !task.is_finished() {
            yield_now().await;
        }
        // What was to run is gone, though somebody still knows of the task.
        assert_eq!(Rc::strong_count(&log), 1);
        assert_eq!(*log.lock().unwrap(), ["dropped"]);
    });
}
