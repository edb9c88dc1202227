//! Models of hal's lock-free protocols: loom tries every order in which
//! threads can run and every value that an atomic load may see. `tools/loom`
//! runs them, and then again with each seeded bug, which some model must find.
#![cfg(loom)]

use hal::{cores::Arrival, flush::Flushes, reserve::Reserve, sync::flag::Flag};
use loom::{
    cell::UnsafeCell,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::*, fence},
    },
    thread,
};
use std::cell::Cell;

/// Something that one thread at a time may touch: loom finds out if two do, or
/// if one does not see what the other wrote.
struct Guarded {
    lock: Flag,
    value: UnsafeCell<usize>,
}

impl Guarded {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            lock: Flag::new(),
            value: UnsafeCell::new(0),
        })
    }

    fn add_locked(&self) {
        self.lock.lock(thread::yield_now);
        self.add();
        self.lock.unlock();
    }

    fn add_if_free(&self) -> bool {
        let entered = self.lock.try_lock();
        if entered {
            self.add();
            self.lock.unlock();
        }
        entered
    }

    fn add(&self) {
        // SAFETY: the lock is held, and loom checks that this is enough.
        self.value.with_mut(|value| unsafe { *value += 1 });
    }

    fn value(&self) -> usize {
        self.lock.lock(thread::yield_now);
        // SAFETY: as for `add`.
        let value = self.value.with(|value| unsafe { *value });
        self.lock.unlock();
        value
    }
}

#[test]
fn lock() {
    loom::model(|| {
        let guarded = Guarded::new();
        let other = {
            let guarded = guarded.clone();
            thread::spawn(move || {
                guarded.add_locked();
                guarded.add_locked();
            })
        };
        guarded.add_locked();
        guarded.add_locked();
        other.join().unwrap();
        assert_eq!(guarded.value(), 4);
    });
}

#[test]
fn try_lock() {
    loom::model(|| {
        let guarded = Guarded::new();
        let others = [0, 1].map(|_| {
            let guarded = guarded.clone();
            thread::spawn(move || usize::from(guarded.add_if_free()))
        });
        guarded.add_locked();
        let entered: usize = others.map(|other| other.join().unwrap()).iter().sum();
        assert_eq!(guarded.value(), 1 + entered);
    });
}

/// What a core sets up before it arrives, and who is responsible for it after.
struct Bringup {
    arrival: Arrival,
    set_up: UnsafeCell<bool>,
}

#[test]
fn arrival() {
    loom::model(|| {
        let core = Arc::new(Bringup {
            arrival: Arrival::new(),
            set_up: UnsafeCell::new(false),
        });
        let joins = {
            let core = core.clone();
            thread::spawn(move || {
                // SAFETY: the core's own until it has arrived.
                core.set_up.with_mut(|set_up| unsafe { *set_up = true });
                core.arrival.arrive()
            })
        };
        // One look, then patience is over.
        let is_up = core.arrival.is_up() || !core.arrival.give_up();
        if is_up {
            // SAFETY: it has arrived; loom checks that what it did before is seen.
            assert!(core.set_up.with(|set_up| unsafe { *set_up }));
        }
        assert_eq!(joins.join().unwrap(), is_up, "both decide, or none does");
        assert_eq!(core.arrival.is_up(), is_up, "a late core stays out");
    });
}

const MAPPED: usize = 1;
const UNMAPPED: usize = 0;

/// One page: its entry in the table, which every core walks, and the memory
/// behind it, which is used for something else once all have forgotten it.
struct Page {
    entry: AtomicUsize,
    memory: UnsafeCell<usize>,
    flushes: Flushes<2>,
    arrival: Arrival,
}

impl Page {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            entry: AtomicUsize::new(MAPPED),
            memory: UnsafeCell::new(0),
            flushes: Flushes::new(),
            arrival: Arrival::new(),
        })
    }

    /// What [`flush::flush_point`](hal::flush::flush_point) does.
    fn flush_point(&self, core: usize, flush: impl FnOnce()) {
        fence(SeqCst);
        self.flushes.pass(core, flush);
    }

    /// Unmaps the page as core 0 does, and draws a number.
    fn unmap(&self) -> u64 {
        self.entry.store(UNMAPPED, Relaxed);
        let number = self.flushes.issue();
        self.flush_point(0, || ());
        number
    }

    /// Uses the memory for something else.
    fn reuse(&self) {
        // SAFETY: no core can reach it through the page any more; loom checks that.
        self.memory.with_mut(|memory| unsafe { *memory = 1 });
    }
}

/// Core 1's cached translation of the page. The core may walk the table and
/// cache what it finds at any time, not only when it needs it.
struct Tlb<'a> {
    page: &'a Page,
    cached: Cell<usize>,
}

impl<'a> Tlb<'a> {
    fn new(page: &'a Page) -> Self {
        let cached = Cell::new(page.entry.load(Relaxed));
        Self { page, cached }
    }

