//! Permits that are taken and given back, in turn: what semaphores, and all that can be said as one, are made of.
//!
//! One word says how many there are, whether somebody waits, and whether it is closed:
//!
//! - Who takes permits, takes them from the word, by one exchange, but only if nobody waits.
//! - Who gives some back, adds them to the word, by one step, and learns from it whether
//!   somebody waits. If so, he hands out what is in the word, under the list's lock.
//! - Whoever has to wait, says so in the word, under the lock, in one exchange that also
//!   takes what there is: so either he sees what was given back, or who gives it back sees him.
//!
//! So the first who waits has all that was there, even if it is not enough, and a
//! large request is not starved by small ones. While anybody waits, what is in the word is on
//! its way to them. The bit is cleared, under the lock, by who hands out and finds nobody.

mod take;

pub use take::{Home, Take};

use super::{
    clone_waker,
    wait_list::{Answer, SKIPPED, WaitList, Waiter, Waiters, Woken},
};
use crate::shim::{const_unless_loom, discard, ordering};
use core::{
    pin::Pin,
    task::{Poll, Waker},
};
use hal::sync::atomic::{AtomicUsize, Ordering::*};

/// Somebody waits, or it is closed. Changed under the list's lock. The sign, so that one comparison tells that there are
/// too few or that there is something to see to, and giving back learns it from the sum.
const WAITERS: usize = 1 << (usize::BITS - 1);
/// No more are taken. Set under the list's lock, together with `WAITERS`; neither is cleared after that.
const CLOSED: usize = WAITERS >> 1;
/// The rest of the word: how many there are.
const COUNT: usize = CLOSED - 1;

/// How many there can be. Twice as many fit, for those that are given back to a full one.
pub const MAX: usize = usize::MAX >> 3;

// What a waiter is told.
/// It has them all.
pub const GRANTED: Answer = 1;
/// It gets none.
const REFUSED: Answer = 2;
/// It gets none, and what it has of them is nobody's: the lock is poisoned.
#[cfg(all(feature = "alloc", not(loom)))]
const VOID: Answer = 3;

/// The permits, and who waits for some.
pub struct Permits {
    word: AtomicUsize,
    waiters: WaitList,
}

/// It was closed.
#[derive(Debug)]
pub struct Closed;

/// Why permits were not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// There are not enough, or others wait for them.
    Few,
    /// It is closed.
    Closed,
}

impl Permits {
    const_unless_loom! {
        /// This many, at most [`MAX`].
        pub const fn new(count: usize) -> Self {
            Self {
                word: AtomicUsize::new(count),
                waiters: WaitList::new(),
            }
        }
    }

    /// How many nobody has.
    pub fn available(&self) -> usize {
        self.word.load(Acquire) & COUNT
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.word.load(Acquire) & CLOSED != 0
    }

    /// Takes the only permit there can be: one step without a look before.
    #[inline]
    pub fn try_take_only(&self) -> bool {
        // Acquire pairs with the release in `give`: what was done under the permit is seen.
        let order = ordering!(Acquire unless seeded = "mutex_lock_relaxed");
        self.word.compare_exchange(1, 0, order, Relaxed).is_ok()
    }

    /// Takes some, if there are enough and nobody waits.
    #[inline]
    pub fn try_take(&self, count: usize) -> Result<(), Refusal> {
        match self.try_take_now(count) {
            true => Ok(()),
            false => self.try_take_again(count),
        }
    }

    /// The same, but it may also fail because somebody else changes the word at this moment.
    #[inline]
    pub fn try_take_now(&self, count: usize) -> bool {
        let word = self.word.load(Relaxed);
        if (word as isize) < count as isize {
            return false;
        }
        // Acquire pairs with the release in `give`: what was done under these permits is seen.
        let order = ordering!(Acquire unless seeded = "permits_take_relaxed");
        self.word
            .compare_exchange_weak(word, word - count, order, Relaxed)
            .is_ok()
    }

    #[cold]
    #[inline(never)]
    fn try_take_again(&self, count: usize) -> Result<(), Refusal> {
        loop {
            let word = self.word.load(Relaxed);
            if word & WAITERS != 0 || word < count {
                return refuse(word, count);
            }
            if self.try_take_now(count) {
                return Ok(());
            }
        }
    }

