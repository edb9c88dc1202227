//! Tests of interrupts between threads that play cores: kicks, timers, lines,
//! giving way, and the tickets that stand on them.
#![cfg(not(loom))]

use hal::{
    bring_up, clock,
    context::{self, AfterSwitch, ContextBlock, Frame},
    cores::{self, MAX_CORES},
    flush,
    irq::{self, Line},
    preempt,
    stack::Bounds,
    sync::Lock,
    traps::{self, Fault, Switch, Upcalls},
};
use std::{
    ptr::NonNull,
    sync::{
        Mutex, Once,
        atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering::*},
    },
};

/// What each core heard.
struct Heard {
    kicks: AtomicUsize,
    timers: AtomicUsize,
    lines: AtomicU64,
    ways: AtomicUsize,
    /// Whether the next kick asks to give way.
    asks: AtomicBool,
    /// When the timer fired.
    fired: AtomicU64,
    /// Context to resume at the end of the next interrupt.
    next: AtomicPtr<ContextBlock>,
}

static HEARD: [Heard; MAX_CORES] = [const {
    Heard {
        kicks: AtomicUsize::new(0),
        timers: AtomicUsize::new(0),
        lines: AtomicU64::new(0),
        ways: AtomicUsize::new(0),
        asks: AtomicBool::new(false),
        fired: AtomicU64::new(0),
        next: AtomicPtr::new(std::ptr::null_mut()),
    }
}; MAX_CORES];

fn heard() -> &'static Heard {
    &HEARD[cores::this_core()]
}

struct Listener;

impl Upcalls for Listener {
    fn on_timer(&self) {
        assert!(irq::in_handler() && !irq::are_enabled());
        heard().fired.store(clock::now(), Relaxed);
        heard().timers.fetch_add(1, Relaxed);
    }
    fn on_kick(&self) {
        assert!(irq::in_handler() && !irq::are_enabled());
        // A lock in a handler does not let interrupts in behind its back.
        drop(irq::mask());
        assert!(!irq::are_enabled());
        heard().kicks.fetch_add(1, Relaxed);
        if heard().asks.swap(false, Relaxed) {
            preempt::request();
            drop(preempt::guard());
        }
    }
    fn on_line(&self, line: Line) {
        heard().lines.fetch_or(1 << line.0, Relaxed);
    }
    fn on_fault(&self, fault: &Fault, _: &Frame) -> Switch {
        panic!("{fault}")
    }
    fn on_exit(
        &self,
        interrupted: &'static ContextBlock,
    ) -> Option<(NonNull<ContextBlock>, AfterSwitch)> {
        let next = NonNull::new(heard().next.swap(std::ptr::null_mut(), Relaxed))?;
        let back = std::ptr::from_ref(interrupted).expose_provenance();
        extern "C" fn left(block: usize) {
            LEFT.store(std::ptr::with_exposed_provenance_mut(block), Release);
        }
        Some((
            next,
            AfterSwitch {
                run: left,
                argument: back,
            },
        ))
    }
    fn give_way(&self) {
        assert!(!irq::in_handler());
        heard().ways.fetch_add(1, Relaxed);
    }
}

/// Context that was left at the end of an interrupt.
static LEFT: AtomicPtr<ContextBlock> = AtomicPtr::new(std::ptr::null_mut());

/// A machine whose interrupts are listened to.
fn machine(count: usize, main: impl Fn(usize) + Sync) {
    static REGISTER: Once = Once::new();
    REGISTER.call_once(|| traps::register(&(&Listener as &dyn Upcalls)));
    bring_up::start(count, |core| {
        for counter in [&heard().kicks, &heard().timers, &heard().ways] {
            counter.store(0, Relaxed);
        }
        heard().lines.store(0, Relaxed);
        main(core);
    });
}

/// Waits until `is_so`, asleep between interrupts; whoever makes it so must kick.
fn wait_until(is_so: impl Fn() -> bool) {
    let masked = irq::mask();
    while !is_so() {
        irq::wait(&masked);
    }
}

#[test]
fn no_kick_is_missed_however_close_to_falling_asleep() {
    const ROUNDS: usize = 20_000;
    let ball = AtomicUsize::new(0);
    machine(2, |core| {
        irq::enable_each_core();
        for round in 0..ROUNDS {
            wait_until(|| ball.load(Acquire) == 2 * round + core);
            ball.store(2 * round + core + 1, Release);
            cores::kick(1 - core);
        }
    });
    assert_eq!(ball.load(Relaxed), 2 * ROUNDS);
}

