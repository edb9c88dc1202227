//! What the address sanitizer is told of stacks. It notes, for each byte of a stack, whether it may be
//! touched now; when a panic leaves frames behind it forgets what it noted of the thread's stack, and
//! by itself it knows only the one that the OS gave the thread. `tools/sanitize` builds this, nobody else does.

use super::{Frame, current, switch::switch as switch_untold};
use crate::stack::Bounds;
use core::{
    ffi::c_void,
    ptr::{null, null_mut, with_exposed_provenance},
};

unsafe extern "C" {
    fn __sanitizer_start_switch_fiber(
        fake_stack: *mut *mut c_void,
        bottom: *const c_void,
        size: usize,
    );
    fn __sanitizer_finish_switch_fiber(
        fake_stack: *mut c_void,
        old_bottom: *mut *const c_void,
        old_size: *mut usize,
    );
    fn __lsan_register_root_region(start: *const c_void, size: usize);
    fn __lsan_unregister_root_region(start: *const c_void, size: usize);
}

/// What is known on the old stack only.
struct Order {
    old: *mut Frame,
    after: extern "C" fn(usize),
    argument: usize,
}

/// [`switch_untold`], and the sanitizer hears of it.
///
/// # Safety
/// As for [`context::switch`](crate::context::switch).
pub unsafe extern "C" fn switch(
    old: *mut Frame,
    new: *const Frame,
    after: extern "C" fn(usize),
    argument: usize,
) {
    // SAFETY: `new` is saved, and nobody else resumes it; its block is the current one by now.
    let stack = unsafe {
        match (*new).stack {
            Bounds::EMPTY => current().as_ref().stack(),
            known => known,
        }
    };
    let order = Order {
        old,
        after,
        argument,
    };
    let order = (&raw const order).expose_provenance();
    // SAFETY: the bounds are those of the stack that is switched to; then the caller's promise.
    unsafe {
        __sanitizer_start_switch_fiber(
            null_mut(),
            with_exposed_provenance(stack.low),
            stack.high - stack.low,
        );
        switch_untold(old, new, arrive, order);
    }
}

/// On the new stack, while nobody else has the old one.
extern "C" fn arrive(order: usize) {
    let (mut bottom, mut size) = (null(), 0);
    // SAFETY: the old stack stays as it was left until the action has run, and so does its frame, which
    // is nobody else's.
    let order = unsafe {
        __sanitizer_finish_switch_fiber(null_mut(), &mut bottom, &mut size);
        with_exposed_provenance::<Order>(order).read()
    };
    let low = bottom.expose_provenance();
    // SAFETY: as above.
    unsafe {
        (*order.old).stack = Bounds {
            low,
            high: low + size,
        };
    }
    (order.after)(order.argument);
}

/// A new stack: what is found on it may be all that refers to something.
pub fn stack_is_new(stack: Bounds) {
    // SAFETY: it is there until `stack_goes`.
    unsafe {
        __lsan_register_root_region(with_exposed_provenance(stack.low), stack.high - stack.low);
    }
}

/// A stack is about to go. What was noted of frames on it that nobody ever left is forgotten when it is
/// unmapped, if that is done by libc, where the sanitizer sees it.
pub fn stack_goes(stack: Bounds) {
    // SAFETY: told of by `stack_is_new`.
    unsafe {
        __lsan_unregister_root_region(with_exposed_provenance(stack.low), stack.high - stack.low);
    }
}
