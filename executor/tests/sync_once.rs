//! Values that are made once.

mod common;

use common::{Flag, poll, runtime};
use executor::{
    block_on_simple, spawn,
    sync::{Lazy, Once, OnceCell, SetError, SetOnce, SetOnceError},
    task::yield_now,
};
use std::{
    future::{Future, pending},
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::*},
    },
    task::Poll,
};

#[test]
fn it_is_set_once() {
    let mut cell = OnceCell::new();
    assert_eq!(cell.get(), None);
    cell.set(1).unwrap();
    assert_eq!(cell.set(2), Err(SetError::AlreadyInitializedError(2)));
    assert_eq!(cell.get(), Some(&1));
    assert_eq!(format!("{cell:?}"), "OnceCell(Some(1))");
    *cell.get_mut().unwrap() = 5;
    assert_eq!(cell.take(), Some(5));
    assert!(!cell.initialized());
    cell.set(6).unwrap();
    assert_eq!(cell.into_inner(), Some(6));
    assert_eq!(OnceCell::from(7).get(), Some(&7));
    assert_eq!(OnceCell::<u8>::new_with(None).get(), None);
}

#[test]
fn a_cell_that_is_born_with_a_value_has_it_for_good() {
    static CELL: OnceCell<u32> = OnceCell::new_with(Some(5));
    assert!(CELL.set(1).unwrap_err().is_already_init_err());
    assert_eq!(block_on_simple(CELL.get_or_init(async || 6)), &5);
    assert_eq!(block_on_simple(CELL.wait()), &5);
    let copy = CELL.clone();
    assert!(copy == CELL && copy != OnceCell::new());
}

#[test]
fn who_waits_for_a_value_does_not_make_it_nor_keep_others_from_it() {
    let cell = OnceCell::new();
    let [waits, makes] = [(); 2].map(|()| Flag::new());
    let mut waiting = pin!(cell.wait());
    assert!(poll(waiting.as_mut(), &waits).is_pending());
    let mut making = Box::pin(cell.get_or_init(pending::<u32>));
    assert!(poll(making.as_mut(), &makes).is_pending());
    assert!(cell.set(1).unwrap_err().is_initializing_err());
    drop(making);
    assert!(!waits.is_set());
    cell.set(2).unwrap();
    assert!(waits.is_set());
    assert_eq!(poll(waiting.as_mut(), &waits), Poll::Ready(&2));
}

#[test]
fn it_is_made_in_code_that_is_not_async() {
    let cell = OnceCell::new();
    assert_eq!(cell.get_or_try_init_blocking(|| Err(1)), Err(1));
    assert_eq!(cell.get_or_init_blocking(|| 2), &2);
    assert_eq!(cell.get_or_try_init_blocking(|| Err(3)), Ok(&2));
    assert_eq!(cell.wait_blocking(), &2);
}

#[test]
fn all_who_wait_have_what_somebody_sets() {
    let runtime = runtime(2);
    let value = Arc::new(SetOnce::new());
    runtime.block_on(async {
        let tasks: Vec<_> = (0..20)
            .map(|_| {
                let value = value.clone();
                spawn(async move { *value.wait().await })
            })
            .collect();
        yield_now().await;
        assert_eq!((value.get(), value.initialized()), (None, false));
        value.set(5).unwrap();
        assert_eq!(value.set(6), Err(SetOnceError(6)));
        for task in tasks {
            assert_eq!(task.await.unwrap(), 5);
        }
    });
    assert_eq!(format!("{value:?}"), "SetOnce(Some(5))");
    assert_eq!(Arc::into_inner(value).unwrap().into_inner(), Some(5));
    assert!(SetOnce::from(1) == SetOnce::new_with(Some(1)));
}

#[test]
fn one_makes_it_while_others_wait() {
    let cell = OnceCell::new();
    let [first_flag, second_flag] = [(); 2].map(|()| Flag::new());
    let mut first = Box::pin(cell.get_or_init(async || {
        yield_now().await;
        1
    }));
    let mut second = Box::pin(cell.get_or_init(async || 2));
    assert!(poll(first.as_mut(), &first_flag).is_pending());
    assert!(poll(second.as_mut(), &second_flag).is_pending());
    assert_eq!(cell.set(3), Err(SetError::InitializingError(3)));
    assert_eq!(poll(first.as_mut(), &first_flag), Poll::Ready(&1));
    assert!(second_flag.is_set());
    assert_eq!(poll(second.as_mut(), &second_flag), Poll::Ready(&1));
}

#[test]
fn one_that_is_dropped_lets_the_next_try() {
    let cell = OnceCell::new();
    let flag = Flag::new();
    let mut first = Box::pin(cell.get_or_init(pending::<u32>));
    let mut second = pin!(cell.get_or_init(async || 2));
    assert!(poll(first.as_mut(), &flag).is_pending());
    assert!(poll(second.as_mut(), &flag).is_pending());
    drop(first);
    assert!(flag.is_set());
    assert_eq!(poll(second.as_mut(), &flag), Poll::Ready(&2));
}

#[test]
fn one_that_fails_or_panics_lets_the_next_try() {
    let runtime = runtime(2);
    let cell = Arc::new(OnceCell::new());
    runtime.block_on(async {
        assert_eq!(cell.get_or_try_init(async || Err(1)).await, Err(1));
        let panicking = cell.clone();
        let task = spawn(async move {
            panicking.get_or_init(async || panic!("on purpose")).await;
        });
        assert!(task.await.is_err());
        assert!(!cell.initialized());
        assert_eq!(cell.get_or_try_init(async || Ok::<_, ()>(3)).await, Ok(&3));
    });
}

#[test]
fn what_it_holds_is_dropped_once() {
    let value = Arc::new(());
    let cell = OnceCell::from(value.clone());
    assert_eq!(Arc::strong_count(&value), 2);
    drop(cell);
    assert_eq!(Arc::strong_count(&value), 1);
}

type Making = Pin<Box<dyn Future<Output = u32> + Send>>;

#[test]
fn a_lazy_value_in_a_static_is_made_by_the_first_of_many_tasks() {
    static MADE: AtomicUsize = AtomicUsize::new(0);
    fn make() -> Making {
        Box::pin(async {
            yield_now().await;
            MADE.fetch_add(1, Relaxed);
            5
        })
    }
    static LAZY: Lazy<u32, fn() -> Making> = Lazy::new(make);
    assert_eq!(LAZY.try_get(), None);
    let runtime = runtime(4);
    runtime.block_on(async {
        let tasks: Vec<_> = (0..50)
            .map(|_| spawn(async { *LAZY.get().await }))
            .collect();
        for task in tasks {
            assert_eq!(task.await.unwrap(), 5);
        }
    });
    assert_eq!(MADE.load(Relaxed), 1);
    assert_eq!(LAZY.try_get(), Some(&5));
}

#[test]
fn work_is_done_once() {
    let once = Once::new();
    let mut times = 0;
    for _ in 0..3 {
        block_on_simple(once.call_once(async || times += 1));
        assert!(once.is_completed());
    }
    assert_eq!(times, 1);
}
