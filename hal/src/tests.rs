//! Tests of hal in the image that need no more than one core. Those that need
//! several are in the kernel, which can put cores to work.

use crate::{
    context::{self, ContextBlock},
    cores, irq, preempt,
    stack::Bounds,
    sync::Lock,
    unwind,
};
use core::ptr;
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

#[kernel_test]
fn a_core_keeps_a_word() {
    let mut word = 0u64;
    let at = (&raw mut word).cast();
    let _guard = preempt::guard();
    assert!(cores::local().is_null());
    cores::set_local(at);
    assert_eq!(cores::local(), at);
    cores::set_local(ptr::null_mut());
}

#[kernel_test]
fn a_context_keeps_its_task_and_locals_until_it_is_prepared_anew() {
    extern "C" fn never(_: usize) -> ! {
        unreachable!("nobody resumes it")
    }
    let here = context::current();
    assert!(here.task().is_null() && here.locals().is_null());
    let mut words = [0u64; 2];
    let [task, locals] = words.each_mut().map(|word| ptr::from_mut(word).cast());
    let block = ContextBlock::new();
    block.set_task(task);
    block.set_locals(locals);
    assert_eq!((block.task(), block.locals()), (task, locals));
    // SAFETY: it does not run, and never will.
    unsafe { block.prepare(Bounds::EMPTY, never, 0) };
    assert!(block.task().is_null() && block.locals().is_null());
}

#[kernel_test]
fn catching_costs_nothing_where_nothing_unwinds() {
    assert_eq!(size_of::<Result<u64, unwind::Payload>>(), size_of::<u64>());
    assert!(matches!(unwind::catch(|| 5), Ok(5)));
}
