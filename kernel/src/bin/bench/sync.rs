//! What the things that tasks wait on cost when there is nothing to wait for. In a task, on one core.

use crate::{cycles_of_future, report_each};
use alloc::sync::Arc;
use core::hint::black_box;
use executor::{
    Runtime, select,
    sync::{
        Mutex, Notify, RwLock, Semaphore,
        channel::{Receiver, Sender, bounded, unbounded},
        oneshot,
    },
    task::spawn,
};

const TURNS: u64 = 1000;

pub fn run() {
    let runtime = Runtime::builder().workers(1).build();
    let runtime = runtime.expect("one core is there");
    runtime.block_on(async {
        // As a task like any other; what `block_on` runs itself is pinned.
        assert!(spawn(locks()).await.is_ok());
        assert!(spawn(channels()).await.is_ok());
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

async fn channels() {
    send_and_receive("channel_send_recv", black_box(bounded(128))).await;
    send_and_receive("unbounded_send_recv", black_box(unbounded())).await;
    pass("channel_task_to_task", black_box(bounded(128))).await;
    pass("unbounded_task_to_task", black_box(unbounded())).await;
    choose().await;
    measure("oneshot_send_recv", async || {
        for number in 0..TURNS {
            let (sender, receiver) = oneshot::channel();
            assert!(sender.send(number).is_ok());
            assert!(receiver.await.is_ok());
        }
    })
    .await;
}

async fn send_and_receive(name: &str, (sender, receiver): (Sender<u64>, Receiver<u64>)) {
    // What is made once is made before anything is counted.
    assert!(sender.send(0).await.is_ok());
    assert!(receiver.recv().await.is_ok());
    measure(name, async || {
        for number in 0..TURNS {
            assert!(sender.send(number).await.is_ok());
            assert!(receiver.recv().await.is_ok());
        }
    })
    .await;
}

/// One task sends, another one receives. So many that what it takes to start and end them is little of it.
async fn pass(name: &str, (sender, receiver): (Sender<u64>, Receiver<u64>)) {
    const MESSAGES: u64 = 20 * TURNS;
    let begin = hal::clock::cycles();
    let from = spawn(async move {
        for number in 0..MESSAGES {
            assert!(sender.send(number).await.is_ok());
        }
    });
    let to = spawn(async move { while receiver.recv().await.is_ok() {} });
    assert!(from.await.is_ok() && to.await.is_ok());
    report_each(name, hal::clock::cycles() - begin, MESSAGES);
}

/// Of two receivers that both have something.
async fn choose() {
    let ((to_left, left), (to_right, right)) = black_box((bounded(1024), bounded(1024)));
    for number in 0..TURNS {
        assert!(to_left.send(number).await.is_ok() && to_right.send(number).await.is_ok());
    }
    measure("select_of_two_ready", async || {
        for _ in 0..TURNS {
            let received = select! {
                received = left.recv() => received,
                received = right.recv() => received,
            };
            assert!(received.is_ok());
        }
    })
    .await;
}
