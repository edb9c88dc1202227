//! `select!`, by hand and in tasks; races are in `race.rs`.

mod common;

use common::{Flag, poll, runtime};
use executor::{
    Runtime, block_on_simple, race, select,
    select::race,
    sync::{Mutex, Notify, Semaphore},
    task::yield_now,
    time::{Duration, Instant, sleep, timeout},
};
use std::{
    cell::{Cell, RefCell},
    future::{Future, pending, poll_fn, ready},
    pin::{Pin, pin},
    task::{Context, Poll},
};

const MILLI: Duration = Duration::from_millis(1);

/// A runtime of one core, whose time passes only while all wait.
fn virtual_runtime() -> Runtime {
    Runtime::builder()
        .workers(1)
        .virtual_clock()
        .build()
        .unwrap()
}

/// Says when it is polled and when it is dropped.
struct Noisy<'a> {
    name: &'static str,
    is_ready: bool,
    said: &'a RefCell<Vec<String>>,
}

impl Future for Noisy<'_> {
    type Output = &'static str;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<&'static str> {
        self.said.borrow_mut().push(format!("poll {}", self.name));
        match self.is_ready {
            true => Poll::Ready(self.name),
            false => Poll::Pending,
        }
    }
}

impl Drop for Noisy<'_> {
    fn drop(&mut self) {
        self.said.borrow_mut().push(format!("drop {}", self.name));
    }
}

// ---- which arm ----

#[test]
fn the_arm_that_is_ready_is_taken() {
    block_on_simple(async {
        let taken = select! {
            () = pending() => "first",
            number = ready(7) => if number == 7 { "second" } else { "wrong" },
            _ = pending::<String>() => { "third" }
        };
        assert_eq!(taken, "second");
    });
}

#[test]
fn it_waits_until_an_arm_is_ready() {
    let (first, second) = (Notify::new(), Notify::new());
    let flag = Flag::new();
    let mut waits = pin!(async {
        select! {
            () = first.notified() => 1,
            () = second.notified() => 2,
        }
    });
    assert!(poll(waits.as_mut(), &flag).is_pending());
    assert!(!flag.is_set());
    second.notify_one();
    assert!(flag.is_set());
    assert_eq!(poll(waits.as_mut(), &flag), Poll::Ready(2));
}

#[test]
fn every_arm_that_is_always_ready_has_its_turn() {
    // That an arm of four is not among 400 turns has a probability of 4 * (3/4)^400, about 10^-49.
    let mut taken = [0; 4];
    block_on_simple(async {
        for _ in 0..400 {
            let number = select! {
                _ = ready(()) => 0,
                _ = ready(()) => 1,
                _ = ready(()) => 2,
                _ = ready(()) => 3,
            };
            taken[number] += 1;
        }
    });
    // 100 each, and the standard deviation is below 9.
    assert!(
        taken.iter().all(|times| (20..180).contains(times)),
        "{taken:?}"
    );
}

#[test]
fn a_biased_one_takes_the_first_that_is_ready() {
    block_on_simple(async {
        for _ in 0..100 {
            let number = select! {
                biased;
                () = pending() => 0,
                _ = ready(()) => 1,
                _ = ready(()) => 2,
            };
            assert_eq!(number, 1);
        }
    });
}

#[test]
fn arms_are_polled_in_a_circle_and_dropped_in_order_before_the_body() {
    let said = RefCell::default();
    let noisy = |name, is_ready| Noisy {
        name,
        is_ready,
        said: &said,
    };
    block_on_simple(async {
        select! {
            biased;
            _ = noisy("a", false) => unreachable!(),
            name = noisy("b", true) => said.borrow_mut().push(format!("body {name}")),
            _ = noisy("c", true) => unreachable!(),
        }
    });
    let expected = ["poll a", "poll b", "drop a", "drop b", "drop c", "body b"];
    assert_eq!(*said.borrow(), expected);
    // From a random one on: the next is polled after it, and the first after the last.
    for _ in 0..50 {
        said.borrow_mut().clear();
        let flag = Flag::new();
        let mut waits = pin!(async {
            select! {
                _ = noisy("a", false) => {},
                _ = noisy("b", false) => {},
                _ = noisy("c", false) => {},
            }
        });
        assert!(poll(waits.as_mut(), &flag).is_pending());
        let order: String = said.borrow().iter().map(|said| &said[5..]).collect();
        assert!(["abc", "bca", "cab"].contains(&&*order), "{order}");
    }
}

