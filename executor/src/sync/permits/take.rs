//! What takes permits: the part of a future that does so, for whatever has permits in it.

use super::{Closed, Looked, Permits};
use crate::sync::{
    may_proceed, proceed,
    wait_list::Waiter,
    waits::{Lockable, Note},
};
use core::{
    mem::MaybeUninit,
    pin::Pin,
    task::{Context, Poll},
};

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
    type Note: Note;

    /// What who has them needs to give them back.
    type Hold;

    /// This one has taken them.
    fn hold(&self, cx: &Context<'_>) -> Self::Hold;

    /// The lock, if it is one.
    #[inline]
    fn lockable(&self) -> Option<&dyn Lockable> {
        None
    }

    /// Somebody is about to wait.
    fn on_wait(&self) {}
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
    pub fn poll(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(H, H::Hold), Closed>> {
        match self.as_mut().take_now(cx) {
            Some(taken) => Poll::Ready(Ok(taken)),
            None => self.poll_slowly(cx),
        }
    }

    /// Takes them, if it can do so at once.
    #[inline]
    pub fn take_now(self: Pin<&mut Self>, cx: &Context<'_>) -> Option<(H, H::Hold)> {
        // SAFETY: nothing that is pinned is moved out of it; that is `waiter` and `note` alone.
        let this = unsafe { self.get_unchecked_mut() };
        if this.waiter.is_waiting() || !may_proceed() {
            return None;
        }
        // Moved out first: else it would be read again after the step, which nothing is known across.
        let home = this.home.take()?;
        if !home.try_take(this.count) {
            this.home = Some(home);
            return None;
        }
        let hold = home.hold(cx);
        Some((home, hold))
    }

    /// The same as [`poll`](Self::poll), when it could not be done at once.
    ///
    /// # Panics
    /// As that.
    #[cold]
    #[inline(never)]
    pub fn poll_slowly(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(H, H::Hold), Closed>> {
        // SAFETY: as in `take_now`.
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
    fn wait(&mut self, cx: &mut Context<'_>) -> Poll<Result<(H, H::Hold), Closed>> {
        let home = self.home.as_ref().expect("polled after it was ready");
        home.on_wait();
        // SAFETY: 1. pinned, as only `poll` calls this; and it does not wait, as that has asked.
        // 2. `home` keeps the permits as long as this lives, and `drop` makes it leave.
        let taken = unsafe {
            let waiter = Pin::new_unchecked(&mut self.waiter);
            home.permits().wait(waiter, self.count, cx.waker(), H::WHAT)
        };
        if taken.is_pending() {
            // SAFETY: pinned, as above; and it has begun to wait.
            unsafe { H::Note::begin(&mut self.note, home.lockable(), &self.waiter, cx) };
        }
        taken.map(|taken| self.finish(taken, cx))
    }

    /// Looks whether it got them.
    fn poll_waiting(&mut self, cx: &mut Context<'_>) -> Poll<Result<(H, H::Hold), Closed>> {
        let home = self.home.as_ref().expect(WAITS);
        // SAFETY: pinned, as only `poll` calls this; and it waits there, as that has asked.
        let looked = unsafe {
            let waiter = Pin::new_unchecked(&mut self.waiter);
            home.permits().look(waiter, self.count, cx.waker(), H::WHAT)
        };
        let Poll::Ready(looked) = looked else {
            // SAFETY: it has begun, when it began to wait.
            unsafe { H::Note::go_on(&mut self.note, home.lockable(), cx) };
            return Poll::Pending;
        };
        // First it has them, then it waits no more: in between it would be nobody to who looks.
        let hold = matches!(looked, Looked::Granted).then(|| home.hold(cx));
        // SAFETY: it has begun, and is not used any more.
        unsafe { H::Note::end(&mut self.note, home.lockable()) };
        match (looked, hold) {
            (_, Some(hold)) => Poll::Ready(Ok((self.take_home(), hold))),
            (Looked::Skipped, None) => self.wait(cx),
            (_, None) => Poll::Ready(Err(Closed)),
        }
    }

    #[inline]
    fn finish(
        &mut self,
        taken: Result<(), Closed>,
        cx: &Context<'_>,
    ) -> Result<(H, H::Hold), Closed> {
        taken?;
        let home = self.take_home();
        let hold = home.hold(cx);
        Ok((home, hold))
    }

    /// It is dropped while it waits.
    #[cold]
    #[inline(never)]
    fn leave(&mut self) {
        let home = self.home.as_ref().expect(WAITS);
        // SAFETY: it waits, so it is pinned, and it does so there; and no more after that.
        unsafe {
            H::Note::give_up(&self.note);
            let waiter = Pin::new_unchecked(&mut self.waiter);
            home.permits().leave(waiter, self.count);
            H::Note::end(&mut self.note, home.lockable());
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