    /// Gives some back, or adds some.
    #[inline]
    pub fn give(&self, count: usize) {
        if self.add(count) {
            self.hand_out(|| {});
        }
    }

    /// The same, but for handing out: whether that is to be done.
    #[inline]
    pub fn add(&self, count: usize) -> bool {
        // Release pairs with the acquires of who takes them, here or in `hand_out`.
        let order = ordering!(Release unless seeded = "permits_give_relaxed");
        let before = if cfg!(seeded = "permits_give_looks_first") {
            let before = self.word.load(Relaxed);
            self.word.fetch_add(count, order);
            before
        } else {
            self.word.fetch_add(count, order)
        };
        // Of the sum, as that costs the least.
        ((before + count) as isize) < 0
    }

    /// Gives one back; whether it was closed before that, or just now. If so, what was done before closing it is seen.
    #[inline]
    pub fn give_one(&self) -> bool {
        // Release as in `give`; and pairs with the acquire in `close`.
        let order = ordering!(Release unless seeded = "channel_given_relaxed");
        let sum = self.word.fetch_add(1, order) + 1;
        // Nothing else of the sum is used: so it need not be fetched.
        (sum as isize) < 0 && self.given()
    }

    /// As [`give_one`](Self::give_one), but gives none.
    #[cold]
    pub fn give_none(&self) -> bool {
        self.word.fetch_add(0, Release);
        self.given()
    }

    #[cold]
    #[inline(never)]
    fn given(&self) -> bool {
        // The word is no older than the sum. It is closed under the list's lock, which is taken below: so who sees this
        // is ordered behind all that was done before closing.
        let is_closed = self.word.load(Relaxed) & CLOSED != 0;
        self.hand_out(|| {});
        is_closed
    }

    /// Takes up to so many for good: how many those were. What is on its way to others is not there.
    pub fn remove(&self, count: usize) -> usize {
        let mut removed = 0;
        let less = |word: usize| {
            removed = count.min(word & COUNT);
            (word & (WAITERS | CLOSED) != WAITERS).then(|| word - removed)
        };
        match self.word.fetch_update(Acquire, Relaxed, less) {
            Ok(_) => removed,
            Err(_) => 0,
        }
    }

    /// Lets nobody take any more, also those who wait. What was done before others gave theirs back is
    /// seen after this, or they see in `give_one` what was done before this.
    pub fn close(&self) {
        let waiters = self.waiters.lock();
        // Acquire pairs with the release in `give_one`, release with the acquire in `is_closed`.
        self.word.fetch_or(CLOSED | WAITERS, AcqRel);
        self.waiters.answer_all(waiters, REFUSED);
    }

    /// As [`close`](Self::close), but of those who wait only as many as `woken` has room for; the caller wakes
    /// them. Only if `still` says so, under the list's lock. True: there are no more.
    #[cfg(all(feature = "alloc", not(loom)))]
    pub fn refuse(&self, woken: &mut Woken, still: impl FnOnce() -> bool) -> bool {
        let mut waiters = self.waiters.lock();
        if !still() {
            return true;
        }
        // Orders as in `close`.
        self.word.fetch_or(CLOSED | WAITERS, AcqRel);
        while !woken.is_full() {
            if !waiters.answer_first(VOID, woken) {
                return true;
            }
        }
        waiters.is_empty()
    }

    /// What was refused has `count` permits again, and nobody has any. `first` is called under the list's lock. Nothing is done if it is
    /// not refused, or not any more.
    #[cfg(all(feature = "alloc", not(loom)))]
    pub fn reopen(&self, count: usize, first: impl FnOnce()) {
        loop {
            let mut woken = Woken::new();
            let mut waiters = self.waiters.lock();
            if !self.is_closed() {
                return;
            }
            while !woken.is_full() && waiters.answer_first(VOID, &mut woken) {}
            if waiters.is_empty() {
                first();
                // Release pairs with the acquires of who takes them.
                self.word.store(count, Release);
                drop(waiters);
                return woken.wake();
            }
            drop(waiters);
            woken.wake();
        }
    }

