//! Finalizers: what a task does on its way out.

use executor::{
    Runtime,
    task::{self, spawn, yield_now},
    time::{Duration, sleep},
};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::*},
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
                task::on_exit(async move {
                    yield_now().await;
                    sleep(Duration::from_millis(1)).await;
                    has_run.store(true, Relaxed);
                });
                // Queued while it runs, and then it ends.
                task::current().wake();
                if cancel {
                    task::current().cancel();
                    core::future::pending::<()>().await;
                }
            });
            assert_eq!(handle.await.is_err(), cancel);
            assert!(seen.load(Relaxed));
        }
    });
}
