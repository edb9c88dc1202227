//! Tasks that are lost in the middle of a wait: on the host, those that are told to fail in one.

use executor::{
    Priority, Runtime, spawn,
    sync::{Mutex, Notify, RwLock, Semaphore, oneshot},
    task::{self, yield_now},
    time::{Duration, timeout},
};
use std::{
    future::{pending, poll_fn},
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
};

/// What is lost stays for ever, and its runtime with it.
fn run<F: Future>(workers: usize, main: impl FnOnce() -> F) -> F::Output {
    let runtime = Runtime::builder().workers(workers).build().unwrap();
    let output = runtime.block_on(async { main().await });
    std::mem::forget(runtime);
    output
}
async fn settle() {
    for _ in 0..200 {
        yield_now().await;
    }
}
/// Reached only if something is wrong.
const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn permits_pass_over_a_lost_task_in_the_middle() {
    run(1, || async {
        let s = Arc::new(Semaphore::new(0));
        let (a, l, b) = (s.clone(), s.clone(), s.clone());
        let a = spawn(async move { a.acquire().await.unwrap().forget() });
        settle().await;
        let l = spawn(async move { l.acquire_blocking().unwrap().forget() });
        settle().await;
        let b = spawn(async move { b.acquire().await.unwrap().forget() });
        settle().await;
        assert!(l.task().fail());
        assert!(l.await.is_err());
        s.add_permits(2);
        timeout(LIMIT, a).await.expect("a").unwrap();
        timeout(LIMIT, b).await.expect("b gets the second").unwrap();
    });
}
#[test]
fn readers_and_writers_pass_over_a_lost_one_in_the_middle() {
    run(1, || async {
        let s = Arc::new(RwLock::new(0));
        let w = s.write().await;
        let (a, l, b) = (s.clone(), s.clone(), s.clone());
        let a = spawn(async move { drop(a.read().await) });
        settle().await;
        let l = spawn(async move { drop(l.read_blocking()) });
        settle().await;
        let b = spawn(async move { b.write().unless_poisoned().await.is_ok() });
        settle().await;
        assert!(l.task().fail());
        assert!(l.await.is_err());
        drop(w);
        timeout(LIMIT, a).await.expect("a").unwrap();
        let b = timeout(LIMIT, b).await;
        assert!(b.expect("b writes").unwrap());
    });
}
#[test]
fn a_finalizer_goes_on_with_what_its_task_has_polled() {
    run(1, || async {
        let s = Arc::new(Semaphore::new(0));
        let mine = s.clone();
        let l = spawn(async move {
            let mut f = Box::pin(mine.acquire_owned());
            poll_fn(|cx| {
                assert!(f.as_mut().poll(cx).is_pending());
                Poll::Ready(())
            })
            .await;
            task::on_exit(async move { f.await.unwrap().forget() });
            task::wait(pending::<()>());
        });
        settle().await;
        assert!(l.task().fail());
        settle().await;
        s.add_permits(1);
        assert!(timeout(LIMIT, l).await.expect("finalizer ends").is_err());
    });
}
#[test]
fn a_lost_task_may_have_asked_for_very_many() {
    run(1, || async {
        let s = Arc::new(Semaphore::new(5));
        let l = s.clone();
        let l = spawn(async move { l.acquire_many_blocking(1 << 31).unwrap().forget() });
        settle().await;
        assert!(l.task().fail());
        assert!(l.await.is_err());
        s.add_permits(1);
        assert_eq!(s.available_permits(), 6);
    });
}
struct Foreign(Waker);
impl Wake for Foreign {
    fn wake(self: Arc<Self>) {
        self.0.wake_by_ref();
    }
}
#[test]
fn a_lost_task_is_known_by_whoever_polled_not_by_the_waker() {
    run(1, || async {
        let m = Arc::new(Mutex::new(0));
        let g = m.clone().lock_owned().await;
        let (l, b) = (m.clone(), m.clone());
        let l = spawn(async move {
            let mut f = Box::pin(l.lock());
            task::wait(poll_fn(|cx| {
                let w = Waker::from(Arc::new(Foreign(cx.waker().clone())));
                f.as_mut().poll(&mut Context::from_waker(&w)).map(drop)
            }))
        });
        settle().await;
        let b = spawn(async move { b.lock().unless_poisoned().await.is_ok() });
        settle().await;
        assert!(l.task().fail());
        assert!(l.await.is_err());
        settle().await;
        drop(g);
        let b = timeout(LIMIT, b).await;
        assert!(b.expect("b hears").unwrap());
    });
}
struct Locks(Arc<Mutex<u32>>, Option<oneshot::Sender<()>>, Arc<Notify>);
impl Drop for Locks {
    fn drop(&mut self) {
        let g = self.0.lock_blocking();
        _ = self.1.take().unwrap().send(());
        task::wait(self.2.notified());
        drop(g);
    }
}
#[test]
fn what_an_outcome_locks_as_it_is_dropped_is_nobodys() {
    run(1, || async {
        let m = Arc::new(Mutex::new(0));
        let g = m.clone().lock_owned().await;
        let (tx, rx) = oneshot::channel();
        let go = Arc::new(Notify::new());
        let out = Locks(m.clone(), Some(tx), go.clone());
        spawn(async move { out }).detach();
        settle().await;
        // Whoever gets the slot, and is lost.
        let xs: Vec<_> = (0..4)
            .map(|_| spawn(async { task::wait(pending::<()>()) }))
            .collect();
        settle().await;
        drop(g);
        rx.await.unwrap();
        for x in xs {
            assert!(x.task().fail());
            assert!(x.await.is_err());
        }
        assert!(!m.is_poisoned());
        go.notify_one();
    });
}
#[test]
fn a_lost_task_lends_nothing_any_more() {
    run(1, || async {
        let low = task::Builder::new()
            .priority(Priority::Low)
            .spawn(pending::<()>());
        let t = low.task();
        let h = task::Builder::new()
            .priority(Priority::High)
            .spawn(async move { task::wait(low).ok() });
        settle().await;
        assert_eq!(t.priority(), Priority::High);
        assert!(h.task().fail());
        assert!(h.await.is_err());
        settle().await;
        assert_eq!(t.priority(), Priority::Low);
    });
}
#[test]
fn a_lost_task_is_in_no_circle() {
    run(1, || async {
        let (m1, m2) = (Arc::new(Mutex::new(1)), Arc::new(Mutex::new(2)));
        let go = Arc::new(Notify::new());
        let (l1, l2, n) = (m1.clone(), m2.clone(), go.clone());
        let (t1, t2) = (m1.clone(), m2.clone());
        let ready = Arc::new(Notify::new());
        let r = ready.clone();
        let t = spawn(async move {
            let _g = t1.lock().await;
            r.notified().await;
            drop(t2.lock().await);
        });
        settle().await;
        let w = spawn(async move {
            task::on_exit(async move {
                let _g = l2.lock().await;
                n.notified().await;
            });
            drop(l1.lock_blocking());
        });
        settle().await;
        assert!(w.task().fail());
        settle().await;
        ready.notify_one();
        settle().await;
        for _ in 0..4 {
            settle().await;
        }
        let circle = executor::stats::lock_cycle();
        go.notify_one();
        assert!(w.await.is_err());
        t.await.unwrap();
        assert_eq!(circle, None);
    });
}
#[test]
fn a_lost_task_that_was_enabled_is_passed_over() {
    run(1, || async {
        let n = Arc::new(Notify::new());
        let (l, b) = (n.clone(), n.clone());
        let l = spawn(async move {
            let mut f = std::pin::pin!(l.notified());
            f.as_mut().enable();
            task::wait(pending::<()>());
        });
        settle().await;
        let b = spawn(async move { b.notified().await });
        settle().await;
        assert!(l.task().fail());
        assert!(l.await.is_err());
        n.notify_one();
        timeout(LIMIT, b).await.expect("b hears").unwrap();
    });
}

