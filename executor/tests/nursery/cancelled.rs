//! Cancelling, from within and from above.

use super::*;
use executor::sync::WakerSlot;

#[test]
fn the_first_error_cancels_the_rest_and_all_have_ended() {
    for workers in [1, 3] {
        runtime(workers).block_on(async {
            let dropped = AtomicUsize::new(0);
            let result = nursery(|scope| {
                for number in 0..20 {
                    let writes = Writes(&dropped);
                    scope.spawn(async move {
                        let _writes = writes;
                        yields(number).await;
                        if number == 3 {
                            return Err(number);
                        }
                        pending::<()>().await;
                        Ok(())
                    });
                }
            });
            assert!(matches!(result, Err(ChildError::Failed(3))), "{result:?}");
            assert_eq!(dropped.load(Relaxed), 20);
        });
    }
}

#[test]
fn cancel_all_ends_all_children_and_those_to_come() {
    for workers in [1, 3] {
        runtime(workers).block_on(async {
            let (begun, dropped) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let result = nursery(|scope| {
                for _ in 0..50 {
                    let writes = Writes(&dropped);
                    scope.spawn(async {
                        let _writes = writes;
                        begun.fetch_add(1, Relaxed);
                        pending::<Result<(), ()>>().await
                    });
                }
                wait(yields(20));
                assert!(!scope.is_cancelled());
                scope.cancel_all();
                assert!(scope.is_cancelled());
                let late = scope.spawn(async { unreachable!("it was cancelled before") });
                wait(yields(5));
                assert!(late.is_cancelled());
            });
            assert!(is_cancelled(&result.unwrap_err()));
            assert_eq!(dropped.load(Relaxed), 50);
            assert!(begun.load(Relaxed) <= 50);
        });
    }
}

#[test]
fn when_the_caller_is_cancelled_its_children_are_and_it_waits_for_them() {
    for workers in [1, 3] {
        runtime(workers).block_on(async {
            for _ in 0..20 {
                let begun = Arc::new(AtomicUsize::new(0));
                let reached = Arc::new(AtomicBool::new(false));
                let caller = {
                    let (begun, reached) = (begun.clone(), reached.clone());
                    spawn(async move {
                        let dropped = AtomicUsize::new(0);
                        let result = nursery(|scope| {
                            for _ in 0..5 {
                                let writes = Writes(&dropped);
                                scope.spawn(async {
                                    let _writes = writes;
                                    begun.fetch_add(1, Relaxed);
                                    pending::<Result<(), ()>>().await
                                });
                            }
                        });
                        assert!(is_cancelled(&result.unwrap_err()));
                        assert_eq!(dropped.load(Relaxed), 5);
                        reached.store(true, Relaxed);
                        yield_now().await;
                        unreachable!("its next await is its end");
                    })
                };
                while begun.load(Relaxed) < 5 {
                    sleep(Duration::from_micros(50)).await;
                }
                assert!(caller.cancel());
                assert!(caller.await.unwrap_err().is_cancelled());
                assert!(reached.load(Relaxed));
            }
        });
    }
}

#[test]
fn cancelling_goes_down_through_all_nurseries_also_while_their_functions_wait() {
    #[derive(Default)]
    struct Gone(AtomicBool, WakerSlot);
    struct Tells<'a>(&'a Gone, &'a AtomicUsize);
    impl Drop for Tells<'_> {
        fn drop(&mut self) {
            self.1.fetch_add(1, Relaxed);
            self.0.0.store(true, Release);
            self.0.1.wake();
        }
    }
    fn depth(left: usize, ends: &AtomicUsize, begun: &AtomicUsize) {
        let gone = Gone::default();
        let result = nursery(|scope| {
            let tells = Tells(&gone, ends);
            scope.spawn(async move {
                let _tells = tells;
                begun.fetch_add(1, Relaxed);
                if left > 0 {
                    depth(left - 1, ends, begun);
                }
                pending::<Result<(), ()>>().await
            });
            // Not for the scope, but for what ends with its child.
            wait(poll_fn(|context| {
                gone.1.register(context.waker());
                match gone.0.load(Acquire) {
                    true => Poll::Ready(()),
                    false => Poll::Pending,
                }
            }));
        });
        assert!(is_cancelled(&result.unwrap_err()));
    }
    runtime(2).block_on(async {
        let (ends, begun) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let caller = {
            let (ends, begun) = (ends.clone(), begun.clone());
            spawn(async move { depth(5, &ends, &begun) })
        };
        while begun.load(Relaxed) < 6 {
            sleep(Duration::from_micros(50)).await;
        }
        caller.cancel();
        // It had no await to be cancelled at: it came to its end.
        caller.await.unwrap();
        assert_eq!(ends.load(Relaxed), 6);
    });
}

#[test]
fn a_cancel_that_races_with_the_nursery_is_never_lost() {
    let runtime = runtime(3);
    runtime.block_on(async {
        for _ in 0..1000 {
            let caller = spawn(async {
                let local = AtomicUsize::new(0);
                let result = nursery(|scope| {
                    scope.spawn(async {
                        local.fetch_add(1, Relaxed);
                        pending::<Result<(), ()>>().await
                    });
                });
                result.is_err()
            });
            let other = caller.task();
            let canceller = spawn(async move { other.cancel() });
            // Cancelled before it ran, or within.
            assert!(caller.await.unwrap_or(true));
            canceller.await.unwrap();
        }
    });
}

#[test]
fn a_runtime_that_is_shut_down_waits_for_its_nurseries() {
    for round in 0..20 {
        let runtime = runtime(1 + round % 3);
        let ended = Arc::new(AtomicUsize::new(0));
        for _ in 0..10 {
            let ended = ended.clone();
            let caller = runtime.spawn(async move {
                let dropped = AtomicUsize::new(0);
                let result = nursery(|scope| {
                    for _ in 0..5 {
                        let writes = Writes(&dropped);
                        scope.spawn(async move {
                            let _writes = writes;
                            let _ = try_wait(pending::<()>());
                            pending::<Result<(), ()>>().await
                        });
                    }
                });
                assert!(result.is_err());
                assert_eq!(dropped.load(Relaxed), 5);
                ended.fetch_add(1, Relaxed);
            });
            caller.detach();
        }
        // Some wait by now, some have not begun.
        let begun = runtime.block_on(async {
            yields(3).await;
            runtime.stats().total.suspensions > 0
        });
        runtime.shutdown_now();
        assert!(!begun || ended.load(Relaxed) > 0);
    }
}

#[test]
fn a_nursery_in_a_destructor_of_a_cancelled_task_is_cancelled_and_waited_for() {
    struct Cleans(Arc<AtomicUsize>);
    impl Drop for Cleans {
        fn drop(&mut self) {
            let count = &self.0;
            let result = nursery(|scope| {
                let writes = Writes(count);
                scope.spawn(async move {
                    let _writes = writes;
                    pending::<Result<(), ()>>().await
                });
            });
            assert!(is_cancelled(&result.unwrap_err()));
        }
    }
    let count = Arc::new(AtomicUsize::new(0));
    runtime(1).block_on(async {
        let cleans = Cleans(count.clone());
        let task = spawn(async move {
            let _cleans = cleans;
            pending::<()>().await;
        });
        yield_now().await;
        task.cancel();
        assert!(task.await.unwrap_err().is_cancelled());
    });
    assert_eq!(count.load(Relaxed), 1);
}
