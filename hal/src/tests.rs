//! Tests of hal in the image that need no more than one core. Those that need
//! several are in the kernel, which can put cores to work.

use crate::{irq, preempt, sync::Lock};
use testing::kernel_test;

#[kernel_test]
fn a_held_lock_is_not_taken_by_a_try() {
    static VALUE: Lock<u32> = Lock::new(0);
    let held = VALUE.lock();
    assert!(VALUE.try_lock().is_none());
    drop(held);
    assert!(VALUE.try_lock().is_some());
    assert!(irq::are_enabled());
}

#[kernel_test]
fn masks_may_be_dropped_in_any_order() {
    let first = irq::mask();
    let second = irq::mask();
    drop(first);
    assert!(!irq::are_enabled(), "one is left");
    let third = irq::mask();
    drop(second);
    assert!(!irq::are_enabled(), "one is left");
    drop(third);
    assert!(irq::are_enabled());
}

#[kernel_test]
fn guards_are_counted() {
    assert!(preempt::is_allowed());
    let first = preempt::guard();
    let second = preempt::guard();
    drop(first);
    assert!(!preempt::is_allowed());
    drop(second);
    assert!(preempt::is_allowed());
}