#[test]
fn what_a_lost_task_has_gathered_goes_to_who_comes() {
    run(1, || async {
        let s = Arc::new(Semaphore::new(3));
        let l = s.clone();
        let l = spawn(async move {
            let _one = l.acquire().await.unwrap();
            l.acquire_many_blocking(3).unwrap().forget();
        });
        settle().await;
        assert!(l.task().fail());
        assert!(l.await.is_err());
        timeout(LIMIT, s.acquire())
            .await
            .expect("two are nobody's")
            .unwrap()
            .forget();
    });
}
static BAD: std::task::RawWakerVTable =
    std::task::RawWakerVTable::new(|_| panic!("clone"), |_| {}, |_| {}, |_| {});
#[test]
fn one_that_was_passed_over_may_panic_as_it_begins_anew() {
    run(1, || async {
        let m = Arc::new(Mutex::new(0));
        let g = m.clone().lock_owned().await;
        let (tx, rx) = oneshot::channel();
        let l = m.clone();
        let l = spawn(async move {
            let mut f = Box::pin(l.lock_owned());
            poll_fn(|cx| {
                assert!(f.as_mut().poll(cx).is_pending());
                Poll::Ready(())
            })
            .await;
            _ = tx.send(f);
            task::wait(pending::<()>());
        });
        let mut f = rx.await.ok().unwrap();
        assert!(l.task().fail());
        assert!(l.await.is_err());
        drop(g);
        let g = m.try_lock().expect("skipped");
        // SAFETY: there is no data, so all is allowed with it.
        let bad = unsafe { Waker::from_raw(std::task::RawWaker::new(std::ptr::null(), &BAD)) };
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            f.as_mut().poll(&mut Context::from_waker(&bad)).is_pending()
        }));
        assert!(caught.is_err());
        let size = std::mem::size_of_val(&*f);
        drop(f);
        // The memory is somebody else's now.
        let mut other: Vec<Vec<u8>> = (0..64).map(|_| vec![0xee; size]).collect();
        let mut again = Box::pin(m.lock());
        let mut noop = Context::from_waker(Waker::noop());
        assert!(again.as_mut().poll(&mut noop).is_pending());
        drop(again);
        drop(g);
        let changed = other
            .iter_mut()
            .filter(|o| o.iter().any(|&b| b != 0xee))
            .count();
        assert_eq!(changed, 0);
    });
}