#[test]
fn sixty_four_arms_and_more() {
    macro_rules! many {
        ($chosen:expr; $($number:literal)*) => {
            select! { $(Some(number) = ready(($number == $chosen).then_some($number)) => number,)* else => 999 }
        };
    }
    block_on_simple(async {
        for chosen in [0, 1, 7, 8, 62, 63, 64] {
            let number = many!(chosen; 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
                32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63);
            assert_eq!(number, if chosen < 64 { chosen } else { 999 });
        }
        let chosen = 99;
        let number = many!(chosen; 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35
            36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64 65 66 67 68 69 70 71 72
            73 74 75 76 77 78 79 80 81 82 83 84 85 86 87 88 89 90 91 92 93 94 95 96 97 98 99);
        assert_eq!(number, 99);
    });
}

// ---- patterns and conditions ----

#[test]
fn an_arm_whose_pattern_does_not_match_is_out() {
    let polls = Cell::new(0);
    let flag = Flag::new();
    let bell = Notify::new();
    let mut waits = pin!(async {
        select! {
            Some(()) = poll_fn(|_| { polls.set(polls.get() + 1); Poll::Ready(None) }) => 1,
            () = bell.notified() => 2,
        }
    });
    assert!(poll(waits.as_mut(), &flag).is_pending());
    assert!(poll(waits.as_mut(), &flag).is_pending());
    bell.notify_one();
    assert_eq!(poll(waits.as_mut(), &flag), Poll::Ready(2));
    assert_eq!(polls.get(), 1, "ready, so never polled again");
}

#[test]
fn patterns_move_borrow_and_change() {
    block_on_simple(async {
        let text = || ready((Some(String::from("a")), 5));
        select! { (Some(moved), 1..=9) = text() => assert_eq!(moved, "a"), else => unreachable!() }
        select! { (Some(mut moved), _) = text() => { moved.push('b'); assert_eq!(moved, "ab"); } }
        select! { (Some(ref borrowed), _) = text() => assert_eq!(borrowed, "a") }
        select! {
            (Some(ref mut changed), _) = text() => { changed.push('c'); assert_eq!(changed, "ac"); }
        }
        select! { Ok(same) | Err(same) = ready(Err::<u8, u8>(3)) => assert_eq!(same, 3) }
        select! { [first, .., last] = ready([1, 2, 3]) => assert_eq!((first, last), (1, 3)) }
        select! { whole @ (_, 5) = text() => assert_eq!(whole.1, 5) }
    });
}

#[test]
fn what_did_not_match_is_dropped_at_once() {
    struct Dropped<'a>(&'a Cell<bool>);
    impl Drop for Dropped<'_> {
        fn drop(&mut self) {
            self.0.set(true);
        }
    }
    let dropped = Cell::new(false);
    block_on_simple(async {
        select! {
            biased;
            Err::<Dropped, ()>(()) = ready(Ok(Dropped(&dropped))) => unreachable!(),
            seen = poll_fn(|_| Poll::Ready(dropped.get())) => assert!(seen),
        }
    });
}

#[test]
fn conditions_come_before_futures_and_futures_are_made_even_so() {
    let said = RefCell::new(Vec::new());
    let say = |word: &'static str| said.borrow_mut().push(word);
    let make = |word, number| {
        say(word);
        poll_fn(move |_| {
            assert_ne!(number, 1, "its condition is false");
            Poll::Ready(number)
        })
    };
    let is = |word, value| {
        say(word);
        value
    };
    block_on_simple(async {
        let number = select! {
            number = make("future 1", 1), if is("condition 1", false) => number,
            number = make("future 2", 2), if is("condition 2", true) && number_is_right() => number,
        };
        assert_eq!(number, 2);
    });
    let expected = ["condition 1", "condition 2", "future 1", "future 2"];
    assert_eq!(*said.borrow(), expected);
}

fn number_is_right() -> bool {
    true
}

#[test]
fn without_an_arm_that_is_left_else_is_taken() {
    block_on_simple(async {
        let taken = select! {
            _ = ready(()), if false => "arm",
            None = ready(Some(1)) => "other arm",
            else => "else",
        };
        assert_eq!(taken, "else");
        let only = select! { else => 5 };
        assert_eq!(only, 5);
        // Also where something else could be waited for.
        let taken = select! { _ = ready(()), if false => 0, else => 1, default => 2 };
        assert_eq!(taken, 1);
        let taken = select! { else => { 1 } timeout(MILLI) => 2 };
        assert_eq!(taken, 1);
    });
}

