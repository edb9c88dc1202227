//! Locks and permits: never more inside than may be, and everyone gets in.

use super::{Player, contended, crowd, crowd_size, join, poll_once, spawn_crowd};
use alloc::{sync::Arc, vec::Vec};
use core::{
    pin::pin,
    sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed},
};
use executor::{
    sync::{Mutex, RwLock, Semaphore},
    task::yield_now,
};
use testing::kernel_test;

async fn add_under_a_mutex(turns: usize) {
    let sum = Arc::new(Mutex::new(0));
    let turns = crowd(turns, sum.clone(), |sum, mut player| async move {
        for _ in 0..player.turns {
            let mut sum = player.insist(|| sum.lock()).await;
            let before = *sum;
            if player.one_in(4) {
                yield_now().await;
            }
            *sum = before + 1;
        }
    })
    .await;
    assert_eq!(*sum.lock().await, turns);
}

contended!(
    under_a_mutex_nothing_is_added_twice,
    under_a_mutex_nothing_is_added_twice_in_a_million,
    add_under_a_mutex
);

/// Each player locks as often as it gets the lock, until all together have done so `turns` times. From the
/// first time on all the others wait; how often each has had it is the same for all, within a factor of two.
async fn share_a_mutex(turns: usize) {
    struct Shared {
        left: Mutex<usize>,
        waiting: AtomicUsize,
        locked: Vec<AtomicUsize>,
    }
    async fn race(shared: Arc<Shared>, player: Player) {
        let mut lock = pin!(shared.left.lock());
        assert!(poll_once(lock.as_mut()).await.is_pending());
        shared.waiting.fetch_add(1, Relaxed);
        let mut left = lock.await;
        while *left != 0 {
            *left -= 1;
            shared.locked[player.number].fetch_add(1, Relaxed);
            drop(left);
            left = shared.left.lock().await;
        }
    }
    let shared = Arc::new(Shared {
        left: Mutex::new(turns),
        waiting: AtomicUsize::new(0),
        locked: (0..crowd_size()).map(|_| AtomicUsize::new(0)).collect(),
    });
    let start = shared.left.lock().await;
    let players = spawn_crowd(turns, shared.clone(), race);
    while shared.waiting.load(Relaxed) != crowd_size() {
        yield_now().await;
    }
    drop(start);
    join(players).await;
    let locked = shared.locked.iter().map(|locked| locked.load(Relaxed));
    let locked: Vec<_> = locked.collect();
    assert_eq!(locked.iter().sum::<usize>(), turns);
    let (least, most) = (locked.iter().min(), locked.iter().max());
    let (least, most) = least.zip(most).expect("there are some");
    assert!(
        *most <= 2 * least + 1,
        "{least} to {most} times each: {locked:?}"
    );
}

contended!(
    a_mutex_goes_to_equal_tasks_equally_often,
    a_mutex_goes_to_equal_tasks_equally_often_in_a_million,
    share_a_mutex
);

async fn share_permits(turns: usize) {
    const PERMITS: u32 = 5;
    struct Shared {
        semaphore: Semaphore,
        taken: AtomicU32,
    }
    let shared = Arc::new(Shared {
        semaphore: Semaphore::new(PERMITS as usize),
        taken: AtomicU32::new(0),
    });
    crowd(turns, shared.clone(), |shared, mut player| async move {
        for _ in 0..player.turns {
            let count = 1 + player.below(u64::from(PERMITS)) as u32;
            let acquire = || shared.semaphore.acquire_many(count);
            let permits = player.insist(acquire).await.expect("nobody closes it");
            let others = shared.taken.fetch_add(count, Relaxed);
            assert!(
                others + count <= PERMITS,
                "{others} and {count} permits are out"
            );
            if player.one_in(4) {
                yield_now().await;
            }
            shared.taken.fetch_sub(count, Relaxed);
            drop(permits);
        }
    })
    .await;
    assert_eq!(shared.semaphore.available_permits(), PERMITS as usize);
}

contended!(
    of_a_semaphore_no_permit_is_had_twice_or_lost,
    of_a_semaphore_no_permit_is_had_twice_or_lost_in_a_million,
    share_permits
);

async fn read_and_write(turns: usize) {
    struct Shared {
        /// Always the same number twice, but for who writes.
        pair: RwLock<[usize; 2]>,
        writes: AtomicUsize,
    }
    async fn write(shared: &Shared, player: &mut Player) {
        let mut pair = player.insist(|| shared.pair.write()).await;
        pair[0] += 1;
        if player.one_in(4) {
            yield_now().await;
        }
        pair[1] += 1;
        shared.writes.fetch_add(1, Relaxed);
        if player.one_in(2) {
            let written = pair[0];
            let pair = pair.downgrade();
            assert_eq!(*pair, [written; 2], "somebody wrote while it was read");
        }
    }
    let shared = Arc::new(Shared {
        pair: RwLock::new([0; 2]),
        writes: AtomicUsize::new(0),
    });
    crowd(turns, shared.clone(), |shared, mut player| async move {
        for _ in 0..player.turns {
            if player.one_in(4) {
                write(&shared, &mut player).await;
                continue;
            }
            let pair = player.insist(|| shared.pair.read()).await;
            let seen = pair[0];
            if player.one_in(4) {
                yield_now().await;
            }
            assert_eq!(*pair, [seen; 2], "somebody wrote while it was read");
        }
    })
    .await;
    assert_eq!(*shared.pair.read().await, [shared.writes.load(Relaxed); 2]);
}

contended!(
    nobody_reads_what_is_half_written,
    nobody_reads_what_is_half_written_in_a_million,
    read_and_write
);

/// A third of the players asks for a lock that is dropped while it is waited for: the others get it all the same.
#[kernel_test(cores = 4, limit = 120)]
fn a_task_that_is_cancelled_while_it_waits_for_a_mutex_passes_it_on() {
    use super::{on_all_cores, scaled, spawn};
    on_all_cores(async {
        for _ in 0..scaled(200) {
            let mutex = Arc::new(Mutex::new(()));
            let guard = mutex.lock().await;
            let waiters: Vec<_> = (0..12)
                .map(|_| {
                    let mutex = mutex.clone();
                    spawn(async move { drop(mutex.lock().await) })
                })
                .collect();
            yield_now().await;
            for waiter in waiters.iter().step_by(3) {
                waiter.cancel();
            }
            drop(guard);
            for (number, waiter) in waiters.into_iter().enumerate() {
                let result = waiter.await;
                assert!(number % 3 == 0 || result.is_ok());
            }
            drop(mutex.try_lock().expect("all are through with it"));
        }
    });
}
