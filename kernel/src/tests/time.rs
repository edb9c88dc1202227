//! The clock and the timers.

use crate::{cores::on_all, upcalls::counts};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use hal::{clock, cores, irq};
use testing::kernel_test;

fn timers() -> u64 {
    counts(cores::this_core()).timers.load(Relaxed)
}

fn sleep_until_timer(seen: u64) {
    loop {
        let masked = irq::mask();
        if timers() > seen {
            return;
        }
        irq::wait(&masked);
    }
}

#[kernel_test]
fn time_goes_on_and_never_back() {
    let latest = AtomicU64::new(0);
    on_all(&|_| {
        let mut last = clock::now();
        for _ in 0..2_000 {
            let now = clock::now();
            assert!(now >= last, "{now} after {last}");
            last = now;
            latest.fetch_max(now, Relaxed);
        }
    });
    let seen = latest.load(Relaxed);
    assert!(seen > 0);
    assert!(
        clock::now() >= seen,
        "what another core has seen is past here too"
    );
}

#[kernel_test(limit = 120)]
fn a_timer_fires_on_every_core_and_not_too_early() {
    on_all(&|core| {
        for wait in [0, 1_000, 100_000, 3_000_000] {
            let seen = timers();
            let deadline = clock::now() + wait;
            clock::arm(deadline);
            sleep_until_timer(seen);
            let now = clock::now();
            assert!(
                now >= deadline,
                "core {core}: at {now}, {} ns early",
                deadline - now
            );
            assert_eq!(timers(), seen + 1, "once");
        }
    });
}

#[kernel_test]
fn a_deadline_in_the_past_fires_at_once_and_once() {
    for replaces_another in [false, true] {
        let seen = timers();
        if replaces_another {
            // A timer that is on may fire in the middle of being set.
            clock::arm(u64::MAX / 2);
        }
        clock::arm(0);
        sleep_until_timer(seen);
        assert_eq!(timers(), seen + 1);
    }
}

#[kernel_test]
fn a_disarmed_timer_stays_silent_and_the_last_deadline_counts() {
    let mut ahead = 2_000_000;
    let (seen, deadline) = loop {
        let (seen, deadline) = (timers(), clock::now() + ahead);
        clock::arm(deadline);
        clock::disarm();
        if clock::now() < deadline {
            break (seen, deadline);
        }
        // Held up for so long that it was not disarmed in time.
        ahead *= 2;
    };
    while clock::now() < deadline + 4_000_000 {
        hal::pause();
    }
    assert_eq!(timers(), seen);
    // A far one, replaced by a near one; and the far one, in centuries, is no overflow.
    clock::arm(u64::MAX / 2);
    clock::arm(clock::now() + 1_000_000);
    sleep_until_timer(seen);
    assert_eq!(timers(), seen + 1);
}