#[test]
#[should_panic(expected = "every arm of this `select!` is disabled, and it has no `else`")]
fn without_an_arm_that_is_left_and_else_it_panics() {
    block_on_simple(async {
        select! { _ = pending::<()>(), if false => {} }
    });
}

// ---- default and timeout ----

#[test]
fn default_is_taken_if_nothing_is_ready_now() {
    let mutex = Mutex::new(1);
    block_on_simple(async {
        let locked = mutex.lock().await;
        let taken = select! {
            default => "default",
            _guard = mutex.lock() => "lock",
        };
        assert_eq!(taken, "default");
        drop(locked);
        let taken = select! {
            _guard = mutex.lock() => "lock",
            default => "default",
        };
        assert_eq!(taken, "lock");
        let only = select! { default => 5 };
        assert_eq!(only, 5);
        let disabled = select! { _ = ready(()), if false => 0, default => 6 };
        assert_eq!(disabled, 6);
    });
    assert!(mutex.try_lock().is_ok(), "nobody waits for it");
}

/// Ready, but a poll that lasts long makes it give way first.
fn ready_permit(semaphore: &Semaphore) -> impl Future<Output = ()> + '_ {
    let mut acquire = Box::pin(semaphore.acquire());
    poll_fn(move |cx| {
        // The tick may come at any moment.
        hal::preempt::set_soft(true);
        acquire
            .as_mut()
            .poll(cx)
            .map(|permit| permit.unwrap().forget())
    })
}

#[test]
fn what_would_give_way_is_not_taken_for_pending() {
    let runtime = runtime(1);
    runtime.block_on(async {
        let semaphore = Semaphore::new(100);
        // That is what the flag does:
        hal::preempt::set_soft(true);
        let flag = Flag::new();
        assert!(poll(pin!(semaphore.acquire()), &flag).is_pending());
        assert!(flag.is_set());
        for _ in 0..10 {
            hal::preempt::set_soft(true);
            select! {
                permit = semaphore.acquire() => permit.unwrap().forget(),
                default => panic!("there are permits"),
            }
            assert!(hal::preempt::take_soft(), "it is still to give way");
            select! {
                () = ready_permit(&semaphore) => {}
                default => panic!("there are permits"),
            }
            select! {
                () = ready_permit(&semaphore) => {}
                timeout(Duration::ZERO) => panic!("there are permits"),
            }
            let polled = timeout(Duration::ZERO, ready_permit(&semaphore)).await;
            polled.expect("there are permits");
            // Within each other, too.
            select! {
                () = async {
                    select! {
                        () = pending() => unreachable!(),
                        () = ready_permit(&semaphore) => {}
                    }
                    ready_permit(&semaphore).await;
                } => {}
                default => panic!("there are permits"),
            }
            // The order of a biased one is kept.
            select! {
                biased;
                () = ready_permit(&semaphore) => {}
                () = ready(()) => panic!("the first is ready"),
            }
            let first = async {
                ready_permit(&semaphore).await;
                1
            };
            assert_eq!(race!(biased; first, ready(2)), 1);
        }
        assert_eq!(semaphore.available_permits(), 20);
    });
}

#[test]
fn it_gives_way_as_a_whole_unless_it_has_a_default() {
    let flag = Flag::new();
    hal::preempt::set_soft(true);
    let mut whole = pin!(async {
        select! { number = ready(1) => number }
    });
    assert!(poll(whole.as_mut(), &flag).is_pending());
    assert_eq!(flag.count(), 1);
    assert_eq!(poll(whole.as_mut(), &flag), Poll::Ready(1));
    hal::preempt::set_soft(true);
    let mut both = pin!(race(ready(1), pending()));
    assert!(poll(both.as_mut(), &flag).is_pending());
    assert_eq!(poll(both.as_mut(), &flag), Poll::Ready(1));
    hal::preempt::set_soft(true);
    let at_once = pin!(async {
        select! { number = ready(1) => number, default => 2 }
    });
    assert_eq!(poll(at_once, &flag), Poll::Ready(1));
    assert_eq!(flag.count(), 2);
    assert!(hal::preempt::take_soft());
}

