//! Task-locals: values that follow a task.
#![cfg(not(loom))]

use executor::{
    Runtime, block_on_simple, noop_waker,
    task::{self, spawn, yield_now},
    task_local,
};
use std::{
    cell::Cell,
    future::{Future, pending, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

task_local! {
    static NUMBER: u32;
    static NAME: String;
    static COUNT: Cell<u32>
}

fn runtime(cores: usize) -> Runtime {
    Runtime::builder().workers(cores).build().unwrap()
}

#[test]
fn a_value_is_seen_after_each_await_and_not_outside() {
    let runtime = runtime(4);
    runtime.block_on(async {
        assert!(NUMBER.try_with(|_| ()).is_err());
        let handles: Vec<_> = (0..200)
            .map(|number| {
                let inside = async move {
                    for _ in 0..20 {
                        assert_eq!(NUMBER.get(), number);
                        yield_now().await;
                    }
                    NAME.with(String::len)
                };
                spawn(NUMBER.scope(number, NAME.scope("name".into(), inside)))
            })
            .collect();
        for handle in handles {
            assert_eq!(handle.await.unwrap(), 4);
        }
        assert!(NUMBER.try_with(|_| ()).is_err());
    });
}

#[test]
fn an_inner_scope_hides_the_outer() {
    let runtime = runtime(1);
    runtime.block_on(NUMBER.scope(1, async {
        NUMBER
            .scope(2, async {
                yield_now().await;
                assert_eq!(NUMBER.get(), 2);
                NUMBER.sync_scope(3, || assert_eq!(NUMBER.get(), 3));
                assert_eq!(NUMBER.get(), 2);
            })
            .await;
        assert_eq!(NUMBER.get(), 1);
    }));
}

#[test]
fn two_scopes_polled_in_turn_do_not_mix() {
    let turns = async || {
        for _ in 0..3 {
            yield_now().await;
            COUNT.with(|count| count.set(count.get() + 1));
        }
        COUNT.with(Cell::get)
    };
    let runtime = runtime(1);
    let counts = runtime.block_on(async {
        let mut one = pin!(COUNT.scope(Cell::new(10), turns()));
        let mut other = pin!(COUNT.scope(Cell::new(20), turns()));
        let mut counts = [0; 2];
        poll_fn(|context| {
            if let Poll::Ready(count) = one.as_mut().poll(context) {
                counts[0] = count;
            }
            assert!(COUNT.try_with(|_| ()).is_err());
            other.as_mut().poll(context).map(|count| counts[1] = count)
        })
        .await;
        counts
    });
    assert_eq!(counts, [13, 23]);
}

#[test]
fn spawned_tasks_do_not_inherit() {
    let runtime = runtime(1);
    let is_seen = runtime.block_on(NUMBER.scope(1, async {
        spawn(async { NUMBER.try_with(|_| ()).is_ok() })
            .await
            .unwrap()
    }));
    assert!(!is_seen);
    // Nor from whoever serves the runtime; but what runs without one is inside.
    NUMBER.sync_scope(1, || {
        let seen = || async { NUMBER.try_with(|number| *number).ok() };
        assert_eq!(runtime.block_on(seen()), None);
        assert_eq!(block_on_simple(seen()), Some(1));
        assert_eq!(NUMBER.get(), 1);
    });
}

#[test]
fn a_panic_leaves_the_scope() {
    NUMBER.sync_scope(1, || {
        let inside = || NUMBER.sync_scope(2, || panic!("on purpose"));
        assert!(catch_unwind(inside).is_err());
        assert_eq!(NUMBER.get(), 1);
        let mut scope = Box::pin(NUMBER.scope(3, async { panic!("on purpose") }));
        let mut context = Context::from_waker(noop_waker());
        let poll = AssertUnwindSafe(|| scope.as_mut().poll(&mut context));
        assert!(catch_unwind(poll).is_err());
        assert_eq!(NUMBER.get(), 1);
    });
    assert!(NUMBER.try_with(|_| ()).is_err());
}

#[test]
fn destructors_of_a_cancelled_task_see_its_values() {
    struct Look(Arc<Mutex<Vec<u32>>>);
    impl Drop for Look {
        fn drop(&mut self) {
            self.0.lock().unwrap().push(NUMBER.get());
        }
    }
    let runtime = runtime(1);
    let seen = Arc::new(Mutex::new(Vec::new()));
    runtime.block_on(async {
        for polled in [false, true] {
            let look = Look(seen.clone());
            let inside = async move {
                let _look = look;
                pending::<()>().await;
            };
            let handle = spawn(NUMBER.scope(u32::from(polled), inside));
            if polled {
                yield_now().await;
            }
            handle.cancel();
            assert!(handle.await.is_err());
        }
    });
    assert_eq!(*seen.lock().unwrap(), [0, 1]);
}

#[test]
fn a_missing_value_is_named() {
    let error = NAME.try_with(|_| ()).unwrap_err().to_string();
    assert!(error.contains("`NAME.scope(..)`"), "{error}");
    assert!(catch_unwind(|| NUMBER.get()).is_err());
}

#[test]
fn keys_of_equal_names_are_different() {
    mod other {
        executor::task_local! { pub static NUMBER: u32; }
    }
    NUMBER.sync_scope(1, || {
        assert!(other::NUMBER.try_with(|_| ()).is_err());
        other::NUMBER.sync_scope(2, || {
            assert_eq!((NUMBER.get(), other::NUMBER.get()), (1, 2))
        });
    });
}

#[test]
fn finalizers_run_outside_the_scopes() {
    let runtime = runtime(1);
    let is_seen = Arc::new(Mutex::new(None));
    runtime.block_on(async {
        let is_seen = is_seen.clone();
        spawn(NUMBER.scope(1, async move {
            task::on_exit(async move {
                *is_seen.lock().unwrap() = Some(NUMBER.try_with(|_| ()).is_ok());
            });
        }))
        .await
        .unwrap();
    });
    assert_eq!(*is_seen.lock().unwrap(), Some(false));
}
