//! Streams: from code, of ticks, and with the adaptors of others.

mod common;

use common::{Flag, poll, runtime};
use executor::{
    Runtime, block_on_simple, select, spawn,
    stream::{FusedStream, Stream, StreamNext, generate, try_generate},
    sync::Notify,
    task::yield_now,
    time::{Duration, Instant, MissedTick, interval, interval_at, sleep},
};
use futures_util::{
    FutureExt,
    stream::{self as others, FuturesUnordered},
};
use std::{
    cell::{Cell, RefCell},
    pin::{Pin, pin},
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

/// All that it has.
async fn all<T>(stream: impl Stream<Item = T>) -> Vec<T> {
    let mut stream = pin!(stream);
    let mut all = Vec::new();
    while let Some(value) = stream.next().await {
        all.push(value);
    }
    all
}

fn numbers(count: u32) -> impl FusedStream<Item = u32> + Send {
    generate(async move |mut out| {
        for number in 0..count {
            out.give(number).await;
        }
    })
}

// ---- from code ----

#[test]
fn values_come_in_the_order_they_were_given_and_then_the_end() {
    block_on_simple(async {
        assert_eq!(all(numbers(4)).await, [0, 1, 2, 3]);
        assert_eq!(all(numbers(0)).await, []);
        let mut stream = pin!(numbers(1));
        assert!(!stream.is_terminated());
        assert_eq!(stream.next().await, Some(0));
        assert!(!stream.is_terminated());
        for _ in 0..3 {
            assert_eq!(stream.next().await, None);
            assert!(stream.is_terminated());
        }
    });
}

#[test]
fn code_runs_only_while_it_is_asked_and_is_never_ahead() {
    let made = Cell::new(0);
    let stream = generate(async |mut out| {
        loop {
            made.set(made.get() + 1);
            out.give(made.get()).await;
        }
    });
    assert_eq!(made.get(), 0);
    block_on_simple(async {
        let mut stream = pin!(stream);
        for number in 1..5 {
            assert_eq!(stream.next().await, Some(number));
            yield_now().await;
            assert_eq!(made.get(), number);
        }
    });
}

#[test]
fn code_waits_for_what_it_likes() {
    virtual_runtime().block_on(async {
        let began = Instant::now();
        let stream = generate(async |mut out| {
            for _ in 0..3 {
                sleep(10 * MILLI).await;
                out.give(began.elapsed()).await;
            }
        });
        assert_eq!(all(stream).await, [10 * MILLI, 20 * MILLI, 30 * MILLI]);
    });
}

#[test]
fn code_borrows_what_is_around_and_is_dropped_where_it_is() {
    struct Dropped<'a>(&'a Cell<bool>);
    impl Drop for Dropped<'_> {
        fn drop(&mut self) {
            self.0.set(true);
        }
    }
    let dropped = Cell::new(false);
    let texts = RefCell::new(vec![String::from("a")]);
    block_on_simple(async {
        let mut stream = Box::pin(generate(async |mut out| {
            let _dropped = Dropped(&dropped);
            loop {
                let text = texts.borrow_mut().pop();
                out.give(text).await;
            }
        }));
        assert_eq!(stream.next().await, Some(Some("a".into())));
        texts.borrow_mut().push("b".into());
        assert_eq!(stream.next().await, Some(Some("b".into())));
        drop(stream);
        assert!(dropped.get());
    });
}

#[test]
fn an_error_is_the_last() {
    let stream = try_generate(async |mut out| {
        out.give(1).await;
        out.give("2".parse().unwrap()).await;
        let three: u8 = "three".parse()?;
        out.give(three).await;
        Ok::<(), std::num::ParseIntError>(())
    });
    let values = block_on_simple(all(stream));
    assert_eq!(values[..2], [Ok(1), Ok(2)]);
    assert!(values[2].is_err());
    assert_eq!(values.len(), 3);
    let stream = try_generate(async |mut out| {
        out.give(1).await;
        Ok::<(), ()>(())
    });
    assert_eq!(block_on_simple(all(stream)), [Ok(1)]);
}

#[test]
fn what_was_given_is_given_even_if_nobody_waits_for_that() {
    let bell = Notify::new();
    bell.notify_one();
    let stream = generate(async |mut out| {
        // Polled once, and dropped; the next finds it still there.
        assert!(out.give(1).now_or_never().is_none());
        assert!(
            out.give(2).now_or_never().is_none(),
            "lost: there was no room"
        );
        out.give(3).await;
        // The bell has rung, so the second is dropped at its first poll.
        select! {
            biased;
            () = out.give(4) => unreachable!(),
            () = bell.notified() => {}
        }
    });
    assert_eq!(block_on_simple(all(stream)), [1, 3, 4]);
}

#[test]
fn a_value_given_last_comes_before_the_error() {
    let stream = try_generate(async |mut out| {
        assert!(out.give(1).now_or_never().is_none());
        Err("end")
    });
    assert_eq!(block_on_simple(all(stream)), [Ok(1), Err("end")]);
}

#[test]
fn a_lost_next_loses_no_value() {
    virtual_runtime().block_on(async {
        let mut stream = pin!(generate(async |mut out| {
            for number in 0..5 {
                sleep(10 * MILLI).await;
                out.give(number).await;
            }
        }));
        let (mut values, mut turns) = (Vec::new(), 0);
        loop {
            select! {
                value = stream.next() => match value {
                    Some(value) => values.push(value),
                    None => break,
                },
                timeout(3 * MILLI) => turns += 1,
            }
        }
        assert_eq!((values, turns), (vec![0, 1, 2, 3, 4], 15));
    });
}

