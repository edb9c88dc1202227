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
use crate::shim::{const_unless_loom, discard, ordering};
use core::{
    mem::MaybeUninit,
    pin::Pin,
    ptr::NonNull,
    task::{Context, Poll, Waker},
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
const GRANTED: Answer = 1;
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
        if ((before + count) as isize) < 0 {
            self.hand_out();
        }
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
        self.hand_out();
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

    /// What was refused has `count` permits again, and nobody has any. `first` is called under the list's lock.
    #[cfg(all(feature = "alloc", not(loom)))]
    pub fn reopen(&self, count: usize, first: impl FnOnce()) {
        loop {
            let mut woken = Woken::new();
            let mut waiters = self.waiters.lock();
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
            self.note_granted(&woken);
            woken.wake();
            if is_all {
                return;
            }
        }
    }

    /// Those who are about to be woken have got theirs: they may be of a lower priority than others who wait.
    fn note_granted(&self, _woken: &Woken) {
        #[cfg(all(feature = "alloc", not(loom)))]
        if crate::scheduler::inherit::is_used() && !hal::irq::in_handler() {
            super::waits::granted(self, _woken);
        }
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
            unsafe { waiter.join(&mut waiters, lacks, Some(waker)) };
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
        waiter: Pin<&mut Waiter>,
        count: usize,
        waker: &Waker,
        what: &'static &'static str,
    ) -> Poll<Result<(), Closed>> {
        // SAFETY: it waits in this list, the caller says.
        let answered =
            unsafe { waiter.poll(&self.waiters, waker, |waker| clone_waker(waker, what)) };
        match answered {
            None => Poll::Pending,
            Some(answered) if answered.answer == Some(GRANTED) => Poll::Ready(Ok(())),
            Some(answered) => {
                if !is_void(answered.answer) {
                    self.give_back(count - answered.request);
                }
                Poll::Ready(Err(Closed))
            }
        }
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
            return self.hand_out();
        }
        if left.answer.is_none() || is_void(left.answer) {
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

/// Whether the permits of who was answered so are nobody's.
fn is_void(_answer: Option<Answer>) -> bool {
    #[cfg(all(feature = "alloc", not(loom)))]
    return _answer == Some(VOID);
    #[cfg(not(all(feature = "alloc", not(loom))))]
    false
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

    /// What is noted of who waits, while he does.
    type Note;

    /// What who has them needs to give them back.
    type Hold;

    /// This one has taken them.
    fn hold(&self, cx: &Context<'_>) -> Self::Hold;

    /// Somebody is about to wait, and looks at the permits after this.
    ///
    /// # Safety
    /// The note is pinned, and neither it nor the permits go away before [`end_wait`](Self::end_wait).
    unsafe fn begin_wait(&self, _: &mut MaybeUninit<Self::Note>, _: NonNull<Waiter>, _: usize) {}

    /// He waits no more.
    ///
    /// # Safety
    /// He did, with this note, and it is not used again.
    unsafe fn end_wait(&self, _: &mut MaybeUninit<Self::Note>) {}
}

/// Takes permits as soon as it is this one's turn, and is a part of a future that is dropped
/// with it; then what it got goes to the next.
pub struct Take<H: Home> {
    /// None: it has taken them.
    home: Option<H>,
    count: usize,
    waiter: Waiter,
    /// There while it waits.
    note: MaybeUninit<H::Note>,
}

/// It was closed.
#[derive(Debug)]
pub struct Closed;

const WAITS: &str = "it is there while it waits";

impl<H: Home> Take<H> {
    /// Takes `count` of them.
    #[inline]
    pub fn new(home: H, count: usize) -> Self {
        Self {
            home: Some(home),
            count,
            waiter: Waiter::new(),
            note: MaybeUninit::uninit(),
        }
    }

    /// Takes them, or waits.
    ///
    /// # Panics
    /// When it was ready before.
    #[inline]
    pub fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(H, H::Hold), Closed>> {
        // SAFETY: nothing that is pinned is moved out of it; that is `waiter` alone.
        let this = unsafe { self.get_unchecked_mut() };
        if this.waiter.is_waiting() {
            return this.poll_waiting(cx);
        }
        if proceed(cx).is_pending() {
            return Poll::Pending;
        }
        this.take_or_wait(cx)
    }

    /// The same, also if others should have their turn: after the first poll it has its place among those who wait.
    ///
    /// # Panics
    /// When it was ready before.
    #[cfg(all(feature = "alloc", not(loom)))]
    pub fn poll_at_once(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(H, H::Hold), Closed>> {
        // SAFETY: as in `poll`.
        let this = unsafe { self.get_unchecked_mut() };
        match this.waiter.is_waiting() {
            true => this.poll_waiting(cx),
            false => this.take_or_wait(cx),
        }
    }

    /// It does not wait yet.
    #[inline]
    fn take_or_wait(&mut self, cx: &mut Context<'_>) -> Poll<Result<(H, H::Hold), Closed>> {
        match &self.home {
            Some(home) if home.try_take(self.count) => {
                let home = self.take_home();
                let hold = home.hold(cx);
                Poll::Ready(Ok((home, hold)))
            }
            _ => self.wait(cx),
        }
    }

    /// What it takes them from, as long as it has not.
    pub fn home(&self) -> Option<&H> {
        self.home.as_ref()
    }

    #[inline]
    fn take_home(&mut self) -> H {
        self.home.take().expect("polled after it was ready")
    }

    /// Goes behind all others who wait.
    #[cold]
    #[inline(never)]
    fn wait(&mut self, cx: &mut Context<'_>) -> Poll<Result<(H, H::Hold), Closed>> {
        let home = self.home.as_ref().expect("polled after it was ready");
        // Foreign code: before anything is noted, and without a lock.
        let waker = clone_waker(cx.waker(), H::WHAT);
        // SAFETY: 1. pinned, as only `poll` calls this; and it does not wait, as that has asked.
        // 2. `home` keeps the permits as long as this lives, and `drop` makes it leave.
        let taken = unsafe {
            home.begin_wait(&mut self.note, (&mut self.waiter).into(), self.count);
            let waiter = Pin::new_unchecked(&mut self.waiter);
            home.permits().wait_with(waiter, self.count, waker)
        };
        self.finish(taken, cx)
    }

    /// Looks whether it got them.
    #[cold]
    #[inline(never)]
    fn poll_waiting(&mut self, cx: &mut Context<'_>) -> Poll<Result<(H, H::Hold), Closed>> {
        let permits = self.home.as_ref().expect(WAITS).permits();
        // SAFETY: pinned, as only `poll` calls this; and it waits there, as that has asked.
        let taken = unsafe {
            let waiter = Pin::new_unchecked(&mut self.waiter);
            permits.poll_waiting(waiter, self.count, cx.waker(), H::WHAT)
        };
        self.finish(taken, cx)
    }

    fn finish(
        &mut self,
        taken: Poll<Result<(), Closed>>,
        cx: &Context<'_>,
    ) -> Poll<Result<(H, H::Hold), Closed>> {
        taken.map(|taken| {
            let home = self.home.as_ref().expect(WAITS);
            // First it has them, then it waits no more: in between it would be nobody to who looks.
            let hold = taken.map(|()| home.hold(cx));
            // SAFETY: it has begun to wait, and does so no more.
            unsafe { home.end_wait(&mut self.note) };
            hold.map(|hold| (self.take_home(), hold))
        })
    }

    /// It is dropped while it waits.
    #[cold]
    #[inline(never)]
    fn leave(&mut self) {
        let home = self.home.as_ref().expect(WAITS);
        // SAFETY: it waits, so it is pinned, and it does so there; and no more after that.
        unsafe {
            let waiter = Pin::new_unchecked(&mut self.waiter);
            home.permits().leave(waiter, self.count);
            home.end_wait(&mut self.note);
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
