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

use super::{
    clone_waker, proceed,
    wait_list::{Answer, WaitList, Waiter, Woken},
};
use crate::shim::{const_unless_loom, ordering};
use core::{
    pin::Pin,
    task::{Context, Poll},
};
use hal::sync::atomic::{AtomicUsize, Ordering::*};

/// Somebody waits. Changed under the list's lock.
const WAITERS: usize = 1;
/// No more are taken. Set under the list's lock, and never cleared.
const CLOSED: usize = 2;
/// One permit.
const ONE: usize = 4;

/// How many there can be. Twice as many fit, for those that are given back to a full one.
pub const MAX: usize = usize::MAX >> 3;

// What a waiter is told.
/// It has them all.
const GRANTED: Answer = 1;
/// It gets none.
const REFUSED: Answer = 2;

/// The permits, and who waits for some.
pub struct Permits {
    word: AtomicUsize,
    waiters: WaitList,
}

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
                word: AtomicUsize::new(count * ONE),
                waiters: WaitList::new(),
            }
        }
    }

    /// How many nobody has.
    pub fn available(&self) -> usize {
        self.word.load(Acquire) / ONE
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
        self.word.compare_exchange(ONE, 0, order, Relaxed).is_ok()
    }

    /// Takes some, if there are enough and nobody waits.
    #[inline]
    pub fn try_take(&self, count: usize) -> Result<(), Refusal> {
        let mut word = self.word.load(Relaxed);
        loop {
            // Without either bit, the word itself is the count.
            if word & (WAITERS | CLOSED) != 0 || word < count * ONE {
                return refuse(word, count);
            }
            // Acquire pairs with the release in `give`: what was done under these permits is seen.
            let order = ordering!(Acquire unless seeded = "permits_take_relaxed");
            let next = word - count * ONE;
            match self.word.compare_exchange_weak(word, next, order, Relaxed) {
                Ok(_) => return Ok(()),
                Err(now) => word = now,
            }
        }
    }

    /// Gives some back, or adds some.
    #[inline]
    pub fn give(&self, count: usize) {
        // Release pairs with the acquires of who takes them, here or in `hand_out`.
        let order = ordering!(Release unless seeded = "permits_give_relaxed");
        let before = if cfg!(seeded = "permits_give_looks_first") {
            let before = self.word.load(Relaxed);
            self.word.fetch_add(count * ONE, order);
            before
        } else {
            self.word.fetch_add(count * ONE, order)
        };
        if before & WAITERS != 0 {
            self.hand_out();
        }
    }

    /// Takes up to so many for good: how many those were. What is on its way to others is not there.
    pub fn remove(&self, count: usize) -> usize {
        let mut removed = 0;
        let less = |word: usize| {
            removed = count.min(word / ONE);
            (word & WAITERS == 0).then(|| word - removed * ONE)
        };
        match self.word.fetch_update(Acquire, Relaxed, less) {
            Ok(_) => removed,
            Err(_) => 0,
        }
    }

    /// Lets nobody take any more, also those who wait.
    pub fn close(&self) {
        let waiters = self.waiters.lock();
        self.word.fetch_or(CLOSED, Release);
        self.word.fetch_and(!WAITERS, Relaxed);
        self.waiters.answer_all(waiters, REFUSED);
    }

    /// Hands what is in the word to those who wait, the first first.
    #[cold]
    #[inline(never)]
    fn hand_out(&self) {
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
                match enough {
                    Some(true) => {
                        waiters.answer_first(GRANTED, &mut woken);
                    }
                    Some(false) => break true,
                    None => {
                        // Nobody begins to wait meanwhile. Whoever added permits and saw the bit finds
                        // nobody, and the permits stay in the word.
                        if !cfg!(seeded = "permits_bit_after_unlock") {
                            self.word.fetch_and(!WAITERS, Relaxed);
                        }
                        break true;
                    }
                }
            };
            let is_empty = waiters.is_empty();
            drop(waiters);
            if cfg!(seeded = "permits_bit_after_unlock") && is_empty {
                self.word.fetch_and(!WAITERS, Relaxed);
            }
            woken.wake();
            if is_all {
                return;
            }
        }
    }

    /// Takes what is in the word, but no more than that, for somebody who waits.
    fn take_up_to(&self, most: usize) -> usize {
        let mut taken = 0;
        let less = |word: usize| {
            taken = most.min(word / ONE);
            (taken != 0).then(|| word - taken * ONE)
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
            let available = if word & WAITERS == 0 { word / ONE } else { 0 };
            lacks = count.saturating_sub(available);
            match lacks {
                0 => Some(word - (count.min(available)) * ONE),
                _ => Some((word - available * ONE) | WAITERS),
            }
        };
        // Acquire as in `take_up_to`.
        match self.word.fetch_update(Acquire, Relaxed, step) {
            Ok(_) => Ok(lacks),
            Err(_) => Err(Refusal::Closed),
        }
    }
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