#[test]
fn a_panic_in_an_arm_leaves_the_flag_as_it_was() {
    hal::preempt::set_soft(true);
    let caught = std::panic::catch_unwind(|| {
        block_on_simple(async {
            select! { () = async { panic!("on purpose") } => {}, default => {} }
        })
    });
    assert!(caught.is_err());
    assert!(hal::preempt::take_soft());
}

#[test]
fn timeout_is_taken_when_its_time_has_come() {
    virtual_runtime().block_on(async {
        let began = Instant::now();
        let taken = select! {
            () = sleep(10 * MILLI) => "arm",
            timeout(7 * MILLI) => "timeout",
        };
        assert_eq!((taken, began.elapsed()), ("timeout", 7 * MILLI));
        let taken = select! {
            timeout(Duration::from_millis(5) + 6 * MILLI) => { "timeout" }
            () = sleep(10 * MILLI) => "arm",
        };
        assert_eq!((taken, began.elapsed()), ("arm", 17 * MILLI));
        let taken = select! { () = ready(()) => "arm", timeout(Duration::ZERO) => "timeout" };
        assert_eq!(taken, "arm");
        // No arm is left: the time is waited for.
        let taken = select! { _ = ready(()), if false => "arm", timeout(MILLI) => "timeout" };
        assert_eq!((taken, began.elapsed()), ("timeout", 18 * MILLI));
        select! { timeout(MILLI) => {} }
        assert_eq!(began.elapsed(), 19 * MILLI);
    });
}

// ---- bodies ----

#[test]
fn bodies_break_continue_return_await_and_fail() {
    async fn find(numbers: &[u8]) -> Result<u8, std::num::ParseIntError> {
        let mut numbers = numbers.iter();
        let mut sum = 0;
        'outer: loop {
            for _ in 0..2 {
                select! {
                    Some(&number) = ready(numbers.next()) => match number {
                        0 => break,
                        1 => continue,
                        2 => break 'outer,
                        3 => return Ok(100),
                        4 => { yield_now().await; sum += 4; }
                        _ => sum += "five".parse::<u8>()?,
                    },
                    else => break 'outer,
                }
            }
            sum += 10;
        }
        Ok(sum)
    }
    block_on_simple(async {
        assert_eq!(find(&[0, 1, 4, 4, 4]).await, Ok(42));
        assert_eq!(find(&[0, 2, 4]).await, Ok(10));
        assert_eq!(find(&[4, 3]).await, Ok(100));
        assert!(find(&[5]).await.is_err());
    });
}

#[test]
fn futures_and_bodies_borrow_what_is_around() {
    block_on_simple(async {
        let mut numbers = vec![1, 2];
        let bell = Notify::new();
        bell.notify_one();
        for turn in 0..3 {
            select! {
                biased;
                () = bell.notified(), if turn < 2 => numbers.push(3),
                length = async { numbers.push(4); numbers.len() }, if numbers.len() < 4 => numbers.push(length),
                else => numbers.clear(),
            }
        }
        assert_eq!(numbers, []);
        // What is made on the way lives as long as the futures.
        async fn length(text: &str) -> usize {
            yield_now().await;
            text.len()
        }
        let length = select! {
            () = pending() => 0,
            length = length(&String::from("abc")) => length,
        };
        assert_eq!(length, 3);
    });
}

#[test]
fn a_future_that_is_lent_goes_on() {
    virtual_runtime().block_on(async {
        let mut work = pin!(async {
            sleep(25 * MILLI).await;
            "done"
        });
        let mut ticks = 0;
        let said = loop {
            select! {
                said = &mut work => break said,
                () = sleep(10 * MILLI) => ticks += 1,
            }
        };
        assert_eq!((said, ticks), ("done", 2));
    });
}

#[test]
fn one_within_another() {
    block_on_simple(async {
        let number = select! {
            outer = ready(1) => select! {
                inner = async { select! { x = ready(outer + 1) => x, default => 0 } } => {
                    select! { output = pending::<i32>() => output, else => 0, default => inner + 1 }
                }
            },
        };
        assert_eq!(number, 3);
    });
}

