//! What the things that tasks wait on cost when there is nothing to wait for. In a task, on one core.

use crate::{cycles_of_future, report_each};
use alloc::sync::Arc;
use core::hint::black_box;
use executor::{
    Runtime,
    sync::{Mutex, Notify, RwLock, Semaphore},
    task::spawn,
};

const TURNS: u64 = 1000;

pub fn run() {
    let runtime = Runtime::builder().workers(1).build();
    let runtime = runtime.expect("one core is there");
    runtime.block_on(async {
        // As a task like any other; what `block_on` runs itself is pinned.
        assert!(spawn(locks()).await.is_ok());
    });
}

/// Measures one turn of something that awaits.
async fn measure(name: &str, turns: impl AsyncFnOnce()) {
    let empty = cycles_of_future(async || {}).await;
    report_each(name, cycles_of_future(turns).await - empty, TURNS);
}

async fn locks() {
    let mutex = black_box(Arc::new(Mutex::new(0u64)));
    measure("mutex_lock_unlock", async || {
        for _ in 0..TURNS {
            *mutex.lock().await += 1;
        }
    })
    .await;
    let lock = black_box(Arc::new(RwLock::new(0u64)));
    measure("rwlock_read_unlock", async || {
        for _ in 0..TURNS {
            black_box(*lock.read().await);
        }
    })
    .await;
    measure("rwlock_write_unlock", async || {
        for _ in 0..TURNS {
            *lock.write().await += 1;
        }
    })
    .await;
    let semaphore = black_box(Arc::new(Semaphore::new(3)));
    measure("semaphore_acquire_release", async || {
        for _ in 0..TURNS {
            drop(semaphore.acquire().await);
        }
    })
    .await;
    let notify = black_box(Arc::new(Notify::new()));
    measure("notify_one_notified", async || {
        for _ in 0..TURNS {
            notify.notify_one();
            notify.notified().await;
        }
    })
    .await;
}