#[test]
fn no_kick_is_missed_by_one_that_falls_asleep_as_it_comes() {
    const ROUNDS: usize = 50_000;
    let ball = AtomicUsize::new(0);
    machine(2, |core| {
        irq::enable_each_core();
        for round in 0..ROUNDS {
            if core == 1 {
                ball.store(2 * round + 1, Release);
                wait_until(|| ball.load(Acquire) == 2 * round + 2);
                continue;
            }
            // Awake and as fast as it gets, then a little later in each round than in the last.
            let mut looks = 0;
            while ball.load(Acquire) != 2 * round + 1 {
                looks += 1;
                if looks % 10_000 == 0 {
                    hal::pause();
                }
            }
            for _ in 0..round % 100 {
                std::hint::spin_loop();
            }
            ball.store(2 * round + 2, Release);
            cores::kick(1);
        }
    });
}

#[test]
fn a_kick_while_masked_waits_for_the_unmask_and_comes_once() {
    let step = AtomicUsize::new(0);
    machine(2, |core| {
        if core == 0 {
            cores::kick(1);
            cores::kick(1);
            step.store(1, Release);
            return;
        }
        let masked = irq::mask();
        while step.load(Acquire) == 0 {
            hal::pause();
        }
        assert_eq!(heard().kicks.load(Relaxed), 0);
        drop(masked);
        assert_eq!(heard().kicks.load(Relaxed), 0, "a core comes up masked");
        irq::enable_each_core();
        assert_eq!(heard().kicks.load(Relaxed), 1);
        assert!(irq::are_enabled() && !irq::in_handler());
    });
}

#[test]
fn waiting_takes_what_is_pending_and_returns_masked() {
    machine(1, |_| {
        let masked = irq::mask();
        cores::kick(0);
        irq::wait(&masked);
        assert_eq!(heard().kicks.load(Relaxed), 1);
        assert!(!irq::are_enabled());
    });
}

#[test]
fn a_timer_fires_once_and_not_before_its_deadline() {
    machine(1, |_| {
        irq::enable_each_core();
        for (turn, micros) in [0, 1, 50, 1000, 5000].into_iter().enumerate() {
            let deadline = clock::now() + micros * 1000;
            clock::arm(deadline);
            wait_until(|| heard().timers.load(Relaxed) > turn);
            assert_eq!(heard().timers.load(Relaxed), turn + 1);
            assert!(heard().fired.load(Relaxed) >= deadline);
            assert!(clock::now() >= deadline);
        }
    });
}

#[test]
fn a_later_deadline_replaces_an_earlier_one_and_disarming_ends_it() {
    machine(1, |_| {
        irq::enable_each_core();
        let later = clock::now() + 20_000_000;
        clock::arm(clock::now() + 1_000_000);
        clock::arm(later);
        wait_until(|| heard().timers.load(Relaxed) > 0);
        assert!(heard().fired.load(Relaxed) >= later);
        clock::arm(clock::now() + 1_000_000);
        clock::disarm();
        let end = clock::now() + 3_000_000;
        while clock::now() < end {
            hal::pause();
        }
        drop(irq::mask());
        assert_eq!(heard().timers.load(Relaxed), 1);
    });
}

#[test]
fn a_timer_reaches_a_core_that_spins_but_not_one_that_is_masked() {
    machine(1, |_| {
        let masked = irq::mask();
        clock::arm(0);
        hal::pause();
        assert_eq!(heard().timers.load(Relaxed), 0);
        drop(masked);
        irq::enable_each_core();
        assert_eq!(heard().timers.load(Relaxed), 1);
        clock::arm(clock::now() + 100_000);
        while heard().timers.load(Relaxed) == 1 {
            hal::pause();
        }
    });
}

#[test]
fn a_line_interrupts_the_core_that_it_goes_to_while_it_is_enabled() {
    let is_over = AtomicUsize::new(0);
    machine(2, |core| {
        irq::enable_each_core();
        if core == 1 {
            wait_until(|| is_over.load(Acquire) == 1);
            assert_eq!(heard().lines.load(Relaxed), 1 << 5);
            return;
        }
        irq::enable_line(Line(5), 1);
        irq::enable_line(Line(6), 1);
        irq::disable_line(Line(6));
        bring_up::raise_line(5);
        bring_up::raise_line(6);
        is_over.store(1, Release);
        cores::kick(1);
        assert_eq!(heard().lines.load(Relaxed), 0);
        irq::disable_line(Line(5));
    });
}