    /// Hands what is in the word to those who wait, the first first. `then` is called when they are woken: what it works out may
    /// make this task less urgent, and it is not to be preempted for that before they are.
    #[cold]
    #[inline(never)]
    pub fn hand_out(&self, mut then: impl FnMut()) {
        loop {
            let mut woken = Woken::new();
            let mut waiters = self.waiters.lock();
            let is_all = loop {
                if woken.is_full() {
                    break false;
                }
                let enough = waiters.with_first(|request| {
                    *request -= self.take_up_to(*request);
                    *request == 0
                });
                // After they were taken: if the first was lost before who gave them did so, that is seen now.
                if self.take_back_from_lost(&mut waiters) {
                    continue;
                }
                match enough {
                    Some(true) => {
                        waiters.answer_first(GRANTED, &mut woken);
                    }
                    Some(false) => break true,
                    None => {
                        // Nobody begins to wait meanwhile. Whoever added permits and saw the bit finds
                        // nobody, and the permits stay in the word.
                        if !cfg!(seeded = "permits_bit_after_unlock") {
                            self.nobody_waits();
                        }
                        break true;
                    }
                }
            };
            let is_empty = waiters.is_empty();
            drop(waiters);
            if cfg!(seeded = "permits_bit_after_unlock") && is_empty {
                self.nobody_waits();
            }
            woken.wake();
            then();
            if is_all {
                return;
            }
        }
    }

    /// Waits until whoever hands out has done so.
    #[cfg(all(feature = "alloc", not(loom)))]
    pub fn settle(&self) {
        drop(self.waiters.lock());
    }

    /// What they had got so far goes to who comes next. False: there are none.
    fn take_back_from_lost(&self, waiters: &mut Waiters<'_>) -> bool {
        let Some(got) = waiters.skip_lost() else {
            return false;
        };
        // Release as in `give`, for those who gave them to who is lost: what they did before passes on.
        self.word.fetch_add(got, Release);
        true
    }

    /// Clears the bit, with the list locked.
    fn nobody_waits(&self) {
        let without = |word: usize| (word & CLOSED == 0).then_some(word & !WAITERS);
        let _ = self.word.fetch_update(Relaxed, Relaxed, without);
    }

    /// Takes what is in the word, but no more than that, for somebody who waits.
    fn take_up_to(&self, most: usize) -> usize {
        let mut taken = 0;
        let less = |word: usize| {
            taken = most.min(word & COUNT);
            (taken != 0).then(|| word - taken)
        };
        // Acquire pairs with the release in `give`; the answer passes it on to who gets them.
        let order = ordering!(Acquire unless seeded = "permits_hand_out_relaxed");
        let _ = self.word.fetch_update(order, Relaxed, less);
        taken
    }

    /// Takes some for who is about to wait, with the list locked. Ok: how many he lacks.
    fn take_or_wait(&self, count: usize) -> Result<usize, Refusal> {
        let mut lacks = 0;
        let step = |word: usize| {
            if word & CLOSED != 0 {
                return None;
            }
            let available = if word & WAITERS == 0 { word } else { 0 };
            lacks = count.saturating_sub(available);
            match lacks {
                0 => Some(word - count.min(available)),
                _ => Some((word - available) | WAITERS),
            }
        };
        // Acquire as in `take_up_to`.
        match self.word.fetch_update(Acquire, Relaxed, step) {
            Ok(_) => Ok(lacks),
            Err(_) => Err(Refusal::Closed),
        }
    }
}

/// Waiting, for futures that keep the [`Waiter`] themselves. `what` is what tasks are shown to wait for.
impl Permits {
    /// Takes permits, or goes behind all others who wait.
    ///
    /// # Safety
    /// 1. The waiter does not wait.
    /// 2. Until it does not wait any more, by [`poll_waiting`](Self::poll_waiting) or [`leave`](Self::leave), neither it
    ///    nor these permits are dropped.
    pub unsafe fn wait(
        &self,
        waiter: Pin<&mut Waiter>,
        count: usize,
        waker: &Waker,
        what: &'static &'static str,
    ) -> Poll<Result<(), Closed>> {
        // Foreign code, so without the lock.
        let waker = clone_waker(waker, what);
        // SAFETY: the caller's promise.
        unsafe { self.wait_with(waiter, count, waker) }
    }

