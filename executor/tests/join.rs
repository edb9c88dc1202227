//! `join!`, `try_join!` and their functions.

mod common;

use common::{Flag, poll, runtime};
use executor::{
    Runtime, block_on_simple, join,
    join::{JoinAll, TryJoinAll, join_all, try_join_all},
    spawn,
    sync::{Notify, Semaphore},
    task::yield_now,
    time::{Duration, Instant, sleep},
    try_join,
};
use std::{
    cell::{Cell, RefCell},
    future::{Future, Ready, pending, poll_fn, ready},
    pin::pin,
    task::Poll,
};

const MILLI: Duration = Duration::from_millis(1);

fn virtual_runtime() -> Runtime {
    Runtime::builder()
        .workers(1)
        .virtual_clock()
        .build()
        .unwrap()
}

async fn after<T>(millis: u64, output: T) -> T {
    sleep(Duration::from_millis(millis)).await;
    output
}

/// Says when it is dropped.
struct Dropped<'a>(&'a Cell<u32>);

impl Drop for Dropped<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

/// Ready at its `polls`-th poll, and counts them.
fn at_poll<'a>(polls: u32, counted: &'a Cell<u32>) -> impl Future<Output = u32> + use<'a> {
    poll_fn(move |cx| {
        counted.set(counted.get() + 1);
        if counted.get() == polls {
            return Poll::Ready(polls);
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
}

#[test]
fn outputs_come_in_the_order_of_the_futures() {
    virtual_runtime().block_on(async {
        let began = Instant::now();
        let joined = join!(after(20, "a"), after(10, 2), after(30, String::from("c")));
        assert_eq!(joined, ("a", 2, String::from("c")));
        assert_eq!(began.elapsed(), 30 * MILLI, "they wait at the same time");
        assert_eq!(join!(after(1, 1)), (1,));
        assert_eq!(join!(biased; after(1, 1), ready(2),), (1, 2));
        let () = join!();
        assert_eq!(
            try_join!(after(1, Ok::<_, ()>(1)), ready(Ok(2))),
            Ok((1, 2))
        );
        let nothing: Result<(), u8> = try_join!();
        assert_eq!(nothing, Ok(()));
    });
}

#[test]
fn as_many_as_you_like() {
    macro_rules! many {
        ($($number:literal)*) => { (join!($(ready($number)),*), try_join!($(ready(Ok::<u32, ()>($number))),*)) };
    }
    block_on_simple(async {
        let (joined, tried) = many!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33
            34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64 65 66 67 68 69);
        assert_eq!((joined.0, joined.8, joined.63, joined.69), (0, 8, 63, 69));
        let tried = tried.unwrap();
        assert_eq!((tried.7, tried.17, tried.69), (7, 17, 69));
    });
}

#[test]
fn each_is_polled_until_it_is_ready_and_dropped_then() {
    let counted = [(); 3].map(|()| Cell::new(0));
    let dropped = Cell::new(0);
    block_on_simple(async {
        let [first, second, third] = &counted;
        let first = async {
            let _dropped = Dropped(&dropped);
            at_poll(1, first).await
        };
        let third = async {
            let output = at_poll(5, third).await;
            assert_eq!(dropped.get(), 1);
            output
        };
        assert_eq!(join!(first, at_poll(3, second), third), (1, 3, 5));
    });
    assert_eq!(counted.map(Cell::into_inner), [1, 3, 5]);
}

#[test]
fn another_is_polled_first_each_time_unless_it_is_biased() {
    let order = RefCell::new(String::new());
    let part = |name| {
        let order = &order;
        let mut polls = 0;
        poll_fn(move |cx| {
            order.borrow_mut().push(name);
            polls += 1;
            cx.waker().wake_by_ref();
            match polls {
                4 => Poll::Ready(Ok::<(), ()>(())),
                _ => Poll::Pending,
            }
        })
    };
    block_on_simple(async {
        let _ = join!(part('a'), part('b'), part('c'));
        assert_eq!(order.take(), "abcbcacababc");
        let _ = try_join!(part('a'), part('b'), part('c'));
        assert_eq!(order.take(), "abcbcacababc");
        let _ = join!(biased; part('a'), part('b'), part('c'));
        assert_eq!(order.take(), "abcabcabcabc");
        let _ = try_join!(biased; part('a'), part('b'), part('c'));
        assert_eq!(order.take(), "abcabcabcabc");
    });
}

#[test]
fn a_part_that_is_always_ready_starves_no_other() {
    let semaphore = Semaphore::new(1);
    let stop = Cell::new(false);
    let turns = Cell::new(0);
    runtime(1).block_on(async {
        let busy = async {
            while !stop.get() {
                // As if each took so long that a tick had come.
                hal::preempt::set_soft(true);
                drop(semaphore.acquire().await);
                turns.set(turns.get() + 1);
            }
        };
        let other = async {
            for _ in 0..10 {
                yield_now().await;
            }
            stop.set(true);
        };
        join!(busy, other);
    });
    assert!(turns.get() >= 5);
}

#[test]
fn the_first_error_drops_the_others() {
    let dropped = Cell::new(0);
    virtual_runtime().block_on(async {
        let began = Instant::now();
        let slow = async {
            let _dropped = Dropped(&dropped);
            after(100, Ok::<u8, &str>(1)).await
        };
        let done = async {
            let _dropped = Dropped(&dropped);
            Ok(2)
        };
        let failed = try_join!(slow, after(5, Err::<u8, _>("five")), done, after(3, Ok(3)));
        assert_eq!(dropped.get(), 2);
        assert_eq!((failed, began.elapsed()), (Err("five"), 5 * MILLI));
        let never = pending::<Result<(), &str>>();
        assert_eq!(
            try_join!(never, ready(Err::<(), _>("at once"))),
            Err("at once")
        );
    });
}

#[test]
fn an_error_goes_up_with_a_question_mark() {
    async fn sum(one: &str, other: &str) -> Result<u8, std::num::ParseIntError> {
        let (one, other) = try_join!(async { one.parse::<u8>() }, async { other.parse::<u8>() })?;
        Ok(one + other)
    }
    assert_eq!(block_on_simple(sum("1", "2")), Ok(3));
    assert!(block_on_simple(sum("1", "two")).is_err());
}

#[test]
fn all_of_a_collection() {
    virtual_runtime().block_on(async {
        let began = Instant::now();
        let joined = join_all([30, 10, 20].map(|millis| after(millis, millis))).await;
        assert_eq!((joined, began.elapsed()), (vec![30, 10, 20], 30 * MILLI));
        assert_eq!(join_all(Vec::<Ready<u8>>::new()).await, []);
        let joined: JoinAll<_> = (0..3).map(ready).collect();
        assert_eq!(joined.await, [0, 1, 2]);
    });
}

#[test]
fn all_of_a_collection_or_the_first_error() {
    let dropped = Cell::new(0);
    virtual_runtime().block_on(async {
        let part = |millis: u64| {
            let dropped = Dropped(&dropped);
            async move {
                let _dropped = dropped;
                after(
                    millis,
                    if millis == 20 {
                        Err("twenty")
                    } else {
                        Ok(millis)
                    },
                )
                .await
            }
        };
        assert_eq!(try_join_all([3, 1].map(part)).await, Ok(vec![3, 1]));
        assert_eq!(dropped.replace(0), 2);
        let began = Instant::now();
        assert_eq!(try_join_all([30, 20, 10].map(part)).await, Err("twenty"));
        assert_eq!((dropped.get(), began.elapsed()), (3, 20 * MILLI));
        let joined: TryJoinAll<_> = (0..3).map(|number| ready(Ok::<_, ()>(number))).collect();
        assert_eq!(joined.await, Ok(vec![0, 1, 2]));
    });
}

#[test]
#[should_panic(expected = "polled after they were ready")]
fn it_is_not_polled_again_when_it_was_ready() {
    let flag = Flag::new();
    let mut joined = pin!(join_all([ready(1)]));
    assert!(poll(joined.as_mut(), &flag).is_ready());
    let _ = poll(joined.as_mut(), &flag);
}

#[test]
fn what_is_dropped_in_between_drops_futures_and_outputs() {
    let dropped = Cell::new(0);
    let flag = Flag::new();
    let bell = Notify::new();
    let mut joined = Box::pin(async {
        let done = ready(Dropped(&dropped));
        let waits = async {
            let _dropped = Dropped(&dropped);
            bell.notified().await;
        };
        join!(done, waits);
    });
    assert!(poll(joined.as_mut(), &flag).is_pending());
    assert_eq!(dropped.get(), 0);
    drop(joined);
    assert_eq!(dropped.get(), 2);
}

#[test]
fn parts_may_be_handles_of_tasks() {
    runtime(2).block_on(async {
        let (one, two) = join!(spawn(async { 1 }), spawn(async { 2 }));
        assert_eq!(one.unwrap() + two.unwrap(), 3);
        let joined = try_join_all((0..50).map(|number| spawn(async move { number }))).await;
        assert_eq!(joined.unwrap(), (0..50).collect::<Vec<_>>());
    });
}

#[test]
fn what_awaits_it_may_be_sent() {
    fn assert_send<T: Send>(_: &T) {}
    let semaphore = Semaphore::new(1);
    assert_send(&async { join!(semaphore.acquire(), yield_now()) });
    assert_send(&async { try_join!(semaphore.acquire(), semaphore.acquire()).is_ok() });
    assert_send(&join_all([semaphore.acquire()]));
}