#[test]
fn the_last_guard_gives_way_if_it_was_asked_to() {
    machine(1, |_| {
        irq::enable_each_core();
        let ways = || heard().ways.load(Relaxed);
        let (first, second) = (preempt::guard(), preempt::guard());
        preempt::request();
        drop(first);
        assert_eq!(ways(), 0);
        drop(second);
        assert_eq!(ways(), 1);
        drop(preempt::guard());
        assert_eq!(ways(), 1, "once for each request");
        let guard = preempt::guard();
        preempt::request();
        assert_eq!(guard.release("value"), "value");
        assert_eq!(ways(), 2);
    });
}

#[test]
fn nobody_gives_way_in_a_handler_or_under_a_lock() {
    machine(1, |_| {
        irq::enable_each_core();
        let ways = || heard().ways.load(Relaxed);
        // As a wake does, in the handler that has just asked.
        heard().asks.store(true, Relaxed);
        cores::kick(cores::this_core());
        assert_eq!(heard().kicks.load(Relaxed), 1);
        assert_eq!(ways(), 0, "not in the handler");
        let lock = Lock::new(());
        let locked = lock.lock();
        drop(preempt::guard());
        assert_eq!(ways(), 0, "others wait for the lock");
        drop(locked);
        drop(preempt::guard());
        assert_eq!(ways(), 1, "but not for ever");
    });
}

#[test]
fn an_interrupt_may_end_in_another_context() {
    static STEPS: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn other(_: usize) -> ! {
        assert!(!irq::in_handler());
        irq::enable_after_start();
        let back = NonNull::new(LEFT.load(Acquire))
            .expect("the old context was offered before this one began");
        STEPS.fetch_add(1, Relaxed);
        // Back the same way: at the end of an interrupt.
        heard().next.store(back.as_ptr(), Relaxed);
        cores::kick(cores::this_core());
        unreachable!("nobody resumes this context")
    }
    machine(1, |_| {
        irq::enable_each_core();
        let stack: &'static mut [u128] = vec![0; 4096].leak();
        let low = stack.as_mut_ptr().expose_provenance();
        let block: &'static ContextBlock = Box::leak(Box::default());
        // SAFETY: new, and the stack is its own.
        unsafe {
            block.prepare(
                Bounds {
                    low,
                    high: low + 65536,
                },
                other,
                0,
            )
        };
        let me = context::current();
        heard()
            .next
            .store(std::ptr::from_ref(block).cast_mut(), Relaxed);
        cores::kick(0);
        assert!(std::ptr::eq(context::current(), me));
        assert_eq!(STEPS.load(Relaxed), 1);
        assert_eq!(heard().kicks.load(Relaxed), 2);
        assert!(irq::are_enabled() && !irq::in_handler());
    });
}

#[test]
fn a_ticket_is_done_when_every_core_has_flushed() {
    let step = AtomicUsize::new(0);
    let is_at = |n| step.load(Acquire) == n;
    machine(2, |core| {
        if core == 1 {
            let before = bring_up::flushes_of(1);
            let masked = irq::mask();
            while !is_at(1) {
                hal::pause();
            }
            assert_eq!(bring_up::flushes_of(1), before, "no flush while masked");
            flush::flush_point();
            assert_eq!(bring_up::flushes_of(1), before + 1);
            flush::flush_point();
            assert_eq!(
                bring_up::flushes_of(1),
                before + 1,
                "nothing new, nothing to flush"
            );
            step.store(2, Release);
            drop(masked);
            irq::enable_each_core();
            // `wait` kicks this core out of its sleep.
            wait_until(|| is_at(3));
            assert_eq!(bring_up::flushes_of(1), before + 2);
            return;
        }
        irq::enable_each_core();
        let before = bring_up::flushes_of(0);
        let ticket = flush::issue();
        assert_eq!(
            bring_up::flushes_of(0),
            before + 1,
            "who issues flushes at once"
        );
        assert!(!ticket.is_done());
        step.store(1, Release);
        while !is_at(2) {
            hal::pause();
        }
        assert!(ticket.is_done());
        let next = flush::issue();
        assert!(ticket.is_done() && !next.is_done());
        next.wait();
        assert!(next.is_done());
        step.store(3, Release);
        cores::kick(1);
    });
}

#[test]
fn a_core_that_comes_up_owes_no_flush() {
    let drawn = Mutex::new(None);
    machine(1, |_| *drawn.lock().unwrap() = Some(flush::issue()));
    let ticket = drawn.lock().unwrap().expect("the machine ran");
    machine(3, |_| {
        assert!(
            ticket.is_done(),
            "the others were not there to see the old translation"
        )
    });
}
