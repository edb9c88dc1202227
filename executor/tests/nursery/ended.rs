//! When a child has ended, and that nothing it borrows is used after.

use super::*;
use std::panic::resume_unwind;

#[test]
fn a_child_that_panics_is_an_error_and_cancels_the_rest() {
    runtime(2).block_on(async {
        let dropped = AtomicUsize::new(0);
        let result = nursery(|scope| {
            let writes = Writes(&dropped);
            scope.spawn(async move {
                let _writes = writes;
                pending::<Result<(), ()>>().await
            });
            let writes = Writes(&dropped);
            scope.spawn(async move {
                let _writes = writes;
                yield_now().await;
                panic!("on purpose")
            });
        });
        match result {
            Err(ChildError::Task(TaskError::Panicked(panic))) => {
                assert_eq!(panic.message(), "on purpose");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(dropped.load(Relaxed), 2);
    });
}

#[test]
fn a_panic_of_the_function_goes_on_when_all_children_have_ended() {
    for workers in [1, 3] {
        runtime(workers).block_on(async {
            let dropped = AtomicUsize::new(0);
            let panic = catch_unwind(AssertUnwindSafe(|| {
                nursery(|scope| {
                    for _ in 0..10 {
                        let writes = Writes(&dropped);
                        scope.spawn(async move {
                            let _writes = writes;
                            pending::<Result<(), ()>>().await
                        });
                    }
                    wait(yields(3));
                    panic!("on purpose");
                })
            }));
            let message = panic.unwrap_err();
            assert_eq!(message.downcast_ref(), Some(&"on purpose"));
            assert_eq!(dropped.load(Relaxed), 10);
        });
    }
}

#[test]
fn a_child_has_ended_when_its_future_is_dropped_and_its_finalizers_have_run() {
    static FINALIZED: AtomicUsize = AtomicUsize::new(0);
    for workers in [1, 3] {
        runtime(workers).block_on(async {
            FINALIZED.store(0, Relaxed);
            let dropped = AtomicUsize::new(0);
            let result = nursery(|scope| {
                for number in 0..10 {
                    let writes = Writes(&dropped);
                    scope.spawn(async move {
                        on_exit(async {
                            sleep(Duration::from_millis(1)).await;
                            FINALIZED.fetch_add(1, Relaxed);
                        });
                        // Captured, held in the future, and dropped with it.
                        let _writes = &writes;
                        yields(number).await;
                        Ok::<_, ()>(())
                    });
                }
            });
            assert_eq!(result.unwrap().len(), 10);
            assert_eq!(dropped.load(Relaxed), 10);
            assert_eq!(FINALIZED.load(Relaxed), 10);
        });
    }
}

#[test]
fn results_that_nobody_gets_are_dropped_before_it_returns() {
    runtime(3).block_on(async {
        for _ in 0..20 {
            let dropped = AtomicUsize::new(0);
            let result = nursery(|scope| {
                for number in 0..10 {
                    let writes = Writes(&dropped);
                    scope.spawn(async move {
                        yields(number).await;
                        if number < 9 { Ok(writes) } else { Err(()) }
                    });
                }
            });
            assert!(matches!(result, Err(ChildError::Failed(()))));
            drop(result);
            assert_eq!(dropped.load(Relaxed), 10);
        }
    });
}

#[test]
fn tasks_and_wakers_that_outlive_the_nursery_see_nothing_of_it() {
    runtime(3).block_on(async {
        for _ in 0..100 {
            let wakers = Mutex::new(Vec::new());
            let mut tasks = Vec::new();
            nursery(|scope| {
                let mut local = [7_u8; 64];
                for byte in 0..8 {
                    local[byte] = byte as u8;
                    let wakers = &wakers;
                    let task = scope.spawn(async move {
                        let mut polls = 0;
                        poll_fn(|context| {
                            wakers.lock().unwrap().push(context.waker().clone());
                            polls += 1;
                            context.waker().wake_by_ref();
                            match polls {
                                1..3 => Poll::Pending,
                                _ => Poll::Ready(()),
                            }
                        })
                        .await;
                        Ok::<_, ()>(local.iter().map(|&byte| u32::from(byte)).sum::<u32>())
                    });
                    tasks.push(task.clone());
                    // Forgotten: it keeps the memory, and that is all.
                    std::mem::forget(task);
                }
            })
            .unwrap();
            for waker in wakers.into_inner().unwrap() {
                waker.wake();
            }
            assert!(
                tasks
                    .iter()
                    .all(|task| task.is_finished() && !task.cancel())
            );
        }
    });
}

/// What is borrowed is spoilt when it ends.
#[test]
fn nothing_borrowed_is_touched_after_the_end_however_it_comes() {
    struct Poisoned(Vec<AtomicUsize>);
    const ALIVE: usize = 0x5eed;
    impl Poisoned {
        fn check(&self, index: usize) {
            assert_eq!(self.0[index].load(Relaxed), ALIVE, "used after its end");
        }
    }
    impl Drop for Poisoned {
        fn drop(&mut self) {
            self.0.iter().for_each(|word| word.store(0, Relaxed));
        }
    }
    struct Checks<'a>(&'a Poisoned, usize);
    impl Drop for Checks<'_> {
        fn drop(&mut self) {
            self.0.check(self.1);
        }
    }
    runtime(4).block_on(async {
        for round in 0..400 {
            let callers: Vec<_> = (0..4)
                .map(|caller| {
                    spawn(async move {
                        let words = || AtomicUsize::new(ALIVE);
                        let data = Poisoned(std::iter::repeat_with(words).take(16).collect());
                        let result = nursery(|scope| {
                            for index in 0..16 {
                                let checks = Checks(&data, index);
                                scope.spawn(async move {
                                    yields((index * 7 + round) % 5).await;
                                    checks.0.check(index);
                                    match (round + caller) % 4 {
                                        0 if index == 3 => Err(checks),
                                        1 if index == 5 => resume_unwind(Box::new("quietly")),
                                        2 if index == 6 => {
                                            scope.cancel_all();
                                            Ok(checks)
                                        }
                                        _ => Ok(checks),
                                    }
                                });
                            }
                        });
                        drop(result);
                        drop(data);
                    })
                })
                .collect();
            if round % 5 == 4 {
                callers[round % 4].cancel();
            }
            for caller in callers {
                assert!(!matches!(caller.await, Err(TaskError::Panicked(_))));
            }
        }
    });
}