#[test]
fn streams_within_streams_pass_values_on() {
    let stream = generate(async |mut out| {
        let mut inner = pin!(generate(async |mut inner| {
            // Of the outer one, from within the inner one.
            out.give(10).await;
            inner.give(1).await;
            out.give(20).await;
            inner.give(2).await;
        }));
        let mut sum = 0;
        while let Some(value) = inner.next().await {
            sum += value;
        }
        assert_eq!(sum, 3);
    });
    assert_eq!(block_on_simple(all(stream)), [10, 20]);
}

#[test]
fn a_value_may_be_given_by_what_is_polled_only_when_woken() {
    let stream = generate(async |mut out| {
        let out = &mut out;
        let parts = FuturesUnordered::new();
        parts.push(async move {
            for number in 0..3 {
                out.give(number).await;
            }
        });
        assert_eq!(all(parts).await.len(), 1);
    });
    assert_eq!(block_on_simple(all(stream)), [0, 1, 2]);
}

#[test]
fn a_stream_is_sent_and_asked_by_several_tasks() {
    runtime(4).block_on(async {
        let mut stream = Box::pin(numbers(100));
        for number in 0..100 {
            let (value, back) = spawn(async move {
                let value = stream.next().await;
                yield_now().await;
                (value, stream)
            })
            .await
            .unwrap();
            assert_eq!(value, Some(number));
            stream = back;
        }
        assert_eq!(stream.next().await, None);
    });
}

#[test]
fn who_asked_last_is_woken() {
    let bell = Notify::new();
    let mut stream = pin!(generate(async |mut out| {
        bell.notified().await;
        out.give(1).await;
    }));
    let [before, after] = [(); 2].map(|()| Flag::new());
    assert!(poll(pin!(stream.next()), &before).is_pending());
    assert!(poll(pin!(stream.next()), &after).is_pending());
    bell.notify_one();
    assert!(!before.is_set() && after.is_set());
    assert_eq!(poll(pin!(stream.next()), &before), Poll::Ready(Some(1)));
}

// ---- with others ----

#[test]
fn adaptors_of_futures_util_work_on_them() {
    use futures_util::StreamExt as _;
    block_on_simple(async {
        let even: Vec<u32> = numbers(10)
            .filter(|number| std::future::ready(number % 2 == 0))
            .map(|number| number * number)
            .take(3)
            .collect()
            .await;
        assert_eq!(even, [0, 4, 16]);
        let mut merged: Vec<_> = others::select(Box::pin(numbers(3)), Box::pin(numbers(2)))
            .collect()
            .await;
        merged.sort();
        assert_eq!(merged, [0, 0, 1, 1, 2]);
        let doubled: Vec<_> = numbers(5)
            .map(|number| async move {
                yield_now().await;
                number * 2
            })
            .buffered(2)
            .collect()
            .await;
        assert_eq!(doubled, [0, 2, 4, 6, 8]);
    });
}

#[test]
fn next_works_on_streams_of_others() {
    block_on_simple(async {
        let mut stream = others::iter([1, 2]);
        assert_eq!(stream.next().await, Some(1));
        let mut boxed: Pin<Box<dyn Stream<Item = i32>>> = Box::pin(stream);
        assert_eq!(boxed.next().await, Some(2));
        assert_eq!(boxed.next().await, None);
    });
}

// ---- ticks ----

#[test]
fn an_interval_is_a_stream_of_ticks() {
    virtual_runtime().block_on(async {
        let began = Instant::now();
        let mut ticks = interval_at(began + 5 * MILLI, 10 * MILLI);
        for millis in [5, 15, 25] {
            let due = ticks.next().await.unwrap();
            assert_eq!(due, Instant::now());
            assert_eq!(due - began, millis * MILLI);
        }
        // The same ticks, whichever way they are taken.
        assert_eq!(ticks.tick().await - began, 35 * MILLI);
        assert_eq!(ticks.next().await.unwrap() - began, 45 * MILLI);
        ticks.reset_at(began + 50 * MILLI);
        assert_eq!(ticks.next().await.unwrap() - began, 50 * MILLI);
        assert!(ticks.next().now_or_never().is_none());
        ticks.reset_at(began + 70 * MILLI);
        let mut moved = ticks;
        assert_eq!(moved.next().await.unwrap() - began, 70 * MILLI);
        moved.set_missed_tick(MissedTick::Skip);
        sleep(35 * MILLI).await;
        let due = [moved.next().await, moved.next().await];
        assert_eq!(due.map(|due| (due.unwrap() - began).as_millis()), [80, 110]);
    });
}

#[test]
fn ticks_beside_others_lose_none() {
    virtual_runtime().block_on(async {
        let mut ticks = interval(10 * MILLI);
        let mut others = interval(7 * MILLI);
        let (mut taken, mut taken_others) = (0, 0);
        while taken < 8 {
            select! {
                Some(_) = ticks.next() => taken += 1,
                Some(_) = others.next() => taken_others += 1,
            }
        }
        // At 0, 10, .. 70, and at 0, 7, .. 63; the one at 70 may have come before or not.
        assert!((10..=11).contains(&taken_others));
    });
}
