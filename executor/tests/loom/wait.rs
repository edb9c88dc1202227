//! The wait list: some answer, others wait, look again and leave.
//!
//! A [`Waiting`] is what a future does with its waiter. One that waits no more has
//! written to all of its node, so loom finds whoever still looks at it; the memory
//! itself stays until the end of the model.

use super::count::Count;
use executor::sync::wait_list::{WaitList, Waiter, Woken};
use loom::{sync::Arc, thread};
use std::{pin::Pin, task::Waker};

const YES: u32 = 1;

struct Waiting {
    list: Arc<WaitList>,
    waiter: Pin<Box<Waiter>>,
}

impl Waiting {
    fn new(list: &Arc<WaitList>, waker: &Waker) -> Self {
        let mut waiter = Box::pin(Waiter::new());
        // SAFETY: it is new, and every model sees its answer or makes it leave.
        unsafe {
            waiter
                .as_mut()
                .join(&mut list.lock(), 7, Some(waker.clone()))
        };
        Self {
            list: list.clone(),
            waiter,
        }
    }

    /// What a poll does: whether it is over.
    fn poll(&mut self, waker: &Waker) -> bool {
        // SAFETY: it waits there, or has seen its answer.
        !self.waiter.is_waiting()
            || unsafe {
                self.waiter
                    .as_mut()
                    .poll(&self.list, waker, Waker::clone)
                    .is_some()
            }
    }

    /// What a drop does: whether it had an answer.
    fn leave(&mut self) -> bool {
        // SAFETY: it waits there.
        let left = unsafe { self.waiter.as_mut().leave(&self.list, |_| {}) };
        assert_eq!(left.request, 7);
        left.answer == Some(YES)
    }
}

/// Answers the first: whether there was one.
fn answer(list: &WaitList) -> bool {
    let mut woken = Woken::new();
    let is_answered = list.lock().answer_first(YES, &mut woken);
    woken.wake();
    is_answered
}

/// One leaves while it is answered, or before, or after.
#[test]
fn leave_against_answer() {
    loom::model(|| {
        let list = Arc::new(WaitList::new());
        let (count, waker) = Count::new();
        let mut one = Waiting::new(&list, &waker);
        let other = {
            let list = list.clone();
            thread::spawn(move || answer(&list))
        };
        let had_answer = one.leave();
        let was_answered = other.join().unwrap();
        assert_eq!(had_answer, was_answered, "what it was given is lost");
        assert_eq!(count.get(), usize::from(was_answered));
        assert!(list.lock().is_empty());
        drop(waker);
        assert!(count.is_alone(), "no waker is left behind");
    });
}

/// Neighbours leave at once, from two cores; the third is answered.
#[test]
fn leave_against_leave() {
    loom::model(|| {
        let list = Arc::new(WaitList::new());
        let (count, waker) = Count::new();
        let [mut first, mut second, mut third] = [(); 3].map(|()| Waiting::new(&list, &waker));
        let other = thread::spawn(move || {
            assert!(!first.leave());
            first
        });
        assert!(!second.leave());
        let first = other.join().unwrap();
        assert!(answer(&list));
        assert!(third.poll(&waker));
        assert_eq!(count.get(), 1);
        assert!(!answer(&list));
        drop((first, second));
    });
}

/// Two answer at once: each waiter has one answer.
#[test]
fn answer_against_answer() {
    loom::model(|| {
        let list = Arc::new(WaitList::new());
        let (count, waker) = Count::new();
        let mut both = [(); 2].map(|()| Waiting::new(&list, &waker));
        let other = {
            let list = list.clone();
            thread::spawn(move || answer(&list))
        };
        assert!(answer(&list));
        assert!(other.join().unwrap());
        assert_eq!(count.get(), 2);
        assert!(both.iter_mut().all(Waiting::leave));
    });
}

/// The task that waits polls with another waker while it is answered.
#[test]
fn another_waker_against_answer() {
    loom::model(|| {
        let list = Arc::new(WaitList::new());
        let ((first, first_waker), (second, second_waker)) = (Count::new(), Count::new());
        let mut one = Waiting::new(&list, &first_waker);
        let other = {
            let list = list.clone();
            thread::spawn(move || assert!(answer(&list)))
        };
        let is_over = one.poll(&second_waker);
        other.join().unwrap();
        if is_over {
            assert_eq!((first.get(), second.get()), (1, 0));
        } else {
            assert_eq!((first.get(), second.get()), (0, 1), "a wake-up was lost");
        }
        assert!(one.poll(&second_waker));
    });
}

/// All are answered, more than are woken at once, while one of them leaves.
#[test]
fn leave_against_answer_all() {
    for leaves in 0..3 {
        loom::model(move || {
            let list = Arc::new(WaitList::new());
            let (count, waker) = Count::new();
            let mut all = [(); 3].map(|()| Waiting::new(&list, &waker));
            let other = {
                let list = list.clone();
                thread::spawn(move || list.answer_all(list.lock(), YES))
            };
            let had_answer = all[leaves].leave();
            other.join().unwrap();
            assert_eq!(count.get(), 2 + usize::from(had_answer));
            for (number, waiting) in all.iter_mut().enumerate() {
                assert!(number == leaves || waiting.poll(&waker));
            }
            assert!(list.lock().is_empty());
        });
    }
}

/// One comes while all are answered: it is answered with the others, or goes on waiting, and is
/// in the list then.
#[test]
fn join_against_answer_all() {
    loom::model(|| {
        let list = Arc::new(WaitList::new());
        let (count, waker) = Count::new();
        let mut all = [(); 3].map(|()| Waiting::new(&list, &waker));
        let other = {
            let list = list.clone();
            thread::spawn(move || list.answer_all(list.lock(), YES))
        };
        let mut late = Waiting::new(&list, &waker);
        other.join().unwrap();
        let is_answered = late.poll(&waker);
        assert_eq!(count.get(), 3 + usize::from(is_answered));
        assert_eq!(answer(&list), !is_answered);
        assert!(late.poll(&waker));
        assert!(all.iter_mut().all(|one| one.poll(&waker)));
    });
}