/// Something that has permits in it, or refers to it.
///
/// # Safety
/// It is always the same permits, wherever this is moved, and they live and stay where they are as long as this.
pub unsafe trait Home {
    /// What tasks that wait for it are shown to wait for.
    const WHAT: &'static &'static str;

    /// The permits.
    fn permits(&self) -> &Permits;

    /// Takes some, if there are enough and nobody waits.
    #[inline]
    fn try_take(&self, count: usize) -> bool {
        self.permits().try_take(count).is_ok()
    }

    /// Somebody is about to wait.
    fn on_wait(&self) {}
}

/// Takes permits as soon as it is this one's turn, and is a part of a future that is dropped
/// with it; then what it got goes to the next.
pub struct Take<H: Home> {
    /// None: it has taken them, or was refused.
    home: Option<H>,
    count: usize,
    waiter: Waiter,
}

/// It was closed.
#[derive(Debug)]
pub struct Closed;

impl<H: Home> Take<H> {
    /// Takes `count` of them.
    #[inline]
    pub fn new(home: H, count: usize) -> Self {
        Self {
            home: Some(home),
            count,
            waiter: Waiter::new(),
        }
    }

    /// Takes them, or waits.
    ///
    /// # Panics
    /// When it was ready before.
    #[inline]
    pub fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<H, Closed>> {
        // SAFETY: nothing that is pinned is moved out of it; that is `waiter` alone.
        let this = unsafe { self.get_unchecked_mut() };
        if this.waiter.is_waiting() {
            return this.poll_waiting(cx);
        }
        if proceed(cx).is_pending() {
            return Poll::Pending;
        }
        match &this.home {
            Some(home) if home.try_take(this.count) => Poll::Ready(Ok(this.take_home())),
            _ => this.wait(cx),
        }
    }

    #[inline]
    fn take_home(&mut self) -> H {
        self.home.take().expect("polled after it was ready")
    }

    /// Goes behind all others who wait.
    #[cold]
    #[inline(never)]
    fn wait(&mut self, cx: &mut Context<'_>) -> Poll<Result<H, Closed>> {
        let home = self.home.as_ref().expect("polled after it was ready");
        let permits = home.permits();
        home.on_wait();
        // Foreign code, so without the lock.
        let waker = clone_waker(cx.waker(), H::WHAT);
        let mut waiters = permits.waiters.lock();
        let lacks = permits.take_or_wait(self.count);
        if let Ok(lacks @ 1..) = lacks {
            // SAFETY: 1. pinned, as only `poll` calls this; and it does not wait, as that has asked.
            // 2. `home` keeps the list as long as this lives, and `drop` makes it leave.
            unsafe {
                Pin::new_unchecked(&mut self.waiter).join(&mut waiters, lacks, Some(waker));
            }
            return Poll::Pending;
        }
        drop(waiters);
        drop(waker);
        let home = self.take_home();
        Poll::Ready(lacks.map(|_| home).map_err(|_| Closed))
    }

    /// Looks whether it got them.
    #[cold]
    #[inline(never)]
    fn poll_waiting(&mut self, cx: &mut Context<'_>) -> Poll<Result<H, Closed>> {
        let home = self.home.as_ref().expect("it is there while it waits");
        let permits = home.permits();
        // SAFETY: pinned, as only `poll` calls this; and it waits there, as that has asked.
        let answered = unsafe {
            Pin::new_unchecked(&mut self.waiter).poll(&permits.waiters, cx.waker(), |waker| {
                clone_waker(waker, H::WHAT)
            })
        };
        match answered {
            None => Poll::Pending,
            Some(answered) if answered.answer == Some(GRANTED) => Poll::Ready(Ok(self.take_home())),
            Some(answered) => {
                permits.give_back(self.count - answered.request);
                self.home = None;
                Poll::Ready(Err(Closed))
            }
        }
    }

    /// It is dropped while it waits.
    #[cold]
    #[inline(never)]
    fn leave(&mut self) {
        let home = self.home.as_ref().expect("it is there while it waits");
        let permits = home.permits();
        // SAFETY: it waits, so it is pinned, and it does so in this list.
        let left = unsafe { Pin::new_unchecked(&mut self.waiter).leave(&permits.waiters, |_| {}) };
        if cfg!(seeded = "permits_leave_takes_along")
            || cfg!(broken = "permit_lost_with_its_waiter")
        {
            return;
        }
        permits.give_back(self.count - left.request);
        if cfg!(broken = "permit_passed_on_twice") {
            permits.give_back(self.count - left.request);
        }
    }
}

impl Permits {
    /// Gives back what somebody got who gave up waiting.
    fn give_back(&self, count: usize) {
        if count != 0 {
            self.give(count);
        }
    }
}

impl<H: Home> Drop for Take<H> {
    #[inline]
    fn drop(&mut self) {
        if self.waiter.is_waiting() {
            self.leave();
        }
    }
}