#[test]
fn names_around_it_mean_what_they_did() {
    // Names that the macro uses, or that somebody has made his own.
    let (outcome, enabled, output, is_match, won) = (1, 2, 3, 4, 5);
    #[allow(dead_code, non_camel_case_types)]
    enum Option {
        Some,
        None,
    }
    let default = ready(6);
    block_on_simple(async {
        let sum = select! {
            default = default => default + outcome + enabled + output + is_match + won,
        };
        assert_eq!(sum, 21);
        let timeout = select! { timeout = ready(7) => timeout };
        assert_eq!(timeout, 7);
        let biased = select! { biased = ready(8) => biased };
        assert_eq!(biased, 8);
    });
}

#[test]
fn what_awaits_it_may_be_sent_and_is_small() {
    fn assert_send<T: Send>(_: &T) {}
    let (semaphore, bell) = (Semaphore::new(1), Notify::new());
    let waits = async {
        select! {
            permit = semaphore.acquire() => { yield_now().await; permit.unwrap().forget(); }
            () = bell.notified() => yield_now().await,
            default => yield_now().await,
        }
    };
    assert_send(&waits);
    let parts = size_of_val(&semaphore.acquire()) + size_of_val(&bell.notified());
    let whole = size_of_val(&waits);
    assert!(whole <= parts + 64, "{whole} for {parts}");
}

// ---- what is lost ----

#[test]
fn a_lost_arm_loses_nothing() {
    let (semaphore, bell, mutex) = (Semaphore::new(0), Notify::new(), Mutex::new(()));
    let flag = Flag::new();
    let held = mutex.try_lock().unwrap();
    let stop = Notify::new();
    let mut waits = Box::pin(async {
        select! {
            biased;
            () = stop.notified() => {}
            _permit = semaphore.acquire() => unreachable!(),
            () = bell.notified() => unreachable!(),
            _guard = mutex.lock() => unreachable!(),
        }
    });
    assert!(poll(waits.as_mut(), &flag).is_pending());
    // Each is granted what it waits for, and then loses.
    semaphore.add_permits(1);
    bell.notify_one();
    drop(held);
    stop.notify_one();
    assert!(mutex.try_lock().is_err(), "it is handed to who waits");
    assert!(poll(waits.as_mut(), &flag).is_ready());
    assert_eq!(semaphore.available_permits(), 1);
    assert!(mutex.try_lock().is_ok());
    assert!(poll(pin!(bell.notified()), &flag).is_ready());
}

#[test]
fn tasks_that_select_on_all_cores_lose_no_permit_and_no_lock() {
    const PERMITS: usize = 3;
    let runtime = runtime(4);
    let shared = std::sync::Arc::new((Semaphore::new(PERMITS), Mutex::new(0)));
    runtime.block_on(async {
        let tasks: Vec<_> = (0..16)
            .map(|_| {
                let shared = shared.clone();
                executor::spawn(async move {
                    let (semaphore, mutex) = &*shared;
                    let mut locked = 0;
                    for _ in 0..300 {
                        select! {
                            permit = semaphore.acquire() => { yield_now().await; drop(permit); }
                            mut count = mutex.lock() => { *count += 1; locked += 1; yield_now().await; }
                            () = yield_now() => {}
                        }
                    }
                    locked
                })
            })
            .collect();
        let mut locked = 0;
        for task in tasks {
            locked += task.await.unwrap();
        }
        assert_eq!(*shared.1.try_lock().unwrap(), locked);
        assert_eq!(shared.0.available_permits(), PERMITS);
    });
}

/// Locks again and again, which is always ready; a tick comes every so often. Ends after very many.
async fn busy() {
    let mutex = executor::sync::Mutex::new(());
    for turn in 0..1_000_000 {
        drop(mutex.lock().await);
        if turn % 1000 == 0 {
            hal::preempt::set_soft(true);
        }
    }
    panic!("a thousand ticks, and it has never given way");
}

#[test]
fn a_loop_of_ready_futures_keeps_nobody_from_the_other_arms_for_long() {
    let runtime = runtime(1);
    runtime.block_on(async {
        let stop = Notify::new();
        stop.notify_one();
        select! {
            biased;
            () = busy() => {}
            () = stop.notified() => {}
        }
        let limit = executor::time::timeout(executor::time::Duration::from_nanos(1), busy());
        assert!(limit.await.is_err());
        let task = executor::spawn(async {
            select! {
                () = busy() => {}
                () = std::future::pending() => {}
            }
        });
        executor::task::yield_now().await;
        task.cancel();
        assert!(task.await.is_err());
    });
}