    /// The same, with a waker that was cloned for this.
    ///
    /// # Safety
    /// As for [`wait`](Self::wait).
    unsafe fn wait_with(
        &self,
        waiter: Pin<&mut Waiter>,
        count: usize,
        waker: Waker,
    ) -> Poll<Result<(), Closed>> {
        let mut waiters = self.waiters.lock();
        let lacks = self.take_or_wait(count);
        if let Ok(lacks @ 1..) = lacks {
            // SAFETY: the caller's promise.
            unsafe { waiter.join_for(&mut waiters, (count, lacks), Some(waker)) };
            drop(waiters);
            // What those have got so far who are lost is nobody's, and perhaps nobody gives any more.
            #[cfg(all(feature = "alloc", not(loom)))]
            if crate::scheduler::lost::is_any() {
                self.hand_out(|| {});
            }
            return Poll::Pending;
        }
        drop(waiters);
        discard(waker);
        Poll::Ready(lacks.map(drop).map_err(|_| Closed))
    }

    /// Looks whether somebody who waits got what he asked for.
    ///
    /// # Safety
    /// The waiter waits here, for `count`.
    pub unsafe fn poll_waiting(
        &self,
        mut waiter: Pin<&mut Waiter>,
        count: usize,
        waker: &Waker,
        what: &'static &'static str,
    ) -> Poll<Result<(), Closed>> {
        // SAFETY: the caller's promise.
        match unsafe { self.look(waiter.as_mut(), count, waker, what) } {
            Poll::Ready(Looked::Granted) => Poll::Ready(Ok(())),
            Poll::Ready(Looked::Refused) => Poll::Ready(Err(Closed)),
            // SAFETY: it does not wait any more, and the rest as before.
            Poll::Ready(Looked::Skipped) => unsafe { self.wait(waiter, count, waker, what) },
            Poll::Pending => Poll::Pending,
        }
    }

    /// The same; but who was passed over, because who polled him was lost, does not wait any more, and has to begin anew.
    ///
    /// # Safety
    /// As for [`poll_waiting`](Self::poll_waiting).
    unsafe fn look(
        &self,
        waiter: Pin<&mut Waiter>,
        count: usize,
        waker: &Waker,
        what: &'static &'static str,
    ) -> Poll<Looked> {
        // SAFETY: it waits in this list, the caller says.
        let answered =
            unsafe { waiter.poll(&self.waiters, waker, |waker| clone_waker(waker, what)) };
        let Some(answered) = answered else {
            return Poll::Pending;
        };
        Poll::Ready(match answered.answer {
            Some(GRANTED) => Looked::Granted,
            Some(SKIPPED) => Looked::Skipped,
            answer => {
                if !is_nobodys(answer) {
                    self.give_back(count - answered.request);
                }
                Looked::Refused
            }
        })
    }

    /// Waits no more; what it got goes to the next.
    ///
    /// # Safety
    /// The waiter waits here, for `count`.
    pub unsafe fn leave(&self, waiter: Pin<&mut Waiter>, count: usize) {
        let mut is_given = false;
        let give_under_lock = |request: usize| {
            // Under the list's lock, so that `reopen` comes before it or after it.
            is_given = request != count && !cfg!(seeded = "permits_leave_takes_along");
            if is_given {
                self.word.fetch_add(count - request, Release);
            }
        };
        // SAFETY: it waits in this list, the caller says.
        let left = unsafe { waiter.leave(&self.waiters, give_under_lock) };
        if is_given {
            return self.hand_out(|| {});
        }
        if left.answer.is_none() || is_nobodys(left.answer) {
            return;
        }
        if cfg!(seeded = "permits_leave_takes_along")
            || cfg!(broken = "permit_lost_with_its_waiter")
        {
            return;
        }
        self.give_back(count - left.request);
        if cfg!(broken = "permit_passed_on_twice") {
            self.give_back(count - left.request);
        }
    }

    /// Gives back what somebody got who gave up waiting.
    fn give_back(&self, count: usize) {
        if count != 0 {
            self.give(count);
        }
    }
}

/// What somebody who waited finds.
enum Looked {
    Granted,
    Refused,
    Skipped,
}

/// Whether what he had got who was answered so is not his any more.
fn is_nobodys(answer: Option<Answer>) -> bool {
    #[cfg(all(feature = "alloc", not(loom)))]
    if answer == Some(VOID) {
        return true;
    }
    answer == Some(SKIPPED)
}

/// Why the word gives no permits; nobody is refused none.
#[cold]
fn refuse(word: usize, count: usize) -> Result<(), Refusal> {
    match word & CLOSED {
        0 if count == 0 => Ok(()),
        0 => Err(Refusal::Few),
        _ => Err(Refusal::Closed),
    }
}