    /// An access, by the cached translation.
    fn access(&self) {
        if self.cached.get() == MAPPED {
            // SAFETY: the page leads here; loom checks that nobody uses it otherwise at the same time.
            self.page
                .memory
                .with(|memory| assert_eq!(unsafe { *memory }, 0));
        }
    }

    /// The flush; and at once another walk.
    fn flush(&self) {
        self.cached.set(self.page.entry.load(Relaxed));
    }
}

#[test]
fn flush_ticket() {
    loom::model(|| {
        let page = Page::new();
        let other = {
            let page = page.clone();
            thread::spawn(move || {
                let tlb = Tlb::new(&page);
                // Interrupts come until the one that the unmapping core waits for was among them.
                while !page.flushes.has_passed(1, 1) {
                    page.flush_point(1, || {
                        // Up to its last moment, the core may use what it drops.
                        tlb.access();
                        tlb.flush();
                    });
                    thread::yield_now();
                }
                tlb.access();
            })
        };
        let number = page.unmap();
        while !page.flushes.has_passed(1, number) {
            thread::yield_now();
        }
        page.reuse();
        other.join().unwrap();
    });
}

/// Two changes, two numbers, no fences that hide an ordering which is too weak.
#[test]
fn flush_two_tickets() {
    loom::model(|| {
        let pages = [Page::new(), Page::new()];
        let flushes = Arc::new(Flushes::<2>::new());
        let other = {
            let (pages, flushes) = (pages.clone(), flushes.clone());
            thread::spawn(move || {
                let tlbs = pages.each_ref().map(|page| Tlb::new(page));
                flushes.pass(1, || {
                    for tlb in &tlbs {
                        tlb.access();
                        tlb.flush();
                    }
                });
                tlbs.iter().for_each(Tlb::access);
            })
        };
        let numbers = pages.each_ref().map(|page| {
            page.entry.store(UNMAPPED, Relaxed);
            flushes.issue()
        });
        for (page, number) in pages.iter().zip(numbers) {
            if flushes.has_passed(1, number) {
                page.reuse();
            }
        }
        other.join().unwrap();
    });
}

/// A core that comes up while a page is unmapped: whoever unmaps does not wait
/// for a core that is not online, so it must not bring an old translation along.
#[test]
fn flush_while_a_core_comes_up() {
    loom::model(|| {
        let page = Page::new();
        let other = {
            let page = page.clone();
            thread::spawn(move || {
                // Before it is online, it caches translations, but uses none that may change.
                let tlb = Tlb::new(&page);
                page.flushes.join(1, || tlb.flush());
                assert!(page.arrival.arrive());
                page.flush_point(1, || tlb.flush());
                tlb.access();
            })
        };
        let number = page.unmap();
        if !page.arrival.is_up() || page.flushes.has_passed(1, number) {
            page.reuse();
        }
        other.join().unwrap();
    });
}

/// Frames that are zeroed before they are put into a reserve, and used by who takes them.
struct Stock {
    reserve: Reserve<2>,
    /// How many were given by the source; the frame's number is its place plus one.
    given: AtomicUsize,
    frames: [UnsafeCell<usize>; 6],
    /// How often each came out: taken, or too much.
    out: [AtomicUsize; 6],
}

impl Stock {
    fn refill(&self) {
        let source = || {
            let frame = self.given.fetch_add(1, Relaxed);
            // SAFETY: nobody else has this frame; loom checks that.
            self.frames[frame].with_mut(|frame| unsafe { *frame = 1 });
            Some(frame as u64 + 1)
        };
        self.reserve.refill(source, |frame| self.use_up(frame));
    }

    fn use_up(&self, frame: u64) {
        let frame = frame as usize - 1;
        // SAFETY: as above.
        let content = self.frames[frame].with_mut(|frame| unsafe { core::mem::take(&mut *frame) });
        assert_eq!(content, 1);
        self.out[frame].fetch_add(1, Relaxed);
    }
}

/// The core whose reserve it is takes and fills, and one that was moved away fills too.
#[test]
fn reserve() {
    loom::model(|| {
        let stock = Arc::new(Stock {
            reserve: Reserve::new(),
            given: AtomicUsize::new(0),
            frames: core::array::from_fn(|_| UnsafeCell::new(0)),
            out: core::array::from_fn(|_| AtomicUsize::new(0)),
        });
        let other = {
            let stock = stock.clone();
            thread::spawn(move || stock.refill())
        };
        stock.refill();
        if let Some(frame) = stock.reserve.take() {
            stock.use_up(frame);
        }
        other.join().unwrap();
        let left = stock.reserve.count();
        assert!(left == 2 || stock.reserve.lacks(), "nobody would fill it");
        while let Some(frame) = stock.reserve.take() {
            stock.use_up(frame);
        }
        for frame in &stock.out[..stock.given.load(Relaxed)] {
            assert_eq!(frame.load(Relaxed), 1, "each frame comes out once");
        }
    });
}
